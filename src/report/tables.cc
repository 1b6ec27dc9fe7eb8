#include "report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/text.h"
#include "report/numbers.h"

namespace loopscope {

namespace {

constexpr const char* none = "\u2013";

Cell plain(std::string text) { return {std::move(text), ""}; }

Cell number(std::size_t n) { return {count_text(n), n == 0 ? "muted" : ""}; }

Cell ratio_cell(const std::optional<Ratio>& ratio) {
    return ratio ? Cell{times_text(*ratio), ""} : Cell{none, "muted"};
}

Cell status_cell(const Evaluation& evaluation) {
    if (!evaluation.status)
        return {"no verdict", "muted"};
    return {std::string(name_of(*evaluation.status)), std::string(name_of(*evaluation.status))};
}

std::string first_line(std::string_view text, std::size_t width) {
    const std::vector<std::string> lines = split_lines(trim(text));
    return lines.empty() ? "" : clip(lines.front(), width);
}

bool excludes_zero(const stats::Estimate& x) {
    return has_interval(x) && (x.low > 0 || x.high < 0);
}

bool structural(const IndexEstimate& index, const GameEstimate& game) {
    return index.structurally_zero > 0 && index.structurally_zero >= game.contexts;
}

Cell index_cell(const IndexEstimate& index, const GameEstimate& game) {
    if (structural(index, game))
        return {"structurally zero", "muted"};
    return {effect_text(game.metric, index.estimate), excludes_zero(index.estimate) ? "clear" : ""};
}

// What a reader must know of an estimate beside its interval.
std::string remarks(const IndexEstimate& index, const GameEstimate& game) {
    std::string text;
    const auto add = [&text](std::string_view remark) {
        text += fmt::format("{}{}", text.empty() ? "" : "; ", remark);
    };
    if (structural(index, game))
        add("every coalition that differs renders the same prompt");
    else if (index.structurally_zero > 0)
        add(fmt::format("zero by construction in {} of {} contexts", index.structurally_zero,
                        game.contexts));
    if (index.floor_used)
        add("rare outcome: variance floor used");
    if (game.missing_share > 0)
        add(fmt::format("{} of trials missing", percent_text(game.missing_share, 1)));
    if (game.exploratory)
        add("exploratory");
    return text;
}

std::string player_name(const Attribution& attribution, std::uint32_t mask) {
    const std::string name = coalition_name(attribution.players, mask);
    return name.substr(1, name.size() - 2);
}

std::string unit_note() {
    return "Shares in percentage points; gain in natural-log units of parent time / child time "
           "(0.1 = about 10.5 %). "
           "Brackets: 95 % intervals over contexts.";
}

// One line a game, component and index.
void add_game_rows(Table& table, const Attribution& attribution, const GameEstimate& game,
                   const std::string& where) {
    for (std::size_t i = 0; i < game.shapley.size(); ++i) {
        const IndexEstimate& shapley = game.shapley[i];
        Cell banzhaf = {none, "muted"};
        if (i < game.banzhaf.size())
            banzhaf = index_cell(game.banzhaf[i], game);
        table.rows.push_back({plain(where), plain(game_title(game)),
                              plain(player_name(attribution, shapley.subset)),
                              index_cell(shapley, game), banzhaf, plain(game_n(game)),
                              plain(remarks(shapley, game))});
    }
}

}  // namespace

Table candidates_table(const ReportData& data) {
    Table table{"candidates",
                "Every candidate, in order of proposal",
                {{"candidate"},
                 {"generation", true},
                 {"parent"},
                 {"status"},
                 {"reason"},
                 {"speed-up", true},
                 {"launches", true},
                 {"gain over parent", true},
                 {"remark"}},
                {},
                "Brackets: intervals over process launches, each the mean of interleaved pairs."};
    for (const Candidate& candidate : data.candidates) {
        const Evaluation& evaluation = candidate.evaluation;
        std::string remark;
        if (!candidate.edit_error.empty())
            remark = first_line(candidate.edit_error, 90);
        else if (!candidate.repeats.empty())
            remark = "same program as " + candidate.repeats;
        else if (!evaluation.findings.empty())
            remark = "finding: " + evaluation.findings.front().kind;
        else if (evaluation.improves)
            remark = "improves on its parent";
        table.rows.push_back(
            {{candidate.id, candidate.id == data.best ? "strong" : ""},
             {count_text(static_cast<std::int64_t>(candidate.generation)), ""},
             is_start(candidate) ? Cell{"start", "muted"} : plain(candidate.parent),
             status_cell(evaluation),
             plain(std::string(name_of(evaluation.reason))),
             ratio_cell(evaluation.speedup),
             evaluation.speedup ? plain(std::to_string(evaluation.speedup->launches))
                                : Cell{none, "muted"},
             ratio_cell(evaluation.gain),
             plain(remark)});
    }
    return table;
}

Table outcomes_table(const ReportData& data) {
    Table table{"outcomes",
                "Outcomes of the proposals",
                {{"generation"},
                 {"n", true},
                 {"fail", true},
                 {"compile", true},
                 {"pass", true},
                 {"fast", true},
                 {"reaches compile", true},
                 {"reaches pass", true},
                 {"reaches fast", true},
                 {"no verdict", true}},
                {},
                "fail, compile, pass, fast: how many ended there. Reaches: share of n that reached "
                "the status or a "
                "better one, with its 95 % Wilson interval, which takes proposals as independent."};
    const Pool pool = pool_of(data);
    const auto add_row = [&table](const std::string& name, const Outcomes& row) {
        const auto share = [&row](Status status) {
            if (row.with_verdict == 0)
                return Cell{none, "muted"};
            const stats::Estimate reached = row.reaches(status);
            return plain(fmt::format("{} [{}, {}]", percent_text(reached.value),
                                     fixed_text(100 * reached.low, 0),
                                     fixed_text(100 * reached.high, 0)));
        };
        table.rows.push_back({plain(name), number(row.with_verdict), number(row.exactly[0]),
                              number(row.exactly[1]), number(row.exactly[2]),
                              number(row.exactly[3]), share(Status::compile), share(Status::pass),
                              share(Status::fast), number(row.without_verdict)});
    };
    const std::vector<Outcomes> rows = outcomes_by_generation(pool);
    for (const Outcomes& row : rows)
        add_row(std::to_string(row.generation), row);
    if (rows.size() > 1)
        add_row("all", outcomes_in_all(pool));
    return table;
}

Table ancestry_table(const ReportData& data) {
    Table table{"ancestry",
                "How the best candidate came about",
                {{"candidate"},
                 {"generation", true},
                 {"feedback shown"},
                 {"status"},
                 {"gain over parent", true},
                 {"speed-up", true},
                 {"launches", true}},
                {},
                ""};
    for (const Candidate* candidate : ancestry(data.candidates, data.best)) {
        std::string components;
        for (const std::string& component : candidate->components)
            components += (components.empty() ? "" : ", ") + component;
        const Evaluation& evaluation = candidate->evaluation;
        table.rows.push_back(
            {plain(candidate->id), plain(std::to_string(candidate->generation)),
             components.empty() ? Cell{is_start(*candidate) ? "start" : "none", "muted"}
                                : plain(components),
             status_cell(evaluation), ratio_cell(evaluation.gain), ratio_cell(evaluation.speedup),
             evaluation.speedup ? plain(std::to_string(evaluation.speedup->launches))
                                : Cell{none, "muted"}});
    }
    return table;
}

Table sessions_table(const Candidate& candidate) {
    Table table{"sessions",
                "Timing sessions",
                {{"session"},
                 {"speed-up", true},
                 {"gain over parent", true},
                 {"launches", true},
                 {"pairs a launch", true},
                 {"noise floor", true},
                 {"CPU"}},
                {},
                "Noise floor: half-width of the baseline's interval against itself. The published "
                "figures are those of "
                "the last session."};
    for (const TimeOutcome& session : candidate.evaluation.sessions) {
        std::string cpu = session.pinned_cpu >= 0 ? fmt::format("pinned to {}", session.pinned_cpu)
                                                  : "not pinned";
        if (session.serialised)
            cpu += ", shared with the engine";
        table.rows.push_back(
            {plain(session.session == 0 ? "first"
                                        : fmt::format("confirming ({})", session.session)),
             session.ok ? plain(times_text(session.speedup))
                        : plain(std::string(name_of(session.reason))),
             ratio_cell(session.ok ? session.gain : std::nullopt),
             plain(std::to_string(session.launches)), plain(std::to_string(session.pairs)),
             session.noise_floor > 0 ? plain(percent_text(std::expm1(session.noise_floor), 1))
                                     : Cell{none, "muted"},
             plain(cpu)});
    }
    return table;
}

Table timing_table(const ReportData& data, const Candidate& candidate) {
    bool flops = false;
    bool bytes = false;
    for (const TimeOutcome& session : candidate.evaluation.sessions) {
        for (const SizeTiming& size : session.sizes) {
            flops = flops || size.flops_per_second > 0;
            bytes = bytes || size.bytes_per_second > 0;
        }
    }
    const bool flops_roof = flops && data.roof_flops_per_second > 0;
    const bool bytes_roof = bytes && data.roof_bytes_per_second > 0;
    Table table{"timing",
                "Timing evidence per size",
                {{"size"},
                 {"session"},
                 {"candidate", true},
                 {"baseline", true},
                 {"speed-up", true},
                 {"launches", true}},
                {},
                ""};
    if (flops)
        table.columns.push_back({"arithmetic", true});
    if (flops_roof)
        table.columns.push_back({"of roof", true});
    if (bytes)
        table.columns.push_back({"memory", true});
    if (bytes_roof)
        table.columns.push_back({"of roof", true});
    for (const TimeOutcome& session : candidate.evaluation.sessions) {
        for (const SizeTiming& size : session.sizes) {
            std::vector<Cell> row = {plain(size.sizes),
                                     plain(session.session == 0 ? "first" : "confirming"),
                                     plain(seconds_text(size.candidate_seconds)),
                                     plain(seconds_text(size.baseline_seconds)),
                                     plain(times_text(size.speedup)),
                                     plain(std::to_string(size.speedup.launches))};
            const auto add_rate = [&row](double rate, std::string_view unit) {
                row.push_back(rate > 0 ? plain(rate_text(rate, unit)) : Cell{none, "muted"});
            };
            const auto add_share = [&row](double rate, double roof) {
                row.push_back(rate > 0 ? plain(percent_text(rate / roof)) : Cell{none, "muted"});
            };
            if (flops)
                add_rate(size.flops_per_second, "FLOP/s");
            if (flops_roof)
                add_share(size.flops_per_second, data.roof_flops_per_second);
            if (bytes)
                add_rate(size.bytes_per_second, "B/s");
            if (bytes_roof)
                add_share(size.bytes_per_second, data.roof_bytes_per_second);
            table.rows.push_back(std::move(row));
        }
    }
    table.note = "Times: median over launches of the median call.";
    if (flops_roof || bytes_roof) {
        table.note += " Roof, measured on this machine:";
        if (flops_roof)
            table.note += " " + rate_text(data.roof_flops_per_second, "FLOP/s");
        if (bytes_roof)
            table.note +=
                fmt::format("{} {} from memory (a problem that fits the caches may exceed it)",
                            flops_roof ? "," : "", rate_text(data.roof_bytes_per_second, "B/s"));
        table.note += ".";
    }
    return table;
}

Table checks_table(const Candidate& candidate) {
    Table table{"checks",
                "Verified against the reference",
                {{"size"}, {"inputs"}, {"right"}, {"worst error / bound", true}, {"detail"}},
                {},
                "Inputs are drawn after the candidate was loaded; right means that no element's "
                "error exceeds its bound."};
    for (const VerifiedCase& verified : candidate.evaluation.cases)
        table.rows.push_back({plain(verified.sizes), plain(verified.inputs),
                              verified.ok ? Cell{"yes", "pass"} : Cell{"no", "fail"},
                              plain(fixed_text(verified.worst, 3)),
                              plain(first_line(verified.detail, 90))});
    return table;
}

Table peers_table(const ReportData& data) {
    Table table{"peers",
                "Against peers",
                {{"peer"},
                 {"candidate"},
                 {"sizes"},
                 {"peer time / candidate time", true},
                 {"launches", true}},
                {},
                "Above 1: the candidate is faster than the peer. Timed interleaved."};
    for (const PeerResult& peer : data.peers)
        table.rows.push_back({plain(peer.peer), plain(peer.candidate), plain(peer.sizes),
                              plain(times_text(peer.candidate_over_peer)),
                              plain(std::to_string(peer.candidate_over_peer.launches))});
    return table;
}

Table values_table(const ReportData& data) {
    Table table{"values", "Value of each coalition", {{"coalition"}}, {}, ""};
    if (!data.attribution)
        return table;
    const Attribution& attribution = *data.attribution;
    const std::vector<const GameEstimate*> games = pooled_games(attribution);
    std::vector<std::string> settings;
    std::vector<Metric> metrics;
    std::size_t coalitions = 0;
    for (const GameEstimate* game : games) {
        if (std::ranges::find(settings, game->setting) == settings.end())
            settings.push_back(game->setting);
        if (std::ranges::find(metrics, game->metric) == metrics.end())
            metrics.push_back(game->metric);
        coalitions = std::max(coalitions, game->value.size());
    }
    for (const Metric metric : metrics)
        table.columns.push_back({metric_title(metric) + (is_share(metric) ? ", %" : ""), true});
    table.columns.push_back({"n"});
    const bool any_missing =
        std::ranges::any_of(attribution.missing_by_arm, [](double share) { return share > 0; });
    if (any_missing)
        table.columns.push_back({"missing", true});
    table.note = fmt::format(
        "v(S), all generations, equal weight to each context; {} of {} in each. Gain: mean of "
        "max(0, ln(parent time / "
        "child time)), a failed proposal counting 0. Brackets: 95 % intervals. {}",
        counted(static_cast<std::size_t>(std::max(attribution.rollouts, 0)), "rollout", "rollouts"),
        counted(static_cast<std::size_t>(std::max(attribution.trials_per_rollout, 0)), "trial",
                "trials"),
        any_missing ? "Missing trials count as failures." : "No trial is missing.");
    for (const std::string& setting : settings) {
        for (std::size_t mask = 0; mask < coalitions; ++mask) {
            std::string name =
                coalition_name(attribution.players, static_cast<std::uint32_t>(mask));
            if (!setting.empty())
                name += " " + setting;
            std::vector<Cell> row = {plain(name)};
            std::string n;
            for (const Metric metric : metrics) {
                const auto found = std::ranges::find_if(games, [&](const GameEstimate* game) {
                    return game->metric == metric && game->setting == setting &&
                           mask < game->value.size();
                });
                if (found == games.end()) {
                    row.push_back({none, "muted"});
                    continue;
                }
                row.push_back(plain(value_text(metric, (*found)->value[mask])));
                n = game_n(**found);
            }
            row.push_back(plain(n));
            if (!any_missing) {
                table.rows.push_back(std::move(row));
                continue;
            }
            // With several settings a coalition has several arms, and the games do not say which is
            // whose.
            double missing = -1;
            if (settings.size() == 1)
                for (std::size_t arm = 0;
                     arm < data.arms.size() && arm < attribution.missing_by_arm.size(); ++arm)
                    if (data.arms[arm].coalition == mask && !data.arms[arm].control)
                        missing = attribution.missing_by_arm[arm];
            row.push_back(missing < 0
                              ? Cell{none, "muted"}
                              : Cell{percent_text(missing, 1), missing == 0 ? "muted" : ""});
            table.rows.push_back(std::move(row));
        }
    }
    return table;
}

Table indices_table(const ReportData& data) {
    Table table{"indices",
                "Worth of each component",
                {{"metric"},
                 {"component"},
                 {"Shapley", true},
                 {"Banzhaf", true},
                 {"p", true},
                 {"adjusted p", true},
                 {"n"},
                 {"remarks"}},
                {},
                unit_note() + " p: of the Shapley value; adjusted within its family."};
    if (!data.attribution)
        return table;
    const Attribution& attribution = *data.attribution;
    for (const GameEstimate* pooled : pooled_games(attribution)) {
        const GameEstimate& game = *pooled;
        for (std::size_t i = 0; i < game.shapley.size(); ++i) {
            const IndexEstimate& shapley = game.shapley[i];
            Cell banzhaf = {none, "muted"};
            if (i < game.banzhaf.size())
                banzhaf = index_cell(game.banzhaf[i], game);
            table.rows.push_back({plain(game_title(game)),
                                  plain(player_name(attribution, shapley.subset)),
                                  index_cell(shapley, game), banzhaf,
                                  plain(p_text(shapley.p_value)), plain(p_text(shapley.adjusted_p)),
                                  plain(game_n(game)), plain(remarks(shapley, game))});
        }
    }
    return table;
}

Table interactions_table(const ReportData& data) {
    Table table{"interactions",
                "Interactions",
                {{"metric"},
                 {"components"},
                 {"interaction", true},
                 {"p", true},
                 {"adjusted p", true},
                 {"n"},
                 {"remarks"}},
                {},
                "Shapley interaction index: above 0, the components are worth more together than "
                "apart; below 0, they "
                "say the same thing twice. " +
                    unit_note()};
    if (!data.attribution)
        return table;
    const Attribution& attribution = *data.attribution;
    for (const GameEstimate* pooled : pooled_games(attribution)) {
        const GameEstimate& game = *pooled;
        for (const IndexEstimate& index : game.interactions) {
            const bool zero = structural(index, game);
            table.rows.push_back(
                {plain(game_title(game)), plain(coalition_name(attribution.players, index.subset)),
                 index_cell(index, game), zero ? Cell{none, "muted"} : plain(p_text(index.p_value)),
                 zero ? Cell{none, "muted"} : plain(p_text(index.adjusted_p)), plain(game_n(game)),
                 plain(remarks(index, game))});
        }
    }
    return table;
}

namespace {

Table games_table(const ReportData& data, std::string name, std::string caption, std::string first,
                  bool (*wanted)(const GameEstimate&), std::string (*where)(const GameEstimate&)) {
    Table table{std::move(name),
                std::move(caption),
                {{std::move(first)},
                 {"metric"},
                 {"component"},
                 {"Shapley", true},
                 {"Banzhaf", true},
                 {"n"},
                 {"remarks"}},
                {},
                "Exploratory: many questions asked of few contexts; take a surprise here as an "
                "idea for a new study. " +
                    unit_note()};
    if (data.attribution)
        for (const GameEstimate& game : data.attribution->games)
            if (wanted(game))
                add_game_rows(table, *data.attribution, game, where(game));
    return table;
}

}  // namespace

Table strata_table(const ReportData& data) {
    return games_table(
        data, "strata", "By the status of the parent", "parent's status",
        [](const GameEstimate& game) { return !game.stratum.empty() && game.generation == -1; },
        [](const GameEstimate& game) { return game.stratum; });
}

Table generations_table(const ReportData& data) {
    return games_table(
        data, "generations", "By generation", "generation",
        [](const GameEstimate& game) { return game.generation != -1; },
        [](const GameEstimate& game) {
            return std::to_string(game.generation) +
                   (game.stratum.empty() ? "" : ", parent at " + game.stratum);
        });
}

Table comparisons_table(const ReportData& data, std::optional<Metric> only) {
    Table table{"comparisons",
                "Arms compared in pairs",
                {{"metric"},
                 {"arm A"},
                 {"arm B"},
                 {"A \u2212 B", true},
                 {"p (t)", true},
                 {"p (sign flip)", true},
                 {"adjusted p", true},
                 {"contexts", true},
                 {"remarks"}},
                {},
                "Differences within the same contexts; p adjusted over the comparisons of a metric "
                "(Holm for "
                "\"reaches pass\", else Benjamini-Hochberg). " +
                    unit_note()};
    if (!data.attribution)
        return table;
    if (only)
        table.caption += ": " + metric_title(*only);
    for (const ArmComparison& comparison : data.attribution->comparisons) {
        if (only && comparison.metric != *only)
            continue;
        const bool zero =
            comparison.structurally_zero > 0 && comparison.structurally_zero >= comparison.contexts;
        std::string remark;
        if (zero)
            remark = "both arms render the same prompts";
        else if (comparison.structurally_zero > 0)
            remark = fmt::format("the same prompt in {} of {} contexts",
                                 comparison.structurally_zero, comparison.contexts);
        if (comparison.floor_used)
            remark += std::string(remark.empty() ? "" : "; ") + "rare outcome: variance floor used";
        const auto p = [zero](double value) {
            return zero ? Cell{none, "muted"} : plain(p_text(value));
        };
        table.rows.push_back(
            {plain(metric_title(comparison.metric)), plain(arm_name(data, comparison.arm_a)),
             plain(arm_name(data, comparison.arm_b)),
             zero ? Cell{"structurally zero", "muted"}
                  : Cell{effect_text(comparison.metric, comparison.difference),
                         comparison.adjusted_p < 0.05 ? "clear" : ""},
             p(comparison.p_t), p(comparison.p_sign_flip), p(comparison.adjusted_p),
             plain(count_text(static_cast<std::int64_t>(comparison.contexts))), plain(remark)});
    }
    return table;
}

Table arms_table(const ReportData& data) {
    Table table{"arms",
                "The arms",
                {{"arm"}, {"components"}, {"shown as"}, {"planning"}, {"planner"}, {"coder"}},
                {},
                ""};
    for (const Arm& arm : data.arms)
        table.rows.push_back({{arm.name + (arm.control ? " (A/A control)" : ""), ""},
                              plain(coalition_name(data.players, arm.coalition)),
                              plain(std::string(name_of(arm.mode))),
                              plain(arm.planning ? "yes" : "no"),
                              arm.planning ? plain(arm.planner) : Cell{none, "muted"},
                              plain(arm.coder)});
    return table;
}

Table costs_table(const ReportData& data) {
    Table table{"costs",
                "Calls, tokens, money",
                {{"role"},
                 {"model"},
                 {"calls", true},
                 {"reused", true},
                 {"tokens in", true},
                 {"cached", true},
                 {"tokens out", true},
                 {"reasoning", true},
                 {"time", true},
                 {"cost", true}},
                {},
                ""};
    CostLine total;
    double known = 0;
    std::size_t unknown = 0;
    for (const CostLine& line : data.costs) {
        table.rows.push_back({plain(line.role),
                              plain(line.model),
                              plain(count_text(line.calls)),
                              plain(count_text(line.reused)),
                              plain(count_text(line.input_tokens)),
                              plain(count_text(line.cached_tokens)),
                              plain(count_text(line.output_tokens)),
                              plain(count_text(line.reasoning_tokens)),
                              plain(seconds_text(line.seconds)),
                              {money_text(line.cost), line.cost ? "" : "strong"}});
        total.calls += line.calls;
        total.reused += line.reused;
        total.input_tokens += line.input_tokens;
        total.cached_tokens += line.cached_tokens;
        total.output_tokens += line.output_tokens;
        total.reasoning_tokens += line.reasoning_tokens;
        total.seconds += line.seconds;
        known += line.cost.value_or(0);
        unknown += line.cost ? 0U : 1U;
    }
    if (data.costs.size() > 1) {
        std::string cost = money_text(known);
        if (unknown == data.costs.size())
            cost = "unknown";
        else if (unknown > 0)
            cost += " + unknown";
        table.rows.push_back({{"all", "strong"},
                              plain(""),
                              {count_text(total.calls), "strong"},
                              {count_text(total.reused), "strong"},
                              {count_text(total.input_tokens), "strong"},
                              {count_text(total.cached_tokens), "strong"},
                              {count_text(total.output_tokens), "strong"},
                              {count_text(total.reasoning_tokens), "strong"},
                              {seconds_text(total.seconds), "strong"},
                              {cost, "strong"}});
    }
    table.note =
        "Reused: answers found in the journal, asked and paid for once. Tokens in include the "
        "cached ones, "
        "tokens out the reasoning.";
    if (data.calls_failed > 0)
        table.note +=
            fmt::format(" {} without an answer.",
                        data.calls_failed == 1 ? "1 call ended"
                                               : count_text(data.calls_failed) + " calls ended");
    if (data.calls_cut_by_a_crash > 0)
        table.note += fmt::format(
            " {} in flight when the process died; the provider may have billed {}, and no cost is "
            "counted for {} here.",
            data.calls_cut_by_a_crash == 1 ? "1 call was"
                                           : count_text(data.calls_cut_by_a_crash) + " calls were",
            data.calls_cut_by_a_crash == 1 ? "it" : "them",
            data.calls_cut_by_a_crash == 1 ? "it" : "them");
    return table;
}

}  // namespace loopscope
