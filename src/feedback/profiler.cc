// The profiler: where the time goes. The times are the evaluation's own, set against this core's
// measured roof; what the caches see comes from hardware counters where they exist and from a cache
// simulation, which also tells it by source line.
#include "core/text.h"
#include "feedback/components.h"
#include "feedback/tool_output.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace loopscope {
namespace {

using nlohmann::json;

// Operations of one simulated run: cachegrind does some 50 million instructions a second, a plain
// kernel two or three instructions an operation, so this ends in about two seconds.
constexpr double simulated_work = 4e7;
constexpr std::size_t hot_lines = 6;

std::string seconds_text(double seconds) {
    if (seconds >= 1)
        return fmt::format("{:.3g} s", seconds);
    if (seconds >= 1e-3)
        return fmt::format("{:.3g} ms", seconds * 1e3);
    return fmt::format("{:.3g} us", seconds * 1e6);
}

std::string bytes_text(double bytes) {
    if (bytes >= 1 << 20)
        return fmt::format("{:.1f} MB", bytes / (1 << 20));
    return fmt::format("{:.1f} KB", bytes / (1 << 10));
}

// The widest floating-point type among the kernel's arrays decides which roof counts.
bool is_double(const KernelSpec& kernel) {
    return std::any_of(kernel.arguments.begin(), kernel.arguments.end(),
                       [](const Argument& argument) {
                           return !argument.scalar && argument.type == ElementType::f64;
                       });
}

const Sizes* sizes_named(const KernelSpec& kernel, const std::string& text) {
    for (const Sizes& sizes : kernel.time_sizes) {
        if (to_text(sizes) == text)
            return &sizes;
    }
    return nullptr;
}

struct Timing {
    std::string text;
    json fields = json::array();
};

Timing timing_text(const Task& task, const Evaluation& evaluation, const Roof* roof) {
    Timing out;
    if (evaluation.sessions.empty() || evaluation.sessions.back().sizes.empty())
        return out;
    const KernelSpec* kernel = task.kernel ? &*task.kernel : nullptr;
    for (const SizeTiming& timing : evaluation.sessions.back().sizes) {
        json entry = {{"sizes", timing.sizes}, {"seconds", timing.candidate_seconds}};
        std::string line = timing.sizes + ": ";
        std::string bound;
        if (timing.flops_per_second > 0) {
            line += fmt::format("{:.2f} GFLOP/s", timing.flops_per_second / 1e9);
            entry["flops_per_second"] = timing.flops_per_second;
        }
        const Sizes* sizes = kernel == nullptr ? nullptr : sizes_named(*kernel, timing.sizes);
        const double cores = kernel == nullptr ? 1 : std::max(1, kernel->cores);
        const double peak =
            roof == nullptr || kernel == nullptr
                ? 0
                : (is_double(*kernel) ? roof->flops_per_second_f64 : roof->flops_per_second_f32) *
                      cores;
        if (peak > 0 && timing.flops_per_second > 0) {
            const double share = 100 * timing.flops_per_second / peak;
            line += fmt::format(
                ", {:.1f} % of {} roof ({:.1f})", share,
                cores > 1 ? fmt::format("the {:.0f} cores'", cores) : std::string("this core's"),
                peak / 1e9);
            entry["percent_of_roof"] = share;
            entry["roof_flops_per_second"] = peak;
        }
        const double bytes = sizes == nullptr ? 0 : bytes_of(*kernel, *sizes);
        const double flops =
            sizes == nullptr || kernel->flops.empty() ? 0 : work_of(*kernel, *sizes);
        const double rate = timing.bytes_per_second > 0 ? timing.bytes_per_second
                            : bytes > 0 && timing.candidate_seconds > 0
                                ? bytes / timing.candidate_seconds
                                : 0;
        if (rate > 0) {
            line +=
                fmt::format("{}{:.2f} GB/s", timing.flops_per_second > 0 ? ", " : "", rate / 1e9);
            entry["bytes_per_second"] = rate;
            if (roof != nullptr && roof->bytes_per_second_memory > 0) {
                line += fmt::format(" ({:.1f} % of memory's {:.1f})",
                                    100 * rate / roof->bytes_per_second_memory,
                                    roof->bytes_per_second_memory / 1e9);
                entry["percent_of_memory"] = 100 * rate / roof->bytes_per_second_memory;
            }
        }
        line += fmt::format("{}{} a call", timing.flops_per_second > 0 || rate > 0 ? ", " : "",
                            seconds_text(timing.candidate_seconds));
        if (timing.speedup.launches > 0) {
            line += fmt::format(", {:.2f} times the baseline's speed ({:.2f} to {:.2f})",
                                timing.speedup.estimate, timing.speedup.low, timing.speedup.high);
            entry["speedup"] = timing.speedup.estimate;
        }
        out.text += line + "\n";
        if (peak > 0 && flops > 0 && bytes > 0 && roof->bytes_per_second_memory > 0) {
            const double intensity = flops / bytes, ridge = peak / roof->bytes_per_second_memory;
            const bool compute = intensity >= ridge;
            const double attainable = std::min(peak, intensity * roof->bytes_per_second_memory);
            bound = fmt::format(
                "  {}-bound by its arithmetic: {:.3g} flop/byte, the roof turns at {:.3g}; "
                "attainable {:.1f} "
                "GFLOP/s, working set {}\n",
                compute ? "compute" : "memory", intensity, ridge, attainable / 1e9,
                bytes_text(bytes));
            entry["bound"] = compute ? "compute" : "memory";
            entry["flop_per_byte"] = intensity;
            entry["attainable_flops_per_second"] = attainable;
            if (timing.flops_per_second < 0.5 * attainable)
                bound += fmt::format(
                    "  it reaches {:.1f} % of that: the time goes elsewhere (latency, scalar code, "
                    "cache "
                    "misses)\n",
                    100 * timing.flops_per_second / attainable);
        }
        out.text += bound;
        out.fields.push_back(std::move(entry));
    }
    return out;
}

// --- the cache simulation

// A cache of this machine as cachegrind wants it, "SIZE,WAYS,LINE". Its own detection takes a
// virtual machine's word for caches with one way. The number of sets must be a power of two, so
// sizes are rounded down to that.
struct CacheGeometry {
    std::int64_t bytes = 0, ways = 0, line = 64;
};

std::string read_line(const std::string& path) {
    std::ifstream file(path);
    std::string text;
    std::getline(file, text);
    return text;
}

CacheGeometry geometry(int level, std::string_view fallback_type) {
    CacheGeometry found;
    for (int index = 0; index < 8; ++index) {
        const std::string folder =
            fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
        const std::string type = read_line(folder + "type");
        if (type.empty() || type == "Instruction" ||
            read_line(folder + "level") != std::to_string(level))
            continue;
        const std::string size = read_line(folder + "size");
        found.bytes = std::atoll(size.c_str()) << (size.ends_with("M") ? 20 : 10);
        found.ways = std::atoll(read_line(folder + "ways_of_associativity").c_str());
        found.line = std::max<std::int64_t>(
            16, std::atoll(read_line(folder + "coherency_line_size").c_str()));
    }
    if (found.bytes <= 0 || found.ways <= 0) {
        found.bytes = fallback_type == "D1" ? 32 << 10 : 8 << 20;
        found.ways = fallback_type == "D1" ? 8 : 16;
        found.line = 64;
    }
    const auto sets = std::bit_floor(static_cast<std::uint64_t>(
        std::max<std::int64_t>(1, found.bytes / (found.ways * found.line))));
    found.bytes = static_cast<std::int64_t>(sets) * found.ways * found.line;
    return found;
}

std::string cachegrind_form(const CacheGeometry& cache) {
    return fmt::format("{},{},{}", cache.bytes, cache.ways, cache.line);
}

std::vector<std::string> cachegrind_command() {
    const CacheGeometry first = geometry(1, "D1");
    CacheGeometry last = geometry(3, "LL");
    return {"valgrind",
            "--tool=cachegrind",
            "--cache-sim=yes",
            "--I1=" + cachegrind_form(first),
            "--D1=" + cachegrind_form(first),
            "--LL=" + cachegrind_form(last),
            "--cachegrind-out-file=cachegrind.out"};
}

// Declared sizes by falling work, those that end in time first: the task's choice, not the
// candidate's, so that a parent and its child are simulated alike.
std::vector<Sizes> simulated_sizes(const KernelSpec& kernel) {
    std::vector<Sizes> all = kernel.time_sizes;
    all.insert(all.end(), kernel.verify_sizes.begin(), kernel.verify_sizes.end());
    const double limit = kernel.flops.empty() ? simulated_work / 20 : simulated_work;
    std::erase_if(all, [&](const Sizes& sizes) { return work_of(kernel, sizes) > limit; });
    std::sort(all.begin(), all.end(), [&](const Sizes& a, const Sizes& b) {
        const double work_a = work_of(kernel, a), work_b = work_of(kernel, b);
        return work_a != work_b ? work_a > work_b : a < b;
    });
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (all.empty() && !kernel.verify_sizes.empty())
        all.push_back(*std::min_element(kernel.verify_sizes.begin(), kernel.verify_sizes.end(),
                                        [&](const Sizes& a, const Sizes& b) {
                                            return work_of(kernel, a) < work_of(kernel, b);
                                        }));
    return all;
}

std::string rate(std::int64_t part, std::int64_t whole) {
    return whole > 0 ? fmt::format("{:.1f} %",
                                   100.0 * static_cast<double>(part) / static_cast<double>(whole))
                     : "0.0 %";
}

std::string source_line(const Program& program, const std::string& file, int line) {
    const auto found = program.files.find(file);
    if (found == program.files.end() || line < 1)
        return "";
    const std::vector<std::string> lines = split_lines(found->second);
    const auto index = static_cast<std::size_t>(line - 1);
    return index < lines.size() ? std::string(trim(lines[index])) : "";
}

std::string profile_text(const CacheProfile& profile, const Sizes& sizes, const Task& task,
                         const Program& program, json& fields) {
    const CacheCounts& own = profile.own;
    const double flops =
        task.kernel && !task.kernel->flops.empty() ? work_of(*task.kernel, sizes) : 0;
    std::string text = fmt::format(
        "cache simulation at {} ({}): {} instructions, {} data accesses\n", to_text(sizes),
        fmt::join(profile.caches, "; "), own.instructions, own.accesses());
    text +=
        fmt::format("D1 miss rate {} (reads {}, writes {}), LL miss rate {}\n",
                    rate(own.d1_misses(), own.accesses()), rate(own.d1_read_misses, own.reads),
                    rate(own.d1_write_misses, own.writes), rate(own.ll_misses(), own.accesses()));
    if (flops > 0 && own.instructions > 0) {
        const double per_flop = static_cast<double>(own.instructions) / flops;
        text += fmt::format("{:.2f} instructions a flop{}\n", per_flop,
                            per_flop > 1 ? ": mostly scalar code or overhead" : "");
        fields["instructions_per_flop"] = per_flop;
    }
    struct Line {
        std::string file;
        int line;
        CacheCounts counts;
    };
    std::vector<Line> lines;
    json listed = json::array();
    for (const auto& [place, counts] : profile.lines) {
        if (place.second == 0)
            continue;
        lines.push_back({place.first, place.second, counts});
        listed.push_back({{"file", place.first},
                          {"line", place.second},
                          {"instructions", counts.instructions},
                          {"reads", counts.reads},
                          {"writes", counts.writes},
                          {"d1_misses", counts.d1_misses()},
                          {"ll_misses", counts.ll_misses()}});
    }
    std::sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
        return a.counts.instructions != b.counts.instructions
                   ? a.counts.instructions > b.counts.instructions
                   : std::tie(a.file, a.line) < std::tie(b.file, b.line);
    });
    for (std::size_t i = 0; i < lines.size() && i < hot_lines; ++i) {
        const Line& line = lines[i];
        const double share = own.instructions > 0
                                 ? 100.0 * static_cast<double>(line.counts.instructions) /
                                       static_cast<double>(own.instructions)
                                 : 0;
        if (share < 1)
            break;
        text += fmt::format("hot: {}:{} {:.0f} % of instructions", line.file, line.line, share);
        if (line.counts.accesses() > 0)
            text += fmt::format(", D1 miss rate {}, {} of all D1 misses",
                                rate(line.counts.d1_misses(), line.counts.accesses()),
                                rate(line.counts.d1_misses(), own.d1_misses()));
        text += fmt::format(" | {}\n", source_line(program, line.file, line.line));
    }
    fields["sizes"] = to_text(sizes);
    fields["caches"] = profile.caches;
    fields["instructions"] = own.instructions;
    fields["reads"] = own.reads;
    fields["writes"] = own.writes;
    fields["d1_misses"] = own.d1_misses();
    fields["d1_read_misses"] = own.d1_read_misses;
    fields["ll_misses"] = own.ll_misses();
    fields["lines"] = std::move(listed);
    return text;
}

