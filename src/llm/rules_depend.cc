#include "llm/rules_depend.h"

#include "llm/rules_syntax.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace loopscope::rules {

// --- polynomials

namespace {

void add_term(Poly& p, const std::vector<std::string>& key, long coefficient) {
    const auto [at, fresh_term] = p.terms.emplace(key, coefficient);
    if (!fresh_term)
        at->second += coefficient;
    if (at->second == 0)
        p.terms.erase(at);
}

// Small enough that a product neither overflows nor explodes.
bool is_small(const Poly& p) {
    return p.terms.size() <= 64 && std::all_of(p.terms.begin(), p.terms.end(), [](const auto& t) {
               return std::abs(t.second) <= 1'000'000 && t.first.size() <= 8;
           });
}

}  // namespace

Poly operator+(const Poly& a, const Poly& b) {
    Poly out = a;
    for (const auto& [key, value] : b.terms)
        add_term(out, key, value);
    return out;
}

Poly operator-(const Poly& a, const Poly& b) {
    Poly out = a;
    for (const auto& [key, value] : b.terms)
        add_term(out, key, -value);
    return out;
}

Poly operator*(const Poly& a, const Poly& b) {
    Poly out;
    for (const auto& [left, x] : a.terms)
        for (const auto& [right, y] : b.terms) {
            std::vector<std::string> key = left;
            key.insert(key.end(), right.begin(), right.end());
            std::sort(key.begin(), key.end());
            add_term(out, key, x * y);
        }
    return out;
}

Poly poly_constant(long value) {
    Poly p;
    add_term(p, {}, value);
    return p;
}

Poly poly_name(const std::string& variable) {
    Poly p;
    p.terms[{variable}] = 1;
    return p;
}

bool poly_mentions(const Poly& p, const std::string& variable) {
    return std::any_of(p.terms.begin(), p.terms.end(), [&](const auto& term) {
        return std::find(term.first.begin(), term.first.end(), variable) != term.first.end();
    });
}

Poly poly_replace(const Poly& p, const std::string& variable, const Poly& value) {
    Poly out;
    for (const auto& [key, coefficient] : p.terms) {
        Poly term = poly_constant(coefficient);
        for (const std::string& factor : key)
            term = term * (factor == variable ? value : poly_name(factor));
        out = out + term;
    }
    return out;
}

std::optional<Poly> poly_stride(const Poly& p, const std::string& variable) {
    Poly out;
    for (const auto& [key, coefficient] : p.terms) {
        const auto count = std::count(key.begin(), key.end(), variable);
        if (count == 0)
            continue;
        if (count > 1)
            return std::nullopt;
        std::vector<std::string> rest = key;
        rest.erase(std::find(rest.begin(), rest.end(), variable));
        add_term(out, rest, coefficient);
    }
    return out;
}

std::optional<long> poly_number(const Poly& p) {
    if (p.terms.empty())
        return 0;
    if (p.terms.size() == 1 && p.terms.begin()->first.empty())
        return p.terms.begin()->second;
    return std::nullopt;
}

bool poly_nonnegative(const Poly& p) {
    // Each name is at least 1, so a term of higher degree covers a negative one that divides it; a
    // plain sum of coefficients is enough for what loops give.
    long negative = 0;
    long positive = 0;
    for (const auto& [key, coefficient] : p.terms) {
        if (coefficient < 0 && !key.empty())
            return false;
        (coefficient < 0 ? negative : positive) += coefficient;
    }
    return positive + negative >= 0;
}

// --- names

