// A timing session: several launches, each with fresh processes for candidate, baseline, the
// baseline once more, and parent.
//
// The unit of replication is the launch, because placement in memory, page colours and address
// layout are drawn once per process and shift all of its times together; environment padding and
// the offsets of the arguments are drawn per launch for the same reason. Within a launch the
// programs take turns in random order, on the same fresh inputs. The ratio of a launch is the
// median over its rounds; the interval is Student's t over launches.
//
// The clock is the engine's: it starts when "go" is sent and stops when the answer arrives. The
// thread that does this runs on the same core as the program being timed: the two are never
// runnable at once, a busy build on another core cannot delay the stop, and a program that says
// "done" early is not running when its output is looked at. Before each go the same thread has read
// all inputs and written all outputs, so that every program finds the caches in the same state.
//
// Every timed call is compared in full with the reference, which a second thread computes ahead on
// the build cores.
#include "evaluate/timing.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>

#include "evaluate/affinity.h"
#include "evaluate/build.h"
#include "evaluate/kernel.h"
#include "evaluate/verify.h"
#include "stats/intervals.h"

namespace loopscope {

double half_width(std::span<const double> logs, std::size_t first) {
    first = std::min(first, logs.size());
    if (first < 2)
        return std::numeric_limits<double>::infinity();
    const double deviation = std::sqrt(stats::variance(logs.first(first)));
    return stats::student_t_quantile(0.975, static_cast<double>(first) - 1) * deviation /
           std::sqrt(static_cast<double>(logs.size()));
}

Ratio ratio_over_launches(std::span<const double> logs, std::size_t first,
                          double least_half_width) {
    constexpr double widest = 20.7;  // exp() of it is 1e9
    Ratio ratio;
    ratio.launches = static_cast<int>(logs.size());
    if (logs.empty()) {
        ratio.low = std::exp(-widest);
        ratio.high = std::exp(widest);
        return ratio;
    }
    const double middle = stats::mean(logs);
    const double half = std::min(widest, std::max(half_width(logs, first), least_half_width));
    ratio.estimate = std::exp(middle);
    ratio.low = std::exp(middle - half);
    ratio.high = std::exp(middle + half);
    return ratio;
}

std::size_t launches_wanted(std::span<const double> logs, double target, std::size_t most) {
    if (logs.size() < 2 || target <= 0)
        return logs.size();
    // n = (t s / d)^2, with t and s of the launches so far.
    const double per_root =
        half_width(logs, logs.size()) * std::sqrt(static_cast<double>(logs.size()));
    const double wanted = std::ceil((per_root / target) * (per_root / target));
    return std::clamp(static_cast<std::size_t>(std::min(wanted, 1e6)), logs.size(),
                      std::max(most, logs.size()));
}

Ratio combine_sizes(const std::vector<std::vector<double>>& logs, const std::string& aggregate,
                    std::size_t first, double least_half_width) {
    if (logs.empty())
        return ratio_over_launches({}, first, least_half_width);
    if (aggregate == "min") {
        std::vector<Ratio> ratios;
        for (const std::vector<double>& one : logs)
            ratios.push_back(ratio_over_launches(one, first, least_half_width));
        Ratio worst = ratios.front();
        for (const Ratio& ratio : ratios) {
            worst.estimate = std::min(worst.estimate, ratio.estimate);
            worst.low = std::min(worst.low, ratio.low);
            worst.high = std::min(worst.high, ratio.high);
        }
        return worst;
    }
    std::vector<double> means(logs.front().size(), 0);
    for (const std::vector<double>& one : logs)
        for (std::size_t launch = 0; launch < means.size(); ++launch)
            means[launch] += one[launch] / static_cast<double>(logs.size());
    return ratio_over_launches(means, first, least_half_width);
}

namespace {

using Steady = std::chrono::steady_clock;

// Where we may choose (as root): what is timed goes before everything else on its core; what the
// lane waits for goes before builds, but does not starve them.
constexpr int timing_nice = -15;
constexpr int supplier_nice = -5;

double seconds_since(Steady::time_point start) {
    return std::chrono::duration<double>(Steady::now() - start).count();
}

Steady::time_point after(double seconds) {
    return Steady::now() + std::chrono::microseconds(static_cast<long long>(seconds * 1e6));
}

// The timing core is one, however many programs of ours run here: they take turns by a lock on a
// file. A lock that cannot be had - another user's file, or a minute of waiting - is done without,
// since it only keeps noise away.
class SharedLane {
public:
    explicit SharedLane(int cpu) {
        std::error_code failed;
        const std::filesystem::path folder = std::filesystem::temp_directory_path(failed);
        if (failed || cpu < 0)
            return;
        const std::string path = folder / fmt::format("loopscope-lane-{}", cpu);
        file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        for (int attempt = 0;
             file_ >= 0 && attempt < 12000 && ::flock(file_, LOCK_EX | LOCK_NB) != 0; ++attempt)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ~SharedLane() {
        if (file_ >= 0)
            ::close(file_);
    }
    SharedLane(const SharedLane&) = delete;
    SharedLane& operator=(const SharedLane&) = delete;

private:
    int file_ = -1;
};

// Programs of a session. `again` is a second process of the baseline: what the two differ by is
// noise.
enum Role : std::size_t { candidate, baseline, again, parent, roles };

struct InputSet {
    std::vector<Bytes> inputs;
    Expected expected;
    double seconds = 0;  // that it took to make it
};

// Makes input sets and their expected outputs ahead of need, on the build cores.
class Supplier {
public:
    Supplier(Machine& machine, const Task& task, const std::vector<CallShape>& shapes,
             ReferenceProcess& reference)
        : machine_(machine),
          task_(task),
          shapes_(shapes),
          reference_(reference),
          classes_(classes_of(kernel_of(task))) {
        if (!machine.serialised)
            thread_ = std::thread([this] { serve(); });
    }
    ~Supplier() {
        {
            const std::lock_guard lock(mutex_);
            leaving_ = true;
        }
        changed_.notify_all();
        if (thread_.joinable())
            thread_.join();
    }
    Supplier(const Supplier&) = delete;
    Supplier& operator=(const Supplier&) = delete;

