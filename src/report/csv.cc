// The report's tables as CSV; docs/report.md has their columns. Numbers are raw (shares, not
// percentages), a number that does not exist is an empty field.
#include "report/digest.h"
#include "report/escape.h"
#include "report/report.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

namespace {

// The shortest decimal that reads back as x.
std::string raw(double x) { return std::isfinite(x) ? fmt::format("{}", x) : ""; }
std::string raw(std::int64_t x) { return std::to_string(x); }
std::string raw(int x) { return std::to_string(x); }
std::string raw(std::size_t x) { return std::to_string(x); }
std::string raw(bool x) { return x ? "true" : "false"; }
std::string positive(double x) { return x > 0 ? raw(x) : ""; }

void line(std::string& csv, const std::vector<std::string>& fields) {
    for (std::size_t i = 0; i < fields.size(); ++i)
        csv += (i == 0 ? "" : ",") + csv_field(fields[i]);
    csv += "\n";
}

void begin(std::string& csv, std::string_view name, std::string_view header) {
    csv += fmt::format("{}# {}\n{}\n", csv.empty() ? "" : "\n", name, header);
}

void append(std::vector<std::string>& fields, const std::optional<Ratio>& ratio) {
    if (ratio)
        fields.insert(fields.end(), {raw(ratio->estimate), raw(ratio->low), raw(ratio->high),
                                     raw(ratio->launches)});
    else
        fields.insert(fields.end(), {"", "", "", ""});
}

void append(std::vector<std::string>& fields, const stats::Estimate& x) {
    fields.insert(fields.end(), {raw(x.value), raw(x.low), raw(x.high), raw(x.n)});
}

std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names)
        text += (text.empty() ? "" : " ") + name;
    return text;
}

void write_candidates(std::string& csv, const ReportData& data) {
    begin(csv, "candidates",
          "candidate,generation,parent,status,reason,device,trust,speedup,speedup_low,speedup_high,"
          "speedup_launches,"
          "gain,gain_low,gain_high,gain_launches,improves,components,repeats,edit_error");
    for (const Candidate& candidate : data.candidates) {
        const Evaluation& evaluation = candidate.evaluation;
        std::vector<std::string> fields = {
            candidate.id,
            raw(candidate.generation),
            candidate.parent,
            evaluation.status ? std::string(name_of(*evaluation.status)) : "",
            std::string(name_of(evaluation.reason)),
            evaluation.device,
            evaluation.trust};
        append(fields, evaluation.speedup);
        append(fields, evaluation.gain);
        fields.insert(fields.end(), {raw(evaluation.improves), joined(candidate.components),
                                     candidate.repeats, candidate.edit_error});
        line(csv, fields);
    }
}

void write_outcomes(std::string& csv, const ReportData& data) {
    begin(csv, "outcomes",
          "generation,n,without_verdict,fail,compile,pass,fast,reaches_compile,reaches_compile_low,"
          "reaches_compile_high,"
          "reaches_pass,reaches_pass_low,reaches_pass_high,reaches_fast,reaches_fast_low,reaches_"
          "fast_high");
    for (const Outcomes& row : outcomes_by_generation(pool_of(data))) {
        std::vector<std::string> fields = {raw(row.generation),      raw(row.with_verdict),
                                           raw(row.without_verdict), raw(row.exactly[0]),
                                           raw(row.exactly[1]),      raw(row.exactly[2]),
                                           raw(row.exactly[3])};
        for (const Status status : {Status::compile, Status::pass, Status::fast}) {
            const stats::Estimate reached = row.reaches(status);
            if (row.with_verdict > 0)
                fields.insert(fields.end(),
                              {raw(reached.value), raw(reached.low), raw(reached.high)});
            else
                fields.insert(fields.end(), {"", "", ""});
        }
        line(csv, fields);
    }
}

void write_timing(std::string& csv, const Candidate& best) {
    begin(csv, "timing",
          "candidate,session,sizes,candidate_seconds,baseline_seconds,parent_seconds,speedup,"
          "speedup_low,speedup_high,"
          "speedup_launches,gain,gain_low,gain_high,gain_launches,flops_per_second,bytes_per_"
          "second,noise_floor,"
          "pairs,pinned_cpu");
    for (const TimeOutcome& session : best.evaluation.sessions) {
        for (const SizeTiming& size : session.sizes) {
            std::vector<std::string> fields = {best.id,
                                               raw(session.session),
                                               size.sizes,
                                               raw(size.candidate_seconds),
                                               raw(size.baseline_seconds),
                                               positive(size.parent_seconds)};
            append(fields, std::optional(size.speedup));
            append(fields, size.gain);
            fields.insert(fields.end(),
                          {positive(size.flops_per_second), positive(size.bytes_per_second),
                           raw(session.noise_floor), raw(session.pairs), raw(session.pinned_cpu)});
            line(csv, fields);
        }
    }
}

