// A model server on loopback that answers from a script: every way in which a provider was seen to
// fail, on demand.
#pragma once
#include "core/async.h"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace loopscope::fakes {

struct ModelCall {
    int number = 0;  // 0 for the first request that arrived
    std::string method, path;
    std::string headers;  // raw, as sent
    std::string text;     // the body
    nlohmann::json body;  // parsed; discarded when it is not JSON
};

// What goes over the wire, byte for byte, with pauses before each piece.
struct Script {
    std::vector<std::pair<std::chrono::milliseconds, std::string>> pieces;
    bool close = false;  // hang up after the last piece instead of waiting for another request
};

inline Script whole(int status, std::string_view body, std::string_view headers = "",
                    std::string_view type = "application/json") {
    Script script;
    script.pieces.emplace_back(
        std::chrono::milliseconds{0},
        fmt::format("HTTP/1.1 {} Scripted\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}\r\n{}",
                    status, type, body.size(), headers, body));
    return script;
}

inline std::string chunk(std::string_view data) {
    return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

// An event stream in HTTP chunks, one for each element of `events`; the end chunk only if `ended`.
inline Script stream(const std::vector<std::string>& events, bool ended = true,
                     std::chrono::milliseconds pause = {}) {
    Script script;
    script.pieces.emplace_back(std::chrono::milliseconds{0},
                               "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n");
    for (const std::string& event : events)
        script.pieces.emplace_back(pause, chunk(event));
    if (ended)
        script.pieces.emplace_back(std::chrono::milliseconds{0}, "0\r\n\r\n");
    script.close = !ended;
    return script;
}

inline std::string chat_body(std::string_view text, std::string_view finish = "stop") {
    return nlohmann::json{
        {"id", "chatcmpl-1"},
        {"model", "scripted-1"},
        {"choices",
         {{{"index", 0},
           {"message", {{"role", "assistant"}, {"content", text}}},
           {"finish_reason", finish}}}},
        {"usage", {{"prompt_tokens", 11}, {"completion_tokens", 7}, {"total_tokens", 18}}}}
        .dump();
}

inline std::string chat_delta(const nlohmann::json& delta, const nlohmann::json& finish = nullptr) {
    const nlohmann::json choice{{"index", 0}, {"delta", delta}, {"finish_reason", finish}};
    return "data: " +
           nlohmann::json{{"model", "scripted-1"}, {"choices", nlohmann::json::array({choice})}}
               .dump() +
           "\n\n";
}

inline const std::string chat_usage =
    "data: "
    "{\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":7,\"total_tokens\":18}}"
    "\n\n";
inline const std::string chat_done = "data: [DONE]\n\n";

// A whole streamed answer, cut into pieces of three bytes.
inline std::vector<std::string> chat_events(std::string_view text) {
    std::vector<std::string> events;
    for (std::size_t at = 0; at < text.size(); at += 3)
        events.push_back(chat_delta({{"content", std::string(text.substr(at, 3))}}));
    events.push_back(chat_delta(nlohmann::json::object(), "stop"));
    events.push_back(chat_usage);
    events.push_back(chat_done);
    return events;
}

class ModelServer {
public:
    using Answerer = std::function<Script(const ModelCall&)>;

    // `answer` runs on the server's thread.
    explicit ModelServer(Answerer answer)
        : answer_(std::move(answer)), acceptor_(context_, {asio::ip::address_v4::loopback(), 0}) {
        spawn(accept());
        thread_ = std::jthread([this] { context_.run(); });
    }
    ~ModelServer() {
        context_.stop();
        thread_.join();
    }
    ModelServer(const ModelServer&) = delete;
    ModelServer& operator=(const ModelServer&) = delete;

    std::string url() const {
        return fmt::format("http://127.0.0.1:{}", acceptor_.local_endpoint().port());
    }
    std::vector<ModelCall> calls() const {
        const std::scoped_lock lock(mutex_);
        return calls_;
    }
    // Connections that the client closed while the server was still answering.
    int hung_up() const {
        const std::scoped_lock lock(mutex_);
        return hung_up_;
    }

private:
    void spawn(awaitable<void> work) {
        // A connection may break at any time; that is what it is for.
        asio::co_spawn(context_, std::move(work), [](const std::exception_ptr&) {});
    }

    awaitable<void> accept() {
        for (;;) {
            asio::ip::tcp::socket socket = co_await acceptor_.async_accept(asio::use_awaitable);
            spawn(serve(std::move(socket)));
        }
    }

    awaitable<void> serve(asio::ip::tcp::socket socket) {
        std::string buffer;
        for (;;) {
            ModelCall call;
            const std::size_t head = co_await asio::async_read_until(
                socket, asio::dynamic_buffer(buffer), "\r\n\r\n", asio::use_awaitable);
            call.headers = buffer.substr(0, head);
            buffer.erase(0, head);
            call.method = call.headers.substr(0, call.headers.find(' '));
            const std::size_t path = call.method.size() + 1;
            call.path = call.headers.substr(path, call.headers.find(' ', path) - path);
            std::size_t length = 0;
            if (const std::size_t at = call.headers.find("Content-Length: ");
                at != std::string::npos)
                length = std::stoul(call.headers.substr(at + 16));
            if (buffer.size() < length)
                co_await asio::async_read(socket, asio::dynamic_buffer(buffer),
                                          asio::transfer_exactly(length - buffer.size()),
                                          asio::use_awaitable);
            call.text = buffer.substr(0, length);
            buffer.erase(0, length);
            call.body = nlohmann::json::parse(call.text, nullptr, false);
            {
                const std::scoped_lock lock(mutex_);
                call.number = static_cast<int>(calls_.size());
                calls_.push_back(call);
            }
            const Script script = answer_(call);
            for (const auto& [pause, bytes] : script.pieces) {
                if (pause.count() > 0) {
                    asio::steady_timer timer(context_, pause);
                    co_await timer.async_wait(asio::use_awaitable);
                }
                co_await asio::async_write(socket, asio::buffer(bytes), asio::use_awaitable);
                char byte = 0;
                error_code gone;
                socket.non_blocking(true);
                if (socket.receive(asio::buffer(&byte, 1), asio::socket_base::message_peek, gone) ==
                        0 &&
                    gone != asio::error::would_block) {
                    const std::scoped_lock lock(mutex_);
                    ++hung_up_;
                    co_return;
                }
            }
            if (script.close)
                co_return;
        }
    }

    Answerer answer_;
    asio::io_context context_;
    asio::ip::tcp::acceptor acceptor_;
    mutable std::mutex mutex_;
    std::vector<ModelCall> calls_;
    int hung_up_ = 0;
    std::jthread thread_;
};

}  // namespace loopscope::fakes
