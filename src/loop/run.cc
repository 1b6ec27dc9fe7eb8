#include "loop/run.h"

#include "core/hash.h"
#include "core/log.h"
#include "loop/prompts.h"
#include "loop/sample.h"
#include "loop/stages.h"
#include "program/edit.h"
#include "record/codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

namespace loopscope {

namespace {

using nlohmann::json;

double score_of(const Candidate& candidate) {
    if (candidate.evaluation.speedup)
        return candidate.evaluation.speedup->estimate;
    const auto score = candidate.evaluation.metrics.find("score");
    return score == candidate.evaluation.metrics.end() ? 0 : score->second;
}

bool reaches(const Candidate& candidate, Status status) {
    return candidate.evaluation.status && *candidate.evaluation.status >= status;
}

// The fastest first; of equals the earlier proposal.
std::vector<const Candidate*> ranked(const std::vector<const Candidate*>& candidates) {
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < candidates.size(); ++i)
        order.emplace_back(-score_of(*candidates[i]), i);
    std::sort(order.begin(), order.end());
    std::vector<const Candidate*> sorted;
    for (const auto& [score, index] : order)
        sorted.push_back(candidates[index]);
    return sorted;
}

// What step `step` may see: the starts and every step up to step - width.
std::vector<const Candidate*> view_of(const std::vector<std::unique_ptr<Candidate>>& all,
                                      std::size_t count) {
    std::vector<const Candidate*> seen;
    for (std::size_t i = 0; i < count; ++i)
        seen.push_back(all[i].get());
    return seen;
}

// The three best and the three latest attempts, in order of proposal.
std::vector<Attempt> history_of(const std::vector<const Candidate*>& seen) {
    std::vector<const Candidate*> proposals;
    for (const Candidate* candidate : seen)
        if (!candidate->parent.empty())
            proposals.push_back(candidate);
    std::vector<const Candidate*> best = ranked(proposals);
    best.resize(std::min<std::size_t>(3, best.size()));
    std::set<const Candidate*> shown(best.begin(), best.end());
    for (std::size_t i = proposals.size() - std::min<std::size_t>(3, proposals.size());
         i < proposals.size(); ++i)
        shown.insert(proposals[i]);
    std::vector<Attempt> history;
    for (const Candidate* candidate : proposals)
        if (shown.contains(candidate))
            history.push_back(Attempt{candidate->id, candidate->evaluation, candidate->plan,
                                      candidate->edit_error});
    return history;
}

// Waits, without a lock, until slot i is filled: a timer that never expires is cancelled by the one
// who fills it.
class Filled {
public:
    Filled(const asio::any_io_executor& executor, std::size_t count) : done_(count, false) {
        for (std::size_t i = 0; i < count; ++i)
            events_.emplace_back(executor, asio::steady_timer::time_point::max());
    }
    awaitable<void> wait(std::size_t index) {
        while (!done_[index]) {
            const auto token = asio::as_tuple(asio::use_awaitable);
            co_await events_[index].async_wait(token);
            const auto state = co_await asio::this_coro::cancellation_state;
            if (state.cancelled() != asio::cancellation_type::none)
                throw boost::system::system_error(asio::error::operation_aborted);
        }
    }
    void fill(std::size_t index) {
        done_[index] = true;
        events_[index].cancel();
    }

private:
    std::vector<bool> done_;
    std::vector<asio::steady_timer> events_;
};

}  // namespace

const Candidate* best_of(const std::vector<const Candidate*>& seen) {
    const Candidate* best = nullptr;
    for (const Candidate* candidate : seen)
        if (reaches(*candidate, Status::pass) &&
            (best == nullptr || score_of(*candidate) > score_of(*best)))
            best = candidate;
    return best;
}

const Candidate& select_parent(const std::vector<const Candidate*>& seen, const RunConfig& config,
                               Rng rng) {
    std::vector<const Candidate*> passing;
    std::vector<const Candidate*> failed;
    std::set<std::string> programs;
    for (const Candidate* candidate : seen) {
        if (candidate->program.files.empty() || !candidate->evaluation.status)
            continue;
        if (!programs.insert(encode(candidate->program)).second)
            continue;  // a repeated program is one parent
        (reaches(*candidate, Status::pass) ? passing : failed).push_back(candidate);
    }
    const bool repair =
        !failed.empty() && (passing.empty() || rng.unit() < config.repair_probability);
    if (repair) {
        const auto repairs = [&](const Candidate* parent) {
            return std::count_if(seen.begin(), seen.end(),
                                 [&](const Candidate* c) { return c->parent == parent->id; });
        };
        const Candidate* chosen = failed.front();
        for (const Candidate* candidate : failed)
            if (repairs(candidate) <= repairs(chosen))
                chosen = candidate;
        return *chosen;
    }
    if (passing.empty())
        return *seen.front();
    passing = ranked(passing);
    passing.resize(std::min(passing.size(), static_cast<std::size_t>(config.population)));
    double total = 0;
    for (std::size_t k = 0; k < passing.size(); ++k)
        total += 1.0 / static_cast<double>(k + 1);
    double at = rng.unit() * total;
    for (std::size_t k = 0; k < passing.size(); ++k) {
        at -= 1.0 / static_cast<double>(k + 1);
        if (at < 0)
            return *passing[k];
    }
    return *passing.back();
}

