// The classical loop transformations of builtin:rules, each a function from a function to a better
// one. With `checked` a transformation is refused unless the dependences allow it; without, it is
// carried out as told wherever the text permits, which is how a wrong plan becomes a wrong program.
#pragma once
#include "llm/rules_depend.h"
#include "llm/rules_syntax.h"

#include <optional>
#include <string>
#include <vector>

namespace loopscope::rules {

struct Outcome {
    std::optional<Function> function;  // nothing: refused or not applicable, `why` says why
    std::string why;
    std::vector<std::string> includes;  // "<algorithm>"
    std::vector<std::string> helpers;   // lines of file scope that the function needs
};

// A loop as plans name it: its variable, and its line when several loops share the variable (0 =
// the first that fits).
struct LoopName {
    std::string var;
    int line = 0;
};

// Exchanges two nested loops. Statements between them are split off when `split` and the pattern is
// an accumulation.
Outcome interchange(const Function& original, const LoopName& outer, const LoopName& inner,
                    bool split, bool checked);
// Writes the accumulation of a loop straight to memory and its initialisation into a loop of its
// own before.
Outcome split_initialisation(const Function& original, const LoopName& wanted, bool checked);
// Tiles loops of a perfect nest: tile loops outside, in the order of the nest.
Outcome tile(const Function& original, const std::vector<LoopName>& wanted, long size,
             bool checked);
// Unrolls an innermost loop, with a loop for the remaining iterations.
Outcome unroll(const Function& original, const LoopName& wanted, long factor, bool checked);
// Keeps array elements that a loop accumulates into in registers.
Outcome register_sums(const Function& original, const LoopName& wanted, bool checked);
// Breaks the chain of a sum: `count` vector accumulators where memory is contiguous, else scalar
// ones. Reorders the sum.
Outcome partial_sums(const Function& original, const LoopName& wanted, long count, bool checked);
// Moves what an innermost loop computes again and again before it.
Outcome hoist(const Function& original, const LoopName& wanted, bool checked);
// Uses the array parameters through local restrict pointers.
Outcome restrict_pointers(const Function& original, bool checked);
// Asks the compiler to vectorise a loop; permits it to reorder a sum.
Outcome vectorize_pragma(const Function& original, const LoopName& wanted, bool checked);
// One reciprocal for repeated divisions, square roots without errno, products for small powers,
// single precision throughout.
Outcome cheaper_arithmetic(const Function& original, bool checked);
// Pointers to the rows that an innermost loop walks along.
Outcome row_pointers(const Function& original, const LoopName& wanted, bool checked);
// Computes rows x vectors of the results at a time in vector registers; `pack`: copies what is read
// along the vectors into a contiguous panel first. `wanted` runs along the vectors; the rows are
// those of a loop directly around or inside it.
Outcome register_tile(const Function& original, const LoopName& wanted, long rows, long columns,
                      bool pack, bool checked);
// Runs the first and last iterations, which conditions in the body single out, before and after the
// loop.
Outcome peel(const Function& original, const LoopName& wanted, bool checked);

// Turns a running search for the segment that a loop is in, while (v >= start[s + 1]) ++s, into a
// loop over the segments around a loop over each one's elements. Supposes that the starts are
// sorted and begin at zero, as the search does.
Outcome segments(const Function& original, const LoopName& wanted, bool checked);

// Name of the vector type of 64 bytes, and the line that declares it.
std::string vector_type(const std::string& scalar);
std::string vector_type_line(const std::string& scalar);

}  // namespace loopscope::rules
