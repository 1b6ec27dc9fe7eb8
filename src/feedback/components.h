// The components one by one, and what they share. feedback.h is the room's face.
#pragma once
#include "core/async.h"
#include "core/result.h"
#include "evaluate/machine.h"
#include "evaluate/parse.h"
#include "evaluate/sandbox.h"
#include "evaluate/task.h"
#include "feedback/feedback.h"
#include "record/feedback.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

awaitable<Result<Feedback>> debugger_feedback(Machine& machine, const Subject& subject);
awaitable<Result<Feedback>> analyzer_feedback(Machine& machine, const Subject& subject);
awaitable<Result<Feedback>> profiler_feedback(Machine& machine, const Subject& subject,
                                              const Roof* roof);
awaitable<Result<Feedback>> command_feedback(Machine& machine, const std::string& component,
                                             const Subject& subject);

// A user's command with the files of the task's folder that its words name: path -> bytes. Errors:
// a file outside of the folder or unreadable.
Result<std::map<std::string, std::string>> files_of_command(const Task& task,
                                                            const std::vector<std::string>& argv);

// Where a program lies on the sandbox's PATH, or "".
std::string find_tool(std::string_view name);
// The first line that `name --version` prints with a digit in it, "" when it is not installed.
// Asked once a process.
awaitable<std::string> tool_version(std::string name);

// A job over the artifact's and the support files, on a build slot.
awaitable<Result<SandboxResult>> run_tool(Machine& machine, const Task& task,
                                          const Program& program, std::vector<std::string> argv,
                                          double seconds);
// The artifact's files that a compiler is given.
std::vector<std::string> source_files(const Program& program);
// All of the artifact's files, for telling them from the system's.
std::vector<std::string> own_files(const Program& program);

// Floating-point operations of one call at `sizes` as the task declares them; without a declaration
// the elements of its arrays. 0 = neither is known.
double work_of(const KernelSpec& kernel, const Sizes& sizes);
// Bytes of one call: declared, else every array moved once. 0 = not known.
double bytes_of(const KernelSpec& kernel, const Sizes& sizes);

// At most `bytes` of `text`, the line that tells of the cut included.
std::string within(std::string_view text, std::size_t bytes);

// "0 <= k < n, step 1".
std::string bounds_text(const SourceLoop& loop);
// Its variable, else its kind.
std::string loop_name(const SourceLoop& loop);

// "1 error", "3 errors".
std::string counted(std::size_t count, std::string_view noun);

}  // namespace loopscope
