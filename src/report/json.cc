// The report as one JSON document; docs/report.md has its keys. Numbers that do not exist (the
// interval of one context, an unknown price) are null.
#include "report/digest.h"
#include "report/report.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace loopscope {

namespace {

using nlohmann::json;

json json_of(const Ratio& ratio) {
    return {{"estimate", ratio.estimate},
            {"low", ratio.low},
            {"high", ratio.high},
            {"launches", ratio.launches},
            {"confidence", ratio.confidence}};
}

json json_of(const std::optional<Ratio>& ratio) { return ratio ? json_of(*ratio) : json(nullptr); }

json json_of(const stats::Estimate& x) {
    return {{"value", x.value}, {"low", x.low}, {"high", x.high}, {"n", x.n}};
}

json findings_of(const std::vector<Finding>& findings) {
    json list = json::array();
    for (const Finding& finding : findings)
        list.push_back({{"kind", finding.kind}, {"text", finding.text}});
    return list;
}

json json_of(const Candidate& candidate) {
    const Evaluation& evaluation = candidate.evaluation;
    return {{"id", candidate.id},
            {"generation", candidate.generation},
            {"parent", candidate.parent},
            {"status", evaluation.status ? json(name_of(*evaluation.status)) : json(nullptr)},
            {"reason", name_of(evaluation.reason)},
            {"device", evaluation.device},
            {"trust", evaluation.trust},
            {"speedup", json_of(evaluation.speedup)},
            {"gain", json_of(evaluation.gain)},
            {"improves", evaluation.improves},
            {"tolerance", evaluation.tolerance},
            {"metrics", evaluation.metrics},
            {"findings", findings_of(evaluation.findings)},
            {"components", candidate.components},
            {"edit_error", candidate.edit_error},
            {"repeats", candidate.repeats}};
}

json json_of(const TimeOutcome& session) {
    json sizes = json::array();
    for (const SizeTiming& size : session.sizes)
        sizes.push_back(
            {{"sizes", size.sizes},
             {"candidate_seconds", size.candidate_seconds},
             {"baseline_seconds", size.baseline_seconds},
             {"parent_seconds",
              size.parent_seconds > 0 ? json(size.parent_seconds) : json(nullptr)},
             {"speedup", json_of(size.speedup)},
             {"gain", json_of(size.gain)},
             {"flops_per_second",
              size.flops_per_second > 0 ? json(size.flops_per_second) : json(nullptr)},
             {"bytes_per_second",
              size.bytes_per_second > 0 ? json(size.bytes_per_second) : json(nullptr)}});
    return {{"session", session.session},
            {"ok", session.ok},
            {"reason", name_of(session.reason)},
            {"speedup", json_of(session.speedup)},
            {"gain", json_of(session.gain)},
            {"noise_floor", session.noise_floor},
            {"pinned_cpu", session.pinned_cpu},
            {"launches", session.launches},
            {"pairs", session.pairs},
            {"serialised", session.serialised},
            {"findings", findings_of(session.findings)},
            {"sizes", std::move(sizes)}};
}

json best_of(const ReportData& data) {
    const Candidate* best = find_candidate(data.candidates, data.best);
    if (best == nullptr)
        return nullptr;
    json out = json_of(*best);
    out["start"] = data.best_start;
    out["program"] = best->program.files;
    out["start_program"] = data.best_start_program.files;
    out["diff"] = data.best_diff;
    out["plan"] = best->plan;
    out["sessions"] = json::array();
    for (const TimeOutcome& session : best->evaluation.sessions)
        out["sessions"].push_back(json_of(session));
    out["cases"] = json::array();
    for (const VerifiedCase& verified : best->evaluation.cases)
        out["cases"].push_back({{"sizes", verified.sizes},
                                {"inputs", verified.inputs},
                                {"ok", verified.ok},
                                {"worst", verified.worst},
                                {"detail", verified.detail}});
    out["ancestry"] = json::array();
    for (const Candidate* candidate : ancestry(data.candidates, data.best))
        out["ancestry"].push_back(candidate->id);
    return out;
}

json outcomes_of(const ReportData& data) {
    json rows = json::array();
    for (const Outcomes& row : outcomes_by_generation(pool_of(data))) {
        json reaches = json::object();
        if (row.with_verdict > 0)
            for (const Status status : {Status::compile, Status::pass, Status::fast})
                reaches[std::string(name_of(status))] = json_of(row.reaches(status));
        rows.push_back({{"generation", row.generation},
                        {"n", row.with_verdict},
                        {"without_verdict", row.without_verdict},
                        {"fail", row.exactly[0]},
                        {"compile", row.exactly[1]},
                        {"pass", row.exactly[2]},
                        {"fast", row.exactly[3]},
                        {"reaches", std::move(reaches)}});
    }
    return rows;
}

}  // namespace

std::string json_report(const ReportData& data) {
    json out = {
        {"format", "loopscope-report"},
        {"version", 1},
        {"study", data.study},
        {"kind", data.kind},
        {"task", data.task_name},
        {"objective", data.objective},
        {"question", data.question},
        {"state", data.state},
        {"machine", data.machine},
        {"roof",
         {{"flops_per_second",
           data.roof_flops_per_second > 0 ? json(data.roof_flops_per_second) : json(nullptr)},
          {"bytes_per_second",
           data.roof_bytes_per_second > 0 ? json(data.roof_bytes_per_second) : json(nullptr)}}},
        {"builtin_models", data.builtin_models},
        {"players", data.players},
        {"best", best_of(data)},
        {"outcomes", outcomes_of(data)},
        {"calls_failed", data.calls_failed},
        {"calls_cut_by_a_crash", data.calls_cut_by_a_crash},
        {"diagnosis", data.diagnosis},
        {"limits", limits_of(data)},
        {"command", data.command.empty() ? "loopscope report " + data.study : data.command}};
    const json config = json::parse(data.config, nullptr, false);
    out["config"] = config.is_discarded() ? json(data.config) : config;
    out["candidates"] = json::array();
    for (const Candidate& candidate : data.candidates)
        out["candidates"].push_back(json_of(candidate));
    out["peers"] = json::array();
    for (const PeerResult& peer : data.peers)
        out["peers"].push_back({{"peer", peer.peer},
                                {"candidate", peer.candidate},
                                {"sizes", peer.sizes},
                                {"candidate_over_peer", json_of(peer.candidate_over_peer)}});
    out["arms"] = json::array();
    for (const Arm& arm : data.arms)
        out["arms"].push_back({{"name", arm.name},
                               {"coalition", arm.coalition},
                               {"mode", name_of(arm.mode)},
                               {"planning", arm.planning},
                               {"planner", arm.planner},
                               {"coder", arm.coder},
                               {"control", arm.control}});
    // One form of an attribution, here and in `loopscope attribute --json`.
    out["attribution"] = data.attribution ? json::parse(encode(*data.attribution)) : json(nullptr);
    out["costs"] = json::array();
    for (const CostLine& line : data.costs)
        out["costs"].push_back({{"role", line.role},
                                {"model", line.model},
                                {"calls", line.calls},
                                {"reused", line.reused},
                                {"input_tokens", line.input_tokens},
                                {"cached_tokens", line.cached_tokens},
                                {"output_tokens", line.output_tokens},
                                {"reasoning_tokens", line.reasoning_tokens},
                                {"seconds", line.seconds},
                                {"cost", line.cost ? json(*line.cost) : json(nullptr)}});
    return out.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace loopscope
