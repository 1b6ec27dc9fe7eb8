#include "llm/answer.h"

#include "core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace loopscope {

using nlohmann::json;

namespace {

// ---- reading JSON that nobody promised ----

const json& member(const json& object, const char* key) {
    static const json missing;
    if (!object.is_object())
        return missing;
    const auto found = object.find(key);
    return found == object.end() ? missing : *found;
}

std::string text_of(const json& value) {
    return value.is_string() ? value.get<std::string>() : std::string{};
}

// A count; 0 for what is none. Counts beyond 2^53 are nonsense and would spoil sums.
std::int64_t count_of(const json& value) {
    if (!value.is_number())
        return 0;
    const double number = value.get<double>();
    if (!(number > 0) || number > 9e15)
        return 0;
    return static_cast<std::int64_t>(number);
}

// A message's content: a string, or a list of parts of which some are text and some are thinking.
void add_content(const json& content, std::string& text, std::string& reasoning) {
    if (content.is_string()) {
        text += content.get_ref<const std::string&>();
        return;
    }
    if (!content.is_array())
        return;
    for (const json& part : content) {
        const std::string type = text_of(member(part, "type"));
        if (type == "text") {
            text += text_of(member(part, "text"));
        } else if (type == "thinking") {
            std::string ignored;
            add_content(member(part, "thinking"), reasoning, ignored);
        }
    }
}

void add_reasoning(const json& message, std::string& reasoning) {
    for (const char* name : {"reasoning_content", "reasoning"})
        if (const json& value = member(message, name); value.is_string()) {
            reasoning += value.get_ref<const std::string&>();
            return;  // a server that sends both sends the same text twice
        }
}

void read_chat_usage(const json& usage, Billed& billed) {
    if (!usage.is_object())
        return;
    Usage& out = billed.usage;
    out.input_tokens = count_of(member(usage, "prompt_tokens"));
    out.output_tokens = count_of(member(usage, "completion_tokens"));
    out.cached_tokens = count_of(member(member(usage, "prompt_tokens_details"), "cached_tokens"));
    if (out.cached_tokens == 0)
        out.cached_tokens = count_of(member(usage, "prompt_cache_hit_tokens"));
    out.reasoning_tokens =
        count_of(member(member(usage, "completion_tokens_details"), "reasoning_tokens"));
    // Most servers count reasoning within the completion; where the total shows that they do not,
    // add it.
    const std::int64_t total = count_of(member(usage, "total_tokens"));
    if (out.reasoning_tokens > 0 &&
        total == out.input_tokens + out.output_tokens + out.reasoning_tokens)
        out.output_tokens += out.reasoning_tokens;
    out.cached_tokens = std::min(out.cached_tokens, out.input_tokens);
    out.known = out.input_tokens > 0 || out.output_tokens > 0;
    if (const json& cost = member(usage, "cost"); cost.is_number() && cost.get<double>() >= 0)
        billed.dollars = cost.get<double>();
}

// Called for the start of a message and for each delta: counts are cumulative, a later one
// replaces.
void read_messages_usage(const json& usage, Billed& billed) {
    if (!usage.is_object())
        return;
    Usage& out = billed.usage;
    if (usage.contains("input_tokens")) {
        const std::int64_t read = count_of(member(usage, "cache_read_input_tokens"));
        const std::int64_t written = count_of(member(usage, "cache_creation_input_tokens"));
        out.input_tokens = count_of(member(usage, "input_tokens")) + read + written;
        out.cached_tokens = read;
        billed.cache_write_tokens = written;
    }
    if (usage.contains("output_tokens"))
        out.output_tokens = count_of(member(usage, "output_tokens"));
    out.known = out.input_tokens > 0 || out.output_tokens > 0;
}

std::string plain_reason(std::string reason) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 12> meanings{{
        {"end_turn", "stop"},
        {"stop_sequence", "stop"},
        {"eos", "stop"},
        {"eos_token", "stop"},
        {"max_tokens", "length"},
        {"model_length", "length"},
        {"model_context_window_exceeded", "length"},
        {"tool_use", "tool_calls"},
        {"refusal", "content_filter"},
        {"safety", "content_filter"},
        {"SAFETY", "content_filter"},
        {"sensitive", "content_filter"},
    }};
    for (const auto& [theirs, ours] : meanings)
        if (reason == theirs)
            return std::string(ours);
    return reason;
}