std::string run_config_json(const Engine& engine, const Task& task, const RunConfig& config) {
    const auto id = [](const std::unique_ptr<Model>& model) {
        return model ? json(model->id()) : json(nullptr);
    };
    return json{
        {"task", task.name},
        {"task_hash", sha256_hex(canonical(task))},
        {"task_folder", task.folder.string()},
        {"starts", config.starts},
        {"steps", config.steps},
        {"width", config.width},
        {"population", config.population},
        {"repair_probability", config.repair_probability},
        {"components", config.components},
        {"mode", name_of(config.mode)},
        {"planning", config.planning},
        {"planner", config.planning ? id(engine.models.planner) : json(nullptr)},
        {"coder", id(engine.models.coder)},
        {"summarizer", config.mode == Mode::summary ? id(engine.models.summarizer) : json(nullptr)},
        {"seed", config.seed}}
        .dump();
}

awaitable<std::string> run_study(Engine& engine, const Task& task, const RunConfig& given,
                                 const RunProgress& progress) {
    RunConfig config = given;
    if (config.starts.empty())
        config.starts.push_back(task.baseline);
    if (config.components.empty())
        config.components = task.feedback.components;
    if (config.mode == Mode::none)
        config.components.clear();

    StudyRow row;
    row.kind = "run";
    row.config = run_config_json(engine, task, config);
    row.id = study_id('r', row.config);
    row.state = "running";
    row.created_ms = engine.clock.unix_milliseconds();
    engine.study = row.id;
    co_await engine.journal.put_study(row);

    std::string machine = co_await machine_sample_json(engine, task);
    co_await engine.journal.put_sample(row.id, "machine", std::move(machine));

    const std::size_t starts = config.starts.size();
    const std::size_t total = starts + static_cast<std::size_t>(config.steps);
    const auto width = static_cast<std::size_t>(config.width);
    std::vector<std::unique_ptr<Candidate>> candidates(total);
    Filled filled(engine.loop, total);
    std::size_t done = 0;

    const std::function<awaitable<void>(std::size_t)> work =
        [&](std::size_t index) -> awaitable<void> {
        auto candidate = std::make_unique<Candidate>();
        SampleKeys keys;
        if (index < starts) {
            const Start& start = task.starts.at(config.starts[index]);
            candidate->id = fmt::format("s{}", index);
            candidate->program = start.program;
            Evaluated evaluated =
                co_await evaluate_candidate(engine, task, start.program, nullptr, "");
            candidate->evaluation = std::move(evaluated.evaluation);
            keys.stages = std::move(evaluated.keys);
        } else {
            const std::size_t step = index - starts;
            const std::size_t visible = starts + (step >= width ? step - width + 1 : 0);
            for (std::size_t i = 0; i < visible; ++i)
                co_await filled.wait(i);
            const std::vector<const Candidate*> seen = view_of(candidates, visible);
            const Candidate& parent =
                select_parent(seen, config, Rng(config.seed).fork("select", {step}));
            const Prompt base =
                base_prompt(task, parent.program, parent.evaluation, history_of(seen));
            SampleRequest request;
            request.components = config.components;
            request.mode = config.mode;
            request.planning = config.planning;
            request.summary_draw = fmt::format("{}/summary", config.seed);
            request.plan_draw = fmt::format("{}/{}/0", config.seed, step);
            request.proposal_draw = request.plan_draw;
            request.position = fmt::format("{:05}", index);
            Sampled sampled = co_await take_sample(engine, task, base, parent.program,
                                                   parent.evaluation, request);
            candidate->id = fmt::format("c{}", step + 1);
            candidate->generation = parent.generation + 1;
            candidate->parent = parent.id;
            candidate->program = std::move(sampled.program);
            candidate->evaluation = std::move(sampled.evaluation);
            candidate->prompt = std::move(sampled.prompt);
            candidate->plan = std::move(sampled.plan);
            candidate->answer = std::move(sampled.answer);
            candidate->edit_error = std::move(sampled.edit_error);
            candidate->components = config.components;
            const std::string form = normal_form(candidate->program);
            for (const Candidate* earlier : seen)
                if (!candidate->program.files.empty() && candidate->repeats.empty() &&
                    normal_form(earlier->program) == form)
                    candidate->repeats = earlier->id;
            keys = std::move(sampled.keys);
        }
        co_await engine.journal.put_sample(row.id, fmt::format("{:05}", index),
                                           run_sample_json(*candidate, keys));
        candidates[index] = std::move(candidate);
        filled.fill(index);
        ++done;
        std::vector<const Candidate*> finished;
        for (const auto& one : candidates)
            if (one)
                finished.push_back(one.get());
        progress(done, total, best_of(finished));
    };
    co_await for_each_index(total, width, work);

    // Trusted comparisons for the best candidate, timed beside it.
    std::vector<const Candidate*> all = view_of(candidates, total);
    const Candidate* best = best_of(all);
    if (best != nullptr && task.kind == EvaluatorKind::kernel) {
        for (const auto& [name, peer] : task.peers) {
            const Result<TimeOutcome> timed =
                co_await time_against_peer(engine, task, best->program, peer);
            const std::string position = "peer/" + name;
            const json sample = {{"peer", name},
                                 {"of", best->id},
                                 {"outcome", timed ? json::parse(encode(*timed)) : json(nullptr)},
                                 {"error", timed ? "" : to_text(timed.error())}};
            co_await engine.journal.put_sample(row.id, position, sample.dump());
        }
    }
    row.state = "done";
    co_await engine.journal.put_study(row);
    co_return row.id;
}

}  // namespace loopscope