namespace {

std::string bare_type(const std::string& type) {
    std::string out;
    std::size_t i = 0;
    while (i < type.size()) {
        const std::size_t end = std::min(type.find(' ', i), type.size());
        const std::string word = type.substr(i, end - i);
        if (word != "const" && word != "static" && word != "constexpr" && word != "register" &&
            word != "volatile" && !word.empty())
            out += (out.empty() ? "" : " ") + word;
        i = end + 1;
    }
    return out;
}

bool is_integer_type(const std::string& type) {
    const std::string bare = bare_type(type);
    return bare != "float" && bare != "double" && bare != "bool" && !bare.empty();
}

// The variable at the bottom of an lvalue: x of x, x[i], x.y, *x.
const Expr* base_of(const Expr& e) {
    if (e.kind == ExprKind::name)
        return &e;
    if (e.kind == ExprKind::index || e.kind == ExprKind::member || e.kind == ExprKind::cast)
        return base_of(e.args[0]);
    return nullptr;
}

bool writes_operand(const Expr& e) {
    return e.kind == ExprKind::assign || e.kind == ExprKind::postfix ||
           (e.kind == ExprKind::unary && (e.text == "++" || e.text == "--"));
}

std::optional<LocalPointer> pointer_value(const Expr& e, const Environment& env) {
    if (e.kind == ExprKind::name) {
        if (const auto alias = env.aliases.find(e.text); alias != env.aliases.end())
            return alias->second;
        if ((env.parameters.contains(e.text) && env.pointers.contains(e.text) &&
             !env.changed.contains(e.text)) ||
            env.arrays.contains(e.text)) {
            LocalPointer p;
            p.root = e.text;
            return p;
        }
        return std::nullopt;
    }
    if (e.kind == ExprKind::cast && e.text.find('*') != std::string::npos)
        return std::nullopt;  // elements of another size
    if (e.kind == ExprKind::binary && (e.text == "+" || e.text == "-")) {
        std::optional<LocalPointer> p = pointer_value(e.args[0], env);
        const std::optional<Poly> offset = poly_of(e.args[1], env);
        if (p && offset) {
            p->offset = e.text == "+" ? p->offset + *offset : p->offset - *offset;
            return p;
        }
        if (e.text == "+") {
            p = pointer_value(e.args[1], env);
            const std::optional<Poly> front = poly_of(e.args[0], env);
            if (p && front) {
                p->offset = p->offset + *front;
                return p;
            }
        }
        return std::nullopt;
    }
    if (e.kind == ExprKind::unary && e.text == "&" && e.args[0].kind == ExprKind::index) {
        std::optional<LocalPointer> p = pointer_value(e.args[0].args[0], env);
        const std::optional<Poly> offset = poly_of(e.args[0].args[1], env);
        if (p && offset) {
            p->offset = p->offset + *offset;
            return p;
        }
    }
    return std::nullopt;
}

}  // namespace

Environment environment_of(const Function& function) {
    Environment env;
    for (const Parameter& p : function.parameters) {
        env.types[p.name] = p.type;
        env.parameters.insert(p.name);
        if (p.array || p.pointers.find('*') != std::string::npos)
            env.pointers.insert(p.name);
    }
    for_each_top_expression(function.body, [&](const Expr& top) {
        for_each_expression(top, [&](const Expr& e) {
            if (writes_operand(e) || (e.kind == ExprKind::unary && e.text == "&"))
                if (e.args[0].kind == ExprKind::name)
                    env.changed.insert(e.args[0].text);
        });
    });
    std::map<std::string, int> declared;
    std::map<std::string, Expr> initial;
    std::set<std::string> differs;
    for_each_statement(function.body, [&](const Stmt& s) {
        for (const Declarator& d : s.declarators) {
            // One name with two types in different places: nothing is known of it.
            const auto [type, first_type] = env.types.emplace(d.name, s.text);
            if (!first_type && bare_type(type->second) != bare_type(s.text))
                type->second.clear();
            ++declared[d.name];
            if (!d.dimensions.empty()) {
                env.arrays.insert(d.name);
                env.pointers.insert(d.name);
            } else if (d.pointers.find('*') != std::string::npos) {
                env.pointers.insert(d.name);
            }
            if (!d.init || env.changed.contains(d.name) || !d.dimensions.empty())
                continue;
            const auto [at, first] = initial.emplace(d.name, *d.init);
            if (!first && !(at->second == *d.init))
                differs.insert(d.name);
        }
        if (s.kind == StmtKind::loop && !s.init.empty())
            for (const Declarator& d : s.init[0].declarators) {
                env.changed.insert(d.name);
                env.loop_variables.insert(d.name);
            }
    });
    for (const auto& [variable, init] : initial)
        if (!differs.contains(variable) && !env.changed.contains(variable) &&
            !env.parameters.contains(variable))
            env.initial[variable] = init;
    // In order of their names is not the order of their values, so repeat until nothing is added.
    for (bool grown = true; grown;) {
        grown = false;
        for (const auto& [variable, init] : env.initial) {
            if (env.values.contains(variable) || env.aliases.contains(variable))
                continue;
            // A value that changes with the loop is no constant where the name is redeclared in
            // each iteration, but within one iteration it stands for its expression, which is what
            // subscripts need.
            if (env.pointers.contains(variable)) {
                if (const std::optional<LocalPointer> p = pointer_value(init, env)) {
                    env.aliases[variable] = *p;
                    grown = true;
                }
            } else if (is_integer_type(env.types[variable])) {
                if (const std::optional<Poly> p = poly_of(init, env)) {
                    env.values[variable] = *p;
                    grown = true;
                }
            }
        }
    }
    return env;
}

