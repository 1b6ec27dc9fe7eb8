// What a study of a known truth should find, and how sure an oracle could be.
#pragma once
#include "attribute/attribution.h"
#include "record/truth.h"

#include <span>
#include <vector>

namespace loopscope {

// The index of the true game of pass (or gain), indexed by mask as index_values() gives it.
std::vector<double> true_index(const Truth& truth, Metric metric, IndexKind kind, int order);

// Exact variance of z_c = sum_S weights[S] v_c(S) on pass, over contexts, plans and trials that are
// independent between arms:
//     Var_u(sum_S a_S p_S(u)) + E_u sum_S a_S^2 [h_S^2 + (p_S (1 - p_S) - h_S^2) / K] / R.
double true_contrast_variance(const Truth& truth, std::span<const double> weights, int rollouts,
                              int trials);

// Half-width of the interval of an oracle that knows this variance: z_{(1 + confidence) / 2}
// sqrt(variance / C).
double oracle_half_width(const Truth& truth, std::span<const double> weights, int contexts,
                         int rollouts, int trials, double confidence = 0.95);

}  // namespace loopscope
