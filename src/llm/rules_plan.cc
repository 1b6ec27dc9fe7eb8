#include "llm/rules_plan.h"

#include "core/result.h"
#include "core/rng.h"
#include "core/text.h"
#include "llm/rules_depend.h"
#include "llm/rules_facts.h"
#include "llm/rules_repair.h"
#include "llm/rules_syntax.h"
#include "llm/rules_transform.h"
#include "program/edit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace loopscope::rules {

bool is_repair(Move move) { return move >= Move::strict_bound; }

bool operator==(const Action& a, const Action& b) { return sentence(a) == sentence(b); }

// --- sentences

namespace {

std::string loop_text(const LoopName& loop) {
    return loop.line > 0 ? fmt::format("{} (line {})", loop.var, loop.line) : loop.var;
}

std::string loops_text(const std::vector<LoopName>& loops) {
    std::string out = loops.size() == 1 ? "loop " : "loops ";
    for (std::size_t i = 0; i < loops.size(); ++i)
        out += (i == 0 ? "" : i + 1 == loops.size() ? " and " : ", ") + loop_text(loops[i]);
    return out;
}

}  // namespace

std::string sentence(const Action& a) {
    const std::string loops = loops_text(a.loops);
    const std::string& f = a.function;
    switch (a.move) {
        case Move::interchange:
            return fmt::format("Interchange {} of {}{}.", loops, f,
                               a.also ? ", splitting off the initialisation" : "");
        case Move::tile:
            return fmt::format("Tile {} of {} by {}.", loops, f, a.factor);
        case Move::unroll:
            return fmt::format("Unroll {} of {} by {}.", loops, f, a.factor);
        case Move::register_sums:
            return fmt::format("Keep in registers what {} of {} accumulates in memory.", loops, f);
        case Move::partial_sums:
            return fmt::format("Break the sum of {} of {} into {} partial sums.", loops, f,
                               a.factor);
        case Move::hoist:
            return fmt::format("Hoist the invariants out of {} of {}.", loops, f);
        case Move::restrict_pointers:
            return fmt::format("Use the arrays of {} through restrict pointers.", f);
        case Move::vectorize:
            return fmt::format("Ask the compiler to vectorise {} of {}.", loops, f);
        case Move::split:
            return fmt::format("Split the initialisation off {} of {}.", loops, f);
        case Move::arithmetic:
            return fmt::format("Replace divisions, roots and powers in {} by cheaper forms.", f);
        case Move::row_pointers:
            return fmt::format("Walk along the rows by pointers in {} of {}.", loops, f);
        case Move::register_tile:
            return fmt::format("Compute {} in register tiles of {} rows by {} vectors along {}{}.",
                               f, a.rows, a.factor, loops, a.also ? ", with a packed panel" : "");
        case Move::peel:
            return fmt::format("Peel the first and last iterations off {} of {}.", loops, f);
        case Move::segments:
            return fmt::format(
                "Replace the search for the segment in {} of {} by a loop over the segments.",
                loops, f);
        case Move::strict_bound:
            return fmt::format("Change the bound of {} of {} from <= to <.", loops, f);
        case Move::longer_loop:
            return fmt::format("Extend the bound of {} of {} by one.", loops, f);
        case Move::shorter_loop:
            return fmt::format("Shorten the bound of {} of {} by one.", loops, f);
        case Move::later_start:
            return fmt::format("Start {} of {} one iteration later.", loops, f);
        case Move::initialise:
            return fmt::format("Set `{}` to zero in {} before it is accumulated.", a.subject, f);
        case Move::transpose:
            return fmt::format("Transpose the subscripts of `{}` in {}.", a.subject, f);
        case Move::swap_differences:
            return fmt::format("Swap the operands of the differences in {} of {}.", loops, f);
        case Move::add_tail:
            return fmt::format("Add the remaining iterations of {} of {}.", loops, f);
        case Move::rename:
            return fmt::format("Replace the undeclared name `{}` by `{}` in {}.", a.subject,
                               a.object, f);
        case Move::include:
            return fmt::format("Include {} for {}.", a.subject, f);
        case Move::insert:
            return fmt::format("Insert `{}` at line {}, column {}, of {}.", a.subject, a.line,
                               a.column, f);
    }
    return "";
}

namespace {

bool has(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z')
            c = static_cast<char>(c - 'A' + 'a');
    return out;
}

// Words and numbers of a sentence, each with what stands right before it.
struct Word {
    std::string text;
    std::size_t offset = 0;
};
std::vector<Word> words_of(std::string_view text) {
    std::vector<Word> out;
    std::size_t i = 0;
    auto is_word = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_';
    };
    while (i < text.size()) {
        if (!is_word(text[i])) {
            ++i;
            continue;
        }
        const std::size_t begin = i;
        while (i < text.size() && is_word(text[i]))
            ++i;
        out.push_back({std::string(text.substr(begin, i - begin)), begin});
    }
    return out;
}

std::optional<long> whole_number(const std::string& word) {
    long value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc() && end == word.data() + word.size() && value < 100000
               ? std::optional<long>(value)
               : std::nullopt;
}

