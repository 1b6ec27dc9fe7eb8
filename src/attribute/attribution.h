// From trials to the worth of each feedback component: games, indices, cluster intervals, paired comparisons.
//
// Every index is I = sum_S a(S) v(S) and v(S) is a mean over contexts, so I = mean_c z_c with
// z_c = sum_S a(S) v_c(S); every question of uncertainty is one about the mean of the z_c.
#pragma once
#include "core/result.h"
#include "record/trial.h"
#include "stats/intervals.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

// Derivative tensor D[S][t] = sum over T disjoint from S, |T| = t, of Delta_S v(T); for all |S| <= order.
struct DerivativeTensor {
    int players = 0, order = 0;
    // rows[S] (S as mask, |S| <= order) has players - |S| + 1 entries; other S have none.
    std::vector<std::vector<double>> rows;
};
// value[S] for every coalition; size 2^n, n <= 24.  O(2^n) for fixed order.
DerivativeTensor derivative_tensor(std::span<const double> value, int order);

enum class IndexKind { shapley, banzhaf, sii, bii, moebius, co_moebius, chaining, stii, ksii, fsii, fbii };
std::string_view name_of(IndexKind kind);
Result<IndexKind> index_named(std::string_view name);

// I(S) for every S with 1 <= |S| <= order, indexed by mask (other masks 0).
std::vector<double> index_values(std::span<const double> value, IndexKind kind, int order);
// The contrast: I(S) = sum_T weights[T] v(T), size 2^players.
std::vector<double> contrast(IndexKind kind, int players, int order, std::uint32_t subset);

// Indices of a plain table, all kinds: `loopscope attribute --values FILE`.
struct ValueTable {
    std::vector<std::string> players;
    std::vector<double> values;   // 2^n
};
Result<ValueTable> parse_value_table(std::string_view json);

enum class Metric { compile, pass, fast, gain };
std::string_view name_of(Metric metric);

// Which claim: these frozen contexts, or contexts of this kind.
enum class Target { fixed, random };

struct StudyData {
    std::vector<std::string> players;
    std::vector<Arm> arms;
    std::vector<Trial> trials;        // planned ones that are missing are present with status nullopt
    int rollouts = 1, trials_per_rollout = 1;
};

struct IndexEstimate {
    std::uint32_t subset = 0;         // mask over players
    stats::Estimate estimate;         // n = number of contexts (clusters)
    bool floor_used = false;          // the variance floor for rare outcomes was active
    int structurally_zero = 0;        // contexts in which all coalitions that differ render one prompt
    double p_value = 1, adjusted_p = 1;
};

struct GameEstimate {
    Metric metric = Metric::pass;
    Target target = Target::random;
    int generation = -1;              // -1 = pooled over generations, equal context weight
    std::string stratum;              // "" = all, else the parents' status: "fail", "compile", "pass", "fast"
    int contexts = 0;
    std::vector<stats::Estimate> value;             // v(S) per coalition
    std::vector<IndexEstimate> shapley, banzhaf;    // one a player
    std::vector<IndexEstimate> interactions;        // all pairs and, for 3 players, the triple (SII)
    double missing_share = 0;
    bool exploratory = true;          // everything but the pooled primary family
    std::vector<std::string> warnings;
};

struct ArmComparison {
    int arm_a = 0, arm_b = 0;
    Metric metric = Metric::pass;
    stats::Estimate difference;       // mean over contexts of A - B
    double p_t = 1, p_sign_flip = 1, adjusted_p = 1;
    int contexts = 0;
};

struct Attribution {
    std::vector<std::string> players;
    std::vector<GameEstimate> games;       // per metric: pooled first, then strata, then generations
    std::vector<ArmComparison> comparisons;   // each arm against the empty coalition, and the full one against each
    std::vector<double> missing_by_arm;
    int rollouts = 0, trials_per_rollout = 0, contexts = 0, lineages = 0;
    std::vector<std::string> warnings;     // what limits the conclusions
};

struct AttributionOptions {
    std::optional<Target> target;     // default: random when there are at least 5 contexts, else fixed with a warning
    double confidence = 0.95;
};
// Errors: no trials, fewer than one context, arms that do not cover all coalitions.
Result<Attribution> attribute(const StudyData& data, const AttributionOptions& options);

// Paired comparison of any two arms.
ArmComparison compare_arms(const StudyData& data, Metric metric, int arm_a, int arm_b, double confidence = 0.95);

std::string encode(const Attribution& value);   // JSON for --json
std::string csv_of(const Attribution& value);   // a line per estimate, with header

}  // namespace loopscope
