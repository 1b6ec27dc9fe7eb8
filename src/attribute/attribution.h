// From trials to the worth of each feedback component: games, indices, cluster intervals, paired
// comparisons.
//
// Every index is I = sum_S a(S) v(S) and v(S) is a mean over contexts, so I = mean_c z_c with
// z_c = sum_S a(S) v_c(S); every question of uncertainty is one about the mean of the z_c
// (docs/attribution.md).
#pragma once
#include "core/result.h"
#include "record/trial.h"
#include "stats/intervals.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

// Derivative tensor D[S][t] = sum over T disjoint from S, |T| = t, of Delta_S v(T); for all |S| <=
// order, the empty S included. Delta_S v(T) = sum over R in S of (-1)^(|S| - |R|) v(T u R).
struct DerivativeTensor {
    int players = 0, order = 0;
    // rows[S] (S as mask, |S| <= order) has players - |S| + 1 entries; other S have none.
    std::vector<std::vector<double>> rows;
};
// value[S] for every coalition; size 2^n, n <= 24; 0 <= order <= n. O(2^n) for fixed order; an
// offset of all values costs no digits. (derivative_tensor.h has the algorithm and an exact integer
// form.)
DerivativeTensor derivative_tensor(std::span<const double> value, int order);

enum class IndexKind {
    shapley,
    banzhaf,
    sii,
    bii,
    moebius,
    co_moebius,
    chaining,
    stii,
    ksii,
    fsii,
    fbii
};
std::string_view name_of(IndexKind kind);
Result<IndexKind> index_named(std::string_view name);

// I(S) for every S with 1 <= |S| <= order, indexed by mask (other masks 0). `shapley` and `banzhaf`
// are sii and bii: the values proper are their singles. For stii, ksii, fsii and fbii the order is
// part of the index.
std::vector<double> index_values(std::span<const double> value, IndexKind kind, int order);
// The contrast: I(S) = sum_T weights[T] v(T), size 2^players; 1 <= |subset| <= order.
std::vector<double> contrast(IndexKind kind, int players, int order, std::uint32_t subset);

// Indices of a plain table, all kinds: `loopscope attribute --values FILE`.
struct ValueTable {
    std::vector<std::string> players;
    std::vector<double> values;  // 2^n
};
// Errors name the field (players[i], values[i], an unknown key) or the byte. At most 20 players;
// |value| <= 1e300.
Result<ValueTable> parse_value_table(std::string_view text);
// JSON for --values: {"players", "order", "value_of_none", "value_of_all", "indices": {KIND:
// [{"players", "value"}]}}, every kind for all coalitions of at most `order` players (shapley and
// banzhaf: of one).
std::string indices_of(const ValueTable& table, int order);

enum class Metric { compile, pass, fast, gain };
std::string_view name_of(Metric metric);

// Which claim: these frozen contexts, or contexts of this kind.
enum class Target { fixed, random };

struct StudyData {
    std::vector<std::string> players;
    std::vector<Arm> arms;
    // Planned ones that are missing are present with status nullopt; one that is absent counts as
    // missing too. The order does not matter. Missing for Reason::infrastructure takes its
    // (context, rollout) out of all arms instead.
    std::vector<Trial> trials;
    int rollouts = 1, trials_per_rollout = 1;
};

struct IndexEstimate {
    std::uint32_t subset = 0;  // mask over players
    // n = number of clusters (contexts or lineages); with target fixed, of contexts.
    stats::Estimate estimate;
    bool floor_used = false;    // the variance floor for rare outcomes was active
    int structurally_zero = 0;  // contexts in which all coalitions that differ render one prompt
    double p_value = 1, adjusted_p = 1;
};

struct GameEstimate {
    Metric metric = Metric::pass;
    Target target = Target::random;
    int generation = -1;  // -1 = pooled over generations, equal context weight
    std::string stratum;  // "" = all, else the parents' status: "fail", "compile", "pass", "fast"
    std::string setting;  // "" unless the arms form several games: "raw, planner X, coder Y"
    int contexts = 0;
    int clusters = 0;                             // what the interval counts as independent
    bool by_lineage = false;                      // clusters are lineages, not contexts
    std::vector<stats::Estimate> value;           // v(S) per coalition
    std::vector<IndexEstimate> shapley, banzhaf;  // one a player
    std::vector<IndexEstimate> interactions;      // all pairs and, for 3 players, the triple (SII)
    double missing_share = 0;  // of the planned trials of its arms; they count as failures
    bool exploratory = true;   // everything but the pooled primary family
    std::vector<std::string> warnings;
};

struct ArmComparison {
    int arm_a = 0, arm_b = 0;
    Metric metric = Metric::pass;
    Target target = Target::random;
    stats::Estimate difference;       // mean over contexts of A - B
    double p_t = 1, p_sign_flip = 1;  // the sign flips are those of whole clusters
    double adjusted_p = 1;  // of p_t: Holm over the comparisons on pass, else Benjamini-Hochberg
    bool floor_used = false;
    int structurally_zero = 0;  // contexts in which both render one prompt
    int contexts = 0;
};

struct Attribution {
    std::vector<std::string> players;
    std::vector<std::string> arms;    // names
    std::vector<GameEstimate> games;  // per metric: pooled first, then strata, then generations
    // Each arm against the empty coalition, the full one against each, each A/A control against
    // what it copies.
    std::vector<ArmComparison> comparisons;
    std::vector<double> missing_by_arm;  // share of planned trials
    int infrastructure_blocks = 0;       // (context, rollout) pairs left out of all arms
    int rollouts = 0, trials_per_rollout = 0, contexts = 0, lineages = 0;
    std::vector<std::string> warnings;  // what limits the conclusions
};

struct AttributionOptions {
    // Default: random when a game has at least 5 contexts, else fixed with a warning. Under 3
    // contexts there is no interval (infinite ends, p = 1) unless `fixed` is asked for.
    std::optional<Target> target;
    double confidence = 0.95;
};
// Errors: no trials, no context left, arms that do not cover all coalitions, a trial that is given
// twice, does not fit the plan, or contradicts another one of its context. At most 12 players.
//
// Corrections for many claims: Holm over the Shapley values of the pooled pass games (the primary
// family), Holm over their Banzhaf values, Holm over their interactions; Benjamini-Hochberg over
// all other games by kind of index.
Result<Attribution> attribute(const StudyData& data, const AttributionOptions& options);

// Paired comparison of any two arms. `data` as attribute() accepts it, but the arms need not cover
// all coalitions; data that it refuses give contexts = 0 and no interval.
ArmComparison compare_arms(const StudyData& data, Metric metric, int arm_a, int arm_b,
                           double confidence = 0.95);

std::string encode(const Attribution& value);  // JSON for --json; an infinite end is null
std::string csv_of(
    const Attribution& value);  // a line per estimate, with header; an infinite end is inf or -inf

}  // namespace loopscope
