// One contrast over arms: its value in each context, and the interval of its mean.
#pragma once
#include "attribute/layout.h"

#include <array>
#include <span>
#include <vector>

namespace loopscope {

// The arms of a game or a comparison, with the ones that share a prompt in a (context, rollout)
// tied together.
struct ArmTable {
    std::vector<int> arms;  // position -> arm
    // Per (context, rollout, position): the first position of its group, and the group's mean
    // outcome.
    std::vector<int> group;
    std::vector<int> group_size;  // at the first position; 0 elsewhere
    std::vector<std::array<double, metric_count>> value;
    std::vector<std::array<double, metric_count>> scatter;
};
ArmTable tie_arms(const DesignLayout& layout, std::span<const int> arms);

// z_c and what its interval needs, per context of the layout.
struct ContrastRow {
    std::array<double, metric_count> z{};
    std::array<double, metric_count> block_variance{};  // of z_c, from its rollouts
    std::array<double, metric_count> trial_variance{};  // of z_c, from the trials within rollouts
    std::array<double, metric_count> trial_df{};        // Satterthwaite's, of trial_variance
    int rollouts = 0;
    bool structurally_zero = false;  // the coefficients of every distinct prompt cancel
    double missing_up = 0,
           missing_down = 0;  // how far z_c rises (falls) if missing trials favour (oppose) it
};
struct Contrast {
    std::vector<ContrastRow> rows;
    // Per context and position: sum over distinct prompts of (pooled coefficient)^2 / trials,
    // shared among the arms of the prompt: the weight of the position's p (1 - p) in the variance
    // of z_c.
    std::vector<double> noise_weight;
    std::size_t positions = 0;
};
Contrast contrast_over(const DesignLayout& layout, const ArmTable& table,
                       std::span<const double> weights);

// The contexts of one game, and what is independent among them.
struct Selection {
    std::vector<std::size_t> contexts;
    std::vector<int> cluster;  // of each of these contexts
    int clusters = 0;
    double effective_clusters = 0;  // (sum n)^2 / sum n^2 over clusters of n contexts
    int lineages = 0;               // 0 = not recorded
    bool by_lineage = false;
    Target target = Target::random;
    bool refused = false;  // too few contexts for any interval
    double confidence = 0.95;
};
Selection selection_of(const DesignLayout& layout, std::vector<std::size_t> contexts,
                       const AttributionOptions& options);

// Outcomes pooled over the contexts of a selection, per position: the variance that one trial has
// at least.
struct Pooled {
    std::vector<double>
        variance;  // p (1 - p) with p = (successes + 1) / (trials + 2); NaN = no scale known
    std::vector<char> rare;  // fewer than 5 successes or fewer than 5 failures
};
Pooled pool(const DesignLayout& layout, const ArmTable& table, const Selection& selection,
            Metric metric);

IndexEstimate infer(const Contrast& contrast, const Selection& selection, const Pooled& pooled,
                    Metric metric);

// Sums of z_c by cluster: what a sign flip flips.
std::vector<double> cluster_sums(const Contrast& contrast, const Selection& selection,
                                 Metric metric);

}  // namespace loopscope
