// The collection of cheating candidates (../shared/hacks beside the checkout, or LOOPSCOPE_HACKS):
// each C++ file's first line says which answers a sound evaluator may give. Skipped where the
// collection is absent.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "core/file.h"
#include "core/text.h"
#include "evaluate/kernel.h"
#include "evaluate/matmul_task.h"
#include "evaluate/with_machine.h"

namespace loopscope {
namespace {

using testing::bench;
using testing::program_of;
using testing::run;

std::filesystem::path collection() {
    if (const char* named =
            std::getenv("LOOPSCOPE_HACKS"))  // NOLINT(concurrency-mt-unsafe): nobody sets it here
        return named;
    return std::filesystem::path(__FILE__).parent_path() / "../../../shared/hacks";
}

std::set<std::string> allowed(const std::string& text) {
    std::set<std::string> answers;
    const std::string line = text.substr(0, text.find('\n'));
    std::size_t at = line.find("EXPECT: ") + 8;
    const std::size_t end = line.find(" - ", at);
    while (at < end) {
        const std::size_t next = std::min(line.find("-OR-", at), end);
        answers.insert(line.substr(at, next - at));
        at = next + 4;
    }
    return answers;
}

struct Trusted {
    std::string reference, baseline;
};

// Both sessions, as the engine would run them.
Evaluation evaluated(const Task& task, const std::string& text, const Trusted& trusted) {
    Machine& machine = *bench().machine;
    Result<BuildOutcome> built = run(build(machine, task, program_of(text), BuildKind::timed));
    if (!built) {
        ADD_FAILURE() << to_text(built.error());
        return {};
    }
    std::optional<VerifyOutcome> verified;
    std::vector<TimeOutcome> sessions;
    if (built->ok) {
        Result<VerifyOutcome> outcome =
            run(verify(machine, task, built->object, trusted.reference));
        if (!outcome) {
            ADD_FAILURE() << to_text(outcome.error());
            return {};
        }
        verified = std::move(*outcome);
    }
    for (int session = 0; verified && verified->ok && session < 2; ++session) {
        TimingPlan plan;
        plan.session = session;
        plan.launches = 4;
        plan.seconds_per_launch = 0.1;
        Result<TimeOutcome> outcome =
            run(time_session(machine, task, built->object, trusted.baseline, std::nullopt,
                             trusted.reference, plan, nullptr));
        if (!outcome) {
            ADD_FAILURE() << to_text(outcome.error());
            return {};
        }
        sessions.push_back(std::move(*outcome));
        if (!wants_confirmation(task, sessions.back()))
            break;
    }
    return judge(task, "", *built, verified, sessions);
}

// Whether `evaluation` is one of the answers, in the collection's words.
bool is_right(const std::set<std::string>& answers, const Evaluation& evaluation) {
    const auto may = [&](const char* answer) { return answers.contains(answer); };
    if (!evaluation.status)
        return false;
    switch (*evaluation.status) {
        case Status::fail:
            return may("COMPILE-REJECT") ||
                   (may("LINK-REJECT") && evaluation.reason == Reason::link_error);
        case Status::compile:
            switch (evaluation.reason) {
                case Reason::wrong_output:
                    return may("WRONG");
                case Reason::no_answer:  // nothing written, or the process left without an answer
                    return may("WRONG") || may("REJECT");
                case Reason::crash:
                    return may("CRASH") || may("REJECT");
                case Reason::memory:
                    return may("MEMORY");
                case Reason::timeout:
                    return may("TIMEOUT");
                case Reason::resource:
                    return may("RESOURCE");
                case Reason::policy:
                    return may("POLICY") || may("BY-POLICY");
                default:
                    return false;
            }
        case Status::pass:
        case Status::fast:
            if (may("NOT_FASTER"))
                return *evaluation.status == Status::pass;
            return may("ACCEPT") || may("NO_LEAK") || may("BY-POLICY") || may("BY-SPEC") ||
                   may("BY-NUMERICS");
    }
    return false;
}

TEST(Hacks, AreJudgedAsTheySay) {
    NEEDS_MACHINE();
    if (!std::filesystem::exists(collection() / "README.md"))
        GTEST_SKIP() << "no collection at " << collection();
    Task task = testing::matmul_task({1, 2, 16, 17, 33, 64, 100}, {160});
    task.build.flags.emplace_back("-std=c++20");
    task.limits.verify_seconds = 2;
    task.limits.build_seconds = 20;
    task.limits.memory_mb = 512;
    Trusted trusted;
    Result<BuildOutcome> reference = run(build_reference(machine, task));
    Result<BuildOutcome> baseline =
        run(build(machine, task, program_of(testing::naive_matmul), BuildKind::timed));
    ASSERT_TRUE(reference && reference->ok && baseline && baseline->ok);
    trusted.reference = std::move(reference->object);
    trusted.baseline = std::move(baseline->object);
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(collection()))
        if (entry.path().extension() == ".cpp")
            files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const std::filesystem::path& file : files) {
        const std::string name = file.stem().string();
        const Result<std::string> text = read_file(file);
        ASSERT_TRUE(text) << name;
        if (const char* only = std::getenv("LOOPSCOPE_HACK"))  // NOLINT(concurrency-mt-unsafe)
            if (name.find(only) == std::string::npos)
                continue;
        const Evaluation evaluation = evaluated(task, *text, trusted);
        const std::string verdict = evaluation.status
                                        ? std::string(name_of(*evaluation.status)) + "/" +
                                              std::string(name_of(evaluation.reason))
                                        : "none";
        std::printf("%-28s %-26s %s\n", name.c_str(), verdict.c_str(),
                    shorten(evaluation.message, 100).substr(0, 100).c_str());
        // Two threads that add without synchronisation are right by luck, here nearly always: they
        // sweep one after the other. docs/evaluation.md says that such a race is not promised to be
        // found.
        if (name == "43_racy_threads")
            continue;
        // This task's bound is element by element, which one level of Strassen's algorithm misses;
        // a task that wants to let it in says scale = "max".
        if (name == "03_gray_strassen") {
            EXPECT_EQ(evaluation.reason, Reason::wrong_output) << verdict;
            continue;
        }
        EXPECT_TRUE(is_right(allowed(*text), evaluation))
            << name << ": " << verdict << ": " << evaluation.message;
    }
}

}  // namespace
}  // namespace loopscope
