#include "attribute/power.h"

#include "attribute/inference.h"
#include "attribute/layout.h"
#include "core/check.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace loopscope {

namespace {

// ln Gamma(n / 2) for a whole n >= 1 (std::lgamma writes a global).
double log_gamma_of_half(double n) {
    double at = std::fmod(n, 2) == 0 ? 1 : 0.5;
    double sum = at == 1 ? 0 : 0.5 * std::log(std::numbers::pi);
    for (; at < n / 2; at += 1)
        sum += std::log(at);
    return sum;
}

double power_at(double noncentrality, double t, double df) {
    // Density of s = chi_df / sqrt(df); beyond 12 of its deviations 1 / sqrt(2 df) it is below
    // 1e-30 for df >= 2, and for df = 1 the law is half a normal one.
    const double log_scale = std::log(2.0) + (df / 2 * std::log(df / 2)) - log_gamma_of_half(df);
    const auto integrand = [&](double s) {
        if (s <= 0 && df > 1)
            return 0.0;
        const double log_density =
            log_scale + (df > 1 ? (df - 1) * std::log(s) : 0.0) - (df * s * s / 2);
        return std::exp(log_density) * (stats::normal_cdf(noncentrality - (t * s)) +
                                        stats::normal_cdf(-noncentrality - (t * s)));
    };
    const double reach = 12 / std::sqrt(2 * df);
    const double from = std::max(0.0, 1 - reach);
    const double to = 1 + reach;
    // Three-point Gauss panels: smooth inside, and no value at s = 0 is needed.
    constexpr int panels = 600;
    const double half = (to - from) / (2 * panels);
    const double node = std::sqrt(0.6) * half;
    double sum = 0;
    for (int i = 0; i < panels; ++i) {
        const double middle = from + ((2 * i + 1) * half);
        sum += (8.0 / 9 * integrand(middle)) +
               (5.0 / 9 * (integrand(middle - node) + integrand(middle + node)));
    }
    return sum * half;
}

// At which the test has that power; effects scale with sd / sqrt(C).
double needed_noncentrality(double df, double alpha, double power) {
    const double t = stats::student_t_quantile(1 - (alpha / 2), df);
    double low = 0;
    double high = 4;
    while (power_at(high, t, df) < power)
        high *= 2;
    for (int step = 0; step < 60 && high - low > 1e-11 * high; ++step) {
        const double middle = (low + high) / 2;
        (power_at(middle, t, df) < power ? low : high) = middle;
    }
    return (low + high) / 2;
}

std::vector<int> first_game(const StudyData& pilot) {
    const std::size_t coalitions = std::size_t{1} << pilot.players.size();
    for (const Arm& example : pilot.arms) {
        if (example.control)
            continue;
        std::vector<int> arms(coalitions, -1);
        for (int a = 0; a < static_cast<int>(pilot.arms.size()); ++a) {
            const Arm& arm = pilot.arms[static_cast<std::size_t>(a)];
            int& seat = arms[arm.coalition];
            if (!arm.control && seat < 0 && arm.planning == example.planning &&
                arm.planner == example.planner && arm.coder == example.coder &&
                (arm.coalition == 0 || example.coalition == 0 || arm.mode == example.mode))
                seat = a;
        }
        if (std::find(arms.begin(), arms.end(), -1) == arms.end())
            return arms;
    }
    return {};
}

double sample_variance(const Contrast& contrast, std::size_t m) {
    std::vector<double> z;
    for (const ContrastRow& row : contrast.rows)
        z.push_back(row.z[m]);
    return stats::variance(z);
}

// What remains of the variance of z_c over contexts when its noise, measured over rollouts (or over
// trials where there is one rollout), is taken off. Each arm's noise counts on its own, as without
// prompts in common.
double between_contexts(const DesignLayout& layout, const ArmTable& table,
                        const std::vector<double>& weights, std::size_t m) {
    const Contrast contrast = contrast_over(layout, table, weights);
    double noise = 0;
    for (std::size_t c = 0; c < layout.contexts.size(); ++c) {
        const std::vector<int>& kept = layout.contexts[c].kept;
        const auto count = static_cast<double>(kept.size());
        for (std::size_t i = 0; i < weights.size(); ++i) {
            std::vector<double> means;
            double scatter = 0;
            for (const int rollout : kept) {
                const DesignCell& cell = layout.cell(c, static_cast<std::size_t>(table.arms[i]),
                                                     static_cast<std::size_t>(rollout));
                means.push_back(cell.mean[m]);
                scatter += cell.scatter[m];
            }
            const double variance = means.size() > 1 ? stats::variance(means) : scatter;
            noise += weights[i] * weights[i] * variance / count;
        }
    }
    return sample_variance(contrast, m) - (noise / static_cast<double>(layout.contexts.size()));
}

}  // namespace

