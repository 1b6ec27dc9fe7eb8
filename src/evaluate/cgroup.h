// A control group around one job: bounds memory and processes of the whole tree and ends all of it,
// whatever it forked. Works with version 1 (memory, pids) and version 2; where neither can be
// written, make() gives an empty group and the sandbox falls back on limits of single processes.
#pragma once
#include "evaluate/machine.h"

#include <cstdint>
#include <string>
#include <vector>

namespace loopscope {

// Finds folders where groups can be made, by making and removing one, and removes groups whose
// program has died.
void find_control_groups(SandboxTier& tier);

class ControlGroup {
public:
    ControlGroup() = default;
    // memory_bytes and processes: 0 = no bound.
    static ControlGroup make(const SandboxTier& tier, std::uint64_t job, std::int64_t memory_bytes,
                             int processes);
    ControlGroup(ControlGroup&& other) noexcept;
    ControlGroup& operator=(ControlGroup&& other) noexcept;
    ControlGroup(const ControlGroup&) = delete;
    ControlGroup& operator=(const ControlGroup&) = delete;
    ~ControlGroup();  // kills what is left, waits for its end (at most 2 s), removes the group

    bool bounds_memory() const { return !memory_.empty(); }
    bool bounds_processes() const { return !processes_.empty(); }
    // The files to which a process writes "0" to enter.
    std::vector<std::string> entrances() const;
    bool out_of_memory() const;     // a process was killed for memory
    bool out_of_processes() const;  // a fork was refused
    void kill() const;              // SIGKILL to every member
    bool is_empty() const;

private:
    std::string memory_, processes_;
    bool unified_ = false;
};

}  // namespace loopscope
