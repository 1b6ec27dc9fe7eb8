#include "llm/rules_facts.h"

#include "core/text.h"
#include "record/prompt.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace loopscope::rules {
namespace {

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z')
            c = static_cast<char>(c - 'A' + 'a');
    return out;
}

bool has(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// What follows the first `mark`, or "".
std::string_view after(std::string_view text, std::string_view mark) {
    const std::size_t at = text.find(mark);
    return at == std::string_view::npos ? std::string_view() : text.substr(at + mark.size());
}

std::string word_at(std::string_view text) {
    std::size_t begin = 0;
    while (begin < text.size() && (text[begin] == ' ' || text[begin] == '\'' || text[begin] == '`'))
        ++begin;
    std::size_t end = begin;
    while (end < text.size() && is_word(text[end]))
        ++end;
    return std::string(text.substr(begin, end - begin));
}

std::optional<double> number_at(std::string_view text) {
    std::size_t begin = 0;
    while (begin < text.size() && (text[begin] == ' ' || text[begin] == '='))
        ++begin;
    std::size_t end = begin;
    while (end < text.size() &&
           (is_word(text[end]) || text[end] == '.' || text[end] == '-' || text[end] == '+'))
        ++end;
    while (end > begin && (text[end - 1] == '.' || text[end - 1] == '-'))
        --end;
    const std::string digits(text.substr(begin, end - begin));
    if (digits.empty())
        return std::nullopt;
    char* stop = nullptr;
    const double value = std::strtod(digits.c_str(), &stop);
    return stop == digits.c_str() ? std::nullopt : std::optional<double>(value);
}

int integer_at(std::string_view text) {
    while (!text.empty() && text.front() == ' ')
        text.remove_prefix(1);
    int value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return std::max(value, 0);
}

// FILE:LINE or FILE:LINE:COLUMN somewhere in the line; the file's name has a dot.
struct Place {
    std::string file;
    int line = 0, column = 0;
    std::string_view rest;
};
std::optional<Place> place_in(std::string_view line) {
    for (std::size_t colon = line.find(':'); colon != std::string_view::npos;
         colon = line.find(':', colon + 1)) {
        std::size_t begin = colon;
        while (begin > 0 && (is_word(line[begin - 1]) || line[begin - 1] == '.' ||
                             line[begin - 1] == '/' || line[begin - 1] == '-'))
            --begin;
        const std::string_view file = line.substr(begin, colon - begin);
        const int number = integer_at(line.substr(colon + 1));
        if (number == 0 || !has(file, ".") || (colon + 1 < line.size() && line[colon + 1] == ' '))
            continue;
        Place p;
        p.file = std::string(file);
        p.line = number;
        std::size_t end = colon + 1;
        while (end < line.size() && line[end] >= '0' && line[end] <= '9')
            ++end;
        if (end < line.size() && line[end] == ':' && end + 1 < line.size() &&
            line[end + 1] >= '0' && line[end + 1] <= '9') {
            p.column = integer_at(line.substr(end + 1));
            ++end;
            while (end < line.size() && line[end] >= '0' && line[end] <= '9')
                ++end;
        }
        p.rest = line.substr(end);
        return p;
    }
    return std::nullopt;
}

// The number before `unit`: "12.5 % of the roof" -> 12.5.
std::optional<double> number_before(std::string_view text, std::string_view unit) {
    const std::size_t at = text.find(unit);
    if (at == std::string_view::npos)
        return std::nullopt;
    std::size_t end = at;
    while (end > 0 && text[end - 1] == ' ')
        --end;
    std::size_t begin = end;
    while (begin > 0 && (is_word(text[begin - 1]) || text[begin - 1] == '.'))
        --begin;
    return number_at(text.substr(begin, end - begin));
}

int line_in(std::string_view text) {
    const std::string_view rest = after(text, "line ");
    return rest.empty() ? 0 : integer_at(rest);
}

}  // namespace

