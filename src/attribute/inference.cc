#include "attribute/inference.h"

#include "core/check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace loopscope {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int few = 5;  // successes or failures; docs/attribution.md, "Rare outcomes"

std::size_t row_start(const DesignLayout& layout, const ArmTable& table, std::size_t c,
                      std::size_t r) {
    return ((c * static_cast<std::size_t>(layout.rollouts)) + r) * table.arms.size();
}

// An interval that claims nothing.
void refuse(IndexEstimate& result) {
    result.estimate.low = -infinity;
    result.estimate.high = infinity;
    result.estimate.standard_error = infinity;
    result.estimate.df = 0;
    result.p_value = 1;
}

struct Spread {
    double variance = 0;  // of the mean over the selection
    double df = 0;        // 0 = not estimable
};

// Cluster-robust variance of the mean with the bias correction CR2 (Bell and McCaffrey 2002), which
// for clusters of one size is the variance of cluster means over their number. The degrees of
// freedom are those of the effective number of clusters (Carter, Schnepel and Steigerwald 2017).
Spread between_clusters(const Contrast& contrast, const Selection& selection, std::size_t m,
                        double mean) {
    const auto contexts = static_cast<double>(selection.contexts.size());
    const auto clusters = static_cast<std::size_t>(selection.clusters);
    std::vector<double> deviation(clusters, 0.0);
    std::vector<double> size(clusters, 0.0);
    for (std::size_t i = 0; i < selection.contexts.size(); ++i) {
        const auto k = static_cast<std::size_t>(selection.cluster[i]);
        deviation[k] += contrast.rows[selection.contexts[i]].z[m] - mean;
        size[k] += 1;
    }
    Spread spread;
    if (clusters < 2)
        return spread;
    for (std::size_t k = 0; k < clusters; ++k)
        spread.variance += deviation[k] * deviation[k] / (1 - (size[k] / contexts));
    spread.variance /= contexts * contexts;
    spread.df = std::max(1.0, selection.effective_clusters - 1);
    return spread;
}

// These contexts only: the spread of z_c over its rollouts, or with one rollout that over its
// trials.
Spread within_contexts(const Contrast& contrast, const Selection& selection, std::size_t m) {
    double sum = 0;
    double weighted = 0;  // sum V_c^2 / df_c
    double all_df = 0;
    for (const std::size_t c : selection.contexts) {
        const ContrastRow& row = contrast.rows[c];
        if (row.structurally_zero)
            continue;
        const bool blocks = row.rollouts > 1;
        const double variance = blocks ? row.block_variance[m] : row.trial_variance[m];
        const double df = blocks ? row.rollouts - 1 : row.trial_df[m];
        if (df <= 0)
            return {};
        sum += variance;
        weighted += variance * variance / df;
        all_df += df;
    }
    const auto contexts = static_cast<double>(selection.contexts.size());
    Spread spread;
    spread.variance = sum / (contexts * contexts);
    spread.df = weighted > 0 ? sum * sum / weighted : all_df;
    return spread;
}

}  // namespace

ArmTable tie_arms(const DesignLayout& layout, std::span<const int> arms) {
    ArmTable table;
    table.arms.assign(arms.begin(), arms.end());
    const std::size_t n = arms.size();
    const std::size_t total =
        layout.contexts.size() * static_cast<std::size_t>(layout.rollouts) * n;
    table.group.assign(total, 0);
    table.group_size.assign(total, 0);
    table.value.resize(total);
    table.scatter.resize(total);
    std::vector<int> first;  // of each prompt
    for (std::size_t c = 0; c < layout.contexts.size(); ++c) {
        for (std::size_t r = 0; r < static_cast<std::size_t>(layout.rollouts); ++r) {
            const std::size_t start = row_start(layout, table, c, r);
            first.assign(layout.arms, -1);
            for (std::size_t i = 0; i < n; ++i) {
                const DesignCell& cell = layout.cell(c, static_cast<std::size_t>(arms[i]), r);
                int group = static_cast<int>(i);
                if (cell.prompt >= 0) {
                    int& seen = first[static_cast<std::size_t>(cell.prompt)];
                    if (seen < 0)
                        seen = group;
                    group = seen;
                }
                table.group[start + i] = group;
                const std::size_t at = start + static_cast<std::size_t>(group);
                ++table.group_size[at];
                for (std::size_t m = 0; m < metric_count; ++m) {
                    table.value[at][m] += cell.mean[m];
                    table.scatter[at][m] += cell.scatter[m];
                }
            }
            for (std::size_t i = 0; i < n; ++i) {
                const std::size_t at = start + static_cast<std::size_t>(table.group[start + i]);
                if (at == start + i) {
                    for (std::size_t m = 0; m < metric_count; ++m) {
                        table.value[at][m] /= table.group_size[at];
                        table.scatter[at][m] /= table.group_size[at];
                    }
                } else {
                    table.value[start + i] = table.value[at];
                    table.scatter[start + i] = table.scatter[at];
                }
            }
        }
    }
    return table;
}

