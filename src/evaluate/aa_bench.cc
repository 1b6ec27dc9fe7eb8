// A/A: a kernel compared with itself, many times. At tolerance 0 at most 2.5 % of the comparisons
// (and what chance adds) may have a lower bound above 1.
//
//   aa_bench [COMPARISONS = 200] [N = 150] [LAUNCHES = 5] [SECONDS_PER_LAUNCH = 0.25]
//
// Prints one line a comparison and the count; exit status 1 when the count could not be chance
// (one-sided, 1 %).
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "evaluate/kernel.h"
#include "evaluate/matmul_task.h"
#include "stats/intervals.h"

namespace {

using namespace loopscope;

struct Options {
    int comparisons = 200, n = 150, launches = 5;
    double seconds_per_launch = 0.25;
};

// The largest count whose probability of being reached or exceeded is above 1 % when each
// comparison errs with 2.5 %.
int most_by_chance(int comparisons) {
    for (int k = 0; k <= comparisons; ++k)
        if (stats::clopper_pearson(static_cast<std::size_t>(k),
                                   static_cast<std::size_t>(comparisons), 0.98)
                .low > 0.025)
            return k - 1;
    return comparisons;
}

awaitable<int> compare_with_itself(Machine& machine, const Options options) {
    const Task task = testing::matmul_task({17}, {options.n});
    const Program program = testing::program_of(testing::naive_matmul);
    const Result<BuildOutcome> object = co_await build(machine, task, program, BuildKind::timed);
    const Result<BuildOutcome> reference = co_await build_reference(machine, task);
    if (!object || !object->ok || !reference || !reference->ok) {
        std::fprintf(stderr, "the matrix product does not build here\n");
        co_return 2;
    }
    int above = 0;
    int below = 0;
    double seconds = 0;
    std::vector<double> widths;
    std::vector<double> logs;
    for (int i = 0; i < options.comparisons; ++i) {
        TimingPlan plan;
        plan.launches = options.launches;
        plan.seconds_per_launch = options.seconds_per_launch;
        const Result<TimeOutcome> outcome =
            co_await time_session(machine, task, object->object, object->object, std::nullopt,
                                  reference->object, plan, nullptr);
        if (!outcome || !outcome->ok) {
            std::fprintf(stderr, "%s\n",
                         outcome ? outcome->message.c_str() : to_text(outcome.error()).c_str());
            co_return 2;
        }
        const Ratio& ratio = outcome->speedup;
        above += ratio.low > 1 ? 1 : 0;
        below += ratio.high < 1 ? 1 : 0;
        seconds += outcome->seconds;
        widths.push_back(std::log(ratio.high / ratio.low) / 2);
        logs.push_back(std::log(ratio.estimate));
        std::printf("%3d  %.4f [%.4f, %.4f]  floor %.4f  %d launches x %d rounds  %.2f s%s\n",
                    i + 1, ratio.estimate, ratio.low, ratio.high, outcome->noise_floor,
                    outcome->launches, outcome->pairs, outcome->seconds,
                    ratio.low > 1 ? "  FASTER THAN ITSELF" : "");
        std::fflush(stdout);
    }
    const int allowed = most_by_chance(options.comparisons);
    std::printf(
        "%d of %d with a lower bound above 1 (%.1f %%; by chance at most %d), %d with an upper "
        "bound below 1\n"
        "median half-width %.4f, standard deviation of the log ratio %.4f, %.2f s a session\n",
        above, options.comparisons, 100.0 * above / options.comparisons, allowed, below,
        stats::median(widths), logs.size() > 1 ? std::sqrt(stats::variance(logs)) : 0.0,
        seconds / options.comparisons);
    co_return above <= allowed ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    if (argc > 1)
        options.comparisons = std::atoi(argv[1]);
    if (argc > 2)
        options.n = std::atoi(argv[2]);
    if (argc > 3)
        options.launches = std::atoi(argv[3]);
    if (argc > 4)
        options.seconds_per_launch = std::atof(argv[4]);
    if (options.comparisons < 1 || options.n < 1 || options.launches < 2 ||
        !(options.seconds_per_launch > 0)) {
        std::fprintf(stderr, "usage: aa_bench [COMPARISONS] [N] [LAUNCHES] [SECONDS_PER_LAUNCH]\n");
        return 2;
    }
    asio::io_context io(1);
    const Result<std::unique_ptr<Machine>> machine = open_machine(io.get_executor());
    if (!machine) {
        std::fprintf(stderr, "%s\n", to_text(machine.error()).c_str());
        return 2;
    }
    int code = 2;
    asio::co_spawn(io, compare_with_itself(**machine, options),
                   [&](const std::exception_ptr& failed, int result) {
                       if (failed)
                           std::rethrow_exception(failed);
                       code = result;
                   });
    io.run();
    return code;
}
