// Every way in which a provider was seen to fail, from a scripted server on loopback: each must end
// in the right retry, error or warning, and no answer may be lost.
#include "core/log.h"
#include "llm/http.h"
#include "llm/model.h"
#include "llm/same_answers.h"

#include "../../tests/fakes/model_server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <optional>

// NOLINTBEGIN(cppcoreguidelines-avoid-capturing-lambda-coroutines,bugprone-unchecked-optional-access,concurrency-mt-unsafe,bugprone-suspicious-missing-comma):
// a test's lambdas outlive the loop they run in, it is the only thread that changes its
// environment, a missing value fails it, and events are written over several lines.
namespace loopscope {
namespace {

using fakes::ModelCall;
using fakes::ModelServer;
using fakes::Script;
using std::chrono::milliseconds;

constexpr const char* secret = "sk-test-0123456789abcdefghijklmnop";

// Time that passes at once: what was asked for is written down.
class SkippingClock : public Clock {
public:
    awaitable<void> sleep(Duration duration) override {
        sleeps.push_back(std::chrono::duration<double>(duration).count());
        offset_ += duration;
        co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
    }
    Duration now() override {
        return std::chrono::steady_clock::now().time_since_epoch() + offset_;
    }
    std::int64_t unix_milliseconds() override {
        return 784111777000;
    }  // Sun, 06 Nov 1994 08:49:37 GMT
    std::vector<double> sleeps;

private:
    Duration offset_{0};
};

class Server : public ::testing::Test {
protected:
    void SetUp() override {
        ::setenv("LOOPSCOPE_TEST_KEY", secret, 1);
        set_log_level(LogLevel::error);
        services_.loop = loop_.get_executor();
        services_.clock = &clock_;
        services_.http = &http_;
    }
    void TearDown() override { set_log_level(LogLevel::info); }

    std::unique_ptr<Model> open(const std::string& specification) {
        Result<std::unique_ptr<Model>> model = open_model(specification, services_);
        EXPECT_TRUE(model) << (model ? "" : to_text(model.error()));
        return model ? std::move(*model) : nullptr;
    }
    std::string problem(const std::string& specification) {
        const Result<std::unique_ptr<Model>> model = open_model(specification, services_);
        return model ? "" : to_text(model.error());
    }
    std::unique_ptr<Model> chat(const ModelServer& server, const std::string& options = "") {
        return open("openai:scripted,key=LOOPSCOPE_TEST_KEY,base=" + server.url() + "/v1" +
                    options);
    }

    static ModelRequest request(const std::string& text = "hello") {
        ModelRequest out;
        out.messages = {{"system", "be brief"}, {"user", text}};
        out.draw = "0/0/0";
        return out;
    }
    ModelOutcome ask(Model& model, ModelRequest wanted = request()) {
        std::optional<ModelOutcome> out;
        auto work = [&]() -> awaitable<void> { out = co_await model.complete(std::move(wanted)); };
        run(work());
        if (!*out) {
            EXPECT_EQ(out->error().message.find(secret), std::string::npos) << "a key in an error";
            EXPECT_FALSE(out->error().message.empty());
        }
        return std::move(*out);
    }
    void run(awaitable<void> work) {
        std::exception_ptr thrown;
        asio::co_spawn(loop_, std::move(work),
                       [&](std::exception_ptr what) { thrown = std::move(what); });
        loop_.restart();
        loop_.run();
        if (thrown)
            std::rethrow_exception(thrown);
    }