    // The seed of all sets from now on. Only between take() and request().
    void reseed(std::uint64_t seed) {
        rng_ = Rng(seed);
        made_ = 0;
    }
    void request(std::size_t size, std::size_t count) {
        const std::lock_guard lock(mutex_);
        wanted_ = Wanted{size, count};
        is_ready_ = false;
        changed_.notify_all();
    }
    Result<std::vector<InputSet>> take() {
        std::unique_lock lock(mutex_);
        if (machine_.serialised) {
            const Wanted wanted = wanted_.value_or(Wanted{});
            wanted_.reset();
            return make(wanted);
        }
        changed_.wait(lock, [this] { return is_ready_; });
        is_ready_ = false;
        return std::move(ready_);
    }

private:
    struct Wanted {
        std::size_t size = 0, count = 0;
    };
    void serve() {
        const Pinned pinned(machine_.build_cpus);
        const Urgent urgent(supplier_nice);
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [this] { return leaving_ || wanted_; });
            if (leaving_)
                return;
            const Wanted wanted = wanted_.value_or(Wanted{});
            wanted_.reset();
            lock.unlock();
            Result<std::vector<InputSet>> sets = make(wanted);
            lock.lock();
            ready_ = std::move(sets);
            is_ready_ = true;
            changed_.notify_all();
        }
    }
    Result<std::vector<InputSet>> make(const Wanted& wanted) {
        std::vector<InputSet> sets;
        const CallShape& shape = shapes_[wanted.size];
        for (std::size_t i = 0; i < wanted.count; ++i) {
            const auto start = Steady::now();
            Rng draw = rng_.fork("set", {made_++});
            const InputClass which = classes_[draw.below(classes_.size())];
            InputSet set;
            Result<std::vector<Bytes>> inputs =
                make_inputs(kernel_of(task_), shape, which, draw.fork("contents"));
            if (!inputs)
                return fail(inputs.error().where, inputs.error().what);
            set.inputs = std::move(*inputs);
            Result<Expected> expected = reference_(shape, set.inputs);
            if (!expected)
                return fail(expected.error().where, expected.error().what);
            set.expected = std::move(*expected);
            set.seconds = seconds_since(start);
            sets.push_back(std::move(set));
        }
        return sets;
    }

