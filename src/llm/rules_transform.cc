#include "llm/rules_transform.h"

#include "llm/rules_depend.h"
#include "llm/rules_syntax.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace loopscope::rules {
namespace {

Outcome refuse(std::string why) {
    Outcome out;
    out.why = std::move(why);
    return out;
}

bool is_loop(const Stmt& s) {
    return s.kind == StmtKind::loop || s.kind == StmtKind::loop_while ||
           s.kind == StmtKind::loop_do;
}

bool is_loop_pragma(const Stmt& s) {
    if (s.kind != StmtKind::directive || s.text.find("pragma") == std::string::npos)
        return false;
    for (const char* word : {"clang loop", "omp simd", "unroll", "ivdep", "omp parallel for"})
        if (s.text.find(word) != std::string::npos)
            return true;
    return false;
}

// A pragma for a loop stands directly before one: it follows its loop behind new declarations, or
// goes.
void settle_pragmas(std::vector<Stmt>& list) {
    for (Stmt& s : list) {
        settle_pragmas(s.body);
        settle_pragmas(s.orelse);
    }
    std::vector<Stmt> out;
    std::vector<Stmt> waiting;
    for (Stmt& s : list) {
        if (is_loop_pragma(s)) {
            waiting.push_back(std::move(s));
            continue;
        }
        const bool loop = is_loop(s);
        if (loop)
            std::move(waiting.begin(), waiting.end(), std::back_inserter(out));
        if (loop || (s.kind != StmtKind::declaration && s.kind != StmtKind::expression &&
                     s.kind != StmtKind::comment))
            waiting.clear();
        out.push_back(std::move(s));
    }
    list = std::move(out);
}

Outcome done(Function f) {
    settle_pragmas(f.body);
    Outcome out;
    out.function = std::move(f);
    return out;
}

bool is_code(const Stmt& s) { return s.kind != StmtKind::comment && s.kind != StmtKind::directive; }

std::vector<Stmt> code_of(const std::vector<Stmt>& body) {
    std::vector<Stmt> out;
    for (const Stmt& s : body)
        if (is_code(s))
            out.push_back(s);
    return out;
}

// The only loop of a perfect nest's body.
std::optional<Counted> only_loop(const std::vector<Stmt>& body, const Stmt** where = nullptr) {
    const Stmt* found = nullptr;
    for (const Stmt& s : body) {
        if (!is_code(s))
            continue;
        if (found != nullptr)
            return std::nullopt;
        found = &s;
    }
    if (found == nullptr)
        return std::nullopt;
    if (where != nullptr)
        *where = found;
    return counted(*found);
}

bool fits(const LoopPlace& place, const LoopName& wanted) {
    return place.head.var == wanted.var && (wanted.line == 0 || place.loop().line == wanted.line);
}

// Of several loops over the variable the one that does most of the work: the deepest, then the
// longest.
std::optional<LoopPlace> find_loop(Function& f, const LoopName& wanted) {
    std::optional<LoopPlace> found;
    std::size_t depth = 0;
    std::size_t length = 0;
    for (LoopPlace& place : loops_of(f)) {
        if (!fits(place, wanted))
            continue;
        const std::size_t size = print(place.loop().body).size();
        if (found &&
            (place.parents.size() < depth || (place.parents.size() == depth && size <= length)))
            continue;
        depth = place.parents.size();
        length = size;
        found = place;
    }
    return found;
}

std::string no_loop(const LoopName& wanted) {
    return fmt::format("there is no counting loop over {}{}", wanted.var,
                       wanted.line > 0 ? fmt::format(" in line {}", wanted.line) : "");
}

void replace_at(const LoopPlace& place, std::vector<Stmt> with) {
    std::vector<Stmt>& list = *place.list;
    const auto at = list.begin() + static_cast<std::ptrdiff_t>(place.at);
    const auto next = list.erase(at);
    list.insert(next, std::make_move_iterator(with.begin()), std::make_move_iterator(with.end()));
}

// One past the last value of the variable.
Expr end_of(const Counted& loop) {
    return loop.inclusive ? sum(loop.bound, number(1)) : loop.bound;
}

bool is_zero(const Expr& e) {
    if (e.kind != ExprKind::literal)
        return false;
    return e.text.find_first_not_of("0.fF") == std::string::npos && !e.text.empty();
}

bool writes(const std::vector<Stmt>& statements, const std::string& variable,
            const Environment& env) {
    return effects_of(statements, env).writes.contains(variable);
}

// `e` may be evaluated outside of the statements: they change nothing that it reads.
bool invariant(const Expr& e, const std::vector<Stmt>& statements, const std::string& variable,
               const Environment& env) {
    if (mentions(e, variable))
        return false;
    const Effects mine = effects_of(e, env);
    const Effects theirs = effects_of(statements, env);
    if (mine.unknown || theirs.unknown || !mine.writes.empty())
        return false;
    for (const std::string& scalar : mine.reads)
        if (theirs.writes.contains(scalar) || theirs.declares.contains(scalar))
            return false;
    for (const Access& a : mine.accesses)
        if (a.write || theirs.writes_root(a.root))
            return false;
    return true;
}

// --- accumulations

// for u { init; for v { target += term }; store } with the sum in a scalar or in memory.
struct Accumulation {
    std::vector<Stmt> init;  // target = value, to be run over u on its own
    Stmt loop;               // the loop over v, accumulating in memory
    Counted inner;
};

// The accumulation that the body of `place` is, with every target in memory.
std::optional<Accumulation> accumulation_in(const LoopPlace& place, const Environment& env,
                                            std::string& why) {
    Accumulation a;
    std::map<std::string, Expr> scalars;       // accumulator -> initial value
    std::map<std::string, Expr> targets;       // accumulator -> element
    std::map<std::string, std::string> store;  // accumulator -> "=" or "+="
    bool seen_loop = false;
    for (const Stmt& s : code_of(place.loop().body)) {
        if (const std::optional<Counted> head = counted(s); head && !seen_loop) {
            seen_loop = true;
            a.loop = s;
            a.inner = *head;
        } else if (!seen_loop && s.kind == StmtKind::declaration) {
            for (const Declarator& d : s.declarators) {
                if (!d.init || !d.dimensions.empty() || !d.pointers.empty()) {
                    why = fmt::format("{} is no plain sum", d.name);
                    return std::nullopt;
                }
                scalars.emplace(d.name, *d.init);
            }
        } else if (s.kind == StmtKind::expression && s.expr.kind == ExprKind::assign &&
                   s.expr.args[0].kind == ExprKind::index) {
            const Expr& value = s.expr.args[1];
            if (!seen_loop && s.expr.text == "=") {
                a.init.push_back(s);
            } else if (seen_loop && value.kind == ExprKind::name && scalars.contains(value.text) &&
                       !targets.contains(value.text) &&
                       (s.expr.text == "=" || s.expr.text == "+=")) {
                targets.emplace(value.text, s.expr.args[0]);
                store[value.text] = s.expr.text;
            } else {
                why = "what follows the inner loop is more than a store of the sum";
                return std::nullopt;
            }
        } else {
            why =
                "the loops are not nested closely enough: there are other statements between them";
            return std::nullopt;
        }
    }
    if (!seen_loop) {
        why = "there is no loop inside it";
        return std::nullopt;
    }
    for (const auto& [scalar, init] : scalars) {
        if (!targets.contains(scalar)) {
            why = fmt::format("{} is not stored after the loop", scalar);
            return std::nullopt;
        }
        const Expr& element = targets.at(scalar);
        // In the inner loop the scalar may only be added to.
        bool plain = true;
        int updates = 0;
        int uses = 0;
        for_each_statement(a.loop.body, [&](Stmt& s) {
            Expr& e = s.expr;
            if (s.kind == StmtKind::expression && e.kind == ExprKind::assign &&
                e.args[0] == name(scalar)) {
                ++updates;
                plain = plain && (e.text == "+=" || e.text == "-=");
            }
        });
        for_each_top_expression(a.loop.body, [&](const Expr& top) {
            for_each_expression(top, [&](const Expr& e) { uses += e == name(scalar) ? 1 : 0; });
        });
        if (!plain || uses != updates) {
            why = fmt::format("{} is used for more than adding up", scalar);
            return std::nullopt;
        }
        a.loop.body = substitute(a.loop.body, scalar, element);
        if (store[scalar] == "=")
            a.init.push_back(statement(assign(element, "=", init)));
        else if (!is_zero(init))
            a.init.push_back(statement(assign(element, "+=", init)));
    }
    (void)env;
    return a;
}

}  // namespace

Outcome split_initialisation(const Function& original, const LoopName& wanted, bool checked) {
    Function f = original;
    std::string why = no_loop(wanted);
    const Environment env = environment_of(f);
    for (const LoopPlace& place : loops_of(f)) {
        if (!fits(place, wanted))
            continue;
        const std::optional<Accumulation> a = accumulation_in(place, env, why);
        if (!a)
            continue;
        if (a->init.empty()) {
            why = "nothing to split off";
            continue;
        }
        if (checked && !parallel(place.head, place.loop().body, place.around, env, why))
            continue;
        if (checked && !parallel(place.head, {a->loop}, place.around, env, why))
            continue;
        const int line = place.loop().line;
        Stmt first = counting_loop(place.head, a->init);
        Stmt second = counting_loop(place.head, {a->loop});
        second.line = line;
        replace_at(place, {std::move(first), std::move(second)});
        return done(std::move(f));
    }
    return refuse(why);
}

Outcome interchange(const Function& original, const LoopName& outer, const LoopName& inner,
                    bool split, bool checked) {
    Function f = original;
    std::string why = no_loop(outer);
    const Environment env = environment_of(f);
    for (const LoopPlace& place : loops_of(f)) {
        if (!fits(place, outer))
            continue;
        const Stmt* nested = nullptr;
        const std::optional<Counted> only = only_loop(place.loop().body, &nested);
        if (only && only->var == inner.var) {
            if (mentions(only->low, outer.var) || mentions(only->bound, outer.var)) {
                why = fmt::format("the bounds of {} depend on {}", inner.var, outer.var);
                continue;
            }
            if (checked && !permutable(place.head, *only, nested->body, place.around, env, why))
                continue;
            Stmt inside = counting_loop(place.head, nested->body);
            Stmt outside = counting_loop(*only, {std::move(inside)});
            replace_at(place, {std::move(outside)});
            return done(std::move(f));
        }
        if (split) {
            const std::optional<Accumulation> a = accumulation_in(place, env, why);
            if (!a || a->inner.var != inner.var)
                continue;
            if (mentions(a->inner.low, outer.var) || mentions(a->inner.bound, outer.var)) {
                why = fmt::format("the bounds of {} depend on {}", inner.var, outer.var);
                continue;
            }
            if (checked &&
                (!parallel(place.head, place.loop().body, place.around, env, why) ||
                 !permutable(place.head, a->inner, a->loop.body, place.around, env, why)))
                continue;
            std::vector<Stmt> out;
            if (!a->init.empty())
                out.push_back(counting_loop(place.head, a->init));
            Stmt inside = counting_loop(place.head, a->loop.body);
            out.push_back(counting_loop(a->inner, {std::move(inside)}));
            replace_at(place, std::move(out));
            return done(std::move(f));
        }
        if (checked) {
            why = "the loops are not nested closely: split off the initialisation first";
            continue;
        }
        // As told, without a look at what stands between the loops.
        Stmt& loop = place.loop();
        for (Stmt& s : loop.body)
            if (const std::optional<Counted> head = counted(s); head && head->var == inner.var) {
                if (mentions(head->low, outer.var) || mentions(head->bound, outer.var))
                    continue;
                s = counting_loop(place.head, s.body);
                loop = counting_loop(*head, loop.body);
                return done(std::move(f));
            }
    }
    return refuse(why);
}

