#include "app/subject.h"
#include "app/verbs.h"
#include "attribute/power.h"
#include "core/log.h"
#include "loop/prompts.h"
#include "loop/stages.h"
#include "record/codec.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace loopscope {

namespace {

using nlohmann::json;

// What a study may cost at most, said before it starts. Prompts of later steps grow by their
// history, so the first prompt is taken twice.
std::string estimate(const Engine& engine, std::size_t plans, std::size_t proposals,
                     std::size_t summaries, const Prompt& example) {
    double dollars = 0;
    std::vector<std::string> unknown;
    const auto add = [&](const Model* model, std::size_t calls) {
        if (model == nullptr || calls == 0)
            return;
        const std::optional<double> one = worst_case_cost(*model, example);
        if (one)
            dollars += 2 * *one * static_cast<double>(calls);
        else if (std::find(unknown.begin(), unknown.end(), model->id()) == unknown.end())
            unknown.push_back(model->id());
    };
    add(engine.models.planner.get(), plans);
    add(engine.models.coder.get(), proposals);
    add(engine.models.summarizer.get(), summaries);
    std::string text = fmt::format(
        "at most {} model calls ({} plans, {} proposals, {} summaries) and {} evaluations",
        plans + proposals + summaries, plans, proposals, summaries, proposals);
    text += fmt::format("; they may cost up to {:.2f} dollars, --max-cost is {:.2f}", dollars,
                        engine.budget.max_cost());
    if (!unknown.empty())
        text += fmt::format(
            "; the price of {} is unknown, so --max-cost cannot bound it (give price_in= and "
            "price_out=, "
            "or --prices)",
            fmt::join(unknown, ", "));
    return text;
}

// What the design can find, said before money is spent. Without a pilot the variances are the
// guesses of docs/attribution.md: E[p (1 - p)] = 0.20, plans 0.0075, effects that differ between
// contexts 0.01.
std::string design_note(std::size_t contexts, const InterveneConfig& config) {
    VarianceComponents guess;
    guess.between_shapley = guess.between_pair = guess.between_difference = 0.01;
    guess.plan = 0.0075;
    guess.trial = 0.20;
    const Design design{static_cast<int>(contexts), config.rollouts, config.trials};
    const Result<std::vector<PowerRow>> rows =
        power_table(static_cast<int>(config.components.size()), guess, {&design, 1}, PowerGoal{});
    if (!rows)
        return "what this design can detect is unknown: " + to_text(rows.error());
    return fmt::format(
        "at 80 % power this design finds a component worth {:.2f} or a pair worth {:.2f} on the "
        "scale of a "
        "success probability, if variances are as usual",
        rows->front().shapley, rows->front().pair);
}

std::string best_note(const Candidate* best) {
    if (best == nullptr)
        return "none passes yet";
    if (best->evaluation.speedup)
        return fmt::format("best {:.2f}x ({})", best->evaluation.speedup->estimate, best->id);
    return "best " + best->id;
}

awaitable<int> run_task(Engine& engine, const Common& common, const Task& task,
                        const RunOptions& options) {
    const auto steps = static_cast<std::size_t>(options.config.steps);
    const std::size_t components = options.config.components.empty()
                                       ? task.feedback.components.size()
                                       : options.config.components.size();
    const Prompt example =
        base_prompt(task, task.starts.at(task.baseline).program, Evaluation{}, {});
    log_info("run of task " + task.name + ": " +
             estimate(engine, options.config.planning ? steps : 0, steps,
                      options.config.mode == Mode::summary ? steps * components : 0, example));
    if (options.dry_run)
        co_return exit_done;
    Progress progress("run", steps + std::max<std::size_t>(1, options.config.starts.size()));
    const RunProgress show = [&](std::size_t done, std::size_t total, const Candidate* best) {
        progress.set_total(total);
        progress.update(done, best_note(best));
    };
    const std::string study = co_await run_study(engine, task, options.config, show);
    const Candidate* best = nullptr;
    std::vector<std::unique_ptr<Candidate>> candidates;
    std::vector<const Candidate*> seen;
    for (const auto& [position, sample] : engine.journal.samples(study)) {
        const json document = json::parse(sample);
        if (!document.contains("candidate"))
            continue;
        Result<Candidate> candidate = decode<Candidate>(document.at("candidate").dump());
        if (!candidate)
            co_return failure(candidate.error());
        candidates.push_back(std::make_unique<Candidate>(std::move(*candidate)));
        seen.push_back(candidates.back().get());
    }
    best = best_of(seen);
    if (common.json) {
        fmt::print("{}\n",
                   json{{"study", study},
                        {"candidates", candidates.size()},
                        {"best", best == nullptr ? json(nullptr) : json::parse(encode(*best))},
                        {"spent", engine.budget.spent()},
                        {"calls_of_unknown_cost", engine.budget.calls_of_unknown_cost()}}
                       .dump(2));
        co_return exit_done;
    }
    fmt::print("study {}: {} candidates", study, candidates.size());
    if (best != nullptr)
        fmt::print(", best {}: {}", best->id, status_line(best->evaluation));
    fmt::print("\nnext: loopscope report {0}    loopscope freeze {0}\n", study);
    co_return exit_done;
}

Result<Trajectory> trajectory_or_freeze(Engine& engine, const Task& task, const std::string& id,
                                        bool& frozen_now) {
    frozen_now = false;
    Result<Trajectory> stored = trajectory_from(engine.journal, id);
    if (stored || !engine.journal.study(id))
        return stored;
    frozen_now = true;
    return freeze_run(engine.journal, task, id, {});
}

awaitable<int> intervene_on(Engine& engine, const Common& common, const Task& task,
                            const InterveneOptions& options) {
    bool frozen_now = false;
    const Result<Trajectory> trajectory =
        trajectory_or_freeze(engine, task, options.trajectory, frozen_now);
    if (!trajectory)
        co_return usage_error(trajectory.error());
    if (frozen_now)
        co_await engine.journal.put_trajectory(trajectory->id, encode(*trajectory));
    InterveneConfig config = options.config;
    if (config.components.empty())
        config.components = task.feedback.components;
    const std::size_t contexts = trajectory->contexts.size();
    const std::size_t arms =
        (std::size_t{1} << config.components.size()) + (config.control ? 1 : 0);
    const std::size_t plans = contexts * arms * static_cast<std::size_t>(config.rollouts);
    const std::size_t proposals = plans * static_cast<std::size_t>(config.trials);
    log_info(fmt::format("intervention on {} ({} contexts, {} arms, {} rollouts, {} trials): ",
                         trajectory->id, contexts, arms, config.rollouts, config.trials) +
             estimate(engine, config.planning ? plans : 0, proposals,
                      config.mode == Mode::summary ? contexts * config.components.size() *
                                                         static_cast<std::size_t>(config.rollouts)
                                                   : 0,
                      trajectory->contexts.front().prompt));
    log_info(design_note(contexts, config));
    if (options.dry_run)
        co_return exit_done;
    Progress progress("intervene", proposals);
    const InterveneProgress show = [&](std::size_t done, std::size_t total) {
        progress.set_total(total);
        progress.update(done);
    };
    const std::string study = co_await intervene(engine, task, *trajectory, config, show);
    if (common.json)
        fmt::print("{}\n", json{{"study", study},
                                {"trajectory", trajectory->id},
                                {"trials", proposals},
                                {"spent", engine.budget.spent()},
                                {"calls_of_unknown_cost", engine.budget.calls_of_unknown_cost()}}
                               .dump(2));
    else
        fmt::print(
            "study {}: {} trials over {} contexts of {}\nnext: loopscope attribute {}    loopscope "
            "report {}\n",
            study, proposals, contexts, trajectory->id, study, study);
    co_return exit_done;
}

// Where the task of a trajectory or run lies.
Result<std::string> task_folder_of(const Common& common, const InterveneOptions& options) {
    if (!options.task.empty())
        return options.task;
    std::string folder;
    Error why{options.trajectory, "there is no such trajectory or run in this journal"};
    const int code = with_journal(common, true, [&](Journal& journal) {
        if (const Result<Trajectory> trajectory = trajectory_from(journal, options.trajectory))
            folder = trajectory->task;
        else if (const std::optional<StudyRow> study = journal.study(options.trajectory))
            folder = json::parse(study->config).value("task_folder", "");
        return exit_done;
    });
    if (code != exit_done)
        return fail("", "");
    if (folder.empty())
        return tl::unexpected<Error>(why);
    return folder;
}

}  // namespace