    Machine& machine_;
    const Task& task_;
    const std::vector<CallShape>& shapes_;
    ReferenceProcess& reference_;
    const std::vector<InputClass> classes_;
    Rng rng_{0};
    std::uint64_t made_ = 0;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<Wanted> wanted_;
    Result<std::vector<InputSet>> ready_;
    bool is_ready_ = false;
    bool leaving_ = false;
    std::thread thread_;
};

struct Job {
    Machine& machine;
    const Task& task;
    std::array<std::string_view, roles> objects;  // parent may be empty
    std::string_view reference, candidate_glue, reference_glue;
    const TimingPlan& plan;
    const Roof* roof;
};

// Why the session ended early: an Error of our side, or the candidate's failure.
struct Stop {
    std::optional<Error> error;
    Trouble trouble;
};

// Seconds per call of each program, by round.
using Times = std::array<std::vector<double>, roles>;

class Session {
public:
    explicit Session(const Job& job)
        : job_(job), kernel_(kernel_of(job.task)), end_(after(job.task.limits.time_seconds)) {}
    Result<TimeOutcome> run();

private:
    std::optional<Stop> prepare();
    std::optional<Stop> launch();
    std::optional<Stop> size(std::size_t index, double budget);
    std::optional<Stop> map(std::size_t index, std::uint32_t slots);
    std::optional<Stop> round(std::size_t index, const std::vector<InputSet>& sets,
                              const std::array<std::uint32_t, roles>& calls, Times& times);
    std::optional<Stop> check(Role role, std::size_t index, const std::vector<InputSet>& sets,
                              std::uint32_t calls, const std::vector<std::uint64_t>& poisons);
    std::optional<Stop> failed(Role role, std::size_t index, const Trouble& trouble);
    std::vector<Role> present() const;
    std::uint32_t most_slots(std::size_t index) const;
    void estimate(TimeOutcome& outcome) const;
    void suspect(TimeOutcome& outcome) const;

    const Job& job_;
    const KernelSpec& kernel_;
    const Steady::time_point end_;
    std::vector<CallShape> shapes_;
    Arena input_;
    std::array<Arena, roles> outputs_;
    std::unique_ptr<ReferenceProcess> reference_;
    std::unique_ptr<Supplier> supplier_;
    // of the current launch
    Rng rng_{0};
    std::array<std::unique_ptr<Served>, roles> processes_;
    std::array<std::size_t, roles> arena_of_{};
    Layout layout_;
    std::uint64_t canary_ = 0;
    std::vector<std::size_t> slack_;
    double overhead_ = 0;
    // of the session
    bool parent_lost_ = false;
    std::string parent_fault_;
    std::array<double, roles> wall_{}, cpu_{};
    int fewest_rounds_ = std::numeric_limits<int>::max();
    std::size_t launches_ = 0, first_stage_ = 0;
    // [size][launch]
    std::vector<std::vector<double>> speedup_logs_, again_logs_, gain_logs_;
    std::vector<std::array<std::vector<double>, roles>> medians_;
};

std::vector<Role> Session::present() const {
    std::vector<Role> all{candidate, baseline, again};
    if (!job_.objects[parent].empty() && !parent_lost_)
        all.push_back(parent);
    return all;
}

// Slots that fit 16 MiB of inputs and as much of outputs; one always does.
std::uint32_t Session::most_slots(std::size_t index) const {
    const Layout one = lay_out(kernel_, shapes_[index], Side::candidate, 1, slack_);
    const std::size_t larger = std::max({one.input_bytes, one.output_bytes, std::size_t{1}});
    // Requests of one message hold some 4000 arguments.
    const std::size_t by_message = 2048 / std::max<std::size_t>(kernel_.arguments.size(), 1);
    return static_cast<std::uint32_t>(std::clamp<std::size_t>(
        (std::size_t{16} << 20U) / larger, 1, std::min<std::size_t>(64, by_message)));
}

std::optional<Stop> Session::failed(Role role, std::size_t index, const Trouble& trouble) {
    const std::string where =
        index < shapes_.size() ? fmt::format("at {}: ", to_text(shapes_[index].sizes)) : "";
    if (trouble.reason == Reason::infrastructure)
        return Stop{Error{"timing", trouble.message}, {}};
    if (role == candidate)
        return Stop{std::nullopt,
                    {trouble.reason, fmt::format("while timed, {}{}", where, trouble.message)}};
    if (role == parent) {
        parent_lost_ = true;
        parent_fault_ = where + trouble.message;
        return Stop{std::nullopt, {}};  // the launch is repeated without it
    }
    return Stop{Error{"the baseline " + job_.task.baseline, where + trouble.message}, {}};
}

std::optional<Stop> Session::prepare() {
    for (const Sizes& sizes : kernel_.time_sizes) {
        Result<CallShape> shape = shape_of(kernel_, sizes);
        if (!shape)
            return Stop{shape.error(), {}};
        shapes_.push_back(std::move(*shape));
    }
    if (shapes_.empty())
        return Stop{Error{job_.task.name, "has no sizes to time: add [kernel] time_sizes"}, {}};
    speedup_logs_.resize(shapes_.size());
    again_logs_.resize(shapes_.size());
    gain_logs_.resize(shapes_.size());
    medians_.resize(shapes_.size());
    slack_.assign(kernel_.arguments.size(), wire::page - 64);  // the most that a launch may draw
    std::size_t input_bytes = 0;
    std::size_t output_bytes = 0;
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
        const Layout layout = lay_out(kernel_, shapes_[i], Side::candidate, most_slots(i), slack_);
        input_bytes = std::max(input_bytes, layout.input_bytes);
        output_bytes = std::max(output_bytes, layout.output_bytes);
    }
    Result<Arena> input = Arena::make(input_bytes, Arena::Use::input);
    if (!input)
        return Stop{input.error(), {}};
    input_ = std::move(*input);
    for (const Role role : present()) {
        Result<Arena> output = Arena::make(output_bytes, Arena::Use::output);
        if (!output)
            return Stop{output.error(), {}};
        outputs_[role] = std::move(*output);
    }
    Result<std::unique_ptr<ReferenceProcess>> reference =
        ReferenceProcess::start(job_.machine, job_.task, job_.reference, job_.reference_glue,
                                shapes_, job_.machine.build_cpus, supplier_nice);
    if (!reference)
        return Stop{reference.error(), {}};
    reference_ = std::move(*reference);
    supplier_ = std::make_unique<Supplier>(job_.machine, job_.task, shapes_, *reference_);
    return std::nullopt;
}

