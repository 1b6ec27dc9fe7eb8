#include "llm/rules_repair.h"

#include "core/result.h"
#include "llm/rules_depend.h"
#include "llm/rules_syntax.h"
#include "program/edit.h"
#include "program/token.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace loopscope::rules {
namespace {

Outcome refuse(std::string why) {
    Outcome out;
    out.why = std::move(why);
    return out;
}

Outcome done(Function f) {
    Outcome out;
    out.function = std::move(f);
    return out;
}

// The statement of a counting loop: by line if given, else the innermost one over the variable.
std::optional<LoopPlace> place_of(Function& f, const LoopName& wanted) {
    std::optional<LoopPlace> found;
    for (LoopPlace& place : loops_of(f))
        if (place.head.var == wanted.var && (wanted.line == 0 || place.loop().line == wanted.line))
            if (!found || place.parents.size() > found->parents.size())
                found = place;
    return found;
}

Outcome no_loop(const LoopName& wanted) {
    return refuse(fmt::format("there is no counting loop over {}", wanted.var));
}

void set_head(const LoopPlace& place, const Counted& head) {
    Stmt loop = counting_loop(head, place.loop().body);
    loop.line = place.loop().line;
    place.loop() = std::move(loop);
}

}  // namespace

Outcome strict_bound(const Function& original, const LoopName& wanted) {
    Function f = original;
    const std::optional<LoopPlace> place = place_of(f, wanted);
    if (!place)
        return no_loop(wanted);
    Counted head = place->head;
    if (!head.inclusive)
        return refuse(fmt::format("the bound of {} is strict already", wanted.var));
    head.inclusive = false;
    set_head(*place, head);
    return done(std::move(f));
}

Outcome longer_loop(const Function& original, const LoopName& wanted) {
    Function f = original;
    const std::optional<LoopPlace> place = place_of(f, wanted);
    if (!place)
        return no_loop(wanted);
    Counted head = place->head;
    if (head.inclusive)
        return refuse(fmt::format("the bound of {} is inclusive", wanted.var));
    head.bound = sum(head.bound, number(1));
    set_head(*place, head);
    return done(std::move(f));
}

Outcome shorter_loop(const Function& original, const LoopName& wanted) {
    Function f = original;
    const std::optional<LoopPlace> place = place_of(f, wanted);
    if (!place)
        return no_loop(wanted);
    Counted head = place->head;
    if (head.inclusive)
        head.inclusive = false;
    else
        head.bound = difference(head.bound, number(1));
    set_head(*place, head);
    return done(std::move(f));
}

Outcome later_start(const Function& original, const LoopName& wanted) {
    Function f = original;
    const std::optional<LoopPlace> place = place_of(f, wanted);
    if (!place)
        return no_loop(wanted);
    Counted head = place->head;
    head.low = sum(head.low, number(head.step));
    set_head(*place, head);
    return done(std::move(f));
}

std::set<std::string> never_set(const Function& f) {
    const Environment env = environment_of(f);
    std::set<std::string> updated;
    std::set<std::string> set;
    for_each_statement(f.body, [&](const Stmt& s) {
        if (s.kind == StmtKind::declaration)
            for (const Declarator& d : s.declarators) {
                if (d.init)
                    set.insert(d.name);
            }
        for_each_expression(s.expr, [&](const Expr& e) {
            if (e.kind != ExprKind::assign)
                return;
            const Expr* base = &e.args[0];
            while (base->kind == ExprKind::index)
                base = &base->args[0];
            if (base->kind != ExprKind::name)
                return;
            std::string variable = base->text;
            if (const auto alias = env.aliases.find(variable); alias != env.aliases.end())
                variable = alias->second.root;
            (e.text == "=" ? set : updated).insert(variable);
        });
    });
    std::set<std::string> out;
    for (const std::string& variable : updated)
        if (!set.contains(variable))
            out.insert(variable);
    return out;
}

