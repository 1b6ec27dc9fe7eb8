// An HTTP client for many requests at once: one thread drives libcurl's multi interface, coroutines
// await it.
//
// libcurl brings TLS, HTTP/2, proxies (http_proxy, https_proxy, no_proxy; never for loopback) and
// connection reuse. CURL_CA_BUNDLE or SSL_CERT_FILE names another certificate file, as for the curl
// program.
#pragma once
#include "core/async.h"

#include <curl/curl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace loopscope {

struct HttpRequest {
    std::string url;
    bool get = false;  // otherwise a POST of `body`
    std::string body;
    std::vector<std::string> headers;  // "Name: value"
    std::chrono::milliseconds connect_timeout{20'000};
    std::chrono::milliseconds total_timeout{600'000};
    std::chrono::milliseconds idle_timeout{0};  // the longest silence, from the start on; 0 = any
    std::size_t max_body = std::size_t{64} << 20U;
    // Called on the caller's executor with the pieces of a body that is an event stream (status
    // 200, content type text/event-stream); such a body is not kept. Any other body is, and this is
    // not called. Returning false says that nothing more is needed: a server that does not close
    // the stream is not waited for.
    std::function<bool(std::string_view)> on_event_bytes;
};

enum class HttpFault { none, bad_url, resolve, connect, tls, timeout, idle, cut, too_large, other };

struct HttpReply {
    HttpFault fault =
        HttpFault::none;  // not none: no whole response arrived; what did is in the other members
    std::string error;    // libcurl's words for it
    long status = 0;
    std::vector<std::pair<std::string, std::string>>
        headers;  // names in lower case, in the order received
    std::string body;
    bool streamed = false;  // the body went to on_event_bytes
};

// The first header of that name (lower case), or "".
std::string_view header_of(const HttpReply& reply, std::string_view name);

// The lower-case host of a URL, with its port when one is written; "" when the URL cannot be read.
std::string host_of(const std::string& url);
// Whether the URL's host is this machine: localhost, *.localhost, 127.0.0.0/8, ::1.
bool is_loopback(const std::string& url);

// Must outlive every coroutine that awaits it, and be destroyed before their io_context.
class HttpClient {
public:
    HttpClient();
    ~HttpClient();
    HttpClient(const HttpClient&) = delete;
    HttpClient& operator=(const HttpClient&) = delete;

    // Never an exception for what the server or the network did. Cancellation (terminal, partial or
    // total) drops the connection and throws boost::system::system_error{operation_aborted}.
    awaitable<HttpReply> send(HttpRequest request);

private:
    struct Call;
    void start(std::unique_ptr<Call> call);
    void cancel(std::uint64_t id);

    // The rest runs on the thread.
    void run(const std::stop_token& stop);
    void begin(std::unique_ptr<Call> call);
    std::unique_ptr<Call> remove(CURL* easy);
    void end(CURL* easy, CURLcode code);
    int sweep();  // drops silent and satisfied transfers; returns the milliseconds until the next
                  // may be due
    static std::size_t take_body(char* data, std::size_t size, std::size_t count, void* self);
    static std::size_t take_header(char* data, std::size_t size, std::size_t count, void* self);

    CURLM* multi_;
    std::string certificates_;
    std::mutex mutex_;  // guards the three below
    std::vector<std::unique_ptr<Call>> incoming_;
    std::vector<std::uint64_t> cancelled_;
    std::uint64_t next_id_ = 1;
    std::unordered_map<CURL*, std::unique_ptr<Call>> active_;
    std::jthread thread_;
};

}  // namespace loopscope
