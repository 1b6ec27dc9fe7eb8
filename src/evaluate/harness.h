// The generated glue between arguments in memory and a kernel's C signature.
#pragma once
#include "core/check.h"
#include "evaluate/task.h"

#include <string>

namespace loopscope {

// Raised whenever generated code, flags or protocol change, so that what the journal holds is not
// taken for current.
inline constexpr int harness_version = 1;

// Of a task that is known to have one.
inline const KernelSpec& kernel_of(const Task& task) {
    CHECK(task.kernel.has_value());
    return *task.kernel;
}

// Whose types: the candidate's as declared, or the reference's, where float is widened to double.
enum class Side { candidate, reference };

std::string entry_of(const KernelSpec& kernel, Side side);
// Forced into every source: a definition with other parameters does not compile.
std::string signature_header(const KernelSpec& kernel, Side side);
// extern "C" void loopscope_call(void (*entry)(), void** arguments): arguments[i] points at a
// scalar's value or is the array itself.
std::string glue_source(const KernelSpec& kernel, Side side);
// main() of the sanitized and simulated executables: reads the call in its first argument
// (call_file() in evaluate/inputs.h), puts every array into a heap block of exactly its size, and
// calls once through loopscope_call.
std::string standalone_source(const KernelSpec& kernel);

}  // namespace loopscope