Outcome initialise(const Function& original, const std::string& variable) {
    Function f = original;
    const Environment env = environment_of(f);
    const std::string type = element_type(env, variable);
    const Expr zero = literal(type == "float" ? "0.0f" : type == "double" ? "0.0" : "0");
    // A local scalar: at its declaration.
    bool found = false;
    for_each_statement(f.body, [&](Stmt& s) {
        for (Declarator& d : s.declarators)
            if (d.name == variable && !d.init && d.dimensions.empty() && !found) {
                d.init = zero;
                found = true;
            }
    });
    if (found)
        return done(std::move(f));
    // An array: before the outermost loop that does not move its element.
    for (const LoopPlace& place : loops_of(f)) {
        std::optional<Expr> element;
        for_each_top_expression(place.loop().body, [&](const Expr& top) {
            for_each_expression(top, [&](const Expr& e) {
                if (e.kind != ExprKind::assign || e.text == "=" ||
                    e.args[0].kind != ExprKind::index || element)
                    return;
                const Effects of = effects_of(e.args[0], env);
                for (const Access& a : of.accesses)
                    if (a.root == variable)
                        element = e.args[0];
            });
        });
        if (!element)
            continue;
        // Loops from here down whose variables the element mentions need an initialising loop each;
        // the first that it does not mention is the sum.
        std::vector<Counted> moving;
        LoopPlace at = place;
        bool sums = !mentions(*element, place.head.var);
        if (!sums) {
            // When everything down to the sum is mentioned, descend; else initialise here with
            // loops of its own.
            std::vector<Counted> inner = loops_inside(place.loop().body);
            const bool direct =
                std::any_of(place.loop().body.begin(), place.loop().body.end(), [&](const Stmt& s) {
                    const std::optional<Counted> head = counted(s);
                    return head && !mentions(*element, head->var) && loops_inside(s.body).empty();
                });
            if (direct) {
                std::vector<Stmt>& body = place.loop().body;
                for (std::size_t k = 0; k < body.size(); ++k)
                    if (counted(body[k])) {
                        body.insert(body.begin() + static_cast<std::ptrdiff_t>(k),
                                    statement(assign(*element, "=", zero)));
                        return done(std::move(f));
                    }
            }
            continue;
        }
        for (const Counted& c : loops_inside(place.loop().body))
            if (mentions(*element, c.var))
                moving.push_back(c);
        std::vector<Stmt> set = {statement(assign(*element, "=", zero))};
        for (auto it = moving.rbegin(); it != moving.rend(); ++it)
            set = {counting_loop(*it, std::move(set))};
        at.list->insert(at.list->begin() + static_cast<std::ptrdiff_t>(at.at), set.begin(),
                        set.end());
        return done(std::move(f));
    }
    return refuse(fmt::format("{} is not accumulated in a loop", variable));
}

namespace {

// x * n + y with two loop variables: the expression with x and y exchanged.
std::optional<Expr> transposed(const Expr& subscript, const Environment& env) {
    if (subscript.kind != ExprKind::binary || subscript.text != "+" ||
        subscript.args[0].kind != ExprKind::binary || subscript.args[0].text != "*")
        return std::nullopt;
    const Expr& x = subscript.args[0].args[0];
    const Expr& y = subscript.args[1];
    auto variable = [&](const Expr& e) {
        return e.kind == ExprKind::name && env.loop_variables.contains(e.text);
    };
    if (!variable(x) || !variable(y))
        return std::nullopt;
    return binary(binary(y, "*", subscript.args[0].args[1]), "+", x);
}

}  // namespace

std::set<std::string> transposable(const Function& f) {
    const Environment env = environment_of(f);
    std::set<std::string> out;
    for_each_top_expression(f.body, [&](const Expr& top) {
        for_each_expression(top, [&](const Expr& e) {
            if (e.kind == ExprKind::index && e.args[0].kind == ExprKind::name &&
                transposed(e.args[1], env))
                out.insert(e.args[0].text);
        });
    });
    return out;
}

