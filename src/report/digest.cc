#include "report/digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "report/numbers.h"

namespace loopscope {

bool is_start(const Candidate& candidate) { return candidate.parent.empty(); }

bool edit_failed(const Candidate& candidate) {
    return !candidate.edit_error.empty() || (candidate.evaluation.status == Status::fail &&
                                             candidate.evaluation.reason == Reason::edit);
}

bool has_speedup(const Candidate& candidate) {
    const Evaluation& evaluation = candidate.evaluation;
    return evaluation.status && *evaluation.status >= Status::pass && evaluation.speedup &&
           evaluation.speedup->estimate > 0 && evaluation.reason != Reason::implausible;
}

const Candidate* find_candidate(const std::vector<Candidate>& candidates, const std::string& id) {
    const auto found = std::ranges::find(candidates, id, &Candidate::id);
    return found == candidates.end() || id.empty() ? nullptr : &*found;
}

Pool pool_of(const ReportData& data) {
    using Place = std::pair<std::string, std::string>;
    const auto place_of = [](const Candidate& candidate) {
        return Place{candidate.evaluation.device, candidate.evaluation.trust};
    };
    Place place;
    if (const Candidate* best = find_candidate(data.candidates, data.best)) {
        place = place_of(*best);
    } else {
        std::map<Place, std::size_t> counts;
        for (const Candidate& candidate : data.candidates)
            if (candidate.evaluation.status)
                ++counts[place_of(candidate)];
        std::size_t most = 0;
        for (const auto& [where, count] : counts) {
            if (count > most) {
                most = count;
                place = where;
            }
        }
    }
    Pool pool{place.first, place.second, {}, 0};
    for (const Candidate& candidate : data.candidates) {
        // Without a verdict, or refused before anything ran, a candidate belongs to no device.
        const bool anywhere = !candidate.evaluation.status || edit_failed(candidate);
        if (anywhere || place_of(candidate) == place)
            pool.candidates.push_back(&candidate);
        else
            ++pool.left_out;
    }
    return pool;
}

std::vector<CurvePoint> learning_curve(const Pool& pool) {
    std::vector<CurvePoint> points;
    int order = 1 - static_cast<int>(std::ranges::count_if(
                        pool.candidates, [](const Candidate* c) { return is_start(*c); }));
    int proposal = 1;
    double best = 0;
    for (const Candidate* candidate : pool.candidates) {
        if (has_speedup(*candidate))
            best = std::max(best, candidate->evaluation.speedup->estimate);
        points.push_back({is_start(*candidate) ? order++ : proposal++, candidate, best});
    }
    return points;
}

stats::Estimate Outcomes::reaches(Status status) const {
    std::size_t reached = 0;
    for (std::size_t i = static_cast<std::size_t>(status); i < exactly.size(); ++i)
        reached += exactly[i];
    if (with_verdict == 0)
        return {};
    return stats::wilson(reached, with_verdict);
}

namespace {

void add(Outcomes& outcomes, const Candidate& candidate) {
    if (candidate.evaluation.status) {
        ++outcomes.exactly[static_cast<std::size_t>(*candidate.evaluation.status)];
        ++outcomes.with_verdict;
    } else {
        ++outcomes.without_verdict;
    }
}

}  // namespace

std::vector<Outcomes> outcomes_by_generation(const Pool& pool) {
    std::map<int, Outcomes> rows;
    for (const Candidate* candidate : pool.candidates) {
        if (is_start(*candidate))
            continue;
        Outcomes& row = rows[candidate->generation];
        row.generation = candidate->generation;
        add(row, *candidate);
    }
    std::vector<Outcomes> out;
    out.reserve(rows.size());
    for (const auto& [generation, row] : rows)
        out.push_back(row);
    return out;
}

Outcomes outcomes_in_all(const Pool& pool) {
    Outcomes all;
    for (const Candidate* candidate : pool.candidates)
        if (!is_start(*candidate))
            add(all, *candidate);
    return all;
}

std::vector<const Candidate*> ancestry(const std::vector<Candidate>& candidates,
                                       const std::string& id) {
    std::vector<const Candidate*> line;
    std::set<std::string> seen;  // a damaged journal might hold a circle
    for (const Candidate* at = find_candidate(candidates, id);
         at != nullptr && seen.insert(at->id).second; at = find_candidate(candidates, at->parent))
        line.push_back(at);
    std::ranges::reverse(line);
    return line;
}

bool is_pooled(const GameEstimate& game) { return game.generation == -1 && game.stratum.empty(); }

std::vector<const GameEstimate*> pooled_games(const Attribution& attribution) {
    std::vector<const GameEstimate*> games;
    for (const Metric metric : {Metric::compile, Metric::pass, Metric::fast, Metric::gain})
        for (const GameEstimate& game : attribution.games)
            if (game.metric == metric && is_pooled(game))
                games.push_back(&game);
    return games;
}

std::string game_title(const GameEstimate& game) {
    return game.setting.empty() ? metric_title(game.metric)
                                : fmt::format("{} ({})", metric_title(game.metric), game.setting);
}

std::string game_n(const GameEstimate& game) {
    const std::string contexts =
        counted(static_cast<std::size_t>(std::max(game.contexts, 0)), "context", "contexts");
    if (!game.by_lineage)
        return contexts;
    return fmt::format(
        "{} ({})",
        counted(static_cast<std::size_t>(std::max(game.clusters, 0)), "lineage", "lineages"),
        contexts);
}

std::string coalition_name(const std::vector<std::string>& players, std::uint32_t mask) {
    std::string name = "{";
    for (std::size_t i = 0; i < players.size(); ++i) {
        if ((mask >> i & 1U) == 0)
            continue;
        if (name.size() > 1)
            name += ", ";
        name += players[i];
    }
    return name + "}";
}

std::string metric_title(Metric metric) {
    switch (metric) {
        case Metric::compile:
            return "reaches compile";
        case Metric::pass:
            return "reaches pass";
        case Metric::fast:
            return "reaches fast";
        case Metric::gain:
            return "gain";
    }
    return "";
}

std::string metric_unit(Metric metric) {
    return is_share(metric) ? "percentage points" : "ln(parent time / child time)";
}

std::string arm_name(const ReportData& data, int arm) {
    if (arm >= 0 && static_cast<std::size_t>(arm) < data.arms.size())
        return data.arms[static_cast<std::size_t>(arm)].name;
    return fmt::format("arm {}", arm);
}

std::string builtin_label(const ReportData& data) {
    std::string label;
    for (const std::string& model : data.builtin_models)
        label += (label.empty() ? "" : ", ") + model;
    return label;
}

namespace {

// A warning as a sentence among sentences.
std::string sentence(std::string text) {
    if (!text.empty() && text.front() >= 'a' && text.front() <= 'z')
        text.front() = static_cast<char>(text.front() - 'a' + 'A');
    if (!text.empty() && text.back() != '.')
        text += '.';
    return text;
}

}  // namespace

std::vector<std::string> limits_of(const ReportData& data) {
    std::vector<std::string> limits;
    const auto add_limit = [&limits](std::string text) {
        if (!text.empty() && std::ranges::find(limits, text) == limits.end())
            limits.push_back(std::move(text));
    };
    if (!data.state.empty() && data.state != "done")
        add_limit(
            fmt::format("The study is not finished ({}): every number is of the part that is done.",
                        data.state));
    if (const std::string label = builtin_label(data); !label.empty())
        add_limit(fmt::format(
            "The answers come from {}, which is built into this program and is no language model: "
            "what is shown says how that model uses feedback, not how a language model would.",
            label));
    for (const std::string& limit : data.limits)
        add_limit(limit);
    const Pool pool = pool_of(data);
    if (pool.left_out > 0)
        add_limit(fmt::format(
            "{} judged on another device or with another trust than {}/{} and left out of the "
            "figures: such verdicts are not comparable.",
            pool.left_out == 1 ? "1 candidate was" : count_text(pool.left_out) + " candidates were",
            pool.device, pool.trust));
    if (pool.trust == "shared_process")
        add_limit(
            "The candidates' scores are self-reported: candidate and evaluator shared one "
            "process.");
    if (pool.trust == "unsandboxed")
        add_limit(
            "The candidates ran without a sandbox: nothing kept them from reading or changing "
            "what judged them.");
    const std::size_t measured = static_cast<std::size_t>(std::ranges::count_if(
        pool.candidates, [](const Candidate* c) { return !is_start(*c) && has_speedup(*c); }));
    if (find_candidate(data.candidates, data.best) != nullptr && measured > 1)
        add_limit(fmt::format(
            "The best candidate is the largest of {} measured speed-ups, and the largest of "
            "several "
            "noisy numbers tends to be too large. Its published figure is that of its last timing "
            "session; its interval does not account for the choice.",
            count_text(measured)));
    if (data.attribution) {
        const Attribution& attribution = *data.attribution;
        for (const std::string& warning : attribution.warnings)
            add_limit(sentence(warning));
        for (const GameEstimate* game : pooled_games(attribution))
            for (const std::string& warning : game->warnings)
                if (std::ranges::find(attribution.warnings, warning) == attribution.warnings.end())
                    add_limit(sentence(game_title(*game) + ": " + warning));
    }
    bool unknown_price = false;
    for (const CostLine& line : data.costs)
        unknown_price = unknown_price || !line.cost;
    if (unknown_price)
        add_limit("At least one model has no known price: the total cost is a lower bound.");
    return limits;
}

}  // namespace loopscope
