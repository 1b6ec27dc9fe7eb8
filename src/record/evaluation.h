// The staged outcome of a candidate: what each stage found, and the verdict (docs/design.md,
// "Verdicts").
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

// Cumulative: a candidate that is `fast` also reaches compile and pass. The numbers are stored; do
// not change them.
enum class Status { fail = 0, compile = 1, pass = 2, fast = 3 };

enum class Reason {
    ok,
    edit,  // the proposal was refused before any build
    build_error,
    link_error,
    policy,  // a forbidden act, before the build or while running
    wrong_output,
    no_answer,
    crash,
    timeout,
    resource,
    memory,
    not_faster,
    no_difference_shown,
    implausible,
    infrastructure,  // our own side failed: the status is null
};

std::string_view name_of(Status status);  // "fail", "compile", "pass", "fast"
std::string_view name_of(Reason reason);  // as spelled above
std::optional<Status> status_named(std::string_view name);
std::optional<Reason> reason_named(std::string_view name);

// A suspicion about a candidate, kept beside its status.
struct Finding {
    std::string kind;  // "implausible_time", "cpu_time", ...
    std::string text;
};

// A ratio of two times with its interval, estimated on the log scale over `launches` independent
// process launches (the unit of replication) by Student's t at `confidence` (two-sided).
struct Ratio {
    double estimate = 1, low = 1, high = 1;
    int launches = 0;
    double confidence = 0.95;
};

struct BuildOutcome {
    bool ok = false;
    Reason reason = Reason::ok;
    std::string log;       // diagnostics of compiler and linker, paths relative to the artifact
    std::string object;    // bytes of the built shared object or executable; empty unless ok
    std::string compiler;  // "clang version 19.1.7", for the record
    double seconds = 0;
};

// One verified call: sizes, input class, and the worst element.
struct VerifiedCase {
    std::string sizes;   // "n=17"
    std::string inputs;  // the class of inputs, e.g. "uniform", "signed", "heavy_tailed"
    bool ok = false;
    double worst = 0;    // max over elements of error / bound; accepted iff <= 1 and finite
    std::string detail;  // for a wrong one: argument, index, value, expected, bound
};

struct VerifyOutcome {
    bool ok = false;
    Reason reason = Reason::ok;
    std::vector<VerifiedCase> cases;
    std::string message;     // what a model is told of a failure
    std::uint64_t seed = 0;  // drawn from the system's entropy after the candidate was loaded
    double seconds = 0;
};

struct SizeTiming {
    std::string sizes;             // "n=250"
    double candidate_seconds = 0;  // median over launches of the median call
    double baseline_seconds = 0;
    double parent_seconds = 0;    // 0 = no parent was timed
    Ratio speedup;                // baseline / candidate
    std::optional<Ratio> gain;    // parent / candidate
    double flops_per_second = 0;  // 0 = the task declares no flops
    double bytes_per_second = 0;
};

// One timing session: several launches of fresh processes, candidate, baseline and parent
// interleaved.
struct TimeOutcome {
    bool ok = false;  // false: a timed call crashed, hung or was wrong; see reason
    Reason reason = Reason::ok;
    std::string message;
    int session = 0;  // 0 the first, 1 the confirming one
    std::vector<SizeTiming> sizes;
    Ratio speedup;              // over all sizes as the task combines them
    std::optional<Ratio> gain;  // against the parent, same session, same launches
    double noise_floor =
        0;  // half-width of the log ratio of the baseline against itself, this machine
    int pinned_cpu = -1;          // -1 = not pinned
    int launches = 0, pairs = 0;  // pairs of interleaved calls in a launch
    bool serialised = false;      // a machine with one core: the engine shared it
    std::vector<Finding> findings;
    double seconds = 0;
};

// A verdict with its evidence. `speedup` and `gain` are the published ones: those of the last
// session.
struct Evaluation {
    std::optional<Status> status;  // nullopt: infrastructure
    Reason reason = Reason::ok;
    std::string device = "cpu";      // cpu, pocl, emulator, a named GPU
    std::string trust = "isolated";  // isolated, shared_process, unsandboxed
    std::optional<Ratio> speedup;
    std::optional<Ratio> gain;  // ratio parent / candidate
    bool improves = false;      // lower bound of the gain exceeds 1 + tolerance
    double tolerance = 0.12;
    std::vector<TimeOutcome> sessions;
    std::vector<VerifiedCase> cases;
    std::vector<Finding> findings;
    std::string message;  // what went wrong or how fast it is, for person and model
    std::string build_log;
    std::map<std::string, double>
        metrics;  // evaluators other than kernel: their own numbers ("score", ...)
};

}  // namespace loopscope
