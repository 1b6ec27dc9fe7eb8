#include "loop/intervene.h"

#include "core/hash.h"
#include "core/log.h"
#include "core/rng.h"
#include "llm/same_answers.h"
#include "loop/prompts.h"
#include "loop/sample.h"
#include "loop/stages.h"
#include "record/codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace loopscope {

namespace {

using nlohmann::json;

Prompt stripped(Prompt prompt, const std::vector<std::string>& names) {
    std::erase_if(prompt.sections, [&](const Section& section) {
        return std::find(names.begin(), names.end(), section.name) != names.end();
    });
    return prompt;
}

std::string position_of(std::size_t context, int rollout, std::size_t arm, int trial) {
    return fmt::format("c{:04}/r{:03}/a{:03}/t{:03}", context, rollout, arm, trial);
}

std::string coalition_name(const std::vector<std::string>& players, std::uint32_t coalition) {
    std::string name;
    for (std::size_t i = 0; i < players.size(); ++i)
        if ((coalition >> i & 1U) != 0)
            name += (name.empty() ? "" : ",") + players[i];
    return "{" + name + "}";
}

std::vector<std::string> players_of(const InterveneConfig& config, std::uint32_t coalition) {
    std::vector<std::string> members;
    for (std::size_t i = 0; i < config.components.size(); ++i)
        if ((coalition >> i & 1U) != 0)
            members.push_back(config.components[i]);
    return members;
}

// ln(parent / candidate), never below 0: what is deployed when a worse candidate is discarded. A
// parent without a time of its own (it failed) stands for the baseline, which is what would be
// deployed in its place.
double keep_parent_gain(const Evaluation& evaluation) {
    if (!evaluation.status || *evaluation.status < Status::pass)
        return 0;
    if (evaluation.gain)
        return std::max(0.0, std::log(evaluation.gain->estimate));
    if (evaluation.speedup)
        return std::max(0.0, std::log(evaluation.speedup->estimate));
    const auto gain = evaluation.metrics.find("gain");  // other evaluators say so themselves
    return gain == evaluation.metrics.end() ? 0 : std::max(0.0, gain->second);
}

}  // namespace

Result<Trajectory> freeze_run(Journal& journal, const Task& task, const std::string& study,
                              const FreezeConfig& config) {
    const std::optional<StudyRow> row = journal.study(study);
    if (!row)
        return fail(study,
                    "there is no such study in this journal; `loopscope journal` lists them");
    if (row->kind != "run")
        return fail(study,
                    fmt::format("is a study of kind {}; only a run can be frozen", row->kind));
    std::vector<Candidate> candidates;
    std::set<std::string> models;
    for (const auto& [position, sample] : journal.samples(row->id)) {
        const json document = json::parse(sample, nullptr, false);
        if (document.is_discarded() || !document.contains("candidate"))
            continue;
        Result<Candidate> candidate = decode<Candidate>(document.at("candidate").dump());
        if (!candidate)
            return fail(fmt::format("study {}, sample {}", row->id, position),
                        to_text(candidate.error()));
        candidates.push_back(std::move(*candidate));
        const Result<SampleKeys> keys = sample_keys(sample);
        if (keys)
            for (const SampleKeys::Call& call : keys->calls)
                if (call.model.starts_with("builtin:"))
                    models.insert(call.model);
    }
    const json run_config = json::parse(row->config);
    const std::vector<std::string> starts = run_config.value("starts", std::vector<std::string>{});
    const auto prompt = [&](const Candidate& candidate) {
        return base_prompt(task, candidate.program, candidate.evaluation, {});
    };
    Trajectory trajectory = freeze(candidates, starts, config, prompt);
    if (trajectory.contexts.empty())
        return fail(study, "has no evaluated candidate to freeze");
    trajectory.task = task.folder.string();
    trajectory.source = row->id;
    trajectory.model_notes.assign(models.begin(), models.end());
    trajectory.id = identify(trajectory);
    return trajectory;
}

std::vector<Arm> arms_of(const Engine& engine, const InterveneConfig& config) {
    std::vector<Arm> arms;
    const auto coalitions = std::uint32_t{1} << config.components.size();
    for (std::uint32_t coalition = 0; coalition < coalitions; ++coalition) {
        Arm arm;
        arm.name = coalition_name(config.components, coalition);
        arm.coalition = coalition;
        arm.mode = config.mode;
        arm.planning = config.planning;
        arm.planner = config.planning && engine.models.planner ? engine.models.planner->id() : "";
        arm.coder = engine.models.coder->id();
        arms.push_back(std::move(arm));
    }
    if (config.control) {
        Arm control = arms.front();
        control.name = "A/A {}";
        control.control = true;
        arms.push_back(std::move(control));
    }
    return arms;
}

