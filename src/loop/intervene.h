// Freezing a run, and the crossing of its contexts with every coalition of feedback components.
#pragma once
#include "attribute/attribution.h"
#include "core/result.h"
#include "evaluate/task.h"
#include "loop/engine.h"
#include "record/candidate.h"
#include "record/feedback.h"
#include "trajectory/freeze.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace loopscope {

// Freezes a finished (or part-done) run of this journal. Errors: no such study, not a run, nothing
// to freeze.
Result<Trajectory> freeze_run(Journal& journal, const Task& task, const std::string& study,
                              const FreezeConfig& config);

struct InterveneConfig {
    std::vector<std::string> components;  // the players; empty = the task's
    Mode mode = Mode::raw;                // of the components in a coalition
    bool planning = true;
    int rollouts = 2, trials = 2;
    std::vector<std::string>
        strip;             // sections of the recorded prompt that are left out, e.g. history
    bool control = false;  // add an A/A copy of the empty coalition that draws its own answers
    int width = 3;         // samples in flight
    std::uint64_t seed = 1;
};

std::string intervene_config_json(const Engine& engine, const Task& task,
                                  const Trajectory& trajectory, const InterveneConfig& config);

// One arm a coalition, in the order of their masks; then the control arm if asked for.
std::vector<Arm> arms_of(const Engine& engine, const InterveneConfig& config);

using InterveneProgress = std::function<void(std::size_t done, std::size_t total)>;

// Runs or resumes the study and returns its id.
awaitable<std::string> intervene(Engine& engine, const Task& task, const Trajectory& trajectory,
                                 const InterveneConfig& config, const InterveneProgress& progress);

// What the attribution reads, from a study's rows: planned trials that are not there yet are
// missing.
Result<StudyData> load_trials(Journal& journal, const std::string& study);

}  // namespace loopscope
