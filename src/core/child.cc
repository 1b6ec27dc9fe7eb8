#include "core/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace loopscope {

namespace {

using Stream = asio::posix::stream_descriptor;

// A descriptor that closes itself: what is open when an error is returned half-way.
class Descriptor {
public:
    explicit Descriptor(int value = -1) : value_(value) {}
    Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(value_, other.value_);
        return *this;
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() { reset(); }
    int get() const { return value_; }
    int release() { return std::exchange(value_, -1); }
    void reset() {
        if (value_ >= 0)
            ::close(value_);
        value_ = -1;
    }

private:
    int value_;
};

struct Pipe {
    Descriptor read, write;
};

Result<Pipe> make_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        return fail("pipe",
                    std::strerror(errno));  // NOLINT(concurrency-mt-unsafe): glibc's is per thread
    return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

void keep(std::string& into, const char* bytes, std::size_t count, std::size_t limit, bool& cut) {
    const std::size_t room = limit - std::min(limit, into.size());
    into.append(bytes, std::min(count, room));
    cut = cut || count > room;
}

// Reads until end of file, an error, or cancel() on the descriptor.
awaitable<void> read_all(Stream& from, std::string& into, std::size_t limit, bool& cut) {
    std::array<char, 16384> piece{};
    for (;;) {
        const auto token = asio::as_tuple(asio::use_awaitable);
        auto [error, count] = co_await from.async_read_some(asio::buffer(piece), token);
        if (error)
            co_return;
        keep(into, piece.data(), count, limit, cut);
    }
}

awaitable<void> write_all(Stream& to, const std::string& bytes) {
    if (!bytes.empty()) {
        const auto token = asio::as_tuple(asio::use_awaitable);
        co_await asio::async_write(to, asio::buffer(bytes), token);
    }
    error_code ignored;
    to.close(ignored);
}

// What is still in the pipe of a process group that is dead. A descendant that left the group may
// hold the pipe open, so this never waits.
void drain(Stream& from, std::string& into, std::size_t limit, bool& cut) {
    std::array<char, 16384> piece{};
    for (;;) {
        const ssize_t count = ::read(from.native_handle(), piece.data(), piece.size());
        if (count <= 0)
            return;
        keep(into, piece.data(), static_cast<std::size_t>(count), limit, cut);
    }
}

// Waits for the end or the deadline, then kills the group and lets the readers go.
awaitable<void> watch(pid_t pid, std::chrono::milliseconds deadline, Stream& life, Stream& in,
                      Stream& out, Stream& err, bool& late) {
    using namespace asio::experimental::awaitable_operators;
    const auto readable = Stream::wait_read;
    asio::steady_timer timer(life.get_executor(), deadline);
    const auto first = co_await (life.async_wait(readable, asio::use_awaitable) ||
                                 timer.async_wait(asio::use_awaitable));
    late = first.index() == 1;
    ::kill(-pid, SIGKILL);
    if (late)
        co_await life.async_wait(readable, asio::use_awaitable);
    error_code ignored;
    in.cancel(ignored);
    out.cancel(ignored);
    err.cancel(ignored);
}

struct Spawned {
    pid_t pid = -1;
    Descriptor life, in, out, err;
};

Result<Spawned> spawn(const Command& command) {
    Result<Pipe> in = make_pipe();
    Result<Pipe> out = make_pipe();
    Result<Pipe> err = make_pipe();
    for (const Result<Pipe>* pipe : {&in, &out, &err})
        if (!*pipe)
            return fail(command.argv[0], "cannot start it: no pipe: " + pipe->error().what);
    // The child's own numbers may collide with ours, so ours are first moved out of the way.
    std::vector<Descriptor> moved;
    for (const auto& [ours, theirs] : command.descriptors) {
        moved.emplace_back(::fcntl(ours, F_DUPFD_CLOEXEC, 512));
        if (moved.back().get() < 0)
            return fail(command.argv[0],
                        fmt::format("cannot pass descriptor {} on: {}", ours,
                                    std::strerror(errno)));  // NOLINT(concurrency-mt-unsafe)
    }
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in->read.get(), 0);
    posix_spawn_file_actions_adddup2(&files, out->write.get(), 1);
    posix_spawn_file_actions_adddup2(&files, err->write.get(), 2);
    for (std::size_t i = 0; i < moved.size(); ++i)
        posix_spawn_file_actions_adddup2(&files, moved[i].get(), command.descriptors[i].second);
    if (!command.working_directory.empty())
        posix_spawn_file_actions_addchdir_np(&files, command.working_directory.c_str());
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
    std::vector<char*> argv;
    std::vector<char*> environment;
    for (const std::string& word : command.argv)
        argv.push_back(const_cast<char*>(
            word.c_str()));  // posix_spawn takes them non-const and leaves them alone
    argv.push_back(nullptr);
    for (const std::string& entry : command.environment)
        environment.push_back(const_cast<char*>(entry.c_str()));
    environment.push_back(nullptr);
    Spawned child;
    const int failed =
        ::posix_spawnp(&child.pid, argv[0], &files, &attributes, argv.data(), environment.data());
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (failed != 0)
        return fail(command.argv[0],
                    fmt::format("cannot start it: {}",
                                std::strerror(failed)));  // NOLINT(concurrency-mt-unsafe)
    child.life = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, child.pid, 0)));
    if (child.life.get() < 0) {
        const int why = errno;
        ::kill(-child.pid, SIGKILL);
        ::waitpid(child.pid, nullptr, 0);
        return fail(
            command.argv[0],
            fmt::format("pidfd_open: {}", std::strerror(why)));  // NOLINT(concurrency-mt-unsafe)
    }
    child.in = std::move(in->write);
    child.out = std::move(out->read);
    child.err = std::move(err->read);
    return child;
}

