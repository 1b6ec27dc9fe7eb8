#include "llm/http.h"

#include "core/check.h"
#include "core/text.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

namespace loopscope {

namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// What a satisfied stream gets to end on its own, so that its connection can be used again.
constexpr std::chrono::milliseconds grace{250};

// Pieces of a stream on their way from the HTTP thread to the caller's executor.
struct Inbox {
    std::mutex mutex;
    std::string pending;
    bool posted = false;
    std::function<bool(std::string_view)> take;  // used on the caller's executor only
    std::atomic<bool> satisfied = false;
};

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z')
            c = static_cast<char>(c - 'A' + 'a');
    return out;
}

HttpFault fault_of(CURLcode code) {
    switch (code) {
        case CURLE_OK:
            return HttpFault::none;
        case CURLE_UNSUPPORTED_PROTOCOL:
        case CURLE_URL_MALFORMAT:
            return HttpFault::bad_url;
        case CURLE_COULDNT_RESOLVE_HOST:
        case CURLE_COULDNT_RESOLVE_PROXY:
            return HttpFault::resolve;
        case CURLE_COULDNT_CONNECT:
            return HttpFault::connect;
        case CURLE_SSL_CONNECT_ERROR:
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_SSL_CERTPROBLEM:
            return HttpFault::tls;
        case CURLE_OPERATION_TIMEDOUT:
            return HttpFault::timeout;
        case CURLE_PARTIAL_FILE:
        case CURLE_GOT_NOTHING:
        case CURLE_RECV_ERROR:
        case CURLE_SEND_ERROR:
        case CURLE_HTTP2:
        case CURLE_HTTP2_STREAM:
            return HttpFault::cut;
        default:
            return HttpFault::other;
    }
}

struct Url {
    explicit Url(const std::string& text) : handle(curl_url()) {
        if (handle != nullptr &&
            curl_url_set(handle, CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) {
            curl_url_cleanup(handle);
            handle = nullptr;
        }
    }
    ~Url() { curl_url_cleanup(handle); }
    Url(const Url&) = delete;
    Url& operator=(const Url&) = delete;
    std::string part(CURLUPart which) const {
        char* text = nullptr;
        if (handle == nullptr || curl_url_get(handle, which, &text, 0) != CURLUE_OK)
            return {};
        std::string out = lower(text);
        curl_free(text);
        return out;
    }
    CURLU* handle;
};

}  // namespace

std::string_view header_of(const HttpReply& reply, std::string_view name) {
    for (const auto& [key, value] : reply.headers)
        if (key == name)
            return value;
    return {};
}

std::string host_of(const std::string& url) {
    const Url parsed(url);
    const std::string host = parsed.part(CURLUPART_HOST);
    const std::string port = parsed.part(CURLUPART_PORT);
    return port.empty() ? host : host + ":" + port;
}

bool is_loopback(const std::string& url) {
    const std::string host = Url(url).part(CURLUPART_HOST);
    const bool numeric = host.find_first_not_of("0123456789.") == std::string::npos;
    return host == "localhost" || host.ends_with(".localhost") || host == "[::1]" ||
           host == "::1" || (numeric && host.starts_with("127."));
}

struct HttpClient::Call {
    std::uint64_t id = 0;
    HttpRequest request;
    HttpReply reply;
    curl_slist* headers = nullptr;
    char error[CURL_ERROR_SIZE] = "";
    std::size_t received = 0;
    SteadyTime last_byte;
    SteadyTime dropped_at = SteadyTime::max();  // a satisfied stream is ended then
    bool too_large = false;
    std::shared_ptr<Inbox> inbox;
    std::function<void()> wake;  // posts a reading of the inbox to the caller's executor
    std::function<void(error_code, HttpReply)> finish;
};

