// Models that talk to no server: a user's program and a recorded journal.
#include "core/log.h"
#include "llm/http.h"
#include "llm/model.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

// NOLINTBEGIN(cppcoreguidelines-avoid-capturing-lambda-coroutines,bugprone-unchecked-optional-access,concurrency-mt-unsafe):
// a test's lambdas outlive the loop they run in, it is the only thread that changes its
// environment, and a missing value fails it.
namespace loopscope {
namespace {

class Programs : public ::testing::Test {
protected:
    void SetUp() override {
        folder_ = ::testing::TempDir() + "loopscope-programs-test";
        std::filesystem::create_directories(folder_);
        services_.loop = loop_.get_executor();
        services_.clock = &clock_;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::string script(const std::string& text) {
        const std::string path = folder_ + "/agent.sh";
        std::ofstream(path) << "#!/bin/sh\n" << text;
        ::chmod(path.c_str(), 0755);
        return path;
    }
    std::unique_ptr<Model> open(const std::string& specification) {
        Result<std::unique_ptr<Model>> model = open_model(specification, services_);
        EXPECT_TRUE(model) << (model ? "" : to_text(model.error()));
        return model ? std::move(*model) : nullptr;
    }
    std::string problem(const std::string& specification) {
        const Result<std::unique_ptr<Model>> model = open_model(specification, services_);
        return model ? "" : to_text(model.error());
    }
    ModelOutcome ask(Model& model, ModelRequest wanted) {
        std::optional<ModelOutcome> out;
        std::exception_ptr thrown;
        auto work = [&]() -> awaitable<void> { out = co_await model.complete(std::move(wanted)); };
        asio::co_spawn(loop_, work(), [&](std::exception_ptr what) { thrown = std::move(what); });
        loop_.restart();
        loop_.run();
        if (thrown)
            std::rethrow_exception(thrown);
        return std::move(*out);
    }
    static ModelRequest request() {
        ModelRequest out;
        out.role = Role::planner;
        out.messages = {{"user", "how?"}};
        out.draw = "4/5/6";
        out.position = "here";
        out.key = "abcdef0123456789";
        return out;
    }

    std::string folder_;
    asio::io_context loop_;
    RealClock clock_;
    ModelServices services_;
};

TEST_F(Programs, ACommandReadsTheRequestAndPrintsTheAnswer) {
    const auto model =
        open("command:" + script("printf '%s,%s,' \"$1\" \"$2\"; cat\n") + " one 'two, three'");
    const ModelOutcome outcome = ask(*model, request());
    ASSERT_TRUE(outcome) << outcome.error().message;
    ASSERT_EQ(outcome->text.rfind("one,two, three,", 0), 0U) << outcome->text;
    const auto seen = nlohmann::json::parse(outcome->text.substr(15));
    EXPECT_EQ(seen["role"], "planner");
    EXPECT_EQ(seen["messages"][0]["content"], "how?");
    EXPECT_EQ(seen["draw"], "4/5/6");
    EXPECT_FALSE(outcome->cost);
}

TEST_F(Programs, ACommandMayAnswerInJson) {
    const auto model =
        open("command:" + script("cat >/dev/null; echo '{\"text\":\"x\",\"cost\":0.25}'\n") +
             ",as=my-agent");
    EXPECT_EQ(model->id(), "my-agent");
    const ModelOutcome outcome = ask(*model, request());
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->text, "x");
    EXPECT_EQ(outcome->cost, 0.25);
}

TEST_F(Programs, ACommandSeesNoKeysUnlessNamed) {
    ::setenv("LOOPSCOPE_TEST_API_KEY", "sk-hidden-000000", 1);
    ::setenv("LOOPSCOPE_TEST_PLAIN", "visible", 1);
    ::setenv("LOOPSCOPE_TEST_ALIAS", "sk-alias-111111", 1);
    redact("sk-alias-111111");
    const std::string program = script("cat >/dev/null; env\n");
    const ModelOutcome hidden = ask(*open("command:" + program), request());
    ASSERT_TRUE(hidden) << hidden.error().message;
    EXPECT_EQ(hidden->text.find("sk-hidden"), std::string::npos);
    EXPECT_EQ(hidden->text.find("sk-alias"), std::string::npos);
    EXPECT_NE(hidden->text.find("LOOPSCOPE_TEST_PLAIN=visible"), std::string::npos);
    EXPECT_NE(hidden->text.find("PATH="), std::string::npos);
    const ModelOutcome named =
        ask(*open("command:" + program + ",env=LOOPSCOPE_TEST_API_KEY+LOOPSCOPE_TEST_ALIAS"),
            request());
    EXPECT_NE(named->text.find("sk-hidden"), std::string::npos);
    EXPECT_NE(named->text.find("sk-alias"), std::string::npos);
    EXPECT_NE(problem("command:x,env=LOOPSCOPE_NO_SUCH").find("LOOPSCOPE_NO_SUCH"),
              std::string::npos);
}

TEST_F(Programs, ACommandThatFailsIsAnErrorWithItsWords) {
    const ModelOutcome failed = ask(
        *open("command:" + script("cat >/dev/null; echo out of luck >&2; exit 3\n")), request());
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().fault, ModelFault::server);
    EXPECT_NE(failed.error().message.find("out of luck"), std::string::npos)
        << failed.error().message;
    const ModelOutcome silent = ask(*open("command:" + script("cat >/dev/null\n")), request());
    ASSERT_FALSE(silent);
    EXPECT_EQ(silent.error().fault, ModelFault::answer);
    const ModelOutcome slow =
        ask(*open("command:" + script("sleep 30\n") + ",timeout=0.2"), request());
    ASSERT_FALSE(slow);
    EXPECT_NE(slow.error().message.find("timeout="), std::string::npos) << slow.error().message;
    const ModelOutcome missing = ask(*open("command:/nonexistent/agent"), request());
    ASSERT_FALSE(missing);
    EXPECT_TRUE(missing.error().fatal);
}

TEST_F(Programs, ACommandIsRunAgainOnlyOnRequest) {
    const std::string program =
        script("cat >/dev/null; if [ -e " + folder_ + "/ran ]; then echo fine; else touch " +
               folder_ + "/ran; exit 1; fi\n");
    ASSERT_FALSE(ask(*open("command:" + program), request()));
    std::filesystem::remove(folder_ + "/ran");
    const ModelOutcome again = ask(*open("command:" + program + ",attempts=2"), request());
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->text, "fine");
    EXPECT_EQ(again->attempts, 2);
}

