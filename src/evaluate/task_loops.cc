#include "evaluate/task_loops.h"

#include "evaluate/expression.h"
#include "evaluate/task.h"
#include "program/token.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <utility>

namespace loopscope {
namespace {

using Tokens = std::vector<Token>;

bool is_assignment(std::string_view text) {
    return text.size() >= 2 && text.back() == '=' && text != "==" && text != "!=" && text != "<=" &&
           text != ">=";
}

// Reads a body once. Expressions stay texts; they are computed when the shapes are compared.
class Reader {
public:
    Reader(std::string_view body, const std::vector<std::string>& sizes,
           const std::vector<std::string>& pointers)
        : tokens_(code_tokens(body)), sizes_(sizes) {
        std::erase_if(tokens_,
                      [](const Token& token) { return token.kind == TokenKind::directive; });
        for (const std::string& pointer : pointers) {
            guess_.arrays[pointer] = {};
            aliases_[pointer] = {pointer, ""};
        }
    }

    LoopGuess run() {
        collect_locals();
        std::size_t at = 0;
        while (at < tokens_.size())
            statement(at, 0);
        collect_uses(0, tokens_.size(), "");
        choose_shapes();
        return std::move(guess_);
    }

private:
    std::string_view text(std::size_t i) const {
        return i < tokens_.size() ? tokens_[i].text : std::string_view();
    }

    // One past the bracket that closes the one at `open`.
    std::size_t past(std::size_t open) const {
        int depth = 0;
        for (std::size_t i = open; i < tokens_.size(); ++i) {
            if (text(i) == "(" || text(i) == "[" || text(i) == "{")
                ++depth;
            else if ((text(i) == ")" || text(i) == "]" || text(i) == "}") && --depth <= 0)
                return i + 1;
        }
        return tokens_.size();
    }

    // First of the texts at depth 0 in [begin, end), or end.
    std::size_t find(std::size_t begin, std::size_t end,
                     std::initializer_list<std::string_view> wanted) const {
        int depth = 0;
        for (std::size_t i = begin; i < end; ++i) {
            if (depth == 0 && std::find(wanted.begin(), wanted.end(), text(i)) != wanted.end())
                return i;
            if (text(i) == "(" || text(i) == "[" || text(i) == "{")
                ++depth;
            else if (text(i) == ")" || text(i) == "]" || text(i) == "}")
                --depth;
        }
        return end;
    }

    // C tokens as one of our expressions, as far as that goes: casts to integers and std:: are
    // dropped.
    std::string expression(std::size_t begin, std::size_t end) const {
        std::string out;
        for (std::size_t i = begin; i < end; ++i) {
            const bool cast =
                text(i) == "(" && i + 2 < end && text(i + 2) == ")" && is_integer_type(text(i + 1));
            if (cast) {
                i += 2;
                continue;
            }
            if (text(i) == "static_cast" && text(i + 1) == "<") {
                while (i < end && text(i) != ">")
                    ++i;
                continue;
            }
            if (text(i) == "std" && text(i + 1) == "::") {
                ++i;
                continue;
            }
            if (!out.empty())
                out += ' ';
            out += without_suffix(text(i));
        }
        return out;
    }

    static bool is_integer_type(std::string_view word) {
        constexpr std::array<std::string_view, 9> types = {"int",     "long",      "unsigned",
                                                           "size_t",  "ptrdiff_t", "int32_t",
                                                           "int64_t", "uint32_t",  "uint64_t"};
        return std::find(types.begin(), types.end(), word) != types.end();
    }
    static std::string without_suffix(std::string_view word) {
        if (!word.empty() && word[0] >= '0' && word[0] <= '9' && !word.starts_with("0x"))
            while (!word.empty() && (word.back() == 'u' || word.back() == 'U' ||
                                     word.back() == 'l' || word.back() == 'L'))
                word.remove_suffix(1);
        return std::string(word);
    }

