// The part of C++ that builtin:rules understands: functions as trees of loops and statements, read
// from source and printed back. What does not parse is kept as raw text, so that a function is
// never damaged, only left alone.
#pragma once
#include "core/result.h"

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope::rules {

enum class ExprKind {
    none,         // no expression, e.g. the condition of for (;;)
    name,         // text: "x", "std::sqrt", "static_cast<float>"
    literal,      // text: number, string, character
    unary,        // text: the operator; args[0]
    postfix,      // text: "++" or "--"; args[0]
    binary,       // text: the operator; args[0], args[1]
    assign,       // text: "=", "+=", ...; args[0], args[1]
    conditional,  // args[0] ? args[1] : args[2]
    call,         // args[0] is what is called, the rest are its arguments
    index,        // args[0][args[1]]
    member,       // text: ".x" or "->x"; args[0]
    cast,         // text: the type; args[0]
    braces,       // text: a type or ""; args are the elements
    comma,        // args[0], args[1]
};

struct Expr {
    ExprKind kind = ExprKind::none;
    std::string text;
    std::vector<Expr> args;
    friend bool operator==(const Expr&, const Expr&) = default;
};

Expr name(std::string text);
Expr number(long value);
Expr literal(std::string text);
Expr unary(std::string op, Expr a);
Expr binary(Expr a, std::string op, Expr b);
Expr assign(Expr a, std::string op, Expr b);
Expr call(std::string function, std::vector<Expr> arguments);
Expr index(Expr array, Expr subscript);
// a + b, a - b and a * b with constants folded and zeros and ones left out.
Expr sum(Expr a, Expr b);
Expr difference(Expr a, Expr b);
Expr product(Expr a, Expr b);

std::string print(const Expr& e);
// `e` with every occurrence of the variable replaced.
Expr substitute(const Expr& e, const std::string& variable, const Expr& value);
bool mentions(const Expr& e, const std::string& variable);
std::optional<long> constant_value(const Expr& e);  // of integer literals and their + - * /

struct Declarator {
    std::string pointers;  // "", "*", "* __restrict"
    std::string name;
    std::vector<Expr> dimensions;
    std::optional<Expr> init;
    bool brace_init = false;  // `x{1}` and not `x = 1`
};

enum class StmtKind {
    expression,
    declaration,
    block,
    loop,
    loop_while,
    loop_do,
    branch,
    jump,
    directive,
    comment,
    raw
};

struct Stmt {
    StmtKind kind = StmtKind::raw;
    int line = 0;  // in the source, 0 for what was made
    std::string
        text;   // declaration: its type; jump: "return", "break", ...; directive, comment, raw
    Expr expr;  // expression; condition of while, do, if and for; value of return
    Expr step;  // for
    std::vector<Stmt> init;  // for: at most one statement
    std::vector<Declarator> declarators;
    std::vector<Stmt> body, orelse;
    bool has_else = false;
};

Stmt statement(Expr e);
Stmt declare(std::string type, std::string variable, std::optional<Expr> init,
             std::string pointers = "");
Stmt block(std::vector<Stmt> body);
Stmt directive(std::string text);

// A counting loop: for (type var = low; var < bound; var += step). With `inclusive` the comparison
// is <=.
struct Counted {
    std::string type, var;
    Expr low, bound;
    bool inclusive = false;
    long step = 1;
};
std::optional<Counted> counted(const Stmt& stmt);
Stmt counting_loop(const Counted& head, std::vector<Stmt> body);

struct Parameter {
    std::string type;      // "const float"
    std::string pointers;  // "*", "* __restrict__"
    std::string name;
    bool array = false;  // declared as x[] or x[n][m]
};

struct Function {
    std::string name;
    std::string head;  // as written, up to the opening brace
    std::vector<Parameter> parameters;
    std::vector<Stmt> body;
    bool conditional = false;     // has #if lines inside: not to be transformed
    std::set<std::string> types;  // type names known in its file
};

// The function's definition in `source`. Errors of find_function, and a parameter list that is not
// understood.
Result<Function> parse_function(std::string_view source, const std::string& name);
std::string print(const Function& function);
std::string print(const std::vector<Stmt>& statements, int indent = 0);
// One expression, for repairs and tests; nullopt when it does not parse as a whole.
std::optional<Expr> parse_expression(std::string_view text,
                                     const std::set<std::string>& types = {});

// Every statement below, in source order, the outer before the inner.
template <class F>
void for_each_statement(const std::vector<Stmt>& statements, const F& f) {
    for (const Stmt& s : statements) {
        f(s);
        for_each_statement(s.init, f);
        for_each_statement(s.body, f);
        for_each_statement(s.orelse, f);
    }
}
template <class F>
void for_each_statement(std::vector<Stmt>& statements, const F& f) {
    for (Stmt& s : statements) {
        f(s);
        for_each_statement(s.init, f);
        for_each_statement(s.body, f);
        for_each_statement(s.orelse, f);
    }
}
// Every expression at the top of a statement (conditions, initialisers, dimensions ...), for
// reading or changing.
template <class S, class F>
void for_each_top_expression(S& statements, const F& f) {
    for_each_statement(statements, [&](auto& s) {
        f(s.expr);
        f(s.step);
        for (auto& d : s.declarators) {
            for (auto& dimension : d.dimensions)
                f(dimension);
            if (d.init)
                f(*d.init);
        }
    });
}
// Every expression below `e`, the outer before the inner.
template <class E, class F>
void for_each_expression(E& e, const F& f) {
    f(e);
    for (auto& argument : e.args)
        for_each_expression(argument, f);
}
std::vector<Stmt> substitute(std::vector<Stmt> statements, const std::string& variable,
                             const Expr& value);
bool mentions(const std::vector<Stmt>& statements, const std::string& variable);

}  // namespace loopscope::rules