std::string element_type(const Environment& env, const std::string& variable) {
    const auto found = env.types.find(variable);
    return found == env.types.end() ? "" : bare_type(found->second);
}

std::optional<Poly> poly_of(const Expr& e, const Environment& env) {
    if (const std::optional<long> value = constant_value(e))
        return poly_constant(*value);
    switch (e.kind) {
        case ExprKind::name: {
            if (env.pointers.contains(e.text))
                return std::nullopt;
            if (const auto value = env.values.find(e.text); value != env.values.end())
                return value->second;
            // What the body changes has no one value in it.
            if (env.changed.contains(e.text) && !env.loop_variables.contains(e.text))
                return std::nullopt;
            const auto type = env.types.find(e.text);
            if (type != env.types.end() && !is_integer_type(type->second))
                return std::nullopt;
            return poly_name(e.text);
        }
        case ExprKind::cast:
            return e.text.find('*') == std::string::npos ? poly_of(e.args[0], env) : std::nullopt;
        case ExprKind::unary: {
            if (e.text != "-" && e.text != "+")
                return std::nullopt;
            const std::optional<Poly> p = poly_of(e.args[0], env);
            if (!p)
                return std::nullopt;
            return e.text == "-" ? poly_constant(0) - *p : *p;
        }
        case ExprKind::call: {
            const std::string& f = e.args[0].text;
            const bool cast =
                f.substr(0, 12) == "static_cast<" || f == "size_t" || f == "int" || f == "long";
            return cast && e.args.size() == 2 ? poly_of(e.args[1], env) : std::nullopt;
        }
        case ExprKind::binary: {
            if (e.text != "+" && e.text != "-" && e.text != "*")
                return std::nullopt;
            const std::optional<Poly> a = poly_of(e.args[0], env);
            const std::optional<Poly> b = poly_of(e.args[1], env);
            if (!a || !b || !is_small(*a) || !is_small(*b))
                return std::nullopt;
            return e.text == "+" ? *a + *b : e.text == "-" ? *a - *b : *a * *b;
        }
        default:
            return std::nullopt;
    }
}

// --- effects

bool is_pure(const std::string& function) {
    std::string f = function;
    if (f.substr(0, 5) == "std::")
        f = f.substr(5);
    if (f.substr(0, 12) == "static_cast<" && f.find('*') == std::string::npos)
        return true;
    if (f.substr(0, 22) == "__builtin_elementwise_" || f.substr(0, 4) == "min<" ||
        f.substr(0, 4) == "max<")
        return true;
    constexpr std::array<std::string_view, 46> functions = {
        "sqrt",   "sqrtf", "fabs",  "fabsf", "abs",  "exp",   "expf",  "exp2",   "exp2f",  "log",
        "logf",   "log2",  "log2f", "pow",   "powf", "sin",   "sinf",  "cos",    "cosf",   "tan",
        "tanf",   "tanh",  "tanhf", "min",   "max",  "fmin",  "fminf", "fmax",   "fmaxf",  "floor",
        "floorf", "ceil",  "ceilf", "fma",   "fmaf", "float", "int",   "double", "size_t", "hypot",
        "hypotf", "cbrt",  "cbrtf", "erf",   "erff", "rsqrt"};
    return std::find(functions.begin(), functions.end(), f) != functions.end();
}