// Texts in back quotes.
std::vector<std::string> quoted(std::string_view text) {
    std::vector<std::string> out;
    for (std::size_t open = text.find('`'); open != std::string_view::npos;
         open = text.find('`', open)) {
        const std::size_t close = text.find('`', open + 1);
        if (close == std::string_view::npos)
            break;
        out.emplace_back(text.substr(open + 1, close - open - 1));
        open = close + 1;
    }
    return out;
}

}  // namespace

std::optional<Action> read_sentence(std::string_view text, std::string_view source,
                                    const std::vector<std::string>& functions) {
    const std::string low = lower(text);
    const std::vector<Word> words = words_of(text);
    const std::vector<std::string> quotes = quoted(text);
    Action a;
    for (const std::string& f : functions)
        for (const Word& w : words)
            if (w.text == f)
                a.function = f;
    if (a.function.empty() && !functions.empty())
        a.function = functions.front();

    // Loop variables of that function, in the order in which they are named, with "(line N)"
    // behind.
    std::set<std::string> variables;
    if (Result<Function> f = parse_function(source, a.function)) {
        for (const LoopPlace& place : loops_of(*f))
            variables.insert(place.head.var);
        for_each_statement(f->body, [&](const Stmt& s) {
            if (s.kind == StmtKind::loop && !s.init.empty())
                for (const Declarator& d : s.init[0].declarators)
                    variables.insert(d.name);
        });
    }
    const bool article = has(low, " a ");
    std::vector<long> numbers;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const bool is_line =
            i > 0 && (words[i - 1].text == "line" || words[i - 1].text == "column");
        if (variables.contains(words[i].text) && !(words[i].text == "a" && article)) {
            LoopName loop;
            loop.var = words[i].text;
            if (i + 2 < words.size() && words[i + 1].text == "line" &&
                text.substr(words[i].offset + loop.var.size(), 2) == " (")
                loop.line = static_cast<int>(whole_number(words[i + 2].text).value_or(0));
            const bool known = std::any_of(a.loops.begin(), a.loops.end(),
                                           [&](const LoopName& l) { return l.var == loop.var; });
            if (!known)
                a.loops.push_back(std::move(loop));
        } else if (const std::optional<long> n = whole_number(words[i].text); n && !is_line) {
            // A step's own number is no parameter.
            const bool list_number = i == 0 &&
                                     words[i].offset + words[i].text.size() < text.size() &&
                                     (text[words[i].offset + words[i].text.size()] == '.' ||
                                      text[words[i].offset + words[i].text.size()] == ')');
            if (!list_number)
                numbers.push_back(*n);
        }
        if (is_line)
            (words[i - 1].text == "line" ? a.line : a.column) =
                static_cast<int>(whole_number(words[i].text).value_or(0));
    }
    auto number = [&](std::size_t i, long otherwise) {
        return i < numbers.size() ? numbers[i] : otherwise;
    };
    // A word of the sentence, by its beginning; variables such as i_tile are no words.
    auto word = [&](std::string_view beginning) {
        return std::any_of(words.begin(), words.end(), [&](const Word& w) {
            return !variables.contains(w.text) &&
                   lower(w.text).substr(0, beginning.size()) == beginning;
        });
    };
    const bool loop = !a.loops.empty();

    // Repairs first: their sentences use words that transformations use as well.
    if (has(low, "undeclared") && quotes.size() >= 2) {
        a.move = Move::rename;
        a.subject = quotes[0];
        a.object = quotes[1];
        return a;
    }
    if (has(low, "include <") || has(low, "include `<")) {
        a.move = Move::include;
        const std::size_t open = text.find('<');
        const std::size_t close = text.find('>', open);
        if (close == std::string_view::npos)
            return std::nullopt;
        a.subject = std::string(text.substr(open, close - open + 1));
        return a;
    }
    if (has(low, "insert") && !quotes.empty() && a.line > 0) {
        a.move = Move::insert;
        a.subject = quotes[0];
        return a;
    }
    if (has(low, "insert") && has(low, "semicolon") && a.line > 0) {
        a.move = Move::insert;
        a.subject = ";";
        a.column = a.column > 0 ? a.column : 1000;
        return a;
    }
    if (loop && has(low, "<=") && has(low, "bound")) {
        a.move = Move::strict_bound;
        return a;
    }
    if (loop && has(low, "extend the bound")) {
        a.move = Move::longer_loop;
        return a;
    }
    if (loop && has(low, "shorten the bound")) {
        a.move = Move::shorter_loop;
        return a;
    }
    if (loop && has(low, "iteration later")) {
        a.move = Move::later_start;
        return a;
    }
    if (loop && (has(low, "remaining iterations") || has(low, "remainder loop"))) {
        a.move = Move::add_tail;
        return a;
    }
    if (loop && has(low, "operands of the differences")) {
        a.move = Move::swap_differences;
        return a;
    }
    if (has(low, "transpose the subscript") && !quotes.empty()) {
        a.move = Move::transpose;
        a.subject = quotes[0];
        return a;
    }
    if ((has(low, "to zero") || has(low, "initialise") || has(low, "initialize")) &&
        !quotes.empty() && !has(low, "interchange") && !has(low, "split")) {
        a.move = Move::initialise;
        a.subject = quotes[0];
        return a;
    }
    // Transformations, the more specific words first.
    if (loop && (has(low, "register tile") || has(low, "micro-kernel") || has(low, "microkernel") ||
                 has(low, "unroll-and-jam") || has(low, "register block"))) {
        a.move = Move::register_tile;
        a.rows = number(0, 4);
        a.factor = number(1, 2);
        a.also = word("pack");
        a.loops.erase(a.loops.begin(),
                      a.loops.end() - 1);  // the last loop that is named runs along the vectors
        return a;
    }
    if (a.loops.size() >= 2 && (word("interchange") || word("swap") || word("exchange"))) {
        a.move = Move::interchange;
        a.loops.resize(2);
        a.also = word("split");
        return a;
    }
    if (loop && (word("tile") || word("tiling") || word("block"))) {
        a.move = Move::tile;
        a.factor = number(0, 64);
        return a;
    }
    if (loop && (has(low, "partial sum") || word("accumulators"))) {
        a.move = Move::partial_sums;
        a.factor = number(0, 4);
        return a;
    }
    if (loop && word("segment")) {
        a.move = Move::segments;
        return a;
    }
    if (loop && word("peel")) {
        a.move = Move::peel;
        return a;
    }
    if (loop && word("unroll")) {
        a.move = Move::unroll;
        a.factor = number(0, 4);
        return a;
    }
    if (loop && word("split")) {
        a.move = Move::split;
        return a;
    }
    if (loop && word("register")) {
        a.move = Move::register_sums;
        return a;
    }
    if (loop && word("hoist")) {
        a.move = Move::hoist;
        return a;
    }
    if (loop && (word("vectoris") || word("vectoriz") || word("simd"))) {
        a.move = Move::vectorize;
        return a;
    }
    if (loop && word("pointer") && word("row")) {
        a.move = Move::row_pointers;
        return a;
    }
    if (word("restrict")) {
        a.move = Move::restrict_pointers;
        return a;
    }
    if (word("division") || word("reciprocal") || word("cheaper") || has(low, "square root")) {
        a.move = Move::arithmetic;
        return a;
    }
    return std::nullopt;
}