Outcome tile(const Function& original, const std::vector<LoopName>& wanted, long size,
             bool checked) {
    Function f = original;
    if (wanted.empty() || size < 2)
        return refuse("tiling needs loops and a size of at least 2");
    const Environment env = environment_of(f);
    std::string why = no_loop(wanted[0]);
    for (const LoopPlace& place : loops_of(f)) {
        if (!fits(place, wanted[0]))
            continue;
        // The nest from here inwards.
        std::vector<Counted> band = {place.head};
        std::vector<const Stmt*> loops = {&place.loop()};
        for (;;) {
            const Stmt* next = nullptr;
            std::optional<Counted> head = only_loop(loops.back()->body, &next);
            if (!head && !checked)
                for (const Stmt& s : loops.back()->body)
                    if (!head && counted(s)) {
                        head = counted(s);
                        next = &s;
                    }
            if (!head)
                break;
            band.push_back(*head);
            loops.push_back(next);
        }
        std::vector<std::size_t> tiled;
        for (const LoopName& w : wanted)
            for (std::size_t k = 0; k < band.size(); ++k)
                if (band[k].var == w.var && std::find(tiled.begin(), tiled.end(), k) == tiled.end())
                    tiled.push_back(k);
        if (tiled.size() != wanted.size()) {
            why =
                "these loops do not form one close nest: split off what stands between them first";
            continue;
        }
        std::sort(tiled.begin(), tiled.end());
        bool good = true;
        for (const std::size_t k : tiled) {
            const bool is_tile =
                band[k].low.kind == ExprKind::name && !env.parameters.contains(band[k].low.text);
            if (band[k].step != 1 || (is_tile && mentions(band[k].bound, band[k].low.text))) {
                why = fmt::format("loop {} is tiled or unrolled already", band[k].var);
                good = false;
            }
            // A tile loop moves outside of the whole nest, where the outer variables do not exist.
            for (std::size_t o = 0; o < band.size() && good; ++o)
                if (o != k &&
                    (mentions(band[k].low, band[o].var) || mentions(band[k].bound, band[o].var))) {
                    why = fmt::format("the bounds of {} depend on {}", band[k].var, band[o].var);
                    good = false;
                }
        }
        if (good && checked) {
            const std::vector<Stmt>& body = loops.back()->body;
            for (std::size_t a = 0; a < band.size() && good; ++a)
                for (std::size_t b = a + 1; b < band.size() && good; ++b) {
                    std::vector<Counted> around = place.around;
                    for (std::size_t c = 0; c < band.size(); ++c)
                        if (c != a && c != b)
                            around.push_back(band[c]);
                    good = permutable(band[a], band[b], body, around, env, why);
                }
        }
        if (!good)
            continue;
        Stmt nest = place.loop();
        std::vector<Counted> outside;
        std::set<std::string> taken;
        for (const std::size_t k : tiled) {
            Counted tiles = band[k];
            tiles.var = fresh(f, band[k].var + "_tile", taken);
            taken.insert(tiles.var);
            tiles.bound = end_of(band[k]);
            tiles.inclusive = false;
            tiles.step = size;
            Counted points = band[k];
            points.low = name(tiles.var);
            points.inclusive = false;
            points.bound =
                call(fmt::format("std::min<{}>", points.type == "auto" ? "int" : points.type),
                     {sum(name(tiles.var), number(size)), tiles.bound});
            // Replace the head of the k-th loop of the nest.
            Stmt* at = &nest;
            for (std::size_t level = 0; level < k; ++level)
                for (Stmt& s : at->body)
                    if (counted(s)) {
                        at = &s;
                        break;
                    }
            std::vector<Stmt> body = std::move(at->body);
            const int line = at->line;
            *at = counting_loop(points, std::move(body));
            at->line = line;
            outside.push_back(std::move(tiles));
        }
        for (auto it = outside.rbegin(); it != outside.rend(); ++it)
            nest = counting_loop(*it, {std::move(nest)});
        replace_at(place, {std::move(nest)});
        Outcome out = done(std::move(f));
        out.includes = {"<algorithm>"};
        return out;
    }
    return refuse(why);
}

Outcome unroll(const Function& original, const LoopName& wanted, long factor, bool checked) {
    Function f = original;
    if (factor < 2 || factor > 64)
        return refuse("unrolling needs a factor from 2 to 64");
    const Environment env = environment_of(f);
    const std::optional<LoopPlace> place = find_loop(f, wanted);
    if (!place)
        return refuse(no_loop(wanted));
    if (!place->innermost)
        return refuse(fmt::format("loop {} is not an innermost loop", wanted.var));
    const Counted head = place->head;
    if (head.step != 1)
        return refuse(fmt::format("loop {} is unrolled already", wanted.var));
    const std::vector<Stmt> body = place->loop().body;
    const Effects effects = effects_of(body, env);
    if (effects.jumps || std::any_of(body.begin(), body.end(),
                                     [](const Stmt& s) { return s.kind == StmtKind::raw; }))
        return refuse("the body jumps or is not understood");
    if (checked &&
        (!invariant(head.bound, body, head.var, env) || !invariant(head.low, body, head.var, env)))
        return refuse(fmt::format("the bounds of {} change in the loop", wanted.var));
    const std::string main_end = fresh(f, head.var + "_main");
    const Expr span = is_zero(head.low) ? end_of(head) : difference(end_of(head), head.low);
    const Expr whole = binary(binary(span, "/", number(factor)), "*", number(factor));
    Counted main = head;
    main.bound = name(main_end);
    main.inclusive = false;
    main.step = factor;
    Counted rest = head;
    rest.low = name(main_end);
    std::vector<Stmt> copies;
    for (long u = 0; u < factor; ++u) {
        std::vector<Stmt> copy =
            substitute(code_of(body), head.var, sum(name(head.var), number(u)));
        if (effects.declares.empty())
            copies.insert(copies.end(), copy.begin(), copy.end());
        else
            copies.push_back(block(std::move(copy)));
    }
    Stmt limit = declare("const " + (head.type == "auto" ? "int" : head.type), main_end,
                         is_zero(head.low) ? whole : binary(head.low, "+", whole));
    replace_at(*place, {std::move(limit), counting_loop(main, std::move(copies)),
                        counting_loop(rest, body)});
    return done(std::move(f));
}

Outcome register_sums(const Function& original, const LoopName& wanted, bool checked) {
    Function f = original;
    const Environment env = environment_of(f);
    std::string why = no_loop(wanted);
    for (const LoopPlace& place : loops_of(f)) {
        if (!fits(place, wanted))
            continue;
        const Effects effects = effects_of(place.loop().body, env);
        if (effects.unknown || effects.jumps) {
            why = effects.unknown ? effects.why : "the body jumps";
            continue;
        }
        // Elements that are updated and do not move with the loop.
        std::vector<Expr> elements;
        for_each_top_expression(place.loop().body, [&](const Expr& top) {
            for_each_expression(top, [&](const Expr& e) {
                if (e.kind != ExprKind::assign || e.args[0].kind != ExprKind::index ||
                    e.text == "=")
                    return;
                const Expr& element = e.args[0];
                if (std::find(elements.begin(), elements.end(), element) != elements.end())
                    return;
                const Effects of_element = effects_of(element, env);
                if (mentions(element, place.head.var) || of_element.accesses.size() != 1) {
                    why = fmt::format("{} moves with {}", print(element), place.head.var);
                    return;
                }
                for (const std::string& scalar : of_element.reads)
                    if (effects.writes.contains(scalar) || effects.declares.contains(scalar)) {
                        why = fmt::format("{} moves in the loop", print(element));
                        return;
                    }
                const Access& mine = of_element.accesses[0];
                for (const Access& other : effects.accesses)
                    if (checked &&
                        (other.root == mine.root || other.root.empty() || mine.root.empty()) &&
                        (!other.known || !mine.known || other.subscripts != mine.subscripts)) {
                        why = fmt::format("{} is used in the loop in another place, too",
                                          mine.through);
                        return;
                    }
                elements.push_back(element);
            });
        });
        if (elements.empty())
            continue;
        std::vector<Stmt> before;
        std::vector<Stmt> after;
        std::vector<Stmt> body = place.loop().body;
        std::set<std::string> taken;
        std::vector<Stmt>& list = *place.list;
        std::size_t at = place.at;
        for (const Expr& element : elements) {
            const std::string array =
                element.args[0].kind == ExprKind::name ? element.args[0].text : "x";
            std::string type = element_type(env, array);
            if (type.empty())
                type = "float";
            const std::string scalar = fresh(f, array + "_sum", taken);
            taken.insert(scalar);
            // An initialisation directly before the loop becomes that of the scalar.
            Expr init = element;
            for (std::size_t k = at; k-- > 0;) {
                const Stmt& s = list[k];
                if (!is_code(s))
                    continue;
                const bool plain = s.kind == StmtKind::expression &&
                                   s.expr.kind == ExprKind::assign && s.expr.text == "=" &&
                                   s.expr.args[1].kind == ExprKind::literal;
                if (!plain)
                    break;
                if (s.expr.args[0] == element) {
                    init = s.expr.args[1];
                    list.erase(list.begin() + static_cast<std::ptrdiff_t>(k));
                    --at;
                    break;
                }
            }
            before.push_back(declare(type, scalar, init));
            after.push_back(statement(assign(element, "=", name(scalar))));
            for_each_top_expression(body, [&](Expr& top) {
                for_each_expression(top, [&](Expr& e) {
                    if (e == element)
                        e = name(scalar);
                });
            });
        }
        Stmt loop = list[at];
        loop.body = std::move(body);
        before.push_back(std::move(loop));
        before.insert(before.end(), after.begin(), after.end());
        LoopPlace moved = place;
        moved.at = at;
        replace_at(moved, std::move(before));
        return done(std::move(f));
    }
    return refuse(why);
}