std::string intervene_config_json(const Engine& engine, const Task& task,
                                  const Trajectory& trajectory, const InterveneConfig& config) {
    json arms = json::array();
    for (const Arm& arm : arms_of(engine, config))
        arms.push_back(json::parse(encode(arm)));
    json contexts = json::array();
    for (const Context& context : trajectory.contexts)
        contexts.push_back(
            {{"id", context.id},
             {"generation", context.generation},
             {"lineage", context.lineage},
             {"status", context.evaluation.status ? json(name_of(*context.evaluation.status))
                                                  : json(nullptr)}});
    return json{{"trajectory", trajectory.id},
                {"source", trajectory.source},
                {"task", task.name},
                {"task_hash", sha256_hex(canonical(task))},
                {"task_folder", task.folder.string()},
                {"players", config.components},
                {"arms", arms},
                {"contexts", contexts},
                {"mode", name_of(config.mode)},
                {"planning", config.planning},
                {"rollouts", config.rollouts},
                {"trials", config.trials},
                {"strip", config.strip},
                {"summarizer", config.mode == Mode::summary && engine.models.summarizer
                                   ? json(engine.models.summarizer->id())
                                   : json(nullptr)},
                {"seed", config.seed}}
        .dump();
}

awaitable<std::string> intervene(Engine& engine, const Task& task, const Trajectory& trajectory,
                                 const InterveneConfig& given, const InterveneProgress& progress) {
    InterveneConfig config = given;
    if (config.components.empty())
        config.components = task.feedback.components;
    const std::vector<Arm> arms = arms_of(engine, config);
    StudyRow row;
    row.kind = "intervene";
    row.config = intervene_config_json(engine, task, trajectory, config);
    row.id = study_id('i', row.config);
    row.state = "running";
    row.created_ms = engine.clock.unix_milliseconds();
    engine.study = row.id;
    co_await engine.journal.put_study(row);

    // Blocks (context, rollout) in order; inside a block the arms in random order, so that drift of
    // a service or of a clock is not confounded with them.
    struct Item {
        std::size_t context, arm;
        int rollout;
    };
    std::vector<Item> items;
    for (int rollout = 0; rollout < config.rollouts; ++rollout)
        for (std::size_t context = 0; context < trajectory.contexts.size(); ++context) {
            std::vector<std::size_t> order(arms.size());
            for (std::size_t i = 0; i < order.size(); ++i)
                order[i] = i;
            Rng rng =
                Rng(config.seed).fork("order", {context, static_cast<std::uint64_t>(rollout)});
            for (std::size_t i = order.size(); i > 1; --i)
                std::swap(order[i - 1], order[rng.below(i)]);
            for (const std::size_t arm : order)
                items.push_back(Item{context, arm, rollout});
        }
    const std::size_t total = items.size() * static_cast<std::size_t>(config.trials);
    std::size_t done = 0;
    bool warned = false;  // one server that ignores the draw is one warning

    const std::function<awaitable<void>(std::size_t)> work =
        [&](std::size_t index) -> awaitable<void> {
        const Item item = items[index];
        const Context& context = trajectory.contexts[item.context];
        const Arm& arm = arms[item.arm];
        const Prompt base = stripped(context.prompt, config.strip);
        SampleRequest request;
        request.components = players_of(config, arm.coalition);
        request.mode = arm.mode;
        request.planning = arm.planning;
        // Equal prompts in two arms share an answer at the same draw; a control arm salts its draw.
        const std::string salt = arm.control ? "/control" : "";
        request.summary_draw = fmt::format("{}/{}/summary", config.seed, item.rollout);
        request.plan_draw = fmt::format("{}/{}/plan{}", config.seed, item.rollout, salt);
        request.position = position_of(item.context, item.rollout, item.arm, 0);
        const Prepared prepared =
            co_await prepare(engine, task, base, context.program, context.evaluation, request);
        std::vector<std::pair<std::string, std::string>> answers;
        for (int trial_index = 0; trial_index < config.trials; ++trial_index) {
            request.proposal_draw =
                fmt::format("{}/{}/{}{}", config.seed, item.rollout, trial_index, salt);
            request.position = position_of(item.context, item.rollout, item.arm, trial_index);
            const Sampled sampled =
                co_await propose(engine, task, prepared, context.program, request);
            Trial trial;
            trial.context = context.id;
            trial.generation = context.generation;
            trial.lineage = context.lineage;
            trial.parent_status = context.evaluation.status;
            trial.arm = static_cast<int>(item.arm);
            trial.rollout = item.rollout;
            trial.trial = trial_index;
            trial.prompt_hash =
                arm.control ? sampled.prompt_hash + "/control" : sampled.prompt_hash;
            trial.status = sampled.evaluation.status;
            trial.reason = sampled.evaluation.reason;
            trial.missing = sampled.evaluation.status ? "" : sampled.evaluation.message;
            if (sampled.evaluation.speedup && trial.status && *trial.status >= Status::pass)
                trial.log_speedup = std::log(sampled.evaluation.speedup->estimate);
            trial.gain = keep_parent_gain(sampled.evaluation);
            co_await engine.journal.put_sample(row.id, request.position,
                                               trial_sample_json(trial, sampled.keys));
            progress(++done, total);
            if (!sampled.answer.empty())
                answers.emplace_back(request.proposal_draw, sampled.answer);
        }
        const Model& coder = *engine.models.coder;
        const std::string same = warned || coder.builtin()
                                     ? ""
                                     : same_answers_warning(coder.id(), coder.sampling(), answers);
        if (!same.empty()) {
            warned = true;
            log_warn(same);
        }
    };
    co_await for_each_index(items.size(), static_cast<std::size_t>(config.width), work);
    row.state = "done";
    co_await engine.journal.put_study(row);
    co_return row.id;
}

