// Runs foreign programs - compilers on untrusted text, candidates, analysers - where they can reach nothing.
//
// No network, empty environment, read-only system, a private /work and /tmp, no other process visible, limits on
// time, memory, processes, files and output; the whole process tree is gone when the call returns.
#pragma once
#include "core/child.h"
#include "evaluate/machine.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace loopscope {

struct SandboxJob {
    std::vector<std::string> argv;                       // run in /work
    std::map<std::string, std::string> files;            // put into /work before the start: path -> bytes
    std::vector<std::pair<std::string, std::string>> read_only;   // (host path, path inside): extra binds
    std::vector<std::string> collect;                    // files of /work brought back (absent ones are left out)
    std::map<std::string, std::string> environment;      // besides PATH, HOME=/work, LANG=C.UTF-8
    std::string input;
    std::vector<std::pair<int, int>> descriptors;        // (ours, theirs)
    double wall_seconds = 60, cpu_seconds = 60;
    std::int64_t memory_mb = 4096;
    int processes = 64;
    std::int64_t file_mb = 64;
    std::int64_t output_kb = 256;
    std::vector<int> cpus;                               // affinity; empty = the machine's build cores
};

struct SandboxResult {
    Exit exit;
    std::map<std::string, std::string> files;            // those of `collect` that exist
    bool out_of_memory = false;                          // as far as it can be told
    bool out_of_processes = false;
};

// An Error is our own side failing (no bwrap, no disk), never the job's.
awaitable<Result<SandboxResult>> run_sandboxed(Machine& machine, SandboxJob job);

}  // namespace loopscope