namespace {

// Subexpressions worth computing once: at least one operation on floats, a division or an element.
bool worth_hoisting(const Expr& e) {
    if (e.kind == ExprKind::index)
        return true;
    if (e.kind == ExprKind::call)
        return is_pure(e.args[0].text);
    return e.kind == ExprKind::binary &&
           (e.text == "/" || e.text == "*" || e.text == "+" || e.text == "-");
}

void find_invariants(const Expr& e, const std::vector<Stmt>& body, const std::string& variable,
                     const Environment& env, std::vector<Expr>& out) {
    if (e.kind == ExprKind::unary && e.text == "&")
        return;  // an element's address is not its value
    if (worth_hoisting(e) && invariant(e, body, variable, env)) {
        // Integer arithmetic of subscripts is hoisted by every compiler.
        if (!poly_of(e, env) && std::find(out.begin(), out.end(), e) == out.end())
            out.push_back(e);
        return;
    }
    for (std::size_t i = 0; i < e.args.size(); ++i)
        if (!(e.kind == ExprKind::assign && i == 0) && !(e.kind == ExprKind::call && i == 0))
            find_invariants(e.args[i], body, variable, env, out);
    if (e.kind == ExprKind::assign && e.args[0].kind == ExprKind::index)
        find_invariants(e.args[0].args[1], body, variable, env, out);
}

void replace_expression(Expr& e, const Expr& what, const Expr& with) {
    if (e == what) {
        e = with;
        return;
    }
    if (e.kind == ExprKind::unary && e.text == "&")
        return;
    for (Expr& argument : e.args)
        replace_expression(argument, what, with);
}

std::string literal_of(const std::string& type, const std::string& digits) {
    return type == "float" ? digits + "f" : digits;
}

// "float", "double", "int", or "" when it is not known.
std::string type_of(const Expr& e, const Environment& env) {
    switch (e.kind) {
        case ExprKind::literal: {
            const bool hexadecimal = e.text.substr(0, 2) == "0x";
            if (e.text.find_first_of("\"'") != std::string::npos)
                return "";
            const bool real = e.text.find('.') != std::string::npos ||
                              (!hexadecimal && e.text.find_first_of("eE") != std::string::npos);
            if (!real)
                return "int";
            return e.text.back() == 'f' || e.text.back() == 'F' ? "float" : "double";
        }
        case ExprKind::name:
            return env.pointers.contains(e.text) ? "" : element_type(env, e.text);
        case ExprKind::index: {
            const Expr* at = &e;
            while (at->kind == ExprKind::index)
                at = &at->args[0];
            while (at->kind == ExprKind::binary)  // (b + j)[k]
                at = &at->args[0];
            return at->kind == ExprKind::name ? element_type(env, at->text) : "";
        }
        case ExprKind::unary:
        case ExprKind::postfix:
            return type_of(e.args[0], env);
        case ExprKind::cast:
            return e.text.find('*') == std::string::npos ? e.text : "";
        case ExprKind::assign:
            return type_of(e.args[0], env);
        case ExprKind::conditional:
        case ExprKind::binary: {
            if (e.kind == ExprKind::binary &&
                (e.text == "<" || e.text == ">" || e.text == "==" || e.text == "<=" ||
                 e.text == ">=" || e.text == "!=" || e.text == "&&" || e.text == "||"))
                return "bool";
            const std::string a = type_of(e.args[e.args.size() - 2], env);
            const std::string b = type_of(e.args[e.args.size() - 1], env);
            for (const std::string* t : {&a, &b})
                if (t->empty() || t->substr(0, 2) == "vf" || t->substr(0, 2) == "vd" ||
                    *t == "auto")
                    return *t;
            if (a == "double" || b == "double")
                return "double";
            if (a == "float" || b == "float")
                return "float";
            return a == b ? a : a.empty() || b.empty() ? "" : "int";
        }
        case ExprKind::call: {
            const std::string& function = e.args[0].text;
            if (function.substr(0, 12) == "static_cast<")
                return function.substr(12, function.size() - 13);
            if (function == "float" || function == "double" || function == "int")
                return function;
            const std::string bare =
                function.substr(0, 5) == "std::" ? function.substr(5) : function;
            if (e.args.size() < 2 || !is_pure(function))
                return "";
            if (function.substr(0, 5) == "std::" || function.substr(0, 9) == "__builtin")
                return type_of(e.args[1], env);
            return bare.back() == 'f' && bare != "erf" ? "float" : "double";
        }
        default:
            return "";
    }
}

}  // namespace

Outcome hoist(const Function& original, const LoopName& wanted, bool checked) {
    Function f = original;
    const Environment env = environment_of(f);
    const std::optional<LoopPlace> place = find_loop(f, wanted);
    if (!place)
        return refuse(no_loop(wanted));
    const std::vector<Stmt>& body = place->loop().body;
    const Effects effects = effects_of(body, env);
    if (effects.unknown)
        return refuse(effects.why);
    std::vector<Expr> found;
    bool guarded = false;  // what stands under a condition is perhaps never to be read
    for_each_statement(body,
                       [&](const Stmt& s) { guarded = guarded || s.kind == StmtKind::branch; });
    for_each_top_expression(
        body, [&](const Expr& top) { find_invariants(top, body, place->head.var, env, found); });
    if (guarded && checked)
        std::erase_if(found, [&](const Expr& e) { return !effects_of(e, env).accesses.empty(); });
    std::erase_if(found, [&](const Expr& e) {
        return type_of(e, env).empty() || type_of(e, env) == "int" || type_of(e, env) == "bool";
    });
    if (found.empty())
        return refuse(fmt::format("loop {} computes nothing twice", wanted.var));
    std::vector<Stmt> out;
    Stmt loop = place->loop();
    std::set<std::string> taken;
    for (const Expr& e : found) {
        const std::string variable = fresh(f, "fixed", taken);
        taken.insert(variable);
        out.push_back(declare("const " + type_of(e, env), variable, e));
        for_each_top_expression(loop.body, [&](Expr& top) {
            if (top.kind == ExprKind::assign)
                replace_expression(top.args[1], e, name(variable));
            else
                replace_expression(top, e, name(variable));
        });
    }
    out.push_back(std::move(loop));
    replace_at(*place, std::move(out));
    return done(std::move(f));
}

Outcome restrict_pointers(const Function& original, bool checked) {
    Function f = original;
    const Environment env = environment_of(f);
    (void)checked;  // that the arrays are distinct is the interface's promise
    std::vector<Stmt> locals;
    std::set<std::string> taken;
    for (const Parameter& p : f.parameters) {
        const bool plain = p.pointers == "*" && !p.array && !env.changed.contains(p.name);
        if (!plain)
            continue;
        if (!mentions(f.body, p.name))
            continue;
        bool aliased = false;  // a local pointer stands for it already
        for (const auto& [local, pointer] : env.aliases)
            aliased = aliased || (pointer.root == p.name && pointer.offset.terms.empty());
        if (aliased)
            continue;
        const std::string local = fresh(f, p.name + "_r", taken);
        taken.insert(local);
        f.body = substitute(std::move(f.body), p.name, name(local));
        locals.push_back(declare(p.type, local, name(p.name), "* __restrict"));
    }
    if (locals.empty())
        return refuse("the pointers are restrict already");
    f.body.insert(f.body.begin(), locals.begin(), locals.end());
    return done(std::move(f));
}

Outcome vectorize_pragma(const Function& original, const LoopName& wanted, bool checked) {
    Function f = original;
    const Environment env = environment_of(f);
    const std::optional<LoopPlace> place = find_loop(f, wanted);
    if (!place)
        return refuse(no_loop(wanted));
    if (!place->innermost)
        return refuse(fmt::format("loop {} is not an innermost loop", wanted.var));
    std::vector<Stmt>& list = *place->list;
    for (std::size_t k = place->at; k > 0 && list[k - 1].kind == StmtKind::directive; --k)
        if (list[k - 1].text.find("vectorize") != std::string::npos)
            return refuse(fmt::format("loop {} asks for it already", wanted.var));
    if (checked) {
        const std::vector<Stmt>& body = place->loop().body;
        Effects effects = effects_of(body, env);
        if (effects.unknown)
            return refuse(effects.why);
        for (const std::string& scalar : effects.writes)
            if (!effects.declares.contains(scalar) &&
                !(effects.writes_by.at(scalar) == std::set<std::string>{"+="}))
                return refuse(
                    fmt::format("{} carries a value from one iteration to the next", scalar));
        for (const Access& a : effects.accesses)
            if (a.write && a.known &&
                !poly_mentions(a.subscripts.empty() ? Poly() : a.subscripts.back(),
                               place->head.var))
                return refuse(fmt::format(
                    "every iteration writes the same element of {}: add it up in a register first",
                    a.through));
    }
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(place->at),
                directive("#pragma clang loop vectorize(enable) interleave(enable)"));
    return done(std::move(f));
}

