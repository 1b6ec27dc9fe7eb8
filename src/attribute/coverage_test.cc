// Statistical promises by simulation with fixed seeds: intervals cover at their level, nothing is
// found where nothing is.
#include "attribute/attribution.h"
#include "attribute/truth_values.h"
#include "core/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace loopscope {
namespace {

// The nested model: 40 % of the contexts fail and gain .30 e from a; the others gain (.12 b + .10 c
// + .16 b c) e; e has mean 1; a plan shifts the probability by up to .15.
struct Model {
    int contexts = 10, rollouts = 1, trials = 3;
    bool null = false;  // A/A: no component does anything
};

double effect_of(bool failing, std::uint32_t s) {
    const double a = s & 1U;
    const double b = s >> 1U & 1U;
    const double c = s >> 2U & 1U;
    return failing ? 0.30 * a : (0.12 * b) + (0.10 * c) + (0.16 * b * c);
}

StudyData draw(const Model& model, std::uint64_t seed) {
    StudyData data;
    data.players = {"a", "b", "c"};
    data.rollouts = model.rollouts;
    data.trials_per_rollout = model.trials;
    for (std::uint32_t s = 0; s < 8; ++s) {
        Arm arm;
        arm.coalition = s;
        data.arms.push_back(arm);
    }
    Rng rng(seed);
    for (int c = 0; c < model.contexts; ++c) {
        const bool failing = rng.unit() < 0.4;
        const double base = 0.10 + (0.30 * rng.unit());
        const double strength = 0.5 + rng.unit();
        for (std::uint32_t s = 0; s < 8; ++s) {
            const double p = base + (model.null ? 0 : effect_of(failing, s) * strength);
            const double shift = std::min({0.15, p, 1 - p});
            for (int r = 0; r < model.rollouts; ++r) {
                const double q = p + (shift * ((2 * rng.unit()) - 1));
                for (int t = 0; t < model.trials; ++t) {
                    Trial trial;
                    trial.context = std::to_string(c);
                    trial.arm = static_cast<int>(s);
                    trial.rollout = r;
                    trial.trial = t;
                    trial.status = rng.unit() < q ? Status::pass : Status::fail;
                    data.trials.push_back(std::move(trial));
                }
            }
        }
    }
    return data;
}

// Shapley a, b, c, then the pairs and the triple.
std::vector<double> truth_of(const Model& model) {
    std::vector<double> v(8);
    for (std::uint32_t s = 0; s < 8; ++s)
        v[s] = model.null ? 0 : (0.4 * effect_of(true, s)) + (0.6 * effect_of(false, s));
    const std::vector<double> sii = index_values(v, IndexKind::sii, 3);
    return {sii[1], sii[2], sii[4], sii[3], sii[5], sii[6], sii[7]};
}

struct Counts {
    std::vector<int> covered = std::vector<int>(7, 0);
    std::vector<double> width = std::vector<double>(7, 0.0);
    int any_claim = 0;  // a Shapley value with adjusted p < .05
    int rejected = 0;   // comparisons of the full arm with the empty one at p < .05
};

Counts simulate(const Model& model, int repeats) {
    const std::vector<double> truth = truth_of(model);
    Counts counts;
    for (int i = 0; i < repeats; ++i) {
        const StudyData data =
            draw(model, hash64(20260601, {static_cast<std::uint64_t>(i),
                                          static_cast<std::uint64_t>(model.contexts)}));
        const auto result = attribute(data, {});
        EXPECT_TRUE(result);
        const auto game = std::find_if(
            result->games.begin(), result->games.end(),
            [](const GameEstimate& g) { return g.metric == Metric::pass && g.generation < 0; });
        std::vector<stats::Estimate> estimates;
        bool claimed = false;
        for (const IndexEstimate& e : game->shapley) {
            estimates.push_back(e.estimate);
            claimed = claimed || e.adjusted_p < 0.05;
        }
        for (const IndexEstimate& e : game->interactions)
            estimates.push_back(e.estimate);
        for (std::size_t j = 0; j < truth.size(); ++j) {
            counts.covered[j] +=
                estimates[j].low <= truth[j] && truth[j] <= estimates[j].high ? 1 : 0;
            counts.width[j] += (estimates[j].high - estimates[j].low) / repeats;
        }
        counts.any_claim += claimed ? 1 : 0;
        for (const ArmComparison& comparison : result->comparisons)
            if (comparison.metric == Metric::pass && comparison.arm_a == 7 && comparison.arm_b == 0)
                counts.rejected += comparison.p_t < 0.05 ? 1 : 0;
    }
    return counts;
}

TEST(Coverage, ClusterTInTheNestedModel) {
    Model model;
    constexpr int repeats = 1000;
    const Counts counts = simulate(model, repeats);
    for (std::size_t j = 0; j < 7; ++j) {
        // Within [.93, .97]; the binomial error of a share of 1000 is .007.
        EXPECT_GE(counts.covered[j], 0.93 * repeats) << j;
        EXPECT_LE(counts.covered[j], 0.975 * repeats) << j;
    }
}

TEST(Coverage, TwentyContextsThreeRollouts) {
    Model model;
    model.contexts = 20;
    model.rollouts = 3;
    model.trials = 2;
    constexpr int repeats = 400;
    const Counts counts = simulate(model, repeats);
    for (std::size_t j = 0; j < 7; ++j) {
        EXPECT_GE(counts.covered[j], 0.92 * repeats) << j;
        EXPECT_LE(counts.covered[j], 0.98 * repeats) << j;
    }
}

TEST(Coverage, NothingIsFoundWhereNothingIs) {
    Model model;
    model.null = true;
    constexpr int repeats = 1000;
    const Counts counts = simulate(model, repeats);
    EXPECT_GE(counts.rejected, 0.03 * repeats);
    EXPECT_LE(counts.rejected, 0.07 * repeats);
    EXPECT_LE(counts.any_claim, 0.07 * repeats);  // the family of three at 5 %
}

TEST(Coverage, FixedContextsCoverTheirOwnMean) {
    // Four contexts that are always the same; the truth is their own.
    int covered = 0;
    double width = 0;
    constexpr int repeats = 800;
    for (int i = 0; i < repeats; ++i) {
        StudyData data;
        data.players = {"a"};
        data.arms.resize(2);
        data.arms[1].coalition = 1;
        data.rollouts = 3;
        data.trials_per_rollout = 4;
        Rng rng(hash64(77, {static_cast<std::uint64_t>(i)}));
        double truth = 0;
        for (int c = 0; c < 4; ++c) {
            const double effect = 0.15 * c;
            truth += effect / 4;
            for (int a = 0; a < 2; ++a)
                for (int r = 0; r < 3; ++r) {
                    const double q = 0.3 + (a * effect) + (0.1 * (rng.unit() < 0.5 ? -1 : 1));
                    for (int t = 0; t < 4; ++t) {
                        Trial trial;
                        trial.context = std::to_string(c);
                        trial.arm = a;
                        trial.rollout = r;
                        trial.trial = t;
                        trial.status = rng.unit() < q ? Status::pass : Status::fail;
                        data.trials.push_back(std::move(trial));
                    }
                }
        }
        const auto result = attribute(data, {});
        ASSERT_TRUE(result);
        for (const GameEstimate& game : result->games) {
            if (game.metric != Metric::pass || game.generation >= 0)
                continue;
            ASSERT_EQ(game.target, Target::fixed);
            const stats::Estimate& e = game.shapley[0].estimate;
            covered += e.low <= truth && truth <= e.high ? 1 : 0;
            width += (e.high - e.low) / repeats;
        }
    }
    EXPECT_GE(covered, 0.93 * repeats);
    EXPECT_LE(covered, 0.985 * repeats);
    EXPECT_LT(width, 0.6);
}

TEST(Coverage, LineagesCarryTheirDependence) {
    // Contexts of a lineage share their effect. Counting contexts would cover far less than 95 %.
    int by_lineage = 0;
    int by_context = 0;
    constexpr int repeats = 600;
    for (int i = 0; i < repeats; ++i) {
        StudyData data;
        data.players = {"a"};
        data.arms.resize(2);
        data.arms[1].coalition = 1;
        data.trials_per_rollout = 4;
        Rng rng(hash64(78, {static_cast<std::uint64_t>(i)}));
        // Unequal lineages: of 2, 3, 4, ... contexts.
        for (int l = 0; l < 8; ++l) {
            const double effect = 0.2 + (0.2 * ((2 * rng.unit()) - 1));
            for (int c = 0; c < 2 + l % 4; ++c)
                for (int a = 0; a < 2; ++a)
                    for (int t = 0; t < 4; ++t) {
                        Trial trial;
                        trial.context = std::to_string(l) + "/" + std::to_string(c);
                        trial.lineage = std::to_string(l);
                        trial.arm = a;
                        trial.trial = t;
                        trial.status =
                            rng.unit() < 0.3 + (a * effect) ? Status::pass : Status::fail;
                        data.trials.push_back(std::move(trial));
                    }
        }
        const auto covers = [&] {
            const auto result = attribute(data, {});
            for (const GameEstimate& game : result->games)
                if (game.metric == Metric::pass && game.generation < 0)
                    return game.shapley[0].estimate.low <= 0.2 &&
                           0.2 <= game.shapley[0].estimate.high;
            return false;
        };
        by_lineage += covers() ? 1 : 0;
        for (Trial& trial : data.trials)
            trial.lineage.clear();
        by_context += covers() ? 1 : 0;
    }
    EXPECT_GE(by_lineage, 0.925 * repeats);
    EXPECT_LE(by_lineage, 0.985 * repeats);
    EXPECT_LT(by_context, by_lineage);
}

TEST(TruthValues, StudiesOfAKnownTruthAreCovered) {
    // The positive control in small: a truth, contexts drawn from its law, plans and trials; 100
    // studies.
    const auto truth = parse_truth(R"({
        "players": ["debugger", "analyzer", "placebo"],
        "pass": [{"players": [], "effect": 0.25}, {"players": ["debugger"], "effect": 0.25},
                 {"players": ["analyzer"], "effect": 0.2}],
        "context": {"support": [-1, 0, 1], "weights": [0.25, 0.5, 0.25], "level": 0.05, "relative": 0.3},
        "plan_spread": 0.1})");
    ASSERT_TRUE(truth) << to_text(truth.error());
    const std::vector<double> shapley = true_index(*truth, Metric::pass, IndexKind::shapley, 1);
    EXPECT_DOUBLE_EQ(shapley[1], 0.25);
    EXPECT_DOUBLE_EQ(shapley[2], 0.2);
    EXPECT_NEAR(shapley[4], 0, 1e-15);
    constexpr int repeats = 200;
    constexpr int contexts = 16;
    std::vector<int> covered(3, 0);
    std::vector<int> found(3, 0);
    std::vector<double> half(3, 0.0);
    std::vector<double> square(3, 0.0);
    for (int i = 0; i < repeats; ++i) {
        StudyData data = draw(Model{1, 2, 2, true}, 1);  // the arms
        data.players = truth->players;
        data.trials.clear();
        Rng rng(hash64(79, {static_cast<std::uint64_t>(i)}));
        for (int c = 0; c < contexts; ++c) {
            const double u = context_effect(*truth, rng.next());
            for (std::uint32_t s = 0; s < 8; ++s)
                for (int r = 0; r < 2; ++r) {
                    const double q = success_probability(*truth, s, u, rng.unit() < 0.5);
                    for (int t = 0; t < 2; ++t) {
                        Trial trial;
                        trial.context = std::to_string(c);
                        trial.arm = static_cast<int>(s);
                        trial.rollout = r;
                        trial.trial = t;
                        trial.status = rng.unit() < q ? Status::pass : Status::fail;
                        data.trials.push_back(std::move(trial));
                    }
                }
        }
        const auto result = attribute(data, {});
        ASSERT_TRUE(result);
        for (const GameEstimate& game : result->games) {
            if (game.metric != Metric::pass || game.generation >= 0)
                continue;
            for (std::size_t j = 0; j < 3; ++j) {
                const stats::Estimate& e = game.shapley[j].estimate;
                const double want = shapley[std::size_t{1} << j];
                covered[j] += e.low <= want && want <= e.high ? 1 : 0;
                found[j] += game.shapley[j].adjusted_p < 0.05 ? 1 : 0;
                half[j] += (e.high - e.low) / 2 / repeats;
                square[j] += (e.value - want) * (e.value - want) / repeats;
            }
        }
    }
    for (std::size_t j = 0; j < 3; ++j) {
        const std::vector<double> a = contrast(IndexKind::shapley, 3, 1, 1U << j);
        EXPECT_GE(covered[j], 0.91 * repeats) << j;
        // The exact variance is that of the estimates, and the interval is near the oracle's.
        EXPECT_NEAR(square[j] * contexts / true_contrast_variance(*truth, a, 2, 2), 1, 0.3) << j;
        EXPECT_LT(half[j], 1.3 * oracle_half_width(*truth, a, contexts, 2, 2)) << j;
        EXPECT_GT(half[j], 0.9 * oracle_half_width(*truth, a, contexts, 2, 2)) << j;
    }
    EXPECT_GE(found[0], 0.9 * repeats);
    EXPECT_GE(found[1], 0.9 * repeats);
    EXPECT_LE(found[2], 0.08 * repeats);
}

}  // namespace
}  // namespace loopscope
