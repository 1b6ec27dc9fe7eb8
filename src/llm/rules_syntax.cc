#include "llm/rules_syntax.h"

#include "core/result.h"
#include "program/edit.h"
#include "program/token.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace loopscope::rules {

Expr name(std::string text) {
    Expr e;
    e.kind = ExprKind::name;
    e.text = std::move(text);
    return e;
}

Expr literal(std::string text) {
    Expr e;
    e.kind = ExprKind::literal;
    e.text = std::move(text);
    return e;
}

Expr number(long value) {
    if (value < 0)
        return unary("-", literal(fmt::format("{}", -value)));
    return literal(fmt::format("{}", value));
}

Expr unary(std::string op, Expr a) {
    Expr e;
    e.kind = ExprKind::unary;
    e.text = std::move(op);
    e.args.push_back(std::move(a));
    return e;
}

Expr binary(Expr a, std::string op, Expr b) {
    Expr e;
    e.kind = ExprKind::binary;
    e.text = std::move(op);
    e.args.push_back(std::move(a));
    e.args.push_back(std::move(b));
    return e;
}

Expr assign(Expr a, std::string op, Expr b) {
    Expr e = binary(std::move(a), std::move(op), std::move(b));
    e.kind = ExprKind::assign;
    return e;
}

Expr call(std::string function, std::vector<Expr> arguments) {
    Expr e;
    e.kind = ExprKind::call;
    e.args.push_back(name(std::move(function)));
    for (Expr& argument : arguments)
        e.args.push_back(std::move(argument));
    return e;
}

Expr index(Expr array, Expr subscript) {
    Expr e;
    e.kind = ExprKind::index;
    e.args.push_back(std::move(array));
    e.args.push_back(std::move(subscript));
    return e;
}