TEST_F(Programs, ReplayAnswersUnderTheRecordedId) {
    std::vector<std::string> looked_up;
    services_.replay = [&](const std::string& file, const ModelRequest& wanted, bool by_position,
                           std::string* warning) -> std::optional<ModelReply> {
        looked_up.push_back(file +
                            (by_position ? " position " + wanted.position : " key " + wanted.key));
        if (wanted.key == "missing")
            return std::nullopt;
        ModelReply reply;
        reply.text = "recorded";
        reply.cost = 3.0;
        reply.usage.input_tokens = 5;
        if (by_position)
            *warning = "the prompt differs from the recorded one";
        return reply;
    };
    services_.recorded_models = [](const std::string& file) -> Result<std::vector<std::string>> {
        if (file == "two.db")
            return std::vector<std::string>{"openai:a", "openai:b"};
        return std::vector<std::string>{"builtin:rules"};
    };
    const auto by_key = open("replay:study.db");
    EXPECT_EQ(by_key->id(), "builtin:rules");
    EXPECT_TRUE(by_key->builtin());
    EXPECT_EQ(by_key->price(10, 10), 0.0);
    const ModelOutcome exact = ask(*by_key, request());
    ASSERT_TRUE(exact);
    EXPECT_EQ(exact->text, "recorded");
    EXPECT_EQ(exact->cost, 0.0);
    EXPECT_EQ(exact->usage.input_tokens, 5);
    EXPECT_TRUE(exact->warnings.empty());
    const auto by_position = open("replay:'study.db',by=position,as=openai:gpt,temperature=0.5");
    EXPECT_EQ(by_position->id(), "openai:gpt");
    EXPECT_EQ(by_position->sampling().temperature, 0.5);
    EXPECT_EQ(ask(*by_position, request())->warnings.size(), 1U);
    EXPECT_EQ(looked_up, (std::vector<std::string>{"study.db key abcdef0123456789",
                                                   "study.db position here"}));
    ModelRequest other = request();
    other.key = "missing";
    const ModelOutcome missing = ask(*by_key, other);
    ASSERT_FALSE(missing);
    EXPECT_NE(missing.error().message.find("by=position"), std::string::npos);
    EXPECT_NE(problem("replay:two.db").find("openai:a, openai:b"), std::string::npos);
    EXPECT_NE(problem("replay:x.db,by=luck").find("by=luck"), std::string::npos);
    services_.recorded_models = nullptr;
    EXPECT_NE(problem("replay:x.db").find("as=MODEL_ID"), std::string::npos);
    services_.replay = nullptr;
    EXPECT_NE(problem("replay:x.db,as=m"), "");
}

}  // namespace
}  // namespace loopscope
// NOLINTEND(cppcoreguidelines-avoid-capturing-lambda-coroutines,bugprone-unchecked-optional-access,concurrency-mt-unsafe)