Fault unusable(std::string message, Billed billed = {}) {
    return Fault{.fault = ModelFault::answer,
                 .message = std::move(message),
                 .status = 200,
                 .retry = true,
                 .fatal = false,
                 .parameter = {},
                 .billed = billed};
}

// What both formats do last: thinking apart, warnings, and the answers that are none.
AnswerOr conclude(Answer answer, const std::string& refusal) {
    ModelReply& reply = answer.reply;
    split_thinking(reply.text, reply.reasoning);
    reply.finish_reason = plain_reason(std::move(reply.finish_reason));
    reply.usage = answer.billed.usage;
    if (!refusal.empty()) {
        reply.warnings.push_back("the model refused: " + one_line(refusal, 200));
        if (reply.text.empty())
            reply.text = refusal;
        reply.finish_reason = "content_filter";
    }
    if (reply.finish_reason == "error" || reply.finish_reason == "insufficient_system_resource") {
        Fault fault = unusable("the server broke off with the finish reason " + reply.finish_reason,
                               answer.billed);
        fault.fault = ModelFault::server;
        return tl::unexpected(std::move(fault));
    }
    const bool blank = trim(reply.text).empty();
    if (reply.finish_reason == "length") {
        const std::string size =
            reply.usage.known ? fmt::format(" after {} output tokens", reply.usage.output_tokens)
                              : "";
        reply.warnings.push_back(blank ? "the output limit was reached" + size +
                                             " before the answer began: raise max_tokens="
                                       : "the answer was cut at the output limit" + size +
                                             ": raise max_tokens=");
        return answer;
    }
    if (reply.finish_reason == "content_filter") {
        if (refusal.empty())
            reply.warnings.emplace_back(
                blank ? "the provider's content filter withheld the answer"
                      : "the provider's content filter or the model's refusal ended the answer");
        return answer;
    }
    if (blank)
        return tl::unexpected(unusable(reply.reasoning.empty()
                                           ? "an empty answer"
                                           : "an answer that is all reasoning and no text",
                                       answer.billed));
    return answer;
}

// ---- faults ----

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z')
            c = static_cast<char>(c - 'A' + 'a');
    return out;
}

bool has(std::string_view text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

template <std::size_t N>
bool has_any(std::string_view text, const std::array<std::string_view, N>& parts) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](std::string_view part) { return has(text, part); });
}

bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::size_t find_word(std::string_view text, std::string_view word) {
    for (std::size_t at = text.find(word); at != std::string_view::npos;
         at = text.find(word, at + 1)) {
        const bool left = at == 0 || !is_word(text[at - 1]);
        const std::size_t end = at + word.size();
        if (left && (end == text.size() || !is_word(text[end])))
            return at;
    }
    return std::string_view::npos;
}

// The parameters we may send and can do without, by their name on the wire.
constexpr std::array<std::string_view, 10> parameters{
    "temperature",           "top_p",         "seed",   "reasoning_effort", "max_tokens",
    "max_completion_tokens", "output_config", "stream", "stream_options",   "thinking"};

std::string refused_parameter(const std::string& param, const std::string& code,
                              const std::string& message) {
    static constexpr std::array<std::string_view, 12> refusals{
        "unsupported",  "not supported", "does not support", "unknown",
        "unrecognized", "unexpected",    "not permitted",    "not allowed",
        "no longer",    "deprecated",    "cannot both",      "unavailable"};
    if (!has_any(message, refusals) && !has(code, "unsupported") && !has(code, "unknown_parameter"))
        return {};
    for (const std::string_view name : parameters)
        if (param == name)
            return std::string(name);
    if (has(message, "both") && find_word(message, "temperature") != std::string::npos &&
        find_word(message, "top_p") != std::string::npos)
        return "top_p";
    std::string_view first;
    std::size_t where = std::string::npos;
    for (const std::string_view name : parameters)
        if (const std::size_t at = find_word(message, name); at < where) {
            where = at;
            first = name;
        }
    return std::string(first);
}

struct ErrorBody {
    std::string message, type, code, param;
    int status = 0;  // a numeric code that looks like an HTTP status
};