std::optional<Stop> Session::map(std::size_t index, std::uint32_t slots) {
    layout_ = lay_out(kernel_, shapes_[index], Side::candidate, slots, slack_);
    for (const Role role : present()) {
        set_canaries(layout_, outputs_[arena_of_[role]], canary_);
        if (const std::optional<Trouble> trouble =
                processes_[role]->map(kernel_, layout_, std::min(end_, after(10))))
            return failed(role, index, *trouble);
    }
    return std::nullopt;
}

// Reads what a program is about to read, so that all find it equally near.
void touch(const Layout& layout, const Arena& arena, std::uint32_t slots) {
    std::uint64_t sum = 0;
    for (std::uint32_t slot = 0; slot < slots; ++slot)
        for (std::size_t i = 0; i < layout.arguments; ++i) {
            const Layout::Place& place = layout.at(slot, i);
            if (!place.array || place.output)
                continue;
            for (std::size_t at = place.begin; at < place.begin + place.bytes; at += 64)
                sum += static_cast<unsigned char>(arena.data()[at]);
        }
    __asm__ volatile("" : : "r"(sum));
}

std::optional<Stop> Session::check(Role role, std::size_t index, const std::vector<InputSet>& sets,
                                   std::uint32_t calls, const std::vector<std::uint64_t>& poisons) {
    const Arena& arena = outputs_[arena_of_[role]];
    std::vector<std::uint32_t> slots(calls);
    std::iota(slots.begin(), slots.end(), 0U);
    const std::string broken = broken_canary(kernel_, layout_, arena, canary_, slots);
    if (!broken.empty())
        return failed(role, index, {Reason::memory, broken});
    for (const std::uint32_t slot : slots) {
        const Comparison compared =
            compare(kernel_, shapes_[index], outputs_of(layout_, slot, arena), poisons,
                    sets[slot].expected);
        if (!compared.ok)
            return failed(role, index, {compared.reason, compared.detail});
    }
    return std::nullopt;
}

