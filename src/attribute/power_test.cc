#include "attribute/power.h"

#include "core/rng.h"
#include "stats/golden_files.h"

#include <gtest/gtest.h>

#include <cmath>

namespace loopscope {
namespace {

TEST(Power, KnownTable) {
    // sd 0.1, three contexts: from the golden table, kept inline.
    EXPECT_NEAR(detectable_effect(0.1, 3), 0.32640435498141956, 1e-8);
    EXPECT_NEAR(detectable_effect_normal(0.1, 3), 0.1617495979835199, 1e-12);
    EXPECT_NEAR(t_test_power(0.1, 0.1, 3, 0.05), 0.17925539376539418, 1e-9);
    EXPECT_NEAR(t_test_power(0, 0.3, 2, 0.05), 0.05, 1e-6);
    EXPECT_EQ(t_test_power(-0.1, 0.1, 3, 0.05), t_test_power(0.1, 0.1, 3, 0.05));
    EXPECT_EQ(detectable_effect(0, 10), 0);
}

TEST(Power, AgreesWithSimulation) {
    // Normal data at the detectable effect: 2000 tests, binomial error 0.009.
    Rng rng(11);
    const double effect = detectable_effect(1, 8);
    int found = 0;
    for (int repeat = 0; repeat < 2000; ++repeat) {
        std::vector<double> x(8);
        for (double& value : x)
            value = effect + stats::normal_quantile(rng.unit() + 0x1p-55);
        found += stats::t_test(x) < 0.05 ? 1 : 0;
    }
    EXPECT_NEAR(found / 2000.0, 0.8, 0.03);
}

TEST(Power, TableAndErrors) {
    VarianceComponents components;
    components.between_shapley = components.between_pair = components.between_difference = 0.01;
    components.plan = 0.0075;
    components.trial = 0.2;
    const std::vector<Design> designs = {{10, 3, 5}, {40, 3, 5}, {10, 1, 1}};
    PowerGoal goal;
    goal.families = false;
    const auto rows = power_table(3, components, designs, goal);
    ASSERT_TRUE(rows);
    EXPECT_NEAR((*rows)[0].difference, 0.20, 0.005);
    EXPECT_NEAR((*rows)[0].shapley, 0.14, 0.005);
    EXPECT_DOUBLE_EQ((*rows)[0].pair, (*rows)[0].difference);  // both have gain 2 at n = 3
    EXPECT_NEAR((*rows)[1].shapley, 0.06, 0.005);
    EXPECT_EQ((*rows)[1].trials_in_all, 40 * 8 * 15);
    goal.families = true;
    EXPECT_GT(power_table(3, components, designs, goal)->at(0).shapley, (*rows)[0].shapley);
    EXPECT_EQ(cheapest(*rows, 0.15).value_or(PowerRow()).design.contexts, 10);
    EXPECT_EQ(cheapest(*rows, 0.08).value_or(PowerRow()).design.contexts, 40);
    EXPECT_FALSE(cheapest(*rows, 0.01));
    EXPECT_EQ(power_table(3, components, std::vector<Design>{{1, 1, 1}}, goal).error().where,
              "designs[0]");
    components.plan = -1;
    EXPECT_EQ(power_table(3, components, designs, goal).error().where, "plan");
    EXPECT_EQ(power_table(0, components, designs, goal).error().where, "players");
}

TEST(Power, ComponentsOfAPilot) {
    const auto golden_file = golden("planner.json");
    if (!golden_file)
        GTEST_SKIP() << no_golden;
    const nlohmann::json& file = *golden_file;
    StudyData pilot;
    pilot.players = {"d", "a", "p", "z"};
    pilot.rollouts = 2;
    pilot.trials_per_rollout = 4;
    for (std::uint32_t s = 0; s < 16; ++s) {
        Arm arm;
        arm.coalition = s;
        pilot.arms.push_back(arm);
    }
    for (int c = 0; c < 24; ++c)
        for (int s = 0; s < 16; ++s)
            for (int r = 0; r < 2; ++r)
                for (int t = 0; t < 4; ++t) {
                    Trial trial;
                    trial.context = std::to_string(c);
                    trial.arm = s;
                    trial.rollout = r;
                    trial.trial = t;
                    trial.status =
                        t < file["counts"][c][s][r].get<int>() ? Status::pass : Status::fail;
                    pilot.trials.push_back(trial);
                }
    const auto components = components_of(pilot, Metric::pass);
    ASSERT_TRUE(components) << to_text(components.error());
    const auto& want = file["variance_components"];
    EXPECT_NEAR(components->unclipped.trial, want["var_trial"].get<double>(), 1e-12);
    EXPECT_NEAR(components->unclipped.plan, want["var_plan"].get<double>(), 1e-12);
    EXPECT_TRUE(components->warnings.empty());
    EXPECT_GE(components->components.between_shapley, 0);

    pilot.trials_per_rollout = 1;
    std::erase_if(pilot.trials, [](const Trial& trial) { return trial.trial > 0; });
    const auto thin = components_of(pilot, Metric::pass);
    ASSERT_TRUE(thin);
    EXPECT_EQ(thin->warnings.size(), 1U);
    EXPECT_EQ(thin->components.plan, 0);
    pilot.arms.pop_back();
    EXPECT_FALSE(components_of(pilot, Metric::pass));
}

TEST(Golden, Power) {
    const auto golden_file = golden("power.json");
    if (!golden_file)
        GTEST_SKIP() << no_golden;
    const nlohmann::json& file = *golden_file;
    const auto relative = [](double got, const nlohmann::json& want) {
        EXPECT_NEAR(got, want.get<double>(), 1e-6 * std::abs(want.get<double>()));
    };
    for (const auto& row : file["t_rows"]) {
        const double sd = row["sd_z"];
        const int contexts = row["C"];
        relative(detectable_effect(sd, contexts, row["alpha"], row["power"]), row["mde_t"]);
        relative(detectable_effect_normal(sd, contexts, row["alpha"], row["power"]),
                 row["mde_normal"]);
        relative(t_test_power(0.1, sd, contexts, row["alpha"]), row["power_t_at_0_1"]);
    }
    for (const auto& row : file["design"]) {
        VarianceComponents components;
        components.plan = row["var_plan"];
        components.trial = row["e_p1p"];
        const double sd = contrast_sd(row["var_tau"], row["gain"], components, row["R"], row["k"]);
        relative(sd, row["sd_z"]);
        relative(detectable_effect(sd, 20), row["mde_t_C20"]);
    }
}

}  // namespace
}  // namespace loopscope
