// builtin:synthetic, a planner and coder with a known value function: the positive control of the
// attribution.
#pragma once
#include "core/result.h"
#include "llm/model.h"

#include <memory>
#include <string_view>

namespace loopscope {

// truth_file: a JSON file with the value of each coalition; "" = the built-in one.
Result<std::unique_ptr<Model>> open_synthetic(std::string_view truth_file);

}  // namespace loopscope
