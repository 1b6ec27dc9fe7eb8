// The kernel evaluator: build, verify and time are separate stages in separate sandboxed processes,
// and the verdict is a pure function of what they found. The candidate never shares a process with
// the reference, the expected values, the seeds or the clock.
#pragma once
#include "core/async.h"
#include "core/result.h"
#include "evaluate/machine.h"
#include "evaluate/task.h"
#include "record/evaluation.h"
#include "record/program.h"

#include <optional>
#include <string>
#include <vector>

namespace loopscope {

enum class BuildKind {
    timed,      // shared object with the task's flags: what is verified and timed
    sanitized,  // executable with address and undefined-behaviour sanitizers, arguments on the
                // heap, debug info
    simulated,  // executable for cache simulation (-march=x86-64-v3, debug info)
};

// Canonical JSON of what a build depends on: sources, compiler and its version, flags, kind,
// harness version.
awaitable<Result<std::string>> build_inputs(Machine& machine, const Task& task,
                                            const Program& program, BuildKind kind);
awaitable<Result<BuildOutcome>> build(Machine& machine, const Task& task, const Program& program,
                                      BuildKind kind);
// The trusted sides, built once: the reference (fp contraction off) and peers (own link flags).
awaitable<Result<BuildOutcome>> build_reference(Machine& machine, const Task& task);
awaitable<Result<BuildOutcome>> build_peer(Machine& machine, const Task& task, const Peer& peer);

// Every verify size with every class of inputs: outputs poisoned, guard pages and canaries, full
// comparison against the reference, which runs in another process. `peer`: the object is this
// peer's, which gets its environment and all libraries of the system.
awaitable<Result<VerifyOutcome>> verify(Machine& machine, const Task& task,
                                        const std::string& candidate_object,
                                        const std::string& reference_object,
                                        const Peer* peer = nullptr);

struct TimingPlan {
    int session = 0;                   // 0 first, 1 confirming
    int launches = 5;                  // fresh processes; the unit of replication
    double seconds_per_launch = 0.25;  // wanted; pairs are chosen from it, at least 3
    double target_half_width =
        0.03;  // of the log ratio; up to 2x launches are added to reach it (session 0 only)
    const Peer* peer = nullptr;  // the candidate is this peer's object
};
// Candidate, baseline and (if given) parent interleaved in random order on fresh inputs, pinned;
// every timed call's output is verified. `roof` (may be null) feeds the implausible finding.
awaitable<Result<TimeOutcome>> time_session(Machine& machine, const Task& task,
                                            const std::string& candidate_object,
                                            const std::string& baseline_object,
                                            const std::optional<std::string>& parent_object,
                                            const std::string& reference_object,
                                            const TimingPlan& plan, const Roof* roof);

// Runs a built executable (sanitized or simulated) once at `sizes`, under `wrapper` (e.g.
// valgrind's argv) if given.
struct OneRun {
    int exit_code = 0;
    bool timed_out = false, signalled = false;
    std::string out, err;
    std::map<std::string, std::string> files;  // of `collect`
};
awaitable<Result<OneRun>> run_once(Machine& machine, const Task& task,
                                   const std::string& executable, const Sizes& sizes,
                                   std::vector<std::string> wrapper,
                                   std::vector<std::string> collect);

// The verdict (docs/design.md, "Verdicts"). `edit_error` non-empty: refused before the build. A
// missing stage means that it was not reached. `fast` needs both sessions; the published speed-up
// is the last session's.
Evaluation judge(const Task& task, const std::string& edit_error,
                 const std::optional<BuildOutcome>& built,
                 const std::optional<VerifyOutcome>& verified,
                 const std::vector<TimeOutcome>& sessions);
// True when the first session's lower bound asks for a confirming one.
bool wants_confirmation(const Task& task, const TimeOutcome& first);

// Evaluator kind `command`: runs it in the sandbox over the artifact and reads its JSON. Trust:
// shared_process.
awaitable<Result<Evaluation>> evaluate_command(Machine& machine, const Task& task,
                                               const Program& program);

}  // namespace loopscope