    asio::io_context loop_;
    SkippingClock clock_;
    HttpClient http_;
    ModelServices services_;
};

// Answers with the scripts in turn, the last one for ever.
ModelServer::Answerer in_turn(std::vector<Script> scripts) {
    return [scripts = std::move(scripts)](const ModelCall& call) {
        return scripts[std::min(static_cast<std::size_t>(call.number), scripts.size() - 1)];
    };
}

const Script good = fakes::stream(fakes::chat_events("int answer = 42;"));

TEST_F(Server, AStreamedAnswer) {
    ModelServer server(in_turn({good}));
    const auto model = chat(server, ",temperature=0.5,max_tokens=77,seed=9");
    ModelRequest wanted = request();
    wanted.sampling = model->sampling();
    const ModelOutcome outcome = ask(*model, wanted);
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->text, "int answer = 42;");
    EXPECT_EQ(outcome->usage.input_tokens, 11);
    EXPECT_EQ(outcome->usage.output_tokens, 7);
    EXPECT_FALSE(outcome->cost) << "a local server has no known price";
    EXPECT_EQ(outcome->attempts, 1);
    EXPECT_GT(outcome->latency_seconds, 0);
    EXPECT_EQ(outcome->reported_model, "scripted-1");
    EXPECT_TRUE(outcome->warnings.empty());
    EXPECT_EQ(model->id(), "openai:scripted");
    EXPECT_FALSE(model->builtin());
    const ModelCall call = server.calls().at(0);
    EXPECT_EQ(call.path, "/v1/chat/completions");
    EXPECT_NE(call.headers.find(std::string("Authorization: Bearer ") + secret), std::string::npos);
    EXPECT_EQ(call.body["model"], "scripted");
    EXPECT_EQ(call.body["temperature"], 0.5);
    EXPECT_EQ(call.body["max_tokens"], 77);
    EXPECT_EQ(call.body["stream"], true);
    EXPECT_TRUE(call.body.contains("seed"));
}

TEST_F(Server, APlainAnswerAndAPrice) {
    ModelServer server(in_turn({fakes::whole(200, fakes::chat_body("plain"))}));
    const auto model = chat(server, ",stream=off,price_in=2,price_out=10,as=openai:other");
    const ModelOutcome outcome = ask(*model);
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->text, "plain");
    EXPECT_NEAR(outcome->cost.value(), (11 * 2 + 7 * 10) / 1e6, 1e-12);
    EXPECT_NEAR(model->price(1000, 100).value(), (1000 * 2 + 100 * 10) / 1e6, 1e-12);
    EXPECT_EQ(model->id(), "openai:other");
    EXPECT_FALSE(server.calls().at(0).body.contains("stream"));
}

TEST_F(Server, AStreamWasAskedForAndAPlainAnswerCame) {
    ModelServer server(in_turn({fakes::whole(200, fakes::chat_body("plain"))}));
    EXPECT_EQ(ask(*chat(server))->text, "plain");
    std::string all;
    for (const std::string& event : fakes::chat_events("mislabelled"))
        all += event;
    ModelServer other(in_turn({fakes::whole(200, all, "", "text/plain")}));
    EXPECT_EQ(ask(*chat(other))->text, "mislabelled");
}

TEST_F(Server, RateLimitsAreWaitedOutAsTheServerSays) {
    ModelServer server(
        in_turn({fakes::whole(429, R"({"error":{"message":"slow down"}})", "Retry-After: 7\r\n"),
                 fakes::whole(429, "{}", "Retry-After: Sun, 06 Nov 1994 08:49:57 GMT\r\n"),
                 fakes::whole(429, "{}", "retry-after-ms: 1500\r\nRetry-After: 2\r\n"), good}));
    const ModelOutcome outcome = ask(*chat(server));
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->attempts, 4);
    ASSERT_EQ(clock_.sleeps.size(), 3U);
    EXPECT_NEAR(clock_.sleeps[0], 7, 0.01);
    EXPECT_NEAR(clock_.sleeps[1], 20, 0.01);
    EXPECT_NEAR(clock_.sleeps[2], 1.5, 0.01);
}

TEST_F(Server, MoreWaitingThanAllowedIsAnErrorAtOnce) {
    ModelServer server(in_turn({fakes::whole(429, "{}", "Retry-After: 3600\r\n")}));
    const ModelOutcome outcome = ask(*chat(server));
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().fault, ModelFault::quota);
    EXPECT_FALSE(outcome.error().fatal);
    EXPECT_EQ(server.calls().size(), 1U);
    EXPECT_NE(outcome.error().message.find("3600 s"), std::string::npos) << outcome.error().message;
    EXPECT_NE(outcome.error().message.find("wait=300"), std::string::npos);
}

