// This machine as a place to evaluate on: its cores, lanes, sandbox and roof.
#pragma once
#include "core/async.h"
#include "core/result.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace loopscope {

// How untrusted code is confined here, found out once by trying.
struct SandboxTier {
    bool works = false;
    std::string description;      // "bubblewrap with user namespace", ..., or why nothing works
    bool user_namespace = false;  // bwrap --unshare-user
    bool as_root = false;   // we are root: the runner drops to an unprivileged host uid inside
    bool own_root = false;  // our root is no mount point (a plain chroot): bound onto one first
    std::uint32_t first_uid = 0,
                  uids =
                      0;  // those it may drop to; one a job, so that processes are counted by job
    // Control groups bound a whole process tree (evaluate/cgroup.h). "" = not writable here: then
    // only the limits of single processes and of the private file systems hold.
    std::string memory_group,
        process_group;            // folders below which a group may be made; equal on version 2
    bool unified_groups = false;  // control groups version 2
};

// Peak rates of one core, measured with our own loops: what no honest single-core kernel exceeds.
struct Roof {
    double flops_per_second_f32 = 0, flops_per_second_f64 = 0;
    double bytes_per_second_memory = 0;  // far beyond the last-level cache
    double bytes_per_second_cache = 0;   // level 1
};

struct Machine {
    Machine(asio::any_io_executor loop_executor, std::filesystem::path scratch_folder);
    ~Machine();
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    asio::any_io_executor loop;
    std::unique_ptr<asio::thread_pool>
        pool;  // heavy arithmetic (comparison, input generation) and the timing clock
    std::filesystem::path scratch;  // private folder, removed at the end
    std::vector<int> cpus;          // that we may use
    int timing_cpu = -1;            // the lane's core; -1 = not pinned
    std::vector<int> build_cpus;    // the others; the same one on a machine with one core
    bool serialised = false;        // one core: builds and timing take turns
    std::size_t build_slot_count = 1;
    Limiter build_slots, timing_lane;
    SandboxTier sandbox;
    std::string fingerprint;  // CPU model, caches, kernel: part of a timing's key
    std::string cpu_name;
    std::int64_t cache_bytes = 0;         // last level
    std::filesystem::path runner;         // loopscope-runner
    std::string bubblewrap;               // its path
    bool has_lld = false;                 // ld.lld-19, the faster linker
    std::atomic<std::uint64_t> jobs = 0;  // started so far: names of control groups, choice of uids
    // What is built or asked once: glue of a task, the start code of sanitized programs, compilers'
    // versions.
    std::map<std::string, std::string> made_once;
};

// Finds out all of it (a few ms; the sandbox is tried once). An Error when no sandbox works here:
// it says why and the mend. Call once at start.
Result<std::unique_ptr<Machine>> open_machine(asio::any_io_executor loop);

awaitable<Roof> measure_roof(Machine& machine);  // about 1 s, on the timing lane

}  // namespace loopscope
