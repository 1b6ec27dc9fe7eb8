// The components over real candidates, with the real tools, in the real sandbox.
#include "feedback/feedback.h"

#include "evaluate/with_machine.h"
#include "feedback/components.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace loopscope {
namespace {

using nlohmann::json;

constexpr const char* naive =
    R"(extern "C" void matmul(int n, const float* a, const float* b, float* c) {
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) {
            float sum = 0;
            for (int k = 0; k < n; ++k)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
    }
}
)";
constexpr const char* past_the_end =
    R"(extern "C" void matmul(int n, const float* a, const float* b, float* c) {
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) {
            float sum = 0;
            for (int k = 0; k <= n; ++k)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
    }
}
)";
constexpr const char* syntax_error =
    R"(extern "C" void matmul(int n, const float* a, const float* b, float* c) {
    for (int i = 0; i < n; ++i) {
        float sum = 0
        c[i] = sum;
    }
}
)";
constexpr const char* accumulates =
    R"(extern "C" void matmul(int n, const float* a, const float* b, float* c) {
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
            for (int k = 0; k < n; ++k)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
}
)";
constexpr const char* garbage =
    R"(extern "C" void matmul(int n, const float* a, const float* b, float* c) {
    for (int i = 0; i < n * n; ++i) {
        float sum;
        for (int k = 0; k < n; ++k)
            sum += a[k] * b[k];
        c[i] = sum;
    }
}
)";

Argument matrix(std::string name, Direction direction) {
    Argument argument;
    argument.name = std::move(name);
    argument.type = ElementType::f32;
    argument.shape = {"n", "n"};
    argument.direction = direction;
    return argument;
}

Task matmul_task() {
    Task task;
    task.name = "matmul";
    task.folder = std::filesystem::temp_directory_path();
    task.files = {"matmul.cc"};
    KernelSpec kernel;
    kernel.entry = "matmul";
    Argument n;
    n.name = "n";
    n.type = ElementType::i32;
    n.scalar = true;
    n.value = "n";
    kernel.arguments = {n, matrix("a", Direction::in), matrix("b", Direction::in),
                        matrix("c", Direction::out)};
    kernel.verify_sizes = {{{"n", 5}}, {{"n", 33}}};
    kernel.time_sizes = {{{"n", 96}}, {{"n", 2000}}};
    kernel.flops = "2.0 * n * n * n";
    kernel.bytes = "12.0 * n * n";
    task.kernel = kernel;
    return task;
}

Program program_of(const char* text) {
    Program program;
    program.files["matmul.cc"] = text;
    return program;
}

Evaluation evaluation_of(Status status, Reason reason) {
    Evaluation evaluation;
    evaluation.status = status;
    evaluation.reason = reason;
    return evaluation;
}

Feedback made(const std::string& component, const Task& task, const Program& program,
              const Evaluation& evaluation, const Roof* roof = nullptr) {
    const Subject subject{task, program, evaluation};
    Result<Feedback> feedback =
        testing::run(make_feedback(*testing::bench().machine, component, subject, roof));
    if (!feedback) {
        ADD_FAILURE() << to_text(feedback.error());
        return {};
    }
    EXPECT_EQ(feedback->component, component);
    EXPECT_TRUE(json::accept(feedback->fields)) << feedback->fields;
    EXPECT_LE(feedback->text.size(), task.feedback.max_bytes);
    return std::move(*feedback);
}

::testing::AssertionResult says(const Feedback& feedback, std::string_view words) {
    if (feedback.text.find(words) != std::string::npos)
        return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "\"" << words << "\" is not in:\n" << feedback.text;
}

TEST(Debugger, CleanProgramIsSaidToBeClean) {
    NEEDS_MACHINE();
    const Feedback feedback = made("debugger", matmul_task(), program_of(naive),
                                   evaluation_of(Status::pass, Reason::not_faster));
    EXPECT_TRUE(says(
        feedback,
        "Nothing found by the compiler with -Wall -Wextra; the address and undefined-behaviour "
        "sanitizers at n=33, n=5"));
    EXPECT_TRUE(says(feedback, "The program passes."));
    EXPECT_EQ(feedback.text.find("warning"), std::string::npos) << feedback.text;
}

