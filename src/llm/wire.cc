#include "llm/wire.h"

#include "core/rng.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

namespace loopscope {

using nlohmann::json;

namespace {

// "4096" -> 4096: an effort given as a number of tokens.
std::optional<int> token_budget(const std::string& effort) {
    int value = 0;
    const char* const end = effort.data() + effort.size();
    const auto [stop, problem] = std::from_chars(effort.data(), end, value);
    if (effort.empty() || problem != std::errc{} || stop != end)
        return std::nullopt;
    return value;
}

json full_body(WireFormat format, const std::string& model, const ModelRequest& request,
               const Dialect& dialect) {
    const Sampling& sampling = request.sampling;
    json body{{"model", model}};
    json messages = json::array();
    std::string system;
    for (const Message& message : request.messages) {
        if (format == WireFormat::messages && message.role == "system") {
            if (!system.empty())
                system += "\n\n";
            system += message.content;
        } else {
            messages.push_back({{"role", message.role}, {"content", message.content}});
        }
    }
    body["messages"] = std::move(messages);
    if (!system.empty())
        body["system"] = system;
    if (sampling.temperature)
        body["temperature"] = *sampling.temperature;
    if (sampling.top_p)
        body["top_p"] = *sampling.top_p;
    body[dialect.completion_tokens ? "max_completion_tokens" : "max_tokens"] = sampling.max_tokens;
    if (dialect.stream)
        body["stream"] = true;
    if (format == WireFormat::chat) {
        if (sampling.seed)
            body["seed"] = seed_for(*sampling.seed, request.draw);
        if (!sampling.reasoning_effort.empty())
            body["reasoning_effort"] = sampling.reasoning_effort;
        if (dialect.stream)
            body["stream_options"] = {{"include_usage", true}};
    } else if (const auto budget = token_budget(sampling.reasoning_effort)) {
        body["thinking"] = {{"type", "enabled"}, {"budget_tokens", *budget}};
    } else if (!sampling.reasoning_effort.empty()) {
        body["thinking"] = {{"type", "adaptive"}};
        body["output_config"] = {{"effort", sampling.reasoning_effort}};
    }
    return body;
}

}  // namespace

std::int64_t seed_for(std::int64_t seed, std::string_view draw) {
    if (draw.empty())
        return seed;
    Rng stream = Rng(static_cast<std::uint64_t>(seed)).fork(draw);
    return static_cast<std::int64_t>(stream.next() >> 33U);
}

std::string request_body(WireFormat format, const std::string& model, const ModelRequest& request,
                         const Dialect& dialect) {
    json body = full_body(format, model, request, dialect);
    for (const std::string& name : dialect.refused)
        body.erase(name);
    return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

bool sends(WireFormat format, const ModelRequest& request, const Dialect& dialect,
           std::string_view parameter) {
    const std::string name(parameter);
    return !dialect.refused.contains(name) &&
           full_body(format, "", request, dialect).contains(name);
}

}  // namespace loopscope
