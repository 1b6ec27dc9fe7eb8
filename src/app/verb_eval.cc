#include "app/subject.h"
#include "app/verbs.h"
#include "core/log.h"
#include "loop/prompts.h"
#include "loop/stages.h"
#include "record/codec.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

namespace loopscope {

namespace {

using nlohmann::json;

void print_evaluation(const std::string& name, const Evaluation& evaluation) {
    fmt::print("{}: {}\n", name, status_line(evaluation));
    if (!evaluation.message.empty())
        fmt::print("  {}\n", evaluation.message);
    for (const TimeOutcome& session : evaluation.sessions) {
        for (const SizeTiming& size : session.sizes)
            fmt::print(
                "  session {}, {}: {:.3f} ms against {:.3f} ms, ratio {:.3f} [{:.3f}, {:.3f}], {} "
                "launches of {} "
                "pairs, noise floor {:.1f} %{}\n",
                session.session + 1, size.sizes, size.candidate_seconds * 1e3,
                size.baseline_seconds * 1e3, size.speedup.estimate, size.speedup.low,
                size.speedup.high, session.launches, session.pairs, session.noise_floor * 100,
                size.flops_per_second > 0
                    ? fmt::format(", {:.2f} GFLOP/s", size.flops_per_second / 1e9)
                    : "");
    }
    for (const Finding& finding : evaluation.findings)
        fmt::print("  finding ({}): {}\n", finding.kind, finding.text);
    fmt::print("  device {}, trust {}\n", evaluation.device, evaluation.trust);
}

bool as_expected(const NamedProgram& candidate, const Evaluation& evaluation) {
    return evaluation.status && name_of(*evaluation.status) == candidate.expect &&
           (candidate.expect_reason.empty() ||
            name_of(evaluation.reason) == candidate.expect_reason);
}

awaitable<int> evaluate_all(Engine& engine, const Common& common, const Task& task,
                            const std::vector<NamedProgram>& candidates,
                            const EvalOptions& options) {
    json document = json::array();
    bool unexpected = false;
    bool infrastructure = false;
    for (const NamedProgram& candidate : candidates) {
        std::map<std::string, int> verdicts;
        int expected = 0;
        json repeats = json::array();
        for (int i = 0; i < options.repeat; ++i) {
            EvaluateOptions evaluate_options;
            evaluate_options.fresh = options.fresh;
            const Evaluated evaluated = co_await evaluate_candidate(engine, task, candidate.program,
                                                                    nullptr, "", evaluate_options);
            const Evaluation& evaluation = evaluated.evaluation;
            infrastructure = infrastructure || !evaluation.status;
            ++verdicts[fmt::format("{} ({})",
                                   evaluation.status ? name_of(*evaluation.status) : "none",
                                   name_of(evaluation.reason))];
            expected += as_expected(candidate, evaluation) ? 1 : 0;
            repeats.push_back(json::parse(encode(evaluation)));
            if (!common.json && options.repeat == 1)
                print_evaluation(candidate.name, evaluation);
        }
        json counts = json::object();
        for (const auto& [verdict, count] : verdicts)
            counts[verdict] = count;
        document.push_back(
            {{"candidate", candidate.name},
             {"expect", candidate.expect},
             {"expect_reason", candidate.expect_reason},
             {"as_expected", candidate.expect.empty() ? json(nullptr) : json(expected)},
             {"verdicts", counts},
             {"evaluations", std::move(repeats)}});
        if (!candidate.expect.empty() && expected < options.repeat) {
            unexpected = true;
            log_warn(fmt::format(
                "{}: {} of {} evaluations gave {}{}, the status its author intended",
                candidate.name, expected, options.repeat, candidate.expect,
                candidate.expect_reason.empty() ? ""
                                                : fmt::format(" ({})", candidate.expect_reason)));
        }
        if (!common.json && options.repeat > 1) {
            fmt::print("{}:", candidate.name);
            for (const auto& [verdict, count] : verdicts)
                fmt::print(" {} of {} {}", count, options.repeat, verdict);
            fmt::print("{}\n", candidate.expect.empty()
                                   ? ""
                                   : fmt::format("; intended: {}", candidate.expect));
        }
    }
    if (common.json)
        fmt::print("{}\n", json{{"task", task.name}, {"candidates", document}}.dump(2));
    co_return infrastructure || (unexpected && options.file.empty()) ? exit_failed : exit_done;
}

awaitable<int> feedback_on(Engine& engine, const Common& common, const Task& task,
                           const NamedProgram& candidate, std::vector<std::string> components) {
    if (components.empty())
        components = task.feedback.components;
    const Evaluated evaluated =
        co_await evaluate_candidate(engine, task, candidate.program, nullptr, "");
    json document = json::object();
    for (const std::string& component : components) {
        const Said said = co_await recall_feedback(engine, task, component, candidate.program,
                                                   evaluated.evaluation);
        document[component] = json::parse(encode(said.feedback));
        if (common.json)
            continue;
        fmt::print("== {} ({:.1f} s){}\n{}\n", component, said.feedback.seconds,
                   said.feedback.applicable ? "" : ", not applicable", said.feedback.text);
        for (const std::string& missing : said.feedback.missing)
            fmt::print("not installed: {}\n", missing);
    }
    if (common.json)
        fmt::print("{}\n", json{{"task", task.name},
                                {"candidate", candidate.name},
                                {"evaluation", json::parse(encode(evaluated.evaluation))},
                                {"feedback", document}}
                               .dump(2));
    co_return exit_done;
}

}  // namespace

int verb_eval(const Common& common, const EvalOptions& options) {
    const Result<Task> task = task_to_evaluate(options.task);
    if (!task)
        return usage_error(task.error());
    const Result<std::vector<NamedProgram>> candidates =
        candidates_from(*task, options.file, options.starts);
    if (!candidates)
        return usage_error(candidates.error());
    if (options.repeat > 1 && !options.fresh)
        return usage_error(Error{
            "--repeat",
            "repeats only make sense with --fresh: without it the first verdict is recalled"});
    return with_engine(common, {}, [&](Engine& engine) {
        return evaluate_all(engine, common, *task, *candidates, options);
    });
}

int verb_feedback(const Common& common, const FeedbackOptions& options) {
    const Result<Task> task = task_to_evaluate(options.task);
    if (!task)
        return usage_error(task.error());
    const std::vector<std::string> known = component_names(*task);
    for (const std::string& component : options.components)
        if (std::find(known.begin(), known.end(), component) == known.end())
            return usage_error(Error{"--component", fmt::format("'{}' is none of {}", component,
                                                                fmt::join(known, ", "))});
    std::vector<std::string> starts;
    if (!options.start.empty())
        starts.push_back(options.start);
    const Result<std::vector<NamedProgram>> candidates =
        candidates_from(*task, options.file, starts);
    if (!candidates)
        return usage_error(candidates.error());
    return with_engine(common, {}, [&](Engine& engine) {
        return feedback_on(engine, common, *task, candidates->front(), options.components);
    });
}

}  // namespace loopscope