ErrorBody read_error_body(std::string_view body) {
    ErrorBody out;
    const json parsed = json::parse(body, nullptr, false);
    if (parsed.is_discarded()) {
        const std::string start = lower(trim(body.substr(0, 200)));
        out.message = start.starts_with("<!doctype") || start.starts_with("<html")
                          ? "a web page instead of JSON: " + one_line(body, 120)
                          : one_line(body);
        return out;
    }
    const json& object = parsed.is_array() && !parsed.empty() ? parsed.front() : parsed;
    const json& nested = member(object, "error");
    const json& error = nested.is_object() ? nested : object;
    if (nested.is_string())
        out.message = nested.get<std::string>();
    for (const char* name : {"message", "detail", "msg", "error_description"})
        if (out.message.empty() && !member(error, name).is_null()) {
            const json& value = member(error, name);
            out.message = value.is_string()
                              ? value.get<std::string>()
                              : value.dump(-1, ' ', false, json::error_handler_t::replace);
        }
    // OpenRouter wraps what the provider behind it said.
    const std::string raw = text_of(member(member(error, "metadata"), "raw"));
    if (!raw.empty())
        out.message += ": " + raw;
    if (out.message.empty())
        out.message = std::string(body.substr(0, 1000));
    out.message = one_line(out.message);
    out.type = lower(text_of(member(error, "type")));
    if (out.type.empty() || out.type == "error")
        out.type += lower(text_of(member(error, "status")));
    const json& code = member(error, "code");
    out.code = lower(text_of(code));
    if (code.is_number_integer()) {
        const std::int64_t number = count_of(code);
        if (number >= 400 && number < 600)
            out.status = static_cast<int>(number);
    }
    out.param = text_of(member(error, "param"));
    return out;
}

int status_of_type(const std::string& type) {
    static constexpr std::array<std::pair<std::string_view, int>, 12> meanings{{
        {"rate_limit", 429},
        {"resource_exhausted", 429},
        {"overloaded", 529},
        {"authentication", 401},
        {"permission", 403},
        {"billing", 402},
        {"not_found", 404},
        {"too_large", 413},
        {"invalid_request", 400},
        {"api_error", 500},
        {"server_error", 500},
        {"timeout", 504},
    }};
    for (const auto& [part, status] : meanings)
        if (has(type, part))
            return status;
    return 0;
}

}  // namespace

std::string one_line(std::string_view text, std::size_t bytes) {
    std::string out;
    bool space = false;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte <= 0x20 || byte == 0x7F) {
            space = !out.empty();
            continue;
        }
        if (std::exchange(space, false))
            out += ' ';
        out += c;
        if (out.size() > bytes + 8)
            break;
    }
    if (out.size() <= bytes)
        return out;
    std::size_t end = bytes;
    while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xC0U) == 0x80U)
        --end;
    out.resize(end);
    return out + "...";
}

void split_thinking(std::string& text, std::string& reasoning) {
    static constexpr std::string_view opening = "<think>";
    static constexpr std::string_view closing = "</think>";
    const std::size_t start = text.find_first_not_of(" \t\r\n");
    if (start == std::string::npos)
        return;
    const bool opened = std::string_view(text).substr(start).starts_with(opening);
    const std::size_t end = text.find(closing);
    if (!opened && (end == std::string::npos || text.find(opening) < end || text.find("```") < end))
        return;
    const std::size_t from = opened ? start + opening.size() : start;
    const std::size_t length = end == std::string::npos ? std::string::npos : end - from;
    const std::string thought(trim(std::string_view(text).substr(from, length)));
    if (!reasoning.empty() && !thought.empty())
        reasoning += '\n';
    reasoning += thought;
    text.erase(0, end == std::string::npos ? std::string::npos : end + closing.size());
    text.erase(0, std::min(text.find_first_not_of("\r\n \t"), text.size()));
}

