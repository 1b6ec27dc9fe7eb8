#include "core/rng.h"
#include "stats/golden_files.h"
#include "stats/intervals.h"

#include <gtest/gtest.h>

#include <cmath>

namespace loopscope::stats {
namespace {

double sign_flip_brute_force(const std::vector<double>& d) {
    double observed = 0;
    for (const double x : d)
        observed += x;
    int hits = 0;
    for (unsigned pattern = 0; pattern < (1U << d.size()); ++pattern) {
        double sum = 0;
        for (std::size_t i = 0; i < d.size(); ++i)
            sum += (pattern >> i & 1U) != 0 ? d[i] : -d[i];
        hits += std::abs(sum) >= std::abs(observed) - 1e-12 ? 1 : 0;
    }
    return hits / static_cast<double>(1U << d.size());
}

TEST(SignFlip, AgreesWithAllPatterns) {
    Rng rng(3);
    for (std::size_t n = 1; n <= 10; ++n) {
        std::vector<double> real(n);
        std::vector<double> rates(n);
        for (std::size_t i = 0; i < n; ++i) {
            real[i] = rng.unit() - 0.4;
            rates[i] = (static_cast<double>(rng.below(7)) - 2) / 15.0;
        }
        EXPECT_NEAR(sign_flip_test(real), sign_flip_brute_force(real), 1e-12) << n;
        EXPECT_NEAR(sign_flip_test(rates), sign_flip_brute_force(rates), 1e-12) << n;
    }
}

TEST(SignFlip, ManyDifferences) {
    // 60 successes in 90 untied pairs: the exact binomial test, whatever the number of contexts.
    std::vector<double> rates(120, 0.0);
    for (std::size_t i = 0; i < 90; ++i)
        rates[i] = i < 60 ? 1.0 / 3 : -1.0 / 3;
    EXPECT_NEAR(sign_flip_test(rates), 0.002060265680963076, 1e-12);
    // Without a common unit: drawn, close to the normal law, and the same again.
    Rng rng(5);
    std::vector<double> real(60);
    for (double& x : real)
        x = rng.unit() - 0.42;
    const double p = sign_flip_test(real);
    EXPECT_NEAR(p, t_test(real), 0.02);
    EXPECT_EQ(p, sign_flip_test(real));
}

TEST(SignFlip, NothingToTest) {
    EXPECT_EQ(sign_flip_test(std::vector<double>{}), 1);
    EXPECT_EQ(sign_flip_test(std::vector<double>{0, 0}), 1);
    EXPECT_EQ(sign_flip_test(std::vector<double>{0.4}), 1);
    // Five contexts can never reach 0.05.
    EXPECT_DOUBLE_EQ(sign_flip_test(std::vector<double>{1, 1, 1, 1, 1}), 2.0 / 32);
}

TEST(TTest, KnownAndDegenerate) {
    EXPECT_NEAR(t_test(std::vector<double>{1, 2, 3}), 0.07417990022744853, 1e-12);
    EXPECT_EQ(t_test(std::vector<double>{1}), 1);
    EXPECT_EQ(t_test(std::vector<double>{0, 0, 0}), 1);
    EXPECT_EQ(t_test(std::vector<double>{1, 1, 1}), 0);
}

TEST(Zelen, OneStratumIsFisher) {
    // Fisher's tea: 3 of 4 against 1 of 4.
    EXPECT_NEAR(zelen_test(std::vector<int>{3}, std::vector<int>{4}, std::vector<int>{1},
                           std::vector<int>{4}),
                34.0 / 70, 1e-14);
    EXPECT_EQ(zelen_test(std::vector<int>{0, 4}, std::vector<int>{4, 4}, std::vector<int>{0, 4},
                         std::vector<int>{4, 4}),
              1);
    // Thousands of trials: nothing overflows.
    const double p = zelen_test(std::vector<int>{2600}, std::vector<int>{5000},
                                std::vector<int>{2500}, std::vector<int>{5000});
    EXPECT_NEAR(p, 0.0477, 0.002);
}

TEST(Equivalence, NeedsTheWholeInterval) {
    EXPECT_TRUE(equivalent(std::vector<double>{0.01, -0.01, 0.0, 0.005, -0.004}, 0.05));
    EXPECT_FALSE(equivalent(std::vector<double>{0.2, -0.2, 0.1, -0.1, 0.0}, 0.05));
    EXPECT_FALSE(equivalent(std::vector<double>{0.0}, 0.05));
}

TEST(Multiplicity, HandComputed) {
    const std::vector<double> p = {0.04, 0.01, 0.03};
    EXPECT_EQ(holm(p), (std::vector<double>{0.06, 0.03, 0.06}));
    const std::vector<double> bh = benjamini_hochberg(p);
    EXPECT_DOUBLE_EQ(bh[0], 0.04);
    EXPECT_DOUBLE_EQ(bh[1], 0.03);
    EXPECT_DOUBLE_EQ(bh[2], 0.04);
    EXPECT_TRUE(holm({}).empty());
    EXPECT_EQ(holm(std::vector<double>{0.7, 0.9}), (std::vector<double>{1, 1}));
}

TEST(Golden, PairedTestsAndMultiplicity) {
    const auto golden_file = golden("intervals.json");
    if (!golden_file)
        GTEST_SKIP() << no_golden;
    const nlohmann::json& file = *golden_file;
    for (const auto& row : file["paired"]) {
        const std::vector<int> a = row["sA"];
        const std::vector<int> b = row["sB"];
        const int ka = row["kA"];
        const int kb = row["kB"];
        std::vector<double> d;
        for (std::size_t c = 0; c < a.size(); ++c)
            d.push_back((static_cast<double>(a[c]) / ka) - (static_cast<double>(b[c]) / kb));
        EXPECT_NEAR(sign_flip_test(d), row["signflip_two_sided"].get<double>(), 1e-12);
        EXPECT_NEAR(
            zelen_test(a, std::vector<int>(a.size(), ka), b, std::vector<int>(b.size(), kb)),
            row["zelen_two_sided"].get<double>(), 1e-12);
        if (row.contains("t_p")) {
            EXPECT_NEAR(t_test(d), row["t_p"].get<double>(), 1e-9);
            EXPECT_NEAR(mean_interval(d).low, row["t_ci95"][0].get<double>(), 1e-9);
            EXPECT_NEAR(mean_interval(d).high, row["t_ci95"][1].get<double>(), 1e-9);
        }
    }
    for (const auto& row : file["multiplicity"]) {
        const std::vector<double> p = row["p"];
        const std::vector<double> h = holm(p);
        const std::vector<double> bh = benjamini_hochberg(p);
        for (std::size_t i = 0; i < p.size(); ++i) {
            EXPECT_NEAR(h[i], row["holm"][i].get<double>(), 1e-12);
            EXPECT_NEAR(bh[i], row["bh"][i].get<double>(), 1e-12);
        }
    }
}

}  // namespace
}  // namespace loopscope::stats