    // int row = i * n;  and  const float* p = a + i * n;
    void collect_locals() {
        std::map<std::string, int> assignments;
        for (std::size_t i = 1; i + 1 < tokens_.size(); ++i) {
            if (tokens_[i].kind != TokenKind::identifier)
                continue;
            if (is_assignment(text(i + 1)) || text(i + 1) == "=" || text(i + 1) == "++" ||
                text(i + 1) == "--" || text(i - 1) == "++" || text(i - 1) == "--")
                ++assignments[std::string(text(i))];
        }
        for (std::size_t i = 1; i + 1 < tokens_.size(); ++i) {
            const std::string name(text(i));
            if (tokens_[i].kind != TokenKind::identifier || text(i + 1) != "=" ||
                assignments[name] != 1)
                continue;
            const std::size_t end = find(i + 2, tokens_.size(), {";", ","});
            std::size_t before = i - 1;
            while (before > 0 &&
                   (text(before) == "const" || text(before).starts_with("__restrict")))
                --before;
            if (is_integer_type(text(before)) || text(before) == "auto")
                locals_[name].push_back(expression(i + 2, end));
            else if (text(before) == "*")
                add_alias(name, i + 2, end);
        }
    }

    void add_alias(const std::string& name, std::size_t begin, std::size_t end) {
        if (text(begin) == "&" && begin + 2 < end && text(begin + 2) == "[") {
            const auto base = aliases_.find(std::string(text(begin + 1)));
            if (base != aliases_.end())
                aliases_[name] = {
                    base->second.first,
                    sum(base->second.second, expression(begin + 3, past(begin + 2) - 1))};
            return;
        }
        const auto base = aliases_.find(std::string(text(begin)));
        if (base == aliases_.end())
            return;
        if (begin + 1 == end)
            aliases_[name] = base->second;
        else if (text(begin + 1) == "+" || text(begin + 1) == "-")
            aliases_[name] = {base->second.first,
                              sum(base->second.second, "0 " + expression(begin + 1, end))};
    }

    static std::string sum(const std::string& a, const std::string& b) {
        if (a.empty())
            return b;
        return b.empty() ? a : fmt::format("({}) + ({})", a, b);
    }

    // Walks one statement: notes what loops say of their variables, and how deep they nest.
    void statement(std::size_t& at, int depth) {
        guess_.depth = std::max(guess_.depth, depth);
        if (at >= tokens_.size())
            return;
        if (nesting_ == 200) {  // deeper code is nobody's kernel
            at = tokens_.size();
            return;
        }
        ++nesting_;
        if (text(at) == "{") {
            const std::size_t end = past(at);
            ++at;
            while (at + 1 < end)
                statement(at, depth);
            at = std::max(at, end);
        } else if ((text(at) == "for" || text(at) == "while" || text(at) == "if" ||
                    text(at) == "switch") &&
                   text(at + 1) == "(") {
            const bool loop = text(at) == "for" || text(at) == "while";
            const std::size_t end = past(at + 1);
            if (text(at) == "for")
                for_header(at + 2, end - 1);
            at = end;
            statement(at, depth + (loop ? 1 : 0));
        } else if (text(at) == "do") {
            ++at;
            statement(at, depth + 1);
        } else if (text(at) == "else") {
            ++at;
            statement(at, depth);
        } else {
            at = find(at, tokens_.size(), {";", "}"}) + 1;
        }
        --nesting_;
    }

    // for (int i = A; i < B; ++i): i is at most B - 1.
    void for_header(std::size_t begin, std::size_t end) {
        const std::size_t first = find(begin, end, {";"});
        const std::size_t second = first < end ? find(first + 1, end, {";"}) : end;
        if (first == end || second == end)
            return;
        const std::size_t condition_end = find(first + 1, second, {"&&"});
        const std::size_t op = find(first + 1, condition_end, {"<", "<=", "!=", ">", ">="});
        if (op == condition_end || tokens_[first + 1].kind != TokenKind::identifier)
            return;
        const std::string variable(text(first + 1));
        const std::size_t equals = find(begin, first, {"="});
        const std::string start = equals == first ? "" : expression(equals + 1, first);
        const std::string bound = fmt::format("({})", expression(op + 1, condition_end));
        std::string upper = start;
        std::string lower = bound + (text(op) == ">" ? " + 1" : "");
        if (text(op) != ">" && text(op) != ">=") {
            lower = start;
            upper = bound + (text(op) != "<=" ? " - 1" : "");
            if (op > first + 2)  // k + 4 <= n
                upper += fmt::format(" - (0 {})", expression(first + 2, op));
        }
        std::vector<std::string>& known = locals_[variable];
        if (!loop_variables_.contains(variable))
            known.clear();
        loop_variables_.insert(variable);
        lowest_[variable].push_back(lower);
        known.push_back(upper);
    }