TEST_F(Server, AnExhaustedQuotaIsNotAskedAgain) {
    ModelServer server(in_turn({fakes::whole(
        429, R"({"error":{"message":"You exceeded your quota","code":"insufficient_quota"}})")}));
    const ModelOutcome outcome = ask(*chat(server));
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().fault, ModelFault::quota);
    EXPECT_TRUE(outcome.error().fatal);
    EXPECT_EQ(server.calls().size(), 1U);
}

TEST_F(Server, FaultsOfTheServerAreAskedAgain) {
    ModelServer server(
        in_turn({fakes::whole(500, R"({"error":{"message":"oops"}})"),
                 fakes::whole(529, R"({"type":"error","error":{"type":"overloaded_error"}})"),
                 fakes::whole(503, "<html>busy</html>", "", "text/html"), good}));
    const ModelOutcome outcome = ask(*chat(server));
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->attempts, 4);
    ASSERT_EQ(clock_.sleeps.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_GE(clock_.sleeps[i], 0.5 * static_cast<double>(1U << i));
        EXPECT_LE(clock_.sleeps[i], static_cast<double>(1U << i));
    }
}

TEST_F(Server, AttemptsAreBounded) {
    ModelServer server(
        in_turn({fakes::whole(500, R"({"error":{"message":"oops"}})", "X-Request-Id: r-77\r\n")}));
    const ModelOutcome outcome = ask(*chat(server, ",attempts=3"));
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().fault, ModelFault::server);
    EXPECT_EQ(outcome.error().attempts, 3);
    EXPECT_EQ(outcome.error().http_status, 500);
    EXPECT_EQ(server.calls().size(), 3U);
    for (const char* part : {"oops", "r-77", "/v1/chat/completions", "3 attempts", "HTTP 500"})
        EXPECT_NE(outcome.error().message.find(part), std::string::npos) << outcome.error().message;
}

TEST_F(Server, ACutStreamIsNoAnswer) {
    std::vector<std::string> half = fakes::chat_events("int answer = 42;");
    half.resize(half.size() - 4);
    for (const bool clean : {false, true}) {
        Script cut = fakes::stream(half, clean);
        cut.close = true;
        ModelServer server(in_turn({cut, good}));
        const ModelOutcome outcome = ask(*chat(server));
        ASSERT_TRUE(outcome) << outcome.error().message;
        EXPECT_EQ(outcome->text, "int answer = 42;");
        EXPECT_EQ(outcome->attempts, 2);
    }
    ModelServer always(in_turn({fakes::stream(half, true)}));
    const ModelOutcome never = ask(*chat(always, ",attempts=2"));
    ASSERT_FALSE(never);
    EXPECT_EQ(never.error().fault, ModelFault::answer);
    EXPECT_NE(never.error().message.find("cut before its end"), std::string::npos);
}

TEST_F(Server, AnAnswerThatIsWholeIsKeptThoughTheConnectionBreaks) {
    std::vector<std::string> events = fakes::chat_events("whole");
    for (int missing = 0; missing < 3; ++missing) {  // without [DONE], then without usage too
        ModelServer server(in_turn({fakes::stream(events, false)}));
        const ModelOutcome outcome = ask(*chat(server));
        ASSERT_TRUE(outcome) << missing << outcome.error().message;
        EXPECT_EQ(outcome->text, "whole");
        EXPECT_EQ(outcome->attempts, 1);
        EXPECT_EQ(outcome->usage.known, missing < 2);
        events.pop_back();
    }
}

TEST_F(Server, EmptyAnswersAreAskedAgainAndTheirCostIsCounted) {
    ModelServer server(in_turn({fakes::whole(200, fakes::chat_body("")),
                                fakes::whole(200, fakes::chat_body(" \n")),
                                fakes::whole(200, fakes::chat_body("here"))}));
    const ModelOutcome outcome = ask(*chat(server, ",price_in=2,price_out=10"));
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->text, "here");
    EXPECT_EQ(outcome->warnings.size(), 2U);
    EXPECT_NEAR(outcome->cost.value(), 3 * (11 * 2 + 7 * 10) / 1e6, 1e-12);
    EXPECT_EQ(outcome->usage.input_tokens, 11);
    ModelServer always(in_turn({fakes::whole(200, fakes::chat_body(""))}));
    const ModelOutcome never = ask(*chat(always, ",attempts=2,price_in=2,price_out=10"));
    ASSERT_FALSE(never);
    EXPECT_EQ(never.error().fault, ModelFault::answer);
    EXPECT_FALSE(never.error().fatal);
    EXPECT_NEAR(never.error().cost, 2 * (11 * 2 + 7 * 10) / 1e6, 1e-12);
}