std::optional<Stop> Session::round(std::size_t index, const std::vector<InputSet>& sets,
                                   const std::array<std::uint32_t, roles>& calls, Times& times) {
    for (std::uint32_t slot = 0; slot < sets.size(); ++slot)
        place_inputs(kernel_, layout_, slot, sets[slot].inputs, input_);
    std::vector<std::uint64_t> poisons;
    for (const Argument& argument : kernel_.arguments)
        poisons.push_back(poison_word(argument.type, rng_.next()));
    std::vector<Role> order = present();
    for (std::size_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[rng_.below(i)]);
    std::array<double, roles> seconds{};
    for (const Role role : order) {
        const Arena& arena = outputs_[arena_of_[role]];
        for (std::uint32_t slot = 0; slot < calls[role]; ++slot)
            place_outputs(kernel_, shapes_[index], layout_, slot, sets[slot].inputs, poisons,
                          arena);
        touch(layout_, input_, calls[role]);
        std::vector<std::uint32_t> slots(calls[role]);
        std::iota(slots.begin(), slots.end(), 0U);
        // A candidate may be slow, but not without end: what is far slower than the baseline needs
        // no precision.
        const double known =
            medians_[index][baseline].empty() ? 0 : medians_[index][baseline].back();
        const double patience = role == candidate && known > 0 ? 2 + 100 * known * calls[role] : 60;
        Served::Timing timing;
        if (const std::optional<Trouble> trouble =
                processes_[role]->go(slots, std::min(end_, after(patience)), timing))
            return failed(role, index, *trouble);
        seconds[role] =
            std::max(timing.wall_seconds - overhead_, 0.2 * timing.wall_seconds) / calls[role];
        wall_[role] += timing.wall_seconds;
        cpu_[role] += timing.cpu_seconds;
        if (std::optional<Stop> stop = check(role, index, sets, calls[role], poisons))
            return stop;
    }
    for (const Role role : order)
        times[role].push_back(seconds[role]);
    return std::nullopt;
}

bool agree(const std::vector<double>& times) {
    const std::size_t n = times.size();
    return n >= 2 && std::fabs(std::log(times[n - 1] / times[n - 2])) < 0.05;
}

std::optional<Stop> Session::size(std::size_t index, double budget) {
    const auto started = Steady::now();
    overhead_ = 0;
    std::array<std::uint32_t, roles> calls{};
    calls.fill(1);
    supplier_->request(index, 1);
    if (std::optional<Stop> stop = map(index, 1))
        return stop;
    // What asking costs, by the baseline's process; nothing that a candidate can influence is ever
    // subtracted from it.
    std::vector<double> asking;
    for (int i = 0; i < 5; ++i) {
        Served::Timing timing;
        if (const std::optional<Trouble> trouble =
                processes_[baseline]->go({}, std::min(end_, after(5)), timing))
            return failed(baseline, index, *trouble);
        asking.push_back(timing.wall_seconds);
    }

    // Warm-up: until two calls in a row agree or each program has run for 10 ms; at least one call.
    Times warm;
    double set_seconds = 0;
    for (int i = 0; i < 6; ++i) {
        Result<std::vector<InputSet>> sets = supplier_->take();
        if (!sets)
            return Stop{sets.error(), {}};
        set_seconds = sets->front().seconds;
        supplier_->request(index, 1);
        if (std::optional<Stop> stop = round(index, *sets, calls, warm))
            return stop;
        bool settled = true;
        for (const Role role : present()) {
            const double total = std::accumulate(warm[role].begin(), warm[role].end(), 0.0);
            settled = settled && (total >= 0.01 || agree(warm[role]));
        }
        if (settled)
            break;
    }
    if (const Result<std::vector<InputSet>> spare = supplier_->take(); !spare)
        return Stop{spare.error(), {}};
    overhead_ = stats::median(asking);

    // Calls per go: a millisecond of work, as far as memory and the cost of references allow.
    const double affordable = std::clamp(0.05 / std::max(set_seconds, 1e-6), 1.0, 64.0);
    const std::uint32_t most = std::min(most_slots(index), static_cast<std::uint32_t>(affordable));
    std::uint32_t slots = 1;
    for (const Role role : present()) {
        const double one = std::max(warm[role].back() - overhead_, 1e-6);
        calls[role] =
            std::clamp(static_cast<std::uint32_t>(std::min(std::ceil(1e-3 / one), 64.0)), 1U, most);
        slots = std::max(slots, calls[role]);
    }
    supplier_->request(index, slots);
    if (slots > 1)
        if (std::optional<Stop> stop = map(index, slots))
            return stop;

    Times times;
    int wanted = 3;
    for (int i = 0; i < wanted; ++i) {
        Result<std::vector<InputSet>> sets = supplier_->take();
        if (!sets)
            return Stop{sets.error(), {}};
        if (i + 1 < 40)
            supplier_->request(index, slots);
        const auto round_start = Steady::now();
        if (std::optional<Stop> stop = round(index, *sets, calls, times))
            return stop;
        if (i == 0) {
            const double cost = std::max(seconds_since(round_start), set_seconds * slots);
            const double left = budget - seconds_since(started);
            wanted = std::clamp(1 + static_cast<int>(std::min(left / cost, 100.0)), 3, 25);
        }
        if (Steady::now() > end_)
            return failed(candidate, index,
                          {Reason::timeout, fmt::format("timing it took more than {:g} s",
                                                        job_.task.limits.time_seconds)});
    }
    if (const Result<std::vector<InputSet>> spare = supplier_->take(); !spare)
        return Stop{spare.error(), {}};
    fewest_rounds_ = std::min(fewest_rounds_, wanted);

    const auto median_log = [&](Role slower, Role faster) {
        std::vector<double> logs;
        for (std::size_t i = 0; i < times[slower].size(); ++i)
            logs.push_back(std::log(times[slower][i] / times[faster][i]));
        return stats::median(logs);
    };
    speedup_logs_[index].push_back(median_log(baseline, candidate));
    again_logs_[index].push_back(median_log(baseline, again));
    if (!times[parent].empty())
        gain_logs_[index].push_back(median_log(parent, candidate));
    for (const Role role : present())
        medians_[index][role].push_back(stats::median(times[role]));
    return std::nullopt;
}

