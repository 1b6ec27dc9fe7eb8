// One interface to every model: messages + sampling + draw -> text, reasoning, tokens, cost,
// latency.
#pragma once
#include "core/async.h"
#include "core/clock.h"
#include "core/result.h"
#include "record/prompt.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

struct Message {
    std::string role;  // "system", "user", "assistant"
    std::string content;
};

struct ModelRequest {
    Role role = Role::coder;
    std::vector<Message> messages;
    Sampling sampling;
    std::string draw;  // built-in models answer as a function of (messages, draw); a server sees it
                       // only mixed into the seed, when one is set
    std::string
        position;     // where in the study the call is made; `replay:` with by=position looks it up
    std::string key;  // hash_of() the journal key of this call; `replay:` looks it up
};

// What is at fault when no answer came. `answer`: the server said 200 and something unusable
// (empty, cut, not JSON). `cancelled`: for callers that keep a cancellation as data; complete()
// itself throws asio's operation_aborted, like everything that is awaited.
enum class ModelFault {
    key,
    model_name,
    network,
    quota,
    length,
    content,
    parameter,
    server,
    answer,
    cancelled
};
std::string_view name_of(ModelFault fault);

struct ModelError {
    ModelFault fault = ModelFault::server;
    std::string message;  // one line for the person: what happened, at which URL, and the mend
    int http_status = 0;
    int attempts = 1;
    bool fatal = false;  // asking again will not help (wrong key, unknown model): the study stops
    double cost = 0;  // known dollars that the provider charged for answers that could not be used
};
// A refusal, a filtered answer and one that was cut at max_tokens were paid for: they are replies
// with the finish reason "content_filter" or "length" and a warning, not errors.
using ModelOutcome = tl::expected<ModelReply, ModelError>;

class Model {
public:
    virtual ~Model() = default;
    // Sends request.sampling as it is (callers copy sampling() into it, so that the journal's key
    // and the request agree). Waits for the model's limits and retries what is worth retrying.
    virtual awaitable<ModelOutcome> complete(ModelRequest request) = 0;
    // "openai:gpt-4o", "builtin:rules": goes into the journal's key. Of `replay:` the recorded
    // model's id.
    virtual std::string id() const = 0;
    // Figures made with such a model are labelled so.
    virtual bool builtin() const { return false; }
    virtual Sampling sampling() const { return {}; }
    // Dollars for a call with these token counts, if the price is known.
    virtual std::optional<double> price(std::int64_t input_tokens,
                                        std::int64_t output_tokens) const {
        (void)input_tokens;
        (void)output_tokens;
        return std::nullopt;
    }
};

// What models share: the HTTP thread, the clock, the price file, the replay journals.
struct ModelServices {
    asio::any_io_executor loop;
    Clock* clock = nullptr;
    class HttpClient* http = nullptr;  // may be null when only built-in and command models are used
    std::string price_file;            // "" = the prices that came with the program
    // Looks a recorded answer up for `replay:FILE`: by key, or by position. Set by the loop (it may
    // use the store).
    std::function<std::optional<ModelReply>(const std::string& file, const ModelRequest& request,
                                            bool by_position, std::string* warning)>
        replay;
    // The ids of the models whose answers FILE holds: `replay:FILE` without as= answers under the
    // only one.
    std::function<Result<std::vector<std::string>>(const std::string& file)> recorded_models;
};

// A model from its specification:
//     openai:NAME | anthropic:NAME | command:PROGRAM ARGS... | replay:FILE | builtin:rules |
//     builtin:synthetic
// followed by options, each after a comma: base=URL, key=ENVIRONMENT_VARIABLE, temperature=,
// top_p=, max_tokens=, seed=, effort=, stream=on|off, concurrency=, rpm=, tpm=, timeout=SECONDS,
// idle=SECONDS, attempts=, wait=SECONDS, price_in=, price_out=, env=NAME, by=position, as=MODEL_ID,
// and for builtin:synthetic file=TRUTH.json (docs/models.md). An Error names the option at fault
// and the accepted ones. What `services` points to must outlive the model.
Result<std::unique_ptr<Model>> open_model(std::string_view specification,
                                          const ModelServices& services);

}  // namespace loopscope