Outcome transpose_subscript(const Function& original, const std::string& array) {
    Function f = original;
    const Environment env = environment_of(f);
    int changed = 0;
    for_each_top_expression(f.body, [&](Expr& top) {
        for_each_expression(top, [&](Expr& e) {
            if (e.kind != ExprKind::index || !(e.args[0] == name(array)))
                return;
            if (const std::optional<Expr> t = transposed(e.args[1], env)) {
                e.args[1] = *t;
                ++changed;
            }
        });
    });
    if (changed == 0)
        return refuse(fmt::format("{} is not used with two loop variables", array));
    return done(std::move(f));
}

Outcome swap_differences(const Function& original, const LoopName& wanted) {
    Function f = original;
    const std::optional<LoopPlace> place = place_of(f, wanted);
    if (!place)
        return no_loop(wanted);
    int changed = 0;
    for_each_top_expression(place->loop().body, [&](Expr& top) {
        for_each_expression(top, [&](Expr& e) {
            const bool elements =
                e.kind == ExprKind::binary && e.text == "-" && e.args[0].kind == ExprKind::index &&
                e.args[1].kind == ExprKind::index && e.args[0].args[0] == e.args[1].args[0];
            if (elements) {
                std::swap(e.args[0], e.args[1]);
                ++changed;
            }
        });
    });
    if (changed == 0)
        return refuse(fmt::format("loop {} takes no difference of two elements", wanted.var));
    return done(std::move(f));
}

Outcome add_tail(const Function& original, const LoopName& wanted) {
    Function f = original;
    // k + 4 <= n; k += 4 is no counting loop in our sense: looked for by hand.
    std::string why =
        fmt::format("loop {} is not unrolled, or has its remaining iterations", wanted.var);
    bool found = false;
    auto visit = [&](auto&& self, std::vector<Stmt>& list) -> void {
        for (std::size_t i = 0; i < list.size() && !found; ++i) {
            Stmt& s = list[i];
            self(self, s.body);
            self(self, s.orelse);
            if (found || s.kind != StmtKind::loop || s.init.size() != 1 ||
                s.init[0].kind != StmtKind::declaration || s.init[0].declarators.size() != 1 ||
                s.init[0].declarators[0].name != wanted.var || !s.init[0].declarators[0].init)
                continue;
            if (s.step.kind != ExprKind::assign || s.step.text != "+=" ||
                !(s.step.args[0] == name(wanted.var)))
                continue;
            const std::optional<long> by = constant_value(s.step.args[1]);
            if (!by || *by < 2 || s.expr.kind != ExprKind::binary)
                continue;
            // var + (by) <= end, var + (by - 1) < end, or var < end - (by - 1).
            std::optional<Expr> end;
            const Expr& left = s.expr.args[0];
            const Expr& right = s.expr.args[1];
            const bool offset = left.kind == ExprKind::binary && left.text == "+" &&
                                left.args[0] == name(wanted.var);
            const long reach = s.expr.text == "<" ? *by - 1 : *by;
            const bool ordered = s.expr.text == "<" || s.expr.text == "<=";
            const bool shortened = left == name(wanted.var) && right.kind == ExprKind::binary &&
                                   right.text == "-" && constant_value(right.args[1]) == reach;
            if (ordered && offset && constant_value(left.args[1]) == reach)
                end = right;
            else if (ordered && shortened)
                end = right.args[0];
            if (!end)
                continue;
            bool has_tail = false;
            for (std::size_t k = i + 1; k < list.size(); ++k)
                if (list[k].kind == StmtKind::loop && list[k].expr.kind == ExprKind::binary &&
                    list[k].expr.args[1] == *end)
                    has_tail = true;
            std::vector<Stmt> body;
            for (const Stmt& inner : s.body)
                if (inner.kind != StmtKind::comment && inner.kind != StmtKind::directive)
                    body.push_back(inner);
            const auto copies = static_cast<std::size_t>(*by);
            if (has_tail || body.empty() || body.size() % copies != 0)
                continue;
            body.resize(body.size() / copies);  // the statements of the first copy
            const Expr low = *s.init[0].declarators[0].init;
            const bool zero = constant_value(low) == 0;
            const Expr span = zero ? *end : difference(*end, low);
            const Expr whole = binary(binary(span, "/", number(*by)), "*", number(*by));
            Counted rest;
            rest.type = s.init[0].text;
            rest.var = wanted.var;
            rest.low = zero ? whole : binary(low, "+", whole);
            rest.bound = *end;
            list.insert(list.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                        counting_loop(rest, std::move(body)));
            found = true;
        }
    };
    visit(visit, f.body);
    return found ? done(std::move(f)) : refuse(why);
}

