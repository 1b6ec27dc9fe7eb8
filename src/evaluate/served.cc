#include "evaluate/served.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "core/file.h"
#include "core/text.h"

namespace loopscope {

namespace {

using Steady = std::chrono::steady_clock;

std::string last_error() {
    return std::strerror(errno);  // NOLINT(concurrency-mt-unsafe): glibc's is per thread
}

void close_if_open(int& descriptor) {
    if (descriptor >= 0)
        ::close(descriptor);
    descriptor = -1;
}

constexpr std::size_t round_up(std::size_t value, std::size_t step) {
    return (value + step - 1) / step * step;
}

std::string signal_name(int number) {
    const char* name = ::sigabbrev_np(number);
    const char* text = ::sigdescr_np(number);
    return fmt::format("signal {} (SIG{}, {})", number, name != nullptr ? name : "?",
                       text != nullptr ? text : "?");
}

std::string_view call_name(int number) {
    switch (number) {
        case SYS_socket:
        case SYS_socketpair:
            return "open a socket";
        case SYS_execve:
        case SYS_execveat:
            return "start another program";
        case SYS_ptrace:
        case SYS_process_vm_readv:
        case SYS_process_vm_writev:
        case SYS_pidfd_getfd:
            return "look into another process";
        case SYS_mount:
        case SYS_umount2:
        case SYS_pivot_root:
        case SYS_chroot:
        case SYS_setns:
        case SYS_unshare:
            return "change its name spaces";
        case SYS_perf_event_open:
            return "open a performance counter";
        default:
            return "make a system call that no kernel needs";
    }
}

bool starts_process(int number) {
    switch (number) {
        case SYS_clone:
#ifdef SYS_fork
        case SYS_fork:
#endif
#ifdef SYS_vfork
        case SYS_vfork:
#endif
            return true;
        default:
            return false;
    }
}

// What a program wrote before it ended, as quoted evidence: one line, printable, short.
std::string what_it_wrote(std::string_view text) {
    std::string line;
    for (const char c : trim(text).substr(0, 300))
        line += c == '\n' ? ' ' : (c >= ' ' && c < 127) ? c : '?';
    return line.empty() ? "" : fmt::format("; it wrote: \"{}\"", line);
}

}  // namespace

Result<Arena> Arena::make(std::size_t bytes, Use use) {
    Arena arena;
    arena.size_ = round_up(std::max<std::size_t>(bytes, 1), wire::page);
    arena.file_ = memory_file("arguments", "");
    if (arena.file_ < 0 || ::ftruncate(arena.file_, static_cast<off_t>(arena.size_)) != 0)
        return fail("memory", fmt::format("no {} MiB for the arguments: {}", arena.size_ >> 20U,
                                          last_error()));
    void* base = ::mmap(nullptr, arena.size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                        arena.file_, 0);
    if (base == MAP_FAILED)
        return fail("memory", fmt::format("no {} MiB for the arguments: {}", arena.size_ >> 20U,
                                          last_error()));
    arena.base_ = static_cast<char*>(base);
    // A process that could shrink the file would take our own pages away under us. Future-write
    // comes after our mapping, which therefore stays the only writable one.
    const int seals =
        F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (use == Use::input ? F_SEAL_FUTURE_WRITE : 0);
    if (::fcntl(arena.file_, F_ADD_SEALS, seals) != 0)
        return fail("memory",
                    "cannot seal the arguments (Linux 5.1 or newer is needed): " + last_error());
    return arena;
}

Arena::Arena(Arena&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      base_(std::exchange(other.base_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(base_, other.base_);
    std::swap(size_, other.size_);
    return *this;
}

Arena::~Arena() {
    if (base_ != nullptr)
        ::munmap(base_, size_);
    close_if_open(file_);
}

Layout lay_out(const KernelSpec& kernel, const CallShape& shape, Side side, std::uint32_t slots,
               const std::vector<std::size_t>& slack) {
    Layout layout;
    layout.slots = slots;
    layout.arguments = static_cast<std::uint32_t>(kernel.arguments.size());
    for (std::uint32_t slot = 0; slot < slots; ++slot)
        for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
            const Argument& argument = kernel.arguments[i];
            Layout::Place place;
            wire::ArgumentPlace to;
            if (argument.scalar) {
                to.value = scalar_word(argument, shape.scalars[i], side);
            } else {
                place.array = true;
                place.output = argument.direction != Direction::in;
                place.bytes = shape.counts[i] * size_of(type_at(argument, side));
                std::size_t& next = place.output ? layout.output_bytes : layout.input_bytes;
                // Aligned for any vector, as near to the guard page behind it as that allows, with
                // at least 64 bytes of canary before it.
                const std::size_t tail = round_up(place.bytes, 64) + (slack.empty() ? 0 : slack[i]);
                const std::size_t length = round_up(tail + 64, wire::page);
                place.region = layout.regions.size();
                place.region_begin = next;
                place.region_end = next + length;
                place.begin = place.region_end - tail;
                layout.regions.push_back({place.output ? 1U : 0U, 0, next, length});
                next += length;
                to.array = 1;
                to.region = static_cast<std::uint32_t>(place.region);
                to.value = place.begin - place.region_begin;
            }
            layout.places.push_back(place);
            layout.wire_places.push_back(to);
        }
    return layout;
}

Result<std::unique_ptr<Served>> Served::start(Machine& machine, const Spec& spec) {
    std::unique_ptr<Served> served(new Served);
    const std::uint64_t number = machine.jobs++;
    const std::int64_t arena_bytes = static_cast<std::int64_t>(spec.input->size()) +
                                     static_cast<std::int64_t>(spec.output->size());
    const std::int64_t memory = (spec.memory_mb << 20) + arena_bytes;
    served->memory_mb_ = spec.memory_mb;
    served->processes_ = spec.processes;
    served->said_limit_ = static_cast<std::size_t>(spec.output_kb) << 10U;
    served->many_cpus_ = spec.cpus.size() > 1;
    served->group_ = ControlGroup::make(machine.sandbox, number, memory, spec.processes + 4);

    std::array<int, 2> control{};
    std::array<int, 2> said{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control.data()) != 0)
        return fail("sandbox", "socketpair: " + last_error());
    served->control_ = control[0];
    int theirs = control[1];
    const int wants = 1;
    ::setsockopt(control[0], SOL_SOCKET, SO_PASSCRED, &wants, sizeof wants);
    if (::pipe2(said.data(), O_CLOEXEC) != 0) {
        ::close(theirs);
        return fail("sandbox", "pipe: " + last_error());
    }
    served->output_pipe_ = said[0];
    int says = said[1];
    ::fcntl(served->output_pipe_, F_SETFL, O_NONBLOCK);
    int object = memory_file("object", spec.object);
    int glue = memory_file("glue", spec.glue);

    Cage cage;
    cage.root = spec.root;
    cage.environment = spec.environment;
    std::vector<std::string> argv = cage_command(machine, cage, served->group_.entrances());
    // Before "--", bubblewrap's own arguments end; the two files are handed over as descriptors.
    constexpr int object_descriptor = 20;
    constexpr int glue_descriptor = 21;
    const auto separator = std::find(argv.rbegin(), argv.rend(), "--").base() - 1;
    const auto before_remount = std::find(argv.begin(), separator, "--remount-ro");
    // The root is made read-only last, after these files exist.
    const std::vector<std::string> files = {
        "--perms", "0555", "--ro-bind-data", std::to_string(object_descriptor), "/object.so",
        "--perms", "0555", "--ro-bind-data", std::to_string(glue_descriptor),   "/glue.so"};
    argv.insert(before_remount, files.begin(), files.end());
    argv.emplace_back("serve");
    const std::uint32_t uid = uid_of_job(machine.sandbox, number);
    if (uid != 0)
        argv.insert(argv.end(), {"--uid", std::to_string(uid)});
    argv.insert(argv.end(), {"--nofile", "64", "--fsize", "65536", "--nproc",
                             std::to_string(spec.processes + 2)});
    if (spec.nice != 0)
        argv.insert(argv.end(), {"--nice", std::to_string(spec.nice)});
    if (!spec.cpus.empty())
        argv.insert(argv.end(), {"--cpus", fmt::format("{}", fmt::join(spec.cpus, ","))});
    if (!served->group_.bounds_memory())
        argv.insert(argv.end(), {"--as", std::to_string(memory + (std::int64_t{256} << 20))});
    argv.insert(argv.end(), {"--", "/object.so", spec.entry, "/glue.so"});
    const Result<Started> started =
        object < 0 || glue < 0
            ? Result<Started>(fail("sandbox", "no memory for the object: " + last_error()))
            : start_process(argv, {{says, 1},
                                   {says, 2},
                                   {theirs, wire::control_descriptor},
                                   {spec.input->descriptor(), wire::input_descriptor},
                                   {spec.output->descriptor(), wire::output_descriptor},
                                   {object, object_descriptor},
                                   {glue, glue_descriptor}});
    for (int* descriptor : {&theirs, &says, &object, &glue})
        close_if_open(*descriptor);
    if (!started)
        return fail(started.error().where, started.error().what);
    served->bubblewrap_ = started->pid;
    served->life_ = started->life;

    // Nothing foreign has been loaded yet: the first message's sender is the runner, and the kernel
    // tells its number.
    const auto deadline = Steady::now() + std::chrono::seconds(20);
    for (int messages = 0; messages < 2; ++messages) {
        pollfd ready[2] = {{served->control_, POLLIN, 0}, {served->life_, POLLIN, 0}};
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Steady::now()).count();
        const int events = ::poll(ready, 2, static_cast<int>(std::max<long long>(left, 0)));
        if (events <= 0 || (ready[0].revents & POLLIN) == 0) {
            served->drain();
            const std::string what = std::string(trim(served->said_));
            return fail("sandbox",
                        "the runner did not start: " + (what.empty() ? "no answer" : what));
        }
        wire::Op op{};
        iovec piece{&op, sizeof op};
        alignas(
            cmsghdr) char control_bytes[CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(sizeof(int))] = {};
        msghdr message{};
        message.msg_iov = &piece;
        message.msg_iovlen = 1;
        message.msg_control = control_bytes;
        message.msg_controllen = sizeof control_bytes;
        if (::recvmsg(served->control_, &message, MSG_CMSG_CLOEXEC) <
            static_cast<ssize_t>(sizeof op))
            return fail("sandbox", "the runner did not start: no message");
        for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
             header = CMSG_NXTHDR(&message, header)) {
            if (header->cmsg_level != SOL_SOCKET)
                continue;
            if (header->cmsg_type == SCM_CREDENTIALS) {
                ucred who{};
                std::memcpy(&who, CMSG_DATA(header), sizeof who);
                served->pid_ = who.pid;
            } else if (header->cmsg_type == SCM_RIGHTS) {
                std::memcpy(&served->listener_, CMSG_DATA(header), sizeof served->listener_);
            }
        }
    }
    if (served->pid_ <= 0 || ::clock_getcpuclockid(served->pid_, &served->clock_) != 0)
        return fail("sandbox", "the runner's process is not visible here");
    if (spec.nice != 0) {
        // With automatic groups a priority counts only within a session, and the sandbox is one of
        // its own.
        const int group =
            ::open(fmt::format("/proc/{}/autogroup", served->pid_).c_str(), O_WRONLY | O_CLOEXEC);
        if (group >= 0) {
            const std::string nice = std::to_string(spec.nice);
            [[maybe_unused]] const ssize_t set =
                ::write(group, nice.data(), nice.size());  // refused: as everybody else
            ::close(group);
        }
    }
    const int no_longer = 0;
    ::setsockopt(served->control_, SOL_SOCKET, SO_PASSCRED, &no_longer, sizeof no_longer);
    return served;
}

