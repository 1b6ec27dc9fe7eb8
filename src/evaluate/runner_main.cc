// loopscope-runner: the only program of ours that shares a process with foreign code.
//
//   enter [--own-root] FILE... -- ARGV
//       puts itself into control groups (writes its id into each FILE), with --own-root makes the
//       root a mount point of its own, and becomes ARGV
//   exec OPTIONS -- ARGV
//       inside the sandbox: unpacks files into /work, runs ARGV under limits, packs files
//   serve OPTIONS OBJECT ENTRY GLUE
//       inside the sandbox: loads a shared object and calls it when told (runner_protocol.h)
//
// It knows no expected result, no seed and no clock, so there is nothing in it to steal or to
// forge.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "evaluate/runner_protocol.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using namespace loopscope::wire;

// Our own failures: 125, as env(1) and timeout(1) do.
[[noreturn]] void give_up(const char* what) {
    std::fprintf(stderr, "loopscope-runner: %s: %s\n", what,
                 std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
    ::_exit(125);
}

struct Options {
    long long address_space = 0, cpu_seconds = 0, file_bytes = 0, descriptors = 0, processes = 0;
    long uid = -1;
    int nice = 0;
    std::vector<int> cpus;
    bool unpack = false, pack = false;
    std::vector<std::string> collect;
    std::vector<int> keep;  // descriptors that the program gets besides 0, 1 and 2
    int rest = 0;           // index of the first argument that is no option
};

Options parse(int argc, char** argv) {
    Options options;
    int i = 2;
    for (; i < argc; ++i) {
        const std::string_view name = argv[i];
        if (name.size() < 2 || name.substr(0, 2) != "--")
            break;
        if (name == "--") {
            ++i;
            break;
        }
        if (name == "--unpack") {
            options.unpack = true;
            continue;
        }
        if (name == "--pack") {
            options.pack = true;
            continue;
        }
        if (i + 1 >= argc)
            break;
        const char* value = argv[++i];
        if (name == "--as")
            options.address_space = std::atoll(value);
        else if (name == "--cpu")
            options.cpu_seconds = std::atoll(value);
        else if (name == "--fsize")
            options.file_bytes = std::atoll(value);
        else if (name == "--nofile")
            options.descriptors = std::atoll(value);
        else if (name == "--nproc")
            options.processes = std::atoll(value);
        else if (name == "--nice")
            options.nice = std::atoi(value);
        else if (name == "--uid")
            options.uid = std::atol(value);
        else if (name == "--keep")
            options.keep.push_back(std::atoi(value));
        else if (name == "--collect")
            options.collect.emplace_back(value);
        else if (name == "--cpus") {
            for (const char* p = value; *p != 0;) {
                char* end = nullptr;
                options.cpus.push_back(static_cast<int>(std::strtol(p, &end, 10)));
                p = *end == ',' ? end + 1 : end;
                if (end == p && *p != 0)
                    break;
            }
        } else {
            errno = EINVAL;
            give_up(argv[i - 1]);
        }
    }
    options.rest = i;
    return options;
}

void limit(__rlimit_resource which, long long value, const char* name) {
    if (value <= 0)
        return;
    const rlimit wanted{static_cast<rlim_t>(value), static_cast<rlim_t>(value)};
    if (::setrlimit(which, &wanted) == 0)
        return;
    // An unprivileged user may not raise a hard limit; a lower one is as good.
    rlimit now{};
    if (errno == EPERM && ::getrlimit(which, &now) == 0 &&
        now.rlim_max <= static_cast<rlim_t>(value))
        return;
    give_up(name);
}

// Whatever the program that started us left open is closed, so that nothing is inherited by
// accident.
void close_others(std::vector<int> keep) {
    std::sort(keep.begin(), keep.end());
    unsigned next = 3;
    for (const int descriptor : keep) {
        if (static_cast<unsigned>(descriptor) > next)
            ::syscall(SYS_close_range, next, static_cast<unsigned>(descriptor) - 1, 0);
        next = static_cast<unsigned>(descriptor) + 1;
    }
    ::syscall(SYS_close_range, next, ~0U, 0);
}

// Order matters: the number of processes is counted for the user that we become, and only before
// becoming it may we change to it.
void confine(const Options& options) {
    if (!options.cpus.empty()) {
        cpu_set_t set;
        CPU_ZERO(&set);
        for (const int cpu : options.cpus)
            if (cpu >= 0 && cpu < CPU_SETSIZE)
                CPU_SET(cpu, &set);
        if (::sched_setaffinity(0, sizeof set, &set) != 0)
            give_up("sched_setaffinity");
    }
    if (options.cpu_seconds > 0) {  // SIGXCPU first, SIGKILL for who ignores it
        const rlimit processor{static_cast<rlim_t>(options.cpu_seconds),
                               static_cast<rlim_t>(options.cpu_seconds + 1)};
        if (::setrlimit(RLIMIT_CPU, &processor) != 0)
            limit(RLIMIT_CPU, options.cpu_seconds, "RLIMIT_CPU");
    }
    if (options.nice != 0)
        ::setpriority(PRIO_PROCESS, 0, options.nice);  // not allowed: then as everybody else
    limit(RLIMIT_FSIZE, options.file_bytes, "RLIMIT_FSIZE");
    limit(RLIMIT_NOFILE, options.descriptors, "RLIMIT_NOFILE");
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    if (options.uid > 0) {
        const auto id = static_cast<uid_t>(options.uid);
        if (::setgroups(0, nullptr) != 0 || ::setresgid(id, id, id) != 0)
            give_up("setresgid");
        limit(RLIMIT_NPROC, options.processes, "RLIMIT_NPROC");
        if (::setresuid(id, id, id) != 0)
            give_up("setresuid");
    } else {
        limit(RLIMIT_NPROC, options.processes, "RLIMIT_NPROC");
    }
    limit(RLIMIT_AS, options.address_space, "RLIMIT_AS");
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        give_up("PR_SET_NO_NEW_PRIVS");
    ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);  // neither ptrace nor /proc/PID/fd of this helper
    ::umask(022);
}

