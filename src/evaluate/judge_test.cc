// Every row of the verdict table, and every combination of stages against a second statement of the
// rules.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "evaluate/kernel.h"

namespace loopscope {
namespace {

constexpr Reason all_reasons[] = {Reason::ok,
                                  Reason::edit,
                                  Reason::build_error,
                                  Reason::link_error,
                                  Reason::policy,
                                  Reason::wrong_output,
                                  Reason::no_answer,
                                  Reason::crash,
                                  Reason::timeout,
                                  Reason::resource,
                                  Reason::memory,
                                  Reason::not_faster,
                                  Reason::no_difference_shown,
                                  Reason::implausible,
                                  Reason::infrastructure};

Task task_with(double tolerance) {
    Task task;
    task.kernel.emplace();
    task.kernel->fast_tolerance = tolerance;
    return task;
}

BuildOutcome built(bool ok, Reason reason = Reason::ok) {
    BuildOutcome outcome;
    outcome.ok = ok;
    outcome.reason = reason;
    outcome.log = "log";
    return outcome;
}

VerifyOutcome verified(bool ok, Reason reason = Reason::ok) {
    VerifyOutcome outcome;
    outcome.ok = ok;
    outcome.reason = reason;
    outcome.message = "message";
    outcome.cases.push_back({"n=1", "uniform", ok, 0.5, ""});
    return outcome;
}

TimeOutcome timed(double low, double high, Reason reason = Reason::ok) {
    TimeOutcome outcome;
    outcome.ok = reason == Reason::ok;
    outcome.reason = reason;
    outcome.message = "session";
    outcome.speedup = {std::sqrt(low * high), low, high, 5, 0.95};
    return outcome;
}

TEST(Judge, RefusedEditsComeFirst) {
    const Evaluation evaluation =
        judge(task_with(0.12), "changed signature", built(true), verified(true), {timed(2, 3)});
    EXPECT_EQ(evaluation.status, Status::fail);
    EXPECT_EQ(evaluation.reason, Reason::edit);
    EXPECT_EQ(evaluation.message, "changed signature");
    EXPECT_FALSE(evaluation.speedup);
}

TEST(Judge, FailedStagesKeepTheirReason) {
    const Task task = task_with(0.12);
    for (const Reason reason : all_reasons) {
        const bool ours = reason == Reason::infrastructure || reason == Reason::ok;
        const Evaluation build_failed = judge(task, "", built(false, reason), std::nullopt, {});
        EXPECT_EQ(build_failed.status, ours ? std::nullopt : std::optional(Status::fail));
        EXPECT_EQ(build_failed.reason, ours ? Reason::infrastructure : reason);
        const Evaluation verify_failed = judge(task, "", built(true), verified(false, reason), {});
        EXPECT_EQ(verify_failed.status, ours ? std::nullopt : std::optional(Status::compile));
        EXPECT_EQ(verify_failed.reason, ours ? Reason::infrastructure : reason);
        EXPECT_EQ(verify_failed.cases.size(), 1U);
        for (const bool second : {false, true}) {
            std::vector<TimeOutcome> sessions;
            if (second)
                sessions.push_back(timed(2, 3));
            TimeOutcome failed = timed(2, 3, reason);
            failed.ok = false;
            sessions.push_back(failed);
            const Evaluation time_failed = judge(task, "", built(true), verified(true), sessions);
            EXPECT_EQ(time_failed.status, ours ? std::nullopt : std::optional(Status::compile));
            EXPECT_EQ(time_failed.reason, ours ? Reason::infrastructure : reason);
            EXPECT_FALSE(time_failed.speedup);
        }
    }
}

TEST(Judge, AMissingStageIsOurFault) {
    const Task task = task_with(0.12);
    for (const Evaluation& evaluation : {judge(task, "", std::nullopt, std::nullopt, {}),
                                         judge(task, "", built(true), std::nullopt, {}),
                                         judge(task, "", built(true), verified(true), {})}) {
        EXPECT_FALSE(evaluation.status);
        EXPECT_EQ(evaluation.reason, Reason::infrastructure);
    }
}

// All pairs of sessions whose bounds lie below, at and above the mark.
TEST(Judge, FastNeedsBothSessions) {
    for (const double tolerance : {0.0, 0.12, 1.0}) {
        const Task task = task_with(tolerance);
        const double mark = 1 + tolerance;
        const double places[] = {0.3 * mark, std::nextafter(mark, 0), mark, std::nextafter(mark, 9),
                                 3 * mark};
        std::vector<TimeOutcome> possible;
        for (const double low : places)
            for (const double high : places)
                if (low <= high)
                    possible.push_back(timed(low, high));
        for (TimeOutcome& one :
             possible)  // rounding of the square root must not leave the interval
            one.speedup.estimate =
                std::clamp(one.speedup.estimate, one.speedup.low, one.speedup.high);
        for (const TimeOutcome& first : possible) {
            EXPECT_EQ(wants_confirmation(task, first), first.speedup.low > mark);
            const Evaluation alone = judge(task, "", built(true), verified(true), {first});
            EXPECT_EQ(alone.status, Status::pass);
            EXPECT_EQ(alone.reason, first.speedup.high <= mark ? Reason::not_faster
                                                               : Reason::no_difference_shown);
            for (const TimeOutcome& second : possible) {
                const Evaluation both =
                    judge(task, "", built(true), verified(true), {first, second});
                const bool fast = first.speedup.low > mark && second.speedup.low > mark;
                EXPECT_EQ(both.status, fast ? Status::fast : Status::pass);
                EXPECT_EQ(both.reason, fast                          ? Reason::ok
                                       : second.speedup.high <= mark ? Reason::not_faster
                                                                     : Reason::no_difference_shown);
                ASSERT_TRUE(both.speedup);
                EXPECT_EQ(both.speedup.value().low, second.speedup.low)
                    << "the last session is the published one";
                EXPECT_EQ(both.sessions.size(), 2U);
            }
        }
    }
}

TEST(Judge, ImplausibleIsNeverFast) {
    const Task task = task_with(0.12);
    for (const int suspicious : {0, 1}) {
        std::vector<TimeOutcome> sessions = {timed(50, 60), timed(50, 60)};
        sessions[static_cast<std::size_t>(suspicious)].findings.push_back(
            {"implausible_time", "too good"});
        const Evaluation evaluation = judge(task, "", built(true), verified(true), sessions);
        EXPECT_EQ(evaluation.status, Status::pass);
        EXPECT_EQ(evaluation.reason, Reason::implausible);
        EXPECT_EQ(evaluation.findings.size(), 1U);
        EXPECT_FALSE(evaluation.improves);
        EXPECT_EQ(wants_confirmation(task, sessions[0]), suspicious == 1);
    }
    std::vector<TimeOutcome> sessions = {timed(2, 3), timed(2, 3)};
    sessions[0].findings.push_back({"cpu_time", "more cores"});
    const Evaluation other = judge(task, "", built(true), verified(true), sessions);
    EXPECT_EQ(other.status, Status::fast) << "other findings stand beside the status";
    EXPECT_EQ(other.findings.size(), 1U);
}

TEST(Judge, GainAndImproves) {
    const Task task = task_with(0.12);
    TimeOutcome session = timed(0.9, 1.0);
    EXPECT_FALSE(judge(task, "", built(true), verified(true), {session}).gain);
    session.gain = Ratio{1.3, 1.13, 1.5, 5, 0.95};
    const Evaluation better = judge(task, "", built(true), verified(true), {session});
    EXPECT_TRUE(better.improves);
    ASSERT_TRUE(better.gain);
    session.gain = Ratio{1.3, 1.12, 1.5, 5, 0.95};
    EXPECT_FALSE(judge(task, "", built(true), verified(true), {session}).improves)
        << "the bound must exceed the tolerance";
}

TEST(Judge, NonsenseIntervalsAreOurFault) {
    const Task task = task_with(0.12);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double infinity = std::numeric_limits<double>::infinity();
    for (const auto& [low, high] :
         {std::pair(nan, 2.0), std::pair(1.5, nan), std::pair(1.5, infinity), std::pair(0.0, 2.0),
          std::pair(-1.0, 2.0), std::pair(3.0, 2.0)}) {
        TimeOutcome session = timed(1, 2);
        session.speedup.low = low;
        session.speedup.high = high;
        const Evaluation evaluation =
            judge(task, "", built(true), verified(true), {session, session});
        EXPECT_FALSE(evaluation.status) << low << " " << high;
        EXPECT_FALSE(wants_confirmation(task, session) && !std::isfinite(low));
    }
}

TEST(Judge, SaysWhereAndHowItWasReached) {
    Task task = task_with(0.2);
    task.kernel.value().device = "pocl";
    const Evaluation evaluation =
        judge(task, "", built(true), verified(true), {timed(2, 3), timed(2, 3)});
    EXPECT_EQ(evaluation.device, "pocl");
    EXPECT_EQ(evaluation.trust, "isolated");
    EXPECT_EQ(evaluation.tolerance, 0.2);
    EXPECT_EQ(evaluation.build_log, "log");
    EXPECT_NE(evaluation.message.find("2.45 [2, 3]"), std::string::npos) << evaluation.message;
}

}  // namespace
}  // namespace loopscope
