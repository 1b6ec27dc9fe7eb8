// What every stage of a study shares: the journal, the machine, the models, the budget.
#pragma once
#include "core/async.h"
#include "core/clock.h"
#include "core/result.h"
#include "evaluate/machine.h"
#include "llm/model.h"
#include "store/journal.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace loopscope {

// Money over all roles of one command. A call reserves its worst case before it starts, so that
// calls in flight cannot overshoot together.
class Budget {
public:
    explicit Budget(double max_cost) : max_cost_(max_cost) {}
    // False when `worst_case` dollars more could pass the limit.
    bool reserve(double worst_case);
    // A reserved call has ended; it cost `actual` (nullopt: unknown, counted apart).
    void settle(double worst_case, std::optional<double> actual);
    double max_cost() const { return max_cost_; }
    double spent() const { return spent_; }
    std::int64_t calls_of_unknown_cost() const { return unknown_; }

private:
    double max_cost_, spent_ = 0, reserved_ = 0;
    std::int64_t unknown_ = 0;
};

// The study cannot go on: a wrong key, an unknown model, the budget. The journal keeps what is
// done.
struct StudyStopped : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Models {
    std::unique_ptr<Model> planner, coder, summarizer;
};

struct Engine {
    asio::any_io_executor loop;
    Clock& clock;
    Journal& journal;
    Machine& machine;
    Models models;
    Budget budget;
    std::optional<Roof> roof;         // measured on first use, kept in the journal
    std::uint64_t fresh_counter = 0;  // makes the draws of --fresh evaluations unique
    std::string study;  // the one at work: its row is told when the command ends badly
};

}  // namespace loopscope