Outcome cheaper_arithmetic(const Function& original, bool checked) {
    Function f = original;
    const Environment env = environment_of(f);
    (void)checked;       // each form is equal up to rounding
    bool single = true;  // no double anywhere: then doubles in between are an accident
    for (const Parameter& p : f.parameters)
        single = single && p.type.find("double") == std::string::npos;
    for_each_statement(f.body, [&](const Stmt& s) {
        single = single &&
                 !(s.kind == StmtKind::declaration && s.text.find("double") != std::string::npos);
    });
    int changes = 0;
    auto is_root = [](const Expr& e) {
        return e.kind == ExprKind::call && e.args.size() == 2 &&
               (e.args[0].text == "sqrtf" || e.args[0].text == "sqrt" ||
                e.args[0].text == "std::sqrt" || e.args[0].text == "std::sqrtf" ||
                e.args[0].text == "__builtin_sqrtf");
    };
    for_each_top_expression(f.body, [&](Expr& top) {
        for_each_expression(top, [&](Expr& e) {
            // The builtin does not set errno, so that it is one instruction and vectorises.
            if (is_root(e)) {
                const std::string type = type_of(e.args[1], env);
                if (type == "float" && (e.args[0].text != "sqrt" || single)) {
                    e.args[0].text = "__builtin_elementwise_sqrt";
                    ++changes;
                }
                return;
            }
            if (e.kind == ExprKind::call && e.args.size() == 3 &&
                (e.args[0].text == "pow" || e.args[0].text == "powf" ||
                 e.args[0].text == "std::pow")) {
                const std::string& power = e.args[2].text;
                const Expr base = e.args[1];
                const bool simple = base.kind == ExprKind::name || base.kind == ExprKind::index;
                if (e.args[2].kind == ExprKind::literal && simple &&
                    (power == "2" || power == "2.0" || power == "2.0f" || power == "2.f")) {
                    e = binary(base, "*", base);
                    ++changes;
                } else if (e.args[2].kind == ExprKind::literal && simple &&
                           (power == "3" || power == "3.0" || power == "3.0f" || power == "3.f")) {
                    e = binary(binary(base, "*", base), "*", base);
                    ++changes;
                } else if (e.args[2].kind == ExprKind::literal &&
                           (power == "0.5" || power == "0.5f") && type_of(base, env) == "float") {
                    e = call("__builtin_elementwise_sqrt", {base});
                    ++changes;
                }
                return;
            }
            // A literal without suffix makes the whole expression double.
            if (single && e.kind == ExprKind::literal && type_of(e, env) == "double") {
                e.text += "f";
                ++changes;
            }
        });
    });
    // A value divided by twice and more in one block: one reciprocal.
    for (const LoopPlace& place : loops_of(f)) {
        std::vector<Stmt>& body = place.loop().body;
        std::map<std::string, int> divisors;
        for (Stmt& s : body)
            if (s.kind == StmtKind::declaration || s.kind == StmtKind::expression) {
                std::vector<Stmt> one = {s};
                for_each_top_expression(one, [&](const Expr& top) {
                    for_each_expression(top, [&](const Expr& e) {
                        if (e.kind == ExprKind::binary && e.text == "/" &&
                            e.args[1].kind == ExprKind::name) {
                            const std::string type = type_of(e.args[1], env);
                            if (type == "float" || type == "double")
                                ++divisors[e.args[1].text];
                        }
                    });
                });
            }
        for (const auto& [divisor, count] : divisors) {
            const std::string type = type_of(name(divisor), env);
            const bool outside =
                !effects_of(body, env).declares.contains(divisor) && !writes(body, divisor, env);
            const bool set_once = env.initial.contains(divisor) || outside;
            if ((count < 2 && !outside) || !set_once)
                continue;
            const std::string reciprocal = fresh(f, "per_" + divisor);
            auto change = [&](std::vector<Stmt>& statements) {
                for_each_top_expression(statements, [&](Expr& top) {
                    for_each_expression(top, [&](Expr& e) {
                        if (e.kind == ExprKind::binary && e.text == "/" &&
                            e.args[1] == name(divisor)) {
                            e.text = "*";
                            e.args[1] = name(reciprocal);
                        }
                    });
                });
            };
            const Stmt made = declare("const " + type, reciprocal,
                                      binary(literal(literal_of(type, "1.0")), "/", name(divisor)));
            if (outside) {
                change(body);
                std::vector<Stmt>& list = *place.list;
                list.insert(list.begin() + static_cast<std::ptrdiff_t>(place.at), made);
            } else {
                std::size_t at = body.size();
                for (std::size_t k = 0; k < body.size(); ++k)
                    for (const Declarator& d : body[k].declarators)
                        if (d.name == divisor)
                            at = k;
                if (at == body.size())
                    continue;
                change(body);
                body.insert(body.begin() + static_cast<std::ptrdiff_t>(at) + 1, made);
            }
            ++changes;
            return done(std::move(f));  // the places found before have moved
        }
    }
    if (changes == 0)
        return refuse("there is no division, root or power to make cheaper");
    return done(std::move(f));
}

Outcome row_pointers(const Function& original, const LoopName& wanted, bool checked) {
    Function f = original;
    const Environment env = environment_of(f);
    (void)checked;  // the same elements, written otherwise
    const std::optional<LoopPlace> place = find_loop(f, wanted);
    if (!place)
        return refuse(no_loop(wanted));
    const std::string& v = place->head.var;
    std::vector<Stmt> rows;
    Stmt loop = place->loop();
    const Effects effects = effects_of(loop.body, env);
    if (effects.unknown)
        return refuse(effects.why);
    std::map<std::string, std::string> made;  // printed row -> name
    std::set<std::string> taken;
    for_each_top_expression(loop.body, [&](Expr& top) {
        for_each_expression(top, [&](Expr& e) {
            if (e.kind != ExprKind::index || e.args[0].kind != ExprKind::name ||
                !env.pointers.contains(e.args[0].text))
                return;
            // row + v, v + row, row + v + constant
            Expr subscript = e.args[1];
            long offset = 0;
            if (subscript.kind == ExprKind::binary &&
                (subscript.text == "+" || subscript.text == "-") &&
                constant_value(subscript.args[1])) {
                offset = subscript.text == "+" ? *constant_value(subscript.args[1])
                                               : -*constant_value(subscript.args[1]);
                subscript = Expr(subscript.args[0]);
            }
            if (subscript.kind != ExprKind::binary || subscript.text != "+")
                return;
            const bool behind = subscript.args[1] == name(v);
            if (!behind && !(subscript.args[0] == name(v)))
                return;
            const Expr row = subscript.args[behind ? 0 : 1];
            if (mentions(row, v))
                return;
            for (const std::string& scalar : effects_of(row, env).reads)
                if (effects.writes.contains(scalar) || effects.declares.contains(scalar))
                    return;
            if (!effects_of(row, env).accesses.empty())
                return;
            const Expr start = binary(e.args[0], "+", row);
            std::string& pointer = made[print(start)];
            if (pointer.empty()) {
                pointer = fresh(f, e.args[0].text + "_row", taken);
                taken.insert(pointer);
                const bool alias = env.types.contains(e.args[0].text);
                rows.push_back(declare(alias ? env.types.at(e.args[0].text) : "auto", pointer,
                                       start, alias ? "*" : ""));
            }
            e = index(name(pointer), sum(name(v), number(offset)));
        });
    });
    if (rows.empty())
        return refuse(fmt::format("loop {} walks along no row", wanted.var));
    rows.push_back(std::move(loop));
    replace_at(*place, std::move(rows));
    return done(std::move(f));
}

Outcome peel(const Function& original, const LoopName& wanted, bool checked) {
    Function f = original;
    (void)checked;  // the iterations run in their old order
    const std::optional<LoopPlace> place = find_loop(f, wanted);
    if (!place)
        return refuse(no_loop(wanted));
    const Counted& head = place->head;
    if (head.step != 1 || !constant_value(head.low))
        return refuse(fmt::format("loop {} does not start at a constant", wanted.var));
    // Which of the first and last iterations do conditions single out?
    const Expr first = head.low;
    const Expr last = head.inclusive ? head.bound : difference(head.bound, number(1));
    const Environment env = environment_of(f);
    const std::optional<Poly> last_poly = poly_of(last, env);
    bool at_first = false;
    bool at_last = false;
    auto test = [&](const Expr& e, bool& is_first, bool& is_last) {
        if (e.kind != ExprKind::binary || (e.text != "==" && e.text != "!=") ||
            !(e.args[0] == name(head.var)))
            return;
        is_first = e.args[1] == first;
        const std::optional<Poly> value = poly_of(e.args[1], env);
        is_last = value && last_poly && *value == *last_poly;
    };
    for_each_statement(place->loop().body, [&](const Stmt& s) {
        if (s.kind == StmtKind::branch)
            for_each_expression(s.expr, [&](const Expr& e) {
                bool is_first = false;
                bool is_last = false;
                test(e, is_first, is_last);
                at_first = at_first || is_first;
                at_last = at_last || is_last;
            });
    });
    if (!at_first && !at_last)
        return refuse(fmt::format("no condition in loop {} singles out its first or last iteration",
                                  wanted.var));
    // Inside, the comparisons are false: drop them.
    const std::vector<Stmt> body = place->loop().body;
    std::vector<Stmt> inner = body;
    auto known = [&](Expr& e) {  // 0: false, 1: true, -1: not known
        bool is_first = false;
        bool is_last = false;
        test(e, is_first, is_last);
        if ((is_first && at_first) || (is_last && at_last))
            return e.text == "==" ? 0 : 1;
        return -1;
    };
    std::function<int(Expr&)> simplify = [&](Expr& e) {
        if (const int value = known(e); value >= 0)
            return value;
        if (e.kind == ExprKind::binary && (e.text == "||" || e.text == "&&")) {
            const int decides = e.text == "||" ? 1 : 0;
            const int a = simplify(e.args[0]);
            const int b = simplify(e.args[1]);
            if (a == decides || b == decides)
                return decides;
            if (a >= 0 && b >= 0)
                return 1 - decides;
            if (a >= 0)
                e = Expr(e.args[1]);
            else if (b >= 0)
                e = Expr(e.args[0]);
        }
        return -1;
    };
    std::function<void(std::vector<Stmt>&)> prune = [&](std::vector<Stmt>& list) {
        std::vector<Stmt> kept;
        for (Stmt& s : list) {
            prune(s.body);
            prune(s.orelse);
            if (s.kind == StmtKind::branch) {
                const int value = simplify(s.expr);
                if (value >= 0) {
                    std::vector<Stmt>& chosen = value == 1 ? s.body : s.orelse;
                    kept.insert(kept.end(), chosen.begin(), chosen.end());
                    continue;
                }
            }
            kept.push_back(std::move(s));
        }
        list = std::move(kept);
    };
    prune(inner);
    Counted middle = head;
    middle.inclusive = false;
    const Expr end = end_of(head);
    std::vector<Stmt> out;
    auto once = [&](Expr low, Expr bound) {
        Counted one = head;
        one.low = std::move(low);
        one.bound = std::move(bound);
        one.inclusive = false;
        out.push_back(counting_loop(one, body));
    };
    const std::string type = head.type == "auto" ? "int" : head.type;
    const Expr second = sum(first, number(1));
    if (at_first) {
        once(first, call(fmt::format("std::min<{}>", type), {second, end}));
        middle.low = second;
    }
    middle.bound = at_last ? last : end;
    out.push_back(counting_loop(middle, inner));
    if (at_last)
        once(call(fmt::format("std::max<{}>", type), {middle.low, last}), end);
    replace_at(*place, std::move(out));
    Outcome result = done(std::move(f));
    result.includes = {"<algorithm>"};
    return result;
}

