// A shared object served by loopscope-runner in its sandbox, called from blocking code: the only
// way in which candidate, reference, baseline and parent are ever run.
//
// Arguments lie in memory files shared with the process. Inputs are sealed: the process sees them
// read-only and nothing can change that. Every array ends at an inaccessible page and starts behind
// a canary. Between calls the process is stopped, so it can neither go on working after its answer
// nor disturb what is timed next.
#pragma once
#include "core/result.h"
#include "evaluate/cgroup.h"
#include "evaluate/harness.h"
#include "evaluate/inputs.h"
#include "evaluate/machine.h"
#include "evaluate/runner_protocol.h"
#include "evaluate/sandbox.h"
#include "evaluate/task.h"
#include "record/evaluation.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

// A memory file of fixed size, mapped and pre-faulted here.
class Arena {
public:
    enum class Use { input, output };  // input: sealed against every other writer
    static Result<Arena> make(std::size_t bytes, Use use);
    Arena() = default;
    Arena(Arena&& other) noexcept;
    Arena& operator=(Arena&& other) noexcept;
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    ~Arena();
    char* data() const { return base_; }
    std::size_t size() const { return size_; }
    int descriptor() const { return file_; }

private:
    int file_ = -1;
    char* base_ = nullptr;
    std::size_t size_ = 0;
};

// Where the arguments of `slots` calls lie.
struct Layout {
    struct Place {
        bool array = false, output = false;
        std::size_t region = 0;
        std::size_t region_begin = 0, region_end = 0;  // in the arena
        std::size_t begin = 0, bytes = 0;              // the array, in the arena
    };
    std::uint32_t slots = 0, arguments = 0;
    std::vector<wire::Region> regions;
    std::vector<wire::ArgumentPlace> wire_places;
    std::vector<Place> places;  // slots x arguments
    std::size_t input_bytes = 0, output_bytes = 0;
    const Place& at(std::size_t slot, std::size_t argument) const {
        return places[slot * arguments + argument];
    }
};
// `slack`: for every argument how far its end is moved off the guard page, a multiple of 64 below
// one page (empty: not at all). Verification wants none; timing draws it anew for each launch,
// since placement alone shifts times.
Layout lay_out(const KernelSpec& kernel, const CallShape& shape, Side side, std::uint32_t slots,
               const std::vector<std::size_t>& slack);

// Why a served program gave no answer, as a verdict.
struct Trouble {
    Reason reason = Reason::infrastructure;
    std::string message;
};

class Served {
public:
    struct Spec {
        std::string_view object, glue;  // bytes
        std::string entry;
        Cage::Root root = Cage::Root::bare;
        std::map<std::string, std::string> environment;
        std::vector<int> cpus;
        int nice = 0;                   // below 0: before other work on its core, where we may
        std::int64_t memory_mb = 4096;  // besides the arenas
        int processes = 64;             // threads, that is: it cannot start processes
        std::int64_t output_kb = 256;   // written to stdout and stderr together before it is ended
        const Arena* input = nullptr;
        const Arena* output = nullptr;
    };
    using Deadline = std::chrono::steady_clock::time_point;

    // Starts the process; nothing of the object runs yet.
    static Result<std::unique_ptr<Served>> start(Machine& machine, const Spec& spec);
    ~Served();
    Served(const Served&) = delete;
    Served& operator=(const Served&) = delete;

    std::optional<Trouble> load(Deadline deadline);
    std::optional<Trouble> map(const KernelSpec& kernel, const Layout& layout, Deadline deadline);
    struct Timing {
        double wall_seconds = 0, cpu_seconds = 0;
    };
    // Runs the calls in order. On return the process is stopped. No calls at all: the cost of
    // asking.
    std::optional<Trouble> go(const std::vector<std::uint32_t>& slots, Deadline deadline,
                              Timing& timing);

private:
    Served() = default;
    enum class Event { message, ended, forbidden, flooded, late };
    Event wait(Deadline deadline, std::string& message);
    std::optional<Trouble> expect(wire::Op op, Deadline deadline, std::string& message);
    bool send(const void* bytes, std::size_t count);
    void drain();
    void resume();
    void halt(Deadline deadline);
    double cpu_seconds() const;
    void end();
    Trouble why_ended();
    Trouble why_forbidden();
    std::string describe_fault(const wire::FaultReply& fault, Reason& reason) const;

    ControlGroup group_;
    int control_ = -1, output_pipe_ = -1, listener_ = -1, life_ = -1;
    int bubblewrap_ = -1, pid_ = -1;
    clockid_t clock_{};
    bool stopped_ = false, ended_ = false, flooded_ = false, many_cpus_ = false;
    int status_ = 0;
    std::vector<char> received_ = std::vector<char>(wire::max_message);
    std::string said_;
    std::size_t said_bytes_ = 0, said_limit_ = 0;
    std::int64_t memory_mb_ = 0;
    int processes_ = 0;
    std::optional<wire::FaultReply> fault_;
    const KernelSpec* kernel_ = nullptr;
    const Layout* layout_ = nullptr;
    std::vector<std::uint64_t> bases_;
};

// Canaries of the writable regions: set before a call, looked at after it. The name of the argument
// whose surroundings were written, "" when none were.
void set_canaries(const Layout& layout, const Arena& output, std::uint64_t secret);
std::string broken_canary(const KernelSpec& kernel, const Layout& layout, const Arena& output,
                          std::uint64_t secret, const std::vector<std::uint32_t>& slots);

}  // namespace loopscope