double noise_gain(std::span<const double> weights) {
    double sum = 0;
    for (const double a : weights)
        sum += a * a;
    return sum;
}

double contrast_sd(double between, double gain, const VarianceComponents& components, int rollouts,
                   int trials) {
    CHECK(rollouts >= 1 && trials >= 1);
    return std::sqrt(between + (gain * (components.plan + (components.trial / trials)) / rollouts));
}

double t_test_power(double effect, double sd, int contexts, double alpha) {
    CHECK(contexts >= 2 && sd > 0 && alpha > 0 && alpha < 1);
    const double df = contexts - 1;
    return power_at(std::abs(effect) * std::sqrt(static_cast<double>(contexts)) / sd,
                    stats::student_t_quantile(1 - (alpha / 2), df), df);
}

double detectable_effect(double sd, int contexts, double alpha, double power) {
    CHECK(contexts >= 2 && sd >= 0 && alpha > 0 && alpha < power && power < 1);
    return needed_noncentrality(contexts - 1, alpha, power) * sd /
           std::sqrt(static_cast<double>(contexts));
}

double detectable_effect_normal(double sd, int contexts, double alpha, double power) {
    CHECK(contexts >= 1 && sd >= 0 && alpha > 0 && alpha < power && power < 1);
    return (stats::normal_quantile(1 - (alpha / 2)) + stats::normal_quantile(power)) * sd /
           std::sqrt(static_cast<double>(contexts));
}

Result<std::vector<PowerRow>> power_table(int players, const VarianceComponents& components,
                                          std::span<const Design> designs, const PowerGoal& goal) {
    if (players < 1 || players > 12)
        return fail("players", "must be 1 to 12");
    if (!(goal.alpha > 0 && goal.alpha < goal.power && goal.power < 1))
        return fail("goal", "alpha and power must satisfy 0 < alpha < power < 1");
    for (const auto& [name, value] :
         {std::pair{"between_shapley", components.between_shapley},
          std::pair{"between_pair", components.between_pair},
          std::pair{"between_difference", components.between_difference},
          std::pair{"plan", components.plan}, std::pair{"trial", components.trial}})
        if (!std::isfinite(value) || value < 0)
            return fail(name, "a variance must be finite and not negative");
    const double shapley_gain = noise_gain(contrast(IndexKind::shapley, players, 1, 1));
    const double pair_gain = players > 1 ? noise_gain(contrast(IndexKind::sii, players, 2, 3)) : 0;
    const double pairs = players * (players - 1) / 2.0;
    std::vector<PowerRow> rows;
    for (std::size_t i = 0; i < designs.size(); ++i) {
        const Design& design = designs[i];
        const std::string where = "designs[" + std::to_string(i) + "]";
        if (design.contexts < 2)
            return fail(where, "needs at least 2 contexts: one context has no interval");
        if (design.rollouts < 1 || design.trials < 1)
            return fail(where, "rollouts and trials must be at least 1");
        const auto effect = [&](double between, double gain, double family) {
            const double sd =
                contrast_sd(between, gain, components, design.rollouts, design.trials);
            return detectable_effect(sd, design.contexts,
                                     goal.families ? goal.alpha / family : goal.alpha, goal.power);
        };
        PowerRow row;
        row.design = design;
        row.shapley = effect(components.between_shapley, shapley_gain, players);
        row.pair = players > 1 ? effect(components.between_pair, pair_gain, pairs) : 0;
        row.difference = effect(components.between_difference, 2, 1);
        row.trials_in_all = static_cast<std::int64_t>(design.contexts) * design.rollouts *
                            design.trials * (std::int64_t{1} << static_cast<unsigned>(players));
        rows.push_back(row);
    }
    return rows;
}