void Served::end() {
    if (bubblewrap_ <= 0 || ended_)
        return;
    ended_ = true;
    pollfd already{life_, POLLIN, 0};
    if (pid_ > 0 && ::poll(&already, 1, 0) == 0)  // else its number may be another's by now
        ::kill(pid_, SIGKILL);
    // The runner's end is the end of its process namespace and then of bubblewrap; half a second is
    // generous.
    pollfd gone{life_, POLLIN, 0};
    if (::poll(&gone, 1, 500) <= 0) {
        group_.kill();
        ::kill(-bubblewrap_, SIGKILL);
    }
    while (::waitpid(bubblewrap_, &status_, 0) < 0 && errno == EINTR) {
    }
}

Served::~Served() {
    end();
    for (int* descriptor : {&control_, &output_pipe_, &listener_, &life_})
        close_if_open(*descriptor);
}

bool Served::send(const void* bytes, std::size_t count) {
    for (;;) {
        if (::send(control_, bytes, count, MSG_NOSIGNAL) >= 0)
            return true;
        if (errno != EINTR)
            return false;
    }
}

void Served::drain() {
    std::array<char, 16384> piece{};
    for (;;) {
        const ssize_t n = ::read(output_pipe_, piece.data(), piece.size());
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            close_if_open(output_pipe_);
        if (n <= 0)
            return;
        said_bytes_ += static_cast<std::size_t>(n);
        said_.append(piece.data(),
                     std::min<std::size_t>(static_cast<std::size_t>(n),
                                           4096 - std::min<std::size_t>(4096, said_.size())));
        if (said_bytes_ > said_limit_) {
            flooded_ = true;
            return;
        }
    }
}

