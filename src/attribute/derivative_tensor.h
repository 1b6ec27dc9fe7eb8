// The derivative tensor without a container: calls back for each coalition.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace loopscope {

// Folds the players from the highest bit down: each step either takes the player into S (subtract
// the halves) or integrates it out while keeping its count (a shifted add), so that for a fixed
// order the work is O(2^n) instead of 2^n for every S. Rows are double, or an integer type for
// exact results.
template <class Number, class Emit>
class TensorFold {
public:
    TensorFold(int order, std::size_t scratch, Emit emit)
        : order_(order), scratch_(scratch), emit_(emit) {}

    // rows: `counts` rows of length 2^bits, row q holding the sums over q players that were folded
    // out.
    void fold(const Number* rows, int bits, std::size_t counts, std::uint32_t subset) {
        const std::size_t mark = used_;
        for (int b = bits - 1; b >= 0; --b) {
            const std::size_t half = std::size_t{1} << b;
            if (std::popcount(subset) < order_) {
                const std::size_t inner = used_;
                Number* taken = take(counts * half);
                for (std::size_t q = 0; q < counts; ++q) {
                    const Number* low = rows + (2 * q * half);
                    for (std::size_t i = 0; i < half; ++i)
                        taken[(q * half) + i] = low[half + i] - low[i];
                }
                fold(taken, b, counts, subset | (1U << b));
                used_ = inner;
            }
            Number* kept = take((counts + 1) * half);
            for (std::size_t i = 0; i < half; ++i)
                kept[i] = rows[i];
            for (std::size_t q = 1; q < counts; ++q) {
                const Number* low = rows + (2 * q * half);
                const Number* above = rows + (2 * (q - 1) * half) + half;
                for (std::size_t i = 0; i < half; ++i)
                    kept[(q * half) + i] = low[i] + above[i];
            }
            const Number* last = rows + (2 * (counts - 1) * half) + half;
            for (std::size_t i = 0; i < half; ++i)
                kept[(counts * half) + i] = last[i];
            rows = kept;
            ++counts;
        }
        emit_(subset, std::span<const Number>(rows, counts));
        used_ = mark;
    }

private:
    // A bump arena: allocating in each step of the recursion would cost more than the arithmetic.
    Number* take(std::size_t count) {
        Number* place = scratch_.data() + used_;
        used_ += count;
        return place;
    }

    int order_;
    std::size_t used_ = 0;
    std::vector<Number> scratch_;
    Emit emit_;
};

// Calls emit(S, row) once for every S with |S| <= order; row[t] = sum over T disjoint from S, |T| =
// t, of Delta_S v(T). value.size() = 2^n, 0 <= order <= n. An integer Number is exact while 2^(n +
// order) max |v| fits.
template <class Number, class Emit>
void for_each_derivative(std::span<const Number> value, int order, Emit emit) {
    const int players = std::countr_zero(value.size());
    // The deepest use of the arena is below 4 * 2^n for every order (computed for all n <= 24).
    TensorFold<Number, Emit> fold(order, (4 * value.size()) + 64, emit);
    fold.fold(value.data(), players, 1, 0);
}

}  // namespace loopscope