// ----------------------------------------------------------------------------------------------------
// exec

bool write_fully(int descriptor, const void* bytes, std::size_t count) {
    const char* p = static_cast<const char*>(bytes);
    while (count > 0) {
        const ssize_t n = ::write(descriptor, p, count);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        count -= static_cast<std::size_t>(n);
    }
    return true;
}

bool read_fully(int descriptor, void* bytes, std::size_t count) {
    char* p = static_cast<char*>(bytes);
    while (count > 0) {
        const ssize_t n = ::read(descriptor, p, count);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        count -= static_cast<std::size_t>(n);
    }
    return true;
}

void make_folders(const std::string& path) {
    for (std::size_t slash = path.find('/', 1); slash != std::string::npos;
         slash = path.find('/', slash + 1))
        ::mkdir(path.substr(0, slash).c_str(), 0755);
}

void unpack() {
    std::uint32_t count = 0;
    if (!read_fully(unpack_descriptor, &count, sizeof count))
        give_up("unpack");
    std::vector<char> bytes;
    for (std::uint32_t i = 0; i < count; ++i) {
        PackedFile file;
        if (!read_fully(unpack_descriptor, &file, sizeof file))
            give_up("unpack");
        std::string path(file.path_length, '\0');
        bytes.resize(file.length);
        if (!read_fully(unpack_descriptor, path.data(), path.size()) ||
            !read_fully(unpack_descriptor, bytes.data(), bytes.size()))
            give_up("unpack");
        make_folders(path);
        const int out = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                               file.executable != 0 ? 0755 : 0644);
        if (out < 0 || !write_fully(out, bytes.data(), bytes.size()))
            give_up(path.c_str());
        ::close(out);
    }
    ::close(unpack_descriptor);
}