HttpClient::HttpClient() {
    static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
    CHECK(initialised == CURLE_OK);
    multi_ = curl_multi_init();
    CHECK(multi_ != nullptr);
    curl_multi_setopt(multi_, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
    for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"})
        if (const char* value =
                std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any thread
            value != nullptr && *value != '\0' && certificates_.empty())
            certificates_ = value;
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

HttpClient::~HttpClient() {
    thread_.request_stop();
    curl_multi_wakeup(multi_);
    thread_.join();
    for (auto& [easy, call] : active_) {
        curl_multi_remove_handle(multi_, easy);
        curl_easy_cleanup(easy);
        curl_slist_free_all(call->headers);
    }
    active_.clear();
    incoming_.clear();
    curl_multi_cleanup(multi_);
}

awaitable<HttpReply> HttpClient::send(HttpRequest request) {
    auto initiate = [this](auto handler, HttpRequest wanted) {
        using Handler = decltype(handler);
        // Everything that belongs to the caller's executor, kept together until the handler has
        // run.
        struct Waiting {
            explicit Waiting(Handler&& h) : handler(std::move(h)) {}
            Handler handler;
        };
        const auto executor = asio::get_associated_executor(handler);
        auto slot = asio::get_associated_cancellation_slot(handler);
        auto work = asio::prefer(executor, asio::execution::outstanding_work.tracked);
        auto waiting = std::make_shared<Waiting>(std::move(handler));

        auto call = std::make_unique<Call>();
        call->request = std::move(wanted);
        if (call->request.on_event_bytes) {
            auto inbox = std::make_shared<Inbox>();
            inbox->take = std::move(call->request.on_event_bytes);
            call->inbox = inbox;
            auto read = [this, inbox] {
                std::string bytes;
                {
                    const std::scoped_lock lock(inbox->mutex);
                    bytes.swap(inbox->pending);
                    inbox->posted = false;
                }
                if (!inbox->satisfied && !inbox->take(bytes)) {
                    inbox->satisfied = true;
                    curl_multi_wakeup(multi_);
                }
            };
            call->wake = [executor, read] { asio::post(executor, read); };
        }
        call->finish = [waiting, work, slot](error_code failure, HttpReply reply) {
            auto resume = [waiting, slot, failure, reply = std::move(reply)]() mutable {
                if (slot.is_connected())
                    slot.clear();
                auto complete = std::move(waiting->handler);
                waiting.reset();
                std::move(complete)(failure, std::move(reply));
            };
            asio::post(work, std::move(resume));
        };
        {
            const std::scoped_lock lock(mutex_);
            call->id = next_id_++;
        }
        const std::uint64_t id = call->id;
        if (slot.is_connected())
            slot.assign([this, id](asio::cancellation_type) { cancel(id); });
        start(std::move(call));
    };
    return asio::async_initiate<const asio::use_awaitable_t<>, void(error_code, HttpReply)>(
        std::move(initiate), asio::use_awaitable, std::move(request));
}

void HttpClient::start(std::unique_ptr<Call> call) {
    {
        const std::scoped_lock lock(mutex_);
        incoming_.push_back(std::move(call));
    }
    curl_multi_wakeup(multi_);
}

void HttpClient::cancel(std::uint64_t id) {
    {
        const std::scoped_lock lock(mutex_);
        cancelled_.push_back(id);
    }
    curl_multi_wakeup(multi_);
}

std::size_t HttpClient::take_body(char* data, std::size_t size, std::size_t count, void* self) {
    Call& call = *static_cast<Call*>(self);
    const std::size_t bytes = size * count;
    call.last_byte = std::chrono::steady_clock::now();
    call.received += bytes;
    if (call.received > call.request.max_body) {
        call.too_large = true;
        return 0;
    }
    if (!call.reply.streamed) {
        call.reply.body.append(data, bytes);
        return bytes;
    }
    bool post = false;
    {
        const std::scoped_lock lock(call.inbox->mutex);
        call.inbox->pending.append(data, bytes);
        post = !std::exchange(call.inbox->posted, true);
    }
    if (post)
        call.wake();
    return bytes;
}

std::size_t HttpClient::take_header(char* data, std::size_t size, std::size_t count, void* self) {
    Call& call = *static_cast<Call*>(self);
    const std::string_view line(data, size * count);
    call.last_byte = std::chrono::steady_clock::now();
    if (line.starts_with(
            "HTTP/")) {  // a new response: what came before was 100 Continue or the proxy's
        call.reply.headers.clear();
        const std::size_t space = line.find(' ');
        call.reply.status = 0;
        for (std::size_t at = space + 1; at < line.size() && line[at] >= '0' && line[at] <= '9';
             ++at)
            call.reply.status = call.reply.status * 10 + (line[at] - '0');
        return line.size();
    }
    if (const std::size_t colon = line.find(':'); colon != std::string_view::npos) {
        std::string name = lower(trim(line.substr(0, colon)));
        std::string value(trim(line.substr(colon + 1)));
        if (name == "content-type")
            call.reply.streamed = call.inbox != nullptr && call.reply.status == 200 &&
                                  lower(value).starts_with("text/event-stream");
        if (call.reply.headers.size() < 200)
            call.reply.headers.emplace_back(std::move(name), std::move(value));
    }
    return line.size();
}

void HttpClient::begin(std::unique_ptr<Call> call) {
    CURL* easy = curl_easy_init();
    CHECK(easy != nullptr);
    Call* const self = call.get();
    const HttpRequest& request = call->request;
    // No "Expect: 100-continue": it costs a second wherever a server does not know it.
    call->headers = curl_slist_append(nullptr, "Expect:");
    for (const std::string& header : request.headers)
        call->headers = curl_slist_append(call->headers, header.c_str());
    const auto milliseconds = [](std::chrono::milliseconds value) {
        return static_cast<long>(std::max<std::int64_t>(value.count(), 1));
    };
    curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    if (!request.get) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.data());
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                         static_cast<curl_off_t>(request.body.size()));
    }
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "loopscope");
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(request.connect_timeout));
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, milliseconds(request.total_timeout));
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &HttpClient::take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, self);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &HttpClient::take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, self);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, self->error);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    if (request.url.starts_with("https:"))
        curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);  // many streams on one HTTP/2 connection
    if (is_loopback(request.url))
        curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    if (!certificates_.empty())
        curl_easy_setopt(easy, CURLOPT_CAINFO, certificates_.c_str());
    self->last_byte = std::chrono::steady_clock::now();
    active_.emplace(easy, std::move(call));
    if (curl_multi_add_handle(multi_, easy) != CURLM_OK)
        end(easy, CURLE_FAILED_INIT);
}

