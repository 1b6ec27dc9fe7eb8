// Contents of a kernel's arguments, made from a secret seed: the same for candidate and reference,
// never the same twice.
#pragma once
#include "core/result.h"
#include "core/rng.h"
#include "evaluate/harness.h"
#include "evaluate/task.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

// An array's elements as bytes, aligned for any of them.
class Bytes {
public:
    Bytes() = default;
    explicit Bytes(std::size_t size) : words_((size + 7) / 8), size_(size) {}
    std::size_t size() const { return size_; }
    char* data() { return reinterpret_cast<char*>(words_.data()); }
    const char* data() const { return reinterpret_cast<const char*>(words_.data()); }
    template <class T>
    std::span<T> as() {
        return {reinterpret_cast<T*>(words_.data()), size_ / sizeof(T)};
    }
    template <class T>
    std::span<const T> as() const {
        return {reinterpret_cast<const T*>(words_.data()), size_ / sizeof(T)};
    }

private:
    std::vector<std::uint64_t> words_;
    std::size_t size_ = 0;
};

// A kernel's arguments at given sizes.
struct CallShape {
    Sizes sizes;
    std::vector<std::size_t> counts;  // elements of each array; 1 for a scalar
    std::vector<double> scalars;      // value of each scalar (0 for an array)
    double reduction = 1;             // Tolerance::reduction
    double flops = 0, bytes = 0;      // 0 = not declared
};
Result<CallShape> shape_of(const KernelSpec& kernel, const Sizes& sizes);

// Of what a call computes with: float is double at the reference's side.
ElementType type_at(const Argument& argument, Side side);
// A scalar's value in the first bytes of a word, as its type.
std::uint64_t scalar_word(const Argument& argument, double value, Side side);

// How an argument whose initialiser is "mixed" is filled:
//   uniform [0, 1), signed_normal N(0, 1), heavy_tailed sign * exp(1.5 N(0, 1)), sparse (nine of
//   ten are zero), scaled (signed uniform times one power of two per argument, 2^-20 to 2^20).
//   `declared`: no argument is mixed.
enum class InputClass { declared, uniform, signed_normal, heavy_tailed, sparse, scaled };
std::string_view name_of(InputClass which);
std::vector<InputClass> classes_of(const KernelSpec& kernel);

// One entry per argument, in the candidate's types; empty for scalars and outputs.
Result<std::vector<Bytes>> make_inputs(const KernelSpec& kernel, const CallShape& shape,
                                       InputClass which, Rng rng);

// The same in the reference's types. `absolute`: magnitudes of the floating-point ones.
std::vector<Bytes> widen(const KernelSpec& kernel, const std::vector<Bytes>& inputs, bool absolute);
// Whether some floating-point input is negative, so that the reference on magnitudes may differ.
bool has_negative(const KernelSpec& kernel, const std::vector<Bytes>& inputs);

// 64 bits of the system's entropy.
std::uint64_t secret_seed();

// The file that standalone_source()'s main() reads. Outputs are poisoned.
std::string call_file(const KernelSpec& kernel, const CallShape& shape,
                      const std::vector<Bytes>& inputs);

// What outputs hold before a call: a quiet NaN with a payload for floats, the same bits for
// integers.
std::uint64_t poison_word(ElementType type, std::uint64_t secret);
void poison(ElementType type, std::uint64_t word, char* where, std::size_t count);

}  // namespace loopscope