std::optional<long> constant_value(const Expr& e) {
    if (e.kind == ExprKind::literal) {
        long value = 0;
        const char* end = e.text.data() + e.text.size();
        const auto [stop, error] = std::from_chars(e.text.data(), end, value);
        if (error != std::errc() || value > 1'000'000'000)
            return std::nullopt;
        for (const char* c = stop; c != end; ++c)
            if (*c != 'u' && *c != 'U' && *c != 'l' && *c != 'L')
                return std::nullopt;
        return value;
    }
    if (e.kind == ExprKind::unary && e.text == "-") {
        const std::optional<long> value = constant_value(e.args[0]);
        return value ? std::optional<long>(-*value) : std::nullopt;
    }
    if (e.kind == ExprKind::binary) {
        const std::optional<long> a = constant_value(e.args[0]);
        const std::optional<long> b = constant_value(e.args[1]);
        if (!a || !b || std::abs(*a) > 1'000'000 || std::abs(*b) > 1'000'000)
            return std::nullopt;
        if (e.text == "+")
            return *a + *b;
        if (e.text == "-")
            return *a - *b;
        if (e.text == "*")
            return *a * *b;
        if (e.text == "/" && *b != 0)
            return *a / *b;
    }
    return std::nullopt;
}

Expr sum(Expr a, Expr b) {
    const std::optional<long> x = constant_value(a);
    const std::optional<long> y = constant_value(b);
    if (x && y)
        return number(*x + *y);
    if (x == 0)
        return b;
    if (y == 0)
        return a;
    if (y && *y < 0)
        return difference(std::move(a), number(-*y));
    if (y && a.kind == ExprKind::binary && (a.text == "+" || a.text == "-"))
        if (const std::optional<long> z = constant_value(a.args[1]); z)
            return sum(a.args[0], number(*y + (a.text == "+" ? *z : -*z)));
    return binary(std::move(a), "+", std::move(b));
}

Expr difference(Expr a, Expr b) {
    const std::optional<long> x = constant_value(a);
    const std::optional<long> y = constant_value(b);
    if (x && y)
        return number(*x - *y);
    if (y == 0)
        return a;
    if (y && *y < 0)
        return sum(std::move(a), number(-*y));
    return binary(std::move(a), "-", std::move(b));
}

Expr product(Expr a, Expr b) {
    const std::optional<long> x = constant_value(a);
    const std::optional<long> y = constant_value(b);
    if (x && y)
        return number(*x * *y);
    if (x == 1)
        return b;
    if (y == 1)
        return a;
    if (x == 0 || y == 0)
        return number(0);
    return binary(std::move(a), "*", std::move(b));
}

Expr substitute(const Expr& e, const std::string& variable, const Expr& value) {
    if (e.kind == ExprKind::name && e.text == variable)
        return value;
    Expr out = e;
    for (Expr& argument : out.args)
        argument = substitute(argument, variable, value);
    // i + 2 + 1 becomes i + 3.
    if (out.kind == ExprKind::binary && (out.text == "+" || out.text == "-"))
        if (const std::optional<long> offset = constant_value(out.args[1]))
            return sum(out.args[0], number(out.text == "+" ? *offset : -*offset));
    return out;
}

bool mentions(const Expr& e, const std::string& variable) {
    if (e.kind == ExprKind::name && e.text == variable)
        return true;
    return std::any_of(e.args.begin(), e.args.end(),
                       [&](const Expr& a) { return mentions(a, variable); });
}

// --- printing

namespace {

int precedence(std::string_view op) {
    struct Level {
        std::string_view op;
        int value;
    };
    constexpr std::array<Level, 19> levels = {{{"||", 4},
                                               {"&&", 5},
                                               {"|", 6},
                                               {"^", 7},
                                               {"&", 8},
                                               {"==", 9},
                                               {"!=", 9},
                                               {"<", 10},
                                               {">", 10},
                                               {"<=", 10},
                                               {">=", 10},
                                               {"<=>", 11},
                                               {"<<", 12},
                                               {">>", 12},
                                               {"+", 13},
                                               {"-", 13},
                                               {"*", 14},
                                               {"/", 14},
                                               {"%", 14}}};
    for (const Level& level : levels)
        if (level.op == op)
            return level.value;
    return 0;
}

int precedence(const Expr& e) {
    switch (e.kind) {
        case ExprKind::comma:
            return 1;
        case ExprKind::assign:
            return 2;
        case ExprKind::conditional:
            return 3;
        case ExprKind::binary:
            return precedence(e.text);
        case ExprKind::unary:
        case ExprKind::cast:
            return 15;
        default:
            return 16;
    }
}

std::string print_at(const Expr& e, int level);

std::string print_list(const std::vector<Expr>& args, std::size_t from) {
    std::string out;
    for (std::size_t i = from; i < args.size(); ++i)
        out += (i > from ? ", " : "") + print_at(args[i], 2);
    return out;
}

std::string print_bare(const Expr& e) {
    switch (e.kind) {
        case ExprKind::none:
            return "";
        case ExprKind::name:
        case ExprKind::literal:
            return e.text;
        case ExprKind::unary: {
            const std::string operand = print_at(e.args[0], 15);
            const bool word = e.text == "sizeof";
            const bool clash = !operand.empty() && operand[0] == e.text[0] &&
                               (e.text[0] == '-' || e.text[0] == '+' || e.text[0] == '&');
            return e.text + (word || clash ? " " : "") + operand;
        }
        case ExprKind::postfix:
            return print_at(e.args[0], 16) + e.text;
        case ExprKind::binary: {
            const int level = precedence(e.text);
            return print_at(e.args[0], level) + " " + e.text + " " + print_at(e.args[1], level + 1);
        }
        case ExprKind::assign:
            return print_at(e.args[0], 3) + " " + e.text + " " + print_at(e.args[1], 2);
        case ExprKind::conditional:
            return print_at(e.args[0], 4) + " ? " + print_at(e.args[1], 2) + " : " +
                   print_at(e.args[2], 2);
        case ExprKind::call:
            return print_at(e.args[0], 16) + "(" + print_list(e.args, 1) + ")";
        case ExprKind::index:
            return print_at(e.args[0], 16) + "[" + print_at(e.args[1], 1) + "]";
        case ExprKind::member:
            return print_at(e.args[0], 16) + e.text;
        case ExprKind::cast:
            return "(" + e.text + ")" + print_at(e.args[0], 15);
        case ExprKind::braces:
            return e.text + "{" + print_list(e.args, 0) + "}";
        case ExprKind::comma:
            return print_at(e.args[0], 1) + ", " + print_at(e.args[1], 2);
    }
    return "";
}

std::string print_at(const Expr& e, int level) {
    const std::string text = print_bare(e);
    return precedence(e) < level ? "(" + text + ")" : text;
}

std::string print_declarators(const Stmt& s) {
    std::string out = s.text;
    for (std::size_t i = 0; i < s.declarators.size(); ++i) {
        const Declarator& d = s.declarators[i];
        out += (i > 0 ? "," : "") + d.pointers + " " + d.name;
        for (const Expr& dimension : d.dimensions)
            out += "[" + print(dimension) + "]";
        if (d.init)
            out += d.brace_init ? print_at(*d.init, 2) : " = " + print_at(*d.init, 2);
    }
    return out;
}

// Whether the body needs no braces.
bool is_simple(const std::vector<Stmt>& body) {
    return body.size() == 1 && (body[0].kind == StmtKind::expression ||
                                body[0].kind == StmtKind::jump || body[0].kind == StmtKind::loop);
}

void print_statement(const Stmt& s, int indent, std::string& out);

void print_body(const std::vector<Stmt>& body, int indent, std::string& out,
                std::string_view after = "\n") {
    if (is_simple(body) && after == "\n") {
        out += "\n";
        print_statement(body[0], indent + 4, out);
        return;
    }
    out += " {\n";
    for (const Stmt& s : body)
        print_statement(s, indent + 4, out);
    out += std::string(static_cast<std::size_t>(indent), ' ') + "}" + std::string(after);
}

void print_statement(const Stmt& s, int indent, std::string& out) {
    const std::string margin(static_cast<std::size_t>(indent), ' ');
    switch (s.kind) {
        case StmtKind::expression:
            out += margin + print(s.expr) + ";\n";
            break;
        case StmtKind::declaration:
            out += margin + print_declarators(s) + ";\n";
            break;
        case StmtKind::block:
            out += margin + "{\n";
            for (const Stmt& inner : s.body)
                print_statement(inner, indent + 4, out);
            out += margin + "}\n";
            break;
        case StmtKind::loop: {
            std::string init;
            if (!s.init.empty())
                init = s.init[0].kind == StmtKind::declaration ? print_declarators(s.init[0])
                                                               : print(s.init[0].expr);
            const std::string condition = s.expr.kind == ExprKind::none ? "" : " " + print(s.expr);
            const std::string step = s.step.kind == ExprKind::none ? "" : " " + print(s.step);
            out += margin + "for (" + init + ";" + condition + ";" + step + ")";
            print_body(s.body, indent, out);
            break;
        }
        case StmtKind::loop_while:
            out += margin + "while (" + print(s.expr) + ")";
            print_body(s.body, indent, out);
            break;
        case StmtKind::loop_do:
            out += margin + "do";
            print_body(s.body, indent, out, " while (" + print(s.expr) + ");\n");
            break;
        case StmtKind::branch:
            out += margin + "if (" + print(s.expr) + ")";
            if (!s.has_else) {
                print_body(s.body, indent, out);
            } else {
                print_body(s.body, indent, out, " else");
                if (s.orelse.size() == 1 && s.orelse[0].kind == StmtKind::branch) {
                    std::string inner;
                    print_statement(s.orelse[0], indent, inner);
                    out += " " + inner.substr(static_cast<std::size_t>(indent));
                } else {
                    print_body(s.orelse, indent, out);
                }
            }
            break;
        case StmtKind::jump:
            out += margin + s.text + (s.expr.kind == ExprKind::none ? "" : " " + print(s.expr)) +
                   ";\n";
            break;
        case StmtKind::directive:
            out += s.text + "\n";
            break;
        case StmtKind::comment:
        case StmtKind::raw:
            out += margin + s.text + "\n";
            break;
    }
}

}  // namespace

std::string print(const Expr& e) { return print_at(e, 1); }

std::string print(const std::vector<Stmt>& statements, int indent) {
    std::string out;
    for (const Stmt& s : statements)
        print_statement(s, indent, out);
    return out;
}

std::string print(const Function& function) {
    std::string head = function.head;
    while (!head.empty() && (head.back() == ' ' || head.back() == '\n' || head.back() == '\t'))
        head.pop_back();
    return head + " {\n" + print(function.body, 4) + "}";
}

// --- making statements

Stmt statement(Expr e) {
    Stmt s;
    s.kind = StmtKind::expression;
    s.expr = std::move(e);
    return s;
}

Stmt declare(std::string type, std::string variable, std::optional<Expr> init,
             std::string pointers) {
    Stmt s;
    s.kind = StmtKind::declaration;
    s.text = std::move(type);
    Declarator d;
    d.name = std::move(variable);
    d.pointers = std::move(pointers);
    d.init = std::move(init);
    s.declarators.push_back(std::move(d));
    return s;
}

Stmt block(std::vector<Stmt> body) {
    Stmt s;
    s.kind = StmtKind::block;
    s.body = std::move(body);
    return s;
}

Stmt directive(std::string text) {
    Stmt s;
    s.kind = StmtKind::directive;
    s.text = std::move(text);
    return s;
}

std::optional<Counted> counted(const Stmt& s) {
    if (s.kind != StmtKind::loop || s.init.size() != 1 || s.expr.kind != ExprKind::binary)
        return std::nullopt;
    Counted c;
    const Stmt& init = s.init[0];
    if (init.kind != StmtKind::declaration || init.declarators.size() != 1)
        return std::nullopt;
    const Declarator& first = init.declarators[0];
    if (!first.init || !first.pointers.empty())
        return std::nullopt;
    c.type = init.text;
    c.var = first.name;
    c.low = *first.init;
    if (!(s.expr.args[0] == name(c.var)) || (s.expr.text != "<" && s.expr.text != "<="))
        return std::nullopt;
    c.inclusive = s.expr.text == "<=";
    c.bound = s.expr.args[1];
    const bool increment =
        (s.step.kind == ExprKind::unary || s.step.kind == ExprKind::postfix) && s.step.text == "++";
    if (increment && s.step.args[0] == name(c.var)) {
        c.step = 1;
    } else if (s.step.kind == ExprKind::assign && s.step.text == "+=" &&
               s.step.args[0] == name(c.var)) {
        const std::optional<long> by = constant_value(s.step.args[1]);
        if (!by || *by <= 0)
            return std::nullopt;
        c.step = *by;
    } else {
        return std::nullopt;
    }
    if (mentions(c.bound, c.var))
        return std::nullopt;
    bool changed = false;  // the body must leave the variable alone
    auto look = [&](const Expr& top) {
        for_each_expression(top, [&](const Expr& e) {
            const bool writes =
                e.kind == ExprKind::assign || e.kind == ExprKind::postfix ||
                (e.kind == ExprKind::unary && (e.text == "++" || e.text == "--" || e.text == "&"));
            changed = changed || (writes && e.args[0] == name(c.var));
        });
    };
    for_each_top_expression(s.body, look);
    for_each_statement(s.body, [&](const Stmt& inner) {
        changed = changed || inner.kind == StmtKind::raw;
        for (const Declarator& d : inner.declarators)
            changed = changed || d.name == c.var;  // shadowed: leave it alone
    });
    return changed ? std::nullopt : std::optional<Counted>(c);
}

Stmt counting_loop(const Counted& head, std::vector<Stmt> body) {
    Stmt s;
    s.kind = StmtKind::loop;
    s.init.push_back(declare(head.type, head.var, head.low));
    s.expr = binary(name(head.var), head.inclusive ? "<=" : "<", head.bound);
    s.step = head.step == 1 ? unary("++", name(head.var))
                            : assign(name(head.var), "+=", number(head.step));
    s.body = std::move(body);
    return s;
}

std::vector<Stmt> substitute(std::vector<Stmt> statements, const std::string& variable,
                             const Expr& value) {
    for_each_top_expression(statements, [&](Expr& e) { e = substitute(e, variable, value); });
    return statements;
}

bool mentions(const std::vector<Stmt>& statements, const std::string& variable) {
    bool found = false;
    for_each_top_expression(statements,
                            [&](const Expr& e) { found = found || mentions(e, variable); });
    return found;
}

// --- parsing

namespace {

bool is_builtin_type(std::string_view word) {
    constexpr std::array<std::string_view, 22> words = {
        "void",      "bool",    "char",     "short",    "int",         "long",
        "float",     "double",  "signed",   "unsigned", "auto",        "size_t",
        "ptrdiff_t", "wchar_t", "_Float16", "__bf16",   "std::size_t", "std::ptrdiff_t",
        "int32_t",   "int64_t", "uint32_t", "uint64_t"};
    return std::find(words.begin(), words.end(), word) != words.end() ||
           (word.size() > 2 && word.substr(word.size() - 2) == "_t");
}

bool is_qualifier(std::string_view word) {
    constexpr std::array<std::string_view, 11> words = {
        "const",  "volatile", "static", "constexpr", "register", "thread_local",
        "struct", "typename", "inline", "mutable",   "alignas"};
    return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_restrict(std::string_view word) {
    return word == "__restrict" || word == "__restrict__" || word == "restrict";
}

// Operators in a row (a + b + c ...) make a tree as deep as the row is long, and what reads trees
// recurses.
constexpr int longest_chain = 200;

class Parser {
public:
    Parser(std::string_view source, const std::set<std::string>& types)
        : source_(source), types_(types), all_(tokenize(source)) {
        for (const Token& token : all_)
            if (token.kind != TokenKind::comment)
                tokens_.push_back(token);
    }

    bool conditional() const { return conditional_; }
    bool at_end() const { return i_ >= tokens_.size(); }
    bool failed() const { return failed_; }

    Expr expression() { return comma(); }

    std::vector<Stmt> statements() {
        std::vector<Stmt> list;
        while (!at_end() && !peek("}"))
            parse_into(list);
        comments_before(at_end() ? source_.size() : tokens_[i_].offset, list);
        return list;
    }

    std::vector<Parameter> parameters() {
        std::vector<Parameter> list;
        while (!at_end() && !failed_) {
            Parameter p;
            p.type = type_text();
            p.pointers = pointer_text();
            if (at_end() || tokens_[i_].kind != TokenKind::identifier) {
                if (p.type == "void" && at_end())
                    return list;
                failed_ = true;
                return list;
            }
            p.name = take();
            while (accept("[")) {
                p.array = true;
                while (!at_end() && !peek("]"))
                    ++i_;
                expect("]");
            }
            if (accept("="))
                assignment();
            list.push_back(std::move(p));
            if (!at_end())
                expect(",");
        }
        return list;
    }

private:
    bool peek(std::string_view text, std::size_t ahead = 0) const {
        return i_ + ahead < tokens_.size() && tokens_[i_ + ahead].text == text &&
               tokens_[i_ + ahead].kind != TokenKind::string &&
               tokens_[i_ + ahead].kind != TokenKind::character;
    }
    TokenKind kind(std::size_t ahead = 0) const {
        return i_ + ahead < tokens_.size() ? tokens_[i_ + ahead].kind : TokenKind::directive;
    }
    std::string_view word(std::size_t ahead = 0) const {
        return i_ + ahead < tokens_.size() ? tokens_[i_ + ahead].text : std::string_view();
    }
    std::string take() {
        return i_ < tokens_.size() ? std::string(tokens_[i_++].text) : std::string();
    }
    bool accept(std::string_view text) {
        if (!peek(text))
            return false;
        ++i_;
        return true;
    }
    void expect(std::string_view text) { failed_ = failed_ || !accept(text); }

    // --- types ---

    bool is_type_word(std::size_t ahead) const {
        if (kind(ahead) != TokenKind::identifier)
            return false;
        std::string full(word(ahead));
        while (peek("::", ahead + 1) && kind(ahead + 2) == TokenKind::identifier) {
            full += "::" + std::string(word(ahead + 2));
            ahead += 2;
        }
        return is_builtin_type(full) || is_qualifier(full) || types_.contains(full);
    }

    // Index (relative to i_) after a type's words beginning at `ahead`, or 0 when there is none.
    std::size_t type_end(std::size_t ahead) const {
        bool named = false;
        while (kind(ahead) == TokenKind::identifier) {
            if (is_qualifier(word(ahead)) || is_restrict(word(ahead))) {
                if (word(ahead) == "alignas" && peek("(", ahead + 1)) {
                    while (i_ + ahead < tokens_.size() && !peek(")", ahead))
                        ++ahead;
                }
                ++ahead;
                continue;
            }
            const bool builtin = is_builtin_type(word(ahead));
            if (named && !(builtin && is_builtin_type(word(ahead - 1))))
                break;
            named = true;
            ++ahead;
            while (peek("::", ahead) && kind(ahead + 1) == TokenKind::identifier)
                ahead += 2;
            if (peek("<", ahead)) {
                const std::size_t close = template_end(ahead);
                if (close > 0)
                    ahead = close;
            }
        }
        return named ? ahead : 0;
    }

    // After `<...>` when its content can be template arguments, else 0.
    std::size_t template_end(std::size_t ahead) const {
        int depth = 0;
        for (std::size_t k = ahead; i_ + k < tokens_.size() && k < ahead + 24; ++k) {
            if (peek("<", k))
                ++depth;
            else if (peek(">", k))
                --depth;
            else if (peek(">>", k))
                depth -= 2;
            else if (kind(k) != TokenKind::identifier && kind(k) != TokenKind::number &&
                     !peek("*", k) && !peek("&", k) && !peek(",", k) && !peek("::", k))
                return 0;
            if (depth <= 0)
                return k + 1;
        }
        return 0;
    }

    std::string text_between(std::size_t begin, std::size_t end) const {
        std::string out;
        for (std::size_t k = begin; k < end; ++k) {
            const std::string_view t = tokens_[k].text;
            const bool word_here = tokens_[k].kind != TokenKind::punctuator;
            const bool word_before =
                k > begin &&
                (tokens_[k - 1].kind != TokenKind::punctuator || tokens_[k - 1].text == ">" ||
                 tokens_[k - 1].text == ")" || tokens_[k - 1].text == "*");
            if (word_here && word_before)
                out += ' ';
            out += t;
        }
        return out;
    }

    std::string type_text() {
        const std::size_t end = type_end(0);
        if (end == 0) {
            failed_ = true;
            return {};
        }
        std::string text = text_between(i_, i_ + end);
        i_ += end;
        return text;
    }

    std::string pointer_text() {
        std::string out;
        while (peek("*") || peek("&") || peek("&&") ||
               (!out.empty() && (is_restrict(word()) || peek("const")))) {
            if (kind() == TokenKind::identifier)
                out += " ";
            out += take();
        }
        return out;
    }

    // A declaration begins here: a known type, or two names (perhaps with stars between) before = ;
    // [ { ( or ,
    bool declaration_ahead() const {
        if (kind() != TokenKind::identifier)
            return false;
        std::size_t end = type_end(0);
        if (end == 0)
            return false;
        const bool known = is_type_word(0);
        std::size_t stars = 0;
        while (peek("*", end) || peek("&", end) ||
               (stars > 0 && (is_restrict(word(end)) || peek("const", end)))) {
            ++end;
            ++stars;
        }
        if (kind(end) != TokenKind::identifier)
            return false;
        const bool tail = peek("=", end + 1) || peek(";", end + 1) || peek(",", end + 1) ||
                          peek("[", end + 1) || peek("{", end + 1) || (known && peek("(", end + 1));
        return tail && (known || stars == 0 || peek("=", end + 1) || peek(";", end + 1));
    }

    Stmt declaration() {
        Stmt s;
        s.kind = StmtKind::declaration;
        s.line = line();
        s.text = type_text();
        while (!failed_) {
            Declarator d;
            d.pointers = pointer_text();
            if (kind() != TokenKind::identifier) {
                failed_ = true;
                break;
            }
            d.name = take();
            while (accept("[")) {
                d.dimensions.push_back(peek("]") ? Expr() : expression());
                expect("]");
            }
            if (accept("=")) {
                d.init = peek("{") ? primary() : assignment();
            } else if (peek("{")) {
                d.init = primary();
                d.brace_init = true;
            } else if (peek("(") || peek("__attribute__")) {
                failed_ =
                    true;  // a function declaration, a constructor call or an attribute: left alone
            }
            s.declarators.push_back(std::move(d));
            if (!accept(","))
                break;
        }
        return s;
    }

    // --- expressions ---

    Expr comma() {
        Expr left = assignment();
        int links = 0;
        while (!failed_ && accept(",")) {
            failed_ = failed_ || ++links > longest_chain;
            Expr e;
            e.kind = ExprKind::comma;
            e.args.push_back(std::move(left));
            e.args.push_back(assignment());
            left = std::move(e);
        }
        return left;
    }

    Expr assignment() {
        if (++depth_ > 200)
            failed_ = true;
        Expr left = failed_ ? Expr() : conditional_expression();
        constexpr std::array<std::string_view, 11> ops = {
            "=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^="};
        if (!failed_ && kind() == TokenKind::punctuator &&
            std::find(ops.begin(), ops.end(), word()) != ops.end()) {
            std::string op = take();
            Expr right = peek("{") ? primary() : assignment();
            left = assign(std::move(left), std::move(op), std::move(right));
        }
        --depth_;
        return left;
    }

    Expr conditional_expression() {
        Expr condition = binary_expression(4);
        if (failed_ || !accept("?"))
            return condition;
        Expr e;
        e.kind = ExprKind::conditional;
        e.args.push_back(std::move(condition));
        e.args.push_back(assignment());
        expect(":");
        e.args.push_back(assignment());
        return e;
    }

    Expr binary_expression(int lowest) {
        Expr left = unary_expression();
        int links = 0;
        while (!failed_ && kind() == TokenKind::punctuator) {
            const int level = precedence(word());
            if (level < lowest)
                break;
            failed_ = failed_ || ++links > longest_chain;
            std::string op = take();
            Expr right = binary_expression(level + 1);
            left = binary(std::move(left), std::move(op), std::move(right));
        }
        return left;
    }

    bool cast_ahead() const {
        if (!peek("(") || !is_type_word(1))
            return false;
        std::size_t end = type_end(1);
        if (end == 0)
            return false;
        while (peek("*", end) || peek("&", end) || peek("const", end) || is_restrict(word(end)))
            ++end;
        if (!peek(")", end))
            return false;
        ++end;
        return kind(end) == TokenKind::identifier || kind(end) == TokenKind::number ||
               kind(end) == TokenKind::string || peek("(", end) || peek("-", end) ||
               peek("&", end) || peek("*", end) || peek("{", end);
    }

    Expr unary_expression() {
        if (++depth_ > 200)
            failed_ = true;
        Expr e = failed_ ? Expr() : unary_inner();
        --depth_;
        return e;
    }

    Expr unary_inner() {
        for (const std::string_view op : {"++", "--", "+", "-", "!", "~", "*", "&"})
            if (peek(op)) {
                ++i_;
                return unary(std::string(op), unary_expression());
            }
        if (peek("sizeof")) {
            // The operand may be a type: kept as one word.
            const std::size_t begin = i_++;
            if (!peek("(")) {
                failed_ = true;
                return {};
            }
            int depth = 0;
            do {
                depth += peek("(") ? 1 : peek(")") ? -1 : 0;
                ++i_;
            } while (depth > 0 && !at_end());
            return literal(text_between(begin, i_));
        }
        if (cast_ahead()) {
            ++i_;
            Expr e;
            e.kind = ExprKind::cast;
            e.text = type_text();
            e.text += pointer_text();
            while (kind() == TokenKind::identifier && (peek("const") || is_restrict(word())))
                e.text += " " + take();
            expect(")");
            e.args.push_back(peek("{") ? primary() : unary_expression());
            return e;
        }
        return postfix_expression();
    }

    Expr postfix_expression() {
        Expr e = primary();
        int links = 0;
        while (!failed_) {
            failed_ = ++links > longest_chain;
            if (accept("[")) {
                Expr subscript = expression();
                expect("]");
                e = index(std::move(e), std::move(subscript));
            } else if (accept("(")) {
                Expr c;
                c.kind = ExprKind::call;
                c.args.push_back(std::move(e));
                while (!failed_ && !peek(")")) {
                    c.args.push_back(assignment());
                    if (!accept(","))
                        break;
                }
                expect(")");
                e = std::move(c);
            } else if (peek(".") || peek("->")) {
                Expr m;
                m.kind = ExprKind::member;
                m.text = take();
                if (kind() != TokenKind::identifier)
                    failed_ = true;
                m.text += take();
                m.args.push_back(std::move(e));
                e = std::move(m);
            } else if (peek("++") || peek("--")) {
                Expr p;
                p.kind = ExprKind::postfix;
                p.text = take();
                p.args.push_back(std::move(e));
                e = std::move(p);
            } else {
                break;
            }
        }
        return e;
    }

    // Braces and parentheses come back here without passing a counted level.
    Expr primary() {
        if (++depth_ > 200)
            failed_ = true;
        Expr e = failed_ ? Expr() : primary_inner();
        --depth_;
        return e;
    }

    Expr primary_inner() {
        if (accept("(")) {
            Expr e = expression();
            expect(")");
            return e;
        }
        if (accept("{")) {
            Expr e;
            e.kind = ExprKind::braces;
            while (!failed_ && !peek("}")) {
                e.args.push_back(peek("{") ? primary() : assignment());
                if (!accept(","))
                    break;
            }
            expect("}");
            return e;
        }
        if (kind() == TokenKind::number || kind() == TokenKind::string ||
            kind() == TokenKind::character) {
            if (tokens_[i_].cut)
                failed_ = true;
            return literal(take());
        }
        if (kind() != TokenKind::identifier) {
            failed_ = true;
            return {};
        }
        std::string text = take();
        while (peek("::") && kind(1) == TokenKind::identifier) {
            ++i_;
            text += "::" + take();
        }
        const bool cast = text.size() > 5 && text.substr(text.size() - 5) == "_cast";
        if (peek("<") && (cast || text.substr(0, 5) == "std::" || types_.contains(text))) {
            const std::size_t end = template_end(0);
            if (end > 0 && (peek("(", end) || peek("{", end) || peek("::", end))) {
                text += text_between(i_, i_ + end);
                i_ += end;
                while (peek("::") && kind(1) == TokenKind::identifier) {
                    ++i_;
                    text += "::" + take();
                }
            }
        }
        if (peek("{") && (types_.contains(text) || is_builtin_type(text))) {
            Expr e = primary();
            e.text = text;
            return e;
        }
        static const std::set<std::string, std::less<>> reserved = {
            "for", "if",     "while", "do",    "return", "else", "switch",   "case",
            "new", "delete", "goto",  "throw", "try",    "asm",  "operator", "lambda"};
        if (reserved.contains(text))
            failed_ = true;
        return name(std::move(text));
    }

    // --- statements ---

    int line() const { return i_ < tokens_.size() ? tokens_[i_].line : 0; }

    void comments_before(std::size_t offset, std::vector<Stmt>& list) {
        while (comment_ < all_.size() && all_[comment_].offset < offset) {
            if (all_[comment_].kind == TokenKind::comment) {
                Stmt s;
                s.kind = StmtKind::comment;
                s.line = all_[comment_].line;
                s.text = std::string(all_[comment_].text);
                while (!s.text.empty() && (s.text.back() == '\r' || s.text.back() == ' '))
                    s.text.pop_back();
                list.push_back(std::move(s));
            }
            ++comment_;
        }
    }

    void parse_into(std::vector<Stmt>& list) {
        comments_before(tokens_[i_].offset, list);
        const std::size_t begin = i_;
        const std::size_t comment = comment_;
        failed_ = false;
        if (++depth_ > 100) {
            failed_ = true;
        } else {
            Stmt s = one();
            if (!failed_)
                list.push_back(std::move(s));
        }
        --depth_;
        if (failed_) {
            i_ = begin;
            comment_ = comment;
            list.push_back(raw());
            failed_ = false;
        }
    }

    // The text of one statement that is not understood.
    Stmt raw() {
        Stmt s;
        s.kind = StmtKind::raw;
        s.line = line();
        const std::size_t begin = i_;
        int depth = 0;
        while (!at_end()) {
            if (depth == 0 && peek("}"))
                break;
            const bool semicolon = peek(";");
            const bool close = peek("}");
            depth += peek("(") || peek("[") || peek("{") ? 1 : 0;
            depth -= peek(")") || peek("]") || peek("}") ? 1 : 0;
            ++i_;
            if (depth <= 0 && (semicolon || (close && !peek("else") && !peek("while") &&
                                             !peek(";") && !peek(")") && !peek(","))))
                break;
        }
        if (i_ == begin)
            ++i_;
        const Token& first = tokens_[begin];
        const Token& last = tokens_[i_ - 1];
        s.text = std::string(
            source_.substr(first.offset, last.offset + last.text.size() - first.offset));
        while (comment_ < all_.size() && all_[comment_].offset < last.offset)
            ++comment_;
        return s;
    }

    std::vector<Stmt> body() {
        std::vector<Stmt> list;
        if (accept("{")) {
            while (!at_end() && !peek("}"))
                parse_into(list);
            if (!at_end())
                comments_before(tokens_[i_].offset, list);
            expect("}");
        } else if (accept(";")) {
            return list;
        } else if (!at_end()) {
            parse_into(list);
        } else {
            failed_ = true;
        }
        return list;
    }

    Stmt one() {
        Stmt s;
        s.line = line();
        if (kind() == TokenKind::directive) {
            s.kind = StmtKind::directive;
            s.text = take();
            const std::size_t first = s.text.find_first_not_of(" \t", 1);
            const std::string_view rest = first == std::string::npos
                                              ? std::string_view()
                                              : std::string_view(s.text).substr(first);
            conditional_ = conditional_ || rest.substr(0, 2) == "if" || rest.substr(0, 2) == "el" ||
                           rest.substr(0, 5) == "endif";
            return s;
        }
        if (peek("{")) {
            s.kind = StmtKind::block;
            s.body = body();
            return s;
        }
        if (accept(";")) {
            s.kind = StmtKind::expression;
            return s;
        }
        if (peek("for") && peek("(", 1)) {
            i_ += 2;
            s.kind = StmtKind::loop;
            if (!accept(";")) {
                if (declaration_ahead()) {
                    s.init.push_back(declaration());
                } else {
                    s.init.push_back(statement(expression()));
                }
                expect(";");  // a range-for fails here and stays raw
            }
            if (!peek(";"))
                s.expr = expression();
            expect(";");
            if (!peek(")"))
                s.step = expression();
            expect(")");
            if (!failed_)
                s.body = body();
            return s;
        }
        if (accept("while")) {
            s.kind = StmtKind::loop_while;
            expect("(");
            s.expr = expression();
            expect(")");
            if (!failed_)
                s.body = body();
            return s;
        }
        if (accept("do")) {
            s.kind = StmtKind::loop_do;
            s.body = body();
            expect("while");
            expect("(");
            s.expr = expression();
            expect(")");
            expect(";");
            return s;
        }
        if (peek("if") && peek("(", 1)) {
            i_ += 2;
            s.kind = StmtKind::branch;
            s.expr = expression();
            expect(")");
            if (!failed_)
                s.body = body();
            if (!failed_ && accept("else")) {
                s.has_else = true;
                s.orelse = body();
            }
            return s;
        }
        if (peek("return") || peek("break") || peek("continue")) {
            s.kind = StmtKind::jump;
            s.text = take();
            if (!peek(";"))
                s.expr = expression();
            expect(";");
            return s;
        }
        if (declaration_ahead()) {
            s = declaration();
            expect(";");
            return s;
        }
        s.kind = StmtKind::expression;
        s.expr = expression();
        expect(";");
        return s;
    }

    std::string_view source_;
    const std::set<std::string>& types_;
    std::vector<Token> all_, tokens_;
    std::size_t i_ = 0;
    std::size_t comment_ = 0;
    int depth_ = 0;
    bool failed_ = false;
    bool conditional_ = false;
};

// Names that typedef, using, struct and class introduce anywhere in the file.
std::set<std::string> type_names(std::string_view source) {
    std::set<std::string> types;
    const std::vector<Token> tokens = code_tokens(source);
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
        const std::string_view t = tokens[i].text;
        if ((t == "struct" || t == "class" || t == "using") &&
            tokens[i + 1].kind == TokenKind::identifier)
            types.emplace(tokens[i + 1].text);
        if (t != "typedef")
            continue;
        int depth = 0;
        std::string last;
        for (std::size_t k = i + 1; k < tokens.size() && tokens[k].text != ";"; ++k) {
            depth += tokens[k].text == "(" ? 1 : tokens[k].text == ")" ? -1 : 0;
            if (depth == 0 && tokens[k].kind == TokenKind::identifier &&
                tokens[k].text != "__attribute__")
                last = std::string(tokens[k].text);
        }
        types.insert(last);
    }
    return types;
}

}  // namespace

std::optional<Expr> parse_expression(std::string_view text, const std::set<std::string>& types) {
    Parser parser(text, types);
    Expr e = parser.expression();
    if (parser.failed() || !parser.at_end())
        return std::nullopt;
    return e;
}

Result<Function> parse_function(std::string_view source, const std::string& function_name) {
    const Result<FunctionSpan> span = find_function(source, function_name);
    if (!span)
        return tl::unexpected<Error>(span.error());
    Function f;
    f.name = function_name;
    f.types = type_names(source);
    f.head = std::string(source.substr(span->begin, span->body_begin - span->begin));
    // The parameter list is the last parenthesis of the head that is not part of an attribute
    // behind it.
    const std::vector<Token> head = code_tokens(f.head);
    for (std::size_t i = 0; i + 1 < head.size(); ++i) {
        const bool called =
            head[i].kind == TokenKind::identifier && head[i + 1].text == "(" &&
            (head[i].text == function_name ||
             (function_name.size() > head[i].text.size() &&
              function_name.substr(function_name.size() - head[i].text.size()) == head[i].text));
        if (!called)
            continue;
        int depth = 0;
        for (std::size_t k = i + 1; k < head.size(); ++k) {
            depth += head[k].text == "(" ? 1 : head[k].text == ")" ? -1 : 0;
            if (depth > 0)
                continue;
            const std::size_t begin = head[i + 1].offset + 1;
            Parser parser(std::string_view(f.head).substr(begin, head[k].offset - begin), f.types);
            f.parameters = parser.parameters();
            if (parser.failed())
                return fail(function_name, "its parameter list is not understood");
            break;
        }
        break;
    }
    // Lines of statements count in the file: the body is parsed with as many line ends before it.
    const std::string_view before = source.substr(0, span->body_begin + 1);
    const std::string padded =
        std::string(static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')),
                    '\n') +
        std::string(source.substr(span->body_begin + 1, span->end - span->body_begin - 2));
    Parser parser(padded, f.types);
    f.body = parser.statements();
    f.conditional = parser.conditional();
    return f;
}

}  // namespace loopscope::rules
