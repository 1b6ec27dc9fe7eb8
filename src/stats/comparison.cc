// Tests of paired differences and corrections for many of them.
#include "core/check.h"
#include "core/rng.h"
#include "stats/intervals.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

namespace loopscope::stats {

namespace {

// The largest unit of which all x are whole multiples (Euclid's algorithm on doubles), if the
// multiples add up to at most `limit`. Rates are multiples of 1 / trials only up to rounding, hence
// the tolerance.
std::optional<double> common_unit(std::span<const double> x, double limit) {
    double largest = 0;
    double total = 0;
    for (const double value : x) {
        largest = std::max(largest, std::abs(value));
        total += std::abs(value);
    }
    const double tolerance = 1e-9 * largest;
    double unit = 0;
    for (const double value : x) {
        double a = std::abs(value);
        double b = unit;
        while (b > tolerance) {
            const double rest = a - (b * std::round(a / b));
            a = b;
            b = std::abs(rest);
        }
        unit = a;
        if (total > limit * unit)
            return std::nullopt;
    }
    for (const double value : x)
        if (std::abs(value - (unit * std::round(value / unit))) > tolerance)
            return std::nullopt;
    return unit;
}

// The law of the sum of independent, equally likely +-x_i in whole units, by convolution.
double exact_in_units(std::span<const double> x, double unit) {
    std::vector<std::size_t> steps;
    std::size_t reach = 0;
    long observed = 0;
    for (const double value : x) {
        const long step = std::lround(value / unit);
        observed += step;
        steps.push_back(static_cast<std::size_t>(std::abs(step)));
        reach += steps.back();
    }
    // probability[i] is that of the sum i - reach.
    std::vector<double> probability((2 * reach) + 1, 0.0);
    std::vector<double> next(probability.size(), 0.0);
    probability[reach] = 1;
    std::size_t span = 0;
    for (const std::size_t step : steps) {
        for (std::size_t i = reach - span - step; i <= reach + span + step; ++i)
            next[i] = 0;
        for (std::size_t i = reach - span; i <= reach + span; ++i) {
            next[i + step] += 0.5 * probability[i];
            next[i - step] += 0.5 * probability[i];
        }
        span += step;
        probability.swap(next);
    }
    const auto distance = static_cast<std::size_t>(std::abs(observed));
    double p = 0;
    for (std::size_t i = 0; i < probability.size(); ++i)
        if (std::max(i, reach) - std::min(i, reach) >= distance)
            p += probability[i];
    return std::min(1.0, p);
}

double exact_by_enumeration(std::span<const double> x, double observed, double tolerance) {
    // The pattern with all signs turned has the same |sum|, so the first sign may be held.
    std::vector<double> sums = {x[0]};
    sums.reserve(std::size_t{1} << (x.size() - 1));
    for (const double value : x.subspan(1)) {
        const std::size_t count = sums.size();
        for (std::size_t i = 0; i < count; ++i) {
            sums.push_back(sums[i] - value);
            sums[i] += value;
        }
    }
    const auto hits = std::count_if(sums.begin(), sums.end(), [&](double sum) {
        return std::abs(sum) >= observed - tolerance;
    });
    return static_cast<double>(hits) / static_cast<double>(sums.size());
}

double by_draws(std::span<const double> x, double observed, double tolerance) {
    constexpr std::size_t draws = 100'000;
    constexpr std::uint64_t seed = 0x5160F11B;
    // Signed sums of eight differences at a time, for each pattern of eight bits.
    const std::size_t groups = (x.size() + 7) / 8;
    std::vector<std::array<double, 256>> table(groups);
    for (std::size_t g = 0; g < groups; ++g) {
        for (unsigned pattern = 0; pattern < 256; ++pattern) {
            double sum = 0;
            for (std::size_t i = 8 * g; i < std::min(x.size(), (8 * g) + 8); ++i)
                sum += ((pattern >> (i - (8 * g))) & 1U) != 0 ? x[i] : -x[i];
            table[g][pattern] = sum;
        }
    }
    std::size_t hits = 0;
    for (std::size_t draw = 0; draw < draws; ++draw) {
        double sum = 0;
        std::uint64_t bits = 0;
        for (std::size_t g = 0; g < groups; ++g) {
            if (g % 8 == 0)
                bits = hash64(seed, {draw, g});
            sum += table[g][bits & 255U];
            bits >>= 8U;
        }
        hits += std::abs(sum) >= observed - tolerance ? 1 : 0;
    }
    return static_cast<double>(1 + hits) / static_cast<double>(1 + draws);
}

std::vector<std::size_t> ascending(std::span<const double> p) {
    std::vector<std::size_t> order(p.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return p[a] != p[b] ? p[a] < p[b] : a < b; });
    return order;
}

}  // namespace