Outcome segments(const Function& original, const LoopName& wanted, bool checked) {
    Function f = original;
    const Environment env = environment_of(f);
    const std::optional<LoopPlace> place = find_loop(f, wanted);
    if (!place)
        return refuse(no_loop(wanted));
    const Counted head = place->head;
    std::vector<Stmt> body = code_of(place->loop().body);
    const std::string why = fmt::format("loop {} does not search for its segment", wanted.var);
    if (body.size() < 2 || body[0].kind != StmtKind::loop_while || body[0].body.size() != 1 ||
        !is_zero(head.low) || head.inclusive || head.step != 1 ||
        head.bound.kind != ExprKind::index)
        return refuse(why);
    // while (v >= start[s + 1]) ++s;
    const Expr& test = body[0].expr;
    const Expr step = body[0].body[0].expr;
    if (test.kind != ExprKind::binary || test.text != ">=" || !(test.args[0] == name(head.var)) ||
        test.args[1].kind != ExprKind::index || !(test.args[1].args[0] == head.bound.args[0]))
        return refuse(why);
    const bool increment =
        (step.kind == ExprKind::unary || step.kind == ExprKind::postfix) && step.text == "++";
    if (!increment || step.args[0].kind != ExprKind::name)
        return refuse(why);
    const std::string segment = step.args[0].text;
    if (!(test.args[1].args[1] == sum(name(segment), number(1))))
        return refuse(why);
    const std::string starts = print(head.bound.args[0]);
    body.erase(body.begin());
    const Effects effects = effects_of(body, env);
    if (checked && (effects.unknown || effects.jumps || effects.writes.contains(segment) ||
                    effects.writes_root(starts)))
        return refuse("the segments or their number change in the loop");
    std::vector<Stmt>& list = *place->list;
    for (std::size_t k = place->at + 1; k < list.size(); ++k)
        if (mentions(std::vector<Stmt>{list[k]}, segment))
            return refuse(fmt::format("{} is used after the loop", segment));
    for (std::size_t k = place->at; k-- > 0;) {
        const Stmt& s = list[k];
        if (s.kind != StmtKind::declaration || s.declarators.size() != 1 ||
            s.declarators[0].name != segment)
            continue;
        const std::optional<Expr>& first = s.declarators[0].init;
        if (!first || !is_zero(*first))
            return refuse(fmt::format("{} does not start at zero", segment));
        Counted outer;
        outer.type = s.text;
        outer.var = segment;
        outer.low = number(0);
        outer.bound = head.bound.args[1];
        Counted inner = head;
        inner.low = index(head.bound.args[0], name(segment));
        inner.bound = index(head.bound.args[0], sum(name(segment), number(1)));
        const int line = list[place->at].line;
        list[place->at] = counting_loop(outer, {counting_loop(inner, std::move(body))});
        list[place->at].line = line;
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(k));
        return done(std::move(f));
    }
    return refuse(fmt::format("{} is not set directly before the loop", segment));
}

// --- vectors

std::string vector_type(const std::string& scalar) { return scalar == "double" ? "vd8" : "vf16"; }

std::string vector_type_line(const std::string& scalar) {
    return fmt::format("typedef {} {} __attribute__((vector_size(64), aligned({}), may_alias));",
                       scalar, vector_type(scalar), scalar == "double" ? 8 : 4);
}

namespace {

// Rewrites statements for `columns` vectors of values of `along` and `rows` values of `across` at
// once.
class Vectoriser {
public:
    Vectoriser(const Function& f, const Environment& env, std::string along, std::string across,
               long rows, long columns, std::string scalar)
        : f_(f),
          env_(env),
          along_(std::move(along)),
          across_(std::move(across)),
          rows_(rows),
          columns_(columns),
          scalar_(std::move(scalar)),
          vector_(vector_type(scalar_)),
          width_(scalar_ == "double" ? 8 : 16) {}

    long width() const { return width_; }
    const std::string& why() const { return why_; }
    // Scalars from outside that get a vector of partial sums.
    void add_accumulator(const std::string& variable) { along_varying_.insert(variable); }
    // Reads of `panel` replace those of `array` (see register_tile).
    void use_panel(const std::string& array, const std::string& panel, const Expr& row) {
        packed_ = array;
        panel_ = panel;
        panel_row_ = row;
    }
    std::string copy_name(const std::string& variable, long row, long column) {
        const bool copies = (across_varying_.contains(variable) && rows_ > 1) ||
                            (along_varying_.contains(variable) && columns_ > 1);
        if (!copies)
            return variable;
        std::string& base = bases_[variable];
        if (base.empty()) {
            // The variable itself goes; only names made from it before are in the way.
            base = fresh_base(f_, variable, false);
        }
        std::string copy = base;
        if (across_varying_.contains(variable) && rows_ > 1)
            copy += fmt::format("_{}", row);
        if (along_varying_.contains(variable) && columns_ > 1)
            copy += fmt::format("_{}", column);
        return copy;
    }

    bool rewrite(std::vector<Stmt> in, std::vector<Stmt>& out) {
        in = inlined(std::move(in));
        effects_ = effects_of(in, env_);
        if (effects_.unknown || effects_.jumps)
            return no(effects_.unknown ? effects_.why : "the body jumps");
        classify(in);
        return list(in, out);
    }

private:
    bool no(std::string why) {
        if (why_.empty())
            why_ = std::move(why);
        return false;
    }

    // Integers and pointers that are set once in the body disappear into the subscripts.
    std::vector<Stmt> inlined(std::vector<Stmt> in) {
        for (bool again = true; again;) {
            again = false;
            std::string variable;
            Expr value;
            std::function<bool(std::vector<Stmt>&)> take = [&](std::vector<Stmt>& statements) {
                for (std::size_t i = 0; i < statements.size(); ++i) {
                    Stmt& s = statements[i];
                    if (s.kind == StmtKind::declaration && s.declarators.size() == 1 &&
                        s.declarators[0].init) {
                        const std::string& n = s.declarators[0].name;
                        if (env_.initial.contains(n) &&
                            (env_.values.contains(n) || env_.aliases.contains(n))) {
                            variable = n;
                            value = *s.declarators[0].init;
                            statements.erase(statements.begin() + static_cast<std::ptrdiff_t>(i));
                            return true;
                        }
                    }
                    if (take(s.body) || take(s.orelse))
                        return true;
                }
                return false;
            };
            if (take(in)) {
                in = substitute(std::move(in), variable, value);
                again = true;
            }
        }
        return in;
    }

    bool depends(const Expr& e, const std::string& variable,
                 const std::set<std::string>& varying) const {
        if (e.kind == ExprKind::name && (e.text == variable || varying.contains(e.text)))
            return true;
        return std::any_of(e.args.begin(), e.args.end(),
                           [&](const Expr& a) { return depends(a, variable, varying); });
    }

    void classify(const std::vector<Stmt>& in) {
        for (bool grown = true; grown;) {
            grown = false;
            auto mark = [&](const std::string& variable, const Expr& value) {
                if (depends(value, along_, along_varying_))
                    grown = along_varying_.insert(variable).second || grown;
                if (!across_.empty() && depends(value, across_, across_varying_))
                    grown = across_varying_.insert(variable).second || grown;
            };
            for_each_statement(in, [&](const Stmt& s) {
                for (const Declarator& d : s.declarators)
                    if (d.init)
                        mark(d.name, *d.init);
                for_each_expression(s.expr, [&](const Expr& e) {
                    if (e.kind == ExprKind::assign && e.args[0].kind == ExprKind::name)
                        mark(e.args[0].text, e.args[1]);
                });
            });
        }
    }

    Expr shifted(const Expr& e, long row, long column) const {
        Expr out = e;
        if (!across_.empty() && row > 0)
            out = substitute(out, across_, sum(name(across_), number(row)));
        if (column > 0)
            out = substitute(out, along_, sum(name(along_), number(column * width_)));
        return out;
    }

    // An element in one copy; `is_vector` when it runs along the vectors.
    std::optional<Expr> element(const Expr& e, long row, long column, bool& is_vector,
                                bool is_store) {
        const Effects of = effects_of(e, env_);
        const bool moves = depends(e.args[1], along_, along_varying_) ||
                           depends(e.args[0], along_, along_varying_);
        for (const std::string& variable : of.reads)
            if (along_varying_.contains(variable)) {
                no(fmt::format("{} is not contiguous along {}", print(e), along_));
                return std::nullopt;
            }
        const Access* mine = nullptr;
        for (const Access& a : of.accesses)
            if (a.known && a.through == base_name(e))
                mine = &a;
        Expr target = shifted(e, row, column);
        if (!moves) {
            is_vector = false;
            return target;
        }
        is_vector = true;
        if (mine == nullptr || mine->subscripts.size() != 1) {
            no(fmt::format("where {} lies is not known", print(e)));
            return std::nullopt;
        }
        const std::optional<Poly> stride = poly_stride(mine->subscripts[0], along_);
        if (!stride || poly_number(*stride) != 1) {
            no(fmt::format("{} is not contiguous along {}", print(e), along_));
            return std::nullopt;
        }
        if (type_of(e, env_) != scalar_) {
            no(fmt::format("{} has another type than the sum", print(e)));
            return std::nullopt;
        }
        if (!is_store && mine->root == packed_ && !packed_.empty()) {
            const Expr offset = number(column * width_);
            target =
                index(name(panel_), sum(product(panel_row_, number(columns_ * width_)), offset));
        }
        Expr vector;
        vector.kind = ExprKind::cast;
        vector.text = (is_store ? "" : "const ") + vector_ + "*";
        vector.args.push_back(unary("&", std::move(target)));
        return unary("*", std::move(vector));
    }

    static std::string base_name(const Expr& e) {
        const Expr* at = &e;
        while (at->kind == ExprKind::index || at->kind == ExprKind::binary)
            at = &at->args[0];
        return at->kind == ExprKind::name ? at->text : "";
    }

    // A load, through a name when the block can keep it.
    std::optional<Expr> load(const Expr& e, long row, long column, bool& is_vector) {
        std::optional<Expr> found = element(e, row, column, is_vector, false);
        if (!found)
            return std::nullopt;
        if (effects_.writes_root(root_of(e)))
            return found;
        const std::string key = print(*found);
        for (const auto& scope : loads_)
            if (const auto known = scope.find(key); known != scope.end())
                return name(known->second);
        const std::string type = is_vector ? vector_ : type_of(e, env_);
        if (type.empty() || loads_.empty())
            return found;
        const std::string variable = fresh(f_, fmt::format("{}_{}", base_name(e), counter_++));
        out_->push_back(declare("const " + type, variable, found));
        loads_.back()[key] = variable;
        return name(variable);
    }

    std::string root_of(const Expr& e) const {
        const Effects of = effects_of(e, env_);
        for (const Access& a : of.accesses)
            if (a.through == base_name(e))
                return a.root;
        return "";
    }

    // A scalar operand beside a vector one must have its type.
    Expr as_operand(Expr value, const Expr& source) const {
        const std::string type = type_of(source, env_);
        if (type == scalar_)
            return value;
        if (source.kind == ExprKind::literal && (type == "int" || type == "double")) {
            std::string text = source.text;
            if (type == "int")
                text += ".0";
            if (scalar_ == "float")
                text += "f";
            return literal(text);
        }
        Expr cast;
        cast.kind = ExprKind::cast;
        cast.text = scalar_;
        cast.args.push_back(std::move(value));
        return cast;
    }

