// What a design can detect, before money is spent on it.
//
// A contrast with coefficients a(S) has in each context the variance
//     sd_z^2 = between + G (plan + trial / K) / R,   G = sum_S a(S)^2,
// over R rollouts of K trials, and its mean over C contexts is tested by Student's t with C - 1
// degrees of freedom.
#pragma once
#include "attribute/attribution.h"
#include "core/result.h"

#include <array>
#include <span>
#include <vector>

namespace loopscope {

// Variances on the scale of the metric (probabilities: 0 to 1).
struct VarianceComponents {
    // Of the contrast itself over contexts: how much the effect differs from context to context.
    double between_shapley = 0, between_pair = 0, between_difference = 0;
    double plan = 0;   // of an arm's success probability over rollouts
    double trial = 0;  // E[p (1 - p)], of one trial around its rollout's probability
};

struct PilotComponents {
    VarianceComponents components;  // negative estimates set to 0
    VarianceComponents unclipped;
    int contexts = 0;
    std::vector<std::string> warnings;  // what the pilot cannot tell apart
};
// Moments of a pilot study's first complete game; needs at least 2 contexts. One rollout cannot
// separate plan from trial, one trial per rollout neither: all of it is then counted as `trial` and
// a warning says so.
Result<PilotComponents> components_of(const StudyData& pilot, Metric metric);

double noise_gain(std::span<const double> weights);  // G
// sd_z; rollouts, trials >= 1.
double contrast_sd(double between, double gain, const VarianceComponents& components, int rollouts,
                   int trials);

// Power of the two-sided t test at level alpha against the mean `effect` of C >= 2 values with
// deviation sd > 0: the integral over s of [Phi(nc - t s) + Phi(-nc - t s)] times the density of
// chi_df / sqrt(df), nc = effect sqrt(C) / sd.
double t_test_power(double effect, double sd, int contexts, double alpha);
// The smallest effect that the test finds with that power; the normal form is what many contexts
// tend to. 0 < alpha < power < 1.
double detectable_effect(double sd, int contexts, double alpha = 0.05, double power = 0.8);
double detectable_effect_normal(double sd, int contexts, double alpha = 0.05, double power = 0.8);

struct Design {
    int contexts = 0, rollouts = 1, trials = 1;
};
struct PowerGoal {
    double alpha = 0.05;
    double power = 0.8;
    // Divide alpha by the number of components for Shapley values and by that of pairs for pairs,
    // as the correction for many claims will; a single A - B is one claim.
    bool families = true;
};
struct PowerRow {
    Design design;
    double shapley = 0, pair = 0, difference = 0;  // smallest effects found with the goal's power
    std::int64_t trials_in_all = 0;                // contexts x 2^players x rollouts x trials
};
// Errors name the field: players 1 to 12, contexts >= 2, rollouts, trials >= 1, variances finite
// and not negative.
Result<std::vector<PowerRow>> power_table(int players, const VarianceComponents& components,
                                          std::span<const Design> designs, const PowerGoal& goal);
// The cheapest of the rows (fewest trials in all) whose Shapley effect is at most `effect`; nullopt
// = none.
std::optional<PowerRow> cheapest(std::span<const PowerRow> rows, double effect);

}  // namespace loopscope