std::vector<Action> read_plan(std::string_view plan, std::string_view source,
                              const std::vector<std::string>& functions) {
    std::vector<Action> steps;
    for (const std::string& line : split_lines(plan)) {
        const std::string_view text = trim(line);
        if (starts_with_word(text, "Because") || starts_with_word(text, "Reason"))
            continue;
        if (const std::optional<Action> a = read_sentence(text, source, functions))
            if (steps.size() < 8)
                steps.push_back(*a);
    }
    return steps;
}

// --- carrying out

namespace {

Outcome run(const Function& f, const Action& a, bool checked) {
    const LoopName loop = a.loops.empty() ? LoopName() : a.loops.front();
    switch (a.move) {
        case Move::interchange:
            if (a.loops.size() != 2)
                break;
            return interchange(f, a.loops[0], a.loops[1], a.also, checked);
        case Move::tile:
            return tile(f, a.loops, a.factor, checked);
        case Move::unroll:
            return unroll(f, loop, a.factor, checked);
        case Move::register_sums:
            return register_sums(f, loop, checked);
        case Move::partial_sums:
            return partial_sums(f, loop, a.factor, checked);
        case Move::hoist:
            return hoist(f, loop, checked);
        case Move::restrict_pointers:
            return restrict_pointers(f, checked);
        case Move::vectorize:
            return vectorize_pragma(f, loop, checked);
        case Move::split:
            return split_initialisation(f, loop, checked);
        case Move::arithmetic:
            return cheaper_arithmetic(f, checked);
        case Move::row_pointers:
            return row_pointers(f, loop, checked);
        case Move::register_tile:
            return register_tile(f, loop, a.rows, a.factor, a.also, checked);
        case Move::peel:
            return peel(f, loop, checked);
        case Move::segments:
            return segments(f, loop, checked);
        case Move::strict_bound:
            return strict_bound(f, loop);
        case Move::longer_loop:
            return longer_loop(f, loop);
        case Move::shorter_loop:
            return shorter_loop(f, loop);
        case Move::later_start:
            return later_start(f, loop);
        case Move::initialise:
            return initialise(f, a.subject);
        case Move::transpose:
            return transpose_subscript(f, a.subject);
        case Move::swap_differences:
            return swap_differences(f, loop);
        case Move::add_tail:
            return add_tail(f, loop);
        case Move::rename:
        case Move::include:
        case Move::insert:
            break;
    }
    Outcome out;
    out.why = "this step is not about a function's loops";
    return out;
}

// Includes at the top, helper lines before the function, and the function's new text.
std::string assembled(std::string_view source, const FunctionSpan& span, const Outcome& outcome,
                      const Function& function) {
    std::string head;
    for (const std::string& include : outcome.includes)
        if (!has(source, "#include " + include))
            head += "#include " + include + "\n";
    std::string before;
    for (const std::string& helper : outcome.helpers)
        if (!has(source, helper))
            before += helper + "\n";
    if (!before.empty())
        before += "\n";
    return head + std::string(source.substr(0, span.begin)) + before + print(function) +
           std::string(source.substr(span.end));
}

}  // namespace

