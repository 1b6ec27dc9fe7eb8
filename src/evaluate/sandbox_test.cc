#include "evaluate/sandbox.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/file.h"
#include "evaluate/cgroup.h"
#include "evaluate/with_machine.h"

namespace loopscope {
namespace {

using testing::sandboxed;

SandboxJob shell(const std::string& script) {
    SandboxJob job;
    job.argv = {"/bin/sh", "-c", script};
    job.wall_seconds = 10;
    job.cpu_seconds = 10;
    job.memory_mb = 512;
    return job;
}

// A C program, compiled and run in one sandbox; the exit status is the program's.
SandboxJob program(const std::string& source) {
    SandboxJob job = shell("clang-19 -O0 -w -pthread -o p p.c && exec ./p");
    job.files["p.c"] = source;
    return job;
}

std::string said(const SandboxResult& result) {
    return describe(result.exit) + "\n" + result.exit.out + result.exit.err;
}

// Processes of this machine whose command line holds `mark`.
int processes_with(const std::string& mark) {
    int count = 0;
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", failed)) {
        const std::string name = entry.path().filename().string();
        if (name.find_first_not_of("0123456789") != std::string::npos)
            continue;
        const std::string line = read_file(entry.path() / "cmdline").value_or("");
        count += line.find(mark) != std::string::npos && name != std::to_string(::getpid()) ? 1 : 0;
    }
    return count;
}

TEST(Sandbox, RunsAndBringsFilesBack) {
    NEEDS_MACHINE();
    SandboxJob job = shell(
        "cat; cat in/a.txt; mkdir -p out; echo result > out/r; ln -s /etc/passwd link; exit 3");
    job.files["in/a.txt"] = std::string("zero\0byte\n", 10);
    job.input = "stdin\n";
    job.collect = {"out/r", "absent", "link", "in"};
    const SandboxResult result = sandboxed(job);
    EXPECT_EQ(result.exit.kind, Exit::Kind::exited);
    EXPECT_EQ(result.exit.code, 3);
    EXPECT_EQ(result.exit.out, "stdin\n" + std::string("zero\0byte\n", 10));
    ASSERT_EQ(result.files.size(), 1U) << "neither links nor folders are followed";
    EXPECT_EQ(result.files.at("out/r"), "result\n");
}

TEST(Sandbox, TellsSignalsApart) {
    NEEDS_MACHINE();
    const SandboxResult result = sandboxed(shell("kill -SEGV $$"));
    EXPECT_EQ(result.exit.kind, Exit::Kind::signalled);
    EXPECT_EQ(result.exit.code, SIGSEGV);
    const SandboxResult forged = sandboxed(shell("exit 139"));
    EXPECT_EQ(forged.exit.kind, Exit::Kind::exited);
    EXPECT_EQ(forged.exit.code, 139);
    const SandboxResult missing = sandboxed([] {
        SandboxJob job;
        job.argv = {"/no/such/program"};
        return job;
    }());
    EXPECT_EQ(missing.exit.code, 127);
    EXPECT_NE(missing.exit.err.find("cannot run /no/such/program"), std::string::npos);
}

TEST(Sandbox, RefusesPathsOutsideItsFolder) {
    NEEDS_MACHINE();
    for (const char* path : {"../x", "/etc/x", "a/../../x", "", "a//b/./c"}) {
        SandboxJob job = shell("true");
        job.files[path] = "x";
        EXPECT_FALSE(testing::run(run_sandboxed(machine, job))) << path;
        SandboxJob other = shell("true");
        other.collect = {path};
        EXPECT_FALSE(testing::run(run_sandboxed(machine, other))) << path;
    }
}

TEST(Sandbox, ShowsNothingOfTheUser) {
    NEEDS_MACHINE();
    ::setenv("LOOPSCOPE_TEST_KEY", "sk-very-secret", 1);  // NOLINT(concurrency-mt-unsafe)
    const std::string home = std::filesystem::temp_directory_path() / "loopscope-sandbox-test-home";
    std::ofstream(home) << "private\n";
    const SandboxResult result = sandboxed(
        shell("cat /etc/shadow /etc/passwd /root/* " + home +
              "; ls /home /root /etc /var /mnt /srv /opt; env; id -u; ls /proc | grep -c '^[0-9]'; "
              "cat /proc/1/environ | tr '\\0' '\\n'; hostname; ls -A /tmp /work /dev/shm"));
    std::filesystem::remove(home);
    const std::string all = result.exit.out + result.exit.err;
    EXPECT_EQ(all.find("root:"), std::string::npos) << all;
    EXPECT_EQ(all.find("private"), std::string::npos) << all;
    EXPECT_EQ(all.find("secret"), std::string::npos) << all;
    EXPECT_NE(all.find("HOME=/work"), std::string::npos) << all;
    EXPECT_NE(all.find("/etc/shadow: No such file"), std::string::npos) << all;
    EXPECT_EQ(all.find("\n0\n"), std::string::npos) << "runs as root: " << all;
}

TEST(Sandbox, SystemIsReadOnly) {
    NEEDS_MACHINE();
    const SandboxResult result =
        sandboxed(shell("for f in /x /usr/x /bin/x /lib/x /etc/x /dev/x /loopscope-runner; do "
                        "(echo hi > $f) 2>/dev/null && echo wrote $f; done; echo ok > /work/x && "
                        "echo ok > /tmp/x && echo fine"));
    EXPECT_EQ(result.exit.out, "fine\n") << said(result);
}

TEST(Sandbox, HasNoNetwork) {
    NEEDS_MACHINE();
    const SandboxResult result = sandboxed(program(R"(
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
int main() {
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
    inet_pton(AF_INET, "192.0.2.1", &to.sin_addr);
    int sent = sendto(s, "x", 1, 0, (void*)&to, sizeof to);
    printf("%d %d\n", sent, errno == ENETUNREACH);
    char line[256]; int n = 0;
    FILE* f = fopen("/proc/net/dev", "r");
    while (fgets(line, sizeof line, f)) ++n;
    printf("%d\n", n);  // two head lines and lo
}
)"));
    EXPECT_EQ(result.exit.out, "-1 1\n3\n") << said(result);
}

TEST(Sandbox, StopsAtTheWallLimitWhateverIsIgnored) {
    NEEDS_MACHINE();
    SandboxJob job = program(R"(
#include <signal.h>
#include <unistd.h>
int main() {
    sigset_t all; sigfillset(&all); sigprocmask(SIG_SETMASK, &all, 0);
    for (int i = 1; i < 65; ++i) signal(i, SIG_IGN);
    fork(); setsid();
    for (;;) pause();
}
)");
    job.argv[2] += " wall_limit_mark";
    job.wall_seconds = 1.5;
    const auto start = std::chrono::steady_clock::now();
    const SandboxResult result = sandboxed(job);
    EXPECT_EQ(result.exit.kind, Exit::Kind::timed_out) << said(result);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
    EXPECT_EQ(processes_with("wall_limit_mark"), 0);
}

TEST(Sandbox, StopsAtTheProcessorLimit) {
    NEEDS_MACHINE();
    SandboxJob job = shell("while :; do :; done");
    job.cpu_seconds = 1;
    const SandboxResult result = sandboxed(job);
    EXPECT_EQ(result.exit.kind, Exit::Kind::timed_out) << said(result);
    EXPECT_LT(result.exit.wall_seconds, 8);
}

TEST(Sandbox, LeavesNoDaemonBehind) {
    NEEDS_MACHINE();
    SandboxJob job = program(R"(
#include <unistd.h>
#include <stdio.h>
int main() {
    if (fork() == 0) { setsid(); if (fork() == 0) { for (;;) sleep(1); } _exit(0); }
    usleep(50000);
    puts("parent leaves");
}
)");
    job.argv[2] += " daemon_mark";
    const auto start = std::chrono::steady_clock::now();
    const SandboxResult result = sandboxed(job);
    EXPECT_EQ(result.exit.out, "parent leaves\n") << said(result);
    EXPECT_EQ(processes_with("daemon_mark"), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5))
        << "a descendant that holds the pipe open must not be waited for";
}

TEST(Sandbox, CapsForkBombs) {
    NEEDS_MACHINE();
    SandboxJob job = program(R"(
#include <stdio.h>
#include <unistd.h>
int main() {
    int made = 0;
    for (int i = 0; i < 200; ++i) {
        int pid = fork();
        if (pid == 0) { sleep(60); _exit(0); }
        made += pid > 0;
    }
    printf("%d\n", made);
}
)");
    job.processes = 20;
    const SandboxResult result = sandboxed(job);
    const int made = std::atoi(result.exit.out.c_str());
    EXPECT_GT(made, 10) << said(result);
    EXPECT_LT(made, 26) << said(result);
    if (!machine.sandbox.process_group.empty()) {
        // Either limit may be the one that bites; the exponential bomb below hits the group's.
        EXPECT_TRUE(result.out_of_processes || machine.sandbox.as_root);
    }
}

TEST(Sandbox, BoundsMemoryOfTheWholeTree) {
    NEEDS_MACHINE();
    SandboxJob job = program(R"(
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main() {
    for (int child = 0; child < 4; ++child)
        if (fork() == 0) {
            for (int i = 0; i < 300; ++i) {
                char* p = malloc(1 << 20);
                if (!p) { fputs("Cannot allocate memory\n", stderr); _exit(1); }
                memset(p, 1, 1 << 20);
            }
            puts("kept 300 MiB"); fflush(stdout); sleep(1); _exit(0);
        }
    while (wait(0) > 0) {}
}
)");
    job.memory_mb = 400;
    const SandboxResult result = sandboxed(job);
    if (machine.sandbox.memory_group.empty())
        GTEST_SKIP() << "no control group can be made here: only single processes are bounded";
    EXPECT_TRUE(result.out_of_memory) << said(result);
    EXPECT_EQ(result.exit.out.find("kept 300 MiB\nkept 300 MiB"), std::string::npos)
        << said(result);
}

TEST(Sandbox, BoundsMemoryOfOneProcess) {
    NEEDS_MACHINE();
    SandboxJob job = program(R"(
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main() {
    for (int i = 0; i < 3000; ++i) {
        char* p = malloc(1 << 20);
        if (!p) { fputs("Cannot allocate memory\n", stderr); return 1; }
        memset(p, 1, 1 << 20);
    }
    puts("kept 3 GB");
}
)");
    const SandboxResult result = sandboxed(job);
    EXPECT_TRUE(result.out_of_memory) << said(result);
    EXPECT_TRUE(result.exit.out.empty()) << said(result);
}

TEST(Sandbox, BoundsFilesAndTheFileSystem) {
    NEEDS_MACHINE();
    SandboxJob one = shell("head -c 5000000 /dev/urandom > big; ls -l big");
    one.file_mb = 1;
    const SandboxResult big = sandboxed(one);
    EXPECT_NE(big.exit.out.find(" 1048576 "), std::string::npos) << said(big);
    SandboxJob many = shell(
        "for i in 1 2 3 4 5 6 7 8 9; do head -c 1000000 /dev/urandom > f$i; done; ls -l | tail -9; "
        "du -sk /work | cut -f1");
    many.file_mb = 1;
    const SandboxResult full = sandboxed(many);
    EXPECT_NE(full.exit.err.find("No space left"), std::string::npos) << said(full);
}

TEST(Sandbox, KeepsOnlySoMuchOutput) {
    NEEDS_MACHINE();
    SandboxJob job =
        shell("head -c 50000000 /dev/urandom; head -c 50000000 /dev/urandom >&2; exit 7");
    job.output_kb = 16;
    const SandboxResult result = sandboxed(job);
    EXPECT_EQ(result.exit.code, 7);
    EXPECT_TRUE(result.exit.cut);
    EXPECT_EQ(result.exit.out.size(), 16U << 10U);
    EXPECT_EQ(result.exit.err.size(), 16U << 10U);
}

TEST(Sandbox, KillingTheHelperIsOnlyAnEnd) {
    NEEDS_MACHINE();
    const SandboxResult result = sandboxed(shell("kill -9 $PPID; kill -9 1; sleep 5"));
    EXPECT_EQ(result.exit.kind, Exit::Kind::signalled) << said(result);
    EXPECT_EQ(result.exit.code, SIGKILL);
}

TEST(Sandbox, PassesChosenDescriptorsOnly) {
    NEEDS_MACHINE();
    const int file = memory_file("given", "from outside\n");
    const int other = ::dup(file);  // not close-on-exec: inherited unless closed
    SandboxJob job = shell("cat /proc/self/fd/11; ls /proc/self/fd | tr '\\n' ' '");
    job.descriptors = {{file, 11}};
    const SandboxResult result = sandboxed(job);
    ::close(file);
    ::close(other);
    EXPECT_EQ(result.exit.out, "from outside\n0 1 11 2 3 ") << said(result);
}

awaitable<void> run_with_code(Machine& machine, std::vector<int>& codes, std::size_t i) {
    SandboxJob job = shell("exit " + std::to_string(i));
    const Result<SandboxResult> result = co_await run_sandboxed(machine, std::move(job));
    codes[i] = result ? result->exit.code : -2;
}

awaitable<int> run_with_all_codes(Machine& machine, std::vector<int>& codes) {
    const std::function<awaitable<void>(std::size_t)> one = [&](std::size_t i) {
        return run_with_code(machine, codes, i);
    };
    co_await for_each_index(codes.size(), 8, one);
    co_return 0;
}

TEST(Sandbox, ManyAtOnce) {
    NEEDS_MACHINE();
    std::vector<int> codes(24, -1);
    testing::run(run_with_all_codes(machine, codes));
    for (std::size_t i = 0; i < codes.size(); ++i)
        EXPECT_EQ(codes[i], static_cast<int>(i));
}

TEST(Machine, KnowsItself) {
    NEEDS_MACHINE();
    EXPECT_FALSE(machine.cpus.empty());
    EXPECT_FALSE(machine.build_cpus.empty());
    EXPECT_FALSE(machine.sandbox.description.empty());
    EXPECT_NE(machine.fingerprint.find("cache "), std::string::npos) << machine.fingerprint;
    EXPECT_EQ(machine.serialised, machine.cpus.size() == 1);
    if (!machine.serialised) {
        EXPECT_EQ(
            std::count(machine.build_cpus.begin(), machine.build_cpus.end(), machine.timing_cpu),
            0);
    }
    RecordProperty("sandbox", machine.sandbox.description);
    std::printf("sandbox: %s\n", machine.sandbox.description.c_str());
}

TEST(Machine, MeasuresItsRoof) {
    NEEDS_MACHINE();
    const Roof roof = testing::run(measure_roof(machine));
    std::printf("roof: %.1f f32 GFLOP/s, %.1f f64, memory %.1f GB/s, cache %.1f GB/s\n",
                roof.flops_per_second_f32 * 1e-9, roof.flops_per_second_f64 * 1e-9,
                roof.bytes_per_second_memory * 1e-9, roof.bytes_per_second_cache * 1e-9);
    EXPECT_GT(roof.flops_per_second_f64, 1e9);
    EXPECT_GT(roof.flops_per_second_f32, 1.5 * roof.flops_per_second_f64);
    EXPECT_GT(roof.bytes_per_second_memory, 1e9);
    EXPECT_GT(roof.bytes_per_second_cache, 1.5 * roof.bytes_per_second_memory);
}

}  // namespace
}  // namespace loopscope