DebuggerFacts read_debugger(std::string_view text) {
    DebuggerFacts facts;
    for (const std::string& line : split_lines(text)) {
        const std::string low = lower(line);
        const std::optional<Place> place = place_in(line);
        if (place && has(low, "error:")) {
            CompilerError error;
            error.file = place->file;
            error.line = place->line;
            error.column = place->column;
            error.message = std::string(trim(after(line, "error:")));
            facts.errors.push_back(std::move(error));
            continue;
        }
        const bool overrun = has(low, "buffer-overflow") || has(low, "buffer overflow") ||
                             has(low, "out of bounds") || has(low, "out-of-bounds") ||
                             has(low, "segv") || has(low, "guard page") ||
                             has(low, "past the end") || has(low, "behind the end") ||
                             has(low, "buffer-underflow");
        if (overrun) {
            OutOfBounds o;
            o.line = place ? place->line : line_in(low);
            const std::string_view by = after(line, " by ");
            if (!by.empty()) {
                const std::size_t bracket = by.find(']');
                if (bracket != std::string_view::npos && bracket < 80)
                    o.access = std::string(by.substr(0, bracket + 1));
            }
            o.before = has(low, "before the start") || has(low, "underflow") || has(low, "index -");
            o.array = word_at(after(line, o.before ? " start of " : " end of "));
            if (o.array.empty() && !o.access.empty())
                o.array = o.access.substr(0, o.access.find('['));
            facts.overruns.push_back(std::move(o));
        }
        const bool unset = has(low, "uninit") || has(low, "before anything is written") ||
                           has(low, "undefined when") || has(low, "garbage value") ||
                           has(low, "not initialized") || has(low, "not initialised");
        if (unset) {
            if (place)
                facts.uninitialised.insert(place->line);
            else if (line_in(low) > 0)
                facts.uninitialised.insert(line_in(low));
            const std::string output = word_at(after(line, "the output "));
            if (!output.empty())
                facts.unset.insert(output);
            const std::string variable = word_at(after(line, "variable '"));
            if (!variable.empty())
                facts.unset.insert(variable);
        }
        const std::size_t expected = low.find(", expected ");
        if (has(low, "expected ") &&
            (expected != std::string::npos || has(low, "never written") || has(low, "wrong"))) {
            facts.wrong = true;
            facts.not_finite = facts.not_finite || has(low, "= nan") || has(low, "= -nan") ||
                               has(low, "= inf") || has(low, "= -inf") || has(low, "not finite") ||
                               has(low, "= 1.#");
            if (expected != std::string::npos) {
                const std::size_t equals = low.rfind('=', expected);
                const std::optional<double> got =
                    equals == std::string::npos
                        ? std::nullopt
                        : number_at(std::string_view(low).substr(equals + 1));
                const std::optional<double> wanted =
                    number_at(std::string_view(low).substr(expected + 11));
                if (got && wanted && std::isfinite(*got) && *wanted != 0 &&
                    std::abs(*got + *wanted) < 1e-3 * std::abs(*wanted))
                    facts.negated = true;
            }
            const std::optional<double> bad = number_before(low, " of ");
            const std::optional<double> all = number_at(after(low, " of "));
            facts.part_wrong = facts.part_wrong || (bad && all && *bad < 0.9 * *all);
        }
    }
    return facts;
}

AnalyzerFacts read_analyzer(std::string_view text) {
    AnalyzerFacts facts;
    for (const std::string& line : split_lines(text)) {
        const std::string low = lower(line);
        const std::string_view trimmed = trim(low);
        const bool loop_line =
            starts_with_word(trimmed, "loop") && has(low, "line ") && !has(low, "vectorized");
        if (loop_line) {
            LoopFacts loop;
            loop.var = word_at(after(line, "loop "));
            loop.line = line_in(low);
            const std::size_t comparison = low.find(loop.var + " <= ");
            loop.inclusive = comparison != std::string::npos;
            const std::optional<double> step = number_at(after(low, "step "));
            loop.step = step ? static_cast<long>(*step) : 1;
            facts.sums = facts.sums || has(low, "accumulates");
            facts.divisions = facts.divisions || has(low, "division") || has(low, "square root");
            facts.branches = facts.branches || has(low, "branch");
            facts.loops.push_back(std::move(loop));
        }
        if (has(low, " innermost instead of ")) {
            AnalyzerFacts::Order order;
            order.better = word_at(after(line, "with "));
            order.now = word_at(after(line, " instead of "));
            order.line = line_in(low);
            facts.orders.push_back(std::move(order));
        }
        if (has(low, "every iteration") &&
            (has(low, "accumulator") || has(low, "one address") || has(low, "one write")))
            facts.in_memory.insert(line_in(low));
        if (has(low, "per iteration of ") && (has(low, "moves ") || has(low, "moved by ")))
            facts.strided.insert(word_at(after(line, "per iteration of ")));
        facts.indirect = facts.indirect || has(low, "indirect");
        if (has(low, "not vectorized") || has(low, "not vectorised") ||
            has(low, "not beneficial")) {
            facts.remarks[line_in(low)] = std::string(after(low, "vectorized: "));
            facts.reorders = facts.reorders || has(low, "reorder") || has(low, "floating-point");
            facts.aliases = facts.aliases || has(low, "alias") || has(low, "memory operations") ||
                            has(low, "array bounds") || has(low, "dependen");
            facts.calls = facts.calls || has(low, "call");
            facts.uncountable = facts.uncountable || has(low, "number of") ||
                                has(low, "control flow") || has(low, "could not determine");
            facts.branches = facts.branches || has(low, "control flow");
        }
    }
    return facts;
}

