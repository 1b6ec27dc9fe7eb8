// The journal: the durable record of every stage's result, keyed by its inputs (docs/journal.md has
// the schema).
//
//     key = SHA-256(stage, stage version, canonical inputs, draw)
//
// Running a stage means: look its key up; if it is there, return it; if not, write down the intent,
// run it, write the result durably, return it. From this follow resume, freezing, replay,
// de-duplication and the bill.
//
// Durability. Rows reach the file in the order in which they were given. What is paid for,
// put_text, put_study, put_sample and put_trajectory return when their rows are durable, and with
// them every row before. An unpaid result is returned at once and follows within a commit's time: a
// crash in between repeats it, and nothing that was made of it is in the file either. A journal in
// memory (":memory:") waits for nothing.
#pragma once
#include "core/async.h"
#include "core/clock.h"
#include "core/result.h"
#include "record/prompt.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace loopscope {

struct StageKey {
    std::string stage;   // "model", "build", "verify", "time", "feedback", ...
    int version = 1;     // raised when the stage's code changes what it yields
    std::string inputs;  // canonical JSON: everything that can change the outcome and nothing else
    std::string draw;   // "" for a deterministic stage; "seed/rollout/trial" or "seed/step/attempt"
    bool paid = false;  // an intent row is made durable before it runs, and the ledger gets a line
};
// SHA-256 of stage, version, SHA-256 of the inputs, and draw, each as "LENGTH:BYTES," (a
// netstring), in this order.
std::string hash_of(const StageKey& key);

// What a stage yields. `keep` false: not an answer (a failed call, our own side failing); nothing
// is stored but the ledger line, and the next run of the same command tries again.
struct Produced {
    std::string result;
    bool keep = true;
    std::optional<double> cost;  // dollars; nullopt = unknown
    Usage usage;
    std::string failure;  // for keep == false: one line for the ledger
};

struct Entry {
    std::string key;  // hash_of(key)
    std::string result;
    bool kept = true;
    bool reused = false;  // found, or another caller's run was shared: do not count its cost twice
    std::optional<double> cost;
    Usage usage;
};

struct StudyRow {
    std::string id;      // a letter for the kind and ten digits of the hash of kind and config
    std::string kind;    // "run", "intervene"
    std::string config;  // canonical JSON: the whole configuration, defaults filled in
    std::string state;   // "running", "done", "stopped" (interrupted or budget reached)
    std::string note;    // why it stopped
    std::int64_t created_ms = 0;
};

// One line of the ledger: a paid call of a process that may be long dead.
struct LedgerLine {
    std::int64_t id = 0;
    std::string key, stage, state;  // "in_flight", "answered", "failed"
    std::int64_t started_ms = 0, ended_ms = 0;
    std::optional<double> cost;
    Usage usage;
    std::string process;  // one id per opened journal, "PID-MILLISECONDS-N": in_flight lines of a
                          // process that no longer writes were cut by a crash
    std::string failure;
};

struct JournalSummary {
    std::string path;
    int schema = 0;
    std::int64_t bytes = 0, entries = 0, blobs = 0, studies = 0, trajectories = 0;
    std::int64_t calls_answered = 0, calls_failed = 0, calls_in_flight_at_a_crash = 0;
    double known_cost = 0;  // dollars, over all calls, failed ones included
    std::int64_t calls_of_unknown_cost =
        0;  // ended, or cut by a crash, and nobody said what they cost
    std::vector<std::pair<std::string, std::int64_t>> entries_by_stage;
};

struct JournalError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// All members but the database handle belong to the loop's one thread. A failed commit sticks:
// every later call throws JournalError. So does reading a text whose bytes no longer match its
// hash, but that does not stick. Coroutines that wait in a journal end before it is destroyed; its
// destructor writes what is still queued.
class Journal {
public:
    struct Options {
        bool read_only = false;  // open an existing file for reading; no file is an Error
        bool power_safe = true;  // synchronous=FULL; false = NORMAL (kill -9 safe only), for tests
    };
    // `disk` runs the commits: a thread of its own in production, the loop itself in a simulation.
    // `path` may be
    // ":memory:". Errors: unreadable, read-only, not a journal, of a newer schema (both versions
    // are named).
    static Result<std::unique_ptr<Journal>> open(const std::string& path,
                                                 asio::any_io_executor loop,
                                                 asio::any_io_executor disk, Clock& clock,
                                                 Options options);
    virtual ~Journal() = default;

    // The stage's result: recalled, or produced and kept. Two calls for one key at a time share one
    // run: its result, also one that is not kept, and its exception. A run that was cancelled is
    // not shared: one of those who waited runs it itself. When `produce` throws, the ledger's line
    // becomes "failed" with the message, secrets blanked.
    virtual awaitable<Entry> once(StageKey key, std::function<awaitable<Produced>()> produce) = 0;
    // A kept entry, or nullopt. Does not wait for a run in flight; the entry may not be durable
    // yet.
    virtual std::optional<Entry> find(const std::string& key) = 0;

    // Texts by hash (prompts, answers, objects), compressed, at most 1 GB. put returns once the
    // text is durable.
    virtual awaitable<std::string> put_text(std::string text) = 0;
    virtual Result<std::string> text(const std::string& hash) = 0;

    // Inserts, or updates state and note. created_ms 0: now.
    virtual awaitable<void> put_study(StudyRow row) = 0;
    virtual std::optional<StudyRow> study(
        const std::string& id_or_prefix) = 0;     // nullopt: none, or ambiguous
    virtual std::vector<StudyRow> studies() = 0;  // oldest first

    // A sample is a JSON document at a position of its study ("000012" or "c003/a5/r0/t1"); same
    // position = same row.
    virtual awaitable<void> put_sample(std::string study, std::string position,
                                       std::string json) = 0;
    virtual std::vector<std::pair<std::string, std::string>> samples(
        const std::string& study) = 0;  // by position

    virtual awaitable<void> put_trajectory(std::string id, std::string json) = 0;
    virtual std::optional<std::string> trajectory(const std::string& id_or_prefix) = 0;
    virtual std::vector<std::string> trajectories() = 0;

    virtual std::vector<LedgerLine> ledger() = 0;
    virtual JournalSummary summary() = 0;
    // Checks the file (integrity_check), every blob and key against its hash, every reference. One
    // line a fault; empty = sound. Reads the whole file: seconds per gigabyte.
    virtual std::vector<std::string> verify() = 0;

    // A test may throw here: "before" or "after" a commit, on the loop's thread. What it throws
    // counts as a failed commit.
    std::function<void(const char*)> at;
};

}  // namespace loopscope