TEST(Debugger, OverrunIsNamedWithArrayLineAndLoops) {
    NEEDS_MACHINE();
    // It passes: that must not keep the debugger from looking.
    const Feedback feedback = made("debugger", matmul_task(), program_of(past_the_end),
                                   evaluation_of(Status::pass, Reason::not_faster));
    EXPECT_TRUE(says(feedback, "AddressSanitizer: heap-buffer-overflow: read of 4 bytes"));
    EXPECT_TRUE(says(feedback, "0 bytes after the end of "));
    EXPECT_TRUE(says(feedback, " at matmul.cc:6:"));
    EXPECT_TRUE(says(feedback, "sizes n=33"));
    EXPECT_TRUE(says(feedback, "(1089 elements)"));
    EXPECT_TRUE(says(feedback, "loop k (line 5): 0 <= k <= n, step 1"));
    const json report = json::parse(feedback.fields)["sanitizer_runs"][0]["reports"][0];
    EXPECT_EQ(report["line"], 6);
    EXPECT_EQ(report["kind"], "heap-buffer-overflow");
    EXPECT_EQ(report["region_bytes"], 33 * 33 * 4);
    for (const char* unstable : {"0x", "/work", "/tmp", "=="})
        EXPECT_EQ(feedback.text.find(unstable), std::string::npos) << feedback.text;
    // The same inputs give the same text.
    EXPECT_EQ(feedback.text, made("debugger", matmul_task(), program_of(past_the_end),
                                  evaluation_of(Status::pass, Reason::not_faster))
                                 .text);
}

TEST(Debugger, SyntaxErrorWithItsLine) {
    NEEDS_MACHINE();
    Evaluation evaluation = evaluation_of(Status::fail, Reason::build_error);
    evaluation.build_log = "matmul.cc:3:22: error: expected ';' at end of declaration\n";
    const Feedback feedback = made("debugger", matmul_task(), program_of(syntax_error), evaluation);
    EXPECT_TRUE(says(
        feedback, "matmul.cc:3:22: error: expected ';' at end of declaration\n    float sum = 0"));
    EXPECT_EQ(json::parse(feedback.fields)["compiler"][0]["line"], 3);
}

TEST(Debugger, WhatOnlyTheBuildSaw) {
    NEEDS_MACHINE();
    Evaluation evaluation = evaluation_of(Status::fail, Reason::link_error);
    evaluation.build_log = "ld.lld-19: error: undefined symbol: helper(float*)\n";
    EXPECT_TRUE(says(made("debugger", matmul_task(), program_of(naive), evaluation),
                     "undefined symbol: helper(float*)"));
    evaluation.reason = Reason::build_error;
    evaluation.build_log = "matmul.cc:1:17: error: conflicting types for 'matmul'\n";
    EXPECT_TRUE(says(made("debugger", matmul_task(), program_of(naive), evaluation),
                     "matmul.cc:1:17: error: conflicting types for 'matmul'"));
}

TEST(Debugger, UninitialisedAccumulation) {
    NEEDS_MACHINE();
    Evaluation evaluation = evaluation_of(Status::compile, Reason::wrong_output);
    evaluation.message = "c[0][0] is not a number (n=5)";
    const Feedback output = made("debugger", matmul_task(), program_of(accumulates), evaluation);
    EXPECT_TRUE(says(output, "wrong_output: c[0][0] is not a number (n=5)"));
    EXPECT_TRUE(says(output,
                     "matmul.cc:5:17: warning: c[i * n + j] reads the output c before anything is "
                     "written to it"));
    const Feedback local = made("debugger", matmul_task(), program_of(garbage), evaluation);
    EXPECT_TRUE(
        says(local, "matmul.cc:5:13: warning: variable 'sum' is uninitialized when used here"));
    EXPECT_EQ(made("debugger", matmul_task(), program_of(naive), evaluation)
                  .text.find("reads the output"),
              std::string::npos);
}

TEST(Analyzer, LoopsStridesVectorizerAndIntensity) {
    NEEDS_MACHINE();
    const Feedback feedback = made("analyzer", matmul_task(), program_of(naive),
                                   evaluation_of(Status::pass, Reason::not_faster));
    for (const char* words :
         {"loop k (depth 3, line 5): 0 <= k < n, step 1; 1 add, 1 multiply per iteration; "
          "accumulates into sum (+)",
          "access b[k * n + j] (read): stride n in k, 1 in j, 0 in i",
          "access a[i * n + k] (read): stride 1 in k, 0 in j, n in i",
          "access c[i * n + j] (write): stride 1 in j, n in i",
          "line 5: loop not vectorized: cannot prove it is safe to reorder floating-point "
          "operations",
          "with j innermost instead of k, 2 of 2 accesses of line 5 would have stride 0 or 1 (now "
          "1)",
          "arithmetic intensity: 16 flop/byte at n=96", "2 flop per 8 bytes = 0.25 flop/byte"})
        EXPECT_TRUE(says(feedback, words));
    const json fields = json::parse(feedback.fields);
    EXPECT_EQ(fields["functions"][0]["accesses"][1]["strides"]["k"], "n");
    EXPECT_EQ(fields["vectorizer"][0]["loop_line"], 5);
    EXPECT_FALSE(fields["partial"].get<bool>());
}