// --- hardware counters

// Whether this machine lets us count cache misses: asked of the kernel with one descriptor, without
// a child.
bool counters_exist(std::string& why) {
    perf_event_attr attributes{};
    attributes.size = sizeof attributes;
    attributes.type = PERF_TYPE_HARDWARE;
    attributes.config = PERF_COUNT_HW_CACHE_MISSES;
    attributes.exclude_kernel = 1;
    attributes.exclude_hv = 1;
    attributes.disabled = 1;
    const long descriptor =
        ::syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (descriptor < 0) {
        why = errno == EACCES || errno == EPERM
                  ? "not permitted (kernel.perf_event_paranoid)"
                  : "none on this machine (virtual machines often hide them)";
        return false;
    }
    ::close(static_cast<int>(descriptor));
    return true;
}

std::string counters_text(const std::map<std::string, std::optional<double>>& counts,
                          const Sizes& sizes, json& fields) {
    const auto value = [&](const char* event) -> double {
        const auto found = counts.find(event);
        return found != counts.end() && found->second ? *found->second : -1;
    };
    const double cycles = value("cycles"), instructions = value("instructions");
    const double loads = value("L1-dcache-loads"), load_misses = value("L1-dcache-load-misses");
    const double references = value("cache-references"), misses = value("cache-misses");
    std::string text;
    if (cycles > 0 && instructions >= 0) {
        text += fmt::format(", {:.2f} instructions a cycle", instructions / cycles);
        fields["instructions_per_cycle"] = instructions / cycles;
    }
    if (loads > 0 && load_misses >= 0) {
        text += fmt::format(", D1 load miss rate {:.1f} %", 100 * load_misses / loads);
        fields["d1_load_miss_rate"] = load_misses / loads;
    }
    if (references > 0 && misses >= 0) {
        text += fmt::format(", {:.1f} % of {:.3g} last-level references miss",
                            100 * misses / references, references);
        fields["ll_miss_rate"] = misses / references;
    }
    if (text.empty())
        return "";
    fields["sizes"] = to_text(sizes);
    return fmt::format("hardware counters at {} (whole process, making the inputs included){}\n",
                       to_text(sizes), text);
}

}  // namespace

