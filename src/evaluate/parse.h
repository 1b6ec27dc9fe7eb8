// The structure of a candidate's source: loops, array accesses with their strides, arithmetic
// (docs/feedback.md).
//
// Parsing text that a model wrote is done by loopscope-parse, a program of its own, inside the
// sandbox; what comes back is JSON, and this is its form in memory.
#pragma once
#include "core/async.h"
#include "core/result.h"
#include "evaluate/machine.h"
#include "evaluate/task.h"
#include "record/program.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

// Floating-point operations as written, vector types counted by lane; a fused multiply-add is one
// add and one multiply.
struct OperationCount {
    std::int64_t adds = 0, multiplies = 0, divisions = 0, square_roots = 0;
    std::int64_t calls = 0;  // to other mathematical functions (exp, sin, pow, ...)
    std::int64_t flops() const { return adds + multiplies + divisions + square_roots + calls; }
};

// Places are 1-based lines and columns. Texts are as written, white space normalised; "" = not
// found.
struct SourceLoop {
    int id = 0;       // index in SourceFunction::loops
    int parent = -1;  // id of the loop around it, -1 = none
    int depth = 1;    // 1 = outermost of its function
    int line = 0, column = 0, end_line = 0;
    std::string kind;  // "for", "while", "do", "range"
    std::string variable;
    std::string lower;       // first value (of a descending loop: the highest)
    std::string comparison;  // "<", "<=", ">", ">=", "!="
    std::string upper;       // what the variable is compared with
    std::string step;        // "1", "-1", "block"; "" = unknown
    std::string condition;   // of a loop that is not of the counting form
    bool innermost = true;
    OperationCount operations;       // of one iteration, those of inner loops left out
    std::vector<int> branch_lines;   // if, switch and ?: in its body, inner loops left out
    std::vector<std::string> calls;  // functions called in its body: "name"
};

// How an address moves from one iteration of a loop to the next.
struct Stride {
    int loop = 0;          // SourceLoop::id
    std::string variable;  // of that loop
    bool affine = false;
    bool indirect = false;  // not affine because the index was itself read from an array
    std::string elements;   // "n", "1", "0", "64 * n", "-1"; "not affine"
    std::optional<std::int64_t> constant;  // when it is a number
};

struct ArrayAccess {
    std::string base;        // the array or pointer that it goes back to, local aliases resolved
    bool parameter = false;  // base is a parameter of the function
    std::string text;        // "b[k * n + j]"
    int line = 0, column = 0;
    bool read = false, written = false;
    bool conditional = false;  // under an if inside its innermost loop
    std::int64_t element_bytes = 0;
    int lanes = 1;                // elements moved at once (vector types)
    int loop = -1;                // innermost loop around it, -1 = none
    std::vector<Stride> strides;  // one a loop around it, innermost first
};

// A scalar that a loop accumulates into.
struct Reduction {
    std::string variable;
    std::string operation;  // "+", "*", "-", "min", "max", "|", ...
    int line = 0;
    int loop = 0;  // the innermost loop around the update
    bool floating = false;
};

struct SourceFunction {
    std::string name;
    std::string file;
    int line = 0, end_line = 0;
    std::vector<std::string> parameters;
    std::vector<SourceLoop> loops;      // in the order of the text
    std::vector<ArrayAccess> accesses;  // in the order of the text, equal ones of one loop merged
    std::vector<Reduction> reductions;
    OperationCount operations;  // outside of all loops
};

struct SourceStructure {
    std::vector<SourceFunction> functions;  // defined in the artifact's own files
    int errors = 0;                         // the parser's: with some, the structure may be partial
    std::string problem;                    // why there is no structure at all, or ""
    bool cut = false;                       // more functions, loops or accesses than are listed
};

// Reads what loopscope-parse printed. Errors: not JSON, a missing or mistyped field, an id out of
// range.
Result<SourceStructure> decode_structure(std::string_view text);

// Parses the artifact's C-family files in the sandbox. A source that cannot be parsed is a
// structure with a `problem`; an Error is our own side failing (no sandbox, no loopscope-parse
// beside the program).
awaitable<Result<SourceStructure>> parse_source(Machine& machine, const Task& task,
                                                const Program& program);

// The version of the parser's output and of the library behind it, for journal keys.
inline constexpr int structure_version = 1;

}  // namespace loopscope
