// JSON forms of everything that travels. The keys are part of the journal's format
// (docs/journal.md).
//
// Readers accept unknown keys (a newer program wrote them) and report a missing or mistyped one as
// an Error.
#pragma once
#include "core/result.h"
#include "record/candidate.h"
#include "record/evaluation.h"
#include "record/feedback.h"
#include "record/program.h"
#include "record/prompt.h"
#include "record/trial.h"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace loopscope {

// One line of JSON with sorted keys: equal values give equal bytes.
std::string encode(const Program& value);
std::string encode(const Evaluation& value);
std::string encode(const BuildOutcome& value);  // the object's bytes as base64
std::string encode(const VerifyOutcome& value);
std::string encode(const TimeOutcome& value);
std::string encode(const Feedback& value);
std::string encode(const Prompt& value);
std::string encode(const ModelReply& value);
std::string encode(const Candidate& value);
std::string encode(const Context& value);
std::string encode(const Trajectory& value);
std::string encode(const Arm& value);
std::string encode(const Trial& value);

// T is any of the types above.
template <class T>
Result<T> decode(std::string_view json);
template <>
Result<Program> decode<Program>(std::string_view json);
template <>
Result<Evaluation> decode<Evaluation>(std::string_view json);
template <>
Result<BuildOutcome> decode<BuildOutcome>(std::string_view json);
template <>
Result<VerifyOutcome> decode<VerifyOutcome>(std::string_view json);
template <>
Result<TimeOutcome> decode<TimeOutcome>(std::string_view json);
template <>
Result<Feedback> decode<Feedback>(std::string_view json);
template <>
Result<Prompt> decode<Prompt>(std::string_view json);
template <>
Result<ModelReply> decode<ModelReply>(std::string_view json);
template <>
Result<Candidate> decode<Candidate>(std::string_view json);
template <>
Result<Context> decode<Context>(std::string_view json);
template <>
Result<Trajectory> decode<Trajectory>(std::string_view json);
template <>
Result<Arm> decode<Arm>(std::string_view json);
template <>
Result<Trial> decode<Trial>(std::string_view json);

}  // namespace loopscope
