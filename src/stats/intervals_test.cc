#include "stats/intervals.h"

#include "core/rng.h"
#include "stats/golden_files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace loopscope::stats {
namespace {

TEST(Mean, KeepsSmallDifferencesBesideALargeOffset) {
    const std::vector<double> offset = {1e9 + 1, 1e9 + 2, 1e9 + 3, 1e9 + 4};
    EXPECT_DOUBLE_EQ(mean(offset), 1e9 + 2.5);
    EXPECT_DOUBLE_EQ(variance(offset), 5.0 / 3.0);
    // One pass (mean of squares minus square of mean) loses all digits of this one.
    std::vector<double> many;
    for (int i = 0; i < 1000; ++i)
        many.push_back(1e12 + (i % 2));
    EXPECT_NEAR(variance(many), 250.0 / 999.0, 1e-12);
    EXPECT_EQ(variance(std::vector<double>{0.1, 0.1, 0.1}), 0);
}

TEST(Quantile, InterpolatesBetweenOrderStatistics) {
    const std::vector<double> x = {4, 1, 3, 2};
    EXPECT_EQ(median(x), 2.5);
    EXPECT_EQ(quantile(x, 0), 1);
    EXPECT_EQ(quantile(x, 1), 4);
    EXPECT_DOUBLE_EQ(quantile(x, 0.25), 1.75);
    EXPECT_EQ(median(std::vector<double>{7}), 7);
    const double infinity = std::numeric_limits<double>::infinity();
    EXPECT_EQ(median(std::vector<double>{1, 2, infinity}), 2);
}

TEST(Distributions, KnownValues) {
    EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-14);
    EXPECT_NEAR(normal_cdf(-8), 6.220960574271785e-16, 1e-28);
    EXPECT_NEAR(student_t_quantile(0.975, 1), 12.706204736174698, 1e-11);
    EXPECT_NEAR(student_t_quantile(0.975, 5), 2.5705818356363124, 1e-13);
    EXPECT_NEAR(student_t_quantile(0.975, 9), 2.2621571627982049, 1e-13);
    EXPECT_NEAR(student_t_quantile(0.975, std::numeric_limits<double>::infinity()),
                1.959963984540054, 1e-14);
    EXPECT_NEAR(student_t_cdf(2.2621571627982049, 9), 0.975, 1e-14);
    EXPECT_NEAR(student_t_two_sided(-2.2621571627982049, 9), 0.05, 1e-14);
    EXPECT_NEAR(chi_squared_quantile(0.95, 3), 7.814727903251178, 1e-12);
    EXPECT_NEAR(beta_quantile(0.5, 2, 3), 0.38572756813238945, 1e-13);
}

TEST(MeanInterval, TExampleFloorAndTooFew) {
    const std::vector<double> x = {1, 2, 3};
    const Estimate estimate = mean_interval(x);
    EXPECT_EQ(estimate.n, 3U);
    EXPECT_EQ(estimate.df, 2);
    EXPECT_DOUBLE_EQ(estimate.standard_error, 1 / std::sqrt(3.0));
    EXPECT_NEAR(estimate.high - 2, 4.302652729749462 / std::sqrt(3.0), 1e-12);
    EXPECT_NEAR(2 - estimate.low, 4.302652729749462 / std::sqrt(3.0), 1e-12);
    EXPECT_DOUBLE_EQ(mean_interval(x, 0.95, 4).standard_error, 2 / std::sqrt(3.0));
    EXPECT_DOUBLE_EQ(mean_interval(x, 0.95, 0.5).standard_error, 1 / std::sqrt(3.0));
    for (const auto& few : {std::vector<double>{}, std::vector<double>{3}}) {
        const Estimate none = mean_interval(few);
        EXPECT_TRUE(std::isinf(none.low) && none.low < 0);
        EXPECT_TRUE(std::isinf(none.high) && none.high > 0);
        EXPECT_EQ(none.n, few.size());
    }
}

TEST(MeanInterval, CoversAtItsLevel) {
    // Uniform data, n = 8: 4000 intervals at 90 %; the binomial error of the share is 0.0047.
    Rng rng(7);
    int covered = 0;
    for (int repeat = 0; repeat < 4000; ++repeat) {
        std::vector<double> x(8);
        for (double& value : x)
            value = rng.unit();
        const Estimate estimate = mean_interval(x, 0.9);
        covered += estimate.low <= 0.5 && 0.5 <= estimate.high ? 1 : 0;
    }
    EXPECT_NEAR(covered / 4000.0, 0.9, 0.015);
}

TEST(Binomial, KnownIntervals) {
    EXPECT_EQ(clopper_pearson(0, 1).low, 0);
    EXPECT_NEAR(clopper_pearson(0, 1).high, 0.975, 1e-12);
    EXPECT_NEAR(wilson(0, 1).high, 0.7934506856227626, 1e-12);
    EXPECT_EQ(wilson(5, 5).high, 1);
    EXPECT_EQ(wilson(0, 0).low, 0);
    EXPECT_EQ(wilson(0, 0).high, 1);
    EXPECT_EQ(clopper_pearson(0, 0).n, 0U);
    EXPECT_LT(wilson(5, 10, 0.8).high, wilson(5, 10).high);
}

TEST(Binomial, ClopperPearsonGuaranteesItsLevel) {
    for (const double p : {0.05, 0.31, 0.5}) {
        constexpr std::size_t n = 12;
        double covered = 0;
        for (std::size_t k = 0; k <= n; ++k) {
            const Estimate interval = clopper_pearson(k, n);
            double probability = std::pow(1 - p, n - k);
            for (std::size_t i = 1; i <= k; ++i)
                probability *= p * static_cast<double>(n - k + i) / static_cast<double>(i);
            if (interval.low <= p && p <= interval.high)
                covered += probability;
        }
        EXPECT_GE(covered, 0.95) << p;
    }
}

TEST(Golden, BinomialIntervals) {
    const auto golden_file = golden("intervals.json");
    if (!golden_file)
        GTEST_SKIP() << no_golden;
    const nlohmann::json& file = *golden_file;
    for (const auto& row : file["binomial"]) {
        const std::size_t k = row["x"];
        const std::size_t n = row["n"];
        EXPECT_NEAR(wilson(k, n).low, row["wilson"][0].get<double>(), 1e-9);
        EXPECT_NEAR(wilson(k, n).high, row["wilson"][1].get<double>(), 1e-9);
        EXPECT_NEAR(clopper_pearson(k, n).low, row["clopper_pearson"][0].get<double>(), 1e-9);
        EXPECT_NEAR(clopper_pearson(k, n).high, row["clopper_pearson"][1].get<double>(), 1e-9);
    }
}

}  // namespace
}  // namespace loopscope::stats
