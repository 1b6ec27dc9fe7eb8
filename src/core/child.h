// Child processes awaited without threads: a pidfd for the end, pipes for input and output, a timer
// for the deadline.
#pragma once
#include "core/async.h"
#include "core/result.h"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace loopscope {

struct Command {
    std::vector<std::string> argv;  // argv[0] is looked up in PATH of `environment`, or in ours
    std::vector<std::string> environment;  // "NAME=value"; complete: nothing is inherited
    std::string working_directory;         // "" = ours
    std::string input;                     // written to its standard input, then end of file
    std::chrono::milliseconds deadline{60'000};
    std::size_t max_output =
        1U << 20U;  // bytes kept of each of stdout and stderr; the rest is read and dropped
    std::vector<std::pair<int, int>>
        descriptors;  // (ours, theirs): descriptors the child gets besides 0, 1, 2
};

struct Exit {
    enum class Kind { exited, signalled, timed_out };
    Kind kind = Kind::exited;
    int code = 0;  // exit status, or the signal's number
    std::string out, err;
    bool cut = false;  // more output came than max_output
    double wall_seconds = 0, cpu_seconds = 0;
    long peak_kilobytes = 0;
};

// Runs it in a process group of its own. When its main process has ended or the deadline has passed
// the whole group is killed. An Error means it could not be started (no such program, no descriptor
// left). Cancellation kills the group and rethrows.
awaitable<Result<Exit>> run_child(Command command);

// "exit status 1", "killed by signal 9 (Killed)", "stopped at its time limit": for messages.
std::string describe(const Exit& exit);

}  // namespace loopscope
