// The report of a study: a function of the journal, the same byte for byte when made again.
#pragma once
#include "attribute/attribution.h"
#include "core/result.h"
#include "record/candidate.h"
#include "record/trial.h"
#include "store/journal.h"

#include <optional>
#include <string>
#include <vector>

namespace loopscope {

// A comparison of the best candidate with a peer (a vendor library), timed interleaved.
struct PeerResult {
    std::string peer;
    std::string candidate;
    Ratio candidate_over_peer;  // peer time / candidate time: above 1 = the candidate is faster
    std::string sizes;
};

struct CostLine {
    std::string role;  // "planner", "coder", "summarizer"
    std::string model;
    std::int64_t calls = 0, input_tokens = 0, cached_tokens = 0, output_tokens = 0,
                 reasoning_tokens = 0;
    std::optional<double> cost;  // nullopt: at least one price unknown
    double seconds = 0;
    std::int64_t reused = 0;  // answers found in the journal
};

// Everything a report is made from. A run fills the first half, an intervention the second, a
// report of an intervention both (its source run as far as the journal has it).
struct ReportData {
    std::string study, kind, task_name, objective, question;  // what was asked, in a sentence
    std::string config;                       // JSON, shown folded; its "seed" is shown beside it
    std::string state;                        // "done", "stopped: ..." - a part-done study says so
    std::vector<std::string> builtin_models;  // labels
    std::vector<Candidate> candidates;        // of the run, starts first, in order of proposal
    std::string best;                         // candidate id
    std::string best_start;                   // the start it descends from
    Program best_start_program;
    std::string best_diff;  // unified_diff(best_start_program, the best one's); "": both are shown
    std::vector<PeerResult> peers;
    std::string machine;               // CPU name and roof in words
    double roof_flops_per_second = 0;  // of the cores the task uses, in the kernel's element type;
    double roof_bytes_per_second = 0;  // of memory; 0 = not measured, no share of it is shown
    std::optional<Attribution> attribution;
    std::vector<Arm> arms;
    std::vector<std::string> players;
    std::vector<CostLine> costs;
    std::int64_t calls_cut_by_a_crash = 0;
    std::int64_t calls_failed = 0;
    std::vector<std::string> limits;     // what limits the conclusions; limits_of() adds to them
    std::vector<std::string> diagnosis;  // the loop in words, drawn from its counts; by diagnose()
    std::string command;  // that makes this report again; "" = "loopscope report STUDY"
};

// The loop in words from its own counts: edits that did not apply, repeated proposals, where
// candidates die, the noise floor against the best gain, generations without progress. One careful
// sentence or two an entry, each with its counts. Starts (candidates without parent) are not
// proposals. Empty when there are no proposals.
std::vector<std::string> diagnose(const std::vector<Candidate>& candidates);

// What limits the conclusions: `data.limits`, and what the data themselves say (a part-done study,
// built-in models, few contexts, missing trials, verdicts of several devices, warnings of the
// attribution).
std::vector<std::string> limits_of(const ReportData& data);

// One self-contained HTML file: no network, opens from disk, readable in print and by the
// colour-blind. Foreign text is escaped, and the page's Content-Security-Policy admits no script
// but its own two.
std::string html_report(const ReportData& data);
// The same content as one JSON document; docs/report.md has its keys.
std::string json_report(const ReportData& data);
// Tables as CSV, each after a "# name" line; docs/report.md has their columns.
std::string csv_report(const ReportData& data);
// What `make demo` prints at its end: the tables for a terminal, at most 100 columns wide. `ascii`:
// for terminals without UTF-8.
std::string text_report(const ReportData& data, bool ascii = false);

}  // namespace loopscope