// Appends one file of /work to the answer. What the program left there is only ever bytes to us: no
// link is followed, nothing but a regular file is read.
bool pack(const std::string& path, long long max_bytes) {
    const int in = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat about{};
    if (in < 0)
        return false;
    if (::fstat(in, &about) != 0 || !S_ISREG(about.st_mode) ||
        (max_bytes > 0 && about.st_size > max_bytes)) {
        ::close(in);
        return false;
    }
    std::vector<char> bytes(static_cast<std::size_t>(about.st_size));
    const bool whole = read_fully(in, bytes.data(), bytes.size());
    ::close(in);
    if (!whole)
        return false;
    const PackedFile file{static_cast<std::uint32_t>(path.size()), 0, bytes.size()};
    return write_fully(pack_descriptor, &file, sizeof file) &&
           write_fully(pack_descriptor, path.data(), path.size()) &&
           write_fully(pack_descriptor, bytes.data(), bytes.size());
}

int run_exec(int argc, char** argv) {
    Options options = parse(argc, argv);
    if (options.rest >= argc) {
        errno = EINVAL;
        give_up("exec: no program");
    }
    if (options.unpack)
        options.keep.push_back(unpack_descriptor);
    if (options.pack)
        options.keep.push_back(pack_descriptor);
    close_others(options.keep);
    // Unpacked as the user that the program runs as, but before the limits on files.
    Options first = options;
    first.file_bytes = 0;
    confine(first);
    if (options.unpack)
        unpack();
    if (options.pack)
        ::fcntl(pack_descriptor, F_SETFD, FD_CLOEXEC);
    const pid_t child = ::fork();
    if (child < 0)
        give_up("fork");
    if (child == 0) {
        limit(RLIMIT_FSIZE, options.file_bytes, "RLIMIT_FSIZE");
        if (options.pack)
            ::close(pack_descriptor);
        ::execvp(argv[options.rest], argv + options.rest);
        std::fprintf(stderr, "cannot run %s: %s\n", argv[options.rest],
                     std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
        ::_exit(127);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    rusage used{};
    ::getrusage(RUSAGE_CHILDREN, &used);
    ExecResult result;
    result.magic = ExecResult::expected_magic;
    result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    result.cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
    result.peak_kilobytes = used.ru_maxrss;
    if (options.pack) {
        if (!write_fully(pack_descriptor, &result, sizeof result))
            give_up("pack");
        for (const std::string& path : options.collect)
            result.files += pack(path, options.file_bytes) ? 1U : 0U;
        if (::pwrite(pack_descriptor, &result, sizeof result, 0) != sizeof result)
            give_up("pack");
    }
    return result.signal != 0 ? 128 + result.signal : result.code;
}

// ---------------------------------------------------------------------------------------------------
// serve

void send(const void* message, std::size_t length) {
    while (::send(control_descriptor, message, length, MSG_NOSIGNAL) < 0)
        if (errno != EINTR)
            ::_exit(125);
}

void send_text(Op op, const char* text) {
    std::string message(reinterpret_cast<const char*>(&op), sizeof op);
    message += std::string_view(text).substr(0, 1000);
    send(message.data(), message.size());
}

// System calls that no kernel needs. The first kind is announced and the program ended; the second
// only refused, because libraries try them on their own and do without.
//
// Threads are allowed (the number is limited), processes are not: what cannot be forked cannot go
// on writing after its parent was stopped.
int install_filter(bool with_listener) {
    const std::uint32_t forbidden_action =
        with_listener ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_KILL_PROCESS;
    static const int forbidden[] = {
        SYS_socket,
        SYS_socketpair,
        SYS_execve,
        SYS_execveat,
        SYS_ptrace,
        SYS_mount,
        SYS_umount2,
        SYS_pivot_root,
        SYS_setns,
        SYS_unshare,
        SYS_bpf,
        SYS_perf_event_open,
        SYS_io_uring_setup,
        SYS_userfaultfd,
        SYS_process_vm_readv,
        SYS_process_vm_writev,
        SYS_keyctl,
        SYS_add_key,
        SYS_request_key,
        SYS_init_module,
        SYS_finit_module,
        SYS_kexec_load,
        SYS_reboot,
        SYS_swapon,
        SYS_shmget,
        SYS_open_by_handle_at,
        SYS_pidfd_getfd,
        SYS_chroot,
#ifdef SYS_fork
        SYS_fork,
#endif
#ifdef SYS_vfork
        SYS_vfork,
#endif
    };
    static const int refused[] = {
        SYS_sched_setaffinity, SYS_sched_setscheduler, SYS_sched_setattr, SYS_sched_setparam,
        SYS_setpriority,       SYS_set_mempolicy,      SYS_mbind,         SYS_migrate_pages};
#if defined(__x86_64__)
    constexpr std::uint32_t arch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
    constexpr std::uint32_t arch = AUDIT_ARCH_AARCH64;
#else
#error "the system call filter knows x86-64 and AArch64 only"
#endif
    std::vector<sock_filter> code;
    const auto statement = [&](std::uint16_t op, std::uint32_t k) {
        code.push_back(BPF_STMT(op, k));
    };
    const auto jump = [&](std::uint16_t op, std::uint32_t k, std::uint8_t yes, std::uint8_t no) {
        code.push_back(BPF_JUMP(op, k, yes, no));
    };
    statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
    jump(BPF_JMP | BPF_JEQ | BPF_K, arch, 1, 0);
    statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
    jump(BPF_JMP | BPF_JGE | BPF_K, 0x40000000U, 0, 1);  // the x32 numbers
    statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    for (const int number : forbidden) {
        jump(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1);
        statement(BPF_RET | BPF_K, forbidden_action);
    }
    for (const int number : refused) {
        jump(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1);
        statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    }
    // clone3 keeps its flags in memory, where no filter sees them; without it libc falls back on
    // clone.
    jump(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
    statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
    jump(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3);
    statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0]));
    jump(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0);
    statement(BPF_RET | BPF_K, forbidden_action);
    statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
    return static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                      with_listener ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0UL,
                                      &program));
}