double seconds_of(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

// A pipe to a dead process must be an error of the write, not the end of us.
void ignore_broken_pipes() {
    static const bool done = [] {
        ::signal(SIGPIPE, SIG_IGN);
        return true;
    }();
    (void)done;
}

}  // namespace

awaitable<Result<Exit>> run_child(Command command) {
    ignore_broken_pipes();
    const auto executor = co_await asio::this_coro::executor;
    const auto started = std::chrono::steady_clock::now();
    Result<Spawned> spawned = spawn(command);
    if (!spawned)
        co_return fail(spawned.error().where, spawned.error().what);
    const pid_t pid = spawned->pid;
    Stream life(executor, spawned->life.release());
    Stream in(executor, spawned->in.release());
    Stream out(executor, spawned->out.release());
    Stream err(executor, spawned->err.release());
    for (Stream* stream : {&in, &out, &err})
        stream->native_non_blocking(true);
    Exit exit;
    bool late = false;
    std::exception_ptr cancelled;
    try {
        using namespace asio::experimental::awaitable_operators;
        auto watching = watch(pid, command.deadline, life, in, out, err, late);
        auto out_text = read_all(out, exit.out, command.max_output, exit.cut);
        auto err_text = read_all(err, exit.err, command.max_output, exit.cut);
        auto input = write_all(in, command.input);
        co_await (std::move(watching) && std::move(out_text) && std::move(err_text) &&
                  std::move(input));
    } catch (...) {
        cancelled = std::current_exception();
        ::kill(-pid, SIGKILL);
    }
    int status = 0;
    rusage used{};
    while (::wait4(pid, &status, 0, &used) < 0 && errno == EINTR) {
    }
    if (cancelled)
        std::rethrow_exception(cancelled);
    drain(out, exit.out, command.max_output, exit.cut);
    drain(err, exit.err, command.max_output, exit.cut);
    exit.kind = late                ? Exit::Kind::timed_out
                : WIFEXITED(status) ? Exit::Kind::exited
                                    : Exit::Kind::signalled;
    exit.code = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
    exit.wall_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    exit.cpu_seconds = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
    exit.peak_kilobytes = used.ru_maxrss;
    co_return exit;
}

std::string describe(const Exit& exit) {
    switch (exit.kind) {
        case Exit::Kind::exited:
            return fmt::format("exit status {}", exit.code);
        case Exit::Kind::signalled:
            return fmt::format(
                "killed by signal {} ({})", exit.code,
                ::sigabbrev_np(exit.code) != nullptr ? ::sigabbrev_np(exit.code) : "unknown");
        case Exit::Kind::timed_out:
            return "stopped at its time limit";
    }
    return "";
}

}  // namespace loopscope
