#include "evaluate/cgroup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

#include "core/file.h"
#include "core/text.h"

namespace loopscope {

namespace {

constexpr std::string_view prefix = "loopscope-";

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// Control files take one write each and must not be replaced, so write_file() is no use.
bool put(const std::string& path, std::string_view text) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    const bool written =
        ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::close(file);
    return written;
}

std::string get(const std::string& path) { return read_file(path).value_or(""); }

// The number after `name` in a file of "name number" lines, 0 when absent.
long long counter(const std::string& text, std::string_view name) {
    for (const std::string& line : split_lines(text))
        if (starts_with_word(line, name)) {
            const std::string_view number = trim(std::string_view(line).substr(name.size()));
            long long value = 0;
            std::from_chars(number.data(), number.data() + number.size(), value);
            return value;
        }
    return 0;
}

// Groups of a program that was killed: "loopscope-PID-JOB" without such a PID.
void remove_stale(const std::string& folder) {
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
        const std::string name = entry.path().filename().string();
        if (!name.starts_with(prefix))
            continue;
        int pid = 0;
        std::from_chars(name.data() + prefix.size(), name.data() + name.size(), pid);
        if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH)
            ::rmdir(entry.path().c_str());
    }
}

// Whether a group with the control file `needed` can be made below `folder` and entered.
bool usable(const std::string& folder, const char* needed) {
    const std::string probe = fmt::format("{}/{}{}-probe", folder, prefix, ::getpid());
    if (::mkdir(probe.c_str(), 0755) != 0 && errno != EEXIST)
        return false;
    const bool works = ::access(fmt::format("{}/{}", probe, needed).c_str(), W_OK) == 0 &&
                       ::access((probe + "/cgroup.procs").c_str(), W_OK) == 0;
    ::rmdir(probe.c_str());
    if (works)
        remove_stale(folder);
    return works;
}

// Where our own group of a controller lies. With a control-group namespace, or inside a chroot
// whose mount shows another part of the tree, the path in /proc/self/cgroup may not exist; then the
// mount's root is the place.
std::string own_folder(const std::string& mount, const std::string& path) {
    const std::string own = path == "/" ? mount : mount + path;
    return exists(own + "/cgroup.procs") ? own : mount;
}

}  // namespace

void find_control_groups(SandboxTier& tier) {
    tier.memory_group.clear();
    tier.process_group.clear();
    tier.unified_groups = false;
    for (const std::string& line : split_lines(get("/proc/self/cgroup"))) {
        const std::size_t first = line.find(':');
        const std::size_t second = line.find(':', first + 1);
        if (second == std::string::npos)
            continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const std::string path = line.substr(second + 1);
        if (controllers.empty() && exists("/sys/fs/cgroup/cgroup.controllers")) {
            const std::string folder = own_folder("/sys/fs/cgroup", path);
            if (usable(folder, "memory.max") && usable(folder, "pids.max")) {
                tier.memory_group = tier.process_group = folder;
                tier.unified_groups = true;
                return;
            }
        }
        const std::string list = "," + controllers + ",";
        if (list.find(",memory,") != std::string::npos) {
            const std::string folder = own_folder("/sys/fs/cgroup/" + controllers, path);
            if (usable(folder, "memory.limit_in_bytes"))
                tier.memory_group = folder;
        }
        if (list.find(",pids,") != std::string::npos) {
            const std::string folder = own_folder("/sys/fs/cgroup/" + controllers, path);
            if (usable(folder, "pids.max"))
                tier.process_group = folder;
        }
    }
}

ControlGroup ControlGroup::make(const SandboxTier& tier, std::uint64_t job,
                                std::int64_t memory_bytes, int processes) {
    ControlGroup group;
    group.unified_ = tier.unified_groups;
    const std::string name = fmt::format("/{}{}-{}", prefix, ::getpid(), job);
    if (!tier.memory_group.empty() && memory_bytes > 0) {
        const std::string folder = tier.memory_group + name;
        if (::mkdir(folder.c_str(), 0755) == 0) {
            const std::string bytes = std::to_string(memory_bytes);
            const bool bounded =
                put(folder + (group.unified_ ? "/memory.max" : "/memory.limit_in_bytes"), bytes);
            if (group.unified_) {
                put(folder + "/memory.swap.max", "0");
                put(folder + "/memory.oom.group", "1");
            } else {
                put(folder + "/memory.memsw.limit_in_bytes", bytes);
            }
            if (bounded)
                group.memory_ = folder;
            else
                ::rmdir(folder.c_str());
        }
    }
    if (!tier.process_group.empty() && processes > 0) {
        const std::string folder = tier.process_group + name;
        const bool there =
            (group.unified_ && folder == group.memory_) || ::mkdir(folder.c_str(), 0755) == 0;
        if (there && put(folder + "/pids.max", std::to_string(processes)))
            group.processes_ = folder;
        else if (there && folder != group.memory_)
            ::rmdir(folder.c_str());
    }
    return group;
}

ControlGroup::ControlGroup(ControlGroup&& other) noexcept
    : memory_(std::exchange(other.memory_, "")),
      processes_(std::exchange(other.processes_, "")),
      unified_(other.unified_) {}

ControlGroup& ControlGroup::operator=(ControlGroup&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(processes_, other.processes_);
    std::swap(unified_, other.unified_);
    return *this;
}

std::vector<std::string> ControlGroup::entrances() const {
    std::vector<std::string> files;
    if (!memory_.empty())
        files.push_back(memory_ + "/cgroup.procs");
    if (!processes_.empty() && processes_ != memory_)
        files.push_back(processes_ + "/cgroup.procs");
    return files;
}

bool ControlGroup::out_of_memory() const {
    if (memory_.empty())
        return false;
    return counter(get(memory_ + (unified_ ? "/memory.events" : "/memory.oom_control")),
                   "oom_kill") > 0;
}

bool ControlGroup::out_of_processes() const {
    return !processes_.empty() && counter(get(processes_ + "/pids.events"), "max") > 0;
}

void ControlGroup::kill() const {
    for (const std::string& entrance : entrances()) {
        if (unified_ && put(memory_ + "/cgroup.kill", "1"))
            return;
        for (const std::string& line : split_lines(get(entrance))) {
            pid_t pid = 0;
            std::from_chars(line.data(), line.data() + line.size(), pid);
            if (pid > 0)
                ::kill(pid, SIGKILL);
        }
    }
}

bool ControlGroup::is_empty() const {
    const std::vector<std::string> files = entrances();
    return std::all_of(files.begin(), files.end(),
                       [](const std::string& file) { return trim(get(file)).empty(); });
}

ControlGroup::~ControlGroup() {
    if (memory_.empty() && processes_.empty())
        return;
    for (int attempt = 0; attempt < 2000 && !is_empty(); ++attempt) {
        kill();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (const std::string* folder : {&memory_, &processes_})
        if (!folder->empty())
            for (int attempt = 0; attempt < 50 && ::rmdir(folder->c_str()) != 0 && errno == EBUSY;
                 ++attempt)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace loopscope
