// The contract with a user's own program: what it reads and what it may print.
#pragma once
#include "llm/answer.h"
#include "llm/model.h"

#include <string>
#include <string_view>

namespace loopscope {

// One JSON document for its standard input.
std::string command_request(const ModelRequest& request);

// A JSON object with "text" or "error" is read as such, with unknown keys as a fault; anything else
// is the answer's text as it stands, less the line ends after it. Nothing printed is a fault.
AnswerOr parse_command_answer(std::string_view output);

}  // namespace loopscope