std::optional<Stop> Session::launch() {
    Rng draw(secret_seed());
    for (std::size_t& offset : slack_)
        offset = 64 * draw.below(wire::page / 64);
    std::iota(arena_of_.begin(), arena_of_.end(), 0);
    // Which of the equal arenas a program gets is drawn anew: their physical pages stay the same
    // for the session.
    const std::vector<Role> here = present();
    for (std::size_t i = here.size(); i > 1; --i)
        std::swap(arena_of_[here[i - 1]], arena_of_[here[draw.below(i)]]);
    std::vector<int> cpus;
    if (job_.machine.timing_cpu >= 0)
        cpus.push_back(job_.machine.timing_cpu);
    for (const int cpu : job_.machine.build_cpus)
        if (static_cast<int>(cpus.size()) < kernel_.cores && cpu != job_.machine.timing_cpu)
            cpus.push_back(cpu);
    for (const Role role : here) {
        Served::Spec spec =
            served_spec(job_.task, job_.objects[role], job_.candidate_glue, Side::candidate,
                        role == candidate ? job_.plan.peer : nullptr);
        spec.environment["PADDING"] = std::string(draw.below(4096), 'x');
        spec.cpus = cpus;
        spec.nice = timing_nice;
        spec.input = &input_;
        spec.output = &outputs_[arena_of_[role]];
        Result<std::unique_ptr<Served>> process = Served::start(job_.machine, spec);
        if (!process)
            return Stop{process.error(), {}};
        processes_[role] = std::move(*process);
        if (const std::optional<Trouble> trouble =
                processes_[role]->load(std::min(end_, after(20))))
            return failed(role, shapes_.size(), *trouble);
    }
    // Only now, with everything loaded, is it decided what they will see.
    const std::uint64_t seed = secret_seed();
    rng_ = Rng(seed).fork("order");
    canary_ = Rng(seed).fork("canary").seed();
    supplier_->reseed(seed);
    const double budget = job_.plan.seconds_per_launch / static_cast<double>(shapes_.size());
    for (std::size_t index = 0; index < shapes_.size(); ++index)
        if (std::optional<Stop> stop = size(index, budget))
            return stop;
    return std::nullopt;
}

