// The report for a terminal: what matters most, in at most 100 columns.
#include "report/digest.h"
#include "report/escape.h"
#include "report/numbers.h"
#include "report/report.h"
#include "report/tables.h"

#include "core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace loopscope {

namespace {

constexpr std::size_t line_width = 100;

// Without control characters: a model's text must not move the cursor. One line; `ascii`: of ASCII,
// before any width is reckoned, because "\u2265" becomes two characters.
std::string one_line(std::string_view text, bool ascii) {
    std::string out = ascii ? to_ascii(clean(text)) : clean(text);
    std::ranges::replace(out, '\n', ' ');
    std::ranges::replace(out, '\t', ' ');
    return out;
}

// Words in lines of at most `line_width` columns; the first begins with `lead`, the others with as
// many spaces.
std::string wrapped(std::string_view lead, std::string_view text, bool ascii) {
    const std::string indent(width_of(lead), ' ');
    const std::size_t room = line_width - indent.size();
    std::string out(lead);
    std::size_t used = 0;
    std::string word;
    const auto flush = [&] {
        while (!word.empty()) {
            const std::size_t width = width_of(word);
            if (used > 0 && used + 1 + width > room) {
                out += "\n" + indent;
                used = 0;
            }
            if (used > 0) {
                out += ' ';
                ++used;
            }
            if (width <= room) {
                out += word;
                used += width;
                word.clear();
            } else {  // one word longer than a line is cut over several
                std::size_t bytes = 0;
                for (std::size_t columns = 0; bytes < word.size(); ++bytes) {
                    const bool lead_byte =
                        (static_cast<unsigned char>(word[bytes]) & 0xC0U) != 0x80U;
                    if (lead_byte && columns == room)
                        break;
                    columns += lead_byte ? 1U : 0U;
                }
                out += word.substr(0, bytes);
                word.erase(0, bytes);
                used = room;
            }
        }
    };
    for (const char c : one_line(text, ascii)) {
        if (c == ' ')
            flush();
        else
            word += c;
    }
    flush();
    return out + "\n";
}

std::string padded(std::string_view text, std::size_t width, bool right) {
    const std::size_t have = width_of(text);
    const std::string space(have < width ? width - have : 0, ' ');
    return right ? space + std::string(text) : std::string(text) + space;
}

// Columns as wide as their widest cell; when that is too wide, the widest text columns give way.
// Columns that are empty throughout are left out.
std::string table_text(const Table& table, bool ascii) {
    if (table.empty())
        return "";
    std::vector<std::size_t> shown;
    for (std::size_t column = 0; column < table.columns.size(); ++column)
        if (std::ranges::any_of(table.rows, [column](const std::vector<Cell>& row) {
                return !row[column].text.empty();
            }))
            shown.push_back(column);
    std::vector<std::size_t> widths;
    for (const std::size_t column : shown) {
        std::size_t width = width_of(table.columns[column].title);
        for (const std::vector<Cell>& row : table.rows)
            width = std::max(width, width_of(one_line(row[column].text, ascii)));
        widths.push_back(width);
    }
    const auto total = [&widths] {
        return std::accumulate(widths.begin(), widths.end(), std::size_t{2}) +
               2 * (widths.size() - 1);
    };
    while (total() > line_width) {
        std::size_t widest = widths.size();
        for (std::size_t i = 0; i < widths.size(); ++i)
            if (!table.columns[shown[i]].number &&
                (widest == widths.size() || widths[i] > widths[widest]))
                widest = i;
        if (widest == widths.size() || widths[widest] <= 8)
            widest = static_cast<std::size_t>(std::ranges::max_element(widths) - widths.begin());
        --widths[widest];
    }
    const auto cut = [ascii](const std::string& text, std::size_t width) {
        if (width_of(text) <= width)
            return text;
        return ascii ? text.substr(0, width - 1) + "~" : clip(text, width);
    };
    std::string out;
    const auto add_line = [&](const auto& text_of) {
        std::string row = " ";
        for (std::size_t i = 0; i < shown.size(); ++i)
            row += (i == 0 ? " " : "  ") + padded(cut(text_of(shown[i]), widths[i]), widths[i],
                                                  table.columns[shown[i]].number);
        row.erase(row.find_last_not_of(' ') + 1);
        out += row + "\n";
    };
    add_line([&](std::size_t column) { return one_line(table.columns[column].title, ascii); });
    out += "  " + std::string(total() - 2, '-') + "\n";
    for (const std::vector<Cell>& row : table.rows)
        add_line([&](std::size_t column) { return one_line(row[column].text, ascii); });
    return out;
}

Table with_columns(Table table, const std::vector<std::string>& titles) {
    std::vector<std::size_t> kept;
    for (const std::string& title : titles)
        for (std::size_t i = 0; i < table.columns.size(); ++i)
            if (table.columns[i].title == title)
                kept.push_back(i);
    Table out{table.name, table.caption, {}, {}, table.note};
    for (const std::size_t i : kept)
        out.columns.push_back(table.columns[i]);
    for (const std::vector<Cell>& row : table.rows) {
        std::vector<Cell>& cells = out.rows.emplace_back();
        for (const std::size_t i : kept)
            cells.push_back(row[i]);
    }
    return out;
}

// "6 lineages (24 contexts)" -> "6", for a column whose heading says what is counted.
Table with_short_n(Table table) {
    for (std::size_t column = 0; column < table.columns.size(); ++column)
        if (table.columns[column].title == "n")
            for (std::vector<Cell>& row : table.rows)
                row[column].text = row[column].text.substr(0, row[column].text.find(' '));
    return table;
}

std::string section(std::string_view title, const std::string& body) {
    return body.empty() ? "" : fmt::format("\n{}\n{}", title, body);
}

}  // namespace