    std::optional<Expr> value(const Expr& e, long row, long column, bool& is_vector) {
        is_vector = false;
        switch (e.kind) {
            case ExprKind::literal:
                return e;
            case ExprKind::name:
                if (e.text == along_) {
                    no(fmt::format("{} is used as a number", along_));
                    return std::nullopt;
                }
                if (e.text == across_)
                    return shifted(e, row, column);
                is_vector = along_varying_.contains(e.text);
                return name(copy_name(e.text, row, column));
            case ExprKind::index:
                return load(e, row, column, is_vector);
            case ExprKind::unary: {
                if (e.text != "-" && e.text != "+")
                    break;
                std::optional<Expr> a = value(e.args[0], row, column, is_vector);
                return a ? std::optional<Expr>(unary(e.text, std::move(*a))) : std::nullopt;
            }
            case ExprKind::binary: {
                if (e.text != "+" && e.text != "-" && e.text != "*" && e.text != "/")
                    break;
                bool left = false;
                bool right = false;
                std::optional<Expr> a = value(e.args[0], row, column, left);
                std::optional<Expr> b = a ? value(e.args[1], row, column, right) : std::nullopt;
                if (!a || !b)
                    return std::nullopt;
                is_vector = left || right;
                if (left && !right)
                    b = as_operand(std::move(*b), e.args[1]);
                if (right && !left)
                    a = as_operand(std::move(*a), e.args[0]);
                return binary(std::move(*a), e.text, std::move(*b));
            }
            case ExprKind::call: {
                std::string function = e.args[0].text;
                std::vector<Expr> arguments;
                for (std::size_t i = 1; i < e.args.size(); ++i) {
                    bool vector_argument = false;
                    std::optional<Expr> a = value(e.args[i], row, column, vector_argument);
                    if (!a)
                        return std::nullopt;
                    is_vector = is_vector || vector_argument;
                    arguments.push_back(vector_argument
                                            ? std::move(*a)
                                            : splat(as_operand(std::move(*a), e.args[i])));
                }
                if (!is_vector) {
                    Expr same = e;
                    for (std::size_t i = 1; i < e.args.size(); ++i) {
                        bool unused = false;
                        const std::optional<Expr> plain = value(e.args[i], row, column, unused);
                        if (!plain)
                            return std::nullopt;
                        same.args[i] = *plain;
                    }
                    return same;
                }
                if (function.substr(0, 5) == "std::")
                    function = function.substr(5);
                if (function.substr(0, 22) == "__builtin_elementwise_")
                    return call(function, std::move(arguments));
                static const std::map<std::string, std::string> builtins = {
                    {"sqrt", "sqrt"}, {"sqrtf", "sqrt"}, {"fabs", "abs"},  {"fabsf", "abs"},
                    {"abs", "abs"},   {"fmax", "max"},   {"fmaxf", "max"}, {"max", "max"},
                    {"fmin", "min"},  {"fminf", "min"},  {"min", "min"}};
                if (const auto builtin = builtins.find(function); builtin != builtins.end())
                    return call("__builtin_elementwise_" + builtin->second, std::move(arguments));
                no(fmt::format("{} has no vector form", function));
                return std::nullopt;
            }
            case ExprKind::cast:
                if (e.text == scalar_ && type_of(e.args[0], env_) == scalar_)
                    return value(e.args[0], row, column, is_vector);
                if (!depends(e, along_, along_varying_)) {
                    Expr same = e;
                    bool unused = false;
                    const std::optional<Expr> a = value(e.args[0], row, column, unused);
                    if (!a)
                        return std::nullopt;
                    same.args[0] = *a;
                    return same;
                }
                break;
            default:
                break;
        }
        no(fmt::format("{} has no vector form", print(e)));
        return std::nullopt;
    }

    Expr splat(Expr e) const {
        Expr zero;
        zero.kind = ExprKind::braces;
        zero.text = vector_;
        if (is_zero(e))
            return zero;
        return binary(std::move(zero), "+", std::move(e));
    }

    bool list(const std::vector<Stmt>& in, std::vector<Stmt>& out) {
        std::vector<Stmt>* const outer = out_;
        out_ = &out;
        loads_.emplace_back();
        bool good = true;
        for (const Stmt& s : in)
            good = good && one(s);
        loads_.pop_back();
        out_ = outer;
        return good;
    }

    bool one(const Stmt& s) {
        switch (s.kind) {
            case StmtKind::directive:
            case StmtKind::comment:
                return true;
            case StmtKind::declaration:
                return declaration(s);
            case StmtKind::expression:
                return expression(s);
            case StmtKind::block: {
                Stmt inner;
                inner.kind = StmtKind::block;
                if (!list(s.body, inner.body))
                    return false;
                out_->push_back(std::move(inner));
                return true;
            }
            case StmtKind::loop: {
                const std::optional<Counted> head = counted(s);
                if (!head)
                    return no("an inner loop is not understood");
                for (const Expr* e : {&head->low, &head->bound})
                    if (depends(*e, along_, along_varying_) ||
                        (!across_.empty() && depends(*e, across_, across_varying_)))
                        return no(
                            fmt::format("the bounds of {} differ between the results", head->var));
                Stmt inner = s;
                inner.body.clear();
                if (!list(s.body, inner.body))
                    return false;
                out_->push_back(std::move(inner));
                return true;
            }
            default:
                return no("a condition or jump stands in the way");
        }
    }

    bool declaration(const Stmt& s) {
        for (const Declarator& d : s.declarators) {
            if (!d.pointers.empty() || !d.dimensions.empty())
                return no(fmt::format("{} is no plain value", d.name));
            const bool vector_value = along_varying_.contains(d.name);
            if (vector_value && element_type(env_, d.name) != scalar_ &&
                element_type(env_, d.name) != "auto")
                return no(fmt::format("{} has another type than the sum", d.name));
            const bool constant = s.text.substr(0, 6) == "const ";
            for (long row = 0; row < (across_varying_.contains(d.name) ? rows_ : 1); ++row)
                for (long column = 0; column < (vector_value ? columns_ : 1); ++column) {
                    std::optional<Expr> init;
                    if (d.init) {
                        bool is_vector = false;
                        init = value(*d.init, row, column, is_vector);
                        if (!init)
                            return false;
                        if (vector_value && !is_vector)
                            init = splat(as_operand(std::move(*init), *d.init));
                    }
                    const std::string type =
                        vector_value ? (constant ? "const " : "") + vector_ : s.text;
                    out_->push_back(declare(type, copy_name(d.name, row, column), std::move(init)));
                }
        }
        return true;
    }

    bool expression(const Stmt& s) {
        const Expr& e = s.expr;
        if (e.kind == ExprKind::none)
            return true;
        if (e.kind == ExprKind::cast && e.text == "void") {
            out_->push_back(s);
            return true;
        }
        if (e.kind != ExprKind::assign)
            return no(fmt::format("{} has no vector form", print(e)));
        if (e.text != "=" && e.text != "+=" && e.text != "-=" && e.text != "*=" && e.text != "/=")
            return no(fmt::format("{} has no vector form", e.text));
        const bool scalar_target = e.args[0].kind == ExprKind::name;
        const bool vector_target = scalar_target ? along_varying_.contains(e.args[0].text) : true;
        const bool each_row =
            scalar_target ? across_varying_.contains(e.args[0].text) : !across_.empty();
        for (long row = 0; row < (each_row ? rows_ : 1); ++row)
            for (long column = 0; column < (vector_target ? columns_ : 1); ++column) {
                bool is_vector = false;
                std::optional<Expr> right = value(e.args[1], row, column, is_vector);
                if (!right)
                    return false;
                Expr target;
                if (scalar_target) {
                    target = name(copy_name(e.args[0].text, row, column));
                } else if (e.args[0].kind == ExprKind::index) {
                    bool stored = false;
                    const std::optional<Expr> place = element(e.args[0], row, column, stored, true);
                    if (!place)
                        return false;
                    if (!stored)
                        return no(
                            fmt::format("every value of {} writes {}", along_, print(e.args[0])));
                    target = *place;
                } else {
                    return no(fmt::format("{} has no vector form", print(e.args[0])));
                }
                if (vector_target && !is_vector) {
                    right = as_operand(std::move(*right), e.args[1]);
                    if (e.text == "=")
                        right = splat(std::move(*right));
                }
                out_->push_back(statement(assign(std::move(target), e.text, std::move(*right))));
            }
        return true;
    }

    const Function& f_;
    const Environment& env_;
    std::string along_, across_;
    long rows_, columns_;
    std::string scalar_, vector_;
    long width_;
    std::set<std::string> along_varying_, across_varying_;
    Effects effects_;
    std::vector<Stmt>* out_ = nullptr;
    std::map<std::string, std::string> bases_;
    std::vector<std::map<std::string, std::string>> loads_;
    int counter_ = 0;
    std::string packed_, panel_;
    Expr panel_row_;
    std::string why_;
};

// Accumulators of a loop: scalars from outside that are only ever added to.
std::optional<std::vector<std::string>> accumulators(const std::vector<Stmt>& body,
                                                     const Environment& env, std::string& why) {
    const Effects effects = effects_of(body, env);
    if (effects.unknown || effects.jumps) {
        why = effects.unknown ? effects.why : "the body jumps";
        return std::nullopt;
    }
    std::vector<std::string> found;
    for (const std::string& scalar : effects.writes) {
        if (effects.declares.contains(scalar))
            continue;
        int updates = 0;
        int uses = 0;
        bool plain = true;
        for_each_statement(body, [&](const Stmt& s) {
            if (s.kind == StmtKind::expression && s.expr.kind == ExprKind::assign &&
                s.expr.args[0] == name(scalar)) {
                ++updates;
                plain = plain && (s.expr.text == "+=" || s.expr.text == "-=");
            }
        });
        for_each_top_expression(body, [&](const Expr& top) {
            for_each_expression(top, [&](const Expr& e) { uses += e == name(scalar) ? 1 : 0; });
        });
        const std::string type = element_type(env, scalar);
        if (!plain || uses != updates || (type != "float" && type != "double")) {
            why = fmt::format("{} is more than a sum", scalar);
            return std::nullopt;
        }
        found.push_back(scalar);
    }
    for (const Access& a : effects.accesses)
        if (a.write) {
            why = fmt::format("the loop writes {}", a.through);
            return std::nullopt;
        }
    if (found.empty()) {
        why = "the loop adds nothing up in a register";
        return std::nullopt;
    }
    return found;
}

}  // namespace