bool Effects::writes_root(const std::string& root) const {
    return std::any_of(accesses.begin(), accesses.end(), [&](const Access& a) {
        return a.write && (a.root == root || a.root.empty() || root.empty());
    });
}

namespace {

class Collector {
public:
    Collector(const Environment& env, Effects& effects) : env_(env), effects_(effects) {}

    void read(const Expr& e, int line) {
        switch (e.kind) {
            case ExprKind::none:
            case ExprKind::literal:
                return;
            case ExprKind::name:
                if (!env_.pointers.contains(e.text))
                    effects_.reads.insert(e.text);
                return;
            case ExprKind::assign:
                read(e.args[1], line);
                write(e.args[0], e.text, line);
                return;
            case ExprKind::postfix:
                write(e.args[0], "+=", line);
                return;
            case ExprKind::unary:
                if (e.text == "++" || e.text == "--")
                    return write(e.args[0], "+=", line);
                if (e.text == "*")
                    return access(e, false, "", line);
                if (e.text == "&") {
                    // The address alone is no access, but where it goes is not followed.
                    return unknown("the address of a variable is taken");
                }
                return read(e.args[0], line);
            case ExprKind::index:
                return access(e, false, "", line);
            case ExprKind::call:
                if (e.args[0].kind != ExprKind::name || !is_pure(e.args[0].text))
                    unknown("a call of " + print(e.args[0]));
                for (std::size_t i = 1; i < e.args.size(); ++i)
                    read(e.args[i], line);
                return;
            case ExprKind::member:
                unknown("a member is used");
                return;
            default:
                for (const Expr& argument : e.args)
                    read(argument, line);
        }
    }

    void statements(const std::vector<Stmt>& list) {
        for (const Stmt& s : list) {
            statements(s.init);
            switch (s.kind) {
                case StmtKind::raw:
                    unknown("a statement that is not understood");
                    break;
                case StmtKind::jump:
                    effects_.jumps = true;
                    read(s.expr, s.line);
                    break;
                default:
                    read(s.expr, s.line);
            }
            for (const Declarator& d : s.declarators) {
                effects_.declares.insert(d.name);
                if (d.init && !env_.aliases.contains(d.name))
                    read(*d.init, s.line);
                else if (d.init)
                    reads_of_address(*d.init, s.line);
            }
            statements(s.body);
            statements(s.orelse);
            read(s.step, s.line);
        }
    }

private:
    void unknown(const std::string& why) {
        effects_.unknown = true;
        if (effects_.why.empty())
            effects_.why = why;
    }

    void reads_of_address(const Expr& e, int line) {
        if (e.kind == ExprKind::name)
            return read(e, line);
        if (e.kind == ExprKind::unary && e.text == "&" && e.args[0].kind == ExprKind::index) {
            reads_of_address(e.args[0].args[0], line);
            return read(e.args[0].args[1], line);
        }
        for (const Expr& argument : e.args)
            reads_of_address(argument, line);
    }

    void write(const Expr& target, const std::string& op, int line) {
        if (target.kind == ExprKind::name) {
            effects_.writes.insert(target.text);
            effects_.writes_by[target.text].insert(op);
            if (op != "=")
                effects_.reads.insert(target.text);
            return;
        }
        access(target, true, op, line);
    }

