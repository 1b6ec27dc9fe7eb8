#include "record/truth.h"

#include "core/rng.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace loopscope {
namespace {

constexpr const char* example = R"({
    "players": ["debugger", "analyzer", "placebo"],
    "pass": [{"players": [], "effect": 0.2}, {"players": ["debugger"], "effect": 0.25},
             {"players": ["analyzer"], "effect": 0.15}, {"players": ["debugger", "analyzer"], "effect": 0.1}],
    "gain": [{"players": [], "effect": 0.1}, {"players": ["analyzer"], "effect": 0.4}],
    "context": {"support": [-1, 0, 1], "weights": [0.25, 0.5, 0.25], "level": 0.1, "relative": 0.5},
    "plan_spread": 0.1})";

TEST(Truth, ReadsItsForm) {
    const auto truth = parse_truth(example);
    ASSERT_TRUE(truth) << to_text(truth.error());
    EXPECT_EQ(truth->players.size(), 3U);
    EXPECT_EQ(truth->pass[3], 0.1);
    EXPECT_EQ(truth->pass[4], 0);
    EXPECT_EQ(truth->gain[2], 0.4);
    EXPECT_DOUBLE_EQ(success_probability(*truth, 3, 0), 0.7);
    EXPECT_EQ(success_probability(*truth, 3, 1), 1);  // 0.3 + 1.5 * 0.5 before the clamp
    EXPECT_DOUBLE_EQ(success_probability(*truth, 7, -1), 0.1 + (0.5 * 0.5));
    EXPECT_DOUBLE_EQ(gain_when_passing(*truth, 2, 1), 0.1 + 0.6);
}

TEST(Truth, ClampsAndKeepsTheMeanOverPlans) {
    const auto truth = parse_truth(example);
    ASSERT_TRUE(truth);
    for (std::uint32_t s = 0; s < 8; ++s) {
        for (const double u : {-3.0, -1.0, 0.0, 1.0, 3.0}) {
            const double p = success_probability(*truth, s, u);
            EXPECT_GE(p, 0);
            EXPECT_LE(p, 1);
            const double lucky = success_probability(*truth, s, u, true);
            const double unlucky = success_probability(*truth, s, u, false);
            EXPECT_LE(lucky, 1);
            EXPECT_GE(unlucky, 0);
            EXPECT_NEAR((lucky + unlucky) / 2, p, 1e-15);
        }
    }
    EXPECT_DOUBLE_EQ(success_probability(*truth, 0, 0, true), 0.3);
}

TEST(Truth, ValuesAreTheExpectationsOfDraws) {
    const auto truth = parse_truth(example);
    ASSERT_TRUE(truth);
    const std::vector<double> values = true_values(*truth);
    const std::vector<double> gains = true_gains(*truth);
    EXPECT_DOUBLE_EQ(values[0], 0.2);
    // By hand: 0.35 at u = -1, 0.7 at 0, clamped to 1 at 1.
    EXPECT_DOUBLE_EQ(values[3], (0.25 * 0.35) + (0.5 * 0.7) + (0.25 * 1.0));
    EXPECT_EQ(values[7], values[3]);  // the placebo does nothing
    std::vector<double> pass(8, 0.0);
    std::vector<double> gain(8, 0.0);
    constexpr int draws = 100'000;
    for (std::uint64_t i = 0; i < draws; ++i) {
        const double u = context_effect(*truth, hash64(4, {i}));
        for (std::uint32_t s = 0; s < 8; ++s) {
            pass[s] += success_probability(*truth, s, u) / draws;
            gain[s] += success_probability(*truth, s, u) * gain_when_passing(*truth, s, u) / draws;
        }
    }
    for (std::size_t s = 0; s < 8; ++s) {
        EXPECT_NEAR(pass[s], values[s], 0.006);
        EXPECT_NEAR(gain[s], gains[s], 0.006);
    }
}

TEST(Truth, ContextEffectHasItsLaw) {
    const auto truth = parse_truth(example);
    ASSERT_TRUE(truth);
    EXPECT_EQ(context_effect(*truth, 0), -1);
    EXPECT_EQ(context_effect(*truth, ~std::uint64_t{0}), 1);
    EXPECT_EQ(context_effect(*truth, std::uint64_t{1} << 63U), 0);
}

TEST(Truth, NamesTheFieldAtFault) {
    const std::string head = R"({"players": ["a", "b"], "pass": [{"players": [], "effect": 0.2}])";
    const std::vector<std::array<std::string, 2>> cases = {
        {"", "byte 1"},
        {"[]", ""},
        {R"({"pass": []})", "players"},
        {R"({"players": ["a"]})", "pass"},
        {R"({"players": ["a", "a"], "pass": []})", "players[1]"},
        {R"({"players": [], "pass": []})", "players"},
        {R"({"players": ["a"], "pass": []})", "pass"},
        {R"({"players": ["a"], "pas": []})", "pas"},
        {R"({"players": ["a"], "pass": [{"players": ["c"], "effect": 1}]})", "pass[0].players"},
        {R"({"players": ["a"], "pass": [{"players": ["a"], "effect": "x"}]})", "pass[0].effect"},
        {R"({"players": ["a"], "pass": [{"players": ["a"]}]})", "pass[0].effect"},
        {R"({"players": ["a"], "pass": [{"players": ["a"], "effect": 1}, {"players": ["a"], "effect": 1}]})",
         "pass[1]"},
        {head + R"(, "gain": 3})", "gain"},
        {head + R"(, "plan_spread": 0.7})", "plan_spread"},
        {head + R"(, "context": {"support": [0], "weights": [1], "sd": 1}})", "context.sd"},
        {head + R"(, "context": {"support": [0]}})", "context.weights"},
        {head + R"(, "context": {"support": [0, 1], "weights": [1]}})", "context.weights"},
        {head + R"(, "context": {"support": [-1, 1], "weights": [0.5, 0.4]}})", "context.weights"},
        {head + R"(, "context": {"support": [-1, 1], "weights": [1.5, -0.5]}})",
         "context.weights[1]"},
        {head + R"(, "context": {"support": [0, 1], "weights": [0.5, 0.5]}})", "context.support"},
    };
    for (const auto& [text, where] : cases) {
        const auto truth = parse_truth(text);
        ASSERT_FALSE(truth) << text;
        EXPECT_EQ(truth.error().where, where) << text << ' ' << truth.error().what;
        EXPECT_FALSE(truth.error().what.empty());
    }
}

}  // namespace
}  // namespace loopscope
