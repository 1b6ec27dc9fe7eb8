#include "evaluate/machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <set>
#include <system_error>
#include <utility>

#include "core/file.h"
#include "core/text.h"
#include "evaluate/sandbox.h"

namespace loopscope {

namespace {

std::vector<int> allowed_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::vector<int> cpus;
    if (::sched_getaffinity(0, sizeof set, &set) == 0)
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(cpu, &set))
                cpus.push_back(cpu);
    return cpus;
}

// The kernel's form of CPU lists: "0-3,8".
std::set<int> parse_list(std::string_view text) {
    std::set<int> numbers;
    text = trim(text);
    const char* p = text.data();
    const char* const end = p + text.size();
    while (p < end) {
        int first = 0;
        auto parsed = std::from_chars(p, end, first);
        if (parsed.ec != std::errc())
            break;
        int last = first;
        p = parsed.ptr;
        if (p < end && *p == '-') {
            parsed = std::from_chars(p + 1, end, last);
            if (parsed.ec != std::errc())
                break;
            p = parsed.ptr;
        }
        for (int i = first; i <= last; ++i)
            numbers.insert(i);
        if (p < end && *p == ',')
            ++p;
    }
    return numbers;
}

std::string system_file(const std::string& path) {
    return std::string(trim(read_file(path).value_or("")));
}

// Timing gets one core for itself: one that the kernel keeps free of other work if there is any,
// else the last (interrupts tend to go to the first). Its hyper-thread sibling, which shares its
// execution units, is left idle when another core remains for builds.
void divide_cores(Machine& machine) {
    machine.cpus = allowed_cpus();
    if (machine.cpus.empty()) {
        machine.build_cpus.clear();
        machine.timing_cpu = -1;
        machine.serialised = true;
        return;
    }
    const std::set<int> isolated = parse_list(system_file("/sys/devices/system/cpu/isolated"));
    machine.timing_cpu = machine.cpus.back();
    for (const int cpu : machine.cpus)
        if (isolated.contains(cpu)) {
            machine.timing_cpu = cpu;
            break;
        }
    const std::set<int> siblings = parse_list(system_file(fmt::format(
        "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", machine.timing_cpu)));
    std::vector<int> apart;
    std::vector<int> others;
    for (const int cpu : machine.cpus) {
        if (cpu == machine.timing_cpu)
            continue;
        others.push_back(cpu);
        if (!siblings.contains(cpu))
            apart.push_back(cpu);
    }
    machine.serialised = others.empty();
    machine.build_cpus = !apart.empty()    ? apart
                         : !others.empty() ? others
                                           : std::vector<int>{machine.timing_cpu};
}

struct CpuText {
    std::string name, details;
};

CpuText cpu_text() {
    CpuText text;
    for (const std::string& line : split_lines(read_file("/proc/cpuinfo").value_or(""))) {
        if (line.empty() && !text.name.empty())
            break;  // the first processor is enough
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos)
            continue;
        const std::string_view key = trim(std::string_view(line).substr(0, colon));
        const std::string_view value = trim(std::string_view(line).substr(colon + 1));
        if (key == "model name" || key == "CPU implementer")
            text.name = std::string(value);
        if (key == "cpu family" || key == "model" || key == "stepping" || key == "CPU part" ||
            key == "CPU variant" || key == "microcode" || key == "flags" || key == "Features")
            text.details += fmt::format("{}={}\n", key, value);
    }
    return text;
}

std::int64_t bytes_of_size(std::string_view text) {  // "1024K"
    std::int64_t number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    if (parsed.ec != std::errc())
        return 0;
    const std::string_view unit = text.substr(static_cast<std::size_t>(parsed.ptr - text.data()));
    return unit == "K" ? number << 10 : unit == "M" ? number << 20 : number;
}

std::string caches(int cpu, std::int64_t& last_level) {
    std::string text;
    for (int index = 0; index < 8; ++index) {
        const std::string folder =
            fmt::format("/sys/devices/system/cpu/cpu{}/cache/index{}", std::max(cpu, 0), index);
        const std::string size = system_file(folder + "/size");
        if (size.empty())
            break;
        text += fmt::format("cache L{} {} {}\n", system_file(folder + "/level"),
                            system_file(folder + "/type"), size);
        last_level = std::max(last_level, bytes_of_size(size));
    }
    // Without /sys (a chroot) the processor itself is asked.
    if (last_level == 0)
        for (const int level : {_SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE})
            if (const long size = ::sysconf(level); size > 0 && last_level == 0) {
                last_level = size;
                text += fmt::format("last cache {}K\n", size >> 10);
            }
    return text;
}

