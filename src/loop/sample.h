// One sample on its way from a state to its record: feedback -> [summaries] -> plan -> proposal ->
// evaluation.
#pragma once
#include "evaluate/task.h"
#include "loop/engine.h"
#include "record/candidate.h"
#include "record/feedback.h"
#include "record/trial.h"

#include <map>
#include <string>
#include <vector>

namespace loopscope {

// The journal keys a sample refers to.
struct SampleKeys {
    struct Call {
        Role role = Role::coder;
        std::string model, key;
        std::string position;  // of the call in its study: what `replay:` with by=position looks up
    };
    std::vector<Call> calls;
    std::map<std::string, std::string> stages;  // build, verify, time0, ..., "feedback: NAME"
};

struct SampleRequest {
    std::vector<std::string> components;  // whose feedback is shown, in order
    Mode mode = Mode::raw;
    bool planning = true;
    std::string summary_draw, plan_draw, proposal_draw;
    std::string position;  // of the sample in its study
};

struct Sampled {
    Program program;  // empty when the edit was refused or there was no answer
    Evaluation evaluation;
    Prompt prompt;            // the coder's
    std::string prompt_hash;  // of base prompt, planning mode and raw feedback: equal ones are one
                              // arm in this context
    std::string plan, answer, edit_error;
    std::string missing;  // why there is no proposal ("" when there is one)
    SampleKeys keys;
};

// What a plan and its proposals share: feedback, summaries and the plan itself.
struct Prepared {
    Prompt prompt;
    std::string prompt_hash, plan, missing;
    SampleKeys keys;
};
awaitable<Prepared> prepare(Engine& engine, const Task& task, const Prompt& base,
                            const Program& parent, const Evaluation& parent_evaluation,
                            const SampleRequest& request);
// From a prepared prompt to the evaluated proposal. `parent` is timed beside it.
awaitable<Sampled> propose(Engine& engine, const Task& task, const Prepared& prepared,
                           const Program& parent, const SampleRequest& request);
awaitable<Sampled> take_sample(Engine& engine, const Task& task, const Prompt& base,
                               const Program& parent, const Evaluation& parent_evaluation,
                               const SampleRequest& request);

// A letter for the kind and ten digits of the hash: the same configuration is the same study. The
// task's folder does not count, so that a moved task goes on.
std::string study_id(char kind, const std::string& config_json);

// The sample's row in the journal: {"candidate": ..., "keys": ...} or {"trial": ..., "keys": ...}.
std::string run_sample_json(const Candidate& candidate, const SampleKeys& keys);
std::string trial_sample_json(const Trial& trial, const SampleKeys& keys);
Result<SampleKeys> sample_keys(const std::string& sample_json);

}  // namespace loopscope