std::unique_ptr<HttpClient::Call> HttpClient::remove(CURL* easy) {
    auto node = active_.extract(easy);
    std::unique_ptr<Call> call = std::move(node.mapped());
    curl_multi_remove_handle(multi_, easy);
    curl_easy_cleanup(easy);
    curl_slist_free_all(call->headers);
    call->headers = nullptr;
    return call;
}

void HttpClient::end(CURL* easy, CURLcode code) {
    const std::unique_ptr<Call> call = remove(easy);
    call->reply.fault = call->too_large ? HttpFault::too_large : fault_of(code);
    if (call->reply.fault != HttpFault::none)
        call->reply.error = call->error[0] != '\0' ? call->error : curl_easy_strerror(code);
    call->finish({}, std::move(call->reply));
}

int HttpClient::sweep() {
    const SteadyTime now = std::chrono::steady_clock::now();
    SteadyTime next = now + std::chrono::seconds(10);
    std::vector<std::pair<CURL*, bool>> over;  // (transfer, satisfied)
    for (auto& [easy, call] : active_) {
        if (call->inbox != nullptr && call->inbox->satisfied) {
            if (call->dropped_at == SteadyTime::max())
                call->dropped_at = now + grace;
            if (call->dropped_at <= now)
                over.emplace_back(easy, true);
            else
                next = std::min(next, call->dropped_at);
        } else if (call->request.idle_timeout.count() > 0) {
            const SteadyTime due = call->last_byte + call->request.idle_timeout;
            if (due <= now)
                over.emplace_back(easy, false);
            else
                next = std::min(next, due);
        }
    }
    for (const auto& [easy, satisfied] : over) {
        if (satisfied) {
            end(easy, CURLE_OK);
            continue;
        }
        const std::unique_ptr<Call> call = remove(easy);
        call->reply.fault = HttpFault::idle;
        call->finish({}, std::move(call->reply));
    }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
    return static_cast<int>(std::clamp<std::int64_t>(wait, 0, 10'000));
}

void HttpClient::run(const std::stop_token& stop) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are for the engine's thread
    while (!stop.stop_requested()) {
        std::vector<std::unique_ptr<Call>> fresh;
        std::vector<std::uint64_t> cancelled;
        {
            const std::scoped_lock lock(mutex_);
            fresh.swap(incoming_);
            cancelled.swap(cancelled_);
        }
        for (auto& call : fresh)
            begin(std::move(call));
        for (const std::uint64_t id : cancelled) {
            const auto found =
                std::find_if(active_.begin(), active_.end(),
                             [id](const auto& entry) { return entry.second->id == id; });
            if (found == active_.end())
                continue;  // its answer is already on the way
            const std::unique_ptr<Call> call = remove(found->first);
            call->finish(asio::error::operation_aborted, std::move(call->reply));
        }
        int running = 0;
        curl_multi_perform(multi_, &running);
        int queued = 0;
        while (CURLMsg* message = curl_multi_info_read(multi_, &queued))
            if (message->msg == CURLMSG_DONE)
                end(message->easy_handle, message->data.result);
        curl_multi_poll(multi_, nullptr, 0, sweep(), nullptr);
    }
}

}  // namespace loopscope
