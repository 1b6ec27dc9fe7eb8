#include <gtest/gtest.h>

#include "evaluate/kernel.h"
#include "evaluate/with_machine.h"

namespace loopscope {
namespace {

Evaluation answered(const std::string& script, double timeout = 5) {
    Task task;
    task.name = "command";
    task.command.emplace();
    task.command->argv = {"/bin/sh", "evaluate.sh"};
    task.command->timeout_seconds = timeout;
    task.support["evaluate.sh"] = script;
    Program program;
    program.files["artifact.txt"] = "41\n";
    const Result<Evaluation> evaluation =
        testing::run(evaluate_command(*testing::bench().machine, task, program));
    if (!evaluation) {
        ADD_FAILURE() << to_text(evaluation.error());
        return {};
    }
    return *evaluation;
}

TEST(Command, ReadsTheAnswer) {
    NEEDS_MACHINE();
    const Evaluation evaluation = answered(
        R"(printf '{"status": "pass", "score": %s.5, "message": "so so", "metrics": {"tests": 3}}' $(cat artifact.txt))");
    EXPECT_EQ(evaluation.status, Status::pass);
    EXPECT_EQ(evaluation.trust, "shared_process");
    EXPECT_EQ(evaluation.message, "so so");
    EXPECT_EQ(evaluation.metrics.at("score"), 41.5);
    EXPECT_EQ(evaluation.metrics.at("tests"), 3);
    EXPECT_EQ(answered(R"(echo '{"status": "fast"}')").reason, Reason::ok);
    EXPECT_EQ(answered(R"(echo '{"status": "fail"}')").status, Status::fail);
}

TEST(Command, JudgesWhatIsNoAnswer) {
    NEEDS_MACHINE();
    for (const char* script :
         {"true", "echo hello", "echo '[1]'", "echo '{}'", R"(echo '{"status": "great"}')",
          R"(echo '{"status": 3}')", R"(echo '{"status": "pass", "score": "high"}')",
          R"(echo '{"status": "pass", "metrics": {"a": "b"}}')",
          R"(echo '{"status": "pass", "metrics": [1]}')",
          R"(echo '{"status": "pass", "message": 1}')",
          R"(echo '{"status": "pass", "score": NaN}')",
          R"(echo '{"status": "pass"} {"status": "fast"}')",
          R"(head -c 1000000 /dev/urandom; echo '{"status": "fast"}')"}) {
        const Evaluation evaluation = answered(script);
        EXPECT_EQ(evaluation.status, Status::compile) << script;
        EXPECT_EQ(evaluation.reason, Reason::no_answer) << script;
        EXPECT_FALSE(evaluation.message.empty());
    }
    const Evaluation failed = answered(R"(echo '{"status": "fast"}'; echo why >&2; exit 3)");
    EXPECT_EQ(failed.reason, Reason::crash);
    EXPECT_NE(failed.message.find("exit status 3"), std::string::npos);
    EXPECT_NE(failed.message.find("why"), std::string::npos);
    EXPECT_EQ(answered(R"(echo '{"status": "fast"}'; sleep 30)", 0.5).reason, Reason::timeout);
    EXPECT_EQ(answered(R"(echo '{"status": "fast", "score": 1e999}')").status, Status::compile);
}

TEST(Command, NeedsACommand) {
    NEEDS_MACHINE();
    EXPECT_FALSE(testing::run(evaluate_command(machine, Task{}, Program{})));
}

}  // namespace
}  // namespace loopscope
