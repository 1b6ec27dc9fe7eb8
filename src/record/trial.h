// One proposal and its evaluation from a context in an arm, and the outcome that the statistics
// read.
#pragma once
#include "record/evaluation.h"
#include "record/feedback.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace loopscope {

// One intervention. Players are the components in the study's order: player i = bit i of
// `coalition`.
struct Arm {
    std::string name;  // "{}", "{debugger,profiler}", ... or a preset's name
    std::uint32_t coalition = 0;
    Mode mode = Mode::raw;  // of the components in the coalition
    bool planning = true;
    std::string planner, coder;  // model ids
    bool control = false;        // an A/A copy: draws its own answers
};

// What the attribution reads of one trial. Statuses are cumulative.
struct Trial {
    std::string context;  // Context::id
    int generation = 0;
    std::string lineage;
    std::optional<Status> parent_status;  // for stratification
    int arm = 0;                          // index into the study's arms
    int rollout = 0, trial = 0;
    std::string
        prompt_hash;  // of the rendered coder prompt: equal ones are one arm in this context
    std::optional<Status> status;  // nullopt: missing, counts as a failure
    Reason reason = Reason::ok;
    std::string missing;     // why there is no status ("" when there is one)
    double log_speedup = 0;  // ln(baseline / candidate), 0 unless status >= pass
    double gain = 0;         // max(0, ln(parent / candidate)) if status >= pass else 0: keep-parent
    double cost = 0;         // dollars of its own calls, as far as known
    std::string entry;       // refs of the sample as JSON: stage -> journal key
};

}  // namespace loopscope