TEST_F(Server, FinishReasonLengthIsKeptWithAWarning) {
    ModelServer server(in_turn({fakes::whole(200, fakes::chat_body("for (int", "length"))}));
    const ModelOutcome outcome = ask(*chat(server));
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->finish_reason, "length");
    EXPECT_EQ(outcome->text, "for (int");
    ASSERT_EQ(outcome->warnings.size(), 1U);
    EXPECT_NE(outcome->warnings[0].find("max_tokens"), std::string::npos);
    EXPECT_EQ(server.calls().size(), 1U);
}

TEST_F(Server, ARefusalIsKeptWithAWarning) {
    ModelServer server(in_turn({fakes::stream(
        {fakes::chat_delta({{"refusal", "I will "}}), fakes::chat_delta({{"refusal", "not."}}),
         fakes::chat_delta(nlohmann::json::object(), "stop"), fakes::chat_done})}));
    const ModelOutcome outcome = ask(*chat(server));
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->text, "I will not.");
    EXPECT_EQ(outcome->finish_reason, "content_filter");
    EXPECT_EQ(outcome->warnings.size(), 1U);
}

// A server that refuses a parameter for as long as it is sent.
ModelServer::Answerer refusing(std::vector<std::pair<std::string, std::string>> parameters) {
    return [parameters = std::move(parameters)](const ModelCall& call) {
        for (const auto& [name, message] : parameters)
            if (call.body.contains(name))
                return fakes::whole(400, nlohmann::json{{"error", {{"message", message}}}}.dump());
        return call.body.contains("stream") ? good : fakes::whole(200, fakes::chat_body("plain"));
    };
}

TEST_F(Server, AParameterThatIsNotTakenIsLeftOutFromThenOn) {
    ModelServer server(
        refusing({{"temperature", "Unsupported value: 'temperature' does not support 0.3 here."},
                  {"seed", "Unrecognized request argument supplied: seed"}}));
    const auto model = chat(server, ",temperature=0.3,seed=1");
    ModelRequest wanted = request();
    wanted.sampling = model->sampling();
    for (int i = 0; i < 2; ++i) {
        const ModelOutcome outcome = ask(*model, wanted);
        ASSERT_TRUE(outcome) << outcome.error().message;
        EXPECT_EQ(outcome->warnings,
                  (std::vector<std::string>{
                      "seed is not accepted by this model: sent without it",
                      "temperature is not accepted by this model: sent without it"}));
        EXPECT_EQ(outcome->attempts, i == 0 ? 3 : 1);
    }
    EXPECT_TRUE(clock_.sleeps.empty()) << "another request need not wait";
}