TEST(Analyzer, FailingAndLongProgramsToo) {
    NEEDS_MACHINE();
    const Feedback broken = made("analyzer", matmul_task(), program_of(syntax_error),
                                 evaluation_of(Status::fail, Reason::build_error));
    EXPECT_TRUE(says(broken, "loop i (depth 1, line 2): 0 <= i < n, step 1"));
    EXPECT_TRUE(says(broken, "does not compile"));
    // Within the budget the conclusions survive, the long list does not.
    Task task = matmul_task();
    task.feedback.max_bytes = 900;
    const Feedback cut =
        made("analyzer", task, program_of(naive), evaluation_of(Status::pass, Reason::not_faster));
    EXPECT_TRUE(says(cut, "bytes left out]"));
    EXPECT_TRUE(says(cut, "line 5: loop not vectorized"));
    Program python;
    python.files["policy.py"] = "def act(): return 0\n";
    const Feedback other = made("analyzer", task, python, evaluation_of(Status::pass, Reason::ok));
    EXPECT_FALSE(other.applicable);
}

TEST(Profiler, TimesAgainstTheRoofAndCachesByLine) {
    NEEDS_MACHINE();
    Evaluation evaluation = evaluation_of(Status::pass, Reason::not_faster);
    TimeOutcome session;
    session.ok = true;
    SizeTiming timing;
    timing.sizes = "n=96";
    timing.candidate_seconds = 0.001;
    timing.baseline_seconds = 0.002;
    timing.flops_per_second = 1.9e9;
    timing.speedup = Ratio{2, 1.9, 2.1, 5, 0.95};
    session.sizes = {timing};
    evaluation.sessions = {session};
    Roof roof;
    roof.flops_per_second_f32 = 59.8e9;
    roof.flops_per_second_f64 = 29.9e9;
    roof.bytes_per_second_memory = 10e9;
    const Feedback feedback = made("profiler", matmul_task(), program_of(naive), evaluation, &roof);
    EXPECT_TRUE(says(feedback, "n=96: 1.90 GFLOP/s, 3.2 % of this core's roof (59.8)"));
    EXPECT_TRUE(says(feedback, "1 ms a call, 2.00 times the baseline's speed (1.90 to 2.10)"));
    EXPECT_TRUE(
        says(feedback, "compute-bound by its arithmetic: 16 flop/byte, the roof turns at 5.98"));
    if (!find_tool("valgrind").empty()) {
        EXPECT_TRUE(says(feedback, "cache simulation at n=96"));
        EXPECT_TRUE(says(feedback, "D1 miss rate "));
        EXPECT_TRUE(says(feedback, "LL miss rate "));
        EXPECT_TRUE(says(feedback, "hot: matmul.cc:6 "));
        const json simulation = json::parse(feedback.fields)["cache_simulation"];
        EXPECT_GE(simulation["reads"].get<double>(), 2.0 * 96 * 96 * 96 * 0.9);
    } else {
        EXPECT_FALSE(feedback.missing.empty());
    }
}

TEST(Profiler, SaysWhatItCanOfFailingOnes) {
    NEEDS_MACHINE();
    const Feedback broken = made("profiler", matmul_task(), program_of(syntax_error),
                                 evaluation_of(Status::fail, Reason::build_error));
    EXPECT_FALSE(broken.applicable);
    EXPECT_TRUE(says(broken, "does not build"));
    Task task = matmul_task();
    task.kernel->time_sizes = {{{"n", 40}}};
    const Feedback wrong = made("profiler", task, program_of(accumulates),
                                evaluation_of(Status::compile, Reason::wrong_output));
    EXPECT_TRUE(says(wrong, "Not timed: wrong_output."));
    if (!find_tool("valgrind").empty())
        EXPECT_TRUE(
            says(wrong, "the output is wrong; the counts are of what it does nevertheless"));
}

