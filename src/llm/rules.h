// builtin:rules, a deterministic rule-based kernel engineer that reads the prompts a language model
// would read and answers in the same form: as planner with a short numbered plan, as coder with the
// whole file, as summarizer with key lines. It knows classical loop transformations and repairs of
// C and C++ (docs/models.md) and acts only on what its prompt says, so that an attribution over
// feedback components has real effects to find.
#pragma once
#include "llm/model.h"

#include <memory>
#include <string>

namespace loopscope {

// The answer to a request, as a function of its role, its messages and its draw.
std::string rules_answer(const ModelRequest& request);

std::unique_ptr<Model> open_rules();

}  // namespace loopscope