double t_test(std::span<const double> d) {
    if (d.size() < 2)
        return 1;
    const double centre = mean(d);
    if (centre == 0)
        return 1;
    const double error = std::sqrt(variance(d) / static_cast<double>(d.size()));
    return error == 0 ? 0 : student_t_two_sided(centre / error, static_cast<double>(d.size() - 1));
}

double sign_flip_test(std::span<const double> d) {
    std::vector<double> x;
    std::copy_if(d.begin(), d.end(), std::back_inserter(x), [](double v) { return v != 0; });
    if (x.empty())
        return 1;
    double sum = 0;
    double size = 0;
    for (const double value : x) {
        sum += value;
        size += std::abs(value);
    }
    if (const auto unit = common_unit(x, 50'000))
        return exact_in_units(x, *unit);
    const double tolerance = 1e-12 * size;
    if (x.size() <= 20)
        return exact_by_enumeration(x, std::abs(sum), tolerance);
    return by_draws(x, std::abs(sum), tolerance);
}

double zelen_test(std::span<const int> a, std::span<const int> m, std::span<const int> b,
                  std::span<const int> n) {
    CHECK(a.size() == m.size() && a.size() == b.size() && a.size() == n.size());
    // law[i] = P(sum of the a_c = lowest + i | every a_c + b_c), a convolution of hypergeometric
    // laws.
    std::vector<double> law = {1.0};
    int lowest = 0;
    int observed = 0;
    for (std::size_t c = 0; c < a.size(); ++c) {
        CHECK(0 <= a[c] && a[c] <= m[c] && 0 <= b[c] && b[c] <= n[c]);
        const int total = a[c] + b[c];
        const int from = std::max(0, total - n[c]);
        const int to = std::min(m[c], total);
        // By the ratio of neighbours, outwards from the mode: no factorials, no overflow.
        std::vector<double> stratum(static_cast<std::size_t>(to - from) + 1, 0.0);
        const double both = static_cast<double>(m[c]) + n[c] + 2;
        const int mode = std::clamp(
            static_cast<int>((static_cast<double>(m[c]) + 1) * (total + 1) / both), from, to);
        const auto ratio = [&](int x) {  // P(x + 1) / P(x)
            return static_cast<double>(m[c] - x) * (total - x) /
                   (static_cast<double>(x + 1) * (n[c] - total + x + 1));
        };
        stratum[static_cast<std::size_t>(mode - from)] = 1;
        for (int x = mode; x < to; ++x)
            stratum[static_cast<std::size_t>(x + 1 - from)] =
                stratum[static_cast<std::size_t>(x - from)] * ratio(x);
        for (int x = mode - 1; x >= from; --x)
            stratum[static_cast<std::size_t>(x - from)] =
                stratum[static_cast<std::size_t>(x + 1 - from)] / ratio(x);
        const double mass = std::accumulate(stratum.begin(), stratum.end(), 0.0);
        std::vector<double> next(law.size() + stratum.size() - 1, 0.0);
        for (std::size_t i = 0; i < law.size(); ++i)
            for (std::size_t j = 0; j < stratum.size(); ++j)
                next[i + j] += law[i] * (stratum[j] / mass);
        law = std::move(next);
        lowest += from;
        observed += a[c];
    }
    const double point = law[static_cast<std::size_t>(observed - lowest)];
    double p = 0;
    for (const double probability : law)
        if (probability <= point * (1 + 1e-9))  // ties differ in the last bits
            p += probability;
    return std::min(1.0, p);
}

bool equivalent(std::span<const double> d, double margin, double alpha) {
    CHECK(margin > 0 && alpha > 0 && alpha < 0.5);
    const Estimate estimate = mean_interval(d, 1 - (2 * alpha));
    return estimate.low > -margin && estimate.high < margin;
}

std::vector<double> holm(std::span<const double> p) {
    std::vector<double> adjusted(p.size(), 1.0);
    double running = 0;
    std::size_t left = p.size();
    for (const std::size_t i : ascending(p)) {
        running = std::max(running, std::min(1.0, static_cast<double>(left) * p[i]));
        adjusted[i] = running;
        --left;
    }
    return adjusted;
}

std::vector<double> benjamini_hochberg(std::span<const double> p) {
    std::vector<double> adjusted(p.size(), 1.0);
    const std::vector<std::size_t> order = ascending(p);
    double running = 1;
    for (std::size_t rank = order.size(); rank > 0; --rank) {
        const std::size_t i = order[rank - 1];
        running =
            std::min(running, p[i] * static_cast<double>(p.size()) / static_cast<double>(rank));
        adjusted[i] = running;
    }
    return adjusted;
}

}  // namespace loopscope::stats