// A folder that goes with the test.
struct Folder {
    std::filesystem::path path;
    Folder()
        : path(std::filesystem::temp_directory_path() /
               ("feedback_test." + std::to_string(::getpid()))) {
        std::filesystem::create_directories(path);
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
};

TEST(UserComponent, PrintsDeclinesFailsAndIsLimited) {
    NEEDS_MACHINE();
    Folder folder;
    std::ofstream(folder.path / "check.sh")
        << "#!/bin/sh\n"
           "case $1 in\n"
           "say) echo \"matmul.cc has $(grep -c for matmul.cc) loops\"; head -c 11; echo;;\n"
           "decline) exit 3;;\n"
           "fail) echo broken >&2; exit 1;;\n"
           "flood) yes | head -c 100000;;\n"
           "json) echo '{\"text\": \"from json\", \"loops\": 3}';;\n"
           "esac\n";
    Task task = matmul_task();
    task.folder = folder.path;
    task.feedback.max_bytes = 500;
    for (const char* what : {"say", "decline", "fail", "flood", "json"})
        task.feedback.commands[what] = {"sh", "check.sh", what};
    task.feedback.commands["absent"] = {"no-such-program"};
    const Evaluation evaluation = evaluation_of(Status::pass, Reason::not_faster);
    const std::vector<std::string> names = component_names(task);
    EXPECT_EQ(names, (std::vector<std::string>{"debugger", "analyzer", "profiler", "absent",
                                               "decline", "fail", "flood", "json", "say"}));
    const Feedback said = made("say", task, program_of(naive), evaluation);
    EXPECT_TRUE(said.applicable);
    EXPECT_TRUE(says(said, "matmul.cc has 3 loops"));
    EXPECT_TRUE(says(said, "{\"")) << "the evaluation is on its standard input";
    EXPECT_FALSE(made("decline", task, program_of(naive), evaluation).applicable);
    const Feedback failed = made("fail", task, program_of(naive), evaluation);
    EXPECT_FALSE(failed.applicable);
    EXPECT_TRUE(says(failed, "fail failed (exit status 1): broken"));
    EXPECT_TRUE(says(made("flood", task, program_of(naive), evaluation), "bytes left out]"));
    const Feedback structured = made("json", task, program_of(naive), evaluation);
    EXPECT_EQ(structured.text, "from json");
    EXPECT_EQ(json::parse(structured.fields)["output"]["loops"], 3);
    const Program program = program_of(naive);
    const Subject subject{task, program, evaluation};
    const Result<Feedback> absent =
        testing::run(make_feedback(machine, "absent", subject, nullptr));
    ASSERT_FALSE(absent);
    EXPECT_NE(to_text(absent.error()).find("no-such-program"), std::string::npos);
}

TEST(Inputs, ChangeWithWhatMattersAndOnlyWithThat) {
    NEEDS_MACHINE();
    const Task task = matmul_task();
    const Program program = program_of(naive), other = program_of(accumulates);
    Evaluation evaluation = evaluation_of(Status::pass, Reason::not_faster);
    const auto inputs = [&](const std::string& component, const Task& of, const Program& text) {
        const Subject subject{of, text, evaluation};
        const Result<std::string> made_inputs =
            testing::run(feedback_inputs(machine, component, subject));
        EXPECT_TRUE(made_inputs) << component;
        return made_inputs ? *made_inputs : std::string();
    };
    for (const char* component : {"debugger", "analyzer", "profiler"}) {
        EXPECT_TRUE(is_deterministic(component));
        EXPECT_EQ(inputs(component, task, program), inputs(component, task, program));
        EXPECT_NE(inputs(component, task, program), inputs(component, task, other));
        EXPECT_TRUE(json::accept(inputs(component, task, program)));
        Task flags = task;
        flags.build.flags.emplace_back("-ffast-math");
        EXPECT_NE(inputs(component, task, program), inputs(component, flags, program)) << component;
    }
    // A second measurement is news for the profiler alone.
    const std::string debugger = inputs("debugger", task, program),
                      analyzer = inputs("analyzer", task, program);
    const std::string profiler = inputs("profiler", task, program);
    TimeOutcome session;
    session.seconds = 3;
    evaluation.sessions = {session};
    evaluation.message = "1.3 times as fast";
    EXPECT_EQ(inputs("debugger", task, program), debugger);
    EXPECT_EQ(inputs("analyzer", task, program), analyzer);
    EXPECT_NE(inputs("profiler", task, program), profiler);
    // What the debugger repeats is an input of its.
    evaluation.status = Status::compile;
    evaluation.reason = Reason::crash;
    EXPECT_NE(inputs("debugger", task, program), debugger);
    const Subject subject{task, program, evaluation};
    const Result<std::string> unknown = testing::run(feedback_inputs(machine, "profilr", subject));
    ASSERT_FALSE(unknown);
    EXPECT_NE(unknown.error().what.find("did you mean profiler?"), std::string::npos);
}

}  // namespace
}  // namespace loopscope