TEST_F(Server, TheLimitIsRenamedWhenTheServerAsksForIt) {
    ModelServer server(
        refusing({{"max_tokens",
                   "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                   "'max_completion_tokens' instead."}}));
    const auto model = chat(server);
    const ModelOutcome outcome = ask(*model);
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_TRUE(outcome->warnings.empty());
    EXPECT_EQ(server.calls().at(1).body["max_completion_tokens"], 8192);
    ModelServer neither(
        refusing({{"max_tokens", "max_tokens is not supported"},
                  {"max_completion_tokens", "max_completion_tokens is not supported"}}));
    const ModelOutcome without = ask(*chat(neither));
    ASSERT_TRUE(without) << without.error().message;
    EXPECT_EQ(without->warnings.size(), 1U);
}

TEST_F(Server, StreamsThatAreNotTakenArePlainAnswers) {
    ModelServer server(refusing({{"stream_options", "unknown field stream_options"},
                                 {"stream", "stream is not supported with this model"}}));
    const ModelOutcome outcome = ask(*chat(server));
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->text, "plain");
}

TEST_F(Server, AParameterThatIsRefusedForGoodIsAnError) {
    ModelServer server(
        in_turn({fakes::whole(400, R"({"error":{"message":"top_p is not supported"}})")}));
    const ModelOutcome outcome =
        ask(*chat(server));  // top_p is not sent: there is nothing to leave out
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().fault, ModelFault::parameter);
    EXPECT_TRUE(outcome.error().fatal);
    EXPECT_EQ(server.calls().size(), 1U);
}

TEST_F(Server, AnErrorWithStatus200IsAskedAgain) {
    ModelServer server(in_turn(
        {fakes::whole(200, R"({"error":{"message":"upstream failed","code":502}})"), good}));
    const ModelOutcome outcome = ask(*chat(server));
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->attempts, 2);
    ModelServer key(in_turn({fakes::whole(200, R"({"error":{"message":"no key","code":401}})")}));
    const ModelOutcome refused = ask(*chat(key));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().fault, ModelFault::key);
    EXPECT_EQ(key.calls().size(), 1U);
}

TEST_F(Server, WhatIsNotJsonIsAskedAgain) {
    ModelServer server(
        in_turn({fakes::whole(200, "{\"choices\": [{"), fakes::stream({"data: {oops\n\n"}), good}));
    const ModelOutcome outcome = ask(*chat(server));
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->attempts, 3);
    EXPECT_EQ(outcome->warnings.size(), 2U);
}

TEST_F(Server, SilenceEndsAtItsLimit) {
    ModelServer server(in_turn({Script{}}));
    const auto start = std::chrono::steady_clock::now();
    const ModelOutcome outcome = ask(*chat(server, ",idle=0.2"));
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().fault, ModelFault::network);
    EXPECT_FALSE(outcome.error().fatal);
    EXPECT_EQ(server.calls().size(), 3U) << "each costs its whole length, so few repeats";
    EXPECT_NE(outcome.error().message.find("silence for 0.2 s"), std::string::npos)
        << outcome.error().message;
    EXPECT_NE(outcome.error().message.find("idle="), std::string::npos);
    EXPECT_GT(seconds, 0.55);
    EXPECT_LT(seconds, 5);
    ModelServer slow(
        in_turn({fakes::stream(std::vector<std::string>(50, fakes::chat_delta({{"content", "x"}})),
                               true, milliseconds(50)),
                 good}));
    const ModelOutcome late = ask(*chat(slow, ",timeout=0.3"));
    ASSERT_TRUE(late) << late.error().message;
    EXPECT_EQ(late->attempts, 2);
}

TEST_F(Server, SilenceThatEndsInTimeIsAnAnswer) {
    Script late = good;
    late.pieces[0].first = milliseconds(400);
    ModelServer server(in_turn({late}));
    const ModelOutcome outcome = ask(*chat(server, ",idle=5"));
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->attempts, 1);
    EXPECT_GE(outcome->latency_seconds, 0.39);
}

TEST_F(Server, AWrongKeyNamesTheVariable) {
    ModelServer server(in_turn(
        {fakes::whole(401, std::string(R"({"error":{"message":"Incorrect API key provided: )") +
                               secret + R"("}})")}));
    const ModelOutcome outcome = ask(*chat(server));
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().fault, ModelFault::key);
    EXPECT_TRUE(outcome.error().fatal);
    EXPECT_EQ(server.calls().size(), 1U);
    EXPECT_NE(outcome.error().message.find("LOOPSCOPE_TEST_KEY"), std::string::npos)
        << outcome.error().message;
    EXPECT_NE(outcome.error().message.find("***"), std::string::npos) << outcome.error().message;
}

TEST_F(Server, NoKeyLeavesThisProgramUnasked) {
    ::setenv("OPENAI_API_KEY", secret, 1);
    ModelServer server(in_turn({fakes::whole(401, "{}")}));
    const ModelOutcome outcome = ask(*open("openai:m,base=" + server.url()));
    ::unsetenv("OPENAI_API_KEY");
    ASSERT_FALSE(outcome);
    EXPECT_EQ(server.calls().at(0).headers.find(secret), std::string::npos);
    EXPECT_NE(outcome.error().message.find("key=NAME"), std::string::npos);
}