    void access(const Expr& e, bool is_write, const std::string& update, int line) {
        Access a;
        a.write = is_write;
        a.update = update;
        a.line = line;
        const Expr* base = nullptr;
        std::vector<const Expr*> subscripts;
        const Expr* at = &e;
        while (at->kind == ExprKind::index) {
            subscripts.insert(subscripts.begin(), &at->args[1]);
            read(at->args[1], line);
            at = &at->args[0];
        }
        if (at->kind == ExprKind::name) {
            base = at;
        } else if (at->kind == ExprKind::unary && at->text == "*") {
            // *(vector*)(p + e) touches several elements: the root is known, the subscript is not.
            Expr inner = at->args[0];
            while (inner.kind == ExprKind::cast ||
                   (inner.kind == ExprKind::unary && inner.text == "&"))
                inner = Expr(inner.args[0]);
            if (inner.kind == ExprKind::index)
                inner = binary(Expr(inner.args[0]), "+", Expr(inner.args[1]));
            for_each_expression(inner, [&](const Expr& part) {
                if (part.kind == ExprKind::name && !env_.pointers.contains(part.text))
                    effects_.reads.insert(part.text);
            });
            if (const std::optional<LocalPointer> p = pointer_value(inner, env_))
                a.root = p->root;
            a.through = base_of(inner) != nullptr ? base_of(inner)->text : "";
            effects_.accesses.push_back(std::move(a));
            return;
        }
        if (base == nullptr) {
            unknown("an access that is not understood");
            effects_.accesses.push_back(std::move(a));
            return;
        }
        a.through = base->text;
        const std::optional<LocalPointer> pointer = pointer_value(*base, env_);
        if (!pointer) {
            effects_.accesses.push_back(std::move(a));
            return;
        }
        a.root = pointer->root;
        a.known = true;
        for (const Expr* subscript : subscripts) {
            const std::optional<Poly> p = poly_of(*subscript, env_);
            a.known = a.known && p.has_value();
            if (p)
                a.subscripts.push_back(*p);
        }
        if (a.known && subscripts.size() == 1)
            a.subscripts[0] = a.subscripts[0] + pointer->offset;
        else if (!pointer->offset.terms.empty())
            a.known = false;
        if (!a.known)
            a.subscripts.clear();
        effects_.accesses.push_back(std::move(a));
    }

    const Environment& env_;
    Effects& effects_;
};

}  // namespace

Effects effects_of(const std::vector<Stmt>& statements, const Environment& env) {
    Effects effects;
    Collector(env, effects).statements(statements);
    return effects;
}

Effects effects_of(const Expr& e, const Environment& env) {
    Effects effects;
    Collector(env, effects).read(e, 0);
    return effects;
}

// --- loops

bool is_size_test(const Expr& e) {
    if (e.kind != ExprKind::binary)
        return false;
    if (e.text == "&&")
        return is_size_test(e.args[0]) && is_size_test(e.args[1]);
    return e.text == ">=" && constant_value(e.args[1]).value_or(0) > 1;
}

