// Freezing a run: its candidates become contexts, states at which the model can be asked again.
#pragma once
#include "core/result.h"
#include "record/candidate.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace loopscope {

struct FreezeConfig {
    enum class Select {
        parents,  // candidates that were a parent of something (the rule of CUDAnalyst), and failed
                  // ones to repair
        all,      // every distinct evaluated program
    };
    Select select = Select::all;
    int max_contexts = 0;    // 0 = no limit; else spread evenly over the generations
    std::uint64_t seed = 1;  // of the choice when there are more
};

// The contexts of a run, in order of proposal, one for each distinct program (program/edit.h,
// normal_form).
//
// candidates   of one run, parents before children
// starts       names of its starts: candidate "s0" is starts[0]
// base_prompt  what a coder would have been shown for a candidate that never was a parent
//
// The prompt of a context is that of its first child without feedback and plan. Its lineage is the
// first proposal after the start that it descends from: contexts of one lineage share history and
// are not independent. The task, source and id of the result are the caller's to fill in: see
// identify().
Trajectory freeze(const std::vector<Candidate>& candidates, const std::vector<std::string>& starts,
                  const FreezeConfig& config,
                  const std::function<Prompt(const Candidate&)>& base_prompt);

// "t" and ten digits of the hash of source and contexts.
std::string identify(const Trajectory& trajectory);

}  // namespace loopscope