Contrast contrast_over(const DesignLayout& layout, const ArmTable& table,
                       std::span<const double> weights) {
    const std::size_t n = table.arms.size();
    CHECK(weights.size() == n);
    double size = 0;
    std::vector<std::size_t> used;  // positions with a coefficient
    for (std::size_t i = 0; i < n; ++i) {
        size += std::abs(weights[i]);
        if (weights[i] != 0)
            used.push_back(i);
    }
    // Coefficients that cancel exactly leave rounding residues far below this.
    const double negligible = 1e-12 * size;
    const double trials = layout.trials;
    Contrast contrast;
    contrast.positions = n;
    contrast.rows.resize(layout.contexts.size());
    contrast.noise_weight.assign(layout.contexts.size() * n, 0.0);
    std::vector<double> pooled(n,
                               0.0);  // coefficient of each distinct prompt, at its first position
    std::vector<std::array<double, metric_count>> blocks;
    for (std::size_t c = 0; c < layout.contexts.size(); ++c) {
        ContrastRow& row = contrast.rows[c];
        const std::vector<int>& kept = layout.contexts[c].kept;
        row.rollouts = static_cast<int>(kept.size());
        row.structurally_zero = true;
        const double count = row.rollouts;
        blocks.assign(kept.size(), {});
        std::array<double, metric_count> trial_weighted{};
        for (std::size_t b = 0; b < kept.size(); ++b) {
            const auto rollout = static_cast<std::size_t>(kept[b]);
            const std::size_t start = row_start(layout, table, c, rollout);
            std::fill(pooled.begin(), pooled.end(), 0.0);
            for (const std::size_t i : used)
                pooled[static_cast<std::size_t>(table.group[start + i])] += weights[i];
            for (std::size_t i = 0; i < n; ++i) {
                const std::size_t at = start + static_cast<std::size_t>(table.group[start + i]);
                const double coefficient = pooled[at - start];
                if (std::abs(coefficient) <= negligible)
                    continue;
                row.structurally_zero = false;
                const double share = 1.0 / table.group_size[at];
                contrast.noise_weight[(c * n) + i] +=
                    coefficient * coefficient * share / (count * count * trials);
                const DesignCell& cell =
                    layout.cell(c, static_cast<std::size_t>(table.arms[i]), rollout);
                const double missing = coefficient * share * cell.missing / (trials * count);
                (missing > 0 ? row.missing_up : row.missing_down) += std::abs(missing);
                if (at != start + i)
                    continue;
                for (std::size_t m = 0; m < metric_count; ++m) {
                    blocks[b][m] += coefficient * table.value[at][m];
                    const double term =
                        coefficient * coefficient * table.scatter[at][m] / (count * count);
                    row.trial_variance[m] += term;
                    if (trials > 1)
                        trial_weighted[m] += term * term / (trials - 1);
                }
            }
        }
        for (std::size_t m = 0; m < metric_count; ++m) {
            double sum = 0;
            for (const auto& block : blocks)
                sum += block[m];
            row.z[m] = sum / count;
            if (row.rollouts > 1) {
                double squares = 0;
                for (const auto& block : blocks)
                    squares += (block[m] - row.z[m]) * (block[m] - row.z[m]);
                row.block_variance[m] = squares / (count - 1) / count;
            }
            if (trials > 1)
                row.trial_df[m] =
                    trial_weighted[m] > 0
                        ? row.trial_variance[m] * row.trial_variance[m] / trial_weighted[m]
                        : trials - 1;
        }
    }
    return contrast;
}

Selection selection_of(const DesignLayout& layout, std::vector<std::size_t> contexts,
                       const AttributionOptions& options) {
    Selection selection;
    selection.confidence = options.confidence;
    selection.contexts = std::move(contexts);
    const std::size_t count = selection.contexts.size();
    selection.target = options.target.value_or(count >= 5 ? Target::random : Target::fixed);
    selection.refused =
        count < 3 && !(options.target && *options.target == Target::fixed && count > 0);
    std::map<std::string, int> known;
    for (const std::size_t c : selection.contexts)
        if (!layout.contexts[c].lineage.empty())
            known.emplace(layout.contexts[c].lineage, 0);
    selection.lineages = static_cast<int>(known.size());
    selection.by_lineage = known.size() >= 5;
    for (auto& [lineage, number] : known)
        number = selection.by_lineage ? selection.clusters++ : 0;
    std::vector<double> size(static_cast<std::size_t>(selection.clusters), 0.0);
    for (const std::size_t c : selection.contexts) {
        const std::string& lineage = layout.contexts[c].lineage;
        int cluster = 0;
        if (selection.by_lineage && !lineage.empty()) {
            cluster = known[lineage];
        } else {
            cluster = selection.clusters++;
            size.push_back(0);
        }
        selection.cluster.push_back(cluster);
        size[static_cast<std::size_t>(cluster)] += 1;
    }
    double squares = 0;
    for (const double n : size)
        squares += n * n;
    if (squares > 0)
        selection.effective_clusters = static_cast<double>(count * count) / squares;
    return selection;
}

