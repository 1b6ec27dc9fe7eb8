// What the bytes of a model server mean: pure functions from a body or an event stream to a reply
// or a fault.
//
// Both wire formats are read leniently where servers differ (names of the reasoning field, usage,
// finish reasons) and strictly where an answer could be lost or invented: a stream without its end
// is not an answer.
#pragma once
#include "llm/model.h"
#include "llm/sse.h"
#include "record/prompt.h"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace loopscope {

enum class WireFormat { chat, messages };  // OpenAI's chat completions, Anthropic's Messages

// What an answer cost, as far as the server says.
struct Billed {
    Usage usage;
    std::int64_t cache_write_tokens =
        0;                          // part of usage.input_tokens, billed at a price of its own
    std::optional<double> dollars;  // some servers (OpenRouter) say it themselves
};

// Why a response is not an answer.
struct Fault {
    ModelFault fault = ModelFault::server;
    std::string message;    // the server's words on one line, or ours; at most about 400 bytes
    int status = 0;         // the HTTP status, or the one that a body with status 200 claims
    bool retry = false;     // the same request may succeed later
    bool fatal = false;     // no request of this model will succeed
    std::string parameter;  // the parameter of ours that the server does not take; "" = none
    Billed billed;          // an unusable answer may have been paid for
};

struct Answer {
    ModelReply reply;  // without cost, attempts and latency
    Billed billed;
};
using AnswerOr = tl::expected<Answer, Fault>;

// A whole answer with status 200 (not a stream). An error in such a body is a Fault like any other.
AnswerOr parse_answer(WireFormat format, std::string_view body);

// A body with any other status, in the shapes that OpenAI, Anthropic, Gemini, vLLM, llama.cpp,
// Ollama and FastAPI give it; or with status 200 and an error in it.
Fault parse_fault(int status, std::string_view body);

// A streamed answer, put together from its pieces.
class AnswerStream {
public:
    explicit AnswerStream(WireFormat format) : format_(format) {}
    void feed(std::string_view bytes);
    // The stream has said its last word: nothing that follows can change the answer.
    bool complete() const { return done_ || fault_.has_value(); }
    // The answer, once the connection has ended. A Fault{answer, retry} when the end is missing.
    AnswerOr finish();

private:
    void take(const SseEvent& event, bool cut_off);
    void take_chat(const nlohmann::json& chunk);
    void take_messages(const nlohmann::json& event);

    WireFormat format_;
    SseSplitter splitter_;
    Answer answer_;
    std::string refusal_;
    std::optional<Fault> fault_;
    bool done_ = false;      // [DONE] or message_stop
    bool finished_ = false;  // a finish reason: the answer is whole, though usage may be missing
    bool any_ = false;
};

// Reads a stream from one piece: AnswerStream fed once.
AnswerOr parse_answer_stream(WireFormat format, std::string_view bytes);

// A leading <think>...</think> (or one whose opening tag the chat template swallowed) moves from
// `text` to the end of `reasoning`. One that is never closed is all reasoning.
void split_thinking(std::string& text, std::string& reasoning);

// `text` on one line of printable characters, shortened to about `bytes`, never inside a UTF-8
// sequence.
std::string one_line(std::string_view text, std::size_t bytes = 300);

}  // namespace loopscope