Fault parse_fault(int http_status, std::string_view body) {
    const ErrorBody error = read_error_body(body);
    const std::string message = lower(error.message);
    int status = http_status;
    if (http_status < 400) {
        status = error.status != 0 ? error.status : status_of_type(error.type + " " + error.code);
        if (status == 0)
            status = http_status;
    }
    Fault out;
    out.message = error.message.empty() ? "no explanation in the body" : error.message;
    out.status = status;
    const auto is = [&](ModelFault fault, bool retry, bool fatal) {
        out.fault = fault;
        out.retry = retry;
        out.fatal = fatal;
        return out;
    };
    static constexpr std::array<std::string_view, 4> spent{
        "credit balance is too low", "insufficient balance", "insufficient credits",
        "billing hard limit"};
    static constexpr std::array<std::string_view, 3> bad_key{"api key not valid", "invalid api key",
                                                             "incorrect api key"};
    static constexpr std::array<std::string_view, 8> too_long{
        "context length",     "maximum context",
        "context window",     "context size",
        "prompt is too long", "too many tokens",
        "input is too long",  "exceeds the maximum number of tokens"};
    static constexpr std::array<std::string_view, 4> filtered{
        "content management policy", "content filter", "content_filter", "content policy"};
    static constexpr std::array<std::string_view, 7> no_model{
        "not found",     "does not exist", "not exist",    "not a valid model",
        "invalid model", "unknown model",  "no such model"};

    if (status == 402 || error.code == "insufficient_quota" || error.type == "insufficient_quota" ||
        error.code == "billing_hard_limit_reached" || has_any(message, spent))
        return is(ModelFault::quota, false, true);
    if (status == 429)
        return is(ModelFault::quota, true, false);
    if (status >= 400 && status < 500 && error.code == "model_not_found")
        return is(ModelFault::model_name, false,
                  true);  // OpenAI: 403 where the account has no access
    if (status == 401 || status == 403 || error.code == "invalid_api_key" ||
        has_any(message, bad_key))
        return is(ModelFault::key, false, true);
    if (status >= 400 && status < 500) {
        if (find_word(message, "model") != std::string::npos &&
            (has_any(message, no_model) || (status == 404 && has(error.type, "not_found"))))
            return is(ModelFault::model_name, false, true);
        if (status == 404)
            return is(ModelFault::network, false,
                      true);  // a path that nobody serves: base= is wrong
        if (status == 413 || error.code == "context_length_exceeded" || has_any(message, too_long))
            return is(ModelFault::length, false, false);
        if (has(error.code, "content_filter") || has(error.code, "content_policy") ||
            has_any(message, filtered))
            return is(ModelFault::content, false, false);
        if (status == 408 || status == 409 || status == 425)
            return is(ModelFault::server, true, false);
        if (status == 400 || status == 422)
            out.parameter = refused_parameter(lower(error.param), error.code, message);
        return is(ModelFault::parameter, false, true);
    }
    if (status >= 500)
        return is(ModelFault::server, true, false);
    if (status >= 300)
        return is(ModelFault::network, false, true);  // a redirect: base= should name the target
    out.message = "status 200 with an error in it: " + out.message;
    return is(ModelFault::answer, true, false);
}

AnswerOr parse_answer(WireFormat format, std::string_view body) {
    if (trim(body).empty())
        return tl::unexpected(unusable("an empty body"));
    const json parsed = json::parse(body, nullptr, false);
    if (parsed.is_discarded())
        return tl::unexpected(unusable("a body that is not JSON: " + one_line(body, 120)));
    if (const json& error = member(parsed, "error");
        !error.is_null() && !parsed.contains("choices"))
        return tl::unexpected(parse_fault(200, body));
    Answer answer;
    ModelReply& reply = answer.reply;
    reply.reported_model = text_of(member(parsed, "model"));
    if (format == WireFormat::messages) {
        if (text_of(member(parsed, "type")) == "error")
            return tl::unexpected(parse_fault(200, body));
        const json& content = member(parsed, "content");
        if (!content.is_array())
            return tl::unexpected(unusable("JSON without a content list: " + one_line(body, 120)));
        add_content(content, reply.text, reply.reasoning);
        read_messages_usage(member(parsed, "usage"), answer.billed);
        reply.finish_reason = text_of(member(parsed, "stop_reason"));
        return conclude(std::move(answer), {});
    }
    read_chat_usage(member(parsed, "usage"), answer.billed);
    const json& choices = member(parsed, "choices");
    if (!choices.is_array() || choices.empty()) {
        if (text_of(member(parsed, "object")) == "error")
            return tl::unexpected(parse_fault(200, body));
        return tl::unexpected(
            unusable("JSON without choices: " + one_line(body, 120), answer.billed));
    }
    const json& choice = choices.front();
    if (!member(choice, "error").is_null()) {
        Fault fault = parse_fault(200, json{{"error", choice["error"]}}.dump(
                                           -1, ' ', false, json::error_handler_t::replace));
        fault.billed = answer.billed;
        return tl::unexpected(std::move(fault));
    }
    const json& message = member(choice, "message");
    add_reasoning(message, reply.reasoning);
    add_content(member(message, "content"), reply.text, reply.reasoning);
    reply.finish_reason = text_of(member(choice, "finish_reason"));
    return conclude(std::move(answer), text_of(member(message, "refusal")));
}