namespace {

bool ends_with(const std::string& text, const std::string& end) {
    return text.size() >= end.size() &&
           text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void find_loops(std::vector<Stmt>& list, std::vector<Counted>& around, std::vector<Stmt*>& parents,
                bool minor, bool fallback, std::vector<LoopPlace>& out) {
    for (std::size_t i = 0; i < list.size(); ++i) {
        Stmt& s = list[i];
        const std::optional<Counted> head = counted(s);
        const bool is_loop = s.kind == StmtKind::loop || s.kind == StmtKind::loop_while ||
                             s.kind == StmtKind::loop_do;
        if (head) {
            LoopPlace place;
            place.list = &list;
            place.at = i;
            place.around = around;
            place.parents = parents;
            place.head = *head;
            const std::optional<long> low = constant_value(head->low);
            const std::optional<long> end = constant_value(head->bound);
            place.minor = minor || (low && end && *end - *low <= 16) ||
                          (head->low.kind == ExprKind::name && ends_with(head->low.text, "_main"));
            place.fallback = fallback;
            place.innermost = true;
            for_each_statement(s.body, [&](const Stmt& inner) {
                place.innermost = place.innermost && inner.kind != StmtKind::loop &&
                                  inner.kind != StmtKind::loop_while &&
                                  inner.kind != StmtKind::loop_do;
            });
            out.push_back(std::move(place));
            around.push_back(*head);
        }
        if (is_loop)
            parents.push_back(&s);
        const bool test = s.kind == StmtKind::branch && s.has_else && is_size_test(s.expr);
        find_loops(s.body, around, parents, minor, fallback, out);
        find_loops(s.orelse, around, parents, minor || test, fallback || test, out);
        if (is_loop)
            parents.pop_back();
        if (head)
            around.pop_back();
    }
}

}  // namespace

std::vector<LoopPlace> loops_of(Function& function) {
    std::vector<LoopPlace> out;
    std::vector<Counted> around;
    std::vector<Stmt*> parents;
    find_loops(function.body, around, parents, false, false, out);
    return out;
}

std::vector<Counted> loops_inside(const std::vector<Stmt>& statements) {
    std::vector<Counted> out;
    for_each_statement(statements, [&](const Stmt& s) {
        if (const std::optional<Counted> head = counted(s))
            out.push_back(*head);
    });
    return out;
}

namespace {

// Expressions that are never smaller than `e`: both sides of a minimum, x for x / f * f.
void upper_bounds(const Expr& e, const Environment& env, std::vector<Poly>& out, int depth = 0) {
    if (depth > 6)
        return;
    if (const std::optional<Poly> p = poly_of(e, env))
        out.push_back(*p);
    if (e.kind == ExprKind::name)
        if (const auto init = env.initial.find(e.text); init != env.initial.end())
            return upper_bounds(init->second, env, out, depth + 1);
    if (e.kind == ExprKind::call && e.args.size() == 3 &&
        (e.args[0].text == "std::min" || e.args[0].text.substr(0, 9) == "std::min<")) {
        upper_bounds(e.args[1], env, out, depth + 1);
        upper_bounds(e.args[2], env, out, depth + 1);
    }
    if (e.kind == ExprKind::conditional && e.args[0].kind == ExprKind::binary &&
        (e.args[0].text == "<" || e.args[0].text == "<=") && e.args[0].args[0] == e.args[1] &&
        e.args[0].args[1] == e.args[2]) {
        upper_bounds(e.args[1], env, out, depth + 1);
        upper_bounds(e.args[2], env, out, depth + 1);
    }
    if (e.kind == ExprKind::binary && e.text == "*" && e.args[0].kind == ExprKind::binary &&
        e.args[0].text == "/" && constant_value(e.args[1]) && e.args[0].args[1] == e.args[1])
        upper_bounds(e.args[0].args[0], env, out, depth + 1);
    if (e.kind == ExprKind::binary && e.text == "-" && e.args[1].kind == ExprKind::binary &&
        e.args[1].text == "%")
        upper_bounds(e.args[0], env, out, depth + 1);
    if (e.kind == ExprKind::binary && e.text == "+") {
        std::vector<Poly> left;
        std::vector<Poly> right;
        upper_bounds(e.args[0], env, left, depth + 1);
        upper_bounds(e.args[1], env, right, depth + 1);
        for (const Poly& a : left)
            for (const Poly& b : right)
                out.push_back(a + b);
    }
}

const Counted* loop_named(const std::vector<Counted>& all, const std::string& variable) {
    for (auto it = all.rbegin(); it != all.rend(); ++it)
        if (it->var == variable)
            return &*it;
    return nullptr;
}

}  // namespace

Range range_of(const Counted& loop, const std::vector<Counted>& all, const Environment& env) {
    Range range;
    std::optional<Poly> low = poly_of(loop.low, env);
    for (int round = 0; low && round < 4; ++round)
        for (const Counted& other : all) {
            const std::optional<Poly> stride = poly_stride(*low, other.var);
            if (!poly_mentions(*low, other.var))
                continue;
            const std::optional<Poly> from = poly_of(other.low, env);
            if (!stride || !poly_nonnegative(*stride) || !from || poly_mentions(*from, other.var)) {
                low.reset();
                break;
            }
            low = poly_replace(*low, other.var, *from);
        }
    range.low = low;
    std::vector<Poly> ends;
    upper_bounds(loop.bound, env, ends);
    for (Poly end : ends) {
        if (loop.inclusive)
            end = end + poly_constant(1);
        bool good = true;
        for (int round = 0; good && round < 4; ++round)
            for (const Counted& other : all) {
                if (!poly_mentions(end, other.var))
                    continue;
                const std::optional<Poly> stride = poly_stride(end, other.var);
                std::vector<Poly> theirs;
                upper_bounds(other.bound, env, theirs);
                if (!stride || !poly_nonnegative(*stride) || theirs.empty() ||
                    poly_mentions(theirs[0], other.var)) {
                    good = false;
                    break;
                }
                end = poly_replace(end, other.var,
                                   theirs[0] - poly_constant(other.inclusive ? 0 : 1));
            }
        for (const Counted& other : all)
            good = good && !poly_mentions(end, other.var);
        if (good)
            range.end.push_back(end);
    }
    return range;
}

bool injective(const std::vector<Poly>& subscripts, const std::vector<Counted>& loops,
               const Environment& env) {
    std::set<std::string> open;  // variables of loops not yet shown to be told apart
    for (const Counted& loop : loops)
        for (const Poly& p : subscripts)
            if (poly_mentions(p, loop.var))
                open.insert(loop.var);
    for (const Poly& p : subscripts) {
        struct Part {
            std::string variable;
            Poly stride;
            Range range;
        };
        std::vector<Part> parts;
        for (const std::string& variable : open) {
            if (!poly_mentions(p, variable))
                continue;
            const std::optional<Poly> stride = poly_stride(p, variable);
            if (!stride)
                return false;
            for (const Counted& other : loops)
                if (poly_mentions(*stride, other.var))
                    return false;
            Part part;
            part.variable = variable;
            part.stride = *stride;
            if (const Counted* loop = loop_named(loops, variable))
                part.range = range_of(*loop, loops, env);
            parts.push_back(std::move(part));
        }
        // From the smallest stride up: what the inner parts can reach stays below the next stride.
        std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
            auto degree = [](const Poly& q) {
                std::size_t most = 0;
                for (const auto& [key, unused] : q.terms)
                    most = std::max(most, key.size());
                return most;
            };
            if (degree(a.stride) != degree(b.stride))
                return degree(a.stride) < degree(b.stride);
            return std::abs(poly_number(a.stride).value_or(1)) <
                   std::abs(poly_number(b.stride).value_or(1));
        });
        std::vector<Poly> reach = {Poly()};  // candidates for the largest sum of the parts so far
        bool good = true;
        for (std::size_t k = 0; k < parts.size() && good; ++k) {
            if (!poly_nonnegative(parts[k].stride - poly_constant(1)))
                good = false;
            if (k > 0) {
                bool proven = false;
                for (const Poly& r : reach)
                    proven = proven || poly_nonnegative(parts[k].stride - r - poly_constant(1));
                good = good && proven;
            }
            std::vector<Poly> next;
            if (k + 1 < parts.size()) {
                const std::optional<Poly>& low = parts[k].range.low;
                if (!low) {
                    good = false;
                    break;
                }
                for (const Poly& end : parts[k].range.end)
                    for (const Poly& r : reach)
                        if (next.size() < 16)
                            next.push_back(r + parts[k].stride * (end - *low - poly_constant(1)));
            }
            reach = std::move(next);
        }
        if (good)
            for (const Part& part : parts)
                open.erase(part.variable);
    }
    return open.empty();
}

