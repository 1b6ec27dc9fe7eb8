// The trials of a study as a dense table (context, arm, rollout), in an order that does not depend
// on the records'.
#pragma once
#include "attribute/attribution.h"

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace loopscope {

inline constexpr std::array<Metric, 4> all_metrics = {Metric::compile, Metric::pass, Metric::fast,
                                                      Metric::gain};
inline constexpr std::size_t metric_count = all_metrics.size();
inline std::size_t slot(Metric metric) { return static_cast<std::size_t>(metric); }

struct ContextRow {
    std::string id;
    int generation = 0;
    std::string lineage;
    std::optional<Status> parent_status;
    std::vector<int> kept;  // rollouts that no failure of our own side touched
};

// The trials of one (context, arm, rollout), missing ones as failures.
struct DesignCell {
    std::array<double, metric_count> mean{};  // over the planned trials
    std::array<double, metric_count>
        scatter{};  // variance of that mean from its trials alone; 0 for one trial
    std::array<int, metric_count> positive{};  // trials that reach the status, or gain
    double gain_squares = 0;                   // sum of squared gains
    int missing = 0;
    int prompt =
        -1;  // equal within a context and rollout iff the arms share their answers; -1 = not known
};

struct DesignLayout {
    std::vector<ContextRow> contexts;  // by generation, then id
    std::size_t arms = 0;
    int rollouts = 1, trials = 1;
    int infrastructure_blocks = 0;
    int contexts_lost = 0;  // without a rollout that could be kept
    std::vector<DesignCell> cells;
    const DesignCell& cell(std::size_t context, std::size_t arm, std::size_t rollout) const {
        return cells[(((context * arms) + arm) * static_cast<std::size_t>(rollouts)) + rollout];
    }
};

Result<DesignLayout> lay_out(const StudyData& data);

}  // namespace loopscope