void AnswerStream::feed(std::string_view bytes) {
    for (const SseEvent& event : splitter_.feed(bytes))
        take(event, false);
}

void AnswerStream::take(const SseEvent& event, bool cut_off) {
    if (complete())
        return;
    if (trim(event.data) == "[DONE]") {
        done_ = true;
        return;
    }
    const json parsed = json::parse(event.data, nullptr, false);
    if (parsed.is_discarded()) {
        if (!cut_off)
            fault_ = unusable("an event that is not JSON: " + one_line(event.data, 120));
        return;
    }
    any_ = true;
    if (!member(parsed, "error").is_null()) {
        fault_ = parse_fault(200, event.data);
        return;
    }
    if (format_ == WireFormat::chat)
        take_chat(parsed);
    else
        take_messages(parsed);
}

void AnswerStream::take_chat(const json& chunk) {
    ModelReply& reply = answer_.reply;
    if (reply.reported_model.empty())
        reply.reported_model = text_of(member(chunk, "model"));
    if (const json& usage = member(chunk, "usage"); usage.is_object())
        read_chat_usage(usage, answer_.billed);
    const json& choices = member(chunk, "choices");
    if (!choices.is_array())
        return;
    for (const json& choice : choices) {
        if (count_of(member(choice, "index")) != 0)
            continue;
        const json& delta = member(choice, "delta");
        add_reasoning(delta, reply.reasoning);
        add_content(member(delta, "content"), reply.text, reply.reasoning);
        refusal_ += text_of(member(delta, "refusal"));
        if (const json& reason = member(choice, "finish_reason"); reason.is_string()) {
            reply.finish_reason = reason.get<std::string>();
            finished_ = true;
        }
    }
}

void AnswerStream::take_messages(const json& event) {
    ModelReply& reply = answer_.reply;
    const std::string type = text_of(member(event, "type"));
    if (type == "message_start") {
        const json& message = member(event, "message");
        reply.reported_model = text_of(member(message, "model"));
        read_messages_usage(member(message, "usage"), answer_.billed);
    } else if (type == "content_block_start") {
        const json& block = member(event, "content_block");
        reply.text += text_of(member(block, "text"));
        reply.reasoning += text_of(member(block, "thinking"));
    } else if (type == "content_block_delta") {
        const json& delta = member(event, "delta");
        const std::string kind = text_of(member(delta, "type"));
        if (kind == "text_delta")
            reply.text += text_of(member(delta, "text"));
        else if (kind == "thinking_delta")
            reply.reasoning += text_of(member(delta, "thinking"));
    } else if (type == "message_delta") {
        read_messages_usage(member(event, "usage"), answer_.billed);
        if (const json& reason = member(member(event, "delta"), "stop_reason");
            reason.is_string()) {
            reply.finish_reason = reason.get<std::string>();
            finished_ = true;
        }
    } else if (type == "message_stop") {
        done_ = true;
    }
}

AnswerOr AnswerStream::finish() {
    if (const std::optional<SseEvent> rest = splitter_.finish())
        take(*rest, true);
    if (fault_) {
        fault_->billed = answer_.billed;
        return tl::unexpected(*fault_);
    }
    if (!done_ && !finished_)
        return tl::unexpected(
            unusable(any_ ? "a stream that was cut before its end" : "a stream without an event",
                     answer_.billed));
    return conclude(answer_, refusal_);
}

AnswerOr parse_answer_stream(WireFormat format, std::string_view bytes) {
    AnswerStream stream(format);
    stream.feed(bytes);
    return stream.finish();
}

}  // namespace loopscope