namespace {

// Every root that is written is accessed with one and the same subscript only, which is returned
// per root.
bool one_subscript_each(const Effects& effects, const Environment& env,
                        const std::set<std::string>& local,
                        std::map<std::string, std::vector<Poly>>& subscripts, std::string& why) {
    if (effects.unknown) {
        why = effects.why;
        return false;
    }
    if (effects.jumps) {
        why = "the body jumps out of its order";
        return false;
    }
    (void)env;
    for (const Access& w : effects.accesses) {
        if (!w.write || local.contains(w.root))
            continue;
        if (!w.known) {
            why = fmt::format("the place written through {} is not known",
                              w.through.empty() ? "a pointer" : w.through);
            return false;
        }
        for (const Access& other : effects.accesses) {
            if (other.root != w.root && !other.root.empty())
                continue;
            if (!other.known || other.subscripts != w.subscripts) {
                why = fmt::format("{} is written in one place and used in another", w.root);
                return false;
            }
        }
        subscripts[w.root] = w.subscripts;
    }
    return true;
}

std::set<std::string> local_arrays(const Effects& effects, const Environment& env) {
    std::set<std::string> local;
    for (const std::string& variable : effects.declares)
        if (env.arrays.contains(variable))
            local.insert(variable);
    return local;
}

}  // namespace

