// The stages of a sample, each run through the journal: found, or done and kept.
#pragma once
#include "core/async.h"
#include "evaluate/task.h"
#include "feedback/feedback.h"
#include "loop/engine.h"
#include "record/evaluation.h"
#include "record/feedback.h"
#include "record/program.h"
#include "record/prompt.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace loopscope {

// The machine's roof: measured once per machine fingerprint.
awaitable<Roof> recall_roof(Engine& engine);

// {"machine": ...}: the row by which a study's report knows where it was measured. The roof is that
// of one core times the task's cores, in the element type of its first floating-point output.
awaitable<std::string> machine_sample_json(Engine& engine, const Task& task);

struct EvaluateOptions {
    bool fresh = false;  // bypass reuse: build, verify and time again, whatever the journal holds
    int launches = 0;    // 0 = the default of TimingPlan
    double seconds_per_launch = 0;  // 0 = likewise
};

struct Evaluated {
    Evaluation evaluation;
    std::map<std::string, std::string> keys;  // stage -> journal key
};

// One candidate from program to verdict. `parent` (may be null) is timed beside it for the gain.
// `edit_error` non-empty: the proposal was refused, nothing is built. Our own side failing is
// retried once, then a null status.
awaitable<Evaluated> evaluate_candidate(Engine& engine, const Task& task, const Program& program,
                                        const Program* parent, const std::string& edit_error,
                                        const EvaluateOptions& options = {});

// Times a peer of the task against `program`: the outcome's speed-up is the program's time / the
// peer's time.
awaitable<Result<TimeOutcome>> time_against_peer(Engine& engine, const Task& task,
                                                 const Program& program, const Peer& peer);

struct Said {
    Feedback feedback;
    std::string key;
};
awaitable<Said> recall_feedback(Engine& engine, const Task& task, const std::string& component,
                                const Program& program, const Evaluation& evaluation);

// One model call. A reply, or why there is none; a fatal fault (wrong key, unknown model, budget)
// throws StudyStopped.
struct Answered {
    std::optional<ModelReply> reply;
    std::string missing;  // "network: ...": for Trial::missing
    std::string key;
};
awaitable<Answered> ask(Engine& engine, Model& model, const Prompt& prompt, std::string draw,
                        std::string position);

// What the call may cost at most, as far as the price is known: input by length (4 bytes a token),
// output by max_tokens.
std::optional<double> worst_case_cost(const Model& model, const Prompt& prompt);

}  // namespace loopscope