Applied apply(std::string_view source, const Action& action, bool checked) {
    Applied out;
    if (action.move == Move::rename) {
        const std::string text = rename_in(source, action.function, action.subject, action.object);
        if (text == source)
            out.why = fmt::format("{} does not occur", action.subject);
        else
            out.source = text;
        return out;
    }
    if (action.move == Move::include) {
        if (has(source, "#include " + action.subject))
            out.why = action.subject + " is included already";
        else
            out.source = "#include " + action.subject + "\n" + std::string(source);
        return out;
    }
    if (action.move == Move::insert) {
        out.source = insert_at(source, action.line, action.column, action.subject);
        return out;
    }
    const Result<FunctionSpan> span = find_function(source, action.function);
    if (!span) {
        out.why = to_text(span.error());
        return out;
    }
    const Result<Function> f = parse_function(source, action.function);
    if (!f) {
        out.why = to_text(f.error());
        return out;
    }
    if (f->conditional) {
        out.why = "the function has #if lines inside";
        return out;
    }
    Outcome outcome = run(*f, action, checked);
    if (!outcome.function) {
        // Lines move when an earlier step of a plan has changed the text.
        Action anywhere = action;
        bool lines = false;
        for (LoopName& loop : anywhere.loops) {
            lines = lines || loop.line > 0;
            loop.line = 0;
        }
        if (lines && has(outcome.why, "there is no counting loop"))
            outcome = run(*f, anywhere, checked);
    }
    if (!outcome.function) {
        out.why = outcome.why;
        return out;
    }
    std::string text = assembled(source, *span, outcome, *outcome.function);
    constexpr std::size_t most_bytes = 65536;  // beyond that nobody reads it, and it no longer pays
    if (text.size() > most_bytes && text.size() > source.size()) {
        out.why = "the source would become too long";
        return out;
    }
    out.source = std::move(text);
    return out;
}

// --- what could be done

namespace {

LoopName name_of_place(const LoopPlace& place) {
    LoopName loop;
    loop.var = place.head.var;
    loop.line = place.loop().line;
    return loop;
}

void keep_if_possible(const Function& f, Action a, bool checked, std::vector<Action>& out) {
    a.function = f.name;
    if (run(f, a, checked).function)
        out.push_back(std::move(a));
}

constexpr std::size_t most_loops = 24;  // of one function: beyond that it is better left alone

void tile_shapes(const Function& f, const LoopName& loop, bool checked, std::vector<Action>& out) {
    // Whether a tile can be written down depends little on its shape, so one try decides for all.
    Action a;
    a.move = Move::register_tile;
    a.loops = {loop};
    a.rows = 4;
    a.factor = 2;
    for (const bool pack : {false, true}) {
        a.also = pack;
        const Outcome shaped = run(f, a, checked);
        if (!shaped.function)
            continue;
        Action single = a;
        single.rows = 1;
        const Outcome flat = run(f, single, checked);
        const bool no_rows = flat.function && print(*flat.function) == print(*shaped.function);
        const std::vector<std::pair<long, long>> shapes =
            no_rows ? std::vector<std::pair<long, long>>{{1, 1}, {1, 2}, {1, 4}, {1, 8}}
                    : std::vector<std::pair<long, long>>{{2, 2}, {4, 1}, {4, 2},
                                                         {6, 2}, {8, 2}, {4, 4}};
        for (const auto& [rows, vectors] : shapes) {
            Action shape = a;
            shape.rows = rows;
            shape.factor = vectors;
            keep_if_possible(f, shape, checked, out);
        }
    }
}

void transformations_of(Function& f, bool checked, std::vector<Action>& out) {
    Action a;
    for (const Move move : {Move::restrict_pointers, Move::arithmetic}) {
        a = Action();
        a.move = move;
        keep_if_possible(f, a, checked, out);
    }
    const std::vector<LoopPlace> places = loops_of(f);
    if (places.size() > most_loops)
        return;
    for (const LoopPlace& place : places) {
        const LoopName loop = name_of_place(place);
        if (place.fallback)
            tile_shapes(f, loop, checked, out);
        if (place.minor)
            continue;
        for (const Move move : {Move::register_sums, Move::hoist, Move::vectorize, Move::split,
                                Move::row_pointers, Move::peel, Move::segments}) {
            a = Action();
            a.move = move;
            a.loops = {loop};
            keep_if_possible(f, a, checked, out);
        }
        a = Action();
        a.loops = {loop};
        a.move = Move::unroll;
        for (const long factor : {2, 4, 8}) {
            a.factor = factor;
            keep_if_possible(f, a, checked, out);
        }
        a.move = Move::partial_sums;
        for (const long count : {2, 4, 8}) {
            a.factor = count;
            keep_if_possible(f, a, checked, out);
        }
        tile_shapes(f, loop, checked, out);
        // Pairs and nests.
        for (const Counted& inner : loops_inside(place.loop().body)) {
            a = Action();
            a.move = Move::interchange;
            LoopName other;
            other.var = inner.var;
            a.loops = {loop, other};
            for (const LoopPlace& below : places)
                if (below.head.var == inner.var && below.loop().line > loop.line &&
                    a.loops[1].line == 0)
                    a.loops[1].line = below.loop().line;
            for (const bool split : {false, true}) {
                a.also = split;
                keep_if_possible(f, a, checked, out);
            }
            a.move = Move::tile;
            a.also = false;
            for (const long size : {16, 32, 64, 128}) {
                a.factor = size;
                keep_if_possible(f, a, checked, out);
            }
        }
    }
    // With the same loops an interchange that needs no split is the same as one with it.
    std::vector<Action> unique;
    for (const Action& action : out) {
        const bool repeated = std::any_of(unique.begin(), unique.end(), [&](const Action& u) {
            Action plain = action;
            plain.also = u.also;
            return u.move == Move::interchange && action.move == Move::interchange && u == plain;
        });
        if (!repeated || action.move != Move::interchange || !checked)
            unique.push_back(action);
    }
    out = std::move(unique);
}

}  // namespace