bool parallel(const Counted& loop, const std::vector<Stmt>& body,
              const std::vector<Counted>& around, const Environment& env, std::string& why) {
    const Effects effects = effects_of(body, env);
    std::map<std::string, std::vector<Poly>> subscripts;
    const std::set<std::string> local = local_arrays(effects, env);
    if (!one_subscript_each(effects, env, local, subscripts, why))
        return false;
    for (const std::string& scalar : effects.writes)
        if (!effects.declares.contains(scalar)) {
            why = fmt::format("{} carries a value from one iteration of {} to the next", scalar,
                              loop.var);
            return false;
        }
    std::vector<Counted> loops = around;
    loops.push_back(loop);
    for (const Counted& inner : loops_inside(body))
        loops.push_back(inner);
    for (const auto& [root, places] : subscripts) {
        const bool moves = std::any_of(places.begin(), places.end(),
                                       [&](const Poly& p) { return poly_mentions(p, loop.var); });
        if (!moves) {
            why =
                fmt::format("every iteration of {} writes the same element of {}", loop.var, root);
            return false;
        }
        if (!injective(places, loops, env)) {
            why = fmt::format("two iterations of {} may write the same element of {}", loop.var,
                              root);
            return false;
        }
    }
    return true;
}

bool permutable(const Counted& outer, const Counted& inner, const std::vector<Stmt>& body,
                const std::vector<Counted>& around, const Environment& env, std::string& why) {
    if (mentions(inner.low, outer.var) || mentions(inner.bound, outer.var)) {
        why = fmt::format("the bounds of {} depend on {}", inner.var, outer.var);
        return false;
    }
    const Effects effects = effects_of(body, env);
    std::map<std::string, std::vector<Poly>> subscripts;
    if (!one_subscript_each(effects, env, local_arrays(effects, env), subscripts, why))
        return false;
    for (const std::string& scalar : effects.writes)
        if (!effects.declares.contains(scalar)) {
            const std::set<std::string>& ops = effects.writes_by.at(scalar);
            if (ops.size() != 1 ||
                (*ops.begin() != "+=" && *ops.begin() != "-=" && *ops.begin() != "*=")) {
                why = fmt::format("{} carries a value from one iteration to the next", scalar);
                return false;
            }
        }
    std::vector<Counted> loops = around;
    loops.push_back(outer);
    loops.push_back(inner);
    for (const Counted& deeper : loops_inside(body))
        loops.push_back(deeper);
    for (const auto& [root, places] : subscripts) {
        auto moves = [&](const std::string& variable) {
            return std::any_of(places.begin(), places.end(),
                               [&](const Poly& p) { return poly_mentions(p, variable); });
        };
        if (!injective(places, loops, env)) {
            why = fmt::format("different iterations may write the same element of {}", root);
            return false;
        }
        if (moves(outer.var) || moves(inner.var))
            continue;
        for (const Access& a : effects.accesses)
            if (a.root == root && a.write && a.update != "+=" && a.update != "-=" &&
                a.update != "*=") {
                why = fmt::format("the last value written to {} would be another", root);
                return false;
            }
    }
    return true;
}

namespace {

std::set<std::string> names_used(const Function& function) {
    std::set<std::string> used = function.types;
    for (const Parameter& p : function.parameters)
        used.insert(p.name);
    for_each_statement(function.body, [&](const Stmt& s) {
        for (const Declarator& d : s.declarators)
            used.insert(d.name);
    });
    for_each_top_expression(function.body, [&](const Expr& top) {
        for_each_expression(top, [&](const Expr& e) {
            if (e.kind == ExprKind::name)
                used.insert(e.text);
        });
    });
    return used;
}

}  // namespace

std::string fresh_base(const Function& function, const std::string& wish, bool itself) {
    const std::set<std::string> used = names_used(function);
    std::string candidate = wish;
    for (int i = 2;; ++i) {
        const std::string prefix = candidate + "_";
        const auto next = used.lower_bound(prefix);
        const bool continued = next != used.end() && next->compare(0, prefix.size(), prefix) == 0;
        if (!continued && (!used.contains(candidate) || (!itself && i == 2)))
            return candidate;
        candidate = fmt::format("{}{}", wish, i);
    }
}

std::string fresh(const Function& function, const std::string& wish,
                  const std::set<std::string>& taken) {
    std::set<std::string> used = names_used(function);
    used.insert(taken.begin(), taken.end());
    std::string candidate = wish;
    for (int i = 2; used.contains(candidate); ++i)
        candidate = fmt::format("{}_{}", wish, i);
    return candidate;
}

}  // namespace loopscope::rules