void send_listener(int listener) {
    const Op op = Op::listener;
    iovec piece{const_cast<Op*>(&op), sizeof op};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &listener, sizeof listener);
    if (::sendmsg(control_descriptor, &message, MSG_NOSIGNAL) < 0)
        ::_exit(125);
}

// Says where an illegal access went, then dies of it as if nobody had looked.
void on_fault(int signal, siginfo_t* info, void* context) {
    FaultReply reply;
    reply.signal = static_cast<std::uint32_t>(signal);
    reply.address = reinterpret_cast<std::uint64_t>(info->si_addr);
#if defined(__x86_64__)
    reply.stack_pointer =
        static_cast<std::uint64_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
    reply.stack_pointer = static_cast<ucontext_t*>(context)->uc_mcontext.sp;
#endif
    (void)::send(control_descriptor, &reply, sizeof reply, MSG_NOSIGNAL | MSG_DONTWAIT);
    ::signal(signal, SIG_DFL);
    if (info->si_code <= 0)  // sent, not raised by an instruction: it would not come again
        ::raise(signal);
}

void catch_faults() {
    static char stack[64 * 1024];
    stack_t alternate{};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    ::sigaltstack(&alternate, nullptr);
    struct sigaction action{};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})
        ::sigaction(signal, &action, nullptr);
}

std::uint32_t floating_point_control() {
#if defined(__x86_64__)
    return _mm_getcsr() & ~0x3FU;  // without the sticky exception flags
#elif defined(__aarch64__)
    std::uint64_t word = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return static_cast<std::uint32_t>(word);
#endif
}

void set_floating_point_control(std::uint32_t word) {
#if defined(__x86_64__)
    _mm_setcsr(word);
#elif defined(__aarch64__)
    const std::uint64_t wide = word;
    __asm__ volatile("msr fpcr, %0" : : "r"(wide));
#endif
}

