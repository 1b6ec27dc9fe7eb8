#include "evaluate/expression.h"

#include "core/text.h"
#include "evaluate/task.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

namespace loopscope {
namespace {

constexpr int max_depth = 64;  // of nested parentheses and signs: the parser recurses

// ASCII only, whatever the locale.
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Value {
    bool integer = true;
    std::int64_t whole = 0;
    double real = 0;
    double as_real() const { return integer ? static_cast<double>(whole) : real; }
};

Value real_value(double real) { return Value{.integer = false, .whole = 0, .real = real}; }
Value whole_value(std::int64_t whole) { return Value{.integer = true, .whole = whole, .real = 0}; }

// Recursive descent. With `sizes` it computes; without it only collects the names it meets.
class Parser {
public:
    Parser(std::string_view text, const Sizes* sizes) : text_(text), sizes_(sizes) {}

    Result<Value> run() {
        skip_space();
        if (at_ == text_.size())
            return wrong("is empty");
        const Value value = sum();
        if (!error_ && at_ != text_.size())
            set_error(fmt::format("unexpected \"{}\"", text_[at_]));
        if (error_)
            return tl::unexpected<Error>(*error_);
        return value;
    }

    std::set<std::string> names;

private:
    tl::unexpected<Error> wrong(const std::string& what) const {
        return fail(fmt::format("expression \"{}\"", shown()), what);
    }
    std::string shown() const { return std::string(text_.substr(0, 80)); }

    Value set_error(const std::string& what) {
        if (!error_)
            error_ = Error{fmt::format("expression \"{}\", position {}", shown(), at_ + 1), what};
        return {};
    }

    void skip_space() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t'))
            ++at_;
    }
    bool accept(char c) {
        if (error_ || at_ == text_.size() || text_[at_] != c)
            return false;
        ++at_;
        skip_space();
        return true;
    }

    Value sum() {
        Value left = product();
        while (!error_) {
            if (accept('+'))
                left = apply('+', left, product());
            else if (accept('-'))
                left = apply('-', left, product());
            else
                break;
        }
        return left;
    }

    Value product() {
        Value left = unary();
        while (!error_) {
            if (accept('*'))
                left = apply('*', left, unary());
            else if (accept('/'))
                left = apply('/', left, unary());
            else if (accept('%'))
                left = apply('%', left, unary());
            else
                break;
        }
        return left;
    }

    Value unary() {
        if (depth_ == max_depth)
            return set_error(fmt::format("nested deeper than {} levels", max_depth));
        ++depth_;
        const Value value = unary_inside();
        --depth_;
        return value;
    }

    Value unary_inside() {
        if (accept('-'))
            return apply('-', Value{}, unary());
        if (accept('+'))
            return unary();
        if (accept('(')) {
            const Value value = sum();
            if (!error_ && !accept(')'))
                return set_error("missing \")\"");
            return value;
        }
        if (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '.'))
            return number();
        if (at_ < text_.size() && is_letter(text_[at_]))
            return name();
        if (at_ == text_.size())
            return set_error("ends where a number or a name is expected");
        return set_error(
            fmt::format("unexpected \"{}\": a number or a name is expected", text_[at_]));
    }

