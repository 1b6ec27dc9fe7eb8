// How builtin:rules decides: the moves it knows, their canonical sentences in a plan, and the
// choice among them by what the prompt's feedback says. Without feedback it picks among everything
// that can be written down, right or wrong.
#pragma once
#include "core/rng.h"
#include "llm/rules_facts.h"
#include "llm/rules_transform.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope::rules {

enum class Move {
    interchange,
    tile,
    unroll,
    register_sums,
    partial_sums,
    hoist,
    restrict_pointers,
    vectorize,
    split,
    arithmetic,
    row_pointers,
    register_tile,
    peel,
    segments,
    // repairs
    strict_bound,
    longer_loop,
    shorter_loop,
    later_start,
    initialise,
    transpose,
    swap_differences,
    add_tail,
    rename,
    include,
    insert,
};
bool is_repair(Move move);

struct Action {
    Move move = Move::hoist;
    std::string function;
    std::vector<LoopName> loops;
    long factor = 0;      // tile size, unroll factor, number of partial sums, vectors of a tile
    long rows = 0;        // of a register tile
    bool also = false;    // interchange: split off the initialisation; register tile: pack a panel
    std::string subject;  // initialise, transpose: the variable; rename: the wrong name; include:
                          // the header; insert: the text
    std::string object;   // rename: the right name
    int line = 0, column = 0;  // insert
    friend bool operator==(const Action&, const Action&);
};

// "Interchange loops j (line 4) and k (line 6) of matmul, splitting off the initialisation."
std::string sentence(const Action& action);
// Reads a sentence of a plan, canonical or in a model's own words, for a program with these
// functions. Nothing when no move that is known can be made out.
std::optional<Action> read_sentence(std::string_view text, std::string_view source,
                                    const std::vector<std::string>& functions);
// All steps of a plan, in order.
std::vector<Action> read_plan(std::string_view plan, std::string_view source,
                              const std::vector<std::string>& functions);

struct Applied {
    std::optional<std::string> source;
    std::string why;  // why not
};
// The source with the action carried out.
Applied apply(std::string_view source, const Action& action, bool checked);

// Every transformation that can be carried out on the source; with `checked` only what its
// dependences allow.
std::vector<Action> transformations(std::string_view source,
                                    const std::vector<std::string>& functions, bool checked);
// Every repair that could be tried on it, needed or not.
std::vector<Action> repairs(std::string_view source, const std::vector<std::string>& functions);

struct Decision {
    std::vector<Action> steps;
    std::vector<std::string> reasons;  // one a step
};
// What to do next with the source, as a function of the facts and the random numbers alone.
// `source` is one file and `functions` its editable ones. No steps: nothing applies.
Decision decide(std::string_view source, const std::vector<std::string>& functions,
                const Facts& facts, Rng rng);

}  // namespace loopscope::rules
