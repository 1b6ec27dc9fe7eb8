// The learning loop: select parent -> feedback -> plan -> propose -> evaluate -> keep.
//
// What step s sees is a function of step numbers and stored results: all steps up to s - width,
// never "whatever happened to finish". So several proposals are in flight, there is no barrier, and
// a resumed run is the same run.
#pragma once
#include "core/rng.h"
#include "evaluate/task.h"
#include "loop/engine.h"
#include "record/candidate.h"
#include "record/feedback.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace loopscope {

struct RunConfig {
    std::vector<std::string> starts;  // names; empty = the task's baseline
    int steps = 20;                   // proposals
    int width = 3;                    // in flight
    int population = 4;               // the best few that parents are taken from
    double repair_probability =
        0.2;  // a failed candidate becomes the parent instead, if there is one
    std::vector<std::string> components;  // feedback shown; empty = the task's
    Mode mode = Mode::raw;
    bool planning = true;
    std::uint64_t seed = 1;
};

// The study's configuration as canonical JSON (defaults filled in, models, task) and its id: the
// same command is the same study.
std::string run_config_json(const Engine& engine, const Task& task, const RunConfig& config);

// Called after every step: candidates done, of how many, the best so far (may be null).
using RunProgress = std::function<void(std::size_t done, std::size_t total, const Candidate* best)>;

// Runs or resumes the study and returns its id. Throws StudyStopped when it cannot go on.
awaitable<std::string> run_study(Engine& engine, const Task& task, const RunConfig& config,
                                 const RunProgress& progress);

// The parent of a step: with repair_probability a failed candidate (the least repaired, then the
// latest), else one of the `population` fastest distinct programs, the k-th with weight 1 / k.
// `seen` is not empty.
const Candidate& select_parent(const std::vector<const Candidate*>& seen, const RunConfig& config,
                               Rng rng);

// The fastest candidate by published speed-up (for other evaluators by metric "score"), or null
// when none passes.
const Candidate* best_of(const std::vector<const Candidate*>& seen);

}  // namespace loopscope
