// Runs foreign programs - compilers on untrusted text, candidates, analysers - where they can reach
// nothing.
//
// No network, empty environment, read-only system, a private /work and /tmp, no other process
// visible, limits on time, memory, processes, files and output; the whole process tree is gone when
// the call returns.
#pragma once
#include "core/child.h"
#include "evaluate/machine.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace loopscope {

struct SandboxJob {
    std::vector<std::string> argv;             // run in /work
    std::map<std::string, std::string> files;  // put into /work before the start: path -> bytes
    std::vector<std::pair<std::string, std::string>>
        read_only;                     // (host path, path inside): extra binds
    std::vector<std::string> collect;  // files of /work brought back (absent ones are left out)
    std::map<std::string, std::string> environment;  // besides PATH, HOME=/work, LANG=C.UTF-8
    std::string input;
    std::vector<std::pair<int, int>> descriptors;  // (ours, theirs); theirs from 10 upwards
    double wall_seconds = 60, cpu_seconds = 60;
    std::int64_t memory_mb = 4096;        // of all its processes and files together
    bool reserves_address_space = false;  // built with a sanitizer: no limit on address space
    int processes = 64;
    std::int64_t file_mb = 64;     // of one file; /work and /tmp hold four of them
    std::int64_t output_kb = 256;  // kept of each of stdout and stderr, the rest is dropped
    std::vector<int> cpus;         // affinity; empty = the machine's build cores
};

struct SandboxResult {
    Exit exit;                                 // timed_out also at the limit of processor time
    std::map<std::string, std::string> files;  // those of `collect` that exist
    bool out_of_memory = false;                // as far as it can be told
    bool out_of_processes = false;
};

// An Error is our own side failing (no bwrap, no disk), never the job's.
awaitable<Result<SandboxResult>> run_sandboxed(Machine& machine, SandboxJob job);

// What a program finds around itself, for callers that start it on their own (evaluate/served.h).
struct Cage {
    enum class Root {
        tools,      // /usr, dynamic linker's cache, /proc, /dev, writable /work and /tmp
        libraries,  // all of /usr's libraries, nothing writable: trusted code that links some
        bare,       // the C and C++ runtime libraries one by one, nothing else at all: candidates
    };
    Root root = Root::tools;
    std::vector<std::pair<std::string, std::string>> read_only;
    std::map<std::string, std::string> environment;
    std::int64_t writable_bytes = 256 << 20;  // of /work, and again of /tmp
    int information_descriptor = -1;          // where bubblewrap tells the process it started
};
// The command line up to and including loopscope-runner's path; its own arguments follow.
// `entrances`: control groups to enter first.
std::vector<std::string> cage_command(const Machine& machine, const Cage& cage,
                                      const std::vector<std::string>& entrances);
// The uid that job `number` drops to; 0 = we are not root.
std::uint32_t uid_of_job(const SandboxTier& tier, std::uint64_t number);

// A process started with exactly these descriptors beside 0 (/dev/null), in a group of its own and
// with an empty environment: blocking code's counterpart to run_child. (ours, theirs).
struct Started {
    int pid = -1;
    int life = -1;  // pidfd, owned by the caller
};
Result<Started> start_process(const std::vector<std::string>& argv,
                              const std::vector<std::pair<int, int>>& descriptors);

// Fills in `tier` by trying which form of bubblewrap works here. `why` lists what was tried when
// none does.
void find_sandbox(Machine& machine, std::string& why);

// An anonymous memory file (close-on-exec) holding `bytes`, positioned at its start. -1 on failure.
int memory_file(const char* name, std::string_view bytes);

}  // namespace loopscope