Served::Event Served::wait(Deadline deadline, std::string& message) {
    for (;;) {
        pollfd ready[4] = {{control_, POLLIN, 0},
                           {life_, POLLIN, 0},
                           {listener_, POLLIN, 0},
                           {output_pipe_, POLLIN, 0}};
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(deadline - Steady::now()).count();
        const int events =
            left <= 0 ? 0
                      : ::poll(ready, 4, static_cast<int>(std::min<long long>(left, 1'000'000)));
        if (events < 0 && errno == EINTR)
            continue;
        if (events <= 0)
            return Event::late;
        if ((ready[0].revents & POLLIN) != 0) {
            const ssize_t n = ::recv(control_, received_.data(), received_.size(), MSG_DONTWAIT);
            if (n >= static_cast<ssize_t>(sizeof(wire::Op))) {
                message.assign(received_.data(), static_cast<std::size_t>(n));
                wire::Op op{};
                std::memcpy(&op, message.data(), sizeof op);
                if (op == wire::Op::fault && message.size() >= sizeof(wire::FaultReply)) {
                    wire::FaultReply fault;
                    std::memcpy(&fault, message.data(), sizeof fault);
                    fault_ = fault;
                    continue;  // it dies of it, or its own handler goes on and answers
                }
                return Event::message;
            }
        }
        if ((ready[2].revents & POLLIN) != 0)
            return Event::forbidden;
        if (ready[3].revents != 0) {
            drain();
            if (flooded_)
                return Event::flooded;
        }
        if ((ready[1].revents & POLLIN) != 0)
            return Event::ended;
        if ((ready[0].revents & (POLLHUP | POLLERR)) != 0 && (ready[0].revents & POLLIN) == 0) {
            // The runner is dying; bubblewrap follows.
            pollfd gone{life_, POLLIN, 0};
            ::poll(&gone, 1, 2000);
            return Event::ended;
        }
    }
}