Result<StudyData> load_trials(Journal& journal, const std::string& study) {
    const std::optional<StudyRow> row = journal.study(study);
    if (!row)
        return fail(study,
                    "there is no such study in this journal; `loopscope journal` lists them");
    if (row->kind != "intervene")
        return fail(study,
                    fmt::format("is a study of kind {}; only an intervention can be attributed",
                                row->kind));
    StudyData data;
    const json config = json::parse(row->config);
    data.players = config.at("players").get<std::vector<std::string>>();
    data.rollouts = config.at("rollouts");
    data.trials_per_rollout = config.at("trials");
    for (const json& arm : config.at("arms")) {
        Result<Arm> decoded = decode<Arm>(arm.dump());
        if (!decoded)
            return fail(row->id, to_text(decoded.error()));
        data.arms.push_back(std::move(*decoded));
    }
    std::map<std::string, Trial> done;
    for (const auto& [position, sample] : journal.samples(row->id)) {
        const json document = json::parse(sample, nullptr, false);
        if (document.is_discarded() || !document.contains("trial"))
            continue;
        Result<Trial> trial = decode<Trial>(document.at("trial").dump());
        if (!trial)
            return fail(fmt::format("study {}, sample {}", row->id, position),
                        to_text(trial.error()));
        trial->entry = document.at("keys").dump();
        done.emplace(position, std::move(*trial));
    }
    const json& contexts = config.at("contexts");
    for (std::size_t context = 0; context < contexts.size(); ++context)
        for (int rollout = 0; rollout < data.rollouts; ++rollout)
            for (std::size_t arm = 0; arm < data.arms.size(); ++arm)
                for (int trial_index = 0; trial_index < data.trials_per_rollout; ++trial_index) {
                    const auto found = done.find(position_of(context, rollout, arm, trial_index));
                    if (found != done.end()) {
                        data.trials.push_back(std::move(found->second));
                        continue;
                    }
                    Trial planned;
                    planned.context = contexts[context].at("id").get<std::string>();
                    planned.generation = contexts[context].at("generation");
                    planned.lineage = contexts[context].at("lineage").get<std::string>();
                    if (contexts[context].at("status").is_string())
                        planned.parent_status =
                            status_named(contexts[context].at("status").get<std::string>());
                    planned.arm = static_cast<int>(arm);
                    planned.rollout = rollout;
                    planned.trial = trial_index;
                    planned.missing = "not done yet";
                    data.trials.push_back(std::move(planned));
                }
    return data;
}

}  // namespace loopscope
