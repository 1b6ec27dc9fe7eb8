#include "record/truth.h"

#include "core/check.h"
#include "core/rng.h"
#include "core/text.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace loopscope {

namespace {

using nlohmann::json;

constexpr std::size_t max_players = 12;

Result<void> known_keys(const json& object, const std::string& where,
                        const std::vector<std::string>& keys) {
    if (!object.is_object())
        return fail(where, "must be an object");
    const std::string prefix = where.empty() ? "" : where + ".";
    for (const auto& [key, value] : object.items()) {
        if (std::find(keys.begin(), keys.end(), key) != keys.end())
            continue;
        const std::string near = nearest(key, keys);
        return fail(prefix + key,
                    near.empty() ? "unknown key" : "unknown key; did you mean '" + near + "'?");
    }
    return {};
}

Result<double> number(const json& value, const std::string& where) {
    if (!value.is_number() || !std::isfinite(value.get<double>()))
        return fail(where, "must be a finite number");
    return value.get<double>();
}

Result<std::vector<std::string>> names(const json& list, const std::string& where) {
    if (!list.is_array())
        return fail(where, "must be a list of names");
    std::vector<std::string> result;
    std::set<std::string> seen;
    for (std::size_t i = 0; i < list.size(); ++i) {
        const std::string at = where + "[" + std::to_string(i) + "]";
        if (!list[i].is_string() || list[i].get_ref<const std::string&>().empty())
            return fail(at, "must be a name (a non-empty string)");
        result.push_back(list[i].get<std::string>());
        if (!seen.insert(result.back()).second)
            return fail(at, "the name '" + result.back() + "' is used twice");
    }
    return result;
}

Result<std::vector<double>> dividends(const json& list, const std::string& where,
                                      const std::vector<std::string>& players) {
    if (!list.is_array() || list.empty())
        return fail(where, R"(must be a list of {"players": [...], "effect": number})");
    std::vector<double> result(std::size_t{1} << players.size(), 0.0);
    std::set<std::uint32_t> given;
    for (std::size_t i = 0; i < list.size(); ++i) {
        const std::string at = where + "[" + std::to_string(i) + "]";
        if (auto checked = known_keys(list[i], at, {"players", "effect"}); !checked)
            return tl::unexpected(checked.error());
        for (const char* key : {"players", "effect"})
            if (!list[i].contains(key))
                return fail(at + "." + key, "is missing");
        const auto members = names(list[i]["players"], at + ".players");
        if (!members)
            return tl::unexpected(members.error());
        std::uint32_t subset = 0;
        for (const std::string& name : *members) {
            const auto player = std::find(players.begin(), players.end(), name);
            if (player == players.end()) {
                const std::string near = nearest(name, players);
                return fail(at + ".players",
                            "no player '" + name + "'" +
                                (near.empty() ? "" : "; did you mean '" + near + "'?"));
            }
            subset |= 1U << static_cast<unsigned>(player - players.begin());
        }
        const auto effect = number(list[i]["effect"], at + ".effect");
        if (!effect)
            return tl::unexpected(effect.error());
        if (!given.insert(subset).second)
            return fail(at, "the effect of these players is given twice");
        result[subset] = *effect;
    }
    return result;
}

Result<void> read_context(const json& object, Truth& truth) {
    if (auto checked = known_keys(object, "context", {"support", "weights", "level", "relative"});
        !checked)
        return checked;
    for (const char* key : {"support", "weights"}) {
        const std::string where = std::string("context.") + key;
        if (!object.contains(key))
            return fail(where, "is missing");
        if (!object[key].is_array() || object[key].empty())
            return fail(where, "must be a list of one or more numbers");
        std::vector<double> values;
        for (std::size_t i = 0; i < object[key].size(); ++i) {
            const auto value = number(object[key][i], where + "[" + std::to_string(i) + "]");
            if (!value)
                return tl::unexpected(value.error());
            values.push_back(*value);
        }
        (std::string_view(key) == "support" ? truth.support : truth.weights) = std::move(values);
    }
    if (truth.support.size() != truth.weights.size())
        return fail("context.weights", "needs one probability for each of the " +
                                           std::to_string(truth.support.size()) +
                                           " values of context.support");
    double total = 0;
    double mean = 0;
    double size = 0;
    for (std::size_t i = 0; i < truth.support.size(); ++i) {
        if (truth.weights[i] < 0)
            return fail("context.weights[" + std::to_string(i) + "]",
                        "a probability is not negative");
        total += truth.weights[i];
        mean += truth.weights[i] * truth.support[i];
        size += truth.weights[i] * std::abs(truth.support[i]);
    }
    if (std::abs(total - 1) > 1e-9)
        return fail("context.weights", "must sum to 1");
    if (std::abs(mean) > 1e-9 * std::max(1.0, size))
        return fail("context.support",
                    "its mean must be 0, so that the effects given are those of the mean context");
    for (const char* key : {"level", "relative"}) {
        if (!object.contains(key))
            continue;
        const auto value = number(object[key], std::string("context.") + key);
        if (!value)
            return tl::unexpected(value.error());
        (std::string_view(key) == "level" ? truth.level : truth.relative) = *value;
    }
    return {};
}

double multilinear(const std::vector<double>& dividend, std::uint32_t coalition, double scale) {
    double effects = 0;
    for (std::uint32_t subset = coalition; subset != 0; subset = (subset - 1) & coalition)
        effects += dividend[subset];
    return dividend[0] + (scale * effects);
}

}  // namespace