    Value number() {
        std::size_t end = at_;
        bool integer = true;
        while (end < text_.size() && is_digit(text_[end]))
            ++end;
        if (end < text_.size() && text_[end] == '.') {
            integer = false;
            ++end;
            while (end < text_.size() && is_digit(text_[end]))
                ++end;
        }
        if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
            integer = false;
            ++end;
            if (end < text_.size() && (text_[end] == '-' || text_[end] == '+'))
                ++end;
            while (end < text_.size() && is_digit(text_[end]))
                ++end;
        }
        const char* first = text_.data() + at_;
        const char* last = text_.data() + end;
        const std::string digits(first, last);
        Value value;
        value.integer = integer;
        std::from_chars_result parsed{};
        if (integer)
            parsed = std::from_chars(first, last, value.whole);
        else
            parsed = std::from_chars(first, last, value.real);
        if (parsed.ec == std::errc::result_out_of_range)
            return set_error(
                fmt::format("the number {} is out of range{}", digits,
                            integer ? "; write it as a real number, with a point" : ""));
        if (parsed.ec != std::errc{} || parsed.ptr != last)
            return set_error(fmt::format("\"{}\" is not a number", digits));
        if (end < text_.size() && is_letter(text_[end])) {
            at_ = end;
            return set_error(fmt::format(
                "unexpected \"{}\" after a number; write \"*\" to multiply", text_[end]));
        }
        at_ = end;
        skip_space();
        return value;
    }

    Value name() {
        const std::size_t begin = at_;
        while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_])))
            ++at_;
        const std::string word(text_.substr(begin, at_ - begin));
        skip_space();
        if ((word == "min" || word == "max") && accept('('))
            return extreme(word == "min");
        names.insert(word);
        if (sizes_ == nullptr)
            return {};
        const auto found = sizes_->find(word);
        if (found != sizes_->end())
            return whole_value(found->second);
        at_ = begin;
        std::vector<std::string> known;
        for (const auto& [known_name, value] : *sizes_)
            known.push_back(known_name);
        // One letter is near to every other one.
        const std::string near = word.size() > 1 ? nearest(word, known) : "";
        return set_error(
            fmt::format("unknown name \"{}\"{}; known: {}", word,
                        near.empty() ? "" : fmt::format(", did you mean \"{}\"?", near),
                        known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
    }

    Value extreme(bool smallest) {
        Value best = sum();
        if (!error_ && (at_ == text_.size() || text_[at_] != ','))
            return set_error(fmt::format("{} takes at least two values", smallest ? "min" : "max"));
        while (accept(',')) {
            const Value next = sum();
            const bool both_whole = best.integer && next.integer;
            const bool less =
                both_whole ? next.whole < best.whole : next.as_real() < best.as_real();
            const bool more =
                both_whole ? next.whole > best.whole : next.as_real() > best.as_real();
            const Value chosen = (smallest ? less : more) ? next : best;
            best = both_whole ? chosen : real_value(chosen.as_real());
        }
        if (!error_ && !accept(')'))
            return set_error("missing \")\"");
        return best;
    }

    Value apply(char operation, const Value& left, const Value& right) {
        if (error_ || sizes_ == nullptr)
            return {};
        if (left.integer && right.integer)
            return apply_whole(operation, left.whole, right.whole);
        const double a = left.as_real();
        const double b = right.as_real();
        double result = 0;
        switch (operation) {
            case '+':
                result = a + b;
                break;
            case '-':
                result = a - b;
                break;
            case '*':
                result = a * b;
                break;
            case '/':
                result = a / b;
                break;
            default:
                result = std::fmod(a, b);
                break;
        }
        if (!std::isfinite(result))
            return set_error(b == 0 && (operation == '/' || operation == '%')
                                 ? "division by zero"
                                 : "the result is not a finite number");
        return real_value(result);
    }

    Value apply_whole(char operation, std::int64_t a, std::int64_t b) {
        std::int64_t result = 0;
        bool overflow = false;
        switch (operation) {
            case '+':
                overflow = __builtin_add_overflow(a, b, &result);
                break;
            case '-':
                overflow = __builtin_sub_overflow(a, b, &result);
                break;
            case '*':
                overflow = __builtin_mul_overflow(a, b, &result);
                break;
            default:
                if (b == 0)
                    return set_error("division by zero");
                overflow = a == std::numeric_limits<std::int64_t>::min() && b == -1;
                if (!overflow)
                    result = operation == '/' ? a / b : a % b;
        }
        if (overflow)
            return set_error("exceeds 64-bit integers; make one operand real, e.g. 2.0 * n");
        return whole_value(result);
    }

    std::string_view text_;
    const Sizes* sizes_;
    std::size_t at_ = 0;
    int depth_ = 0;
    std::optional<Error> error_;
};

}  // namespace

Result<double> evaluate_expression(std::string_view expression, const Sizes& sizes) {
    const Result<Value> value = Parser(expression, &sizes).run();
    if (!value)
        return tl::unexpected<Error>(value.error());
    return value->as_real();
}

Result<std::int64_t> evaluate_count(std::string_view expression, const Sizes& sizes) {
    const Result<Value> value = Parser(expression, &sizes).run();
    if (!value)
        return tl::unexpected<Error>(value.error());
    const std::string where = fmt::format("expression \"{}\"", expression);
    const std::string at = sizes.empty() ? "" : fmt::format(" at {}", to_text(sizes));
    std::int64_t count = value->whole;
    if (!value->integer) {
        // 2^53: beyond it not every integer is a double, so that a real that looks integral may not
        // be one.
        if (value->real != std::floor(value->real) || std::fabs(value->real) > 0x1p53)
            return fail(where,
                        fmt::format("is {}{}, which is not a whole number", value->real, at));
        count = static_cast<std::int64_t>(value->real);
    }
    if (count < 0)
        return fail(where, fmt::format("is {}{}: a count cannot be negative", count, at));
    return count;
}

Result<std::set<std::string>> names_in(std::string_view expression) {
    Parser parser(expression, nullptr);
    const Result<Value> value = parser.run();
    if (!value)
        return tl::unexpected<Error>(value.error());
    return std::move(parser.names);
}

Result<Call> parse_call(std::string_view text) {
    const std::string where = fmt::format("\"{}\"", text.substr(0, 80));
    const std::string_view whole = trim(text);
    const std::size_t open = whole.find('(');
    Call call;
    call.name = std::string(trim(whole.substr(0, open)));
    if (!is_identifier(call.name))
        return fail(where, "is not a name with arguments in parentheses, like uniform(0, 1)");
    if (open == std::string_view::npos)
        return call;
    if (whole.back() != ')')
        return fail(where, "does not end in \")\"");
    const std::string_view inside = whole.substr(open + 1, whole.size() - open - 2);
    int depth = 0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i <= inside.size(); ++i) {
        if (i < inside.size() && inside[i] == '(')
            ++depth;
        if (i < inside.size() && inside[i] == ')' && --depth < 0)
            return fail(where, "has a \")\" too many");
        if (i == inside.size() || (inside[i] == ',' && depth == 0)) {
            call.arguments.emplace_back(trim(inside.substr(begin, i - begin)));
            begin = i + 1;
        }
    }
    if (depth != 0)
        return fail(where, "has a \"(\" without its \")\"");
    if (call.arguments.size() == 1 && call.arguments[0].empty())
        call.arguments.clear();
    for (const std::string& argument : call.arguments)
        if (argument.empty())
            return fail(where, "has an empty argument");
    return call;
}

bool is_identifier(std::string_view text) {
    if (text.empty() || !is_letter(text[0]))
        return false;
    for (const char c : text)
        if (!is_letter(c) && !is_digit(c))
            return false;
    return true;
}

}  // namespace loopscope
