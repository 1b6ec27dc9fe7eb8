// Counter-based random numbers: a value is a function of (seed, indices), never of what was drawn
// before, so neither thread count nor order of completion changes a result.
//
// mix64 is the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014).
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace loopscope {

__extension__ typedef unsigned __int128 Wide;  // -Wpedantic wants the marker

constexpr std::uint64_t mix64(std::uint64_t z) {
    z += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31U);
}

constexpr std::uint64_t hash64(std::uint64_t seed, std::initializer_list<std::uint64_t> indices) {
    std::uint64_t h = mix64(seed);
    for (const std::uint64_t index : indices)
        h = mix64(h ^ (index * 0xD1B54A32D192ED03ULL));
    return h;
}

// [0, 1), 53 bits.
constexpr double to_unit(std::uint64_t bits) { return static_cast<double>(bits >> 11U) * 0x1p-53; }

// A stream of draws. fork() gives an independent stream by name, whatever was drawn from this one.
class Rng {
public:
    explicit constexpr Rng(std::uint64_t seed) : seed_(seed) {}
    constexpr Rng fork(std::string_view name,
                       std::initializer_list<std::uint64_t> indices = {}) const {
        std::uint64_t h = mix64(seed_ ^ 0xA0761D6478BD642FULL);
        for (const char c : name)
            h = mix64(h ^ static_cast<unsigned char>(c));
        return Rng(hash64(h, indices));
    }
    constexpr std::uint64_t next() { return hash64(seed_, {counter_++}); }
    // [0, 1).
    constexpr double unit() { return to_unit(next()); }
    // Uniform over {0, ..., n - 1}; n > 0. The bias of the multiplication method is below n / 2^64.
    constexpr std::uint64_t below(std::uint64_t n) {
        return static_cast<std::uint64_t>((static_cast<Wide>(next()) * n) >> 64U);
    }
    constexpr std::uint64_t seed() const { return seed_; }

private:
    std::uint64_t seed_;
    std::uint64_t counter_ = 0;
};

}  // namespace loopscope
