#include "evaluate/timing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/rng.h"
#include "evaluate/kernel.h"
#include "evaluate/matmul_task.h"
#include "evaluate/with_machine.h"
#include "stats/intervals.h"

namespace loopscope {
namespace {

using testing::bench;
using testing::matmul_task;
using testing::program_of;
using testing::run;

TEST(Ratio, IsStudentsIntervalOfTheLogs) {
    const std::vector<double> logs = {0.10, 0.20, 0.15, 0.05, 0.25};
    const Ratio ratio = ratio_over_launches(logs, 5, 0);
    const stats::Estimate expected = stats::mean_interval(logs);
    EXPECT_NEAR(std::log(ratio.estimate), expected.value, 1e-12);
    EXPECT_NEAR(std::log(ratio.low), expected.low, 1e-12);
    EXPECT_NEAR(std::log(ratio.high), expected.high, 1e-12);
    EXPECT_EQ(ratio.launches, 5);
    const Ratio wider = ratio_over_launches(logs, 5, 0.5);
    EXPECT_NEAR(std::log(wider.high / wider.low), 1.0, 1e-12);
}

TEST(Ratio, OneLaunchHasNoInterval) {
    const std::vector<double> one = {0.1};
    const Ratio ratio = ratio_over_launches(one, 1, 0);
    EXPECT_LT(ratio.low, 1e-8);
    EXPECT_GT(ratio.high, 1e8);
    EXPECT_TRUE(std::isfinite(ratio.high));
    EXPECT_LT(ratio_over_launches({}, 0, 0).low, 1e-8);
}

double gauss(Rng& rng) { return stats::normal_quantile(std::max(rng.unit(), 1e-12)); }

// The level of the whole adaptive procedure, by simulation: of programs that do not differ 2.5 %
// may seem faster.
TEST(Ratio, AddingLaunchesKeepsTheLevel) {
    Rng rng(7);
    int false_claims = 0;
    int naive_claims = 0;
    constexpr int studies = 20000;
    for (int study = 0; study < studies; ++study) {
        std::vector<double> logs;
        while (logs.size() < 5)
            logs.push_back(0.05 * gauss(rng));
        const std::size_t wanted = launches_wanted(logs, 0.03, 10);
        while (logs.size() < wanted)
            logs.push_back(0.05 * gauss(rng));
        false_claims += ratio_over_launches(logs, 5, 0).low > 1 ? 1 : 0;
        naive_claims += ratio_over_launches(logs, logs.size(), 0).low > 1 ? 1 : 0;
    }
    const double allowed = 0.025 * studies + 4 * std::sqrt(0.025 * studies);
    EXPECT_LT(false_claims, allowed);
    EXPECT_GT(false_claims, 0.015 * studies) << "conservative beyond need";
    RecordProperty("naive_claims", naive_claims);
}

TEST(Ratio, LaunchesWanted) {
    const std::vector<double> quiet = {0.10, 0.101, 0.099, 0.1, 0.1};
    EXPECT_EQ(launches_wanted(quiet, 0.03, 10), 5U);
    const std::vector<double> loud = {0.5, -0.5, 0.3, -0.3, 0};
    EXPECT_EQ(launches_wanted(loud, 0.03, 10), 10U);
    EXPECT_EQ(launches_wanted(loud, 0, 10), 5U);
}

TEST(Ratio, OverSizes) {
    const std::vector<std::vector<double>> logs = {{0.1, 0.2, 0.3}, {0.5, 0.6, 0.7}};
    const Ratio mean = combine_sizes(logs, "geomean", 3, 0);
    EXPECT_NEAR(std::log(mean.estimate), 0.4, 1e-12);
    const Ratio least = combine_sizes(logs, "min", 3, 0);
    EXPECT_NEAR(std::log(least.estimate), 0.2, 1e-12);
    EXPECT_EQ(least.low, ratio_over_launches(logs[0], 3, 0).low);
}

// ------------------------------------------------------------------------------------------- real
// sessions

std::string object_of(const Task& task, const std::string& text) {
    Result<BuildOutcome> outcome =
        run(build(*bench().machine, task, program_of(text), BuildKind::timed));
    if (!outcome || !outcome->ok) {
        ADD_FAILURE() << (outcome ? outcome->log : to_text(outcome.error()));
        return "";
    }
    return std::move(outcome->object);
}

std::string reference_of(const Task& task) {
    Result<BuildOutcome> outcome = run(build_reference(*bench().machine, task));
    return outcome && outcome->ok ? std::move(outcome->object) : "";
}

TimeOutcome timed(const Task& task, const std::string& candidate, const std::string& baseline,
                  const std::optional<std::string>& parent = std::nullopt, TimingPlan plan = {},
                  const Roof* roof = nullptr) {
    const std::string reference = reference_of(task);
    Result<TimeOutcome> outcome = run(
        time_session(*bench().machine, task, candidate, baseline, parent, reference, plan, roof));
    if (!outcome) {
        ADD_FAILURE() << to_text(outcome.error());
        return {};
    }
    return std::move(*outcome);
}

TEST(TimeSession, FindsWhatIsFaster) {
    NEEDS_MACHINE();
    const Task task = matmul_task({17}, {96, 130});
    const std::string naive = object_of(task, testing::naive_matmul);
    const std::string fast = object_of(task, testing::fast_matmul);
    TimingPlan plan;
    plan.launches = 3;
    plan.seconds_per_launch = 0.1;
    const TimeOutcome outcome = timed(task, fast, naive, naive, plan);
    ASSERT_TRUE(outcome.ok) << outcome.message;
    EXPECT_GT(outcome.speedup.low, 1);
    EXPECT_GT(outcome.speedup.estimate, 1.5);
    ASSERT_TRUE(outcome.gain);
    EXPECT_GT(outcome.gain.value().estimate, 1.5);
    ASSERT_EQ(outcome.sizes.size(), 2U);
    for (const SizeTiming& size : outcome.sizes) {
        EXPECT_GT(size.candidate_seconds, 0);
        EXPECT_GT(size.baseline_seconds, size.candidate_seconds);
        EXPECT_GT(size.parent_seconds, size.candidate_seconds);
        EXPECT_GT(size.flops_per_second, 1e8);
        EXPECT_LT(size.speedup.low, size.speedup.estimate);
    }
    EXPECT_GE(outcome.launches, 3);
    EXPECT_GE(outcome.pairs, 3);
    EXPECT_GT(outcome.noise_floor, 0);
    EXPECT_TRUE(outcome.findings.empty()) << outcome.findings.front().text;
    const TimeOutcome reversed = timed(task, naive, fast, std::nullopt, plan);
    EXPECT_LT(reversed.speedup.estimate, 0.7);
    EXPECT_FALSE(reversed.gain);
}

TEST(TimeSession, ChecksEveryTimedCall) {
    NEEDS_MACHINE();
    const Task task = matmul_task({17}, {96});
    const std::string naive = object_of(task, testing::naive_matmul);
    const std::string honest =
        "for (int i = 0; i < n; ++i) { for (int j = 0; j < n; ++j) c[i*n+j] = 0; for (int k = 0; k "
        "< n; ++k) for (int j = 0; j < "
        "n; ++j) c[i*n+j] += a[i*n+k] * b[k*n+j]; }";
    const auto kernel = [](const std::string& body, const std::string& before = "") {
        return before +
               "\nextern \"C\" void kernel(int n, const float* a, const float* b, float* c) {\n" +
               body + "\n}\n";
    };
    struct Case {
        const char* name;
        std::string text;
        Reason reason;
    };
    for (const Case& one :
         {Case{"first calls honest", kernel("static int calls; if (calls++ > 3) return;" + honest),
               Reason::no_answer},
          Case{"cheap when large",
               kernel("if (n > 64) { for (int i = 0; i < n*n; ++i) c[i] = 1; return; }" + honest),
               Reason::wrong_output},
          Case{"crash later",
               kernel("static int calls; if (calls++ > 3) __builtin_trap();" + honest),
               Reason::crash},
          Case{"scratch behind the output",
               kernel("if (n > 64) ((volatile float*)c)[n*n] = 1;" + honest), Reason::memory},
          Case{"remembers the pointers",
               kernel("static const float* last; static float* out; if (a == last && c == out && n "
                      "== 96) return; last = a; out = c;" +
                      honest),
               Reason::no_answer},
          Case{"asks the network later",
               kernel("static int calls; if (calls++ > 3) socket(2, 1, 0);" + honest,
                      "#include <sys/socket.h>"),
               Reason::policy}}) {
        const TimeOutcome outcome = timed(task, object_of(task, one.text), naive);
        EXPECT_FALSE(outcome.ok) << one.name;
        EXPECT_EQ(name_of(outcome.reason), name_of(one.reason))
            << one.name << ": " << outcome.message;
        EXPECT_NE(outcome.message.find("while timed"), std::string::npos) << outcome.message;
    }
}

TEST(TimeSession, EndsAHang) {
    NEEDS_MACHINE();
    Task task = matmul_task({17}, {64});
    task.limits.time_seconds = 2;
    const std::string naive = object_of(task, testing::naive_matmul);
    const std::string hangs = object_of(task,
                                        "extern \"C\" void kernel(int n, const float*, const "
                                        "float*, float*) { for (volatile int x = n;;) x = x; }\n");
    const auto start = std::chrono::steady_clock::now();
    const TimeOutcome outcome = timed(task, hangs, naive);
    EXPECT_EQ(outcome.reason, Reason::timeout) << outcome.message;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(6));
}

TEST(TimeSession, AFailingBaselineIsOurFault) {
    NEEDS_MACHINE();
    const Task task = matmul_task({17}, {64});
    const std::string naive = object_of(task, testing::naive_matmul);
    const std::string wrong =
        object_of(task, "extern \"C\" void kernel(int, const float*, const float*, float*) {}\n");
    const std::string reference = reference_of(task);
    const Result<TimeOutcome> outcome = run(
        time_session(machine, task, naive, wrong, std::nullopt, reference, TimingPlan{}, nullptr));
    ASSERT_FALSE(outcome);
    EXPECT_NE(to_text(outcome.error()).find("baseline"), std::string::npos);
}

TEST(TimeSession, AFailingParentOnlyCostsTheGain) {
    NEEDS_MACHINE();
    const Task task = matmul_task({17}, {64});
    TimingPlan plan;
    plan.launches = 2;
    plan.seconds_per_launch = 0.05;
    const std::string naive = object_of(task, testing::naive_matmul);
    const std::string wrong =
        object_of(task, "extern \"C\" void kernel(int, const float*, const float*, float*) {}\n");
    const TimeOutcome outcome = timed(task, naive, naive, wrong, plan);
    ASSERT_TRUE(outcome.ok) << outcome.message;
    EXPECT_FALSE(outcome.gain);
    ASSERT_EQ(outcome.findings.size(), 1U);
    EXPECT_EQ(outcome.findings[0].kind, "parent");
}

TEST(TimeSession, FasterThanTheRoofIsSuspect) {
    NEEDS_MACHINE();
    const Task task = matmul_task({17}, {64});
    TimingPlan plan;
    plan.launches = 2;
    plan.seconds_per_launch = 0.05;
    const std::string naive = object_of(task, testing::naive_matmul);
    Roof low;
    low.flops_per_second_f32 = 1e6;
    low.flops_per_second_f64 = 1e6;
    low.bytes_per_second_cache = low.bytes_per_second_memory = 1e12;
    const TimeOutcome outcome = timed(task, naive, naive, std::nullopt, plan, &low);
    ASSERT_TRUE(outcome.ok);
    ASSERT_EQ(outcome.findings.size(), 1U);
    EXPECT_EQ(outcome.findings[0].kind, "implausible_time");
    EXPECT_NE(outcome.findings[0].text.find("flops"), std::string::npos);
}

TEST(TimeSession, TinyKernelsAreTimedInBatches) {
    NEEDS_MACHINE();
    const Task task = matmul_task({5}, {8});
    TimingPlan plan;
    plan.launches = 2;
    plan.seconds_per_launch = 0.05;
    const std::string naive = object_of(task, testing::naive_matmul);
    const TimeOutcome outcome = timed(task, naive, naive, std::nullopt, plan);
    ASSERT_TRUE(outcome.ok) << outcome.message;
    EXPECT_LT(outcome.sizes[0].baseline_seconds, 20e-6)
        << "the cost of asking must not be counted as the kernel's";
}

// What a session costs: printed, for the record.
TEST(TimeSession, Cost) {
    NEEDS_MACHINE();
    const Task task = matmul_task({17}, {250});
    const std::string naive = object_of(task, testing::naive_matmul);
    const std::string fast = object_of(task, testing::fast_matmul);
    const TimeOutcome outcome = timed(task, fast, naive);
    ASSERT_TRUE(outcome.ok) << outcome.message;
    std::printf(
        "n=250: baseline %.2f ms, candidate %.2f ms, speedup %.2f [%.2f, %.2f], noise floor %.3f, "
        "%d launches x %d "
        "rounds, %.2f s\n",
        1e3 * outcome.sizes[0].baseline_seconds, 1e3 * outcome.sizes[0].candidate_seconds,
        outcome.speedup.estimate, outcome.speedup.low, outcome.speedup.high, outcome.noise_floor,
        outcome.launches, outcome.pairs, outcome.seconds);
}

}  // namespace
}  // namespace loopscope
