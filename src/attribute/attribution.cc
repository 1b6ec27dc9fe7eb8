#include "attribute/attribution.h"

#include "attribute/inference.h"
#include "attribute/layout.h"
#include "core/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace loopscope {

namespace {

// Arms that differ in nothing but their coalition: one game when all coalitions are there.
struct Setting {
    std::string label;
    std::vector<int> arm;  // by coalition; -1 = none
    bool complete() const { return std::find(arm.begin(), arm.end(), -1) == arm.end(); }
};

std::string coalition_text(const std::vector<std::string>& players, std::uint32_t coalition) {
    std::string text = "{";
    for (std::size_t i = 0; i < players.size(); ++i)
        if ((coalition >> i & 1U) != 0)
            text += (text.size() > 1 ? "," : "") + players[i];
    return text + "}";
}

auto models_of(const Arm& arm) { return std::tie(arm.planning, arm.planner, arm.coder); }

// The empty coalition shows no component, so its arm belongs to the games of all modes.
std::vector<Setting> settings_of(const StudyData& data) {
    std::vector<Setting> settings;
    std::vector<const Arm*> example;
    const auto fits = [&](std::size_t s, const Arm& arm) {
        return models_of(*example[s]) == models_of(arm) && example[s]->mode == arm.mode;
    };
    for (const Arm& arm : data.arms) {
        if (arm.control || (arm.coalition == 0 && !data.players.empty()))
            continue;
        bool known = false;
        for (std::size_t s = 0; s < settings.size(); ++s)
            known = known || fits(s, arm);
        if (known)
            continue;
        Setting setting;
        setting.arm.assign(std::size_t{1} << data.players.size(), -1);
        setting.label = fmt::format(
            "{}, {}coder {}", name_of(arm.mode),
            arm.planning ? "planner " + arm.planner + ", " : "no planning, ", arm.coder);
        settings.push_back(std::move(setting));
        example.push_back(&arm);
    }
    for (std::size_t s = 0; s < settings.size(); ++s) {
        for (std::size_t a = 0; a < data.arms.size(); ++a) {
            const Arm& arm = data.arms[a];
            int& seat = settings[s].arm[arm.coalition];
            const bool same =
                arm.coalition == 0 ? models_of(*example[s]) == models_of(arm) : fits(s, arm);
            if (!arm.control && seat < 0 && same)
                seat = static_cast<int>(a);
        }
    }
    return settings;
}

// The contexts of one game, before a metric is chosen.
struct Scope {
    int generation = -1;
    std::string stratum;
    Selection selection;
};

std::vector<Scope> scopes_of(const DesignLayout& layout, const AttributionOptions& options) {
    std::vector<std::size_t> all;
    std::map<int, std::vector<std::size_t>> generations;
    std::map<Status, std::vector<std::size_t>> strata;
    for (std::size_t c = 0; c < layout.contexts.size(); ++c) {
        all.push_back(c);
        generations[layout.contexts[c].generation].push_back(c);
        if (const std::optional<Status> parent = layout.contexts[c].parent_status)
            strata[*parent].push_back(c);
    }
    std::vector<Scope> scopes;
    const auto add = [&](int generation, std::string_view stratum,
                         std::vector<std::size_t> contexts) {
        Scope scope;
        scope.generation = generation;
        scope.stratum = stratum;
        scope.selection = selection_of(layout, std::move(contexts), options);
        scopes.push_back(std::move(scope));
    };
    add(-1, "", std::move(all));
    for (auto& [status, contexts] : strata)
        add(-1, name_of(status), std::move(contexts));
    for (auto& [generation, contexts] : generations)
        add(generation, "", std::move(contexts));
    return scopes;
}

double missing_share(const DesignLayout& layout, std::span<const int> arms,
                     const std::vector<std::size_t>& contexts) {
    double missing = 0;
    double planned = 0;
    for (const std::size_t c : contexts) {
        for (const int arm : arms) {
            for (const int rollout : layout.contexts[c].kept) {
                missing +=
                    layout.cell(c, static_cast<std::size_t>(arm), static_cast<std::size_t>(rollout))
                        .missing;
                planned += layout.trials;
            }
        }
    }
    return planned > 0 ? missing / planned : 0;
}

std::string counted(std::size_t n, std::string_view noun) {
    return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

// What limits a scope, whatever the metric.
std::vector<std::string> scope_warnings(const DesignLayout& layout, const Selection& selection,
                                        const AttributionOptions& options) {
    std::vector<std::string> warnings;
    const std::size_t contexts = selection.contexts.size();
    if (selection.refused) {
        warnings.push_back(counted(contexts, "context") +
                           ": too few for an interval (at least 3); the values are only pooled");
        return warnings;
    }
    if (selection.target == Target::fixed) {
        warnings.push_back(fmt::format(
            "{}the intervals hold for these {} only, not for contexts of their kind",
            options.target ? "" : "fewer than 5 contexts: ", counted(contexts, "context")));
        int single = 0;
        for (const std::size_t c : selection.contexts)
            single += layout.contexts[c].kept.size() < 2 ? 1 : 0;
        if (single > 0 && layout.trials > 1)
            warnings.push_back(
                counted(static_cast<std::size_t>(single), "context") +
                " with one rollout: the interval comes from trials that share a plan and is too "
                "narrow; run at least 2 rollouts");
        if (single > 0 && layout.trials == 1)
            warnings.emplace_back("one rollout of one trial: no interval; run at least 2 rollouts");
        return warnings;
    }
    if (selection.by_lineage) {
        if (selection.clusters < static_cast<int>(contexts))
            warnings.push_back(fmt::format(
                "contexts of one lineage are not independent: the {} count as {} lineages",
                counted(contexts, "context"), selection.clusters));
    } else if (selection.lineages == 0) {
        warnings.emplace_back(
            "lineages are not recorded: the intervals treat contexts as independent");
    } else if (selection.lineages < static_cast<int>(contexts)) {
        warnings.push_back(fmt::format(
            "the {} descend from {} only, too few to count by lineage (at least 5): the intervals "
            "treat contexts as independent and may be too narrow",
            counted(contexts, "context"),
            counted(static_cast<std::size_t>(selection.lineages), "lineage")));
    }
    return warnings;
}

struct Game {
    GameEstimate estimate;
    const Scope* scope = nullptr;
    Pooled pooled;
};

IndexEstimate with_subset(IndexEstimate estimate, std::uint32_t subset) {
    estimate.subset = subset;
    return estimate;
}

std::vector<std::uint32_t> interaction_subsets(int players) {
    std::vector<std::uint32_t> subsets;
    for (std::uint32_t subset = 1; subset < (1U << static_cast<unsigned>(players)); ++subset)
        if (std::popcount(subset) == 2 || (players == 3 && std::popcount(subset) == 3))
            subsets.push_back(subset);
    return subsets;
}

// A claim that would turn if the missing trials had come out one-sidedly.
void missing_sensitivity(const Contrast& contrast, const Selection& selection,
                         const IndexEstimate& estimate, const std::string& player,
                         std::vector<std::string>& warnings) {
    const stats::Estimate& e = estimate.estimate;
    if (!(e.low > 0 || e.high < 0))
        return;
    double up = 0;
    double down = 0;
    for (const std::size_t c : selection.contexts) {
        up += contrast.rows[c].missing_up;
        down += contrast.rows[c].missing_down;
    }
    const auto contexts = static_cast<double>(selection.contexts.size());
    if ((e.low > 0 && e.value - (down / contexts) <= 0) ||
        (e.high < 0 && e.value + (up / contexts) >= 0))
        warnings.push_back(
            fmt::format("the sign of {}'s Shapley value depends on the missing trials: between "
                        "{:.3f} and {:.3f} "
                        "if they all failed in some arms and passed in the others",
                        player, e.value - (down / contexts), e.value + (up / contexts)));
}

// All games of one setting: each contrast is computed once over all contexts, then read by every
// game.
std::vector<GameEstimate> games_of(const StudyData& data, const DesignLayout& layout,
                                   const std::vector<Scope>& scopes, const Setting& setting,
                                   const std::string& label, const AttributionOptions& options) {
    const auto players = static_cast<int>(data.players.size());
    const ArmTable table = tie_arms(layout, setting.arm);
    std::vector<Game> games;
    for (const Metric metric : all_metrics) {
        for (const Scope& scope : scopes) {
            Game game;
            game.scope = &scope;
            game.pooled = pool(layout, table, scope.selection, metric);
            GameEstimate& e = game.estimate;
            e.metric = metric;
            e.target = scope.selection.target;
            e.generation = scope.generation;
            e.stratum = scope.stratum;
            e.setting = label;
            e.contexts = static_cast<int>(scope.selection.contexts.size());
            e.clusters =
                scope.selection.target == Target::random ? scope.selection.clusters : e.contexts;
            e.by_lineage = scope.selection.target == Target::random && scope.selection.by_lineage;
            e.missing_share = missing_share(layout, setting.arm, scope.selection.contexts);
            e.exploratory =
                metric != Metric::pass || scope.generation >= 0 || !scope.stratum.empty();
            e.warnings = scope_warnings(layout, scope.selection, options);
            games.push_back(std::move(game));
        }
    }
    for (std::uint32_t coalition = 0; coalition < setting.arm.size(); ++coalition) {
        std::vector<double> weights(setting.arm.size(), 0.0);
        weights[coalition] = 1;
        const Contrast contrast = contrast_over(layout, table, weights);
        for (Game& game : games)
            game.estimate.value.push_back(
                infer(contrast, game.scope->selection, game.pooled, game.estimate.metric).estimate);
    }
    const auto add = [&](IndexKind kind, std::uint32_t subset,
                         std::vector<IndexEstimate> GameEstimate::* list) {
        const std::vector<double> weights = contrast(kind, players, std::popcount(subset), subset);
        const Contrast contrast = contrast_over(layout, table, weights);
        for (Game& game : games) {
            const IndexEstimate estimate =
                infer(contrast, game.scope->selection, game.pooled, game.estimate.metric);
            (game.estimate.*list).push_back(with_subset(estimate, subset));
            if (kind == IndexKind::shapley && !game.estimate.exploratory)
                missing_sensitivity(
                    contrast, game.scope->selection, estimate,
                    data.players[static_cast<std::size_t>(std::countr_zero(subset))],
                    game.estimate.warnings);
        }
    };
    for (int i = 0; i < players; ++i) {
        add(IndexKind::shapley, 1U << static_cast<unsigned>(i), &GameEstimate::shapley);
        add(IndexKind::banzhaf, 1U << static_cast<unsigned>(i), &GameEstimate::banzhaf);
    }
    for (const std::uint32_t subset : interaction_subsets(players))
        add(IndexKind::sii, subset, &GameEstimate::interactions);

    std::vector<GameEstimate> estimates;
    for (Game& game : games) {
        bool floored = false;
        std::string zero;
        for (const auto* list : {&game.estimate.shapley, &game.estimate.interactions}) {
            for (const IndexEstimate& e : *list) {
                floored = floored || e.floor_used;
                if (e.structurally_zero > 0)
                    zero += fmt::format(
                        "{}{} in {} of {}", zero.empty() ? "" : ", ",
                        coalition_text(data.players, e.subset), e.structurally_zero,
                        counted(static_cast<std::size_t>(game.estimate.contexts), "context"));
            }
        }
        if (floored)
            game.estimate.warnings.emplace_back(
                "few successes or few failures: the variance is held at what one trial has at "
                "least, so some intervals are conservative");
        if (!zero.empty())
            game.estimate.warnings.push_back(
                "zero by construction, because the prompts do not differ: " + zero);
        estimates.push_back(std::move(game.estimate));
    }
    return estimates;
}

ArmComparison comparison_over(const StudyData& data, const DesignLayout& layout,
                              const Selection& selection, Metric metric, const Contrast& contrast,
                              const ArmTable& table, int arm_a, int arm_b) {
    CHECK(static_cast<std::size_t>(std::max(arm_a, arm_b)) < data.arms.size());
    const Pooled pooled = pool(layout, table, selection, metric);
    const IndexEstimate estimate = infer(contrast, selection, pooled, metric);
    ArmComparison comparison;
    comparison.arm_a = arm_a;
    comparison.arm_b = arm_b;
    comparison.metric = metric;
    comparison.target = selection.target;
    comparison.difference = estimate.estimate;
    comparison.p_t = estimate.p_value;
    comparison.adjusted_p = estimate.p_value;
    comparison.p_sign_flip = stats::sign_flip_test(cluster_sums(contrast, selection, metric));
    comparison.floor_used = estimate.floor_used;
    comparison.structurally_zero = estimate.structurally_zero;
    comparison.contexts = static_cast<int>(selection.contexts.size());
    return comparison;
}

// Which pairs are compared: against the empty coalition, against the full one, and A/A controls.
std::vector<std::pair<int, int>> pairs_of(const StudyData& data, const Setting& main) {
    const int none = main.arm.front();
    const int all = main.arm.back();
    std::vector<std::pair<int, int>> pairs;
    for (int a = 0; a < static_cast<int>(data.arms.size()); ++a)
        if (a != none && !data.arms[static_cast<std::size_t>(a)].control)
            pairs.emplace_back(a, none);
    for (int a = 0; a < static_cast<int>(data.arms.size()); ++a)
        if (a != none && a != all && !data.arms[static_cast<std::size_t>(a)].control)
            pairs.emplace_back(all, a);
    for (int a = 0; a < static_cast<int>(data.arms.size()); ++a) {
        const Arm& control = data.arms[static_cast<std::size_t>(a)];
        if (!control.control)
            continue;
        for (int b = 0; b < static_cast<int>(data.arms.size()); ++b) {
            const Arm& arm = data.arms[static_cast<std::size_t>(b)];
            if (!arm.control && arm.coalition == control.coalition &&
                models_of(arm) == models_of(control) &&
                (arm.coalition == 0 || arm.mode == control.mode)) {
                pairs.emplace_back(a, b);
                break;
            }
        }
    }
    return pairs;
}

std::vector<ArmComparison> comparisons_of(const StudyData& data, const DesignLayout& layout,
                                          const Selection& selection, const Setting& main,
                                          std::vector<std::string>& warnings) {
    std::vector<ArmComparison> comparisons;
    const std::vector<double> weights = {1, -1};
    for (const auto& [a, b] : pairs_of(data, main)) {
        const std::vector<int> arms = {a, b};
        const ArmTable table = tie_arms(layout, arms);
        const Contrast contrast = contrast_over(layout, table, weights);
        for (const Metric metric : all_metrics)
            comparisons.push_back(
                comparison_over(data, layout, selection, metric, contrast, table, a, b));
    }
    std::sort(
        comparisons.begin(), comparisons.end(), [](const ArmComparison& x, const ArmComparison& y) {
            return std::tie(x.metric, x.arm_b, x.arm_a) < std::tie(y.metric, y.arm_b, y.arm_a);
        });
    std::vector<ArmComparison*> primary;
    std::vector<ArmComparison*> rest;
    for (ArmComparison& comparison : comparisons) {
        if (comparison.structurally_zero < comparison.contexts)
            (comparison.metric == Metric::pass ? primary : rest).push_back(&comparison);
    }
    const auto adjust = [](const std::vector<ArmComparison*>& family, auto correct) {
        std::vector<double> p;
        for (const ArmComparison* comparison : family)
            p.push_back(comparison->p_t);
        const std::vector<double> adjusted = correct(p);
        for (std::size_t i = 0; i < family.size(); ++i)
            family[i]->adjusted_p = adjusted[i];
    };
    adjust(primary, [](const std::vector<double>& p) { return stats::holm(p); });
    adjust(rest, [](const std::vector<double>& p) { return stats::benjamini_hochberg(p); });
    for (const ArmComparison& comparison : comparisons) {
        const Arm& arm = data.arms[static_cast<std::size_t>(comparison.arm_a)];
        if (arm.control && comparison.metric == Metric::pass && comparison.adjusted_p < 0.05)
            warnings.push_back(fmt::format(
                "the A/A control of {} differs from its copy (p = {:.3g}): what should be equal is "
                "not, so distrust the other differences",
                data.arms[static_cast<std::size_t>(comparison.arm_b)].name, comparison.p_t));
    }
    return comparisons;
}

// Families of claims; what is zero by construction claims nothing.
void adjust_games(std::vector<GameEstimate>& games) {
    for (auto list :
         {&GameEstimate::shapley, &GameEstimate::banzhaf, &GameEstimate::interactions}) {
        std::vector<IndexEstimate*> primary;
        std::vector<IndexEstimate*> rest;
        for (GameEstimate& game : games) {
            for (IndexEstimate& estimate : game.*list) {
                estimate.adjusted_p = estimate.p_value;
                if (estimate.structurally_zero < game.contexts)
                    (game.exploratory ? rest : primary).push_back(&estimate);
            }
        }
        for (auto* family : {&primary, &rest}) {
            std::vector<double> p;
            for (const IndexEstimate* estimate : *family)
                p.push_back(estimate->p_value);
            const std::vector<double> adjusted =
                family == &primary ? stats::holm(p) : stats::benjamini_hochberg(p);
            for (std::size_t i = 0; i < family->size(); ++i)
                (*family)[i]->adjusted_p = adjusted[i];
        }
    }
}

void missing_warnings(const StudyData& data, const DesignLayout& layout, Attribution& result) {
    if (layout.infrastructure_blocks > 0)
        result.warnings.push_back(fmt::format(
            "our own side failed in {}: those rollouts are left out of all arms{}",
            counted(static_cast<std::size_t>(layout.infrastructure_blocks), "rollout of a context"),
            layout.contexts_lost > 0
                ? fmt::format(", which leaves {} out altogether",
                              counted(static_cast<std::size_t>(layout.contexts_lost), "context"))
                : ""));
    const auto [least, most] =
        std::minmax_element(result.missing_by_arm.begin(), result.missing_by_arm.end());
    if (*most == 0)
        return;
    // Homogeneity of the arms (chi squared); a difference of 5 points is named whatever the test
    // says.
    double planned = 0;
    for (const ContextRow& context : layout.contexts)
        planned += static_cast<double>(context.kept.size()) * layout.trials;
    double overall = 0;
    for (const double share : result.missing_by_arm)
        overall += share / static_cast<double>(layout.arms);
    double statistic = 0;
    for (const double share : result.missing_by_arm)
        if (overall < 1)
            statistic +=
                planned * (share - overall) * (share - overall) / (overall * (1 - overall));
    const bool differs =
        layout.arms > 1 &&
        (*most - *least >= 0.05 ||
         statistic > stats::chi_squared_quantile(0.95, static_cast<double>(layout.arms - 1)));
    const auto name = [&](auto at) {
        return data.arms[static_cast<std::size_t>(at - result.missing_by_arm.begin())].name;
    };
    result.warnings.push_back(
        differs
            ? fmt::format(
                  "missing trials differ by arm, from {:.1f} % in {} to {:.1f} % in {}: they "
                  "count as failures, so part of what the arms differ in may be missing "
                  "answers",
                  100 * *least, name(least), 100 * *most, name(most))
            : fmt::format("{:.1f} % of the trials are missing, about evenly over the arms; they "
                          "count as failures",
                          100 * overall));
}

Result<void> check_options(const AttributionOptions& options) {
    if (!(options.confidence > 0 && options.confidence < 1))
        return fail("confidence", "must lie between 0 and 1, as 0.95 does");
    return {};
}

tl::unexpected<Error> uncovered(const StudyData& data, const std::vector<Setting>& settings) {
    // Name what the best covered setting lacks.
    std::vector<int> best(std::size_t{1} << data.players.size(), -1);
    const auto gaps = [](const std::vector<int>& arm) {
        return std::count(arm.begin(), arm.end(), -1);
    };
    for (const Setting& setting : settings)
        if (gaps(setting.arm) < gaps(best))
            best = setting.arm;
    std::string missing;
    int named = 0;
    for (std::uint32_t coalition = 0; coalition < best.size() && named < 4; ++coalition) {
        if (best[coalition] >= 0)
            continue;
        missing += (named > 0 ? ", " : "") + coalition_text(data.players, coalition);
        ++named;
    }
    if (gaps(best) > named)
        missing += fmt::format(" and {} more", gaps(best) - named);
    return fail(
        "arms",
        "the arms do not cover all coalitions of the components with the same mode, planner "
        "and coder: no arm shows " +
            missing + ". Run intervene with all coalitions, or compare single arms");
}

}  // namespace

std::string_view name_of(Metric metric) {
    switch (metric) {
        case Metric::compile:
            return "compile";
        case Metric::pass:
            return "pass";
        case Metric::fast:
            return "fast";
        case Metric::gain:
            return "gain";
    }
    CHECK(false);
}

Result<Attribution> attribute(const StudyData& data, const AttributionOptions& options) {
    if (auto checked = check_options(options); !checked)
        return tl::unexpected(checked.error());
    if (data.players.empty())
        return fail("players", "the study has no components to attribute to");
    const Result<DesignLayout> laid_out = lay_out(data);
    if (!laid_out)
        return tl::unexpected(laid_out.error());
    const DesignLayout& layout = *laid_out;
    const std::vector<Setting> settings = settings_of(data);
    const auto complete = static_cast<std::size_t>(std::count_if(
        settings.begin(), settings.end(), [](const Setting& s) { return s.complete(); }));
    if (complete == 0)
        return uncovered(data, settings);

    Attribution result;
    result.players = data.players;
    for (const Arm& arm : data.arms)
        result.arms.push_back(arm.name);
    result.rollouts = layout.rollouts;
    result.trials_per_rollout = layout.trials;
    result.contexts = static_cast<int>(layout.contexts.size());
    result.infrastructure_blocks = layout.infrastructure_blocks;
    std::vector<std::size_t> all(layout.contexts.size());
    for (std::size_t c = 0; c < all.size(); ++c)
        all[c] = c;
    for (int a = 0; a < static_cast<int>(layout.arms); ++a)
        result.missing_by_arm.push_back(missing_share(layout, std::span<const int>(&a, 1), all));

    const std::vector<Scope> scopes = scopes_of(layout, options);
    result.lineages = scopes.front().selection.lineages;
    const Setting* main = nullptr;
    for (const Setting& setting : settings) {
        if (!setting.complete()) {
            result.warnings.push_back("the arms of '" + setting.label +
                                      "' do not cover all coalitions: they are compared, but give "
                                      "no game");
            continue;
        }
        if (main == nullptr)
            main = &setting;
        std::vector<GameEstimate> games =
            games_of(data, layout, scopes, setting, complete > 1 ? setting.label : "", options);
        for (GameEstimate& game : games)
            result.games.push_back(std::move(game));
    }
    std::sort(result.games.begin(), result.games.end(),
              [](const GameEstimate& a, const GameEstimate& b) {
                  const auto rank = [](const GameEstimate& g) {
                      return std::make_tuple(
                          g.metric, g.generation >= 0, g.generation,
                          g.stratum.empty() ? -1 : static_cast<int>(*status_named(g.stratum)),
                          std::string_view(g.setting));
                  };
                  return rank(a) < rank(b);
              });
    adjust_games(result.games);

    for (const std::string& warning : scope_warnings(layout, scopes.front().selection, options))
        result.warnings.push_back(warning);
    missing_warnings(data, layout, result);
    result.comparisons =
        comparisons_of(data, layout, scopes.front().selection, *main, result.warnings);
    std::size_t claims = 0;
    for (const GameEstimate& game : result.games)
        if (game.exploratory)
            claims += game.shapley.size() + game.interactions.size();
    result.warnings.push_back(
        fmt::format("exploratory: {} Shapley values and interactions beside those of the pooled "
                    "pass games; about "
                    "{:.0f} of them would exclude zero if nothing had an effect",
                    claims, std::ceil(static_cast<double>(claims) * (1 - options.confidence))));
    return result;
}

ArmComparison compare_arms(const StudyData& data, Metric metric, int arm_a, int arm_b,
                           double confidence) {
    AttributionOptions options;
    options.confidence = confidence;
    const Result<DesignLayout> layout = lay_out(data);
    const auto arms = static_cast<int>(data.arms.size());
    if (!layout || !check_options(options) || std::min(arm_a, arm_b) < 0 ||
        std::max(arm_a, arm_b) >= arms) {
        ArmComparison nothing;
        nothing.arm_a = arm_a;
        nothing.arm_b = arm_b;
        nothing.metric = metric;
        nothing.difference = stats::mean_interval({});
        return nothing;
    }
    std::vector<std::size_t> all(layout->contexts.size());
    for (std::size_t c = 0; c < all.size(); ++c)
        all[c] = c;
    const Selection selection = selection_of(*layout, std::move(all), options);
    const std::vector<int> pair = {arm_a, arm_b};
    const ArmTable table = tie_arms(*layout, pair);
    const std::vector<double> weights = {1, -1};
    const Contrast contrast = contrast_over(*layout, table, weights);
    return comparison_over(data, *layout, selection, metric, contrast, table, arm_a, arm_b);
}

}  // namespace loopscope
