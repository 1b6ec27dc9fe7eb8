// What each feedback component says of a candidate, passing or failing alike (docs/feedback.md).
#pragma once
#include "core/async.h"
#include "core/result.h"
#include "evaluate/kernel.h"
#include "evaluate/machine.h"
#include "evaluate/task.h"
#include "record/evaluation.h"
#include "record/feedback.h"

#include <string>
#include <vector>

namespace loopscope {

// What a component may look at. `evaluation` is that of the candidate.
struct Subject {
    const Task& task;
    const Program& program;
    const Evaluation& evaluation;
};

// Names known to the program, in their fixed order: debugger, analyzer, profiler; then the task's
// user components.
std::vector<std::string> component_names(const Task& task);

// Runs one component. The Error is for an unknown name or our own side failing; a candidate that
// cannot be analysed is a Feedback that says why.
awaitable<Result<Feedback>> make_feedback(Machine& machine, const std::string& component,
                                          const Subject& subject, const Roof* roof);
// Canonical JSON of what the component depends on (tool versions included), for the journal's key.
// The roof is no part of it: it belongs to the machine, whose fingerprint is.
awaitable<Result<std::string>> feedback_inputs(Machine& machine, const std::string& component,
                                               const Subject& subject);
// Whether rollouts share one result. True of all components: the profiler's times are the
// evaluation's, which is among its inputs (docs/feedback.md, "What is kept, and what is drawn
// anew").
bool is_deterministic(const std::string& component);

}  // namespace loopscope