std::optional<PowerRow> cheapest(std::span<const PowerRow> rows, double effect) {
    std::optional<PowerRow> best;
    for (const PowerRow& row : rows)
        if (row.shapley <= effect && (!best || row.trials_in_all < best->trials_in_all))
            best = row;
    return best;
}

Result<PilotComponents> components_of(const StudyData& pilot, Metric metric) {
    if (pilot.players.empty())
        return fail("players", "the pilot has no components");
    const Result<DesignLayout> laid_out = lay_out(pilot);
    if (!laid_out)
        return tl::unexpected(laid_out.error());
    const DesignLayout& layout = *laid_out;
    if (layout.contexts.size() < 2)
        return fail("pilot", "needs at least 2 contexts");
    const std::vector<int> arms = first_game(pilot);
    if (arms.empty())
        return fail("pilot", "its arms do not cover all coalitions of the components");
    const ArmTable table = tie_arms(layout, arms);
    const std::size_t m = slot(metric);
    const auto players = static_cast<int>(pilot.players.size());

    double trial = 0;    // variance of one trial around its rollout
    double rollout = 0;  // variance of rollout means
    double cells = 0;
    double groups = 0;
    for (std::size_t c = 0; c < layout.contexts.size(); ++c) {
        for (const int arm : arms) {
            std::vector<double> means;
            for (const int r : layout.contexts[c].kept) {
                const DesignCell& cell =
                    layout.cell(c, static_cast<std::size_t>(arm), static_cast<std::size_t>(r));
                trial += cell.scatter[m] * layout.trials;
                cells += 1;
                means.push_back(cell.mean[m]);
            }
            if (means.size() > 1) {
                rollout += stats::variance(means);
                groups += 1;
            }
        }
    }
    PilotComponents result;
    result.contexts = static_cast<int>(layout.contexts.size());
    VarianceComponents& raw = result.unclipped;
    if (layout.trials > 1)
        raw.trial = trial / cells;
    if (groups > 0 && layout.trials > 1) {
        raw.plan = (rollout / groups) - (raw.trial / layout.trials);
    } else if (groups > 0) {
        raw.trial = rollout / groups;
        result.warnings.emplace_back(
            "one trial per rollout: plan and trial variance cannot be told apart; more trials per "
            "rollout will help less than the table says");
    } else if (layout.trials > 1) {
        result.warnings.emplace_back(
            "one rollout: the variance of plans is not seen; the table is optimistic");
    } else {
        result.warnings.emplace_back(
            "one rollout of one trial: noise cannot be told from differences between contexts; "
            "neither more rollouts nor more trials can be judged");
    }
    double shapley = 0;
    double pair = 0;
    int pairs = 0;
    for (int i = 0; i < players; ++i) {
        const std::uint32_t one = 1U << static_cast<unsigned>(i);
        shapley +=
            between_contexts(layout, table, contrast(IndexKind::shapley, players, 1, one), m);
        for (int j = 0; j < i; ++j) {
            const std::uint32_t both = one | (1U << static_cast<unsigned>(j));
            pair += between_contexts(layout, table, contrast(IndexKind::sii, players, 2, both), m);
            ++pairs;
        }
    }
    raw.between_shapley = shapley / players;
    raw.between_pair = pairs > 0 ? pair / pairs : 0;
    std::vector<double> ends(arms.size(), 0.0);
    ends.front() = -1;
    ends.back() = 1;
    raw.between_difference = between_contexts(layout, table, ends, m);
    result.components = raw;
    for (double* value :
         {&result.components.between_shapley, &result.components.between_pair,
          &result.components.between_difference, &result.components.plan, &result.components.trial})
        *value = std::max(0.0, *value);
    return result;
}

}  // namespace loopscope