std::vector<Action> transformations(std::string_view source,
                                    const std::vector<std::string>& functions, bool checked) {
    std::vector<Action> out;
    for (const std::string& function : functions) {
        Result<Function> f = parse_function(source, function);
        if (!f || f->conditional)
            continue;
        std::vector<Action> mine;
        transformations_of(*f, checked, mine);
        out.insert(out.end(), mine.begin(), mine.end());
    }
    return out;
}

std::vector<Action> repairs(std::string_view source, const std::vector<std::string>& functions) {
    std::vector<Action> out;
    for (const std::string& function : functions) {
        Result<Function> f = parse_function(source, function);
        if (!f)
            continue;
        const std::vector<LoopPlace> places = loops_of(*f);
        if (places.size() <= most_loops)
            for (const LoopPlace& place : places)
                for (const Move move : {Move::strict_bound, Move::longer_loop, Move::shorter_loop,
                                        Move::later_start, Move::swap_differences}) {
                    Action a;
                    a.move = move;
                    a.loops = {name_of_place(place)};
                    keep_if_possible(*f, a, false, out);
                }
        std::set<std::string> variables;
        for_each_statement(f->body, [&](const Stmt& s) {
            if (s.kind == StmtKind::loop && !s.init.empty())
                for (const Declarator& d : s.init[0].declarators)
                    if (variables.insert(d.name).second) {
                        Action a;
                        a.move = Move::add_tail;
                        LoopName loop;
                        loop.var = d.name;
                        a.loops = {loop};
                        keep_if_possible(*f, a, false, out);
                    }
        });
        for (const std::string& variable : never_set(*f)) {
            Action a;
            a.move = Move::initialise;
            a.subject = variable;
            keep_if_possible(*f, a, false, out);
        }
        for (const std::string& array : transposable(*f)) {
            Action a;
            a.move = Move::transpose;
            a.subject = array;
            keep_if_possible(*f, a, false, out);
        }
    }
    return out;
}

// --- the choice