Outcome partial_sums(const Function& original, const LoopName& wanted, long count, bool checked) {
    Function f = original;
    if (count < 1 || count > 16)
        return refuse("partial sums: from 1 to 16");
    const Environment env = environment_of(f);
    std::string why = no_loop(wanted);
    for (const LoopPlace& place : loops_of(f)) {
        if (!fits(place, wanted) || !place.innermost)
            continue;
        const Counted head = place.head;
        if (head.step != 1) {
            why = fmt::format("loop {} is unrolled already", head.var);
            continue;
        }
        const std::vector<Stmt> body = place.loop().body;
        const std::optional<std::vector<std::string>> sums = accumulators(body, env, why);
        if (!sums)
            continue;
        if (checked && (!invariant(head.bound, body, head.var, env) ||
                        !invariant(head.low, body, head.var, env))) {
            why = fmt::format("the bounds of {} change in the loop", head.var);
            continue;
        }
        const std::string type = element_type(env, sums->front());
        std::vector<Stmt> before;
        std::vector<Stmt> after;
        std::vector<Stmt> inner;
        std::vector<std::string> helpers;
        long step = count;
        Vectoriser vectors(f, env, head.var, "", 1, count, type);
        for (const std::string& s : *sums)
            vectors.add_accumulator(s);
        bool same_type = true;
        for (const std::string& s : *sums)
            same_type = same_type && element_type(env, s) == type;
        if (same_type && vectors.rewrite(body, inner)) {
            step = vectors.width() * count;
            helpers.push_back(vector_type_line(type));
            for (const std::string& s : *sums) {
                const std::string base = fresh_base(f, s + "_part");
                Expr total;
                for (long column = 0; column < count; ++column) {
                    const std::string copy = vectors.copy_name(s, 0, column);
                    const std::string part = count > 1 ? fmt::format("{}_{}", base, column) : base;
                    Expr zero;
                    zero.kind = ExprKind::braces;
                    zero.text = vector_type(type);
                    before.push_back(declare(vector_type(type), part, zero));
                    inner = substitute(std::move(inner), copy, name(part));
                    total = column == 0 ? name(part) : binary(total, "+", name(part));
                }
                const std::string whole = fresh(f, s + "_lanes");
                after.push_back(declare("const " + vector_type(type), whole, total));
                Counted lanes;
                lanes.type = "int";
                lanes.var = fresh(f, "lane");
                lanes.low = number(0);
                lanes.bound = number(vectors.width());
                after.push_back(counting_loop(
                    lanes,
                    {statement(assign(name(s), "+=", index(name(whole), name(lanes.var))))}));
            }
        } else {
            if (count < 2) {
                why = vectors.why();
                continue;
            }
            // Scalars: one chain per copy.
            inner.clear();
            const Effects effects = effects_of(body, env);
            for (long u = 0; u < count; ++u) {
                std::vector<Stmt> copy =
                    substitute(code_of(body), head.var, sum(name(head.var), number(u)));
                for (const std::string& s : *sums)
                    copy = substitute(std::move(copy), s,
                                      name(fmt::format("{}_{}", fresh_base(f, s + "_part"), u)));
                if (effects.declares.empty())
                    inner.insert(inner.end(), copy.begin(), copy.end());
                else
                    inner.push_back(block(std::move(copy)));
            }
            for (const std::string& s : *sums) {
                const std::string base = fresh_base(f, s + "_part");
                Expr total;
                for (long u = 0; u < count; ++u) {
                    const std::string part = fmt::format("{}_{}", base, u);
                    before.push_back(declare(element_type(env, s), part,
                                             literal(literal_of(element_type(env, s), "0.0"))));
                    total = u == 0 ? name(part) : binary(total, "+", name(part));
                }
                after.push_back(statement(assign(name(s), "+=", total)));
            }
        }
        const std::string main_end = fresh(f, head.var + "_main");
        const Expr span = is_zero(head.low) ? end_of(head) : difference(end_of(head), head.low);
        const Expr whole = binary(binary(span, "/", number(step)), "*", number(step));
        before.push_back(declare("const " + (head.type == "auto" ? "int" : head.type), main_end,
                                 is_zero(head.low) ? whole : binary(head.low, "+", whole)));
        Counted main = head;
        main.bound = name(main_end);
        main.inclusive = false;
        main.step = step;
        Counted rest = head;
        rest.low = name(main_end);
        before.push_back(counting_loop(main, std::move(inner)));
        before.insert(before.end(), after.begin(), after.end());
        before.push_back(counting_loop(rest, body));
        replace_at(place, std::move(before));
        Outcome out = done(std::move(f));
        out.helpers = helpers;
        return out;
    }
    return refuse(why);
}

namespace {

// A nest that accumulates in memory, X[f] += e in its innermost body, turned into loops over f's
// variables with the sum in a register. A loop before it that sets X[f] gives the initial value.
bool gather_sums(Function& f, const LoopName& wanted, std::string& why) {
    const Environment env = environment_of(f);
    for (const LoopPlace& place : loops_of(f)) {
        // The whole perfect nest, of which the wanted loop is a part.
        std::vector<Counted> nest = {place.head};
        const Stmt* at = &place.loop();
        for (;;) {
            const Stmt* next = nullptr;
            const std::optional<Counted> head = only_loop(at->body, &next);
            if (!head)
                break;
            nest.push_back(*head);
            at = next;
        }
        if (nest.size() < 2 || std::none_of(nest.begin(), nest.end(),
                                            [&](const Counted& c) { return c.var == wanted.var; }))
            continue;
        const std::vector<Stmt> body = code_of(at->body);
        if (body.size() != 1 || body[0].kind != StmtKind::expression ||
            body[0].expr.kind != ExprKind::assign || body[0].expr.text != "+=" ||
            body[0].expr.args[0].kind != ExprKind::index) {
            why = "the body of the nest is more than one sum";
            continue;
        }
        const Expr element = body[0].expr.args[0];
        std::vector<Counted> outside;
        std::vector<Counted> reduced;
        for (const Counted& c : nest)
            (mentions(element, c.var) ? outside : reduced).push_back(c);
        if (reduced.empty() || outside.empty()) {
            why = "the nest sums nothing up";
            continue;
        }
        bool good = true;
        for (std::size_t a = 0; a < nest.size() && good; ++a)
            for (std::size_t b = a + 1; b < nest.size() && good; ++b) {
                std::vector<Counted> around = place.around;
                for (std::size_t c = 0; c < nest.size(); ++c)
                    if (c != a && c != b)
                        around.push_back(nest[c]);
                good = permutable(nest[a], nest[b], at->body, around, env, why);
            }
        if (!good)
            continue;
        // The loop along the vectors goes inside the other outer ones.
        for (std::size_t k = 0; k + 1 < outside.size(); ++k)
            if (outside[k].var == wanted.var)
                std::swap(outside[k], outside[k + 1]);
        const std::string array =
            element.args[0].kind == ExprKind::name ? element.args[0].text : "x";
        const std::string scalar = fresh(f, array + "_sum");
        std::string type = element_type(env, array);
        Expr init = element;
        std::vector<Stmt>& list = *place.list;
        std::size_t position = place.at;
        // An initialising nest directly before, over the same loops.
        for (std::size_t k = position; k-- > 0;) {
            if (!is_code(list[k]))
                continue;
            std::vector<std::string> mine;
            std::vector<std::string> theirs;
            const Stmt* inner = &list[k];
            std::optional<Counted> head = counted(*inner);
            while (head) {
                theirs.push_back(print(counting_loop(*head, {}).expr) + print(head->low));
                const Stmt* next = nullptr;
                const std::optional<Counted> deeper = only_loop(inner->body, &next);
                if (!deeper)
                    break;
                inner = next;
                head = deeper;
            }
            for (const Counted& c : outside)
                mine.push_back(print(counting_loop(c, {}).expr) + print(c.low));
            std::sort(mine.begin(), mine.end());
            std::sort(theirs.begin(), theirs.end());
            const std::vector<Stmt> set = code_of(inner->body);
            if (head && mine == theirs && set.size() == 1 && set[0].kind == StmtKind::expression &&
                set[0].expr.kind == ExprKind::assign && set[0].expr.text == "=" &&
                set[0].expr.args[0] == element && set[0].expr.args[1].kind == ExprKind::literal) {
                init = set[0].expr.args[1];
                list.erase(list.begin() + static_cast<std::ptrdiff_t>(k));
                --position;
            }
            break;
        }
        std::vector<Stmt> inside = {statement(assign(name(scalar), "+=", body[0].expr.args[1]))};
        for (auto it = reduced.rbegin(); it != reduced.rend(); ++it)
            inside = {counting_loop(*it, std::move(inside))};
        inside.insert(inside.begin(), declare(type.empty() ? "float" : type, scalar, init));
        inside.push_back(statement(assign(element, "=", name(scalar))));
        for (auto it = outside.rbegin(); it != outside.rend(); ++it)
            inside = {counting_loop(*it, std::move(inside))};
        LoopPlace moved = place;
        moved.at = position;
        replace_at(moved, std::move(inside));
        return true;
    }
    return false;
}

struct TileNest {
    std::vector<Counted> outside;  // other parallel loops
    std::optional<Counted> rows;
    Counted along;
    std::vector<Stmt> body;
};

std::optional<TileNest> tile_nest(const LoopPlace& place, const LoopName& wanted,
                                  const Environment& env, std::string& why) {
    // The chain of perfectly nested loops from here; the wanted one is in it.
    std::vector<Counted> chain = {place.head};
    const Stmt* at = &place.loop();
    std::size_t wanted_at = place.head.var == wanted.var ? 0 : std::string::npos;
    for (;;) {
        const Stmt* next = nullptr;
        const std::optional<Counted> head = only_loop(at->body, &next);
        if (!head)
            break;
        // The chain goes on while the loops are parallel.
        std::vector<Counted> around = place.around;
        around.insert(around.end(), chain.begin(), chain.end());
        std::string not_here;
        if (!parallel(*head, next->body, around, env, not_here))
            break;
        chain.push_back(*head);
        if (head->var == wanted.var)
            wanted_at = chain.size() - 1;
        at = next;
    }
    if (wanted_at == std::string::npos) {
        why = fmt::format("loop {} is not part of the nest's parallel loops", wanted.var);
        return std::nullopt;
    }
    for (std::size_t k = 0; k < chain.size(); ++k) {
        std::vector<Counted> around = place.around;
        for (std::size_t o = 0; o < chain.size(); ++o)
            if (o != k)
                around.push_back(chain[o]);
        if (!parallel(chain[k], at->body, around, env, why))
            return std::nullopt;
        for (const Counted& other : chain)
            if (mentions(chain[k].low, other.var) || mentions(chain[k].bound, other.var)) {
                why = fmt::format("the bounds of {} depend on {}", chain[k].var, other.var);
                return std::nullopt;
            }
        if (chain[k].step != 1) {
            why = fmt::format("loop {} is unrolled or tiled already", chain[k].var);
            return std::nullopt;
        }
    }
    TileNest nest;
    nest.along = chain[wanted_at];
    nest.body = at->body;
    chain.erase(chain.begin() + static_cast<std::ptrdiff_t>(wanted_at));
    if (!chain.empty()) {
        nest.rows = chain.back();
        chain.pop_back();
    }
    nest.outside = chain;
    return nest;
}

Counted tile_loop(const Counted& head, const std::string& variable, long step) {
    Counted tiles = head;
    tiles.var = variable;
    tiles.bound = end_of(head);
    tiles.inclusive = false;
    tiles.step = step;
    return tiles;
}

std::string index_type(const Counted& head) { return head.type == "auto" ? "int" : head.type; }

}  // namespace

