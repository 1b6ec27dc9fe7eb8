// An attribution as JSON and as CSV.
#include "attribute/attribution.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace loopscope {

namespace {

using nlohmann::json;

std::string_view name_of_target(Target target) {
    return target == Target::fixed ? "fixed" : "random";
}

json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json members(const std::vector<std::string>& players, std::uint32_t subset) {
    json names = json::array();
    for (std::size_t i = 0; i < players.size(); ++i)
        if ((subset >> i & 1U) != 0)
            names.push_back(players[i]);
    return names;
}

json to_json(const stats::Estimate& e) {
    json j;
    j["value"] = number(e.value);
    j["low"] = number(e.low);
    j["high"] = number(e.high);
    j["standard_error"] = number(e.standard_error);
    j["df"] = number(e.df);
    j["n"] = e.n;
    return j;
}

json to_json(const std::vector<std::string>& players, const std::vector<IndexEstimate>& list) {
    json rows = json::array();
    for (const IndexEstimate& estimate : list) {
        json row = to_json(estimate.estimate);
        row["players"] = members(players, estimate.subset);
        row["floor_used"] = estimate.floor_used;
        row["structurally_zero"] = estimate.structurally_zero;
        row["p_value"] = estimate.p_value;
        row["adjusted_p"] = estimate.adjusted_p;
        rows.push_back(std::move(row));
    }
    return rows;
}

json to_json(const std::vector<std::string>& players, const GameEstimate& game) {
    json j;
    j["metric"] = name_of(game.metric);
    j["target"] = name_of_target(game.target);
    j["generation"] = game.generation < 0 ? json(nullptr) : json(game.generation);
    j["stratum"] = game.stratum;
    j["setting"] = game.setting;
    j["contexts"] = game.contexts;
    j["clusters"] = game.clusters;
    j["by_lineage"] = game.by_lineage;
    json values = json::array();
    for (std::uint32_t coalition = 0; coalition < game.value.size(); ++coalition) {
        json row = to_json(game.value[coalition]);
        row["players"] = members(players, coalition);
        values.push_back(std::move(row));
    }
    j["values"] = std::move(values);
    j["shapley"] = to_json(players, game.shapley);
    j["banzhaf"] = to_json(players, game.banzhaf);
    j["interactions"] = to_json(players, game.interactions);
    j["missing_share"] = game.missing_share;
    j["exploratory"] = game.exploratory;
    j["warnings"] = game.warnings;
    return j;
}

json to_json(const ArmComparison& comparison) {
    json j = to_json(comparison.difference);
    j["arm_a"] = comparison.arm_a;
    j["arm_b"] = comparison.arm_b;
    j["metric"] = name_of(comparison.metric);
    j["target"] = name_of_target(comparison.target);
    j["p_t"] = comparison.p_t;
    j["p_sign_flip"] = comparison.p_sign_flip;
    j["adjusted_p"] = comparison.adjusted_p;
    j["floor_used"] = comparison.floor_used;
    j["structurally_zero"] = comparison.structurally_zero;
    j["contexts"] = comparison.contexts;
    return j;
}

// RFC 4180.
std::string quoted(const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos)
        return text;
    std::string result = "\"";
    for (const char c : text)
        result += c == '"' ? std::string("\"\"") : std::string(1, c);
    return result + "\"";
}

std::string plus_joined(const std::vector<std::string>& players, std::uint32_t subset) {
    std::string text;
    for (std::size_t i = 0; i < players.size(); ++i)
        if ((subset >> i & 1U) != 0)
            text += (text.empty() ? "" : "+") + players[i];
    return text;
}

struct CsvLine {
    std::string_view kind;
    std::string item;
    stats::Estimate estimate;
    std::string p_value, p_sign_flip, adjusted_p;
    bool floor_used = false;
    int structurally_zero = 0;
};