std::string Served::describe_fault(const wire::FaultReply& fault, Reason& reason) const {
    const std::uint64_t address = fault.address;
    reason = Reason::crash;
    if (fault.signal == SIGFPE)
        return "arithmetic exception: an integer division by zero, or its quotient does not fit";
    if (fault.signal == SIGILL)
        return "illegal instruction: built for another processor, or __builtin_unreachable() was "
               "reached";
    if (layout_ != nullptr && kernel_ != nullptr)
        for (std::size_t k = 0; k < layout_->places.size(); ++k) {
            const Layout::Place& place = layout_->places[k];
            if (!place.array || place.region >= bases_.size())
                continue;
            const std::uint64_t base = bases_[place.region];
            const std::uint64_t length = place.region_end - place.region_begin;
            const std::string& name = kernel_->arguments[k % layout_->arguments].name;
            const std::uint64_t array = base + (place.begin - place.region_begin);
            if (address >= base + length && address < base + length + wire::guard) {
                reason = Reason::memory;
                return fmt::format("access {} bytes past the end of {}",
                                   address - (array + place.bytes), name);
            }
            if (address < base && address >= base - wire::guard) {
                reason = Reason::memory;
                return fmt::format("access {} bytes before the start of {}", array - address, name);
            }
            if (address >= base && address < base + length && !place.output)
                return fmt::format("write to the input {}, which is read-only", name);
        }
    if (address < 65536)
        return "access through a null pointer";
    if (fault.stack_pointer > address - std::min<std::uint64_t>(address, 1U << 20U) &&
        fault.stack_pointer < address + (1U << 20U))
        return "the stack overflowed (a large local array, or endless recursion)";
    return "access to memory that is not its own";
}