awaitable<Result<Feedback>> profiler_feedback(Machine& machine, const Subject& subject,
                                              const Roof* roof) {
    const Task& task = subject.task;
    const Evaluation& evaluation = subject.evaluation;
    Feedback feedback;
    feedback.component = "profiler";
    json fields = json::object();
    std::string text;

    const Timing timing = timing_text(task, evaluation, roof);
    text += timing.text;
    fields["timing"] = timing.fields;
    if (timing.text.empty()) {
        const bool wrong = evaluation.status && *evaluation.status == Status::compile;
        text += wrong ? fmt::format("Not timed: {}.\n", name_of(evaluation.reason))
                      : std::string(evaluation.status && *evaluation.status == Status::fail
                                        ? "Not timed: it does not build.\n"
                                        : "Not timed.\n");
    }
    for (const auto& [name, value] : evaluation.metrics) {
        text += fmt::format("{}: {:.6g}\n", name, value);
        fields["metrics"][name] = value;
    }

    const bool builds = evaluation.status ? *evaluation.status >= Status::compile
                                          : evaluation.reason != Reason::build_error;
    if (!task.kernel) {
        feedback.applicable = !timing.text.empty() || !evaluation.metrics.empty();
        if (!feedback.applicable)
            text =
                "Nothing to profile: the task has no kernel and its evaluator reported no "
                "numbers.\n";
    } else if (!builds) {
        feedback.applicable = false;
        text = "The program does not build, so there is nothing to profile.\n";
    } else if (!task.build.command.empty()) {
        text += "Not simulated: the task is built by a command of its own.\n";
    } else if (evaluation.reason == Reason::policy) {
        text += "Not simulated: the program did something forbidden.\n";
    } else {
        std::string why;
        const bool counters = counters_exist(why);
        const bool valgrind = !find_tool("valgrind").empty();
        if (!valgrind)
            feedback.missing.emplace_back("valgrind: cache misses and instructions by source line");
        if (counters && find_tool("perf").empty())
            feedback.missing.emplace_back(
                "perf (package linux-perf): the hardware's cache counters");
        fields["hardware_counters"] = counters ? json::object() : json(why);
        if (valgrind || counters) {
            const Result<BuildOutcome> built =
                co_await build(machine, task, subject.program, BuildKind::simulated);
            if (!built)
                co_return tl::unexpected<Error>(built.error());
            if (!built->ok) {
                text += "The build for the cache simulation failed: " +
                        std::string(trim(shorten(built->log, 400))) + "\n";
            } else {
                if (counters && !find_tool("perf").empty() && !task.kernel->time_sizes.empty()) {
                    const Sizes sizes = task.kernel->time_sizes.front();
                    const std::string events =
                        "cycles,instructions,L1-dcache-loads,L1-dcache-load-misses,cache-"
                        "references,cache-misses";
                    std::vector<std::string> wrapper = {"perf",     "stat", "-x,",  "-o",
                                                        "perf.csv", "-e",   events, "--"};
                    std::vector<std::string> collect = {"perf.csv"};
                    const Result<OneRun> run =
                        co_await run_once(machine, task, built->object, sizes, std::move(wrapper),
                                          std::move(collect));
                    if (!run)
                        co_return tl::unexpected<Error>(run.error());
                    const auto csv = run->files.find("perf.csv");
                    if (csv != run->files.end())
                        text += counters_text(parse_perf_csv(csv->second), sizes,
                                              fields["hardware_counters"]);
                }
                if (valgrind) {
                    bool simulated = false;
                    std::string last;
                    for (const Sizes& sizes : simulated_sizes(*task.kernel)) {
                        std::vector<std::string> collect = {"cachegrind.out"};
                        const Result<OneRun> run =
                            co_await run_once(machine, task, built->object, sizes,
                                              cachegrind_command(), std::move(collect));
                        if (!run)
                            co_return tl::unexpected<Error>(run.error());
                        const auto out = run->files.find("cachegrind.out");
                        if (out == run->files.end()) {
                            last = run->timed_out ? "it did not end in time at " + to_text(sizes)
                                                  : "it crashed at " + to_text(sizes);
                            continue;
                        }
                        const Result<CacheProfile> profile =
                            parse_cachegrind(out->second, own_files(subject.program));
                        if (!profile) {
                            last = to_text(profile.error());
                            continue;
                        }
                        json simulation = json::object();
                        text += profile_text(*profile, sizes, task, subject.program, simulation);
                        if (evaluation.status && *evaluation.status < Status::pass)
                            text +=
                                "(the output is wrong; the counts are of what it does "
                                "nevertheless)\n";
                        fields["cache_simulation"] = std::move(simulation);
                        simulated = true;
                        break;
                    }
                    if (!simulated)
                        text += "No cache simulation: " +
                                (last.empty() ? std::string("the task declares no sizes") : last) +
                                ".\n";
                }
            }
        }
    }
    feedback.text = within(text, task.feedback.max_bytes);
    feedback.fields = fields.dump(-1, ' ', false, json::error_handler_t::replace);
    co_return feedback;
}

}  // namespace loopscope