void Session::suspect(TimeOutcome& outcome) const {
    const double busy = wall_[candidate] > 0 ? cpu_[candidate] / wall_[candidate] : 0;
    if (busy > 1.1 * kernel_.cores)
        outcome.findings.push_back(
            {"cpu_time", fmt::format("used {:.2f} cores while timed; the task allows {}", busy,
                                     kernel_.cores)});
    if (parent_lost_)
        outcome.findings.push_back(
            {"parent", "the parent failed while timed (" + parent_fault_ + "); no gain is given"});
    if (job_.roof == nullptr)
        return;
    const bool narrow = std::any_of(
        kernel_.arguments.begin(), kernel_.arguments.end(), [](const Argument& argument) {
            return argument.type == ElementType::f32 && !argument.scalar;
        });
    const double flops_roof =
        (narrow ? job_.roof->flops_per_second_f32 : job_.roof->flops_per_second_f64) *
        kernel_.cores;
    for (std::size_t i = 0; i < shapes_.size() && i < outcome.sizes.size(); ++i) {
        const CallShape& shape = shapes_[i];
        const double time = outcome.sizes[i].candidate_seconds;
        // What fits the caches several times over need not come from memory.
        const double bytes_roof = (shape.bytes > 4.0 * static_cast<double>(job_.machine.cache_bytes)
                                       ? job_.roof->bytes_per_second_memory
                                       : job_.roof->bytes_per_second_cache) *
                                  kernel_.cores;
        const double by_flops = flops_roof > 0 ? shape.flops / flops_roof : 0;
        const double by_bytes = bytes_roof > 0 ? shape.bytes / bytes_roof : 0;
        const double least = std::max(by_flops, by_bytes);
        if (time > 0 &&
            time <
                0.87 * least)  // 15 % for a clock that ran faster than when the roof was measured
            outcome.findings.push_back(
                {"implausible_time",
                 fmt::format("at {}: {:.4g} s, but this machine needs {:.4g} s for the declared {}",
                             outcome.sizes[i].sizes, time, least,
                             by_flops >= by_bytes ? "flops" : "bytes")});
    }
}

void Session::estimate(TimeOutcome& outcome) const {
    const auto logs_of_all = [](const std::vector<std::vector<double>>& logs) {
        std::vector<double> means(logs.front().size(), 0);
        for (const std::vector<double>& one : logs)
            for (std::size_t i = 0; i < means.size(); ++i)
                means[i] += one[i] / static_cast<double>(logs.size());
        return means;
    };
    const std::vector<double> noise = logs_of_all(again_logs_);
    outcome.noise_floor = std::min(half_width(noise, first_stage_), 20.0);
    const bool has_gain = gain_logs_.front().size() == launches_ && launches_ > 0;
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
        SizeTiming timing;
        timing.sizes = to_text(shapes_[i].sizes);
        timing.candidate_seconds = stats::median(medians_[i][candidate]);
        timing.baseline_seconds = stats::median(medians_[i][baseline]);
        timing.parent_seconds = has_gain ? stats::median(medians_[i][parent]) : 0;
        const double floor = half_width(again_logs_[i], first_stage_);
        timing.speedup = ratio_over_launches(speedup_logs_[i], first_stage_, floor);
        if (has_gain)
            timing.gain = ratio_over_launches(gain_logs_[i], first_stage_, floor);
        timing.flops_per_second = shapes_[i].flops / timing.candidate_seconds;
        timing.bytes_per_second = shapes_[i].bytes / timing.candidate_seconds;
        outcome.sizes.push_back(std::move(timing));
    }
    outcome.speedup =
        combine_sizes(speedup_logs_, kernel_.aggregate, first_stage_, outcome.noise_floor);
    if (has_gain)
        outcome.gain =
            combine_sizes(gain_logs_, kernel_.aggregate, first_stage_, outcome.noise_floor);
    outcome.pairs = fewest_rounds_;
    suspect(outcome);
}

