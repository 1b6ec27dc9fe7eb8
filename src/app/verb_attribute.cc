#include "app/verbs.h"
#include "attribute/attribution.h"
#include "core/file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace loopscope {

namespace {

std::string interval(const stats::Estimate& estimate) {
    if (!std::isfinite(estimate.low) || !std::isfinite(estimate.high))
        return fmt::format("{:+.3f} [no interval, n={}]", estimate.value, estimate.n);
    return fmt::format("{:+.3f} [{:+.3f}, {:+.3f}] n={}", estimate.value, estimate.low,
                       estimate.high, estimate.n);
}

std::string names_of(const std::vector<std::string>& players, std::uint32_t subset) {
    std::string names;
    for (std::size_t i = 0; i < players.size(); ++i)
        if ((subset >> i & 1U) != 0)
            names += (names.empty() ? "" : " x ") + players[i];
    return names.empty() ? "{}" : names;
}

void print_game(const Attribution& attribution, const GameEstimate& game) {
    fmt::print(
        "{} ({} contexts, target {}{})\n", name_of(game.metric), game.contexts,
        game.target == Target::random ? "random" : "fixed",
        game.missing_share > 0 ? fmt::format(", {:.1f} % missing", game.missing_share * 100) : "");
    const auto line = [&](const char* kind, const IndexEstimate& index) {
        fmt::print("  {:<12} {:<32} {}{}{}\n", kind, names_of(attribution.players, index.subset),
                   interval(index.estimate),
                   index.structurally_zero == game.contexts && game.contexts > 0
                       ? ", structurally zero"
                       : "",
                   game.exploratory ? ", exploratory"
                                    : fmt::format(", adjusted p {:.3g}", index.adjusted_p));
    };
    for (const IndexEstimate& index : game.shapley)
        line("Shapley", index);
    for (const IndexEstimate& index : game.banzhaf)
        line("Banzhaf", index);
    for (const IndexEstimate& index : game.interactions)
        line("interaction", index);
}

int attribute_values(const Common& common, const AttributeOptions& options) {
    const Result<std::string> text = read_file(options.values);
    if (!text)
        return usage_error(text.error());
    const Result<ValueTable> table = parse_value_table(*text);
    if (!table)
        return usage_error(Error{options.values + ": " + table.error().where, table.error().what});
    if (options.order > static_cast<int>(table->players.size()))
        return usage_error(Error{"--order", fmt::format("{} is more than the {} players",
                                                        options.order, table->players.size())});
    const std::string document = indices_of(*table, options.order);
    if (common.json) {
        fmt::print("{}\n", document);
        return exit_done;
    }
    const nlohmann::json parsed = nlohmann::json::parse(document);
    fmt::print(
        "v(none) {:.6g}, v(all) {:.6g}: exact values of the given table, no uncertainty is known\n",
        parsed.at("value_of_none").get<double>(), parsed.at("value_of_all").get<double>());
    for (const auto& [kind, list] : parsed.at("indices").items()) {
        fmt::print("{}\n", kind);
        for (const auto& index : list)
            fmt::print("  {:<40} {:+.6g}\n",
                       fmt::join(index.at("players").get<std::vector<std::string>>(), " x "),
                       index.at("value").get<double>());
    }
    return exit_done;
}

Result<int> arm_named(const StudyData& data, const std::string& name) {
    for (std::size_t i = 0; i < data.arms.size(); ++i)
        if (data.arms[i].name == name || std::to_string(i) == name)
            return static_cast<int>(i);
    std::vector<std::string> names;
    for (const Arm& arm : data.arms)
        names.push_back(arm.name);
    return fail("--compare",
                fmt::format("there is no arm '{}'; there are {}", name, fmt::join(names, " ")));
}

int compare(const Common& common, const StudyData& data, const AttributeOptions& options) {
    const Result<int> a = arm_named(data, options.arm_a);
    const Result<int> b = a ? arm_named(data, options.arm_b.empty() ? "0" : options.arm_b) : a;
    if (!b)
        return usage_error(b.error());
    nlohmann::json document = nlohmann::json::array();
    for (const Metric metric : {Metric::compile, Metric::pass, Metric::fast, Metric::gain}) {
        const ArmComparison result = compare_arms(data, metric, *a, *b);
        if (common.json)
            document.push_back({{"metric", name_of(metric)},
                                {"a", data.arms[static_cast<std::size_t>(*a)].name},
                                {"b", data.arms[static_cast<std::size_t>(*b)].name},
                                {"difference", result.difference.value},
                                {"low", std::isfinite(result.difference.low)
                                            ? nlohmann::json(result.difference.low)
                                            : nlohmann::json(nullptr)},
                                {"high", std::isfinite(result.difference.high)
                                             ? nlohmann::json(result.difference.high)
                                             : nlohmann::json(nullptr)},
                                {"n", result.difference.n},
                                {"p_t", result.p_t},
                                {"p_sign_flip", result.p_sign_flip}});
        else
            fmt::print("{:<8} {} - {}: {}, p {:.3g} (t), {:.3g} (sign flips)\n", name_of(metric),
                       data.arms[static_cast<std::size_t>(*a)].name,
                       data.arms[static_cast<std::size_t>(*b)].name, interval(result.difference),
                       result.p_t, result.p_sign_flip);
    }
    if (common.json)
        fmt::print("{}\n", document.dump(2));
    return exit_done;
}

}  // namespace

int verb_attribute(const Common& common, const AttributeOptions& options) {
    if (options.study.empty() == options.values.empty())
        return usage_error(
            Error{"attribute", "takes either the id of an intervention or --values FILE"});
    if (!options.values.empty())
        return attribute_values(common, options);
    return with_journal(common, true, [&](Journal& journal) {
        const Result<StudyData> data = load_trials(journal, options.study);
        if (!data)
            return usage_error(data.error());
        if (!options.arm_a.empty())
            return compare(common, *data, options);
        AttributionOptions choices;
        if (!options.target.empty())
            choices.target = options.target == "fixed" ? Target::fixed : Target::random;
        const Result<Attribution> attribution = attribute(*data, choices);
        if (!attribution)
            return failure(attribution.error());
        if (common.json) {
            fmt::print("{}\n", encode(*attribution));
            return static_cast<int>(exit_done);
        }
        if (options.csv) {
            fmt::print("{}", csv_of(*attribution));
            return static_cast<int>(exit_done);
        }
        for (const GameEstimate& game : attribution->games)
            if (game.generation < 0 && game.stratum.empty())
                print_game(*attribution, game);
        fmt::print(
            "{} contexts, {} rollouts of {} trials; strata and generations: --csv, --json or the "
            "report\n",
            attribution->contexts, attribution->rollouts, attribution->trials_per_rollout);
        for (const std::string& warning : attribution->warnings)
            fmt::print("note: {}\n", warning);
        return static_cast<int>(exit_done);
    });
}

}  // namespace loopscope
