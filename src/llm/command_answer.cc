#include "llm/command_answer.h"

#include "core/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace loopscope {

using nlohmann::json;

namespace {

Fault contract_fault(std::string message) {
    Fault fault;
    fault.fault = ModelFault::answer;
    fault.message = std::move(message);
    fault.retry = true;
    return fault;
}

// "" when every key of `object` is in `known`.
std::string unknown_key(const json& object, const std::vector<std::string>& known) {
    for (const auto& [key, value] : object.items())
        if (std::find(known.begin(), known.end(), key) == known.end())
            return fmt::format("it printed the unknown key \"{}\"; known: {}", one_line(key, 60),
                               fmt::join(known, ", "));
    return {};
}

Fault told_fault(const json& error) {
    static const std::vector<std::string> known{"message", "fault", "retry"};
    if (error.is_string())
        return contract_fault(one_line(error.get<std::string>()));
    if (!error.is_object())
        return contract_fault("\"error\" must be a text or an object");
    if (const std::string problem = unknown_key(error, known); !problem.empty())
        return contract_fault(problem);
    Fault fault = contract_fault("it reported an error without a message");
    fault.retry = false;
    if (error.contains("message") && error["message"].is_string())
        fault.message = one_line(error["message"].get<std::string>());
    if (error.contains("retry") && error["retry"].is_boolean())
        fault.retry = error["retry"].get<bool>();
    if (error.contains("fault") && error["fault"].is_string()) {
        const std::string name = error["fault"].get<std::string>();
        for (const ModelFault one : {ModelFault::key, ModelFault::model_name, ModelFault::network,
                                     ModelFault::quota, ModelFault::length, ModelFault::content,
                                     ModelFault::parameter, ModelFault::server, ModelFault::answer})
            if (name == name_of(one))
                fault.fault = one;
        fault.fatal = fault.fault == ModelFault::key || fault.fault == ModelFault::model_name;
    }
    return fault;
}

// Sets `out` from a member that must be of its type when it is there; what is wrong, or "".
std::string take_text(const json& object, const char* key, std::string& out) {
    if (!object.contains(key) || object[key].is_null())
        return {};
    if (!object[key].is_string())
        return fmt::format("\"{}\" must be a text", key);
    out = object[key].get<std::string>();
    return {};
}

std::string take_count(const json& object, const char* key, std::int64_t& out) {
    if (!object.contains(key) || object[key].is_null())
        return {};
    if (!object[key].is_number() || !(object[key].get<double>() >= 0) ||
        object[key].get<double>() > 9e15)
        return fmt::format("\"{}\" must be a count, 0 or more", key);
    out = static_cast<std::int64_t>(object[key].get<double>());
    return {};
}

}  // namespace

std::string command_request(const ModelRequest& request) {
    json sampling{{"max_tokens", request.sampling.max_tokens}};
    if (request.sampling.temperature)
        sampling["temperature"] = *request.sampling.temperature;
    if (request.sampling.top_p)
        sampling["top_p"] = *request.sampling.top_p;
    if (request.sampling.seed)
        sampling["seed"] = *request.sampling.seed;
    if (!request.sampling.reasoning_effort.empty())
        sampling["effort"] = request.sampling.reasoning_effort;
    json messages = json::array();
    for (const Message& message : request.messages)
        messages.push_back({{"role", message.role}, {"content", message.content}});
    const json document{{"version", 1},
                        {"role", std::string(name_of(request.role))},
                        {"messages", std::move(messages)},
                        {"sampling", std::move(sampling)},
                        {"draw", request.draw}};
    return document.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

AnswerOr parse_command_answer(std::string_view output) {
    static const std::vector<std::string> known{"text",  "reasoning",     "usage",   "cost",
                                                "model", "finish_reason", "warnings"};
    static const std::vector<std::string> counts{"input_tokens", "cached_tokens", "output_tokens",
                                                 "reasoning_tokens"};
    if (trim(output).empty())
        return tl::unexpected(contract_fault("it printed nothing"));
    Answer answer;
    ModelReply& reply = answer.reply;
    const json parsed = trim(output).front() == '{' ? json::parse(output, nullptr, false)
                                                    : json(json::value_t::discarded);
    if (!parsed.is_object() || (!parsed.contains("text") && !parsed.contains("error"))) {
        while (output.ends_with('\n') || output.ends_with('\r'))
            output.remove_suffix(1);
        reply.text = std::string(output);
        reply.finish_reason = "stop";
        return answer;
    }
    if (parsed.contains("error"))
        return tl::unexpected(told_fault(parsed["error"]));
    std::string problem = unknown_key(parsed, known);
    const auto check = [&](std::string found) {
        if (problem.empty())
            problem = std::move(found);
    };
    reply.finish_reason = "stop";
    check(take_text(parsed, "text", reply.text));
    check(take_text(parsed, "reasoning", reply.reasoning));
    check(take_text(parsed, "model", reply.reported_model));
    check(take_text(parsed, "finish_reason", reply.finish_reason));
    if (parsed.contains("usage") && !parsed["usage"].is_null()) {
        const json& usage = parsed["usage"];
        Usage& out = answer.billed.usage;
        if (usage.is_object()) {
            check(unknown_key(usage, counts));
            check(take_count(usage, "input_tokens", out.input_tokens));
            check(take_count(usage, "cached_tokens", out.cached_tokens));
            check(take_count(usage, "output_tokens", out.output_tokens));
            check(take_count(usage, "reasoning_tokens", out.reasoning_tokens));
            out.known = true;
        } else {
            check("\"usage\" must be an object");
        }
    }
    if (parsed.contains("cost") && !parsed["cost"].is_null()) {
        if (parsed["cost"].is_number() && parsed["cost"].get<double>() >= 0)
            answer.billed.dollars = parsed["cost"].get<double>();
        else
            check("\"cost\" must be dollars, 0 or more");
    }
    if (parsed.contains("warnings")) {
        if (!parsed["warnings"].is_array())
            check("\"warnings\" must be a list of texts");
        else
            for (const json& warning : parsed["warnings"]) {
                if (warning.is_string())
                    reply.warnings.push_back(one_line(warning.get<std::string>()));
                else
                    check("\"warnings\" must be a list of texts");
            }
    }
    if (!problem.empty())
        return tl::unexpected(contract_fault(std::move(problem)));
    reply.usage = answer.billed.usage;
    if (trim(reply.text).empty() && reply.finish_reason == "stop")
        return tl::unexpected(contract_fault("its \"text\" is empty"));
    return answer;
}

}  // namespace loopscope
