// Means with their uncertainty, quantiles and tests. Every estimate carries its n.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace loopscope::stats {

// Two-sided interval for a location. n < 2: low and high are -inf and +inf (one unit has no interval).
struct Estimate {
    double value = 0;
    double low = 0, high = 0;
    double standard_error = 0;
    double df = 0;
    std::size_t n = 0;
};

double mean(std::span<const double> x);                       // n >= 1
double variance(std::span<const double> x);                   // n >= 2, divisor n - 1, two-pass
double median(std::span<const double> x);                     // n >= 1
double quantile(std::span<const double> x, double p);         // n >= 1, linear interpolation (type 7)
double normal_cdf(double z);
double normal_quantile(double p);                             // 0 < p < 1
double student_t_cdf(double t, double df);
double student_t_quantile(double p, double df);               // 0 < p < 1, df > 0
double chi_squared_quantile(double p, double df);
double beta_quantile(double p, double a, double b);

// mean +- t_{n-1} sqrt(variance / n); `floor_variance` replaces a smaller variance of the x (attribution 4.3).
Estimate mean_interval(std::span<const double> x, double confidence = 0.95, double floor_variance = 0);

// k successes in n. Wilson for display, Clopper-Pearson for guarantees.
Estimate wilson(std::size_t k, std::size_t n, double confidence = 0.95);
Estimate clopper_pearson(std::size_t k, std::size_t n, double confidence = 0.95);

// Two-sided p-values of paired differences d.
double t_test(std::span<const double> d);
double sign_flip_test(std::span<const double> d);             // exact for n <= 20, else 10^5 seeded draws
// Zelen's conditional exact test: per context c, a_c of m_c successes in A and b_c of n_c in B.
double zelen_test(std::span<const int> a, std::span<const int> m, std::span<const int> b, std::span<const int> n);
// 1 - alpha equivalence: the (1 - 2 alpha) t interval lies inside (-margin, margin).
bool equivalent(std::span<const double> d, double margin, double alpha = 0.05);

std::vector<double> holm(std::span<const double> p);                 // adjusted, in the given order
std::vector<double> benjamini_hochberg(std::span<const double> p);

}  // namespace loopscope::stats
