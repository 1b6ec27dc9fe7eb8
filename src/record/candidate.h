// Candidates of a run, and the frozen states that a trajectory makes of them.
#pragma once
#include "record/evaluation.h"
#include "record/program.h"
#include "record/prompt.h"

#include <optional>
#include <string>
#include <vector>

namespace loopscope {

// One version of the artifact in a run.
struct Candidate {
    std::string id;      // "s0" for a start, "c12" for the proposal of step 12; unique in its study
    int generation = 0;  // starts are 0
    std::string parent;  // "" for a start
    Program program;     // empty when the edit was refused
    Evaluation evaluation;
    Prompt prompt;                        // shown to the coder for it; no sections for a start
    std::string plan;                     // the planner's answer that the prompt carried, or ""
    std::string answer;                   // the coder's raw answer
    std::string edit_error;               // why the answer did not apply, or ""
    std::string repeats;                  // id of an earlier candidate with the same program, or ""
    std::vector<std::string> components;  // feedback components that were shown
};

// One frozen state: a candidate that is to be improved, and the prompt that was shown for it.
struct Context {
    std::string id;         // first 16 digits of the SHA-256 of its candidate and prompt
    int generation = 0;     // of the candidate
    std::string candidate;  // its id in the source run
    std::string lineage;    // id of its root start: contexts of one lineage are not independent
    Program program;
    Evaluation evaluation;  // of that candidate
    Prompt prompt;          // the recorded coder prompt, feedback and plan sections left out
    std::string start;      // name of the start it descends from
};

struct Trajectory {
    std::string id;      // "t" and ten digits of its hash
    std::string task;    // folder of the task
    std::string source;  // the study it was frozen from
    std::vector<Context> contexts;
    std::vector<std::string>
        model_notes;  // "builtin:rules" and the like: figures made with them are labelled
};

}  // namespace loopscope
