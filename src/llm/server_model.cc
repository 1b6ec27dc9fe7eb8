// openai: and anthropic:, which differ in the form of request and answer (wire.h, answer.h) and
// share the rest: limits, attempts, waiting, prices and the words of an error.
#include "core/check.h"
#include "core/log.h"
#include "core/rng.h"
#include "core/text.h"
#include "llm/answer.h"
#include "llm/http.h"
#include "llm/limits.h"
#include "llm/prices.h"
#include "llm/providers.h"
#include "llm/wire.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace loopscope {

namespace {

struct ServerSettings {
    WireFormat format = WireFormat::chat;
    std::string name;  // of the model, as the server knows it
    std::string id;
    std::string base;          // without a slash at its end
    std::string key_variable;  // where the key came from; "" = none is sent
    std::vector<std::string> headers;
    Sampling sampling;
    bool stream = true;
    int concurrency = 8;
    double requests_per_minute = 0;  // 0 = no limit
    double tokens_per_minute = 0;
    std::chrono::milliseconds timeout{600'000};
    std::chrono::milliseconds idle{300'000};
    int attempts = 6;
    double most_waiting = 300;  // seconds of back-off over all attempts of one call
    std::optional<PriceLine> price;
};

double seconds(Clock::Duration duration) { return std::chrono::duration<double>(duration).count(); }

Clock::Duration duration(double value) {
    return std::chrono::duration_cast<Clock::Duration>(std::chrono::duration<double>(value));
}

// What one attempt brought.
struct Attempt {
    AnswerOr answer;
    std::optional<Clock::Duration> retry_after;
    std::string request_id;
    Dialect dialect;    // as it was when the request was written
    bool slow = false;  // it ended at a time-out: few repeats, for each costs its whole length
    std::string mend;   // overrides the mend that the fault suggests
};

Fault network_fault(std::string message, bool retry) {
    Fault fault;
    fault.fault = ModelFault::network;
    fault.message = std::move(message);
    fault.retry = retry;
    fault.fatal = !retry;
    return fault;
}

bool looks_like_stream(std::string_view body) {
    body = trim(body.substr(0, 100));
    return body.starts_with("data:") || body.starts_with("event:") || body.starts_with(":");
}

// The option by which the user knows a parameter of the wire.
std::string_view option_name(std::string_view parameter) {
    if (parameter == "reasoning_effort" || parameter == "thinking" || parameter == "output_config")
        return "effort";
    return parameter == "max_completion_tokens" ? "max_tokens" : parameter;
}

class ServerModel : public Model {
public:
    ServerModel(ServerSettings settings, const ModelServices& services)
        : settings_(std::move(settings)),
          url_(settings_.base +
               (settings_.format == WireFormat::chat ? "/chat/completions" : "/messages")),
          clock_(*services.clock),
          http_(*services.http),
          slots_(services.loop, static_cast<std::size_t>(settings_.concurrency)) {
        dialect_.stream = settings_.stream;
        // OpenAI's own reasoning models take only the new name, and all its models take it; other
        // servers may know only the old one.
        dialect_.completion_tokens =
            settings_.format == WireFormat::chat && host_of(settings_.base) == "api.openai.com";
        if (settings_.requests_per_minute > 0)
            requests_.emplace(settings_.requests_per_minute, 1);
        if (settings_.tokens_per_minute > 0)
            tokens_.emplace(settings_.tokens_per_minute, 1);
    }

    std::string id() const override { return settings_.id; }
    Sampling sampling() const override { return settings_.sampling; }

    std::optional<double> price(std::int64_t input_tokens,
                                std::int64_t output_tokens) const override {
        if (!settings_.price)
            return std::nullopt;
        Billed billed;
        billed.usage.input_tokens = input_tokens;
        billed.usage.output_tokens = output_tokens;
        billed.usage.known = true;
        return cost_of(*settings_.price, billed);
    }

    awaitable<ModelOutcome> complete(ModelRequest request) override {
        std::vector<std::string> warnings;
        double spent = 0;  // on answers that could not be used
        double waited = 0;
        int sent = 0;
        int slow = 0;
        for (int failures = 0;;) {
            const Clock::Duration start = clock_.now();
            Attempt attempt = co_await take_turn(request);
            ++sent;
            if (attempt.answer) {
                ModelReply reply = std::move(attempt.answer->reply);
                reply.cost = cost(attempt.answer->billed);
                if (reply.cost)
                    *reply.cost += spent;
                reply.attempts = sent;
                reply.latency_seconds = seconds(clock_.now() - start);
                std::vector<std::string> left_out = left_out_warnings(request, attempt.dialect);
                reply.warnings.insert(reply.warnings.end(), left_out.begin(), left_out.end());
                reply.warnings.insert(reply.warnings.end(), warnings.begin(), warnings.end());
                co_return reply;
            }
            const Fault& fault = attempt.answer.error();
            if (!fault.parameter.empty() && learn(request, attempt.dialect, fault))
                continue;  // not a failure: the next request is a different one
            const double paid = cost(fault.billed).value_or(0);
            spent += paid;
            if (fault.fault == ModelFault::answer)
                warnings.push_back(
                    fmt::format("request {}: {}{}", sent, redacted(fault.message),
                                paid > 0 ? fmt::format(" (charged ${:.4f})", paid) : ""));
            ++failures;
            slow += attempt.slow ? 1 : 0;
            std::string gave_up;
            double pause = 0;
            if (fault.retry) {
                const std::uint64_t bits = Rng(request.messages.size()).fork(request.draw).seed() ^
                                           (next_jitter_++ * 0x9E3779B97F4A7C15ULL);
                pause = attempt.retry_after ? seconds(*attempt.retry_after)
                                            : seconds(backoff(failures, mix64(bits)));
                if (failures >= settings_.attempts || slow >= 3)
                    gave_up = fmt::format("given up after {} attempts", failures);
                else if (waited + pause > settings_.most_waiting)
                    gave_up = fmt::format(
                        "the next attempt would be in {:.0f} s, more waiting than wait={:.0f} "
                        "allows",
                        pause, settings_.most_waiting);
            }
            if (!fault.retry || !gave_up.empty()) {
                ModelError error;
                error.fault = fault.fault;
                error.http_status = fault.status;
                error.attempts = sent;
                error.fatal = fault.fatal;
                error.cost = spent;
                std::string offered;
                if (fault.fault == ModelFault::model_name)
                    offered = co_await offered_models();
                error.message = explain(attempt, gave_up, offered);
                co_return tl::unexpected(std::move(error));
            }
            report_wait(fault, pause, failures);
            waited += pause;
            if (attempt.retry_after)  // it holds for all calls of this model, not only for this one
                pause_until_ = std::max(pause_until_, clock_.now() + *attempt.retry_after);
            co_await clock_.sleep(duration(pause));
        }
    }

private:
    // Takes back what a reservation of tokens had too much when the call is over, however it ends.
    struct Reservation {
        std::optional<TokenBucket>& bucket;
        double tokens;
        ~Reservation() {
            if (bucket)
                bucket->give_back(tokens);
        }
    };

    // Waits for a slot and for the rates, and asks. The slot is given back before any back-off.
    awaitable<Attempt> take_turn(const ModelRequest& request) {
        const Permit permit = co_await slots_.acquire();
        while (clock_.now() < pause_until_)
            co_await clock_.sleep(pause_until_ - clock_.now());
        Clock::Duration wait{0};
        if (requests_)
            wait = requests_->reserve(1, clock_.now());
        Reservation reservation{tokens_, 0};
        if (tokens_) {
            reservation.tokens = expected_tokens(request);
            wait = std::max(wait, tokens_->reserve(reservation.tokens, clock_.now()));
        }
        if (wait > Clock::Duration{0})
            co_await clock_.sleep(wait);
        Attempt attempt = co_await ask(request);
        const Usage& usage =
            attempt.answer ? attempt.answer->billed.usage : attempt.answer.error().billed.usage;
        if (usage.known) {
            reservation.tokens -= static_cast<double>(usage.input_tokens + usage.output_tokens);
            mean_output_ += (static_cast<double>(usage.output_tokens) - mean_output_) /
                            static_cast<double>(++answers_seen_);
        } else if (attempt.answer) {
            reservation.tokens = 0;  // nobody says what it took: the estimate stands
        }
        co_return attempt;
    }

    // Four bytes a token is the usual rule for English and code; the output is taken to be like
    // those so far.
    double expected_tokens(const ModelRequest& request) const {
        std::size_t bytes = 0;
        for (const Message& message : request.messages)
            bytes += message.content.size();
        const double most = request.sampling.max_tokens;
        return static_cast<double>(bytes) / 4 +
               (answers_seen_ == 0 ? std::min(most, 2048.0) : mean_output_);
    }

    awaitable<Attempt> ask(const ModelRequest& request) {
        Attempt attempt{.answer = tl::unexpected(Fault{}),
                        .retry_after = {},
                        .request_id = {},
                        .dialect = dialect_,
                        .slow = false,
                        .mend = {}};
        AnswerStream stream(settings_.format);
        HttpRequest http;
        http.url = url_;
        http.body = request_body(settings_.format, settings_.name, request, attempt.dialect);
        http.headers = settings_.headers;
        http.total_timeout = settings_.timeout;
        http.idle_timeout = settings_.idle;
        http.on_event_bytes = [&stream](std::string_view bytes) {
            stream.feed(bytes);
            return !stream.complete();
        };
        const HttpReply reply = co_await http_.send(std::move(http));
        attempt.request_id = header_of(reply, "x-request-id");
        if (attempt.request_id.empty())
            attempt.request_id = header_of(reply, "request-id");
        attempt.retry_after = retry_after(reply);
        if (reply.streamed) {
            attempt.answer = stream.finish();
            if (!attempt.answer && !stream.complete() && reply.fault != HttpFault::none) {
                const Billed billed = attempt.answer.error().billed;
                take_network_fault(reply, attempt);
                attempt.answer.error().billed = billed;
            }
        } else if (reply.fault != HttpFault::none) {
            take_network_fault(reply, attempt);
        } else if (reply.status >= 200 && reply.status < 300) {
            attempt.answer = looks_like_stream(reply.body)
                                 ? parse_answer_stream(settings_.format, reply.body)
                                 : parse_answer(settings_.format, reply.body);
        } else {
            attempt.answer =
                tl::unexpected(parse_fault(static_cast<int>(reply.status), reply.body));
            if (reply.status >= 300 && reply.status < 400)
                attempt.answer.error().message =
                    fmt::format("it redirects to {}", one_line(header_of(reply, "location"), 200));
        }
        co_return attempt;
    }

    std::optional<Clock::Duration> retry_after(const HttpReply& reply) {
        if (const std::string_view text = header_of(reply, "retry-after-ms"); !text.empty())
            if (const auto wait = parse_retry_after(text, clock_.unix_milliseconds()))
                return *wait / 1000;
        return parse_retry_after(header_of(reply, "retry-after"), clock_.unix_milliseconds());
    }

    void take_network_fault(const HttpReply& reply, Attempt& attempt) {
        const double total = std::chrono::duration<double>(settings_.timeout).count();
        const double idle = std::chrono::duration<double>(settings_.idle).count();
        Fault fault;
        switch (reply.fault) {
            case HttpFault::timeout:
                attempt.slow = true;
                fault = network_fault(
                    fmt::format("no whole answer within {:g} s ({})", total, reply.error), true);
                attempt.mend = "Raise timeout= if the model needs longer.";
                break;
            case HttpFault::idle:
                attempt.slow = true;
                fault = network_fault(fmt::format("silence for {:g} s", idle), true);
                attempt.mend =
                    "Raise idle= if the model thinks that long without sending anything.";
                break;
            case HttpFault::resolve:
                fault = network_fault("the host is not known: " + reply.error, true);
                attempt.mend = "Check the host in base= and the network.";
                break;
            case HttpFault::connect:
                fault = network_fault("no connection: " + reply.error, true);
                attempt.mend = is_loopback(url_)
                                   ? "Is the server running? Check the port in base=."
                                   : "Check base=, the network and the proxy settings.";
                break;
            case HttpFault::tls:
                fault = network_fault("no trusted connection: " + reply.error, false);
                attempt.mend = "CURL_CA_BUNDLE names the certificates of a private authority.";
                break;
            case HttpFault::bad_url:
                fault = network_fault("not a usable URL: " + reply.error, false);
                attempt.mend = "Check base=.";
                break;
            case HttpFault::too_large:
                fault = network_fault("an answer of more than 64 MiB", false);
                fault.fault = ModelFault::answer;
                fault.fatal = false;
                break;
            case HttpFault::cut:
            case HttpFault::other:
            case HttpFault::none:
                fault = network_fault("the connection broke: " + reply.error, true);
                attempt.mend = "Check the network and the proxy settings.";
                break;
        }
        fault.status = static_cast<int>(reply.status);
        attempt.answer = tl::unexpected(std::move(fault));
    }

    // Takes from a refusal how this server wants to be asked. False when there is nothing left to
    // change.
    bool learn(const ModelRequest& request, const Dialect& used, const Fault& fault) {
        const std::string& name = fault.parameter;
        if (!sends(settings_.format, request, used, name))
            return false;
        if (name == "stream") {
            dialect_.stream = false;
            return true;
        }
        const bool limit = name == "max_tokens" || name == "max_completion_tokens";
        if (limit && settings_.format == WireFormat::messages)
            return false;  // required there
        if (limit && dialect_.completion_tokens != used.completion_tokens)
            return true;  // another call has learnt it in the meantime
        if (limit && !limit_renamed_) {
            limit_renamed_ = true;
            dialect_.completion_tokens = !used.completion_tokens;
            return true;
        }
        if (name == "thinking" || name == "output_config") {  // each means little without the other
            dialect_.refused.insert("thinking");
            dialect_.refused.insert("output_config");
        }
        if (dialect_.refused.insert(name).second)
            log_warn(fmt::format("{} does not take {}: it is sent without it ({})", settings_.id,
                                 option_name(name), redacted(fault.message)));
        return true;
    }

    // What this call was sent without, for the record: in every reply that it concerns, whoever
    // learnt it.
    std::vector<std::string> left_out_warnings(const ModelRequest& request,
                                               const Dialect& used) const {
        Dialect all = used;
        all.refused.clear();
        std::set<std::string_view> names;
        for (const std::string& name : used.refused)
            if (sends(settings_.format, request, all, name))
                names.insert(option_name(name));
        if (settings_.format == WireFormat::messages && request.sampling.seed)
            names.insert("seed");
        std::vector<std::string> out;
        for (const std::string_view name : names)
            out.push_back(fmt::format("{} is not accepted by this model: sent without it", name));
        return out;
    }

    std::optional<double> cost(const Billed& billed) const {
        if (billed.dollars && !is_loopback(url_))
            return billed.dollars;
        return settings_.price ? cost_of(*settings_.price, billed) : std::nullopt;
    }

    // One line now and then, so that nobody wonders why nothing moves; not one for each of many
    // waiting calls.
    void report_wait(const Fault& fault, double pause, int failures) {
        const Clock::Duration now = clock_.now();
        if (reported_ && now - *reported_ < std::chrono::seconds(30))
            return;
        reported_ = now;
        log_warn(fmt::format("{}: {}{}; asking again in {:.1f} s (attempt {} of {})", settings_.id,
                             fault.status >= 400 ? fmt::format("HTTP {}: ", fault.status) : "",
                             redacted(fault.message), pause, failures + 1, settings_.attempts));
    }

    // " The server offers ...": asked once, when the name turns out to be wrong.
    awaitable<std::string> offered_models() {
        if (std::exchange(offer_asked_, true))
            co_return std::string{};
        HttpRequest http;
        http.url = settings_.base + "/models";
        http.get = true;
        http.headers = settings_.headers;
        http.total_timeout = std::chrono::seconds(20);
        const HttpReply reply = co_await http_.send(std::move(http));
        const nlohmann::json parsed = nlohmann::json::parse(reply.body, nullptr, false);
        std::vector<std::string> names;
        if (reply.status == 200 && parsed.is_object() && parsed.contains("data") &&
            parsed["data"].is_array())
            for (const nlohmann::json& entry : parsed["data"])
                if (entry.is_object() && entry.contains("id") && entry["id"].is_string())
                    names.push_back(one_line(entry["id"].get<std::string>(), 80));
        if (names.empty())
            co_return std::string{};
        const std::string near = nearest(settings_.name, names);
        if (!near.empty())
            co_return " Did you mean " + near + "?";
        const std::size_t shown = std::min<std::size_t>(names.size(), 8);
        co_return fmt::format(
            " The server offers {}{}.",
            fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
            names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "");
    }

    std::string mend(const Fault& fault) const {
        switch (fault.fault) {
            case ModelFault::key:
                return settings_.key_variable.empty() ? "No key was sent: name the environment "
                                                        "variable that holds it with key=NAME."
                                                      : fmt::format(
                                                            "The key in {} was not accepted: check "
                                                            "it, or name another variable with "
                                                            "key=NAME.",
                                                            settings_.key_variable);
            case ModelFault::model_name:
                return fmt::format("Check the name \"{}\".", settings_.name);
            case ModelFault::network:
                return "Check base= (it usually ends in /v1).";
            case ModelFault::quota:
                return fault.fatal
                           ? "The account has no credit or quota left: add some, or use another "
                             "key."
                           : "Lower concurrency=, or set rpm= or tpm= to the account's limits.";
            case ModelFault::length:
                return "The prompt is longer than the model takes: shorten it, lower max_tokens=, "
                       "or take a model "
                       "with a longer context.";
            case ModelFault::content:
                return "The provider's filter does not let this prompt through.";
            case ModelFault::parameter:
                return "Change or remove the option it names.";
            case ModelFault::server:
                return "The fault is on the server's side: try again later.";
            case ModelFault::answer:
                return "If this persists, check base= and whether the server speaks this format.";
            case ModelFault::cancelled:
                return {};
        }
        return {};
    }

    std::string explain(const Attempt& attempt, const std::string& gave_up,
                        const std::string& offered) const {
        const Fault& fault = attempt.answer.error();
        std::string out = settings_.id + ": ";
        if (fault.status >= 300)
            out += fmt::format("HTTP {} from {}: {}", fault.status, url_, fault.message);
        else
            out += fmt::format("{} from {}", fault.message, url_);
        if (!attempt.request_id.empty())
            out += fmt::format(" (request {})", one_line(attempt.request_id, 80));
        if (!gave_up.empty())
            out += "; " + gave_up;
        out += out.ends_with('.') ? " " : ". ";
        out += (attempt.mend.empty() ? mend(fault) : attempt.mend) + offered;
        return redacted(out);
    }

    const ServerSettings settings_;
    const std::string url_;
    Clock& clock_;
    HttpClient& http_;
    Limiter slots_;
    std::optional<TokenBucket> requests_, tokens_;
    Dialect dialect_;
    bool limit_renamed_ = false;
    bool offer_asked_ = false;
    Clock::Duration pause_until_{Clock::Duration::min()};
    std::optional<Clock::Duration> reported_;
    std::uint64_t next_jitter_ = 0;
    double mean_output_ = 0;
    std::int64_t answers_seen_ = 0;
};

Result<std::string> base_url(const Specification& specification, WireFormat format) {
    const std::string where = "model " + specification.text;
    const std::string* const given = specification.find("base");
    std::string base = given == nullptr
                           ? (format == WireFormat::chat ? "https://api.openai.com/v1"
                                                         : "https://api.anthropic.com/v1")
                           : *given;
    const std::string_view tail = format == WireFormat::chat ? "/chat/completions" : "/messages";
    while (base.ends_with('/'))
        base.pop_back();
    if (base.ends_with(tail))
        base.erase(base.size() - tail.size());
    if ((!base.starts_with("http://") && !base.starts_with("https://")) || host_of(base).empty())
        return fail(
            where,
            "base=" + base + " must be an http:// or https:// URL, e.g. http://localhost:8000/v1");
    if (base.find_first_of("@?# ") != std::string::npos)
        return fail(
            where,
            "base= must hold host, port and path only; a key belongs into an environment variable "
            "named with key=");
    if (format == WireFormat::messages && !base.ends_with("/v1"))
        base += "/v1";
    return base;
}

// The key, and in `settings` where it came from. A key goes only where the user can expect it: to
// HTTPS and, when key= is written, anywhere.
Result<std::string> find_key(const Specification& specification, ServerSettings& settings) {
    const std::string where = "model " + specification.text;
    const std::string* const named = specification.find("key");
    if (named != nullptr && *named == "none")
        return std::string{};
    if (named == nullptr && !settings.base.starts_with("https://"))
        return std::string{};
    const std::string variable =
        named != nullptr
            ? *named
            : (settings.format == WireFormat::chat ? "OPENAI_API_KEY" : "ANTHROPIC_API_KEY");
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing in this program writes the environment
    const char* const value = std::getenv(variable.c_str());
    std::string key(trim(value == nullptr ? "" : value));
    if (key.empty()) {
        const bool looks_like_key =
            named != nullptr && (variable.starts_with("sk-") || variable.size() > 40);
        if (looks_like_key) {
            redact(variable);
            return fail("model",
                        "key= takes the NAME of an environment variable, not the key itself");
        }
        return fail(
            where,
            fmt::format("the environment variable {} is not set: export it, or name another with "
                        "key=NAME (key=none for a server without one)",
                        variable));
    }
    if (std::any_of(key.begin(), key.end(), [](char c) { return c <= ' ' || c == 0x7F; }))
        return fail(where, variable + " holds blanks or control characters: it is not a key");
    redact(key);
    settings.key_variable = variable;
    return key;
}

}  // namespace

Result<std::unique_ptr<Model>> open_server(const Specification& specification,
                                           const ModelServices& services) {
    ServerSettings settings;
    settings.format = specification.provider == "openai" ? WireFormat::chat : WireFormat::messages;
    const bool chat = settings.format == WireFormat::chat;
    settings.name = specification.subject;

    std::vector<std::string> accepted{"base",      "key",    "temperature", "top_p", "max_tokens",
                                      "effort",    "stream", "concurrency", "rpm",   "tpm",
                                      "timeout",   "idle",   "attempts",    "wait",  "price_in",
                                      "price_out", "as"};
    if (chat)
        accepted.emplace_back("seed");
    if (const Result<void> options = check_options(specification, accepted); !options)
        return tl::unexpected(options.error());

    Result<std::string> base = base_url(specification, settings.format);
    if (!base)
        return tl::unexpected(base.error());
    settings.base = std::move(*base);
    const Result<std::string> key = find_key(specification, settings);
    if (!key)
        return tl::unexpected(key.error());
    settings.headers.emplace_back("Content-Type: application/json");
    if (!chat)
        settings.headers.emplace_back("anthropic-version: 2023-06-01");
    if (!key->empty())
        settings.headers.push_back((chat ? "Authorization: Bearer " : "x-api-key: ") + *key);

    Result<Sampling> sampling = sampling_options(specification, chat ? 2 : 1);
    if (!sampling)
        return tl::unexpected(sampling.error());
    settings.sampling = std::move(*sampling);

    const Result<bool> stream = switch_option(specification, "stream", true);
    const Result<std::int64_t> concurrency =
        integer_option(specification, "concurrency", 8, 1, 1000);
    const Result<double> rpm = number_option(specification, "rpm", 0, 0.1, 1e6);
    const Result<double> tpm = number_option(specification, "tpm", 0, 1, 1e9);
    const Result<double> timeout = number_option(specification, "timeout", 600, 0.05, 86'400);
    const Result<double> idle = number_option(specification, "idle", 300, 0.05, 86'400);
    const Result<std::int64_t> attempts = integer_option(specification, "attempts", 6, 1, 100);
    const Result<double> wait = number_option(specification, "wait", 300, 0, 86'400);
    const Result<double> price_in = number_option(specification, "price_in", 0, 0, 1e6);
    const Result<double> price_out = number_option(specification, "price_out", 0, 0, 1e6);
    for (const Error* error :
         {stream ? nullptr : &stream.error(), concurrency ? nullptr : &concurrency.error(),
          rpm ? nullptr : &rpm.error(), tpm ? nullptr : &tpm.error(),
          timeout ? nullptr : &timeout.error(), idle ? nullptr : &idle.error(),
          attempts ? nullptr : &attempts.error(), wait ? nullptr : &wait.error(),
          price_in ? nullptr : &price_in.error(), price_out ? nullptr : &price_out.error()})
        if (error != nullptr)
            return tl::unexpected(*error);
    settings.stream = *stream;
    settings.concurrency = static_cast<int>(*concurrency);
    settings.requests_per_minute = *rpm;
    settings.tokens_per_minute = *tpm;
    settings.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(*timeout * 1000));
    settings.idle = std::chrono::milliseconds(static_cast<std::int64_t>(*idle * 1000));
    settings.attempts = static_cast<int>(*attempts);
    settings.most_waiting = *wait;

    const bool has_in = specification.find("price_in") != nullptr;
    const bool has_out = specification.find("price_out") != nullptr;
    if (has_in != has_out)
        return fail("model " + specification.text,
                    "price_in= and price_out= (dollars per million tokens) belong together");
    const std::string host = host_of(settings.base);
    if (has_in) {
        PriceLine line;
        line.input = line.cached = line.cache_write = *price_in;
        line.output = *price_out;
        settings.price = line;
    } else {
        std::vector<PriceLine> lines;
        if (!services.price_file.empty()) {
            Result<std::vector<PriceLine>> own = read_prices(services.price_file);
            if (!own)
                return tl::unexpected(own.error());
            lines = std::move(*own);
        }
        if (!is_loopback(settings.base)) {
            const std::vector<PriceLine> shipped = prices();
            lines.insert(lines.end(), shipped.begin(), shipped.end());
        }
        if (const PriceLine* line = find_price(lines, host, settings.name))
            settings.price = *line;
    }

    const std::string* const as = specification.find("as");
    settings.id =
        as != nullptr && !as->empty() ? *as : specification.provider + ":" + settings.name;
    CHECK(services.clock != nullptr && services.http != nullptr);
    return std::make_unique<ServerModel>(std::move(settings), services);
}

}  // namespace loopscope