Pooled pool(const DesignLayout& layout, const ArmTable& table, const Selection& selection,
            Metric metric) {
    const std::size_t m = slot(metric);
    Pooled pooled;
    std::vector<double> share;
    double gains = 0;
    double sum = 0;
    double squares = 0;
    for (const int arm : table.arms) {
        double positive = 0;
        double total = 0;
        for (const std::size_t c : selection.contexts) {
            for (const int rollout : layout.contexts[c].kept) {
                const DesignCell& cell = layout.cell(c, static_cast<std::size_t>(arm),
                                                     static_cast<std::size_t>(rollout));
                positive += cell.positive[m];
                total += layout.trials;
                sum += cell.mean[m] * layout.trials;
                squares += cell.gain_squares;
            }
        }
        gains += positive;
        // A gain of every trial is no degenerate case: only its absence is.
        const bool rare = positive < few || (metric != Metric::gain && total - positive < few);
        pooled.rare.push_back(rare ? 1 : 0);
        share.push_back((positive + 1) / (total + 2));
    }
    for (const double p : share) {
        double variance = p * (1 - p);
        if (metric == Metric::gain) {
            // A gain is there with probability p and then has the mean and mean square of all
            // positive gains.
            const double mean = sum / gains;
            variance = gains > 0 ? (p * squares / gains) - (p * mean * p * mean)
                                 : std::numeric_limits<double>::quiet_NaN();
        }
        pooled.variance.push_back(variance);
    }
    return pooled;
}

IndexEstimate infer(const Contrast& contrast, const Selection& selection, const Pooled& pooled,
                    Metric metric) {
    const std::size_t m = slot(metric);
    const auto contexts = static_cast<double>(selection.contexts.size());
    IndexEstimate result;
    std::vector<double> z;
    std::vector<double> weight(contrast.positions, 0.0);
    for (const std::size_t c : selection.contexts) {
        z.push_back(contrast.rows[c].z[m]);
        result.structurally_zero += contrast.rows[c].structurally_zero ? 1 : 0;
        for (std::size_t i = 0; i < contrast.positions; ++i)
            weight[i] += contrast.noise_weight[(c * contrast.positions) + i];
    }
    result.estimate.value = z.empty() ? 0 : stats::mean(z);
    result.estimate.n = selection.target == Target::random
                            ? static_cast<std::size_t>(selection.clusters)
                            : selection.contexts.size();
    if (!z.empty() && result.structurally_zero == static_cast<int>(z.size())) {
        // Nothing was compared: zero by construction, not by estimation.
        result.estimate.value = 0;
        return result;
    }
    if (selection.refused) {
        refuse(result);
        return result;
    }
    Spread spread = selection.target == Target::random
                        ? between_clusters(contrast, selection, m, result.estimate.value)
                        : within_contexts(contrast, selection, m);
    if (spread.df <= 0) {
        refuse(result);
        return result;
    }
    bool rare = spread.variance <= 0;
    double floor = 0;
    for (std::size_t i = 0; i < contrast.positions; ++i) {
        if (weight[i] <= 0)
            continue;
        rare = rare || pooled.rare[i] != 0;
        floor += weight[i] * pooled.variance[i];
    }
    floor /= contexts * contexts;
    if (rare && std::isnan(floor)) {
        refuse(result);
        return result;
    }
    if (rare && floor > spread.variance) {
        spread.variance = floor;
        result.floor_used = true;
    }
    stats::Estimate& estimate = result.estimate;
    estimate.standard_error = std::sqrt(spread.variance);
    estimate.df = spread.df;
    const double half = stats::student_t_quantile(0.5 + (selection.confidence / 2), spread.df) *
                        estimate.standard_error;
    estimate.low = estimate.value - half;
    estimate.high = estimate.value + half;
    result.p_value =
        stats::student_t_two_sided(estimate.value / estimate.standard_error, spread.df);
    return result;
}

std::vector<double> cluster_sums(const Contrast& contrast, const Selection& selection,
                                 Metric metric) {
    std::vector<double> sums(static_cast<std::size_t>(selection.clusters), 0.0);
    for (std::size_t i = 0; i < selection.contexts.size(); ++i)
        sums[static_cast<std::size_t>(selection.cluster[i])] +=
            contrast.rows[selection.contexts[i]].z[slot(metric)];
    return sums;
}

}  // namespace loopscope
