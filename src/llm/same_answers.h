// A server that gives the same answer to every draw makes repeats worthless: found from the answers
// themselves.
#pragma once
#include "record/prompt.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace loopscope {

// `answers` are (draw, text) pairs of one prompt. A warning when at least three different draws
// gave the same text and none another; "" otherwise, and at temperature 0, where that is what was
// asked for.
std::string same_answers_warning(std::string_view model_id, const Sampling& sampling,
                                 const std::vector<std::pair<std::string, std::string>>& answers);

}  // namespace loopscope