using Entry = void (*)();
using Glue = void (*)(Entry, void**);

struct Mapping {
    char* start = nullptr;
    std::size_t length = 0;
    std::uint32_t arguments = 0;
    std::vector<ArgumentPlace> places;  // scalars live here
    std::vector<void*> pointers;        // slots x arguments
};

// Returns the fault, or nullptr.
const char* map(Mapping& mapping, const char* message, std::size_t length,
                std::vector<std::uint64_t>& bases) {
    MapRequest request;
    std::memcpy(&request, message, sizeof request);
    std::vector<Region> regions(request.regions);
    mapping.places.resize(static_cast<std::size_t>(request.slots) * request.arguments);
    const std::size_t region_bytes = regions.size() * sizeof(Region);
    const std::size_t place_bytes = mapping.places.size() * sizeof(ArgumentPlace);
    if (length != sizeof request + region_bytes + place_bytes)
        return "the request has a wrong length";
    if (region_bytes > 0)
        std::memcpy(regions.data(), message + sizeof request, region_bytes);
    if (place_bytes > 0)
        std::memcpy(mapping.places.data(), message + sizeof request + region_bytes, place_bytes);
    if (mapping.start != nullptr)
        ::munmap(mapping.start, mapping.length);
    mapping.length = guard;
    for (const Region& region : regions)
        mapping.length += region.length + guard;
    void* start = ::mmap(nullptr, mapping.length, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return "no address space for the arguments";
    mapping.start = static_cast<char*>(start);
    bases.clear();
    std::vector<char*> starts;
    char* next = mapping.start + guard;
    for (const Region& region : regions) {
        starts.push_back(next);
        bases.push_back(reinterpret_cast<std::uint64_t>(next));
        if (region.length > 0 &&
            ::mmap(next, region.length, region.output != 0 ? PROT_READ | PROT_WRITE : PROT_READ,
                   MAP_SHARED | MAP_FIXED | MAP_POPULATE,
                   region.output != 0 ? output_descriptor : input_descriptor,
                   static_cast<off_t>(region.offset)) == MAP_FAILED)
            return "cannot map an argument";
        next += region.length + guard;
    }
    mapping.arguments = request.arguments;
    mapping.pointers.assign(mapping.places.size(), nullptr);
    for (std::size_t i = 0; i < mapping.places.size(); ++i) {
        ArgumentPlace& place = mapping.places[i];
        mapping.pointers[i] = place.array == 0 ? static_cast<void*>(&place.value)
                                               : starts[place.region] + place.value;
    }
    return nullptr;
}

int run_serve(int argc, char** argv) {
    const Options options = parse(argc, argv);
    if (argc - options.rest != 3) {
        errno = EINVAL;
        give_up("serve OBJECT ENTRY GLUE");
    }
    close_others({control_descriptor, input_descriptor, output_descriptor});
    confine(options);
    const Op hello = Op::hello;
    send(&hello, sizeof hello);
    const int listener = install_filter(true);
    if (listener >= 0) {
        send_listener(listener);
        ::close(listener);
    } else {
        if (install_filter(false) != 0)
            give_up("seccomp");
        const Op none = Op::no_listener;
        send(&none, sizeof none);
    }
    Entry entry = nullptr;
    Glue glue = nullptr;
    Mapping mapping;
    std::vector<std::uint64_t> bases;
    std::vector<char> message(max_message);
    std::vector<std::uint32_t> slots;
    const std::uint32_t sane = floating_point_control();
    catch_faults();
    for (;;) {
        const ssize_t got = ::recv(control_descriptor, message.data(), message.size(), 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < static_cast<ssize_t>(sizeof(Op)))
            return 0;  // the other side has gone
        Op op{};
        std::memcpy(&op, message.data(), sizeof op);
        if (op == Op::load) {
            void* glue_object = ::dlopen(argv[options.rest + 2], RTLD_NOW | RTLD_LOCAL);
            glue = glue_object != nullptr
                       ? reinterpret_cast<Glue>(::dlsym(glue_object, "loopscope_call"))
                       : nullptr;
            void* object =
                glue != nullptr ? ::dlopen(argv[options.rest], RTLD_NOW | RTLD_LOCAL) : nullptr;
            entry = object != nullptr
                        ? reinterpret_cast<Entry>(::dlsym(object, argv[options.rest + 1]))
                        : nullptr;
            if (entry == nullptr) {
                const char* why = ::dlerror();  // NOLINT(concurrency-mt-unsafe)
                send_text(Op::load_failed, why != nullptr ? why : "no such symbol");
                continue;
            }
            // A library linked with -ffast-math changes the mode of whoever loads it; its calls are
            // judged by what they do themselves.
            set_floating_point_control(sane);
            const Op loaded = Op::loaded;
            send(&loaded, sizeof loaded);
        } else if (op == Op::map) {
            const char* fault = map(mapping, message.data(), static_cast<std::size_t>(got), bases);
            if (fault != nullptr) {
                send_text(Op::map_failed, fault);
                continue;
            }
            const Op mapped = Op::mapped;
            std::vector<char> reply(sizeof mapped + bases.size() * sizeof(std::uint64_t));
            std::memcpy(reply.data(), &mapped, sizeof mapped);
            if (!bases.empty())
                std::memcpy(reply.data() + sizeof mapped, bases.data(),
                            bases.size() * sizeof(std::uint64_t));
            send(reply.data(), reply.size());
        } else if (op == Op::go) {
            GoRequest request;
            std::memcpy(&request, message.data(), sizeof request);
            slots.resize(request.calls);
            if (request.calls > 0)
                std::memcpy(slots.data(), message.data() + sizeof request,
                            slots.size() * sizeof(std::uint32_t));
            DoneReply done;
            done.floating_point_before = floating_point_control();
            for (const std::uint32_t slot : slots)
                glue(entry,
                     mapping.pointers.data() + static_cast<std::size_t>(slot) * mapping.arguments);
            done.floating_point_after = floating_point_control();
            send(&done, sizeof done);
            set_floating_point_control(sane);
        }
    }
}

// bubblewrap and pivot_root(2) want a root that is a mount point, which the root of a plain chroot
// is not; and nothing can be made private there, so that a new mount would show outside. What every
// such root has is a mounted /proc: it is made private, the root is bound over it and entered.
void enter_own_root() {
    if (::unshare(CLONE_NEWNS) != 0)
        give_up("a mount namespace");
    if (::mount(nullptr, "/proc", nullptr, MS_PRIVATE, nullptr) != 0)
        give_up("/proc is not a mount point");
    if (::mount("/", "/proc", nullptr, MS_BIND | MS_REC, nullptr) != 0 ||
        ::mount(nullptr, "/proc", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
        give_up("cannot bind the root folder");
    if (::chdir("/proc") != 0 || ::chroot(".") != 0)
        give_up("chroot");
}

int run_enter(int argc, char** argv) {
    int i = 2;
    const bool own_root = i < argc && std::strcmp(argv[i], "--own-root") == 0;
    if (own_root)
        ++i;
    for (; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
        const int file = ::open(argv[i], O_WRONLY | O_CLOEXEC);
        if (file < 0 || ::write(file, "0", 1) != 1)
            give_up(argv[i]);
        ::close(file);
    }
    if (i + 1 >= argc) {
        errno = EINVAL;
        give_up("enter: no program");
    }
    if (own_root)
        enter_own_root();
    ::execvp(argv[i + 1], argv + i + 1);
    give_up(argv[i + 1]);
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view verb = argc > 1 ? argv[1] : "";
    if (verb == "enter")
        return run_enter(argc, argv);
    if (verb == "exec")
        return run_exec(argc, argv);
    if (verb == "serve")
        return run_serve(argc, argv);
    std::fputs(
        "loopscope-runner is started by loopscope, inside its sandbox; see docs/evaluation.md\n",
        stderr);
    return 2;
}