Result<TimeOutcome> Session::run() {
    const auto started = Steady::now();
    TimeOutcome outcome;
    outcome.session = job_.plan.session;
    outcome.serialised = job_.machine.serialised;
    std::optional<Stop> stop = prepare();
    if (stop)
        return tl::unexpected(stop->error.value_or(Error{}));
    const Pinned pinned({job_.machine.timing_cpu});
    const Urgent urgent(timing_nice);
    outcome.pinned_cpu = pinned.pinned() ? job_.machine.timing_cpu : -1;
    const auto least = static_cast<std::size_t>(std::max(job_.plan.launches, 2));
    std::size_t wanted = least;
    while (launches_ < wanted) {
        stop = launch();
        for (std::unique_ptr<Served>& process : processes_)
            process.reset();
        if (stop && stop->error)
            return tl::unexpected(stop->error.value_or(Error{}));
        if (stop && stop->trouble.reason != Reason::infrastructure) {
            outcome.reason = stop->trouble.reason;
            outcome.message = stop->trouble.message;
            outcome.launches = static_cast<int>(launches_);
            outcome.seconds = seconds_since(started);
            return outcome;
        }
        if (stop) {  // the parent is out: what this launch began is taken back
            for (std::size_t i = 0; i < shapes_.size(); ++i) {
                for (auto* logs : {&speedup_logs_[i], &again_logs_[i]})
                    logs->resize(std::min(logs->size(), launches_));
                gain_logs_[i].clear();
                for (std::vector<double>& medians : medians_[i])
                    medians.resize(std::min(medians.size(), launches_));
            }
            continue;
        }
        ++launches_;
        std::vector<double> overall(launches_, 0);
        bool hopeless = launches_ >= 3;
        for (std::size_t launch_index = 0; launch_index < launches_; ++launch_index) {
            for (const std::vector<double>& logs : speedup_logs_)
                overall[launch_index] += logs[launch_index] / static_cast<double>(shapes_.size());
            hopeless = hopeless && overall[launch_index] < -std::log(2.0);
        }
        // Less than half as fast in every launch: more of them would not change the verdict.
        if (hopeless && launches_ <= least) {
            first_stage_ = launches_;
            break;
        }
        if (launches_ == least) {
            first_stage_ = least;
            // Far from any tolerance a coarser interval decides as well. (Near it the target may
            // not depend on the ratio found: that would be stopping when it looks good.)
            const double middle = std::fabs(stats::mean(overall));
            const double target = middle > 0.4 ? std::max(job_.plan.target_half_width, 0.1 * middle)
                                               : job_.plan.target_half_width;
            if (job_.plan.session == 0)
                wanted = launches_wanted(overall, target, 2 * least);
        }
    }
    outcome.ok = true;
    outcome.launches = static_cast<int>(launches_);
    estimate(outcome);
    outcome.seconds = seconds_since(started);
    return outcome;
}

}  // namespace

awaitable<Result<TimeOutcome>> time_session(Machine& machine, const Task& task,
                                            const std::string& candidate_object,
                                            const std::string& baseline_object,
                                            const std::optional<std::string>& parent_object,
                                            const std::string& reference_object,
                                            const TimingPlan& plan, const Roof* roof) {
    if (!task.kernel)
        co_return fail(task.name, "has no [kernel]: only the kernel evaluator times");
    Result<std::string> candidate_glue = co_await glue_object(machine, task, Side::candidate);
    Result<std::string> reference_glue = co_await glue_object(machine, task, Side::reference);
    if (!candidate_glue)
        co_return fail(candidate_glue.error().where, candidate_glue.error().what);
    if (!reference_glue)
        co_return fail(reference_glue.error().where, reference_glue.error().what);
    const Permit lane = co_await machine.timing_lane.acquire();
    // A task on several cores, and a machine that has only one, must not share them with builds.
    std::vector<Permit> drained;
    if (machine.serialised || kernel_of(task).cores > 1)
        for (std::size_t i = 0; i < machine.build_slot_count; ++i)
            drained.push_back(co_await machine.build_slots.acquire());
    const std::string_view parent_bytes =
        parent_object ? std::string_view(*parent_object) : std::string_view();
    const Job job{machine,
                  task,
                  {candidate_object, baseline_object, baseline_object, parent_bytes},
                  reference_object,
                  *candidate_glue,
                  *reference_glue,
                  plan,
                  roof};
    auto work = [&job] {
        const SharedLane shared(job.machine.timing_cpu);
        return Session(job).run();
    };
    co_return co_await offload(machine.pool->get_executor(), std::move(work));
}

}  // namespace loopscope
