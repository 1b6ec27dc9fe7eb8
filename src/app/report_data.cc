#include "app/report_data.h"

#include "evaluate/task.h"
#include "loop/intervene.h"
#include "loop/run.h"
#include "loop/sample.h"
#include "program/edit.h"
#include "record/codec.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace loopscope {

namespace {

using nlohmann::json;

using Samples = std::vector<std::pair<std::string, std::string>>;

// Calls of a study by role and model: answers counted once each, further references as reused.
void add_costs(Journal& journal, const Samples& samples, ReportData& data) {
    std::map<std::pair<std::string, std::string>, CostLine> lines;
    std::map<std::pair<std::string, std::string>, bool> unknown;
    std::set<std::string> counted;
    for (const auto& [position, sample] : samples) {
        const Result<SampleKeys> keys = sample_keys(sample);
        if (!keys)
            continue;
        for (const SampleKeys::Call& call : keys->calls) {
            const std::pair<std::string, std::string> name{std::string(name_of(call.role)),
                                                           call.model};
            CostLine& line = lines[name];
            line.role = name.first;
            line.model = name.second;
            if (!line.cost)
                line.cost = 0;
            const std::optional<Entry> entry = journal.find(call.key);
            if (!entry)
                continue;  // the call failed: it is in the ledger
            if (!counted.insert(call.key).second) {
                ++line.reused;
                continue;
            }
            ++line.calls;
            line.input_tokens += entry->usage.input_tokens;
            line.cached_tokens += entry->usage.cached_tokens;
            line.output_tokens += entry->usage.output_tokens;
            line.reasoning_tokens += entry->usage.reasoning_tokens;
            if (entry->cost)
                *line.cost += *entry->cost;
            else
                unknown[name] = true;
            if (const Result<ModelReply> reply = decode<ModelReply>(entry->result))
                line.seconds += reply->latency_seconds;
        }
    }
    for (auto& [name, line] : lines) {
        if (unknown[name])
            line.cost.reset();
        if (line.model.starts_with("builtin:") &&
            std::find(data.builtin_models.begin(), data.builtin_models.end(), line.model) ==
                data.builtin_models.end())
            data.builtin_models.push_back(line.model);
        data.costs.push_back(line);
    }
}

void add_machine(const json& machine, ReportData& data) {
    data.machine = machine.value("cpu", "");
    data.roof_flops_per_second = machine.value("flops_per_second", 0.0);
    data.roof_bytes_per_second = machine.value("bytes_per_second", 0.0);
}

Result<void> add_run(Journal& journal, const StudyRow& study, ReportData& data) {
    const Samples samples = journal.samples(study.id);
    for (const auto& [position, sample] : samples) {
        const json document = json::parse(sample, nullptr, false);
        if (document.is_discarded())
            return fail(fmt::format("study {}, sample {}", study.id, position),
                        "is not JSON; `loopscope journal --verify`");
        if (document.contains("candidate") && document.contains("keys")) {
            Result<Candidate> candidate = decode<Candidate>(document.at("candidate").dump());
            if (!candidate)
                return fail(fmt::format("study {}, sample {}", study.id, position),
                            to_text(candidate.error()));
            data.candidates.push_back(std::move(*candidate));
        } else if (document.contains("machine")) {
            add_machine(document.at("machine"), data);
        } else if (document.contains("peer")) {
            if (document.at("outcome").is_null()) {
                data.limits.push_back(fmt::format("The comparison with {} is missing: {}",
                                                  document.at("peer").get<std::string>(),
                                                  document.at("error").get<std::string>()));
                continue;
            }
            const Result<TimeOutcome> outcome = decode<TimeOutcome>(document.at("outcome").dump());
            if (!outcome)
                return fail(fmt::format("study {}, sample {}", study.id, position),
                            to_text(outcome.error()));
            for (const SizeTiming& size : outcome->sizes) {
                Ratio ratio = size.speedup;  // the candidate's time / the peer's; the report shows
                                             // the inverse
                ratio.estimate = 1 / size.speedup.estimate;
                ratio.low = 1 / size.speedup.high;
                ratio.high = 1 / size.speedup.low;
                data.peers.push_back(
                    PeerResult{document.at("peer"), document.at("of"), ratio, size.sizes});
            }
        }
    }
    std::vector<const Candidate*> all;
    std::map<std::string, const Candidate*> by_id;
    for (const Candidate& candidate : data.candidates) {
        all.push_back(&candidate);
        by_id[candidate.id] = &candidate;
    }
    if (const Candidate* best = best_of(all)) {
        data.best = best->id;
        const Candidate* root = best;
        while (!root->parent.empty() && by_id.contains(root->parent))
            root = by_id[root->parent];
        data.best_start = root->id;
        data.best_start_program = root->program;
        data.best_diff = unified_diff(root->program, best->program);
    }
    data.diagnosis = diagnose(data.candidates);
    add_costs(journal, samples, data);
    return {};
}

void add_task(const json& config, ReportData& data) {
    data.task_name = config.value("task", "");
    const Result<Task> task = read_task(config.value("task_folder", ""));
    if (task)
        data.objective = task->objective;
}

}  // namespace

Result<ReportData> report_data(Journal& journal, const std::string& id) {
    const std::optional<StudyRow> study = journal.study(id);
    if (!study)
        return fail(id,
                    "there is no such study in this journal (or the prefix is ambiguous); "
                    "`loopscope journal` lists them");
    ReportData data;
    data.study = study->id;
    data.kind = study->kind;
    data.config = study->config;
    data.state = study->state == "done" ? "done"
                                        : fmt::format("{}{}{}", study->state,
                                                      study->note.empty() ? "" : ": ", study->note);
    const json config = json::parse(study->config);
    add_task(config, data);
    if (study->kind == "run") {
        data.question =
            fmt::format("Can a learning loop of {} proposals improve {} beyond the noise?",
                        config.value("steps", 0), data.task_name);
        if (const Result<void> added = add_run(journal, *study, data); !added)
            return tl::unexpected<Error>(added.error());
    } else {
        data.question = fmt::format(
            "What is each kind of feedback worth? Every coalition of {} was asked again at {} "
            "frozen states, {} rollouts of {} "
            "proposals each.",
            fmt::join(config.at("players").get<std::vector<std::string>>(), ", "),
            config.at("contexts").size(), config.value("rollouts", 0), config.value("trials", 0));
        const Result<StudyData> trials = load_trials(journal, study->id);
        if (!trials)
            return tl::unexpected<Error>(trials.error());
        data.arms = trials->arms;
        data.players = trials->players;
        Result<Attribution> attribution = attribute(*trials, {});
        if (attribution)
            data.attribution = std::move(*attribution);
        else
            data.limits.push_back("No attribution: " + to_text(attribution.error()));
        data.limits.push_back(
            "The prompt of the empty coalition is not empty: it holds the recorded objective, "
            "interface, program, status and "
            "history" +
            std::string(config.at("strip").empty() ? "." : ", but for what was stripped."));
        const std::optional<StudyRow> source = journal.study(config.value("source", ""));
        if (source) {
            if (const Result<void> added = add_run(journal, *source, data); !added)
                return tl::unexpected<Error>(added.error());
        }
        add_costs(journal, journal.samples(study->id), data);
    }
    const JournalSummary summary = journal.summary();
    data.calls_cut_by_a_crash = summary.calls_in_flight_at_a_crash;
    data.calls_failed = summary.calls_failed;
    return data;
}

}  // namespace loopscope