Trouble Served::why_ended() {
    end();
    drain();
    if (flooded_)
        return {Reason::resource,
                fmt::format("wrote more than {} KiB of output", said_limit_ >> 10U)};
    if (group_.out_of_memory())
        return {Reason::resource, fmt::format("needed more than {} MiB of memory", memory_mb_)};
    int signal = 0;
    if (WIFSIGNALED(status_))
        signal = WTERMSIG(status_);
    else if (WEXITSTATUS(status_) > 128)
        signal = WEXITSTATUS(status_) - 128;
    if (signal == SIGABRT && said_.find("bad_alloc") != std::string::npos)
        return {Reason::resource, fmt::format("ran out of memory (limit {} MiB)", memory_mb_)};
    if (signal == SIGSYS)
        return {Reason::policy, "made a forbidden system call"};
    if (signal == SIGXFSZ)
        return {Reason::resource, "wrote too large a file"};
    if (fault_ && signal != 0) {
        Reason reason = Reason::crash;
        const std::string what = describe_fault(*fault_, reason);
        return {reason, fmt::format("{}: {}", signal_name(signal), what)};
    }
    if (signal != 0)
        return {Reason::crash,
                fmt::format("killed by {}{}", signal_name(signal), what_it_wrote(said_))};
    return {Reason::no_answer,
            fmt::format("ended with exit status {} before it answered", WEXITSTATUS(status_))};
}

Trouble Served::why_forbidden() {
    seccomp_notif request{};
    const bool known = ::ioctl(listener_, SECCOMP_IOCTL_NOTIF_RECV, &request) == 0;
    const int number = known ? request.data.nr : -1;
    end();
    if (known && starts_process(number))
        return {Reason::resource,
                "tried to start a process: a kernel may have threads, not processes"};
    return {Reason::policy, fmt::format("tried to {}", call_name(number))};
}

std::optional<Trouble> Served::expect(wire::Op op, Deadline deadline, std::string& message) {
    switch (wait(deadline, message)) {
        case Event::message: {
            wire::Op got{};
            std::memcpy(&got, message.data(), sizeof got);
            if (got == op)
                return std::nullopt;
            if (got == wire::Op::load_failed) {
                const std::string text = message.substr(sizeof got);
                end();
                return Trouble{Reason::link_error, "cannot be loaded: " + text};
            }
            if (got == wire::Op::map_failed) {
                const std::string text = message.substr(sizeof got);
                end();
                return Trouble{Reason::infrastructure, text};
            }
            end();
            return Trouble{Reason::policy, "wrote to the descriptor over which it is called"};
        }
        case Event::ended:
            return why_ended();
        case Event::forbidden:
            return why_forbidden();
        case Event::flooded:
            end();
            return Trouble{Reason::resource,
                           fmt::format("wrote more than {} KiB of output", said_limit_ >> 10U)};
        case Event::late:
            break;
    }
    // Out of memory on version 1 can look like a hang: the killed process may be another one of the
    // group.
    const bool memory = group_.out_of_memory();
    end();
    if (memory)
        return Trouble{Reason::resource,
                       fmt::format("needed more than {} MiB of memory", memory_mb_)};
    return Trouble{Reason::timeout, "did not finish in time"};
}