std::string rename_in(std::string_view source, const std::string& function,
                      const std::string& wrong, const std::string& right) {
    std::size_t begin = 0;
    std::size_t end = source.size();
    if (const Result<FunctionSpan> span = find_function(source, function)) {
        begin = span->begin;
        end = span->end;
    }
    std::string out;
    std::size_t copied = 0;
    for (const Token& token : code_tokens(source)) {
        if (token.kind != TokenKind::identifier || token.text != wrong || token.offset < begin ||
            token.offset >= end)
            continue;
        out += source.substr(copied, token.offset - copied);
        out += right;
        copied = token.offset + token.text.size();
    }
    return out + std::string(source.substr(copied));
}

std::vector<std::string> names_declared(std::string_view source, const std::string& function) {
    std::vector<std::string> out;
    if (const Result<Function> f = parse_function(source, function)) {
        const Environment env = environment_of(*f);
        for (const Parameter& p : f->parameters)
            out.push_back(p.name);
        for (const auto& [variable, type] : env.types)
            if (std::find(out.begin(), out.end(), variable) == out.end())
                out.push_back(variable);
    }
    return out;
}

std::string insert_at(std::string_view source, int line, int column, std::string_view text) {
    std::size_t at = 0;
    for (int i = 1; i < line && at != std::string_view::npos; ++i) {
        at = source.find('\n', at);
        at = at == std::string_view::npos ? at : at + 1;
    }
    if (at == std::string_view::npos)
        at = source.size();
    const std::size_t end = std::min(source.find('\n', at), source.size());
    at = std::min(at + static_cast<std::size_t>(std::max(column, 1) - 1), end);
    // Behind the code before it, also when the compiler points at the next line's first token.
    while (at > 0 && (source[at - 1] == ' ' || source[at - 1] == '\n' || source[at - 1] == '\t' ||
                      source[at - 1] == '\r'))
        --at;
    return std::string(source.substr(0, at)) + std::string(text) + std::string(source.substr(at));
}

std::string header_of(std::string_view wanted) {
    if (wanted.substr(0, 5) == "std::")
        wanted = wanted.substr(5);
    static const std::map<std::string, std::string, std::less<>> headers = {
        {"min", "<algorithm>"},        {"max", "<algorithm>"},
        {"fill", "<algorithm>"},       {"fill_n", "<algorithm>"},
        {"swap", "<utility>"},         {"vector", "<vector>"},
        {"array", "<array>"},          {"unique_ptr", "<memory>"},
        {"size_t", "<cstddef>"},       {"ptrdiff_t", "<cstddef>"},
        {"memset", "<cstring>"},       {"memcpy", "<cstring>"},
        {"malloc", "<cstdlib>"},       {"free", "<cstdlib>"},
        {"int32_t", "<cstdint>"},      {"int64_t", "<cstdint>"},
        {"uint32_t", "<cstdint>"},     {"uint64_t", "<cstdint>"},
        {"uint8_t", "<cstdint>"},      {"abs", "<cmath>"},
        {"isfinite", "<cmath>"},       {"INFINITY", "<cmath>"},
        {"numeric_limits", "<limits>"}};
    if (const auto found = headers.find(wanted); found != headers.end())
        return found->second;
    const bool letters = std::all_of(wanted.begin(), wanted.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    });
    return letters && wanted != "float" && wanted != "int" && wanted != "double" &&
                   is_pure(std::string(wanted))
               ? "<cmath>"
               : "";
}

}  // namespace loopscope::rules
