#include "attribute/layout.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

namespace loopscope {

namespace {

std::string place(const Trial& trial) {
    return "trial (context " + trial.context + ", arm " + std::to_string(trial.arm) + ", rollout " +
           std::to_string(trial.rollout) + ", trial " + std::to_string(trial.trial) + ")";
}

Result<void> check_plan(const StudyData& data) {
    if (data.trials.empty())
        return fail("study", "it has no trials: nothing to attribute");
    if (data.players.size() > 12)
        return fail("players", std::to_string(data.players.size()) +
                                   " components; all coalitions of at most 12 can be attributed");
    if (data.rollouts < 1 || data.trials_per_rollout < 1)
        return fail("study", "rollouts and trials per rollout must be at least 1");
    for (std::size_t i = 0; i < data.arms.size(); ++i)
        if (data.arms[i].coalition >= (1U << data.players.size()))
            return fail("arms[" + std::to_string(i) + "]",
                        "its coalition names a component that the study does not have");
    return {};
}

Result<void> check_trial(const StudyData& data, const Trial& trial) {
    if (trial.arm < 0 || static_cast<std::size_t>(trial.arm) >= data.arms.size())
        return fail(place(trial), "there are only " + std::to_string(data.arms.size()) + " arms");
    if (trial.rollout < 0 || trial.rollout >= data.rollouts)
        return fail(place(trial), "the plan has " + std::to_string(data.rollouts) + " rollouts");
    if (trial.trial < 0 || trial.trial >= data.trials_per_rollout)
        return fail(place(trial), "the plan has " + std::to_string(data.trials_per_rollout) +
                                      " trials per rollout");
    if (trial.status && *trial.status >= Status::pass && !std::isfinite(trial.gain))
        return fail(place(trial), "its gain is not a finite number");
    return {};
}

ContextRow row_of(const Trial& trial) {
    ContextRow row;
    row.id = trial.context;
    row.generation = trial.generation;
    row.lineage = trial.lineage;
    row.parent_status = trial.parent_status;
    return row;
}

bool agree(const ContextRow& a, const ContextRow& b) {
    return a.generation == b.generation && a.lineage == b.lineage &&
           a.parent_status == b.parent_status;
}

double outcome(const Trial* trial, Metric metric) {
    if (trial == nullptr || !trial->status)
        return 0;
    switch (metric) {
        case Metric::compile:
            return *trial->status >= Status::compile ? 1 : 0;
        case Metric::pass:
            return *trial->status >= Status::pass ? 1 : 0;
        case Metric::fast:
            return *trial->status >= Status::fast ? 1 : 0;
        case Metric::gain:
            return *trial->status >= Status::pass ? trial->gain : 0;
    }
    return 0;
}

DesignCell cell_of(const std::vector<const Trial*>& trials) {
    DesignCell cell;
    const auto count = static_cast<double>(trials.size());
    for (const Metric metric : all_metrics) {
        double sum = 0;
        double squares = 0;
        int positive = 0;
        for (const Trial* trial : trials) {
            const double y = outcome(trial, metric);
            sum += y;
            squares += y * y;
            positive += y > 0 ? 1 : 0;
        }
        const double mean = sum / count;
        cell.mean[slot(metric)] = mean;
        cell.positive[slot(metric)] = positive;
        if (trials.size() > 1) {
            double deviations = 0;
            for (const Trial* trial : trials) {
                const double deviation = outcome(trial, metric) - mean;
                deviations += deviation * deviation;
            }
            cell.scatter[slot(metric)] = deviations / (count - 1) / count;
        }
        if (metric == Metric::gain)
            cell.gain_squares = squares;
    }
    for (const Trial* trial : trials)
        cell.missing += trial == nullptr || !trial->status ? 1 : 0;
    return cell;
}

// What decides whether two arms share their answers in one (context, rollout): the coder and the
// prompt of each trial. An A/A control draws its own answers, so it shares with none. "" when no
// prompt is known.
std::string signature(const StudyData& data, std::size_t arm,
                      const std::vector<const Trial*>& trials) {
    std::string text;
    bool known = false;
    for (const Trial* trial : trials) {
        text += '\n';
        if (trial != nullptr) {
            text += trial->prompt_hash;
            known = known || !trial->prompt_hash.empty();
        }
    }
    if (!known)
        return "";
    if (data.arms[arm].control)
        text += "\ncontrol " + std::to_string(arm);
    return data.arms[arm].coder + text;
}

}  // namespace

Result<DesignLayout> lay_out(const StudyData& data) {
    if (auto checked = check_plan(data); !checked)
        return tl::unexpected(checked.error());
    std::map<std::string, ContextRow> by_id;
    for (const Trial& trial : data.trials) {
        if (auto checked = check_trial(data, trial); !checked)
            return tl::unexpected(checked.error());
        ContextRow row = row_of(trial);
        const auto [known, added] = by_id.emplace(trial.context, row);
        if (!added && !agree(known->second, row))
            return fail("context " + trial.context,
                        "its trials disagree on generation, lineage or the parent's status");
    }
    DesignLayout layout;
    layout.arms = data.arms.size();
    layout.rollouts = data.rollouts;
    layout.trials = data.trials_per_rollout;
    std::vector<ContextRow> rows;
    for (auto& [id, row] : by_id)
        rows.push_back(std::move(row));
    std::sort(rows.begin(), rows.end(), [](const ContextRow& a, const ContextRow& b) {
        return a.generation != b.generation ? a.generation < b.generation : a.id < b.id;
    });
    std::unordered_map<std::string, std::size_t> position;
    for (std::size_t c = 0; c < rows.size(); ++c)
        position[rows[c].id] = c;

    const auto rollouts = static_cast<std::size_t>(layout.rollouts);
    const auto per_cell = static_cast<std::size_t>(layout.trials);
    std::vector<const Trial*> planned(rows.size() * layout.arms * rollouts * per_cell, nullptr);
    std::vector<char> touched(rows.size() * rollouts, 0);
    for (const Trial& trial : data.trials) {
        const std::size_t c = position[trial.context];
        const auto r = static_cast<std::size_t>(trial.rollout);
        const std::size_t cell =
            (((c * layout.arms) + static_cast<std::size_t>(trial.arm)) * rollouts) + r;
        const Trial*& seat = planned[(cell * per_cell) + static_cast<std::size_t>(trial.trial)];
        if (seat != nullptr)
            return fail(place(trial), "it is given twice");
        seat = &trial;
        if (!trial.status && trial.reason == Reason::infrastructure)
            touched[(c * rollouts) + r] = 1;
    }

    for (std::size_t c = 0; c < rows.size(); ++c) {
        for (std::size_t r = 0; r < rollouts; ++r) {
            if (touched[(c * rollouts) + r] != 0)
                ++layout.infrastructure_blocks;
            else
                rows[c].kept.push_back(static_cast<int>(r));
        }
        if (rows[c].kept.empty()) {
            ++layout.contexts_lost;
            continue;
        }
        std::vector<std::map<std::string, int>> prompts(rollouts);
        for (std::size_t a = 0; a < layout.arms; ++a) {
            for (std::size_t r = 0; r < rollouts; ++r) {
                const auto first =
                    planned.begin() + static_cast<std::ptrdiff_t>(
                                          ((((c * layout.arms) + a) * rollouts) + r) * per_cell);
                const std::vector<const Trial*> trials(
                    first, first + static_cast<std::ptrdiff_t>(per_cell));
                DesignCell cell = cell_of(trials);
                const std::string key = signature(data, a, trials);
                if (!key.empty())
                    cell.prompt =
                        prompts[r].emplace(key, static_cast<int>(prompts[r].size())).first->second;
                layout.cells.push_back(cell);
            }
        }
        layout.contexts.push_back(std::move(rows[c]));
    }
    if (layout.contexts.empty())
        return fail("study", "no context has a rollout that our own side's failures left whole");
    return layout;
}

}  // namespace loopscope
