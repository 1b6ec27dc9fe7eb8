// What can be guessed of a function's arguments by reading its loops: how large the arrays are,
// which are written. Guesses for `loopscope init`, which a person checks; nothing here decides an
// outcome.
//
// The idea: an index like i * n + k is largest where every loop variable is, so its value there,
// plus one, is how many elements the array needs. It is computed at a few sets of distinct primes
// and compared with simple shapes.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

struct ArrayGuess {
    std::vector<std::string>
        shape;              // one expression a dimension; empty: no index could be understood
    bool assigned = false;  // a[...] = ...
    bool updated = false;   // a[...] += ..., ++a[...]
    bool read = false;
    bool partly = false;  // assigned, but not in every element of `shape`
    std::string indexes;  // the first array whose index is one of its elements, "" = none
};

struct LoopGuess {
    std::map<std::string, ArrayGuess> arrays;  // by name; every one of `pointers`
    int depth = 0;                             // of the deepest loop nest
};

// `body` with its braces; `sizes` are the names of integer parameters, `pointers` of array
// parameters.
LoopGuess guess_from_loops(std::string_view body, const std::vector<std::string>& sizes,
                           const std::vector<std::string>& pointers);

}  // namespace loopscope
