// Build, verify and run real programs, honest and hostile, on the real sandbox.
#include "evaluate/kernel.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "evaluate/matmul_task.h"
#include "evaluate/with_machine.h"

namespace loopscope {
namespace {

using testing::bench;
using testing::matmul_task;
using testing::program_of;
using testing::run;

BuildOutcome built(const Task& task, const std::string& text, BuildKind kind = BuildKind::timed) {
    Result<BuildOutcome> outcome = run(build(*bench().machine, task, program_of(text), kind));
    if (!outcome) {
        ADD_FAILURE() << to_text(outcome.error());
        return {};
    }
    return std::move(*outcome);
}

std::string reference_of(const Task& task) {
    Result<BuildOutcome> outcome = run(build_reference(*bench().machine, task));
    if (!outcome || !outcome->ok) {
        ADD_FAILURE() << (outcome ? outcome->log : to_text(outcome.error()));
        return "";
    }
    return std::move(outcome->object);
}

VerifyOutcome verified(const Task& task, const std::string& text) {
    Task roomy =
        task;  // the limits under test are those of the candidate, not those of its compiler
    roomy.limits.memory_mb = 2048;
    roomy.limits.build_seconds = 60;
    const BuildOutcome object = built(roomy, text);
    if (!object.ok) {
        ADD_FAILURE() << object.log;
        return {};
    }
    const std::string reference = reference_of(roomy);
    Result<VerifyOutcome> outcome = run(verify(*bench().machine, task, object.object, reference));
    if (!outcome) {
        ADD_FAILURE() << to_text(outcome.error());
        return {};
    }
    return std::move(*outcome);
}

std::string kernel_with(const std::string& body, const std::string& before = "") {
    return before +
           "\nextern \"C\" void kernel(int n, const float* a, const float* b, float* c) {\n" +
           body + "\n}\n";
}

// ----------------------------------------------------------------------------------------------------
// build

TEST(Build, MakesASharedObject) {
    NEEDS_MACHINE();
    const Task task = matmul_task();
    const BuildOutcome outcome = built(task, testing::naive_matmul);
    EXPECT_TRUE(outcome.ok) << outcome.log;
    EXPECT_TRUE(outcome.object.starts_with("\177ELF"));
    EXPECT_NE(outcome.compiler.find("19."), std::string::npos) << outcome.compiler;
    EXPECT_GT(outcome.seconds, 0);
    EXPECT_EQ(outcome.object, built(task, testing::naive_matmul).object)
        << "builds must be reproducible";
}

TEST(Build, ReportsErrorsWithRelativePaths) {
    NEEDS_MACHINE();
    const BuildOutcome outcome = built(matmul_task(), kernel_with("undeclared = 1;"));
    EXPECT_FALSE(outcome.ok);
    EXPECT_EQ(outcome.reason, Reason::build_error);
    EXPECT_TRUE(outcome.log.starts_with("kernel.cc:2:") || outcome.log.starts_with("kernel.cc:3:"))
        << outcome.log;
    EXPECT_EQ(outcome.log.find("/work"), std::string::npos) << outcome.log;
}

TEST(Build, RejectsAnotherSignature) {
    NEEDS_MACHINE();
    const Task task = matmul_task();
    for (const char* parameters :
         {"long n, const float* a, const float* b, float* c", "int n, const float* a, float* c",
          "int n, float* a, const float* b, float* c",
          "int n, const double* a, const float* b, float* c"}) {
        const BuildOutcome outcome =
            built(task, std::string("extern \"C\" void kernel(") + parameters + ") {}\n");
        EXPECT_EQ(outcome.reason, Reason::build_error) << parameters;
        EXPECT_NE(outcome.log.find("kernel"), std::string::npos);
    }
    const BuildOutcome value = built(
        task, "extern \"C\" int kernel(int, const float*, const float*, float*) { return 0; }\n");
    EXPECT_EQ(value.reason, Reason::build_error);
}

TEST(Build, TellsLinkErrorsApart) {
    NEEDS_MACHINE();
    const Task task = matmul_task();
    const BuildOutcome undefined =
        built(task, kernel_with("elsewhere(n);", "void elsewhere(int);"));
    EXPECT_EQ(undefined.reason, Reason::link_error) << undefined.log;
    EXPECT_NE(undefined.log.find("elsewhere"), std::string::npos) << undefined.log;
    const BuildOutcome mangled =
        built(task, "void kernel(int n, const float*, const float*, float* c) { c[0] = n; }\n");
    EXPECT_EQ(mangled.reason, Reason::link_error) << mangled.log;
    EXPECT_NE(mangled.log.find("C linkage"), std::string::npos) << mangled.log;
    const BuildOutcome absent = built(task, "extern \"C\" void other(int) {}\n");
    EXPECT_EQ(absent.reason, Reason::link_error) << absent.log;
}

TEST(Build, KeepsLimits) {
    NEEDS_MACHINE();
    Task task = matmul_task();
    task.limits.build_seconds = 3;
    task.limits.file_mb = 16;
    const BuildOutcome bomb = built(task,
                                    "template <int D, unsigned long I> struct T { T<D - 1, 2 * I> "
                                    "l; T<D - 1, 2 * I + 1> r; };\n"
                                    "template <unsigned long I> struct T<0, I> { char x; };\n"
                                    "extern \"C\" void kernel(int, const float*, const float*, "
                                    "float* c) { c[0] = sizeof(T<28, 1>); }\n");
    EXPECT_EQ(bomb.reason, Reason::timeout) << bomb.log;
    EXPECT_NE(bomb.log.find("3 s"), std::string::npos) << bomb.log;
    task.limits.build_seconds = 20;
    const BuildOutcome huge =
        built(task, "extern \"C\" { char big[64 << 20] = {1}; }\n" + kernel_with("c[0] = big[n];"));
    EXPECT_EQ(huge.reason, Reason::policy) << huge.log;
    EXPECT_NE(huge.log.find("16 MiB"), std::string::npos) << huge.log;
}

TEST(Build, ReadsNoFilesOfTheHost) {
    NEEDS_MACHINE();
    const BuildOutcome outcome =
        built(matmul_task(), "#include \"/etc/passwd\"\n" + kernel_with(""));
    EXPECT_EQ(outcome.reason, Reason::build_error);
    EXPECT_EQ(outcome.log.find("root:"), std::string::npos) << outcome.log;
}

TEST(Build, SeveralFilesAndSupport) {
    NEEDS_MACHINE();
    Task task = matmul_task();
    task.support["tools.h"] = "inline float twice(float x) { return 2 * x; }\n";
    Program program;
    program.files["src/a.cc"] =
        "#include \"tools.h\"\nfloat helper(float x) { return twice(x); }\n";
    program.files["b/a.cc"] = "#include \"../src/h.h\"\n" + kernel_with("c[0] = helper(a[0]);");
    program.files["src/h.h"] = "float helper(float);\n";
    const Result<BuildOutcome> outcome = run(build(machine, task, program, BuildKind::timed));
    ASSERT_TRUE(outcome) << to_text(outcome.error());
    EXPECT_TRUE(outcome->ok) << outcome->log;
}

TEST(Build, ByCommand) {
    NEEDS_MACHINE();
    Task task = matmul_task({5});
    task.build.command = "$CXX $CXXFLAGS -shared -o out.so kernel.cc";
    task.build.output = "out.so";
    const BuildOutcome outcome = built(task, testing::naive_matmul);
    ASSERT_TRUE(outcome.ok) << outcome.log;
    const Result<VerifyOutcome> checked =
        run(verify(machine, task, outcome.object, reference_of(task)));
    ASSERT_TRUE(checked) << to_text(checked.error());
    EXPECT_TRUE(checked->ok) << checked->message;
    EXPECT_EQ(built(task, "int x = y;").reason, Reason::build_error);
    EXPECT_EQ(built(task, "int x = 1;").reason, Reason::link_error);
    task.build.output = "absent.so";
    EXPECT_EQ(built(task, testing::naive_matmul).reason, Reason::build_error);
    EXPECT_FALSE(run(build(machine, task, program_of("x"), BuildKind::sanitized)));
}

TEST(Build, InputsNameWhatMatters) {
    NEEDS_MACHINE();
    const Task task = matmul_task();
    const auto inputs = [&](const Task& t, const std::string& text, BuildKind kind) {
        const Result<std::string> json = run(build_inputs(machine, t, program_of(text), kind));
        EXPECT_TRUE(json);
        return json.value_or("");
    };
    const std::string base = inputs(task, testing::naive_matmul, BuildKind::timed);
    EXPECT_TRUE(nlohmann::json::accept(base));
    EXPECT_EQ(base, inputs(task, testing::naive_matmul, BuildKind::timed));
    EXPECT_NE(base, inputs(task, testing::fast_matmul, BuildKind::timed));
    EXPECT_NE(base, inputs(task, testing::naive_matmul, BuildKind::sanitized));
    Task flags = task;
    flags.build.flags = {"-O2"};
    EXPECT_NE(base, inputs(flags, testing::naive_matmul, BuildKind::timed));
    Task wider = task;
    wider.kernel.value().arguments[0].type = ElementType::i64;
    EXPECT_NE(base, inputs(wider, testing::naive_matmul, BuildKind::timed));
    Task limits = task;
    limits.kernel.value().fast_tolerance = 0.5;
    EXPECT_EQ(base, inputs(limits, testing::naive_matmul, BuildKind::timed));
}

// ---------------------------------------------------------------------------------------------------
// verify

TEST(Verify, AcceptsHonestPrograms) {
    NEEDS_MACHINE();
    const Task task = matmul_task({1, 2, 17, 64, 100});
    for (const char* text : {testing::naive_matmul, testing::fast_matmul}) {
        const VerifyOutcome outcome = verified(task, text);
        EXPECT_TRUE(outcome.ok) << outcome.message;
        EXPECT_EQ(outcome.cases.size(), 25U);
        EXPECT_NE(outcome.seed, 0U);
        double worst = 0;
        for (const VerifiedCase& one : outcome.cases)
            worst = std::max(worst, one.worst);
        EXPECT_GT(worst, 0.01) << "a bound this wide would let anything through";
        EXPECT_LE(worst, 1);
    }
}

TEST(Verify, JudgesWhatIsWritten) {
    NEEDS_MACHINE();
    const Task task = matmul_task({17});
    const std::string honest =
        "for (int i = 0; i < n; ++i) for (int j = 0; j < n; ++j) { float s = 0; for (int k = 0; k "
        "< n; "
        "++k) s += a[i*n+k] * b[k*n+j]; c[i*n+j] = s; }";
    struct Case {
        const char* name;
        std::string text;
        Reason reason;
        const char* says;
    };
    const std::vector<Case> cases = {
        {"nothing", kernel_with(""), Reason::no_answer, "c was not written"},
        {"zeros", kernel_with("for (int i = 0; i < n * n; ++i) c[i] = 0;"), Reason::wrong_output,
         "expected"},
        {"nan", kernel_with("for (int i = 0; i < n * n; ++i) c[i] = __builtin_nanf(\"\");"),
         Reason::wrong_output, "nan"},
        {"infinity", kernel_with("for (int i = 0; i < n * n; ++i) c[i] = __builtin_inff();"),
         Reason::wrong_output, "inf"},
        {"one element", kernel_with(honest + "c[200] += 0.01f;"), Reason::wrong_output,
         "c[11][13]"},
        {"tail", kernel_with(honest + "c[n*n-1] = c[0];"), Reason::wrong_output, "c[16][16]"},
        {"unwritten element",
         kernel_with("float keep; __builtin_memcpy(&keep, &c[5], 4);" + honest +
                     "__builtin_memcpy(&c[5], &keep, 4);"),
         Reason::wrong_output, "c[0][5] was not written"},
        {"assumes zeros",
         kernel_with(
             "for (int i = 0; i < n; ++i) for (int k = 0; k < n; ++k) for (int j = 0; j < n; ++j) "
             "c[i*n+j] += a[i*n+k] * b[k*n+j];"),
         Reason::no_answer, "c was not written"},
        {"null", kernel_with("*(volatile int*)0 = n;"), Reason::crash, "null pointer"},
        {"past the end", kernel_with(honest + "((volatile float*)c)[n*n + 40] = 1;"),
         Reason::memory, "past the end of c"},
        {"just past the end", kernel_with(honest + "((volatile float*)c)[n*n] = 1;"),
         Reason::memory, "wrote 0 bytes past the end of c"},
        {"before the start", kernel_with(honest + "((volatile float*)c)[-3] = 1;"), Reason::memory,
         "12 bytes before the start of c"},
        {"reads past the end",
         kernel_with(honest + "c[0] += 0 * ((volatile const float*)b)[n*n + 1100];"),
         Reason::memory, "past the end of b"},
        {"writes an input", kernel_with("const_cast<float*>(a)[3] = 0;" + honest), Reason::crash,
         "read-only"},
        {"division", kernel_with("volatile int zero = 0; c[0] = n / zero;"), Reason::crash,
         "integer division"},
        {"recursion",
         kernel_with("c[0] = deep(n);",
                     "__attribute__((noinline)) float deep(int n) { volatile char s[4096]; "
                     "s[0] = n; return n < 0 ? 0 : deep(n + 1) + s[0]; }"),
         Reason::crash, "stack"},
        {"abort", kernel_with("__builtin_printf(\"\"); abort();", "#include <cstdlib>"),
         Reason::crash, "ABRT"},
        {"exit", kernel_with("_exit(0);", "#include <unistd.h>"), Reason::no_answer,
         "exit status 0"},
        {"exit in constructor",
         kernel_with(
             honest,
             "#include <unistd.h>\n__attribute__((constructor)) static void early() { _exit(0); }"),
         Reason::no_answer, "exit status 0"},
        {"forged answer",
         kernel_with("unsigned done[3] = {108, 8064, 8064}; (void)!write(3, done, 12);",
                     "#include <unistd.h>"),
         Reason::no_answer, "c was not written"},
        {"noise on the line",
         kernel_with("write(3, \"hello world\", 11);" + honest, "#include <unistd.h>"),
         Reason::policy, "descriptor"},
        {"floating-point mode",
         kernel_with(honest + "_mm_setcsr(_mm_getcsr() | 0x8040u);", "#include <immintrin.h>"),
         Reason::policy, "floating-point environment"},
        {"socket", kernel_with(honest + "socket(2, 2, 0);", "#include <sys/socket.h>"),
         Reason::policy, "socket"},
        {"program", kernel_with("execl(\"/bin/true\", \"true\", nullptr);", "#include <unistd.h>"),
         Reason::policy, "start another program"},
        {"fork",
         kernel_with("for (int i = 0; i < 256; ++i) if (fork() == 0) { sleep(30); _exit(0); }",
                     "#include <unistd.h>"),
         Reason::resource, "start a process"},
        {"flood",
         kernel_with(
             "static char x[65536]; for (int i = 0; i < 8192; ++i) (void)!write(1, x, sizeof x);",
             "#include <unistd.h>"),
         Reason::resource, "256 KiB of output"},
    };
    const std::string reference = reference_of(task);
    for (const Case& one : cases) {
        const BuildOutcome object = built(task, one.text);
        ASSERT_TRUE(object.ok) << one.name << ": " << object.log;
        const Result<VerifyOutcome> outcome = run(verify(machine, task, object.object, reference));
        ASSERT_TRUE(outcome) << one.name << ": " << to_text(outcome.error());
        EXPECT_FALSE(outcome->ok) << one.name;
        EXPECT_EQ(name_of(outcome->reason), name_of(one.reason))
            << one.name << ": " << outcome->message;
        EXPECT_NE(outcome->message.find(one.says), std::string::npos)
            << one.name << ": " << outcome->message;
    }
}

TEST(Verify, EndsWhatDoesNotEnd) {
    NEEDS_MACHINE();
    Task task = matmul_task({17});
    task.limits.verify_seconds = 1;
    task.limits.memory_mb = 256;
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(verified(task, kernel_with("volatile int x = 0; for (;;) x = x + 1;")).reason,
              Reason::timeout);
    EXPECT_EQ(verified(task, kernel_with("sigset_t s; sigfillset(&s); sigprocmask(SIG_SETMASK, &s, "
                                         "nullptr); for (;;) sleep(9);",
                                         "#include <csignal>\n#include <unistd.h>"))
                  .reason,
              Reason::timeout);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
    const VerifyOutcome memory = verified(
        task, kernel_with("for (int i = 0; i < 96; ++i) if (char* p = (char*)malloc(64l << 20)) "
                          "for (long k = 0; k < 64l << 20; k += 4096) ((volatile char*)p)[k] = 1;",
                          "#include <cstdlib>"));
    EXPECT_TRUE(memory.reason == Reason::resource || memory.reason == Reason::no_answer)
        << memory.message;
    if (!machine.sandbox.memory_group.empty())
        EXPECT_EQ(memory.reason, Reason::resource) << memory.message;
}

TEST(Verify, WorkAfterTheAnswerDoesNotCount) {
    NEEDS_MACHINE();
    const VerifyOutcome outcome = verified(
        matmul_task({100}),
        kernel_with(
            "std::thread([=] { usleep(100); for (int i = 0; i < n; ++i) for (int j = 0; j < n; "
            "++j) { float s = 0; for "
            "(int k = 0; k < n; ++k) s += a[i*n+k] * b[k*n+j]; c[i*n+j] = s; } }).detach();",
            "#include <thread>\n#include <unistd.h>"));
    EXPECT_FALSE(outcome.ok);
    EXPECT_TRUE(outcome.reason == Reason::no_answer || outcome.reason == Reason::wrong_output)
        << outcome.message;
}

TEST(Verify, ThreadsAreAllowed) {
    NEEDS_MACHINE();
    const VerifyOutcome outcome =
        verified(matmul_task({1, 33}),
                 kernel_with("auto part = [=](int from, int to) { for (int i = from; i < to; ++i) "
                             "for (int j = 0; j < n; ++j) { float s = "
                             "0; for (int k = 0; k < n; ++k) s += a[i*n+k] * b[k*n+j]; c[i*n+j] = "
                             "s; } }; std::thread t(part, 0, n / 2); "
                             "part(n / 2, n); t.join();",
                             "#include <thread>"));
    EXPECT_TRUE(outcome.ok) << outcome.message;
}

TEST(Verify, BrokenReferenceIsNotTheCandidatesFault) {
    NEEDS_MACHINE();
    Task task = matmul_task({17});
    task.kernel.value().reference.file = "broken.cc";
    const std::string object = built(task, testing::naive_matmul).object;
    for (const char* body : {"", "c[0] = *(volatile double*)0;",
                             "for (int i = 0; i < n * n; ++i) c[i] = 1.0 / 0.0;"}) {
        task.kernel.value().reference.text =
            (std::string(
                 "extern \"C\" void reference(int n, const double*, const double*, double* c) {") +
             body + "(void)n; (void)c; }\n");
        const Result<VerifyOutcome> outcome =
            run(verify(machine, task, object, reference_of(task)));
        ASSERT_FALSE(outcome) << body;
        EXPECT_EQ(outcome.error().where, "broken.cc");
    }
}

TEST(Verify, EveryTypeAndDirection) {
    NEEDS_MACHINE();
    Task task = matmul_task();
    KernelSpec& kernel = task.kernel.value();
    using testing::array;
    using testing::scalar;
    kernel.arguments = {scalar("n"),
                        scalar("factor", ElementType::f32, "0.1"),
                        scalar("wide", ElementType::i64, "n * 1000000000"),
                        array("x", {"n"}, Direction::inout, ElementType::f64),
                        array("k", {"n"}, Direction::in, ElementType::i32, "integers", {"-5", "5"}),
                        array("sum", {"1"}, Direction::out, ElementType::i64),
                        array("p", {"n"}, Direction::in, ElementType::u64, "permutation"),
                        array("inverse", {"n"}, Direction::out, ElementType::u64),
                        array("y", {"n"}, Direction::out, ElementType::f32)};
    kernel.verify_sizes = {{{"n", 1}}, {{"n", 1000}}};
    kernel.tolerance.reduction = "1";
    const std::string body =
        "{ long long s = wide; for (int i = 0; i < n; ++i) { x[i] += factor; s += k[i]; "
        "inverse[p[i]] = i; y[i] = x[i] * "
        "factor; } sum[0] = s; }\n";
    kernel.reference.text =
        ("extern \"C\" void reference(int n, double factor, long long wide, double* x, const int* "
         "k, long long* sum, "
         "const unsigned long long* p, unsigned long long* inverse, double* y) " +
         body);
    const std::string head =
        "extern \"C\" void kernel(int n, float factor, long long wide, double* x, const int* k, "
        "long long* sum, const unsigned long "
        "long* p, unsigned long long* inverse, float* y) ";
    const VerifyOutcome honest = verified(task, head + body);
    EXPECT_TRUE(honest.ok) << honest.message;
    std::string wrong = body;
    wrong.replace(wrong.find("s += k[i]"), 9, "s += k[0]");
    const VerifyOutcome integer = verified(task, head + wrong);
    EXPECT_EQ(integer.reason, Reason::wrong_output) << integer.message;
    EXPECT_NE(integer.message.find("sum[0]"), std::string::npos) << integer.message;
}

// -----------------------------------------------------------------------------------------------
// executables

TEST(RunOnce, SanitizersSpeak) {
    NEEDS_MACHINE();
    const Task task = matmul_task();
    const BuildOutcome good = built(task, testing::naive_matmul, BuildKind::sanitized);
    ASSERT_TRUE(good.ok) << good.log;
    const Result<OneRun> clean = run(run_once(machine, task, good.object, {{"n", 17}}, {}, {}));
    ASSERT_TRUE(clean) << to_text(clean.error());
    EXPECT_EQ(clean->exit_code, 0) << clean->err;
    EXPECT_EQ(clean->err, "");
    const BuildOutcome bad =
        built(task, kernel_with("c[n * n] = a[0] + b[0];"), BuildKind::sanitized);
    ASSERT_TRUE(bad.ok) << bad.log;
    const Result<OneRun> caught = run(run_once(machine, task, bad.object, {{"n", 17}}, {}, {}));
    ASSERT_TRUE(caught) << to_text(caught.error());
    EXPECT_NE(caught->exit_code, 0);
    EXPECT_NE(caught->err.find("heap-buffer-overflow"), std::string::npos) << caught->err;
    EXPECT_NE(caught->err.find("kernel.cc:3"), std::string::npos)
        << "needs symbols: " << caught->err;
    const BuildOutcome undefined = built(
        task, kernel_with("int x = n + 2147483640; c[0] = x + a[0] + b[0];"), BuildKind::sanitized);
    ASSERT_TRUE(undefined.ok) << undefined.log;
    const Result<OneRun> overflow =
        run(run_once(machine, task, undefined.object, {{"n", 17}}, {}, {}));
    ASSERT_TRUE(overflow);
    EXPECT_NE(overflow->err.find("signed integer overflow"), std::string::npos) << overflow->err;
}

TEST(RunOnce, UnderAWrapper) {
    NEEDS_MACHINE();
    const Task task = matmul_task();
    const BuildOutcome object = built(task, testing::naive_matmul, BuildKind::simulated);
    ASSERT_TRUE(object.ok) << object.log;
    const Result<OneRun> result =
        run(run_once(machine, task, object.object, {{"n", 24}},
                     {"valgrind", "--tool=callgrind", "--cache-sim=yes",
                      "--toggle-collect=loopscope_call", "--callgrind-out-file=calls.out"},
                     {"calls.out"}));
    ASSERT_TRUE(result) << to_text(result.error());
    EXPECT_EQ(result->exit_code, 0) << result->err;
    ASSERT_TRUE(result->files.contains("calls.out")) << result->err;
    EXPECT_NE(result->files.at("calls.out").find("kernel"), std::string::npos);
}

}  // namespace
}  // namespace loopscope
