// What a piece of a function reads and writes, and which reorderings of its loops that allows. The
// reasoning is conservative: what is not understood is refused. One assumption is made and stated:
// distinct pointer parameters point to distinct arrays, as the interface of a kernel says.
#pragma once
#include "llm/rules_syntax.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace loopscope::rules {

// A polynomial with integer coefficients over names: "i * n + j - 1" is {i n: 1, j: 1, (): -1}.
struct Poly {
    std::map<std::vector<std::string>, long> terms;
    friend bool operator==(const Poly&, const Poly&) = default;
};
Poly operator+(const Poly& a, const Poly& b);
Poly operator-(const Poly& a, const Poly& b);
Poly operator*(const Poly& a, const Poly& b);
Poly poly_constant(long value);
Poly poly_name(const std::string& variable);
bool poly_mentions(const Poly& p, const std::string& variable);
Poly poly_replace(const Poly& p, const std::string& variable, const Poly& value);
// The factor of `variable` when it occurs only to the first power: stride("i * n + j", "i") = n.
std::optional<Poly> poly_stride(const Poly& p, const std::string& variable);
std::optional<long> poly_number(const Poly& p);
// Never negative, whatever sizes (>= 1) its names stand for.
bool poly_nonnegative(const Poly& p);

struct LocalPointer {
    std::string root;
    Poly offset;
};

// What the names of a function stand for.
struct Environment {
    std::map<std::string, std::string>
        types;  // variable -> type, "float", "const int"; without stars
    std::set<std::string>
        pointers;  // names that are subscripted: parameters, local pointers and arrays
    std::set<std::string> parameters;
    std::set<std::string> arrays;          // local arrays
    std::set<std::string> changed;         // scalars assigned somewhere besides their declaration
    std::set<std::string> loop_variables;  // declared in the head of a for
    std::map<std::string, Poly> values;    // integers that are set once
    std::map<std::string, LocalPointer>
        aliases;  // pointers that are set once, and their parameter or array
    std::map<std::string, Expr> initial;  // initialisers of what is set once
};
Environment environment_of(const Function& function);
// Without const and restrict: the type of what a pointer points to, or of a scalar; "" when
// unknown.
std::string element_type(const Environment& env, const std::string& variable);

std::optional<Poly> poly_of(const Expr& e, const Environment& env);

// One access to memory.
struct Access {
    std::string root;              // parameter or local array; "" = could be any
    std::string through;           // the name it is written with
    std::vector<Poly> subscripts;  // empty when not understood
    bool known = false;            // the subscripts are polynomials
    bool write = false;
    std::string update;  // "=" plain write, "+=" ... also read
    int line = 0;
};

struct Effects {
    std::vector<Access> accesses;
    std::set<std::string> reads, writes;  // of scalars
    std::map<std::string, std::set<std::string>>
        writes_by;  // scalar -> the operators that write it
    std::set<std::string> declares;
    bool unknown = false;  // calls or statements that are not understood
    bool jumps = false;    // break, continue, return
    std::string why;       // of `unknown`
    bool writes_root(const std::string& root) const;
};
Effects effects_of(const std::vector<Stmt>& statements, const Environment& env);
Effects effects_of(const Expr& e, const Environment& env);

// Functions of <cmath> that neither read nor write memory, with or without std::.
bool is_pure(const std::string& function);

// A loop of a function with the loops around it.
struct LoopPlace {
    std::vector<Stmt>* list = nullptr;  // where it stands
    std::size_t at = 0;
    std::vector<Counted> around;  // counting loops around it, outermost first
    std::vector<Stmt*> parents;   // the same as statements, all kinds of loops
    Counted head;
    Stmt& loop() const { return (*list)[at]; }
    bool innermost = false;
    // Left-over iterations, the other side of a test for a least size, a few lanes: not worth an
    // effort.
    bool minor = false;
    bool fallback = false;  // minor as the other side of a test for a least size
};
// "n >= 32 && m >= 4": whether a whole tile fits.
bool is_size_test(const Expr& e);
// Every counting loop of the function, outer before inner.
std::vector<LoopPlace> loops_of(Function& function);
// Counting loops inside these statements.
std::vector<Counted> loops_inside(const std::vector<Stmt>& statements);

// Largest value + 1 of a loop's variable, free of loop variables; several candidates from min().
struct Range {
    std::optional<Poly> low;
    std::vector<Poly> end;
};
Range range_of(const Counted& loop, const std::vector<Counted>& all, const Environment& env);

// Different values of the loop variables in it give different subscripts.
bool injective(const std::vector<Poly>& subscripts, const std::vector<Counted>& loops,
               const Environment& env);

// Whether iterations of `loop` may run in any order, also interleaved. `why` says why not.
bool parallel(const Counted& loop, const std::vector<Stmt>& body,
              const std::vector<Counted>& around, const Environment& env, std::string& why);
// Whether two loops of a perfect nest (outer's body is the inner loop) may change places; sums may
// be reordered.
bool permutable(const Counted& outer, const Counted& inner, const std::vector<Stmt>& body,
                const std::vector<Counted>& around, const Environment& env, std::string& why);

// A name of which neither itself nor any continuation by _0, _1 ... is used in the function.
// With `itself` false the name itself may be.
std::string fresh_base(const Function& function, const std::string& wish, bool itself = true);
// A name that is not used in the function: `wish`, `wish_2` ...
std::string fresh(const Function& function, const std::string& wish,
                  const std::set<std::string>& taken = {});

}  // namespace loopscope::rules