Result<Truth> parse_truth(std::string_view text) {
    json document;
    try {
        document = json::parse(text);
    } catch (const json::parse_error& error) {
        return fail("byte " + std::to_string(error.byte), "not JSON: " + std::string(error.what()));
    } catch (const json::exception& error) {  // a number beyond the range of double
        return fail("", error.what());
    }
    if (auto checked =
            known_keys(document, "", {"players", "pass", "gain", "context", "plan_spread"});
        !checked)
        return tl::unexpected(checked.error());
    for (const char* key : {"players", "pass"})
        if (!document.contains(key))
            return fail(key, "is missing");
    Truth truth;
    auto players = names(document["players"], "players");
    if (!players)
        return tl::unexpected(players.error());
    if (players->empty() || players->size() > max_players)
        return fail("players", "must name 1 to 12 players");
    truth.players = std::move(*players);
    auto pass = dividends(document["pass"], "pass", truth.players);
    if (!pass)
        return tl::unexpected(pass.error());
    truth.pass = std::move(*pass);
    if (document.contains("gain")) {
        auto gain = dividends(document["gain"], "gain", truth.players);
        if (!gain)
            return tl::unexpected(gain.error());
        truth.gain = std::move(*gain);
    }
    if (document.contains("context"))
        if (auto read = read_context(document["context"], truth); !read)
            return tl::unexpected(read.error());
    if (document.contains("plan_spread")) {
        const auto spread = number(document["plan_spread"], "plan_spread");
        if (!spread)
            return tl::unexpected(spread.error());
        if (*spread < 0 || *spread > 0.5)
            return fail("plan_spread", "must lie between 0 and 0.5");
        truth.plan_spread = *spread;
    }
    return truth;
}

double success_probability(const Truth& truth, std::uint32_t coalition, double context_effect) {
    CHECK(coalition < truth.pass.size());
    const double p = (truth.level * context_effect) +
                     multilinear(truth.pass, coalition, 1 + (truth.relative * context_effect));
    return std::clamp(p, 0.0, 1.0);
}

double success_probability(const Truth& truth, std::uint32_t coalition, double context_effect,
                           bool lucky_plan) {
    const double p = success_probability(truth, coalition, context_effect);
    const double shift = std::min({truth.plan_spread, p, 1 - p});
    return lucky_plan ? p + shift : p - shift;
}

double gain_when_passing(const Truth& truth, std::uint32_t coalition, double context_effect) {
    if (truth.gain.empty())
        return 0;
    CHECK(coalition < truth.gain.size());
    return std::max(0.0, multilinear(truth.gain, coalition, 1 + (truth.relative * context_effect)));
}

double context_effect(const Truth& truth, std::uint64_t bits) {
    double left = to_unit(bits);
    for (std::size_t i = 0; i + 1 < truth.support.size(); ++i) {
        if (left < truth.weights[i])
            return truth.support[i];
        left -= truth.weights[i];
    }
    return truth.support.back();
}

std::vector<double> true_values(const Truth& truth) {
    std::vector<double> values(truth.pass.size(), 0.0);
    for (std::uint32_t coalition = 0; coalition < values.size(); ++coalition)
        for (std::size_t i = 0; i < truth.support.size(); ++i)
            values[coalition] +=
                truth.weights[i] * success_probability(truth, coalition, truth.support[i]);
    return values;
}

std::vector<double> true_gains(const Truth& truth) {
    std::vector<double> values(truth.pass.size(), 0.0);
    for (std::uint32_t coalition = 0; coalition < values.size(); ++coalition)
        for (std::size_t i = 0; i < truth.support.size(); ++i)
            values[coalition] += truth.weights[i] *
                                 success_probability(truth, coalition, truth.support[i]) *
                                 gain_when_passing(truth, coalition, truth.support[i]);
    return values;
}

}  // namespace loopscope
