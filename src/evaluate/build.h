// Building untrusted and trusted sources inside the sandbox. build(), build_reference() and
// build_peer() are declared in evaluate/kernel.h; this is what the other parts of the room need
// besides.
#pragma once
#include "core/async.h"
#include "core/result.h"
#include "evaluate/harness.h"
#include "evaluate/machine.h"
#include "evaluate/task.h"

#include <string>

namespace loopscope {

// The glue as a shared object, built once per signature.
awaitable<Result<std::string>> glue_object(Machine& machine, const Task& task, Side side);

// First line of `COMPILER --version`. Asked once.
awaitable<Result<std::string>> compiler_version(Machine& machine, const std::string& compiler);

}  // namespace loopscope