TEST_F(Server, AnUnknownModelIsToldTheNearestName) {
    ModelServer server([](const ModelCall& call) {
        if (call.method == "GET")
            return fakes::whole(200, R"({"data":[{"id":"scripted-1"},{"id":"other"}]})");
        return fakes::whole(404, R"({"error":{"message":"The model `scripted` does not exist"}})");
    });
    const auto model = chat(server);
    const ModelOutcome outcome = ask(*model);
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().fault, ModelFault::model_name);
    EXPECT_TRUE(outcome.error().fatal);
    EXPECT_NE(outcome.error().message.find("scripted-1"), std::string::npos)
        << outcome.error().message;
    EXPECT_EQ(server.calls().at(1).path, "/v1/models");
    ASSERT_FALSE(ask(*model));
    EXPECT_EQ(server.calls().size(), 3U) << "the list is asked for once";
}

TEST_F(Server, APromptThatIsTooLongIsNotAskedAgain) {
    ModelServer server(in_turn(
        {fakes::whole(400, R"({"error":{"message":"maximum context length is 4096 tokens"}})")}));
    const ModelOutcome outcome = ask(*chat(server));
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().fault, ModelFault::length);
    EXPECT_FALSE(outcome.error().fatal) << "another prompt may fit";
    EXPECT_EQ(server.calls().size(), 1U);
}

TEST_F(Server, NobodyListens) {
    const ModelOutcome outcome = ask(*open("openai:m,base=http://127.0.0.1:1/v1,attempts=2"));
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().fault, ModelFault::network);
    EXPECT_NE(outcome.error().message.find("Is the server running?"), std::string::npos)
        << outcome.error().message;
}

TEST_F(Server, SameAnswerToEveryDraw) {
    ModelServer server(in_turn({good}));
    const auto model = chat(server, ",temperature=1");
    std::vector<std::pair<std::string, std::string>> answers;
    for (const char* draw : {"0", "1", "2"}) {
        ModelRequest wanted = request();
        wanted.draw = draw;
        answers.emplace_back(draw, ask(*model, wanted)->text);
    }
    EXPECT_NE(same_answers_warning(model->id(), model->sampling(), answers), "");
}

TEST_F(Server, TwoHundredAtOnceWithTheirLimits) {
    std::atomic<int> open_now = 0;
    std::atomic<int> most = 0;
    ModelServer server([&](const ModelCall& call) {
        most = std::max(most.load(), ++open_now);
        --open_now;
        const std::string text = call.body["messages"][1]["content"];
        Script script = fakes::stream(fakes::chat_events("echo " + text), true);
        script.pieces[0].first = milliseconds(20);
        if (call.number % 7 == 3)
            return fakes::whole(503, "{}");
        return script;
    });
    const auto model = chat(server, ",concurrency=64");
    int right = 0;
    const std::function<awaitable<void>(std::size_t)> one = [&](std::size_t i) -> awaitable<void> {
        ModelRequest wanted = request(std::to_string(i));
        wanted.draw = std::to_string(i);
        const ModelOutcome outcome = co_await model->complete(std::move(wanted));
        right += outcome && outcome->text == "echo " + std::to_string(i) ? 1 : 0;
    };
    const auto start = std::chrono::steady_clock::now();
    run(for_each_index(200, 200, one));
    EXPECT_EQ(right, 200);
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 20);
}

