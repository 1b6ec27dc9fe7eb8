#include "loop/sample.h"

#include "core/hash.h"
#include "loop/prompts.h"
#include "loop/stages.h"
#include "program/edit.h"
#include "record/codec.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace loopscope {

using nlohmann::json;

awaitable<Prepared> prepare(Engine& engine, const Task& task, const Prompt& base,
                            const Program& parent, const Evaluation& parent_evaluation,
                            const SampleRequest& request) {
    Prepared prepared;
    std::vector<Shown> feedback;
    std::string shown_raw;  // what makes two arms the same arm in this context, whatever the draws
                            // of summary and plan
    if (request.mode != Mode::none) {
        for (const std::string& component : request.components) {
            Said said =
                co_await recall_feedback(engine, task, component, parent, parent_evaluation);
            prepared.keys.stages["feedback: " + component] = said.key;
            if (!said.feedback.applicable && said.feedback.text.empty())
                continue;
            Shown shown{component, std::move(said.feedback.text)};
            shown_raw += fmt::format("{} {}\n{}\n", component, name_of(request.mode), shown.text);
            if (request.mode == Mode::summary) {
                const Prompt prompt = summarizer_prompt(base, shown, task.feedback.max_bytes);
                Model& summarizer = *engine.models.summarizer;
                const Answered answered =
                    co_await ask(engine, summarizer, prompt, request.summary_draw,
                                 request.position + "/summary/" + component);
                const SampleKeys::Call call{Role::summarizer, summarizer.id(), answered.key,
                                            request.position + "/summary/" + component};
                prepared.keys.calls.push_back(call);
                if (!answered.reply) {
                    prepared.missing = "no summary: " + answered.missing;
                    co_return prepared;
                }
                shown.text = answered.reply->text;
            }
            feedback.push_back(std::move(shown));
        }
    }
    if (request.planning) {
        const Prompt prompt = planner_prompt(base, feedback, task.feedback.max_bytes);
        Model& planner = *engine.models.planner;
        const Answered answered =
            co_await ask(engine, planner, prompt, request.plan_draw, request.position + "/plan");
        const SampleKeys::Call call{Role::planner, planner.id(), answered.key,
                                    request.position + "/plan"};
        prepared.keys.calls.push_back(call);
        if (!answered.reply || answered.reply->text.empty()) {
            prepared.missing =
                answered.reply ? "the planner's answer was empty" : "no plan: " + answered.missing;
            co_return prepared;
        }
        prepared.plan = answered.reply->text;
        prepared.prompt = coder_prompt(base, prepared.plan, {}, task.feedback.max_bytes);
    } else {
        prepared.prompt = coder_prompt(base, "", feedback, task.feedback.max_bytes);
    }
    prepared.prompt_hash = sha256_hex(fmt::format(
        "{}\n{}\n{}", request.planning ? "planned" : "direct", render(base), shown_raw));
    co_return prepared;
}

awaitable<Sampled> propose(Engine& engine, const Task& task, const Prepared& prepared,
                           const Program& parent, const SampleRequest& request) {
    Sampled sampled;
    sampled.prompt = prepared.prompt;
    sampled.prompt_hash = prepared.prompt_hash;
    sampled.plan = prepared.plan;
    sampled.keys = prepared.keys;
    sampled.missing = prepared.missing;
    if (sampled.missing.empty()) {
        Model& coder = *engine.models.coder;
        Answered answered = co_await ask(engine, coder, prepared.prompt, request.proposal_draw,
                                         request.position + "/proposal");
        const SampleKeys::Call call{Role::coder, coder.id(), answered.key,
                                    request.position + "/proposal"};
        sampled.keys.calls.push_back(call);
        if (answered.reply)
            sampled.answer = std::move(answered.reply->text);
        else
            sampled.missing = "no proposal: " + answered.missing;
    }
    if (!sampled.missing.empty()) {
        sampled.evaluation.reason = Reason::no_answer;  // a failure of the arm, not of our side
        sampled.evaluation.message = sampled.missing;
        co_return sampled;
    }
    Result<Program> proposed = apply_answer(parent, edit_rules(task), sampled.answer);
    if (proposed)
        sampled.program = std::move(*proposed);
    else
        sampled.edit_error = to_text(proposed.error());
    Evaluated evaluated =
        co_await evaluate_candidate(engine, task, sampled.program, &parent, sampled.edit_error);
    sampled.evaluation = std::move(evaluated.evaluation);
    sampled.keys.stages.merge(evaluated.keys);
    co_return sampled;
}

awaitable<Sampled> take_sample(Engine& engine, const Task& task, const Prompt& base,
                               const Program& parent, const Evaluation& parent_evaluation,
                               const SampleRequest& request) {
    const Prepared prepared =
        co_await prepare(engine, task, base, parent, parent_evaluation, request);
    co_return co_await propose(engine, task, prepared, parent, request);
}

std::string study_id(char kind, const std::string& config_json) {
    json config = json::parse(config_json);
    config.erase("task_folder");
    return kind + sha256_hex(config.dump()).substr(0, 10);
}

namespace {

json keys_json(const SampleKeys& keys) {
    json calls = json::array();
    for (const SampleKeys::Call& call : keys.calls)
        calls.push_back({{"role", name_of(call.role)},
                         {"model", call.model},
                         {"key", call.key},
                         {"position", call.position}});
    return {{"calls", calls}, {"stages", keys.stages}};
}

}  // namespace

std::string run_sample_json(const Candidate& candidate, const SampleKeys& keys) {
    return json{{"candidate", json::parse(encode(candidate))}, {"keys", keys_json(keys)}}.dump();
}

std::string trial_sample_json(const Trial& trial, const SampleKeys& keys) {
    return json{{"trial", json::parse(encode(trial))}, {"keys", keys_json(keys)}}.dump();
}

Result<SampleKeys> sample_keys(const std::string& sample_json) {
    const json sample = json::parse(sample_json, nullptr, false);
    SampleKeys keys;
    if (sample.is_discarded() || !sample.contains("keys"))
        return keys;  // a peer's row has none
    try {
        for (const json& call : sample.at("keys").at("calls")) {
            const auto role = role_named(call.at("role").get<std::string>());
            if (!role)
                return fail("sample.keys", "unknown role");
            keys.calls.push_back({*role, call.at("model").get<std::string>(),
                                  call.at("key").get<std::string>(),
                                  call.at("position").get<std::string>()});
        }
        keys.stages = sample.at("keys").at("stages").get<std::map<std::string, std::string>>();
    } catch (const json::exception& fault) {
        return fail("sample.keys", fault.what());
    }
    return keys;
}

}  // namespace loopscope