void write_attribution(std::string& csv, const Attribution& attribution) {
    begin(csv, "values",
          "metric,setting,generation,stratum,exploratory,coalition,mask,value,low,high,n");
    const auto game_fields = [](const GameEstimate& game) {
        return std::vector<std::string>{std::string(name_of(game.metric)), game.setting,
                                        game.generation < 0 ? "" : raw(game.generation),
                                        game.stratum, raw(game.exploratory)};
    };
    for (const GameEstimate& game : attribution.games) {
        for (std::size_t mask = 0; mask < game.value.size(); ++mask) {
            std::vector<std::string> fields = game_fields(game);
            fields.insert(
                fields.end(),
                {coalition_name(attribution.players, static_cast<std::uint32_t>(mask)), raw(mask)});
            append(fields, game.value[mask]);
            line(csv, fields);
        }
    }
    begin(csv, "indices",
          "metric,setting,generation,stratum,exploratory,index,components,mask,value,low,high,n,p,"
          "adjusted_"
          "p,structurally_zero,"
          "floor_used,missing_share");
    for (const GameEstimate& game : attribution.games) {
        const auto write = [&](std::string_view kind, const std::vector<IndexEstimate>& indices) {
            for (const IndexEstimate& index : indices) {
                std::vector<std::string> fields = game_fields(game);
                fields.insert(fields.end(),
                              {std::string(kind), coalition_name(attribution.players, index.subset),
                               raw(std::size_t{index.subset})});
                append(fields, index.estimate);
                fields.insert(fields.end(), {raw(index.p_value), raw(index.adjusted_p),
                                             raw(index.structurally_zero), raw(index.floor_used),
                                             raw(game.missing_share)});
                line(csv, fields);
            }
        };
        write("shapley", game.shapley);
        write("banzhaf", game.banzhaf);
        write("sii", game.interactions);
    }
}

}  // namespace

std::string csv_report(const ReportData& data) {
    std::string csv;
    begin(csv, "study", "study,kind,task,state,builtin_models,best,best_start,machine,command");
    line(csv, {data.study, data.kind, data.task_name, data.state, joined(data.builtin_models),
               data.best, data.best_start, data.machine,
               data.command.empty() ? "loopscope report " + data.study : data.command});
    if (!data.candidates.empty()) {
        write_candidates(csv, data);
        write_outcomes(csv, data);
    }
    const Candidate* best = find_candidate(data.candidates, data.best);
    if (best != nullptr && !best->evaluation.sessions.empty())
        write_timing(csv, *best);
    if (!data.peers.empty()) {
        begin(csv, "peers", "peer,candidate,sizes,ratio,ratio_low,ratio_high,launches");
        for (const PeerResult& peer : data.peers) {
            std::vector<std::string> fields = {peer.peer, peer.candidate, peer.sizes};
            append(fields, std::optional(peer.candidate_over_peer));
            line(csv, fields);
        }
    }
    if (data.attribution) {
        write_attribution(csv, *data.attribution);
        begin(csv, "comparisons",
              "metric,arm_a,arm_b,difference,low,high,n,p_t,p_sign_flip,adjusted_p");
        for (const ArmComparison& comparison : data.attribution->comparisons) {
            std::vector<std::string> fields = {std::string(name_of(comparison.metric)),
                                               arm_name(data, comparison.arm_a),
                                               arm_name(data, comparison.arm_b)};
            append(fields, comparison.difference);
            fields.insert(fields.end(), {raw(comparison.p_t), raw(comparison.p_sign_flip),
                                         raw(comparison.adjusted_p)});
            line(csv, fields);
        }
    }
    if (!data.costs.empty()) {
        begin(csv, "costs",
              "role,model,calls,reused,input_tokens,cached_tokens,output_tokens,reasoning_tokens,"
              "seconds,cost");
        for (const CostLine& cost : data.costs)
            line(csv,
                 {cost.role, cost.model, raw(cost.calls), raw(cost.reused), raw(cost.input_tokens),
                  raw(cost.cached_tokens), raw(cost.output_tokens), raw(cost.reasoning_tokens),
                  raw(cost.seconds), cost.cost ? raw(*cost.cost) : ""});
    }
    begin(csv, "calls", "failed,cut_by_a_crash");
    line(csv, {raw(data.calls_failed), raw(data.calls_cut_by_a_crash)});
    const auto write_lines = [&csv](std::string_view name, std::string_view header,
                                    const std::vector<std::string>& lines) {
        if (lines.empty())
            return;
        begin(csv, name, header);
        for (const std::string& text : lines)
            line(csv, {text});
    };
    write_lines("diagnosis", "sentence", data.diagnosis);
    write_lines("limits", "sentence", limits_of(data));
    return csv;
}

}  // namespace loopscope