TEST_F(Server, ConcurrencyHoldsAndASlotIsFreeDuringBackOff) {
    // One slot: if the first call kept it during its back-off, the second could not be answered in
    // between.
    std::vector<std::string> order;
    ModelServer server([](const ModelCall& call) {
        const std::string text = call.body["messages"][1]["content"];
        if (text == "first" && call.number == 0)
            return fakes::whole(500, "{}");
        return fakes::stream(fakes::chat_events(text));
    });
    class SlowSleep : public SkippingClock {
    public:
        awaitable<void> sleep(Duration duration) override {
            co_await SkippingClock::sleep(duration);
            asio::steady_timer timer(co_await asio::this_coro::executor, milliseconds(300));
            co_await timer.async_wait(asio::use_awaitable);
        }
    } slow;
    services_.clock = &slow;
    const auto model = chat(server, ",concurrency=1");
    const std::function<awaitable<void>(std::size_t)> one = [&](std::size_t i) -> awaitable<void> {
        ModelRequest wanted = request(i == 0 ? "first" : "second");
        const ModelOutcome outcome = co_await model->complete(std::move(wanted));
        order.push_back(outcome ? outcome->text : "failed");
    };
    run(for_each_index(2, 2, one));
    EXPECT_EQ(order, (std::vector<std::string>{"second", "first"}));
}

TEST_F(Server, RatesAreKept) {
    ModelServer server(in_turn({good}));
    const auto model = chat(server, ",rpm=30");
    for (int i = 0; i < 3; ++i)
        ASSERT_TRUE(ask(*model));
    ASSERT_EQ(clock_.sleeps.size(), 2U);
    EXPECT_NEAR(clock_.sleeps[0], 2, 0.5);
    clock_.sleeps.clear();
    const auto by_tokens =
        chat(server, ",tpm=60");  // an answer takes 18 tokens, one second has one
    for (int i = 0; i < 2; ++i)
        ASSERT_TRUE(ask(*by_tokens));
    ASSERT_EQ(clock_.sleeps.size(), 1U);
    EXPECT_NEAR(clock_.sleeps[0], 18, 1.5);
}

TEST_F(Server, CancellationInTheMiddleOfAStream) {
    ModelServer server(
        in_turn({fakes::stream(std::vector<std::string>(500, fakes::chat_delta({{"content", "x"}})),
                               true, milliseconds(20))}));
    const auto model = chat(server, ",concurrency=1");
    asio::cancellation_signal signal;
    std::exception_ptr thrown;
    auto work = [&]() -> awaitable<void> { co_await model->complete(request()); };
    auto bound = asio::bind_cancellation_slot(
        signal.slot(), [&](std::exception_ptr what) { thrown = std::move(what); });
    asio::co_spawn(loop_, work(), std::move(bound));
    asio::steady_timer timer(loop_, milliseconds(150));
    timer.async_wait([&](error_code) { signal.emit(asio::cancellation_type::terminal); });
    const auto start = std::chrono::steady_clock::now();
    loop_.run();
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 3);
    ASSERT_TRUE(thrown);
    EXPECT_THROW(std::rethrow_exception(thrown), boost::system::system_error);
    for (int i = 0; i < 100 && server.hung_up() == 0; ++i)
        std::this_thread::sleep_for(milliseconds(20));
    EXPECT_EQ(server.hung_up(), 1) << "the server must be told to stop: tokens cost money";
    // The slot came back: with concurrency=1 the next call would wait for ever otherwise.
    ModelServer other(in_turn({good}));
    const auto next = chat(other, ",concurrency=1");
    EXPECT_TRUE(ask(*next));
}

// ---- the Messages format ----

Script messages_stream() {
    return fakes::stream(
        {"event: message_start\ndata: "
         "{\"type\":\"message_start\",\"message\":{\"model\":\"claude-s\",\"usage\":"
         "{\"input_tokens\":25,\"cache_read_input_tokens\":5,\"output_tokens\":1}}}\n\n",
         "event: content_block_delta\ndata: "
         "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
         "\"thinking_delta\",\"thinking\":\"hm\"}}\n\n",
         "event: content_block_delta\ndata: "
         "{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":"
         "\"text_delta\",\"text\":\"Hello\"}}\n\n",
         "event: message_delta\ndata: "
         "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":"
         "{\"output_tokens\":15}}\n\n",
         "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"});
}

