// A game given as a table: {"players": ["a", "b"], "values": [v(00), v(01), v(10), v(11)]}, player
// i = bit i.
#include "attribute/attribution.h"
#include "core/text.h"

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace loopscope {

namespace {

using nlohmann::json;

constexpr std::size_t max_players = 20;  // 2^20 values: 20 MB of JSON

std::string place(std::size_t i) { return "values[" + std::to_string(i) + "]"; }

Result<std::vector<std::string>> parse_players(const json& list) {
    if (!list.is_array() || list.empty())
        return fail("players", "must be a list of one or more names");
    if (list.size() > max_players)
        return fail("players", std::to_string(list.size()) + " players; at most " +
                                   std::to_string(max_players) + " are possible");
    std::vector<std::string> players;
    std::set<std::string> seen;
    for (std::size_t i = 0; i < list.size(); ++i) {
        const std::string where = "players[" + std::to_string(i) + "]";
        if (!list[i].is_string() || list[i].get_ref<const std::string&>().empty())
            return fail(where, "must be a name (a non-empty string)");
        players.push_back(list[i].get<std::string>());
        if (!seen.insert(players.back()).second)
            return fail(where, "the name '" + players.back() + "' is used twice");
    }
    return players;
}

Result<std::vector<double>> parse_values(const json& list, std::size_t players) {
    if (!list.is_array())
        return fail("values", "must be a list of numbers");
    const std::size_t expected = std::size_t{1} << players;
    if (list.size() != expected) {
        std::string what = std::to_string(list.size()) + " values; " + std::to_string(players) +
                           (players == 1 ? " player needs 2^1 = " : " players need 2^n = ") +
                           std::to_string(expected) + ", one for each coalition";
        if (!std::has_single_bit(list.size()))
            what += " (" + std::to_string(list.size()) + " is not a power of two)";
        return fail("values", what);
    }
    std::vector<double> values;
    values.reserve(expected);
    for (std::size_t i = 0; i < expected; ++i) {
        if (!list[i].is_number())
            return fail(place(i), std::string("must be a finite number, not ") +
                                      (list[i].is_null() ? "null" : list[i].type_name()));
        values.push_back(list[i].get<double>());
        // A difference of two values must be finite as well.
        if (!std::isfinite(values.back()) || std::abs(values.back()) > 1e300)
            return fail(place(i), "must be a finite number of size at most 1e300");
    }
    return values;
}

}  // namespace

Result<ValueTable> parse_value_table(std::string_view text) {
    json document;
    try {
        document = json::parse(text);
    } catch (const json::parse_error& error) {
        return fail("byte " + std::to_string(error.byte), "not JSON: " + std::string(error.what()));
    } catch (const json::exception& error) {  // a number beyond the range of double
        return fail("values", error.what());
    }
    if (!document.is_object())
        return fail("", R"(a table is an object {"players": [...], "values": [...]})");
    for (const auto& [key, value] : document.items()) {
        if (key == "players" || key == "values")
            continue;
        const std::string near = nearest(key, {"players", "values"});
        return fail(key, "unknown key" + (near.empty() ? ": only players and values are known"
                                                       : "; did you mean '" + near + "'?"));
    }
    for (const char* key : {"players", "values"})
        if (!document.contains(key))
            return fail(key, "is missing");
    auto players = parse_players(document["players"]);
    if (!players)
        return tl::unexpected(players.error());
    auto values = parse_values(document["values"], players->size());
    if (!values)
        return tl::unexpected(values.error());
    ValueTable table;
    table.players = std::move(*players);
    table.values = std::move(*values);
    return table;
}

std::string indices_of(const ValueTable& table, int order) {
    const auto players = static_cast<int>(table.players.size());
    order = std::min(order, players);
    const auto name = [&](std::uint32_t subset) {
        json members = json::array();
        for (std::size_t i = 0; i < table.players.size(); ++i)
            if ((subset >> i & 1U) != 0)
                members.push_back(table.players[i]);
        return members;
    };
    json indices;
    for (const IndexKind kind :
         {IndexKind::shapley, IndexKind::banzhaf, IndexKind::sii, IndexKind::bii,
          IndexKind::moebius, IndexKind::co_moebius, IndexKind::chaining, IndexKind::stii,
          IndexKind::ksii, IndexKind::fsii, IndexKind::fbii}) {
        const bool single = kind == IndexKind::shapley || kind == IndexKind::banzhaf;
        const int up_to = single ? 1 : order;
        const std::vector<double> all = index_values(table.values, kind, up_to);
        json rows = json::array();
        for (std::uint32_t subset = 1; subset < all.size(); ++subset) {
            if (std::popcount(subset) > up_to)
                continue;
            json row;
            row["players"] = name(subset);
            row["value"] = all[subset];
            rows.push_back(std::move(row));
        }
        indices[std::string(name_of(kind))] = std::move(rows);
    }
    json document;
    document["players"] = table.players;
    document["order"] = order;
    document["value_of_none"] = table.values.front();
    document["value_of_all"] = table.values.back();
    document["indices"] = std::move(indices);
    // A name that is not UTF-8 cannot come from parse_value_table; replace rather than throw.
    return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace loopscope