std::optional<Trouble> Served::load(Deadline deadline) {
    const wire::Op op = wire::Op::load;
    std::string message;
    if (!send(&op, sizeof op))
        return why_ended();
    return expect(wire::Op::loaded, deadline, message);
}

std::optional<Trouble> Served::map(const KernelSpec& kernel, const Layout& layout,
                                   Deadline deadline) {
    wire::MapRequest request;
    request.regions = static_cast<std::uint32_t>(layout.regions.size());
    request.slots = layout.slots;
    request.arguments = layout.arguments;
    std::string bytes(sizeof request, '\0');
    std::memcpy(bytes.data(), &request, sizeof request);
    bytes.append(reinterpret_cast<const char*>(layout.regions.data()),
                 layout.regions.size() * sizeof(wire::Region));
    bytes.append(reinterpret_cast<const char*>(layout.wire_places.data()),
                 layout.wire_places.size() * sizeof(wire::ArgumentPlace));
    if (bytes.size() > wire::max_message)
        return Trouble{Reason::infrastructure, "too many arguments for one message"};
    resume();
    if (!send(bytes.data(), bytes.size()))
        return why_ended();
    std::string message;
    if (std::optional<Trouble> trouble = expect(wire::Op::mapped, deadline, message))
        return trouble;
    bases_.assign(layout.regions.size(), 0);
    if (message.size() == sizeof(wire::Op) + bases_.size() * sizeof(std::uint64_t) &&
        !bases_.empty())
        std::memcpy(bases_.data(), message.data() + sizeof(wire::Op),
                    bases_.size() * sizeof(std::uint64_t));
    kernel_ = &kernel;
    layout_ = &layout;
    halt(deadline);
    return std::nullopt;
}

void Served::resume() {
    if (stopped_ && !ended_)
        ::kill(pid_, SIGCONT);
    stopped_ = false;
}