int verb_run(const Common& common, const RunOptions& given) {
    const Result<Task> task = task_to_evaluate(given.task);
    if (!task)
        return usage_error(task.error());
    RunOptions options = given;
    options.config.mode = *mode_named(options.mode);
    const Result<std::vector<NamedProgram>> starts =
        candidates_from(*task, "", options.config.starts);
    if (!starts)
        return usage_error(starts.error());
    options.config.starts.clear();
    for (const NamedProgram& start : *starts)
        options.config.starts.push_back(start.name);
    const std::vector<std::string> known = component_names(*task);
    for (const std::string& component : options.config.components)
        if (std::find(known.begin(), known.end(), component) == known.end())
            return usage_error(Error{"--components", fmt::format("'{}' is none of {}", component,
                                                                 fmt::join(known, ", "))});
    return with_engine(common, options.models,
                       [&](Engine& engine) { return run_task(engine, common, *task, options); });
}

int verb_intervene(const Common& common, const InterveneOptions& given) {
    const Result<std::string> folder = task_folder_of(common, given);
    if (!folder)
        return folder.error().what.empty() ? exit_failed : usage_error(folder.error());
    const Result<Task> task = task_to_evaluate(*folder);
    if (!task)
        return usage_error(task.error());
    InterveneOptions options = given;
    options.config.mode = *mode_named(options.mode);
    const std::vector<std::string> known = component_names(*task);
    for (const std::string& component : options.config.components)
        if (std::find(known.begin(), known.end(), component) == known.end())
            return usage_error(Error{"--components", fmt::format("'{}' is none of {}", component,
                                                                 fmt::join(known, ", "))});
    const std::size_t players = options.config.components.empty()
                                    ? task->feedback.components.size()
                                    : options.config.components.size();
    if (players > 5)
        return usage_error(Error{
            "--components",
            fmt::format("all coalitions of {} players are too many arms; choose at most 5 of {}",
                        players, fmt::join(known, ", "))});
    return with_engine(common, options.models, [&](Engine& engine) {
        return intervene_on(engine, common, *task, options);
    });
}

