#include "app/verbs.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace loopscope {

namespace {

using nlohmann::json;

json optional_number(const std::optional<double>& value) {
    return value ? json(*value) : json(nullptr);
}

}  // namespace

int verb_journal(const Common& common, const JournalOptions& options) {
    return with_journal(common, true, [&](Journal& journal) {
        const JournalSummary summary = journal.summary();
        std::vector<std::string> faults;
        if (options.verify)
            faults = journal.verify();
        json document = {{"path", summary.path},
                         {"schema", summary.schema},
                         {"bytes", summary.bytes},
                         {"entries", summary.entries},
                         {"blobs", summary.blobs},
                         {"known_cost", summary.known_cost},
                         {"calls_of_unknown_cost", summary.calls_of_unknown_cost},
                         {"calls_answered", summary.calls_answered},
                         {"calls_failed", summary.calls_failed},
                         {"calls_in_flight_at_a_crash", summary.calls_in_flight_at_a_crash},
                         {"trajectories", journal.trajectories()}};
        json stages = json::object();
        for (const auto& [stage, count] : summary.entries_by_stage)
            stages[stage] = count;
        document["entries_by_stage"] = stages;
        document["studies"] = json::array();
        for (const StudyRow& study : journal.studies())
            document["studies"].push_back({{"id", study.id},
                                           {"kind", study.kind},
                                           {"state", study.state},
                                           {"note", study.note},
                                           {"created_ms", study.created_ms},
                                           {"config", json::parse(study.config, nullptr, false)}});
        if (options.verify)
            document["faults"] = faults;
        if (options.calls) {
            document["calls"] = json::array();
            for (const LedgerLine& line : journal.ledger())
                document["calls"].push_back({{"id", line.id},
                                             {"key", line.key},
                                             {"stage", line.stage},
                                             {"state", line.state},
                                             {"started_ms", line.started_ms},
                                             {"ended_ms", line.ended_ms},
                                             {"cost", optional_number(line.cost)},
                                             {"input_tokens", line.usage.input_tokens},
                                             {"output_tokens", line.usage.output_tokens},
                                             {"process", line.process},
                                             {"failure", line.failure}});
        }
        const int code = faults.empty() ? exit_done : exit_failed;
        if (common.json) {
            fmt::print("{}\n", document.dump(2));
            return code;
        }
        fmt::print("{}: schema {}, {:.1f} MB, {} entries, {} texts\n", summary.path, summary.schema,
                   static_cast<double>(summary.bytes) / 1e6, summary.entries, summary.blobs);
        for (const auto& [stage, count] : summary.entries_by_stage)
            fmt::print("  {:<16} {}\n", stage, count);
        fmt::print("calls: {} answered, {} failed, {} in flight at a crash\n",
                   summary.calls_answered, summary.calls_failed,
                   summary.calls_in_flight_at_a_crash);
        fmt::print("cost: {:.4f} dollars known, {} calls of unknown cost\n", summary.known_cost,
                   summary.calls_of_unknown_cost);
        for (const StudyRow& study : journal.studies())
            fmt::print("study {} ({}): {}{}{}\n", study.id, study.kind, study.state,
                       study.note.empty() ? "" : ": ", study.note);
        for (const std::string& trajectory : journal.trajectories())
            fmt::print("trajectory {}\n", trajectory);
        if (options.calls)
            for (const LedgerLine& line : journal.ledger())
                fmt::print("call {} {} {} {}{}{}\n", line.id, line.key.substr(0, 12), line.state,
                           line.cost ? fmt::format("{:.6f} dollars", *line.cost) : "cost unknown",
                           line.failure.empty() ? "" : ": ", line.failure);
        if (options.verify)
            fmt::print("{}\n", faults.empty() ? "verified: sound"
                                              : fmt::format("{} faults:", faults.size()));
        for (const std::string& fault : faults)
            fmt::print("  {}\n", fault);
        return code;
    });
}

}  // namespace loopscope