namespace {

struct Weighted {
    Action action;
    double weight = 0;
    std::string reason;
};

std::optional<Weighted> draw(const std::vector<Weighted>& from, Rng& rng) {
    double total = 0;
    for (const Weighted& w : from)
        total += w.weight;
    if (total <= 0)
        return std::nullopt;
    double at = rng.unit() * total;
    for (const Weighted& w : from) {
        at -= w.weight;
        if (at < 0)
            return w;
    }
    return from.back();
}

// Each kind of move is as likely as the next, however many forms it has.
std::vector<Weighted> even(const std::vector<Action>& actions, const std::string& reason) {
    std::map<Move, int> count;
    for (const Action& a : actions)
        ++count[a.move];
    std::vector<Weighted> out;
    for (const Action& a : actions)
        out.push_back({a, 1.0 / count[a.move], reason});
    return out;
}

// What the compiler's errors ask for.
std::vector<Weighted> compiler_repairs(std::string_view source,
                                       const std::vector<std::string>& functions,
                                       const DebuggerFacts& facts) {
    std::vector<Weighted> out;
    const std::string function = functions.empty() ? "" : functions.front();
    if (facts.errors.empty())
        return out;
    const CompilerError& error = facts.errors.front();  // the later ones often follow from it
    const std::string reason =
        fmt::format("the compiler says in line {}: {}", error.line, error.message);
    const std::string& message = error.message;
    auto add = [&](Action a, double weight) {
        a.function = a.function.empty() ? function : a.function;
        out.push_back({std::move(a), weight, reason});
    };
    // Names stand in simple quotes.
    std::vector<std::string> names;
    for (std::size_t open = message.find('\''); open != std::string::npos;
         open = message.find('\'', open)) {
        const std::size_t close = message.find('\'', open + 1);
        if (close == std::string::npos)
            break;
        names.push_back(message.substr(open + 1, close - open - 1));
        open = close + 1;
    }
    const bool unknown = has(message, "undeclared") || has(message, "unknown type name") ||
                         has(message, "no member named") || has(message, "was not declared") ||
                         has(message, "no type named") || has(message, "no template named") ||
                         has(message, "is not a member of");
    if (unknown && !names.empty()) {
        const std::string& wrong = names.front();
        Action a;
        if (wrong == "vf16" || wrong == "vd8") {
            a.move = Move::insert;
            a.subject = vector_type_line(wrong == "vd8" ? "double" : "float") + "\n\n";
            a.line = 1;
            a.column = 1;
            add(a, 10);
            return out;
        }
        if (wrong == "__builtin_elementwise_sqrt") {
            a.move = Move::rename;
            a.subject = wrong;
            a.object = "__builtin_sqrtf";
            add(a, 10);
            return out;
        }
        if (const std::string header = header_of(wrong);
            !header.empty() && !has(source, "#include " + header)) {
            a.move = Move::include;
            a.subject = header;
            add(a, 10);
            return out;
        }
        if (has(message, "did you mean") && names.size() > 1) {
            a.move = Move::rename;
            a.subject = wrong;
            a.object = names.back();
            add(a, 10);
            return out;
        }
        // A name that is declared: the nearest in spelling, else any of the kind that the place
        // needs, parameters first.
        for (const std::string& f : functions) {
            const std::vector<std::string> declared = names_declared(source, f);
            const Result<Function> parsed = parse_function(source, f);
            const std::string near = nearest(wrong, declared);
            if (!parsed)
                continue;
            const Environment env = environment_of(*parsed);
            bool subscripted = false;
            bool used = false;
            bool in_subscript = false;
            for_each_top_expression(parsed->body, [&](const Expr& top) {
                for_each_expression(top, [&](const Expr& e) {
                    used = used || e == name(wrong);
                    subscripted =
                        subscripted || (e.kind == ExprKind::index && e.args[0] == name(wrong));
                    in_subscript =
                        in_subscript || (e.kind == ExprKind::index && mentions(e.args[1], wrong));
                });
            });
            if (!used)
                continue;
            for (const std::string& candidate : declared) {
                if (env.pointers.contains(candidate) != subscripted || candidate == wrong)
                    continue;
                Action rename;
                rename.move = Move::rename;
                rename.function = f;
                rename.subject = wrong;
                rename.object = candidate;
                add(rename, candidate == near ? 20 : env.parameters.contains(candidate) ? 10 : 0.5);
            }
        }
        return out;
    }
    if (has(message, "expected '") || has(message, "expected \"") || has(message, "expected")) {
        Action a;
        a.move = Move::insert;
        a.line = error.line;
        a.column = error.column;
        const bool semicolon = has(message, "';'") || has(message, "expected ;");
        if (semicolon)
            a.subject = ";";
        else if (has(message, "')'"))
            a.subject = ")";
        else if (has(message, "'}'"))
            a.subject = "\n}";
        else if (has(message, "']'"))
            a.subject = "]";
        if (!a.subject.empty())
            add(a, 10);
    }
    return out;
}

// Loops around (or in) a source line, the innermost first.
std::vector<LoopName> loops_around(Function& f, int line) {
    std::vector<LoopName> out;
    for (const LoopPlace& place : loops_of(f)) {
        int last = place.loop().line;
        for_each_statement(place.loop().body,
                           [&](const Stmt& s) { last = std::max(last, s.line); });
        if (place.loop().line <= line && line <= last)
            out.insert(out.begin(), name_of_place(place));
    }
    return out;
}

void add_if_possible(std::string_view source, Action a, double weight, const std::string& reason,
                     std::vector<Weighted>& out) {
    if (apply(source, a, false).source)
        out.push_back({std::move(a), weight, reason});
}

std::vector<Weighted> debugger_repairs(std::string_view source,
                                       const std::vector<std::string>& functions,
                                       const DebuggerFacts& facts) {
    std::vector<Weighted> out = compiler_repairs(source, functions, facts);
    if (!out.empty())
        return out;
    for (const std::string& function : functions) {
        Result<Function> f = parse_function(source, function);
        if (!f)
            continue;
        auto action = [&](Move move, const LoopName& loop) {
            Action a;
            a.move = move;
            a.function = function;
            if (!loop.var.empty())
                a.loops = {loop};
            return a;
        };
        for (const OutOfBounds& o : facts.overruns) {
            const std::string reason =
                fmt::format("{} is accessed {} in line {}", o.array.empty() ? "an array" : o.array,
                            o.before ? "before its start" : "behind its end", o.line);
            for (const LoopName& loop : loops_around(*f, o.line)) {
                // Only a loop whose variable is in the access can be at fault.
                const std::optional<Expr> access =
                    o.access.empty() ? std::nullopt : parse_expression(o.access);
                if (access && !mentions(*access, loop.var))
                    continue;
                if (o.before) {
                    add_if_possible(source, action(Move::later_start, loop), 5, reason, out);
                    continue;
                }
                add_if_possible(source, action(Move::strict_bound, loop), 20, reason, out);
                add_if_possible(source, action(Move::shorter_loop, loop), 1, reason, out);
                add_if_possible(source, action(Move::add_tail, loop), 3, reason, out);
            }
        }
        const std::set<std::string> unset = never_set(*f);
        for (const std::string& variable : unset) {
            Action a = action(Move::initialise, LoopName());
            a.subject = variable;
            const bool named = facts.unset.contains(variable) || !facts.uninitialised.empty();
            if (named)
                add_if_possible(
                    source, a, 20,
                    fmt::format("{} is read before anything is written to it", variable), out);
            else if (facts.wrong)
                add_if_possible(source, a, facts.not_finite ? 10 : 3,
                                fmt::format("{} is accumulated and never set", variable), out);
        }
        if (!facts.wrong)
            continue;
        for (const Action& a : repairs(source, {function})) {
            double weight = 0;
            std::string reason = "the result is wrong";
            switch (a.move) {
                case Move::swap_differences:
                    weight = facts.negated ? 20 : 0.3;
                    reason = facts.negated ? "the result has the wrong sign" : reason;
                    break;
                case Move::add_tail:
                    weight = facts.part_wrong ? 20 : 8;
                    reason = "the loop leaves iterations out";
                    break;
                case Move::longer_loop: {
                    // "- 1" in a bound is the usual way to leave one out.
                    const std::optional<LoopPlace> none;
                    weight = facts.negated ? 0 : 0.5;
                    for (const LoopPlace& place : loops_of(*f))
                        if (place.head.var == a.loops[0].var &&
                            place.loop().line == a.loops[0].line &&
                            place.head.bound.kind == ExprKind::binary &&
                            place.head.bound.text == "-")
                            weight = facts.negated ? 0 : 5;
                    reason = "the loop may end too early";
                    break;
                }
                case Move::transpose:
                    weight = facts.negated ? 0 : 1;
                    break;
                case Move::strict_bound:
                    weight = facts.negated ? 0 : 5;
                    break;
                case Move::initialise:
                    continue;  // weighed above
                default:
                    weight = 0.2;
            }
            if (weight > 0)
                out.push_back({a, weight, reason});
        }
    }
    return out;
}

// What the analyzer's structure lets one suspect of a failing program.
std::vector<Weighted> analyzer_repairs(std::string_view source,
                                       const std::vector<std::string>& functions,
                                       const AnalyzerFacts& facts) {
    std::vector<Weighted> out = even(repairs(source, functions), "the program fails");
    for (Weighted& w : out)
        for (const LoopFacts& loop : facts.loops) {
            if (w.action.loops.empty() || w.action.loops[0].var != loop.var ||
                (w.action.loops[0].line > 0 && w.action.loops[0].line != loop.line))
                continue;
            if (w.action.move == Move::strict_bound && loop.inclusive) {
                w.weight *= 5;
                w.reason = fmt::format("loop {} includes its bound", loop.var);
            }
            if (w.action.move == Move::add_tail && loop.step > 1) {
                w.weight *= 5;
                w.reason = fmt::format("loop {} goes in steps of {}", loop.var, loop.step);
            }
        }
    for (Weighted& w : out)
        if (w.action.move == Move::initialise && !facts.in_memory.empty()) {
            w.weight *= 3;
            w.reason = "a result is accumulated in memory";
        }
    return out;
}

bool touches(const Action& a, const std::string& variable) {
    return std::any_of(a.loops.begin(), a.loops.end(),
                       [&](const LoopName& l) { return l.var == variable; });
}

// How promising a transformation looks by what the analyzer says.
double analyzer_weight(const Action& a, const AnalyzerFacts& facts, std::string& reason) {
    double weight = 0.15;
    auto better = [&](double value, std::string why) {
        if (value > weight) {
            weight = value;
            reason = std::move(why);
        }
    };
    for (const AnalyzerFacts::Order& order : facts.orders) {
        const std::string why =
            fmt::format("with {} innermost instead of {} the accesses of line {} are contiguous",
                        order.better, order.now, order.line);
        if (a.move == Move::interchange && a.loops.size() == 2 && a.loops[0].var == order.better &&
            a.loops[1].var == order.now)
            better(8, why);
        if (a.move == Move::register_tile && touches(a, order.better))
            better(5, why);
    }
    for (const int line : facts.in_memory)
        if (a.move == Move::register_sums)
            better(4, fmt::format("line {} updates one address in every iteration", line));
    if (facts.reorders) {
        const std::string why = "the vectoriser may not reorder a floating-point sum";
        if (a.move == Move::partial_sums)
            better(4, why);
        if (a.move == Move::vectorize)
            better(2, why);
        if (a.move == Move::register_tile)
            better(4, why);
    }
    if (facts.aliases && a.move == Move::restrict_pointers)
        better(3, "the vectoriser cannot tell the arrays apart");
    if (facts.calls && a.move == Move::arithmetic)
        better(4, "a call keeps a loop from being vectorised");
    if (facts.divisions && a.move == Move::arithmetic)
        better(1.5, "there are divisions and roots in a loop");
    if (facts.uncountable && a.move == Move::segments)
        better(8, "the number of iterations of an inner loop is not known");
    if (a.move == Move::segments)
        better(3, "an inner loop searches in every iteration");
    if (facts.branches && a.move == Move::peel)
        better(6, "branches in the loop single out its ends");
    if (facts.sums && a.move == Move::register_tile)
        better(3, "independent sums can run side by side in registers");
    if (facts.indirect && a.move == Move::partial_sums)
        better(3, "indirect loads need several chains in flight");
    if (!facts.strided.empty() && a.move == Move::tile)
        better(0.6, "accesses move far in every iteration");
    return weight;
}

double profiler_weight(const Action& a, const ProfilerFacts& facts, std::string& reason) {
    double weight = 0.15;
    auto better = [&](double value, std::string why) {
        if (value > weight) {
            weight = value;
            reason = std::move(why);
        }
    };
    const double roof = facts.roof_percent.value_or(50);
    const double misses = facts.d1_miss_percent.value_or(0);
    const bool scalar = facts.instructions_per_flop.value_or(0) > 0.5;
    if (misses > 5) {
        const std::string why =
            fmt::format("{:.0f} % of the accesses miss the first cache", misses);
        if (a.move == Move::interchange)
            better(4, why);
        if (a.move == Move::tile)
            better(3, why);
        if (a.move == Move::register_tile)
            better(a.also ? 4 : 3, why);
    }
    if (roof < 25 || facts.attained_percent.value_or(100) < 40) {
        const std::string why =
            scalar ? "the loop runs at one element an instruction, far below the roof"
                   : "it runs far below the roof";
        if (a.move == Move::register_tile)
            better(3, why);
        if (a.move == Move::partial_sums || a.move == Move::vectorize)
            better(scalar ? 3 : 2, why);
        if (a.move == Move::interchange || a.move == Move::peel || a.move == Move::segments)
            better(2, why);
        if (a.move == Move::arithmetic || a.move == Move::register_sums)
            better(1.5, why);
        if (a.move == Move::unroll)
            better(0.5, why);
    }
    if (roof >= 25) {
        const std::string why =
            fmt::format("it reaches {:.0f} % of the roof: what remains is overhead", roof);
        if (a.move == Move::register_tile || a.move == Move::unroll)
            better(1.5, why);
        if (a.move == Move::hoist || a.move == Move::row_pointers)
            better(0.8, why);
    }
    if (facts.ll_miss_percent.value_or(0) > 1 && a.move == Move::tile)
        better(3, "data come from memory again and again");
    return weight;
}

// Loops that hold the hottest line: without them a move is beside the point.
bool at_hot_line(std::string_view source, const Action& a, const ProfilerFacts& facts) {
    if (facts.hot.empty() || a.loops.empty())
        return true;
    Result<Function> f = parse_function(source, a.function);
    if (!f)
        return true;
    const std::vector<LoopName> hot = loops_around(*f, facts.hot.front());
    return std::all_of(a.loops.begin(), a.loops.end(), [&](const LoopName& loop) {
        return std::any_of(hot.begin(), hot.end(), [&](const LoopName& h) {
            return h.var == loop.var && (loop.line == 0 || h.line == loop.line);
        });
    });
}

std::vector<Weighted> informed(std::string_view source, const std::vector<std::string>& functions,
                               const Facts& facts) {
    // Strides and bounds are what legality is read off; without them one does as one believes.
    const std::vector<Action> actions =
        transformations(source, functions, facts.analyzer.has_value());
    std::vector<Weighted> out = even(actions, "");
    for (Weighted& w : out) {
        double weight = 0;
        if (facts.analyzer)
            weight += analyzer_weight(w.action, *facts.analyzer, w.reason);
        if (facts.profiler) {
            std::string reason;
            const double by_profile = profiler_weight(w.action, *facts.profiler, reason);
            // Both together rule out what only one of them likes.
            if (facts.analyzer && by_profile < 0.5 && weight > 1)
                weight *= 0.5;
            if (facts.analyzer && by_profile > 1 && weight > 1)
                weight *= 1.5;
            weight += by_profile;
            if (w.reason.empty() || !facts.analyzer)
                w.reason = reason;
            if (!at_hot_line(source, w.action, *facts.profiler))
                weight *= 0.2;
        }
        w.weight *= weight;
        if (w.reason.empty())
            w.reason = "nothing speaks against it";
    }
    return out;
}

// What was tried from here before is less worth a second try.
void discount(std::vector<Weighted>& from, const std::string& history) {
    if (history.empty())
        return;
    auto without_lines = [](std::string text) {
        for (std::size_t at = text.find(" (line "); at != std::string::npos;
             at = text.find(" (line "))
            text.erase(at, text.find(')', at) - at + 1);
        return text;
    };
    const std::string tried = without_lines(history);
    for (Weighted& w : from)
        if (has(tried, without_lines(sentence(w.action))))
            w.weight *= 0.3;
}

}  // namespace

