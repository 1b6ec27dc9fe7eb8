#include "llm/http.h"

#include "../../tests/fakes/model_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>

// NOLINTBEGIN(cppcoreguidelines-avoid-capturing-lambda-coroutines,bugprone-unchecked-optional-access):
// a test's lambdas outlive the loop they run in, it is the only thread that changes its
// environment, and a missing value fails it.
namespace loopscope {
namespace {

using fakes::ModelCall;
using fakes::ModelServer;
using fakes::Script;
using std::chrono::milliseconds;

double elapsed(std::chrono::steady_clock::time_point since) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

class Http : public ::testing::Test {
protected:
    HttpReply send(HttpRequest request) {
        std::optional<HttpReply> out;
        auto work = [&]() -> awaitable<void> { out = co_await http_.send(std::move(request)); };
        run(work());
        return std::move(*out);
    }
    void run(awaitable<void> work) {
        std::exception_ptr problem;
        asio::co_spawn(loop_, std::move(work),
                       [&](std::exception_ptr thrown) { problem = std::move(thrown); });
        loop_.restart();
        loop_.run();
        if (problem)
            std::rethrow_exception(problem);
    }
    asio::io_context loop_;
    HttpClient http_;
};

TEST_F(Http, PostsAndReadsStatusHeadersAndBody) {
    ModelServer server([](const ModelCall& call) {
        return fakes::whole(418, "got " + call.text, "Retry-After: 7\r\nX-Request-Id:  abc \r\n");
    });
    HttpRequest request;
    request.url = server.url() + "/v1/x";
    request.body = std::string("a\0b", 3);
    request.headers = {"X-Test: yes"};
    const HttpReply reply = send(request);
    EXPECT_EQ(reply.fault, HttpFault::none) << reply.error;
    EXPECT_EQ(reply.status, 418);
    EXPECT_EQ(reply.body, std::string("got a\0b", 7));
    EXPECT_EQ(header_of(reply, "retry-after"), "7");
    EXPECT_EQ(header_of(reply, "x-request-id"), "abc");
    EXPECT_EQ(header_of(reply, "nothing"), "");
    const std::vector<ModelCall> calls = server.calls();
    ASSERT_EQ(calls.size(), 1U);
    EXPECT_EQ(calls[0].method, "POST");
    EXPECT_EQ(calls[0].path, "/v1/x");
    EXPECT_NE(calls[0].headers.find("X-Test: yes"), std::string::npos);
    EXPECT_EQ(calls[0].headers.find("Expect"), std::string::npos);
}

TEST_F(Http, AnEventStreamComesInPieces) {
    ModelServer server([](const ModelCall&) {
        return fakes::stream({"data: a\n\n", "data: b\n\n"}, true, milliseconds(60));
    });
    HttpRequest request;
    request.url = server.url();
    std::vector<std::string> pieces;
    request.on_event_bytes = [&](std::string_view bytes) {
        pieces.emplace_back(bytes);
        return true;
    };
    const HttpReply reply = send(std::move(request));
    EXPECT_TRUE(reply.streamed);
    EXPECT_EQ(reply.body, "");
    EXPECT_EQ(pieces, (std::vector<std::string>{"data: a\n\n", "data: b\n\n"}));
}

TEST_F(Http, AnErrorBodyIsKeptAlthoughAStreamWasAskedFor) {
    ModelServer server(
        [](const ModelCall&) { return fakes::whole(500, "data: no", "", "text/event-stream"); });
    HttpRequest request;
    request.url = server.url();
    bool called = false;
    request.on_event_bytes = [&](std::string_view) { return called = true; };
    const HttpReply reply = send(std::move(request));
    EXPECT_FALSE(called);
    EXPECT_FALSE(reply.streamed);
    EXPECT_EQ(reply.body, "data: no");
}

TEST_F(Http, AStreamThatIsNotClosedIsNotWaitedFor) {
    ModelServer server([](const ModelCall&) {
        Script script = fakes::stream({"data: all\n\n"}, false);
        script.close = false;
        return script;
    });
    HttpRequest request;
    request.url = server.url();
    request.on_event_bytes = [](std::string_view) { return false; };
    const auto start = std::chrono::steady_clock::now();
    const HttpReply reply = send(std::move(request));
    EXPECT_EQ(reply.fault, HttpFault::none);
    EXPECT_LT(elapsed(start), 3);
}

TEST_F(Http, FaultsAreToldApart) {
    ModelServer silent([](const ModelCall&) { return Script{}; });
    ModelServer cut([](const ModelCall&) {
        Script script;
        script.pieces.emplace_back(milliseconds(0),
                                   "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        script.close = true;
        return script;
    });
    ModelServer big([](const ModelCall&) { return fakes::whole(200, std::string(100'000, 'x')); });
    HttpRequest request;
    request.url = silent.url();
    request.idle_timeout = milliseconds(150);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(send(request).fault, HttpFault::idle);
    EXPECT_GE(elapsed(start), 0.14);
    EXPECT_LT(elapsed(start), 3);
    request.idle_timeout = milliseconds(0);
    request.total_timeout = milliseconds(150);
    EXPECT_EQ(send(request).fault, HttpFault::timeout);
    request.total_timeout = milliseconds(10'000);
    request.url = cut.url();
    const HttpReply half = send(request);
    EXPECT_EQ(half.fault, HttpFault::cut);
    EXPECT_EQ(half.body, "half");
    EXPECT_FALSE(half.error.empty());
    request.url = big.url();
    request.max_body = 1000;
    EXPECT_EQ(send(request).fault, HttpFault::too_large);
    request.url = "http://127.0.0.1:1/";
    EXPECT_EQ(send(request).fault, HttpFault::connect);
    request.url = "http://name.invalid/";
    EXPECT_EQ(send(request).fault, HttpFault::resolve);
    request.url = "file:///etc/passwd";
    EXPECT_EQ(send(request).fault, HttpFault::bad_url);
    request.url = "http://";
    EXPECT_EQ(send(request).fault, HttpFault::bad_url);
}

TEST_F(Http, CancellationDropsTheConnection) {
    ModelServer server([](const ModelCall&) {
        return fakes::stream(std::vector<std::string>(200, "data: x\n\n"), true, milliseconds(20));
    });
    asio::cancellation_signal signal;
    int pieces = 0;
    auto work = [&]() -> awaitable<void> {
        HttpRequest request;
        request.url = server.url();
        request.on_event_bytes = [&](std::string_view) {
            if (++pieces == 3)
                asio::post(loop_, [&] { signal.emit(asio::cancellation_type::terminal); });
            return true;
        };
        co_await http_.send(std::move(request));
    };
    std::exception_ptr problem;
    auto bound = asio::bind_cancellation_slot(
        signal.slot(), [&](std::exception_ptr thrown) { problem = std::move(thrown); });
    asio::co_spawn(loop_, work(), std::move(bound));
    const auto start = std::chrono::steady_clock::now();
    loop_.run();
    EXPECT_LT(elapsed(start), 2);
    ASSERT_TRUE(problem);
    try {
        std::rethrow_exception(problem);
    } catch (const boost::system::system_error& error) {
        EXPECT_EQ(error.code(), asio::error::operation_aborted);
    }
    EXPECT_LT(pieces, 10);
    for (int i = 0; i < 100 && server.hung_up() == 0; ++i)
        std::this_thread::sleep_for(milliseconds(20));
    EXPECT_EQ(server.hung_up(), 1);
}

TEST_F(Http, CancellationBeforeAndAfterTheCall) {
    ModelServer server([](const ModelCall&) { return fakes::whole(200, "ok"); });
    for (int round = 0; round < 20; ++round) {
        asio::cancellation_signal signal;
        bool aborted = false;
        auto work = [&]() -> awaitable<void> {
            HttpRequest request;
            request.url = server.url();
            co_await http_.send(std::move(request));
        };
        auto done = [&](const std::exception_ptr& thrown) { aborted = thrown != nullptr; };
        auto bound = asio::bind_cancellation_slot(signal.slot(), done);
        asio::co_spawn(loop_, work(), std::move(bound));
        asio::steady_timer timer(loop_, std::chrono::microseconds(round * 50));
        timer.async_wait([&](error_code) { signal.emit(asio::cancellation_type::terminal); });
        loop_.restart();
        loop_.run();  // it always ends
        (void)aborted;
    }
    HttpRequest request;
    request.url = server.url();
    EXPECT_EQ(send(request).status, 200);
}

TEST_F(Http, ManyAtOnce) {
    ModelServer server([](const ModelCall& call) {
        Script script = fakes::whole(200, call.text);
        script.pieces[0].first = milliseconds(100);
        return script;
    });
    int right = 0;
    const std::function<awaitable<void>(std::size_t)> one = [&](std::size_t i) -> awaitable<void> {
        HttpRequest request;
        request.url = server.url();
        request.body = std::to_string(i);
        const HttpReply reply = co_await http_.send(std::move(request));
        right += reply.body == std::to_string(i) ? 1 : 0;
    };
    const auto start = std::chrono::steady_clock::now();
    run(for_each_index(200, 200, one));
    EXPECT_EQ(right, 200);
    EXPECT_LT(elapsed(start), 5);  // side by side: one after another they take 20 s
}

TEST(HttpEnd, ACallInFlightDoesNotHoldTheProgram) {
    ModelServer silent([](const ModelCall&) { return Script{}; });
    asio::io_context loop;
    bool destroyed = false;
    struct Flag {
        bool& flag;
        ~Flag() { flag = true; }
    };
    {
        HttpClient http;
        auto work = [&]() -> awaitable<void> {
            const Flag flag{destroyed};
            HttpRequest request;
            request.url = silent.url();
            co_await http.send(std::move(request));
        };
        asio::co_spawn(loop, work(), [](const std::exception_ptr&) {});
        loop.run_for(milliseconds(100));
    }
    loop.restart();
    loop.poll();  // Asio takes a coroutine that nobody resumes apart on its own executor
    EXPECT_TRUE(destroyed);
}

}  // namespace
}  // namespace loopscope
// NOLINTEND(cppcoreguidelines-avoid-capturing-lambda-coroutines,bugprone-unchecked-optional-access)