    // a[...] in [begin, end); `outer` is the array whose index this is.
    void collect_uses(std::size_t begin, std::size_t end, const std::string& outer) {
        for (std::size_t i = begin; i < end; ++i) {
            if (text(i + 1) != "[" || tokens_[i].kind != TokenKind::identifier)
                continue;
            const auto alias = aliases_.find(std::string(text(i)));
            const std::size_t close = past(i + 1);
            if (alias == aliases_.end())
                continue;
            const std::string& name = alias->second.first;
            ArrayGuess& array = guess_.arrays[name];
            indices_[name].push_back(sum(alias->second.second, expression(i + 2, close - 1)));
            if (text(close) == "=") {
                array.assigned = true;
                assigned_[name].push_back(indices_[name].back());
            } else if (is_assignment(text(close)) || text(close) == "++" || text(close) == "--" ||
                       (i > 0 && (text(i - 1) == "++" || text(i - 1) == "--")))
                array.updated = true;
            else
                array.read = true;
            if (!outer.empty() && array.indexes.empty())
                array.indexes = outer;
            collect_uses(i + 2, close - 1, name);
            i = close - 1;
        }
    }

    enum class End { low, high };

    // The value of an expression at `at` with every variable at that end of its range (indices grow
    // with their variables), or nullopt when it holds something unknown.
    std::optional<double> value_of(const std::string& expression_text, const Sizes& at, End end,
                                   int depth = 0) const {
        if (depth > 12 || ++steps_ > 200'000)  // definitions may refer to each other
            return std::nullopt;
        const Result<std::set<std::string>> names = names_in(expression_text);
        if (!names)
            return std::nullopt;
        Sizes values = at;
        for (const std::string& name : *names) {
            if (at.contains(name))
                continue;
            const auto& table =
                end == End::low && loop_variables_.contains(name) ? lowest_ : locals_;
            const auto local = table.find(name);
            if (local == table.end() || local->second.empty() || local->second.size() > 16)
                return std::nullopt;
            const double unset = std::numeric_limits<double>::infinity();
            double extreme = end == End::low ? unset : -unset;
            for (const std::string& definition : local->second) {
                const std::optional<double> value = value_of(definition, at, end, depth + 1);
                if (!value)
                    return std::nullopt;
                extreme = end == End::low ? std::min(extreme, *value) : std::max(extreme, *value);
            }
            if (!(extreme > -0x1p53 && extreme < 0x1p53))
                return std::nullopt;
            values[name] = static_cast<std::int64_t>(extreme);
        }
        const Result<double> value = evaluate_expression(expression_text, values);
        if (!value)
            return std::nullopt;
        return *value;
    }

    // One past the largest of these indices; 0 when none could be understood.
    double extent_of(const std::vector<std::string>& indices, const Sizes& at) const {
        double extent = 0;
        for (const std::string& index : indices)
            extent = std::max(extent, value_of(index, at, End::high).value_or(-1) + 1);
        return extent;
    }

    bool assigns_all(const std::string& name, const ArrayGuess& array, const Sizes& at) const {
        const auto assigned = assigned_.find(name);
        if (assigned == assigned_.end())
            return false;
        double low = std::numeric_limits<double>::infinity();
        for (const std::string& index : assigned->second) {
            const std::optional<double> value = value_of(index, at, End::low);
            if (!value)
                return true;  // not understood: nothing speaks against it
            low = std::min(low, *value);
        }
        return low <= 0 && extent_of(assigned->second, at) >= elements(array.shape, at);
    }

    // True when some index multiplies by the shape's last dimension, as row-major code does.
    static bool has_stride(const std::vector<std::string>& indices,
                           const std::vector<std::string>& shape) {
        const std::string& last = shape.back();
        return std::any_of(indices.begin(), indices.end(), [&](const std::string& index) {
            return index.find("* " + last) != std::string::npos ||
                   index.find(last + " *") != std::string::npos;
        });
    }

    std::vector<std::vector<std::string>> candidate_shapes() const {
        std::vector<std::vector<std::string>> shapes = {{"1"}};
        for (const std::string& a : sizes_) {
            shapes.push_back({a});
            for (const char* more : {" + 1", " + 2", " - 1"})
                shapes.push_back({a + more});
        }
        for (const std::string& a : sizes_)
            for (const std::string& b : sizes_) {
                shapes.push_back({a, b});
                shapes.push_back({a + " + 1", b + " + 1"});
                shapes.push_back({a + " + 2", b + " + 2"});
                shapes.push_back({fmt::format("{} + {}", a, b)});
                shapes.push_back({fmt::format("{} + {} - 1", a, b)});
                shapes.push_back({"2", a, b});
            }
        for (const std::string& a : sizes_)
            for (const std::string& b : sizes_)
                for (const std::string& c : sizes_)
                    shapes.push_back({a, b, c});
        for (const std::string& a : sizes_)
            for (const int factor : {2, 3, 4})
                shapes.push_back({a, std::to_string(factor)});
        return shapes;
    }

    static double elements(const std::vector<std::string>& shape, const Sizes& at) {
        double product = 1;
        for (const std::string& dimension : shape)
            product *= evaluate_expression(dimension, at).value_or(0);
        return product;
    }

    void choose_shapes() {
        constexpr std::array<std::int64_t, 12> primes = {101, 139, 179, 223, 263, 307,
                                                         349, 397, 439, 487, 541, 587};
        constexpr std::size_t sets = 4;
        if (sizes_.size() > 6)
            return;  // the candidates grow with the cube of their number
        std::vector<Sizes> points(sets);
        for (std::size_t set = 0; set < sets; ++set)
            for (std::size_t i = 0; i < sizes_.size(); ++i)
                points[set][sizes_[i]] = primes[(5 * set + 7 * i) % primes.size()];
        const std::vector<std::vector<std::string>> candidates = candidate_shapes();
        for (auto& [name, array] : guess_.arrays) {
            const std::vector<std::string>& indices = indices_[name];
            std::array<double, sets> extent{};
            for (std::size_t set = 0; set < sets; ++set)
                extent[set] = extent_of(indices, points[set]);
            if (*std::min_element(extent.begin(), extent.end()) < 1)
                continue;
            double best = 0;
            for (const std::vector<std::string>& shape : candidates) {
                bool enough = true;
                double ratio = 0;
                for (std::size_t set = 0; set < sets; ++set) {
                    const double count = elements(shape, points[set]);
                    enough = enough && count >= extent[set];
                    ratio = std::max(ratio, count / extent[set]);
                }
                const bool nicer = ratio == best && shape.size() == array.shape.size() &&
                                   has_stride(indices, shape) && !has_stride(indices, array.shape);
                if (enough && (array.shape.empty() || ratio < best || nicer)) {
                    array.shape = shape;
                    best = ratio;
                }
            }
            array.partly =
                array.assigned && !array.shape.empty() && !assigns_all(name, array, points[0]);
        }
    }

    Tokens tokens_;
    const std::vector<std::string>& sizes_;
    LoopGuess guess_;
    std::map<std::string, std::pair<std::string, std::string>>
        aliases_;                                             // pointer -> parameter, offset
    std::map<std::string, std::vector<std::string>> locals_;  // variable -> its largest values
    std::map<std::string, std::vector<std::string>>
        lowest_;  // loop variable -> its smallest values
    std::set<std::string> loop_variables_;
    std::map<std::string, std::vector<std::string>>
        assigned_;  // array -> indices it is assigned at
    std::map<std::string, std::vector<std::string>> indices_;
    int nesting_ = 0;
    mutable long steps_ = 0;
};

}  // namespace

LoopGuess guess_from_loops(std::string_view body, const std::vector<std::string>& sizes,
                           const std::vector<std::string>& pointers) {
    return Reader(body, sizes, pointers).run();
}

}  // namespace loopscope