std::string find_program(const char* name) {
    for (const char* folder : {"/usr/bin", "/usr/local/bin", "/bin"}) {
        std::string path = fmt::format("{}/{}", folder, name);
        if (::access(path.c_str(), X_OK) == 0)
            return path;
    }
    return "";
}

std::size_t slots_for_builds() {
    const std::size_t cores = allowed_cpus().size();
    return cores > 1 ? cores - 1 : 1;
}

}  // namespace

Machine::Machine(asio::any_io_executor loop_executor, std::filesystem::path scratch_folder)
    : loop(std::move(loop_executor)),
      pool(std::make_unique<asio::thread_pool>(4)),
      scratch(std::move(scratch_folder)),
      build_slot_count(slots_for_builds()),
      build_slots(loop, build_slot_count),
      timing_lane(loop, 1) {
    divide_cores(*this);
    const CpuText cpu = cpu_text();
    cpu_name = cpu.name;
    utsname system{};
    ::uname(&system);
    fingerprint =
        fmt::format("cpu {}\n{}{}kernel {} {}\ncores {}\n", cpu.name, cpu.details,
                    caches(timing_cpu, cache_bytes), system.release, system.machine, cpus.size());
}

Machine::~Machine() {
    pool->join();
    std::error_code ignored;
    std::filesystem::remove_all(scratch, ignored);
}

namespace {

// Folders of programs that were killed: "loopscope-PID-XXXXXX" without such a PID. Those of other
// users stay.
void remove_stale_folders(const std::filesystem::path& temporary) {
    constexpr std::string_view prefix = "loopscope-";
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator(temporary, failed)) {
        const std::string name = entry.path().filename().string();
        int pid = 0;
        const char* end = name.data() + name.size();
        if (!name.starts_with(prefix))
            continue;
        const auto parsed = std::from_chars(name.data() + prefix.size(), end, pid);
        if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != '-')
            continue;
        if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH)
            std::filesystem::remove_all(entry.path(), failed);
    }
}

}  // namespace

Result<std::unique_ptr<Machine>> open_machine(asio::any_io_executor loop) {
    std::error_code failed;
    const std::filesystem::path temporary = std::filesystem::temp_directory_path(failed);
    const std::filesystem::path place = failed ? std::filesystem::path("/tmp") : temporary;
    remove_stale_folders(place);
    std::string folder = place / fmt::format("loopscope-{}-XXXXXX", ::getpid());
    if (::mkdtemp(folder.data()) == nullptr)
        return fail(
            folder,
            "cannot make a private folder there: set TMPDIR to a folder that can be written");
    auto machine = std::make_unique<Machine>(std::move(loop), folder);
    machine->runner =
        std::filesystem::weakly_canonical(program_directory() / "loopscope-runner", failed);
    if (::access(machine->runner.c_str(), X_OK) != 0)
        return fail(
            machine->runner.string(),
            "is missing: it is built beside loopscope (or set LOOPSCOPE_LIBEXEC to its folder)");
    machine->bubblewrap = find_program("bwrap");
    if (machine->bubblewrap.empty())
        return fail(
            "sandbox",
            "bubblewrap is not installed; programs that a model wrote are run in nothing less "
            "(Debian: apt-get install bubblewrap)");
    std::string why;
    machine->has_lld = ::access("/usr/bin/ld.lld-19", X_OK) == 0;
    find_sandbox(*machine, why);
    if (!machine->sandbox.works)
        return fail(
            "sandbox",
            fmt::format(
                "bubblewrap works in no form here ({}). Run as root, or allow user namespaces: "
                "sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000 "
                "(Ubuntu 24.04: kernel.apparmor_restrict_unprivileged_userns=0); in Docker: "
                "--security-opt seccomp=unconfined --cap-add SYS_ADMIN",
                why));
    return machine;
}

}  // namespace loopscope
