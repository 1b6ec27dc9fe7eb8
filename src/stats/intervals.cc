#include "stats/intervals.h"

#include "core/check.h"

#include <algorithm>
#include <boost/math/distributions/beta.hpp>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

namespace loopscope::stats {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

double sum(std::span<const double> x) {
    double total = 0;
    for (const double value : x)
        total += value;
    return total;
}

Estimate binomial(std::size_t k, std::size_t n) {
    CHECK(k <= n);
    Estimate estimate;
    estimate.n = n;
    estimate.high = 1;
    if (n == 0) {
        estimate.standard_error = infinity;
        return estimate;
    }
    const double p = static_cast<double>(k) / static_cast<double>(n);
    estimate.value = p;
    estimate.standard_error = std::sqrt(p * (1 - p) / static_cast<double>(n));
    return estimate;
}

}  // namespace

double mean(std::span<const double> x) {
    CHECK(!x.empty());
    const auto n = static_cast<double>(x.size());
    const double first = sum(x) / n;
    if (!std::isfinite(first))
        return first;
    double rest = 0;
    for (const double value : x)
        rest += value - first;
    return first + (rest / n);
}

// The second term removes what the rounding of the mean adds (Chan, Golub and LeVeque, 1983).
double variance(std::span<const double> x) {
    CHECK(x.size() >= 2);
    const double centre = mean(x);
    double squares = 0;
    double rest = 0;
    for (const double value : x) {
        const double deviation = value - centre;
        squares += deviation * deviation;
        rest += deviation;
    }
    const auto n = static_cast<double>(x.size());
    return std::max(0.0, (squares - (rest * rest / n)) / (n - 1));
}

double quantile(std::span<const double> x, double p) {
    CHECK(!x.empty() && p >= 0 && p <= 1);
    std::vector<double> sorted(x.begin(), x.end());
    std::sort(sorted.begin(), sorted.end());
    const double position = p * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    if (below + 1 >= sorted.size())
        return sorted.back();
    const double share = position - static_cast<double>(below);
    // Without this, 0 times an infinite neighbour would be NaN.
    if (share == 0)
        return sorted[below];
    return sorted[below] + (share * (sorted[below + 1] - sorted[below]));
}

double median(std::span<const double> x) { return quantile(x, 0.5); }

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

double normal_quantile(double p) {
    CHECK(p > 0 && p < 1);
    return boost::math::quantile(boost::math::normal_distribution<double>(), p);
}

double student_t_cdf(double t, double df) {
    CHECK(df > 0);
    if (std::isinf(df))
        return normal_cdf(t);
    if (std::isinf(t))
        return t > 0 ? 1 : 0;
    return boost::math::cdf(boost::math::students_t_distribution<double>(df), t);
}

double student_t_quantile(double p, double df) {
    CHECK(p > 0 && p < 1 && df > 0);
    if (std::isinf(df))
        return normal_quantile(p);
    return boost::math::quantile(boost::math::students_t_distribution<double>(df), p);
}

double student_t_two_sided(double t, double df) { return 2 * student_t_cdf(-std::abs(t), df); }

double chi_squared_quantile(double p, double df) {
    CHECK(p >= 0 && p < 1 && df > 0);
    return boost::math::quantile(boost::math::chi_squared_distribution<double>(df), p);
}

double beta_quantile(double p, double a, double b) {
    CHECK(p >= 0 && p <= 1 && a > 0 && b > 0);
    return boost::math::quantile(boost::math::beta_distribution<double>(a, b), p);
}

Estimate mean_interval(std::span<const double> x, double confidence, double floor_variance) {
    CHECK(confidence > 0 && confidence < 1 && floor_variance >= 0);
    Estimate estimate;
    estimate.n = x.size();
    estimate.value = x.empty() ? 0 : mean(x);
    if (x.size() < 2) {
        estimate.low = -infinity;
        estimate.high = infinity;
        estimate.standard_error = infinity;
        return estimate;
    }
    const auto n = static_cast<double>(x.size());
    estimate.standard_error = std::sqrt(std::max(variance(x), floor_variance) / n);
    estimate.df = n - 1;
    const double half =
        student_t_quantile(0.5 + (confidence / 2), estimate.df) * estimate.standard_error;
    estimate.low = estimate.value - half;
    estimate.high = estimate.value + half;
    return estimate;
}

Estimate wilson(std::size_t k, std::size_t n, double confidence) {
    Estimate estimate = binomial(k, n);
    if (n == 0)
        return estimate;
    const double z = normal_quantile(0.5 + (confidence / 2));
    const auto count = static_cast<double>(n);
    const double p = estimate.value;
    const double scale = 1 + (z * z / count);
    const double centre = (p + (z * z / (2 * count))) / scale;
    const double half =
        z * std::sqrt((p * (1 - p) / count) + (z * z / (4 * count * count))) / scale;
    // At k = 0 and k = n centre and half-width are equal in exact arithmetic.
    estimate.low = k == 0 ? 0 : std::max(0.0, centre - half);
    estimate.high = k == n ? 1 : std::min(1.0, centre + half);
    return estimate;
}

Estimate clopper_pearson(std::size_t k, std::size_t n, double confidence) {
    Estimate estimate = binomial(k, n);
    if (n == 0)
        return estimate;
    const double tail = (1 - confidence) / 2;
    const auto successes = static_cast<double>(k);
    const auto failures = static_cast<double>(n - k);
    estimate.low = k == 0 ? 0 : beta_quantile(tail, successes, failures + 1);
    estimate.high = k == n ? 1 : beta_quantile(1 - tail, successes + 1, failures);
    return estimate;
}

}  // namespace loopscope::stats
