// Means with their uncertainty, quantiles and tests. Every estimate carries its n.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace loopscope::stats {

// Two-sided interval for a location. n is the number of independent units; one unit has no
// interval: for n < 2 low and high are -inf and +inf, standard_error is +inf and df 0.
struct Estimate {
    double value = 0;
    double low = 0, high = 0;
    double standard_error = 0;
    double df = 0;
    std::size_t n = 0;
};

double mean(std::span<const double> x);  // n >= 1; a second pass removes the rounding of the first
double variance(std::span<const double> x);            // n >= 2, divisor n - 1, two-pass
double median(std::span<const double> x);              // n >= 1
double quantile(std::span<const double> x, double p);  // n >= 1, linear interpolation (type 7)
double normal_cdf(double z);
double normal_quantile(double p);                    // 0 < p < 1
double student_t_cdf(double t, double df);           // df > 0, +inf allowed: the normal law
double student_t_quantile(double p, double df);      // 0 < p < 1, df > 0
double chi_squared_quantile(double p, double df);    // 0 <= p < 1, df > 0
double beta_quantile(double p, double a, double b);  // 0 <= p <= 1, a, b > 0
// P(|T| >= |t|), accurate in the far tail.
double student_t_two_sided(double t, double df);

// mean +- t_{n-1} sqrt(variance / n); `floor_variance` replaces a smaller variance of the x
// (docs/attribution.md, "Rare outcomes").
Estimate mean_interval(std::span<const double> x, double confidence = 0.95,
                       double floor_variance = 0);

// k successes in n, k <= n; n = 0 gives [0, 1]. Wilson (1927) for display, Clopper and Pearson
// (1934) for guarantees. standard_error is sqrt(p (1 - p) / n), df 0.
Estimate wilson(std::size_t k, std::size_t n, double confidence = 0.95);
Estimate clopper_pearson(std::size_t k, std::size_t n, double confidence = 0.95);

// Two-sided p-values of paired differences d; 1 when there is nothing to test (fewer than two, or
// all of them 0).
double t_test(std::span<const double> d);
// Share of the 2^n sign patterns whose |sum| is at least the observed one. Exact when at most 20
// differences are not 0, or when all are multiples of one unit (success rates are); else (1 + hits)
// / (1 + 10^5) over seeded draws.
double sign_flip_test(std::span<const double> d);
// Zelen's conditional exact test (1971) of equal success probabilities within every context: in
// context c, a_c of m_c successes in A and b_c of n_c in B. Two-sided by point probability. The
// four spans have one length.
double zelen_test(std::span<const int> a, std::span<const int> m, std::span<const int> b,
                  std::span<const int> n);
// 1 - alpha equivalence: the (1 - 2 alpha) t interval lies inside (-margin, margin).
bool equivalent(std::span<const double> d, double margin, double alpha = 0.05);

// Adjusted p-values in the given order: Holm (1979) for the chance of any false claim, Benjamini
// and Hochberg (1995) for the share of false ones among the claims.
std::vector<double> holm(std::span<const double> p);
std::vector<double> benjamini_hochberg(std::span<const double> p);

}  // namespace loopscope::stats