std::string text_report(const ReportData& data, bool ascii) {
    const auto line = [ascii](std::string_view lead, std::string_view text) {
        return wrapped(lead, text, ascii);
    };
    const auto rows = [ascii](const Table& table, const std::vector<std::string>& columns) {
        return table_text(with_columns(with_short_n(table), columns), ascii);
    };
    const auto list = [&line](const std::vector<std::string>& sentences) {
        std::string body;
        for (const std::string& sentence : sentences)
            body += line("  - ", sentence);
        return body;
    };

    std::string out = line("", fmt::format("{}: {} {}, {}", data.task_name, data.kind, data.study,
                                           data.state.empty() ? "state unknown" : data.state));
    if (const std::string label = builtin_label(data); !label.empty())
        out +=
            line("", fmt::format("Made with {}, which is built in and no language model.", label));

    const Candidate* best = find_candidate(data.candidates, data.best);
    if (best != nullptr && best->evaluation.speedup) {
        const Ratio& speedup = *best->evaluation.speedup;
        std::string body =
            line("  ", fmt::format("{} over the baseline start ({} of generation {}, n = {})",
                                   times_text(speedup), best->id, best->generation,
                                   launches_text(speedup)));
        for (const PeerResult& peer : data.peers)
            body += line("  ", fmt::format("{} against {}: peer time / candidate time{}, n = {}",
                                           times_text(peer.candidate_over_peer), peer.peer,
                                           peer.sizes.empty() ? "" : ", " + peer.sizes,
                                           launches_text(peer.candidate_over_peer)));
        out += section("Best speed-up", body);
    }
    if (outcomes_in_all(pool_of(data)).with_verdict > 0)
        out += section(
            "Outcomes of the proposals, by generation (shares with 95 % Wilson intervals)",
            rows(outcomes_table(data), {"generation", "n", "fail", "compile", "pass", "fast",
                                        "reaches compile", "reaches pass", "reaches fast"}));
    if (data.attribution) {
        const std::vector<const GameEstimate*> games = pooled_games(*data.attribution);
        const std::string n = games.empty() ? "" : game_n(*games.front());
        out += section(
            "Worth of each component (shares in percentage points, gain in log units; 95 % "
            "intervals)",
            (n.empty() ? "" : line("  ", "n = " + n)) +
                rows(indices_table(data),
                     {"metric", "component", "Shapley", "Banzhaf", "adjusted p", "n"}));
        out += section("Interactions (above 0: worth more together than apart)",
                       rows(interactions_table(data),
                            {"metric", "components", "interaction", "adjusted p", "n"}));
    }
    out += section("Cost", rows(costs_table(data), {"role", "model", "calls", "reused", "tokens in",
                                                    "tokens out", "cost"}));
    out += section("The loop in words", list(data.diagnosis));
    out += section("What limits the conclusions", list(limits_of(data)));
    return out;
}

}  // namespace loopscope