// Stops every thread. Where it shares the caller's only core it cannot run while we do; on several
// cores the kernel interrupts the others, and we wait until it says so.
void Served::halt(Deadline deadline) {
    if (ended_)
        return;
    ::kill(pid_, SIGSTOP);
    stopped_ = true;
    if (!many_cpus_)
        return;
    while (Steady::now() < deadline) {
        const std::string status = read_file(fmt::format("/proc/{}/stat", pid_)).value_or("");
        const std::size_t name_end = status.rfind(')');
        if (name_end == std::string::npos || name_end + 2 >= status.size())
            return;
        const char state = status[name_end + 2];
        if (state == 'T' || state == 't' || state == 'Z' || state == 'X')
            return;
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
}

double Served::cpu_seconds() const {
    timespec time{};
    if (::clock_gettime(clock_, &time) != 0)
        return 0;
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::optional<Trouble> Served::go(const std::vector<std::uint32_t>& slots, Deadline deadline,
                                  Timing& timing) {
    wire::GoRequest request;
    request.calls = static_cast<std::uint32_t>(slots.size());
    std::string bytes(sizeof request + slots.size() * sizeof(std::uint32_t), '\0');
    std::memcpy(bytes.data(), &request, sizeof request);
    if (!slots.empty())
        std::memcpy(bytes.data() + sizeof request, slots.data(),
                    slots.size() * sizeof(std::uint32_t));
    std::string message;
    const double cpu_before = cpu_seconds();
    resume();
    const auto start = Steady::now();
    if (!send(bytes.data(), bytes.size()))
        return why_ended();
    const Event event = wait(deadline, message);
    const auto stop = Steady::now();
    if (event == Event::message)
        halt(deadline);
    timing.wall_seconds = std::chrono::duration<double>(stop - start).count();
    timing.cpu_seconds = cpu_seconds() - cpu_before;
    wire::DoneReply done;
    if (event == Event::message && message.size() == sizeof done) {
        std::memcpy(&done, message.data(), sizeof done);
        if (done.op == wire::Op::done) {
            if (done.floating_point_before != done.floating_point_after) {
                end();
                return Trouble{Reason::policy,
                               fmt::format("left the floating-point environment changed (control "
                                           "word {:#x}, was {:#x})",
                                           done.floating_point_after, done.floating_point_before)};
            }
            return std::nullopt;
        }
    }
    switch (event) {
        case Event::message:
            end();
            return Trouble{Reason::policy, "wrote to the descriptor over which it is called"};
        case Event::ended:
            return why_ended();
        case Event::forbidden:
            return why_forbidden();
        case Event::flooded:
            end();
            return Trouble{Reason::resource,
                           fmt::format("wrote more than {} KiB of output", said_limit_ >> 10U)};
        case Event::late:
            break;
    }
    const bool memory = group_.out_of_memory();
    end();
    if (memory)
        return Trouble{Reason::resource,
                       fmt::format("needed more than {} MiB of memory", memory_mb_)};
    return Trouble{Reason::timeout,
                   fmt::format("did not finish within {:.3g} s",
                               std::chrono::duration<double>(stop - start).count())};
}

namespace {

std::uint64_t canary_at(std::uint64_t secret, std::size_t offset) {
    return mix64(secret ^ (offset / 8));
}

// Calls body(offset, bytes) for the parts of an output region that no array covers, in words.
template <class F>
bool around(const Layout::Place& place, F body) {
    const std::size_t end = place.begin + place.bytes;
    return body(place.region_begin, place.begin) && body(end, place.region_end);
}

}  // namespace

void set_canaries(const Layout& layout, const Arena& output, std::uint64_t secret) {
    for (const Layout::Place& place : layout.places)
        if (place.array && place.output)
            around(place, [&](std::size_t begin, std::size_t end) {
                for (std::size_t at = begin; at < end;) {
                    const std::uint64_t word = canary_at(secret, at);
                    const std::size_t skip = at % 8;
                    const std::size_t count = std::min<std::size_t>(8 - skip, end - at);
                    std::memcpy(output.data() + at, reinterpret_cast<const char*>(&word) + skip,
                                count);
                    at += count;
                }
                return true;
            });
}

std::string broken_canary(const KernelSpec& kernel, const Layout& layout, const Arena& output,
                          std::uint64_t secret, const std::vector<std::uint32_t>& slots) {
    for (const std::uint32_t slot : slots)
        for (std::size_t i = 0; i < layout.arguments; ++i) {
            const Layout::Place& place = layout.at(slot, i);
            if (!place.array || !place.output)
                continue;
            std::string found;
            around(place, [&](std::size_t begin, std::size_t end) {
                for (std::size_t at = begin; at < end;) {
                    const std::uint64_t word = canary_at(secret, at);
                    const std::size_t skip = at % 8;
                    const std::size_t count = std::min<std::size_t>(8 - skip, end - at);
                    const char* expected = reinterpret_cast<const char*>(&word) + skip;
                    if (std::memcmp(output.data() + at, expected, count) != 0) {
                        while (output.data()[at] == *expected) {
                            ++at;
                            ++expected;
                        }
                        found = at < place.begin
                                    ? fmt::format("wrote {} bytes before the start of {}",
                                                  place.begin - at, kernel.arguments[i].name)
                                    : fmt::format("wrote {} bytes past the end of {}",
                                                  at - (place.begin + place.bytes),
                                                  kernel.arguments[i].name);
                        return false;
                    }
                    at += count;
                }
                return true;
            });
            if (!found.empty())
                return found;
        }
    return "";
}

}  // namespace loopscope