void append(std::string& csv, const GameEstimate& game, const CsvLine& line) {
    const stats::Estimate& e = line.estimate;
    csv += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", line.kind,
        quoted(line.item), name_of(game.metric), name_of_target(game.target),
        game.generation < 0 ? "" : std::to_string(game.generation), game.stratum,
        quoted(game.setting), e.value, e.low, e.high, e.standard_error, e.df, e.n, game.contexts,
        line.p_value, line.p_sign_flip, line.adjusted_p, line.floor_used ? 1 : 0,
        line.structurally_zero, game.missing_share, game.exploratory ? 1 : 0);
}

}  // namespace

std::string encode(const Attribution& value) {
    json j;
    j["players"] = value.players;
    j["arms"] = value.arms;
    j["games"] = json::array();
    for (const GameEstimate& game : value.games)
        j["games"].push_back(to_json(value.players, game));
    j["comparisons"] = json::array();
    for (const ArmComparison& comparison : value.comparisons)
        j["comparisons"].push_back(to_json(comparison));
    j["missing_by_arm"] = value.missing_by_arm;
    j["infrastructure_blocks"] = value.infrastructure_blocks;
    j["rollouts"] = value.rollouts;
    j["trials_per_rollout"] = value.trials_per_rollout;
    j["contexts"] = value.contexts;
    j["lineages"] = value.lineages;
    j["warnings"] = value.warnings;
    return j.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string csv_of(const Attribution& value) {
    std::string csv =
        "kind,item,metric,target,generation,stratum,setting,value,low,high,standard_error,df,n,"
        "contexts,"
        "p_value,p_sign_flip,adjusted_p,floor_used,structurally_zero,missing_share,exploratory\n";
    for (const GameEstimate& game : value.games) {
        for (std::uint32_t coalition = 0; coalition < game.value.size(); ++coalition) {
            CsvLine line;
            line.kind = "value";
            line.item = plus_joined(value.players, coalition);
            line.estimate = game.value[coalition];
            append(csv, game, line);
        }
        const std::vector<std::pair<std::string_view, const std::vector<IndexEstimate>*>> lists = {
            {"shapley", &game.shapley},
            {"banzhaf", &game.banzhaf},
            {"interaction", &game.interactions}};
        for (const auto& [kind, list] : lists) {
            for (const IndexEstimate& estimate : *list) {
                CsvLine line;
                line.kind = kind;
                line.item = plus_joined(value.players, estimate.subset);
                line.estimate = estimate.estimate;
                line.p_value = fmt::format("{}", estimate.p_value);
                line.adjusted_p = fmt::format("{}", estimate.adjusted_p);
                line.floor_used = estimate.floor_used;
                line.structurally_zero = estimate.structurally_zero;
                append(csv, game, line);
            }
        }
    }
    for (const ArmComparison& comparison : value.comparisons) {
        // The columns that a game would fill.
        GameEstimate frame;
        frame.metric = comparison.metric;
        frame.target = comparison.target;
        frame.contexts = comparison.contexts;
        frame.exploratory = comparison.metric != Metric::pass;
        const auto share = [&](int arm) {
            return value.missing_by_arm[static_cast<std::size_t>(arm)];
        };
        frame.missing_share = (share(comparison.arm_a) + share(comparison.arm_b)) / 2;
        CsvLine line;
        line.kind = "difference";
        line.item = value.arms[static_cast<std::size_t>(comparison.arm_a)] + " - " +
                    value.arms[static_cast<std::size_t>(comparison.arm_b)];
        line.estimate = comparison.difference;
        line.p_value = fmt::format("{}", comparison.p_t);
        line.p_sign_flip = fmt::format("{}", comparison.p_sign_flip);
        line.adjusted_p = fmt::format("{}", comparison.adjusted_p);
        line.floor_used = comparison.floor_used;
        line.structurally_zero = comparison.structurally_zero;
        append(csv, frame, line);
    }
    return csv;
}

}  // namespace loopscope