namespace {

// A nest that is tiled already keeps its plain form for small sizes: back to that, for another
// shape of tile.
bool undo_tile(std::vector<Stmt>& list, const LoopName& wanted) {
    for (std::size_t i = 0; i < list.size(); ++i) {
        Stmt& s = list[i];
        if (s.kind == StmtKind::branch && s.has_else && is_size_test(s.expr)) {
            bool found = false;
            for_each_statement(s.orelse, [&](const Stmt& inner) {
                const std::optional<Counted> head = counted(inner);
                found = found || (head && head->var == wanted.var &&
                                  (wanted.line == 0 || inner.line == wanted.line));
            });
            if (found) {
                const std::vector<Stmt> plain = s.orelse;
                list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
                list.insert(list.begin() + static_cast<std::ptrdiff_t>(i), plain.begin(),
                            plain.end());
                return true;
            }
        }
        if (undo_tile(s.body, wanted) || undo_tile(s.orelse, wanted))
            return true;
    }
    return false;
}

}  // namespace

Outcome register_tile(const Function& original, const LoopName& wanted, long rows, long columns,
                      bool pack, bool checked) {
    if (rows < 1 || rows > 16 || columns < 1 || columns > 8 || rows * columns > 32)
        return refuse("a register tile has at most 16 rows, 8 vectors and 32 of both");
    (void)checked;  // it cannot be written down at all unless the nest is understood
    Function f = original;
    std::string why = no_loop(wanted);
    undo_tile(f.body, wanted);
    // Sums in memory first become sums in registers.
    for (int round = 0; round < 8; ++round) {
        bool moved = false;
        for (const LoopPlace& place : loops_of(f))
            if (place.innermost && place.head.var != wanted.var && !moved) {
                LoopName inner;
                inner.var = place.head.var;
                inner.line = place.loop().line;
                const Outcome better = register_sums(f, inner, true);
                if (better.function) {
                    f = *better.function;
                    moved = true;
                }
            }
        if (!moved)
            break;
    }
    for (int attempt = 0; attempt < 2; ++attempt) {
        const Environment env = environment_of(f);
        for (const LoopPlace& place : loops_of(f)) {
            const bool inside_nest =
                std::any_of(place.around.begin(), place.around.end(),
                            [&](const Counted& c) { return c.var == wanted.var; });
            if (inside_nest)
                continue;
            std::optional<TileNest> nest = tile_nest(place, wanted, env, why);
            if (!nest)
                continue;
            if (wanted.line > 0 && attempt == 0 && place.loop().line > wanted.line)
                continue;
            if (loops_inside(nest->body).empty()) {
                why = "there is no inner loop to keep results in registers for";
                continue;
            }
            if (!nest->rows || rows == 1) {
                if (nest->rows) {
                    nest->outside.push_back(*nest->rows);
                    nest->rows.reset();
                }
            }
            const long r = nest->rows ? rows : 1;
            const Effects effects = effects_of(nest->body, env);
            std::string type;
            bool repeatable = true;  // running an iteration twice does no harm
            for (const Access& a : effects.accesses)
                if (a.write) {
                    if (type.empty())
                        type = element_type(env, a.through);
                    repeatable = repeatable && a.update == "=";
                    for (const Access& b : effects.accesses)
                        if (b.root == a.root && (!b.write || b.update != "="))
                            repeatable = false;
                }
            if (type != "float" && type != "double") {
                why = "the results are no floating-point numbers";
                continue;
            }
            const std::string across = nest->rows ? nest->rows->var : "";
            Vectoriser vectors(f, env, nest->along.var, across, r, columns, type);
            const long span = vectors.width() * columns;
            // What to pack: an array read along the vectors in the one inner loop, the same for all
            // rows.
            std::vector<Stmt> packing;
            std::vector<std::string> includes = {"<algorithm>"};
            std::optional<Stmt> panel_declaration;
            if (pack) {
                const std::vector<Counted> inner = loops_inside(nest->body);
                if (inner.size() != 1 || !nest->rows) {
                    why = "packing needs one inner loop and rows that share the panel";
                    continue;
                }
                const Counted& k = inner[0];
                Expr source;
                bool found = false;
                for_each_top_expression(nest->body, [&](const Expr& top) {
                    for_each_expression(top, [&](const Expr& e) {
                        if (e.kind != ExprKind::index || found || e.args[0].kind != ExprKind::name)
                            return;
                        const Effects of = effects_of(e, env);
                        if (of.accesses.size() != 1 || !of.accesses[0].known ||
                            effects.writes_root(of.accesses[0].root))
                            return;
                        const Poly& p = of.accesses[0].subscripts[0];
                        const std::optional<Poly> stride = poly_stride(p, nest->along.var);
                        if (stride && poly_number(*stride) == 1 && poly_mentions(p, k.var) &&
                            !poly_mentions(p, nest->rows->var) &&
                            element_type(env, of.accesses[0].through) == type) {
                            source = e;
                            found = true;
                        }
                    });
                });
                if (!found) {
                    why = "no array is read along the vectors by all rows alike";
                    continue;
                }
                // Another reading of the same array would find the panel instead.
                int readings = 0;
                const std::string root = effects_of(source, env).accesses[0].root;
                for (const Access& a : effects.accesses)
                    readings += a.root == root ? 1 : 0;
                if (readings != 1) {
                    why = fmt::format("{} is read in several places", root);
                    continue;
                }
                const std::string panel = fresh(f, root + "_panel");
                const Expr row = is_zero(k.low) ? name(k.var) : difference(name(k.var), k.low);
                vectors.use_panel(root, panel, row);
                const Expr length = is_zero(k.low) ? end_of(k) : difference(end_of(k), k.low);
                Stmt buffer;
                buffer.kind = StmtKind::raw;
                buffer.text = fmt::format(
                    "std::unique_ptr<{0}[]> {1}(new "
                    "{0}[static_cast<std::size_t>(std::max<{2}>({3}, 0)) * {4} + {4}]);",
                    type, panel, index_type(k), print(length), span);
                panel_declaration = buffer;
                Counted lane;
                lane.type = "int";
                lane.var = fresh(f, "lane");
                lane.low = number(0);
                lane.bound = number(span);
                Expr from =
                    substitute(source, nest->along.var, sum(name(nest->along.var), name(lane.var)));
                const Expr to = index(name(panel), sum(product(row, number(span)), name(lane.var)));
                packing.push_back(counting_loop(
                    k, {counting_loop(lane, {statement(assign(to, "=", std::move(from)))})}));
                includes.insert(includes.end(), {"<cstddef>", "<memory>"});
            }
            std::vector<Stmt> tile_body;
            if (!vectors.rewrite(nest->body, tile_body)) {
                why = vectors.why();
                continue;
            }
            Stmt fallback = counting_loop(nest->along, nest->body);
            if (nest->rows)
                fallback = counting_loop(*nest->rows, {std::move(fallback)});
            std::set<std::string> taken;
            const std::string along_tile = fresh(f, nest->along.var + "_tile", taken);
            taken.insert(along_tile);
            std::vector<Stmt> out;
            if (repeatable) {
                // The last tile moves back so that it is whole; what it computes twice comes out
                // the same.
                auto start = [&](const Counted& head, const std::string& tile_variable, long size) {
                    return declare(
                        "const " + index_type(head), head.var,
                        call(fmt::format("std::min<{}>", index_type(head)),
                             {name(tile_variable), difference(end_of(head), number(size))}));
                };
                std::vector<Stmt> inner = std::move(tile_body);
                Expr enough = binary(is_zero(nest->along.low)
                                         ? end_of(nest->along)
                                         : difference(end_of(nest->along), nest->along.low),
                                     ">=", number(span));
                if (nest->rows) {
                    const std::string row_tile = fresh(f, nest->rows->var + "_tile", taken);
                    inner.insert(inner.begin(), start(*nest->rows, row_tile, r));
                    inner = {counting_loop(tile_loop(*nest->rows, row_tile, r), std::move(inner))};
                    enough = binary(std::move(enough), "&&",
                                    binary(is_zero(nest->rows->low)
                                               ? end_of(*nest->rows)
                                               : difference(end_of(*nest->rows), nest->rows->low),
                                           ">=", number(r)));
                }
                inner.insert(inner.begin(), packing.begin(), packing.end());
                inner.insert(inner.begin(), start(nest->along, along_tile, span));
                Stmt branch;
                branch.kind = StmtKind::branch;
                branch.expr = std::move(enough);
                if (panel_declaration)
                    branch.body.push_back(*panel_declaration);
                branch.body.push_back(
                    counting_loop(tile_loop(nest->along, along_tile, span), std::move(inner)));
                branch.has_else = true;
                branch.orelse = {std::move(fallback)};
                out = {std::move(branch)};
            } else {
                // Sums that start from what is there must run once each: whole tiles, then the
                // rest.
                const std::string along_end = fresh(f, nest->along.var + "_main");
                auto whole = [&](const Counted& head, const std::string& variable, long size) {
                    const Expr length =
                        is_zero(head.low) ? end_of(head) : difference(end_of(head), head.low);
                    const Expr rounded =
                        binary(binary(length, "/", number(size)), "*", number(size));
                    return declare("const " + index_type(head), variable,
                                   is_zero(head.low) ? rounded : binary(head.low, "+", rounded));
                };
                out.push_back(whole(nest->along, along_end, span));
                Counted along_main = nest->along;
                along_main.bound = name(along_end);
                along_main.inclusive = false;
                along_main.step = span;
                Counted along_rest = nest->along;
                along_rest.low = name(along_end);
                if (panel_declaration)
                    out.push_back(*panel_declaration);
                std::vector<Stmt> inner = std::move(tile_body);
                if (nest->rows) {
                    const std::string row_end = fresh(f, nest->rows->var + "_main");
                    out.push_back(whole(*nest->rows, row_end, r));
                    Counted main = *nest->rows;
                    main.bound = name(row_end);
                    main.inclusive = false;
                    main.step = r;
                    Counted rest = *nest->rows;
                    rest.low = name(row_end);
                    std::vector<Stmt> single;
                    Vectoriser one_row(f, env, nest->along.var, "", 1, columns, type);
                    if (!one_row.rewrite(nest->body, single)) {
                        why = one_row.why();
                        continue;
                    }
                    inner = {counting_loop(main, std::move(inner)),
                             counting_loop(rest, std::move(single))};
                }
                inner.insert(inner.begin(), packing.begin(), packing.end());
                out.push_back(counting_loop(along_main, std::move(inner)));
                Stmt tail = counting_loop(along_rest, nest->body);
                if (nest->rows)
                    tail = counting_loop(*nest->rows, {std::move(tail)});
                out.push_back(std::move(tail));
            }
            for (auto it = nest->outside.rbegin(); it != nest->outside.rend(); ++it)
                out = {counting_loop(*it, std::move(out))};
            replace_at(place, std::move(out));
            Outcome result = done(std::move(f));
            result.includes = std::move(includes);
            result.helpers = {vector_type_line(type)};
            return result;
        }
        if (attempt == 0 && !gather_sums(f, wanted, why))
            break;
    }
    return refuse(why);
}

}  // namespace loopscope::rules
