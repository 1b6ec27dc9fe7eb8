// A planner and coder with a known value function: the positive control of the attribution
// (`builtin:synthetic`).
//
// In a context with the effect u, a coalition S succeeds with probability
//     p(S | u) = clamp(m(none) + level u + (1 + relative u) sum of the dividends m(T) over T in S,
//     T not empty)
// and a plan shifts that by +h or -h, each with probability 1/2, h = min(plan_spread, p, 1 - p), so
// that the mean over plans stays p. u has a discrete law with mean 0; so every expectation is a
// finite sum, and nothing is simulated.
#pragma once
#include "core/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

struct Truth {
    std::vector<std::string> players;  // player i = bit i of a coalition; at most 12
    std::vector<double> pass;  // dividend of each coalition, size 2^n: of the probability of pass
    std::vector<double>
        gain;  // the same for the mean gain of a trial that passes, log scale; empty = none
    std::vector<double> support = {0};  // of the context effect u
    std::vector<double> weights = {1};  // its probabilities
    double level = 0;                   // shift of the probability per unit of u
    double relative = 0;                // relative change of all effects per unit of u
    double plan_spread = 0;             // largest shift of the probability by a plan
};

// {"players": ["debugger", "analyzer", "placebo"],
//  "pass": [{"players": [], "effect": 0.2}, {"players": ["debugger"], "effect": 0.25}, ...],
//  "gain": [...], "context": {"support": [-1, 0, 1], "weights": [0.25, 0.5, 0.25], "level": 0.1,
//  "relative": 0.5}, "plan_spread": 0.1}
// gain, context and plan_spread may be left out. Errors name the field and the mend.
Result<Truth> parse_truth(std::string_view text);

// Within [0, 1]; the mean over plans.
double success_probability(const Truth& truth, std::uint32_t coalition, double context_effect);
// Given the plan: `lucky` plans succeed more often.
double success_probability(const Truth& truth, std::uint32_t coalition, double context_effect,
                           bool lucky_plan);
// Mean gain (log of parent time over child time, never below 0) of a trial that passes.
double gain_when_passing(const Truth& truth, std::uint32_t coalition, double context_effect);

// Draws u from 64 random bits, e.g. a hash of the context's id; the same bits give the same u.
double context_effect(const Truth& truth, std::uint64_t bits);

// v(S) for every coalition, exactly: the expectation over contexts, of pass and of gain (0 where
// there is none).
std::vector<double> true_values(const Truth& truth);
std::vector<double> true_gains(const Truth& truth);

}  // namespace loopscope