ProfilerFacts read_profiler(std::string_view text) {
    ProfilerFacts facts;
    auto least = [](std::optional<double>& to, std::optional<double> value) {
        if (value && (!to || *value < *to))
            to = value;
    };
    auto most = [](std::optional<double>& to, std::optional<double> value) {
        if (value && (!to || *value > *to))
            to = value;
    };
    for (const std::string& line : split_lines(text)) {
        const std::string low = lower(line);
        if (has(low, "gflop/s") && has(low, "roof"))
            least(facts.roof_percent, number_before(low, "% of"));
        if (has(low, "it reaches"))
            least(facts.attained_percent, number_before(low, "% of that"));
        facts.memory_bound = facts.memory_bound || has(low, "memory-bound");
        if (has(low, "instructions a flop"))
            most(facts.instructions_per_flop, number_before(low, "instructions a flop"));
        if (has(low, "hot:")) {
            if (const std::optional<Place> place = place_in(line))
                facts.hot.push_back(place->line);
            continue;  // its miss rates are those of the line
        }
        if (has(low, "d1") && has(low, "miss rate"))
            most(facts.d1_miss_percent, number_at(after(low, "miss rate")));
        if (has(low, "ll miss rate"))
            most(facts.ll_miss_percent, number_at(after(low, "ll miss rate")));
    }
    return facts;
}

Facts facts_of(std::string_view user_message) {
    Facts facts;
    const std::vector<Section> sections = parse_sections(user_message);
    const std::string status = lower(section_text(sections, "status"));
    facts.status = word_at(status);
    facts.reason = word_at(after(status, "("));
    facts.history = std::string(section_text(sections, "history"));
    if (const std::string_view text = section_text(sections, "feedback: debugger");
        !trim(text).empty())
        facts.debugger = read_debugger(text);
    if (const std::string_view text = section_text(sections, "feedback: analyzer");
        !trim(text).empty())
        facts.analyzer = read_analyzer(text);
    if (const std::string_view text = section_text(sections, "feedback: profiler");
        !trim(text).empty())
        facts.profiler = read_profiler(text);
    return facts;
}

std::string key_lines(std::string_view component, std::string_view text) {
    // The first mark that a line has is its rank; the earlier ranks are kept first, in the order of
    // the text.
    constexpr std::array<std::string_view, 18> marks = {"error:",
                                                        "sanitizer:",
                                                        "expected ",
                                                        "before anything is written",
                                                        " instead of ",
                                                        "roof",
                                                        "it reaches",
                                                        "miss rate",
                                                        "accumulator",
                                                        "not vectorized",
                                                        "per iteration of ",
                                                        "hot:",
                                                        "instructions a flop",
                                                        "indirect",
                                                        "loop ",
                                                        "warning:",
                                                        "intensity",
                                                        "nothing found"};
    struct Ranked {
        std::size_t rank, position;
        std::string line;
    };
    std::vector<Ranked> found;
    std::size_t position = 0;
    for (const std::string& line : split_lines(text)) {
        const std::string low = lower(line);
        ++position;
        for (std::size_t rank = 0; rank < marks.size(); ++rank)
            if (has(low, marks[rank])) {
                const bool known = std::any_of(found.begin(), found.end(), [&](const Ranked& r) {
                    return trim(r.line) == trim(line);
                });
                if (!known)
                    found.push_back({rank, position, line});
                break;
            }
    }
    std::sort(found.begin(), found.end(), [](const Ranked& a, const Ranked& b) {
        return std::tie(a.rank, a.position) < std::tie(b.rank, b.position);
    });
    constexpr std::size_t kept = 8;
    const std::size_t left_out = found.size() > kept ? found.size() - kept : 0;
    if (found.size() > kept)
        found.resize(kept);
    std::sort(found.begin(), found.end(),
              [](const Ranked& a, const Ranked& b) { return a.position < b.position; });
    std::string out = fmt::format("The {} says:\n", component);
    for (const Ranked& r : found)
        out += fmt::format("- {}\n", trim(r.line));
    if (found.empty())
        out += fmt::format("- {}\n", trim(text).substr(0, trim(text).find('\n')));
    if (left_out > 0)
        out += fmt::format("- {} more lines of less weight are left out.\n", left_out);
    return out;
}

}  // namespace loopscope::rules