Decision decide(std::string_view source, const std::vector<std::string>& functions,
                const Facts& facts, Rng rng) {
    Decision decision;
    std::string text(source);
    const bool guided = facts.analyzer || facts.profiler;
    for (int step = 0; step < 3; ++step) {
        std::vector<Weighted> from;
        bool repairing = false;
        if (step == 0 && facts.failing()) {
            if (facts.debugger)
                from = debugger_repairs(text, functions, *facts.debugger);
            if (!from.empty()) {
                repairing = true;
            } else if (facts.analyzer) {
                repairing = rng.unit() < 0.7;
                if (repairing)
                    from = analyzer_repairs(text, functions, *facts.analyzer);
            } else {
                // That it fails is known, but not why: a guess, or a rewrite in the hope that it
                // goes away.
                repairing = rng.unit() < 0.5;
                if (repairing)
                    from = even(repairs(text, functions), "the program fails; a guess");
            }
        }
        if (from.empty()) {
            repairing = false;
            from = guided ? informed(text, functions, facts)
                          : even(transformations(text, functions, false),
                                 "a guess: there is no evidence");
        }
        if (from.empty())
            from = even(transformations(text, functions, false), "nothing better is left");
        discount(from, facts.history);
        const std::optional<Weighted> chosen = draw(from, rng);
        if (!chosen)
            break;
        const bool checked = !is_repair(chosen->action.move) && facts.analyzer.has_value();
        const Applied applied = apply(text, chosen->action, checked);
        if (!applied.source)
            continue;
        text = *applied.source;
        decision.steps.push_back(chosen->action);
        decision.reasons.push_back(chosen->reason);
        // One repair at a time; a second transformation when there is evidence for it.
        if (repairing || chosen->action.move == Move::register_tile ||
            rng.unit() > (guided ? 0.5 : 0.25))
            break;
    }
    return decision;
}

}  // namespace loopscope::rules