TEST_F(Server, MessagesApi) {
    ModelServer server(in_turn(
        {fakes::whole(
             529, R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})"),
         messages_stream()}));
    const auto model =
        open("anthropic:claude-s,key=LOOPSCOPE_TEST_KEY,effort=2048,base=" + server.url());
    ModelRequest wanted = request();
    wanted.sampling = model->sampling();
    const ModelOutcome outcome = ask(*model, wanted);
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->text, "Hello");
    EXPECT_EQ(outcome->reasoning, "hm");
    EXPECT_EQ(outcome->usage.input_tokens, 30);
    EXPECT_EQ(outcome->usage.cached_tokens, 5);
    EXPECT_EQ(outcome->usage.output_tokens, 15);
    EXPECT_EQ(outcome->attempts, 2);
    const ModelCall call = server.calls().at(1);
    EXPECT_EQ(call.path, "/v1/messages");
    EXPECT_NE(call.headers.find(std::string("x-api-key: ") + secret), std::string::npos);
    EXPECT_NE(call.headers.find("anthropic-version: 2023-06-01"), std::string::npos);
    EXPECT_EQ(call.body["system"], "be brief");
    EXPECT_EQ(call.body["thinking"]["budget_tokens"], 2048);
    EXPECT_EQ(call.body["max_tokens"], 8192);
}

// ---- opening ----

TEST_F(Server, ASpecificationThatCannotWorkIsRefused) {
    ::unsetenv("OPENAI_API_KEY");
    ::unsetenv("LOOPSCOPE_NO_SUCH_KEY");
    EXPECT_NE(problem("openai:gpt-4o").find("OPENAI_API_KEY is not set"), std::string::npos);
    EXPECT_NE(problem("openai:m,key=LOOPSCOPE_NO_SUCH_KEY").find("LOOPSCOPE_NO_SUCH_KEY"),
              std::string::npos);
    const std::string pasted = problem(std::string("openai:m,key=") + secret);
    EXPECT_NE(pasted.find("NAME of an environment variable"), std::string::npos);
    EXPECT_EQ(pasted.find(secret), std::string::npos);
    EXPECT_NE(problem("openai:m,base=localhost:8000").find("http://"), std::string::npos);
    EXPECT_NE(problem("openai:m,base=http://user:pass@localhost/v1").find("key="),
              std::string::npos);
    EXPECT_NE(problem("openai:m,base=http://localhost/v1,tempreature=1").find("temperature"),
              std::string::npos);
    EXPECT_NE(problem("openai:m,base=http://localhost/v1,stream=maybe").find("on or off"),
              std::string::npos);
    EXPECT_NE(problem("openai:m,base=http://localhost/v1,concurrency=0").find("concurrency"),
              std::string::npos);
    EXPECT_NE(problem("openai:m,base=http://localhost/v1,price_in=1").find("price_out"),
              std::string::npos);
    EXPECT_NE(problem("anthropic:m,base=http://localhost,seed=1").find("seed"), std::string::npos);
    EXPECT_NE(problem("builtin:nothing").find("builtin:rules"), std::string::npos);
    EXPECT_NE(problem("builtin:rules,temperature=1").find("temperature"), std::string::npos);
    ::setenv("LOOPSCOPE_TEST_BAD_KEY", "two\nlines", 1);
    EXPECT_NE(problem("openai:m,key=LOOPSCOPE_TEST_BAD_KEY").find("control"), std::string::npos);
    services_.price_file = "/nonexistent/prices.toml";
    EXPECT_NE(problem("openai:m,base=http://localhost/v1").find("/nonexistent/prices.toml"),
              std::string::npos);
}

TEST_F(Server, TheKeyOfTheUsualVariableGoesToTheProvider) {
    ::setenv("OPENAI_API_KEY", secret, 1);
    const auto model = open("openai:gpt-4o-2024-08-06");
    ::unsetenv("OPENAI_API_KEY");
    ASSERT_TRUE(model);
    EXPECT_NEAR(model->price(1'000'000, 1'000'000).value(), 12.5, 1e-9);
    EXPECT_EQ(redacted(std::string("x ") + secret), "x ***");
}

}  // namespace
}  // namespace loopscope
// NOLINTEND(cppcoreguidelines-avoid-capturing-lambda-coroutines,bugprone-unchecked-optional-access,concurrency-mt-unsafe,bugprone-suspicious-missing-comma)
