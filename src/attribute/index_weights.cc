#include "attribute/index_weights.h"

#include "core/check.h"

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>

namespace loopscope {

namespace {

using Integer = boost::multiprecision::cpp_int;
using Rational = boost::multiprecision::cpp_rational;

Integer factorial(int n) {
    Integer product = 1;
    for (int i = 2; i <= n; ++i)
        product *= i;
    return product;
}

Integer choose(int n, int k) {
    if (k < 0 || k > n)
        return 0;
    Integer product = 1;
    for (int i = 1; i <= k; ++i)
        product = product * (n - k + i) / i;
    return product;
}

Rational ratio(const Integer& numerator, const Integer& denominator) {
    return Rational(numerator) / Rational(denominator);
}

Rational power_of_half(int n) { return ratio(1, Integer(1) << static_cast<unsigned>(n)); }

int sign(int n) { return n % 2 == 0 ? 1 : -1; }

// Bernoulli numbers with B_1 = -1/2.
std::vector<Rational> bernoulli_numbers(int last) {
    std::vector<Rational> b = {Rational(1)};
    for (int m = 1; m <= last; ++m) {
        Rational sum = 0;
        for (int j = 0; j < m; ++j)
            sum += Rational(choose(m + 1, j)) * b[static_cast<std::size_t>(j)];
        b.push_back(-sum / (m + 1));
    }
    return b;
}

// Shares c(0), ..., c(M) of the dividends, for the kinds defined by them.
std::vector<Rational> shares(IndexKind kind, int rest, int k, int s) {
    std::vector<Rational> c;
    const std::vector<Rational> b = bernoulli_numbers(k - s);
    for (int r = 0; r <= rest; ++r) {
        Rational share = 0;
        if (kind == IndexKind::ksii) {
            for (int q = 0; q <= std::min(k - s, r); ++q)
                share += b[static_cast<std::size_t>(q)] * ratio(choose(r, q), r - q + 1);
        } else if (r == 0) {
            share = 1;
        } else if (s + r > k && kind == IndexKind::fsii) {
            const int t = s + r;
            share = ratio(sign(k - s) * s * choose(k, s) * choose(t - 1, k),
                          (k + s) * choose(t + k - 1, k + s));
        } else if (s + r > k) {
            share = sign(k - s) * power_of_half(r) * Rational(choose(r - 1, k - s));
        }
        c.push_back(share);
    }
    return c;
}

std::vector<Rational> exact_weights(IndexKind kind, int n, int k, int s) {
    const int rest = n - s;
    std::vector<Rational> w(static_cast<std::size_t>(rest) + 1, Rational(0));
    if (kind == IndexKind::ksii || kind == IndexKind::fsii || kind == IndexKind::fbii) {
        const std::vector<Rational> c = shares(kind, rest, k, s);
        for (int t = 0; t <= rest; ++t)
            for (int r = t; r <= rest; ++r)
                w[static_cast<std::size_t>(t)] += sign(r - t) * Rational(choose(rest - t, r - t)) *
                                                  c[static_cast<std::size_t>(r)];
        return w;
    }
    for (int t = 0; t <= rest; ++t) {
        Rational& weight = w[static_cast<std::size_t>(t)];
        switch (kind) {
            case IndexKind::shapley:
            case IndexKind::sii:
                weight = ratio(factorial(rest - t) * factorial(t), factorial(rest + 1));
                break;
            case IndexKind::banzhaf:
            case IndexKind::bii:
                weight = power_of_half(rest);
                break;
            case IndexKind::chaining:
                weight = ratio(s * factorial(rest - t) * factorial(s + t - 1), factorial(n));
                break;
            case IndexKind::moebius:
                weight = t == 0 ? 1 : 0;
                break;
            case IndexKind::co_moebius:
                weight = t == rest ? 1 : 0;
                break;
            case IndexKind::stii:
                if (s == k)
                    weight = ratio(k, n * choose(n - 1, t));
                else
                    weight = t == 0 ? 1 : 0;
                break;
            case IndexKind::ksii:
            case IndexKind::fsii:
            case IndexKind::fbii:
                CHECK(false);
        }
    }
    return w;
}

}  // namespace

std::vector<double> index_weights(IndexKind kind, int players, int order, int size) {
    CHECK(1 <= size && size <= order && order <= players && players <= 24);
    std::vector<double> rounded;
    for (const Rational& weight : exact_weights(kind, players, order, size))
        rounded.push_back(weight.convert_to<double>());
    return rounded;
}

}  // namespace loopscope
