// The statistics of a timing session, apart from the processes, so that they can be tested on
// made-up times. time_session() is declared in evaluate/kernel.h.
#pragma once
#include "record/evaluation.h"

#include <span>
#include <vector>

namespace loopscope {

// Log ratios of one comparison, one per launch. The half-width is that of Student's t with the
// standard deviation of the first `first` launches: launches that were added because that deviation
// was large do not enter it, so that the interval keeps its level although the number of launches
// was chosen from the data (Stein, "A two-sample test for a linear hypothesis whose power is
// independent of the variance", 1945). `least_half_width`: what the session's own noise (baseline
// against itself) showed; the interval is never narrower. One launch has no interval: 0 to infinity
// is written as estimate / 1e9 and * 1e9, since records are JSON.
Ratio ratio_over_launches(std::span<const double> logs, std::size_t first, double least_half_width);
double half_width(std::span<const double> logs, std::size_t first);

// How many launches give `target` for the half-width of the log ratio, from those run so far, at
// most `most`.
std::size_t launches_wanted(std::span<const double> logs, double target, std::size_t most);

// Over the sizes of a task. `logs[size][launch]`. "min": the size at which it is worst.
Ratio combine_sizes(const std::vector<std::vector<double>>& logs, const std::string& aggregate,
                    std::size_t first, double least_half_width);

}  // namespace loopscope
