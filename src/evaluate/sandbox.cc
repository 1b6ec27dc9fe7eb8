#include "evaluate/sandbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <set>

#include "core/file.h"
#include "core/text.h"
#include "evaluate/cgroup.h"
#include "evaluate/runner_protocol.h"

namespace loopscope {

namespace {

constexpr const char* inside_runner = "/loopscope-runner";
constexpr const char* path_inside = "/usr/local/bin:/usr/bin:/bin";

std::string last_error() {
    return std::strerror(errno);  // NOLINT(concurrency-mt-unsafe): glibc's is per thread
}

class Descriptor {
public:
    explicit Descriptor(int value = -1) : value_(value) {}
    Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
    Descriptor& operator=(Descriptor&&) = delete;
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() { reset(); }
    int get() const { return value_; }
    void reset() {
        if (value_ >= 0)
            ::close(value_);
        value_ = -1;
    }

private:
    int value_;
};

// A folder of the system as it is here: a link stays a link (Debian's /bin), a folder is bound.
void add_system_folder(std::vector<std::string>& argv, const std::string& folder) {
    std::error_code failed;
    if (std::filesystem::is_symlink(folder, failed)) {
        const std::string target = std::filesystem::read_symlink(folder, failed).string();
        argv.insert(argv.end(), {"--symlink", target, folder});
    } else if (std::filesystem::is_directory(folder, failed)) {
        argv.insert(argv.end(), {"--ro-bind", folder, folder});
    }
}

void add_all_libraries(std::vector<std::string>& argv) {
    argv.insert(argv.end(), {"--ro-bind", "/usr", "/usr"});
    for (const char* folder : {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"})
        add_system_folder(argv, folder);
    argv.insert(argv.end(), {"--perms", "0755", "--dir", "/etc"});
    for (const char* file : {"/etc/ld.so.cache", "/etc/alternatives"})
        argv.insert(argv.end(), {"--ro-bind-try", file, file});
}

// The runtime libraries of C and C++ programs, each where the dynamic linker looks for it. Found
// once.
const std::vector<std::string>& runtime_libraries() {
    static const std::vector<std::string> found = [] {
        std::vector<std::string> files;
        for (const char* loader : {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"})
            if (::access(loader, R_OK) == 0)
                files.emplace_back(loader);
        for (const char* name : {"libc.so.6", "libm.so.6", "libmvec.so.1", "libpthread.so.0",
                                 "libdl.so.2", "librt.so.1", "libstdc++.so.6", "libgcc_s.so.1",
                                 "libatomic.so.1", "libgomp.so.1", "libomp.so.5"})
            for (const char* folder :
                 {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
                  "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}) {
                const std::string file = std::string(folder) + "/" + name;
                if (::access(file.c_str(), R_OK) == 0) {
                    files.push_back(file);
                    break;
                }
            }
        return files;
    }();
    return found;
}

std::string archive_of(const std::map<std::string, std::string>& files) {
    std::string archive;
    const auto add = [&](const void* bytes, std::size_t count) {
        archive.append(static_cast<const char*>(bytes), count);
    };
    const auto count = static_cast<std::uint32_t>(files.size());
    add(&count, sizeof count);
    for (const auto& [path, bytes] : files) {
        // ELF files and scripts may be run; everything else is data.
        const bool runs = bytes.starts_with("\177ELF") || bytes.starts_with("#!");
        const wire::PackedFile header{static_cast<std::uint32_t>(path.size()), runs ? 1U : 0U,
                                      bytes.size()};
        add(&header, sizeof header);
        archive += path;
        archive += bytes;
    }
    return archive;
}

// A path below /work: relative, without ".." and empty parts.
bool is_inside(const std::string& path) {
    if (path.empty() || path.front() == '/' || path.find('\0') != std::string::npos)
        return false;
    const std::filesystem::path whole(path);
    return std::none_of(whole.begin(), whole.end(), [](const std::filesystem::path& part) {
        return part == ".." || part == "." || part.empty();
    });
}

struct Packed {
    bool complete = false;
    wire::ExecResult result;
    std::map<std::string, std::string> files;
};

// The runner wrote this; the program that it ran could not. Bounds are checked all the same.
Packed read_packed(int descriptor) {
    Packed packed;
    struct stat about{};
    if (::fstat(descriptor, &about) != 0 ||
        about.st_size < static_cast<off_t>(sizeof packed.result))
        return packed;
    std::string bytes(static_cast<std::size_t>(about.st_size), '\0');
    std::size_t have = 0;
    while (have < bytes.size()) {
        const ssize_t n =
            ::pread(descriptor, bytes.data() + have, bytes.size() - have, static_cast<off_t>(have));
        if (n <= 0)
            return packed;
        have += static_cast<std::size_t>(n);
    }
    std::memcpy(&packed.result, bytes.data(), sizeof packed.result);
    if (packed.result.magic != wire::ExecResult::expected_magic)
        return packed;
    packed.complete = true;
    std::size_t at = sizeof packed.result;
    for (std::uint32_t i = 0; i < packed.result.files; ++i) {
        wire::PackedFile header;
        if (bytes.size() - at < sizeof header)
            break;
        std::memcpy(&header, bytes.data() + at, sizeof header);
        at += sizeof header;
        if (bytes.size() - at < header.path_length ||
            bytes.size() - at - header.path_length < header.length)
            break;
        packed.files[bytes.substr(at, header.path_length)] =
            bytes.substr(at + header.path_length, static_cast<std::size_t>(header.length));
        at += header.path_length + static_cast<std::size_t>(header.length);
    }
    return packed;
}

std::string list_of(const std::vector<int>& numbers) {
    return fmt::format("{}", fmt::join(numbers, ","));
}

// The first process of the sandbox by its number here, as bubblewrap told it ("child-pid": N); -1 =
// unknown.
int first_process(int information) {
    std::string text;
    std::array<char, 512> piece{};
    for (ssize_t n = 0; (n = ::read(information, piece.data(), piece.size())) > 0;)
        text.append(piece.data(), static_cast<std::size_t>(n));
    constexpr std::string_view key = "\"child-pid\":";
    const std::size_t at = text.find(key);
    return at == std::string::npos ? -1 : std::atoi(text.c_str() + at + key.size());
}

// Whether process `pid` is still alive as the first one of a process namespace below ours (and not
// a later one that got the number again). A zombie is not: the kernel makes it one after all others
// of the namespace have ended, and how soon somebody reaps it is not ours to wait for.
bool is_namespace_head(int pid) {
    bool first = false;
    for (const std::string& line :
         split_lines(read_file(fmt::format("/proc/{}/status", pid)).value_or(""))) {
        if (line.starts_with("State:") &&
            (line.find('Z') != std::string::npos || line.find("X (dead)") != std::string::npos))
            return false;
        if (line.starts_with("NSpid:"))
            first = line.ends_with("\t1") && std::count(line.begin(), line.end(), '\t') > 1;
    }
    return first;
}

bool speaks_of_memory(const std::string& text) {
    return text.find("bad_alloc") != std::string::npos ||
           text.find("out of memory") != std::string::npos ||
           text.find("Cannot allocate memory") != std::string::npos;
}

}  // namespace

int memory_file(const char* name, std::string_view bytes) {
    const int file = ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0)
        return -1;
    for (std::size_t done = 0; done < bytes.size();) {
        const ssize_t n = ::write(file, bytes.data() + done, bytes.size() - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            ::close(file);
            return -1;
        }
        done += static_cast<std::size_t>(n);
    }
    ::lseek(file, 0, SEEK_SET);
    return file;
}

std::uint32_t uid_of_job(const SandboxTier& tier, std::uint64_t number) {
    if (!tier.as_root || tier.uids == 0)
        return 0;
    // Programs running side by side start at different places.
    const std::uint64_t place = static_cast<std::uint64_t>(::getpid()) * 997 + number;
    return tier.first_uid + static_cast<std::uint32_t>(place % tier.uids);
}

std::vector<std::string> cage_command(const Machine& machine, const Cage& cage,
                                      const std::vector<std::string>& entrances) {
    std::vector<std::string> argv;
    if (!entrances.empty() || machine.sandbox.own_root) {
        argv = {machine.runner.string(), "enter"};
        if (machine.sandbox.own_root)
            argv.emplace_back("--own-root");
        argv.insert(argv.end(), entrances.begin(), entrances.end());
        argv.emplace_back("--");
    }
    argv.insert(argv.end(), {machine.bubblewrap, "--unshare-pid", "--unshare-net", "--unshare-ipc",
                             "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent",
                             "--new-session", "--clearenv", "--hostname", "sandbox"});
    if (machine.sandbox.user_namespace)
        argv.insert(argv.end(), {"--unshare-user", "--uid", "1000", "--gid", "1000"});
    if (cage.information_descriptor >= 0)
        argv.insert(argv.end(), {"--info-fd", std::to_string(cage.information_descriptor)});
    for (const auto& [name, value] : cage.environment)
        argv.insert(argv.end(), {"--setenv", name, value});
    // Folders are made explicitly: those that bubblewrap makes on the way to a file are closed to
    // other users.
    if (cage.root == Cage::Root::bare) {
        std::set<std::string> folders;
        for (const std::string& file : runtime_libraries())
            for (std::size_t slash = file.find('/', 1); slash != std::string::npos;
                 slash = file.find('/', slash + 1))
                folders.insert(file.substr(0, slash));
        for (const std::string& folder : folders)
            argv.insert(argv.end(), {"--perms", "0755", "--dir", folder});
        for (const std::string& file : runtime_libraries())
            argv.insert(argv.end(), {"--ro-bind", file, file});
    } else {
        add_all_libraries(argv);
    }
    if (cage.root == Cage::Root::tools) {
        const std::string size = std::to_string(cage.writable_bytes);
        argv.insert(argv.end(), {"--setenv", "PATH", path_inside, "--setenv", "HOME", "/work",
                                 "--setenv", "LANG", "C.UTF-8"});
        // No endless files: a compiler that includes /dev/zero would read it as empty, others for
        // ever.
        argv.insert(argv.end(), {"--proc", "/proc", "--perms", "0755", "--dir", "/dev"});
        for (const char* device : {"/dev/null", "/dev/random", "/dev/urandom"})
            argv.insert(argv.end(), {"--dev-bind", device, device});
        argv.insert(argv.end(), {"--symlink", "/proc/self/fd", "/dev/fd"});
        argv.insert(argv.end(), {"--perms", "1777", "--size", size, "--tmpfs", "/dev/shm"});
        argv.insert(argv.end(), {"--perms", "1777", "--size", size, "--tmpfs", "/tmp"});
        argv.insert(argv.end(), {"--perms", "0777", "--size", size, "--tmpfs", "/work"});
    } else {
        argv.insert(argv.end(), {"--perms", "0755", "--dir", "/work"});
    }
    argv.insert(argv.end(), {"--ro-bind", machine.runner.string(), inside_runner});
    for (const auto& [outside, inside] : cage.read_only)
        argv.insert(argv.end(), {"--ro-bind", outside, inside});
    argv.insert(argv.end(), {"--remount-ro", "/", "--chdir", "/work", "--", inside_runner});
    return argv;
}

Result<Started> start_process(const std::vector<std::string>& argv,
                              const std::vector<std::pair<int, int>>& descriptors) {
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
    // The child's numbers may collide with ours, so ours are first moved out of the way.
    std::vector<Descriptor> moved;
    moved.reserve(descriptors.size());
    for (const auto& [ours, theirs] : descriptors) {
        moved.emplace_back(::fcntl(ours, F_DUPFD_CLOEXEC, 512));
        if (moved.back().get() < 0) {
            posix_spawn_file_actions_destroy(&files);
            return fail(argv.front(), "cannot pass a descriptor on: " + last_error());
        }
        posix_spawn_file_actions_adddup2(&files, moved.back().get(), theirs);
    }
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    std::vector<char*> words;
    words.reserve(argv.size() + 1);
    for (const std::string& word : argv)
        words.push_back(const_cast<char*>(word.c_str()));  // posix_spawn leaves them alone
    words.push_back(nullptr);
    std::array<char*, 1> environment{nullptr};
    Started started;
    const int failed = ::posix_spawn(&started.pid, words[0], &files, &attributes, words.data(),
                                     environment.data());
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (failed != 0) {
        errno = failed;
        return fail(argv.front(), "cannot start it: " + last_error());
    }
    started.life = static_cast<int>(::syscall(SYS_pidfd_open, started.pid, 0));
    if (started.life < 0) {
        const std::string why = last_error();
        ::kill(-started.pid, SIGKILL);
        ::waitpid(started.pid, nullptr, 0);
        return fail(argv.front(), "pidfd_open: " + why);
    }
    return started;
}

namespace {

// Runs true(1) in the cage that is set in machine.sandbox. "" = it works.
std::string try_sandbox(const Machine& machine) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        return "pipe: " + last_error();
    Descriptor from(ends[0]);
    Descriptor to(ends[1]);
    std::vector<std::string> argv = cage_command(machine, Cage{}, {});
    argv.emplace_back("exec");
    const std::uint32_t uid = uid_of_job(machine.sandbox, 0);
    if (uid != 0)
        argv.insert(argv.end(), {"--uid", std::to_string(uid)});
    argv.insert(argv.end(), {"--nproc", "16", "--", "/bin/true"});
    const Result<Started> started = start_process(argv, {{to.get(), 1}, {to.get(), 2}});
    if (!started)
        return to_text(started.error());
    to.reset();
    Descriptor life(started->life);
    pollfd wait{life.get(), POLLIN, 0};
    const bool ended = ::poll(&wait, 1, 10'000) > 0;
    ::kill(-started->pid, SIGKILL);
    int status = 0;
    ::waitpid(started->pid, &status, 0);
    std::string said;
    std::array<char, 2048> piece{};
    ::fcntl(from.get(), F_SETFL, O_NONBLOCK);
    const ssize_t n = ::read(from.get(), piece.data(), piece.size());
    if (n > 0)
        said.assign(piece.data(), static_cast<std::size_t>(n));
    if (!ended)
        return "no answer within 10 s";
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return "";
    const std::string_view last = trim(said);
    return last.empty() ? fmt::format("status {}", status) : std::string(last);
}

// Uids that nobody here has, for jobs of root. systemd reserves 1879048192 to 2147483647 for
// nothing; a container whose map is smaller has only its own, where the range of dynamic users is
// free in practice.
void find_uids(SandboxTier& tier) {
    std::FILE* map = std::fopen("/proc/self/uid_map", "re");
    unsigned long long inside = 0;
    unsigned long long outside = 0;
    unsigned long long count = 0;
    tier.first_uid = 61184;
    tier.uids = 4000;
    if (map == nullptr)
        return;
    while (std::fscanf(map, "%llu %llu %llu", &inside, &outside, &count) == 3)
        if (inside <= 1'900'000'000 && inside + count > 2'000'000'000) {
            tier.first_uid = 1'900'000'000;
            tier.uids = 100'000'000;
        } else if (inside == 0 && count < 65535 && count > 1) {
            tier.uids = static_cast<std::uint32_t>(std::min(count / 2, 4000ULL));
            tier.first_uid = static_cast<std::uint32_t>(count) - tier.uids;
        }
    std::fclose(map);
}

}  // namespace

void find_sandbox(Machine& machine, std::string& why) {
    SandboxTier& tier = machine.sandbox;
    tier = SandboxTier{};
    find_control_groups(tier);
    const std::string bounded = tier.memory_group.empty() ? ""
                                : tier.unified_groups     ? ", control groups (version 2)"
                                : tier.process_group.empty()
                                    ? ", control group for memory (version 1)"
                                    : ", control groups (version 1)";
    struct Form {
        const char* description;
        bool user_namespace, as_root, own_root;
    };
    std::vector<Form> forms;
    if (::geteuid() == 0) {
        forms.push_back({"bubblewrap as root, jobs under uids of their own", false, true, false});
        forms.push_back(
            {"bubblewrap as root of a chroot, jobs under uids of their own", false, true, true});
    }
    forms.push_back({"bubblewrap with user namespace", true, false, false});
    for (const Form& form : forms) {
        tier.user_namespace = form.user_namespace;
        tier.as_root = form.as_root;
        tier.own_root = form.own_root;
        if (tier.as_root)
            find_uids(tier);
        const std::string fault = try_sandbox(machine);
        if (fault.empty()) {
            tier.works = true;
            tier.description = form.description + bounded;
            return;
        }
        why += (why.empty() ? "" : "; ") + std::string(form.description) + ": " + fault;
    }
    tier.user_namespace = tier.as_root = tier.own_root = false;
    tier.description = why;
}

awaitable<Result<SandboxResult>> run_sandboxed(Machine& machine, SandboxJob job) {
    if (!machine.sandbox.works)
        co_return fail("sandbox", "none works here: " + machine.sandbox.description);
    for (const auto& [path, bytes] : job.files)
        if (!is_inside(path))
            co_return fail(
                path,
                "is not a path inside the sandbox's /work: it must be relative, without \"..\"");
    const std::uint64_t number = machine.jobs++;
    const std::int64_t memory = job.memory_mb << 20;
    const std::int64_t file_bytes = job.file_mb << 20;
    // The runner itself and bubblewrap's two processes live in the group as well.
    ControlGroup group = ControlGroup::make(machine.sandbox, number, memory, job.processes + 4);

    Cage cage;
    cage.read_only = job.read_only;
    cage.environment = job.environment;
    cage.writable_bytes = 4 * file_bytes;
    std::array<int, 2> information{-1, -1};
    if (!group.bounds_processes() && ::pipe2(information.data(), O_CLOEXEC) == 0)
        cage.information_descriptor = 6;
    Descriptor told(information[0]);
    Descriptor tells(information[1]);

    Command command;
    command.argv = cage_command(machine, cage, group.entrances());
    const Descriptor files(job.files.empty() ? -1
                                             : memory_file("loopscope-in", archive_of(job.files)));
    const Descriptor answer(memory_file("loopscope-out", ""));
    if (answer.get() < 0 || (!job.files.empty() && files.get() < 0))
        co_return fail("sandbox", "no memory for its files: " + last_error());
    command.descriptors.emplace_back(answer.get(), wire::pack_descriptor);
    auto& argv = command.argv;
    argv.insert(argv.end(), {"exec", "--pack"});
    if (!job.files.empty()) {
        argv.emplace_back("--unpack");
        command.descriptors.emplace_back(files.get(), wire::unpack_descriptor);
    }
    if (cage.information_descriptor >= 0)
        command.descriptors.emplace_back(tells.get(), cage.information_descriptor);
    for (const auto& [ours, theirs] : job.descriptors) {
        command.descriptors.emplace_back(ours, theirs);
        argv.insert(argv.end(), {"--keep", std::to_string(theirs)});
    }
    const std::uint32_t uid = uid_of_job(machine.sandbox, number);
    if (uid != 0)
        argv.insert(argv.end(), {"--uid", std::to_string(uid)});
    argv.insert(argv.end(),
                {"--cpu", std::to_string(static_cast<long long>(std::ceil(job.cpu_seconds))),  //
                 "--fsize", std::to_string(file_bytes), "--nofile", "256",                     //
                 "--nproc", std::to_string(job.processes + 1),                                 //
                 "--cpus", list_of(job.cpus.empty() ? machine.build_cpus : job.cpus)});
    if (!group.bounds_memory() && !job.reserves_address_space)
        argv.insert(argv.end(), {"--as", std::to_string(memory)});
    for (const std::string& path : job.collect) {
        if (!is_inside(path))
            co_return fail(
                path,
                "is not a path inside the sandbox's /work: it must be relative, without \"..\"");
        argv.insert(argv.end(), {"--collect", path});
    }
    argv.emplace_back("--");
    argv.insert(argv.end(), job.argv.begin(), job.argv.end());
    command.input = std::move(job.input);
    command.deadline = std::chrono::milliseconds(static_cast<long long>(job.wall_seconds * 1000));
    command.max_output = static_cast<std::size_t>(job.output_kb) << 10U;

    Result<Exit> exit = co_await run_child(std::move(command));
    // Nothing of the job may outlive this call. Its first process dies with bubblewrap, and the
    // kernel ends all others of the namespace with it; both take a moment when bubblewrap itself
    // was killed.
    const auto executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor);
    tells.reset();
    const int head = cage.information_descriptor >= 0 ? first_process(told.get()) : -1;
    for (int attempt = 0;
         attempt < 2000 && (!group.is_empty() || (head > 0 && is_namespace_head(head)));
         ++attempt) {
        group.kill();
        if (head > 0)
            ::kill(head, SIGKILL);
        timer.expires_after(std::chrono::milliseconds(1));
        co_await timer.async_wait(asio::use_awaitable);
    }
    if (!exit)
        co_return fail(exit.error().where, exit.error().what);

    SandboxResult result;
    result.exit = std::move(*exit);
    Packed packed = read_packed(answer.get());
    if (packed.complete) {
        const bool late = result.exit.kind == Exit::Kind::timed_out;
        result.exit.kind = late                        ? Exit::Kind::timed_out
                           : packed.result.signal != 0 ? Exit::Kind::signalled
                                                       : Exit::Kind::exited;
        result.exit.code = packed.result.signal != 0 ? packed.result.signal : packed.result.code;
        result.exit.cpu_seconds = packed.result.cpu_seconds;
        result.exit.peak_kilobytes = static_cast<long>(packed.result.peak_kilobytes);
        result.files = std::move(packed.files);
    } else if (result.exit.kind == Exit::Kind::exited) {
        if (result.exit.code <= 128)  // bubblewrap or the runner gave up before the program started
            co_return fail("sandbox",
                           fmt::format("{} ({})", trim(result.exit.err), describe(result.exit)));
        result.exit.kind = Exit::Kind::signalled;
        result.exit.code -= 128;
    }
    if (result.exit.kind == Exit::Kind::signalled &&
        (result.exit.code == SIGXCPU ||
         (result.exit.code == SIGKILL && result.exit.cpu_seconds >= job.cpu_seconds)))
        result.exit.kind = Exit::Kind::timed_out;
    result.out_of_memory =
        group.bounds_memory() ? group.out_of_memory() : speaks_of_memory(result.exit.err);
    result.out_of_processes = group.out_of_processes();
    co_return result;
}

}  // namespace loopscope
