// What a report derives from the candidates of a run before it is shown in any form.
#pragma once
#include "report/report.h"

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace loopscope {

bool is_start(const Candidate& candidate);     // no parent
bool edit_failed(const Candidate& candidate);  // its answer did not apply
// Right, with a measured speed-up: what can be the best.
bool has_speedup(const Candidate& candidate);

const Candidate* find_candidate(const std::vector<Candidate>& candidates, const std::string& id);

// Verdicts of different device or trust are never pooled: figures and tables show those of the best
// candidate's device and trust (else the commonest), and the rest is counted here.
struct Pool {
    std::string device, trust;
    std::vector<const Candidate*> candidates;  // in order of proposal
    std::size_t left_out = 0;
};
Pool pool_of(const ReportData& data);

// One candidate on the learning curve. Proposals have order 1, 2, ...; starts end at order 0.
struct CurvePoint {
    int order = 0;
    const Candidate* candidate = nullptr;
    double best_so_far = 0;  // largest speed-up estimate up to here; 0 = none yet
};
std::vector<CurvePoint> learning_curve(const Pool& pool);

// Outcomes of the proposals of one generation.
struct Outcomes {
    int generation = 0;
    std::array<std::size_t, 4> exactly = {};  // by Status
    std::size_t with_verdict = 0;
    std::size_t without_verdict = 0;  // our own side failed: not in the shares
    // Share that reached the status or better, Wilson interval over the proposals with a verdict.
    stats::Estimate reaches(Status status) const;
};
std::vector<Outcomes> outcomes_by_generation(const Pool& pool);
Outcomes outcomes_in_all(const Pool& pool);

// From the start to `id`, parents first; stops at a candidate that is not there.
std::vector<const Candidate*> ancestry(const std::vector<Candidate>& candidates,
                                       const std::string& id);

// The pooled games (all generations, all strata): one a metric, or one a metric and setting.
std::vector<const GameEstimate*> pooled_games(const Attribution& attribution);
bool is_pooled(const GameEstimate& game);
std::string game_title(const GameEstimate& game);  // "reaches pass", or "reaches pass (raw, ...)"
std::string game_n(const GameEstimate& game);      // "24 contexts", "5 lineages (24 contexts)"

// "{}", "{debugger, profiler}", of a mask over the players.
std::string coalition_name(const std::vector<std::string>& players, std::uint32_t mask);
std::string metric_title(Metric metric);  // "reaches pass", "gain"
std::string metric_unit(
    Metric metric);  // "percentage points", "natural log of parent time / child time"
std::string arm_name(const ReportData& data, int arm);

// "builtin:rules" ... as one label, or "" when no built-in model had a part.
std::string builtin_label(const ReportData& data);

}  // namespace loopscope