int verb_freeze(const Common& common, const FreezeOptions& options) {
    std::string folder;
    const int looked = with_journal(common, true, [&](Journal& journal) {
        if (const std::optional<StudyRow> study = journal.study(options.study))
            folder = json::parse(study->config).value("task_folder", "");
        return exit_done;
    });
    if (looked != exit_done)
        return looked;
    if (folder.empty())
        return usage_error(
            Error{options.study,
                  "there is no such study in this journal; `loopscope journal` lists them"});
    const Result<Task> task = task_to_evaluate(folder);
    if (!task)
        return usage_error(task.error());
    FreezeConfig config;
    config.select =
        options.select == "parents" ? FreezeConfig::Select::parents : FreezeConfig::Select::all;
    config.max_contexts = options.max_contexts;
    config.seed = common.seed;
    const auto body = [&](Engine& engine) -> awaitable<int> {
        const Result<Trajectory> trajectory =
            freeze_run(engine.journal, *task, options.study, config);
        if (!trajectory)
            co_return usage_error(trajectory.error());
        co_await engine.journal.put_trajectory(trajectory->id, encode(*trajectory));
        int failing = 0;
        int generations = 0;
        for (const Context& context : trajectory->contexts) {
            failing +=
                context.evaluation.status && *context.evaluation.status < Status::pass ? 1 : 0;
            generations = std::max(generations, context.generation + 1);
        }
        if (common.json)
            fmt::print("{}\n", encode(*trajectory));
        else
            fmt::print(
                "trajectory {}: {} contexts over {} generations, {} of them failing programs to "
                "repair\nnext: loopscope "
                "intervene {}\n",
                trajectory->id, trajectory->contexts.size(), generations, failing, trajectory->id);
        co_return exit_done;
    };
    return with_engine(common, {}, body);
}

}  // namespace loopscope
