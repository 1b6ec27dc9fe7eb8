// The prompts of the three roles, as lists of named sections.
#pragma once
#include "evaluate/task.h"
#include "record/candidate.h"
#include "record/feedback.h"
#include "record/prompt.h"

#include <string>
#include <vector>

namespace loopscope {

// One line of the history section.
struct Attempt {
    std::string id;
    Evaluation evaluation;
    std::string plan;  // its first line is shown
    std::string edit_error;
};

// What a coder is shown of a program that is to be improved, without feedback or plan: sections
// objective, interface, status, program, history, task. This is what a trajectory freezes.
Prompt base_prompt(const Task& task, const Program& program, const Evaluation& evaluation,
                   const std::vector<Attempt>& history);

// `text` is a component's raw text or its summary.
struct Shown {
    std::string component;
    std::string text;
};

// From a base prompt: feedback sections after `program`, in the given order, and the planner's
// task.
Prompt planner_prompt(const Prompt& base, const std::vector<Shown>& feedback,
                      std::size_t max_bytes);
// From a base prompt: the plan, or without planning the feedback itself, and the coder's task.
Prompt coder_prompt(const Prompt& base, const std::string& plan, const std::vector<Shown>& feedback,
                    std::size_t max_bytes);
Prompt summarizer_prompt(const Prompt& base, const Shown& feedback, std::size_t max_bytes);

// "fast: 4.10 times the baseline [3.95, 4.26], 5 launches"; "fail (build_error)": no detail of the
// fault.
std::string status_line(const Evaluation& evaluation);

}  // namespace loopscope
