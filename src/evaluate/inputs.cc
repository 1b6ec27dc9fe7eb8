#include "evaluate/inputs.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "stats/intervals.h"

namespace loopscope {

namespace {

// SplitMix64: one finalisation a draw, so that making inputs costs less than computing with them.
class Draws {
public:
    explicit Draws(std::uint64_t seed) : state_(mix64(seed)) {}
    std::uint64_t bits() {
        state_ += 0x9E3779B97F4A7C15ULL;
        return mix64(state_);
    }
    double unit() { return to_unit(bits()); }
    std::uint64_t below(std::uint64_t n) {
        return static_cast<std::uint64_t>((static_cast<Wide>(bits()) * n) >> 64U);
    }
    // Standard normal by its inverse distribution function, from a table; exactly in the outermost
    // cells.
    double normal() {
        const double p = unit();
        const double place = p * cells;
        const auto cell = static_cast<std::size_t>(place);
        if (cell < 4 || cell >= cells - 4)
            return stats::normal_quantile(std::clamp(p, 0x1p-54, 1 - 0x1p-53));
        const auto& values = table();
        return values[cell] +
               (place - static_cast<double>(cell)) * (values[cell + 1] - values[cell]);
    }

private:
    static constexpr std::size_t cells = 4096;
    static const std::array<double, cells + 1>& table() {
        static const std::array<double, cells + 1> values = [] {
            std::array<double, cells + 1> quantiles{};
            for (std::size_t i = 1; i < cells; ++i)
                quantiles[i] = stats::normal_quantile(static_cast<double>(i) / cells);
            return quantiles;
        }();
        return values;
    }
    std::uint64_t state_;
};

// The largest value a type holds exactly as an element; draws are clamped to it, never wrapped.
template <class T>
T as_element(double value) {
    if constexpr (std::is_floating_point_v<T>) {
        return static_cast<T>(value);
    } else {
        const double low = static_cast<double>(std::numeric_limits<T>::min());
        const double high = static_cast<double>(std::numeric_limits<T>::max());
        if (value <= low)
            return std::numeric_limits<T>::min();
        if (value >= high)
            return std::numeric_limits<T>::max();
        return static_cast<T>(value);
    }
}

template <class F>
auto with_type(ElementType type, F body) {
    switch (type) {
        case ElementType::i32:
            return body(std::int32_t{});
        case ElementType::i64:
            return body(std::int64_t{});
        case ElementType::u32:
            return body(std::uint32_t{});
        case ElementType::u64:
            return body(std::uint64_t{});
        case ElementType::f32:
            return body(float{});
        case ElementType::f64:
            break;
    }
    return body(double{});
}

template <class Draw>
void fill(ElementType type, Bytes& bytes, Draw draw) {
    with_type(type, [&](auto element) {
        using T = decltype(element);
        for (T& x : bytes.as<T>())
            x = as_element<T>(draw());
        return 0;
    });
}

void fill_mixed(ElementType type, Bytes& bytes, InputClass which, Draws& draws) {
    switch (which) {
        case InputClass::declared:
        case InputClass::uniform:
            fill(type, bytes, [&] { return draws.unit(); });
            return;
        case InputClass::signed_normal:
            fill(type, bytes, [&] { return draws.normal(); });
            return;
        case InputClass::heavy_tailed:
            fill(type, bytes, [&] {
                const double size = std::exp(1.5 * draws.normal());
                return (draws.bits() & 1U) != 0 ? size : -size;
            });
            return;
        case InputClass::sparse:
            fill(type, bytes, [&] { return draws.below(10) == 0 ? draws.normal() : 0.0; });
            return;
        case InputClass::scaled: {
            const double scale = std::ldexp(1.0, static_cast<int>(draws.below(41)) - 20);
            fill(type, bytes, [&] { return scale * (2 * draws.unit() - 1); });
            return;
        }
    }
}

double integer_at(ElementType type, const Bytes& bytes, std::size_t i) {
    return with_type(
        type, [&](auto element) { return static_cast<double>(bytes.as<decltype(element)>()[i]); });
}

// Row offsets of a sparse matrix with rows * per_row entries in all: equal rows, then entries moved
// between random pairs, so that rows differ (from none to twice the mean) and the total stays what
// the other arrays were sized for.
std::vector<std::int64_t> csr_offsets(std::int64_t rows, std::int64_t per_row, Draws& draws) {
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(rows), per_row);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        const auto j = static_cast<std::size_t>(draws.below(static_cast<std::uint64_t>(rows)));
        if (i == j)
            continue;
        const std::int64_t room = std::min(lengths[i], 2 * per_row - lengths[j]);
        if (room <= 0)
            continue;
        const auto moved =
            static_cast<std::int64_t>(draws.below(static_cast<std::uint64_t>(room) + 1));
        lengths[i] -= moved;
        lengths[j] += moved;
    }
    std::vector<std::int64_t> offsets(lengths.size() + 1, 0);
    std::partial_sum(lengths.begin(), lengths.end(), offsets.begin() + 1);
    return offsets;
}

// `count` distinct columns below `columns` in ascending order (Floyd's sampling), appended; when
// there are not enough columns they repeat.
void csr_row(std::int64_t count, std::int64_t columns, Draws& draws,
             std::vector<std::int64_t>& into) {
    const std::size_t begin = into.size();
    if (count > columns) {
        for (std::int64_t i = 0; i < count; ++i)
            into.push_back(
                static_cast<std::int64_t>(draws.below(static_cast<std::uint64_t>(columns))));
    } else {
        for (std::int64_t j = columns - count; j < columns; ++j) {
            const auto pick =
                static_cast<std::int64_t>(draws.below(static_cast<std::uint64_t>(j) + 1));
            const bool taken = std::find(into.begin() + static_cast<std::ptrdiff_t>(begin),
                                         into.end(), pick) != into.end();
            into.push_back(taken ? j : pick);
        }
    }
    std::sort(into.begin() + static_cast<std::ptrdiff_t>(begin), into.end());
}

struct Filling {
    const KernelSpec& kernel;
    const CallShape& shape;
    InputClass which;
    std::vector<Bytes>& made;
};

Result<void> fill_argument(const Filling& filling, std::size_t index, Draws& draws) {
    const Argument& argument = filling.kernel.arguments[index];
    const Initialiser& init = argument.init;
    Bytes& bytes = filling.made[index];
    const std::string where = fmt::format("argument {}, initialiser {}", argument.name, init.kind);
    std::vector<double> numbers;
    const bool names_argument = init.kind == "csr_columns";
    for (std::size_t i = names_argument ? 1 : 0; i < init.arguments.size(); ++i) {
        const Result<double> number = evaluate_expression(init.arguments[i], filling.shape.sizes);
        if (!number)
            return fail(where, to_text(number.error()));
        numbers.push_back(*number);
    }
    const auto expects = [&](std::size_t count) { return numbers.size() == count; };
    const auto wrong_count = [&](std::string_view form) {
        return fail(where, fmt::format("has {} numbers; it is written {}", numbers.size(), form));
    };
    if (init.kind == "mixed") {
        fill_mixed(argument.type, bytes, filling.which, draws);
    } else if (init.kind == "uniform") {
        if (!expects(2))
            return wrong_count("uniform(low, high)");
        fill(argument.type, bytes,
             [&] { return numbers[0] + (numbers[1] - numbers[0]) * draws.unit(); });
    } else if (init.kind == "normal") {
        if (!expects(2))
            return wrong_count("normal(mean, sd)");
        fill(argument.type, bytes, [&] { return numbers[0] + numbers[1] * draws.normal(); });
    } else if (init.kind == "lognormal") {
        if (!expects(2))
            return wrong_count("lognormal(mu, sigma)");
        fill(argument.type, bytes,
             [&] { return std::exp(numbers[0] + numbers[1] * draws.normal()); });
    } else if (init.kind == "integers") {
        if (!expects(2) || numbers[1] < numbers[0])
            return wrong_count("integers(low, high) with low <= high");
        const auto range = static_cast<std::uint64_t>(numbers[1] - numbers[0]) + 1;
        fill(argument.type, bytes,
             [&] { return numbers[0] + static_cast<double>(draws.below(range)); });
    } else if (init.kind == "constant") {
        if (!expects(1))
            return wrong_count("constant(value)");
        fill(argument.type, bytes, [&] { return numbers[0]; });
    } else if (init.kind == "zeros") {
        fill(argument.type, bytes, [] { return 0.0; });
    } else if (init.kind == "permutation") {
        std::vector<double> order(filling.shape.counts[index]);
        std::iota(order.begin(), order.end(), 0.0);
        for (std::size_t i = order.size(); i > 1; --i)
            std::swap(order[i - 1], order[draws.below(i)]);
        std::size_t next = 0;
        fill(argument.type, bytes, [&] { return order[next++]; });
    } else if (init.kind == "csr_offsets") {
        if (!expects(2) || numbers[0] < 0 || numbers[1] < 0)
            return wrong_count("csr_offsets(rows, per_row)");
        const std::vector<std::int64_t> offsets = csr_offsets(
            static_cast<std::int64_t>(numbers[0]), static_cast<std::int64_t>(numbers[1]), draws);
        if (offsets.size() != filling.shape.counts[index])
            return fail(where, fmt::format("makes {} offsets (rows + 1) for an array of {}",
                                           offsets.size(), filling.shape.counts[index]));
        std::size_t next = 0;
        fill(argument.type, bytes, [&] { return static_cast<double>(offsets[next++]); });
    } else if (init.kind == "csr_columns") {
        const auto& arguments = filling.kernel.arguments;
        const auto offsets =
            std::find_if(arguments.begin(), arguments.end(), [&](const Argument& other) {
                return !init.arguments.empty() && other.name == init.arguments[0];
            });
        if (!expects(1) || offsets == arguments.end() || numbers[0] < 1)
            return fail(where, "is written csr_columns(OFFSETS_ARGUMENT, columns)");
        const auto place = static_cast<std::size_t>(offsets - arguments.begin());
        const Bytes& rows = filling.made[place];
        std::vector<std::int64_t> columns;
        for (std::size_t row = 0; row + 1 < filling.shape.counts[place] && rows.size() > 0; ++row)
            csr_row(static_cast<std::int64_t>(integer_at(offsets->type, rows, row + 1) -
                                              integer_at(offsets->type, rows, row)),
                    static_cast<std::int64_t>(numbers[0]), draws, columns);
        if (columns.size() != filling.shape.counts[index])
            return fail(where, fmt::format("makes {} columns for an array of {}", columns.size(),
                                           filling.shape.counts[index]));
        std::size_t next = 0;
        fill(argument.type, bytes, [&] { return static_cast<double>(columns[next++]); });
    } else {
        return fail(where, "there is no such initialiser");
    }
    return {};
}

bool is_floating(ElementType type) { return type == ElementType::f32 || type == ElementType::f64; }

}  // namespace

ElementType type_at(const Argument& argument, Side side) {
    return side == Side::reference && argument.type == ElementType::f32 ? ElementType::f64
                                                                        : argument.type;
}

Result<CallShape> shape_of(const KernelSpec& kernel, const Sizes& sizes) {
    CallShape shape;
    shape.sizes = sizes;
    for (const Argument& argument : kernel.arguments) {
        std::size_t count = 1;
        double value = 0;
        if (argument.scalar) {
            const Result<double> evaluated =
                evaluate_expression(argument.value.empty() ? argument.name : argument.value, sizes);
            if (!evaluated)
                return fail("argument " + argument.name, to_text(evaluated.error()));
            value = *evaluated;
        } else {
            for (const std::string& extent : argument.shape) {
                const Result<std::int64_t> evaluated = evaluate_count(extent, sizes);
                if (!evaluated)
                    return fail("argument " + argument.name, to_text(evaluated.error()));
                if (*evaluated > 0 &&
                    count > (std::size_t{1} << 40U) / static_cast<std::size_t>(*evaluated))
                    return fail("argument " + argument.name, "is too large at " + to_text(sizes));
                count *= static_cast<std::size_t>(*evaluated);
            }
        }
        shape.counts.push_back(count);
        shape.scalars.push_back(value);
    }
    const auto optional_number = [&](const std::string& expression, double& into) -> Result<void> {
        if (expression.empty())
            return {};
        const Result<double> evaluated = evaluate_expression(expression, sizes);
        if (!evaluated)
            return fail(expression, to_text(evaluated.error()));
        into = *evaluated;
        return {};
    };
    for (const Result<void>& read :
         {optional_number(kernel.tolerance.reduction, shape.reduction),
          optional_number(kernel.flops, shape.flops), optional_number(kernel.bytes, shape.bytes)})
        if (!read)
            return fail(read.error().where, read.error().what);
    return shape;
}

std::uint64_t scalar_word(const Argument& argument, double value, Side side) {
    std::uint64_t word = 0;
    with_type(type_at(argument, side), [&](auto element) {
        // The reference computes with the value that the candidate was given, not with one of more
        // digits.
        auto converted = as_element<decltype(element)>(value);
        if (argument.type == ElementType::f32)
            converted = static_cast<decltype(element)>(static_cast<float>(value));
        std::memcpy(&word, &converted, sizeof converted);
        return 0;
    });
    return word;
}

std::string_view name_of(InputClass which) {
    switch (which) {
        case InputClass::declared:
            return "declared";
        case InputClass::uniform:
            return "uniform";
        case InputClass::signed_normal:
            return "signed";
        case InputClass::heavy_tailed:
            return "heavy_tailed";
        case InputClass::sparse:
            return "sparse";
        case InputClass::scaled:
            return "scaled";
    }
    return "";
}

std::vector<InputClass> classes_of(const KernelSpec& kernel) {
    const bool mixed =
        std::any_of(kernel.arguments.begin(), kernel.arguments.end(), [](const Argument& argument) {
            return !argument.scalar && argument.direction != Direction::out &&
                   argument.init.kind == "mixed";
        });
    if (!mixed)
        return {InputClass::declared};
    return {InputClass::uniform, InputClass::signed_normal, InputClass::heavy_tailed,
            InputClass::sparse, InputClass::scaled};
}

Result<std::vector<Bytes>> make_inputs(const KernelSpec& kernel, const CallShape& shape,
                                       InputClass which, Rng rng) {
    std::vector<Bytes> made(kernel.arguments.size());
    const Filling filling{kernel, shape, which, made};
    for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
        const Argument& argument = kernel.arguments[i];
        if (argument.scalar || argument.direction == Direction::out)
            continue;
        made[i] = Bytes(shape.counts[i] * size_of(argument.type));
        Draws draws(rng.fork("argument", {i}).seed());
        if (const Result<void> filled = fill_argument(filling, i, draws); !filled)
            return fail(filled.error().where, filled.error().what);
    }
    return made;
}

std::vector<Bytes> widen(const KernelSpec& kernel, const std::vector<Bytes>& inputs,
                         bool absolute) {
    std::vector<Bytes> wide(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const ElementType type = kernel.arguments[i].type;
        if (!is_floating(type)) {
            wide[i] = inputs[i];
            continue;
        }
        wide[i] = Bytes(type == ElementType::f32 ? 2 * inputs[i].size() : inputs[i].size());
        const std::span<double> to = wide[i].as<double>();
        with_type(type, [&](auto element) {
            const auto from = inputs[i].as<decltype(element)>();
            for (std::size_t k = 0; k < from.size(); ++k) {
                const auto value = static_cast<double>(from[k]);
                to[k] = absolute ? std::fabs(value) : value;
            }
            return 0;
        });
    }
    return wide;
}

bool has_negative(const KernelSpec& kernel, const std::vector<Bytes>& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!is_floating(kernel.arguments[i].type))
            continue;
        const bool found = with_type(kernel.arguments[i].type, [&](auto element) {
            const auto values = inputs[i].as<decltype(element)>();
            return std::any_of(values.begin(), values.end(),
                               [](auto value) { return std::signbit(static_cast<double>(value)); });
        });
        if (found)
            return true;
    }
    return false;
}

std::uint64_t secret_seed() {
    std::uint64_t seed = 0;
    for (;;) {
        const ssize_t got = ::getrandom(&seed, sizeof seed, 0);
        if (got == sizeof seed)
            return seed;
        if (got < 0 && errno != EINTR)
            throw std::runtime_error("getrandom: the system gives no entropy");
    }
}

std::uint64_t poison_word(ElementType type, std::uint64_t secret) {
    if (type == ElementType::f32)
        return 0x7FC00000U | (secret & 0x3FFFFFU) | 1U;
    if (type == ElementType::f64)
        return 0x7FF8000000000000ULL | (secret & 0x7FFFFFFFFFFFFULL) | 1U;
    return secret;
}

void poison(ElementType type, std::uint64_t word, char* where, std::size_t count) {
    if (size_of(type) == 8) {
        auto* p = reinterpret_cast<std::uint64_t*>(where);
        std::fill(p, p + count, word);
    } else {
        auto* p = reinterpret_cast<std::uint32_t*>(where);
        std::fill(p, p + count, static_cast<std::uint32_t>(word));
    }
}

std::string call_file(const KernelSpec& kernel, const CallShape& shape,
                      const std::vector<Bytes>& inputs) {
    std::string file;
    const auto add = [&](const void* bytes, std::size_t count) {
        file.append(static_cast<const char*>(bytes), count);
    };
    const std::uint64_t count = kernel.arguments.size();
    add(&count, sizeof count);
    for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
        const Argument& argument = kernel.arguments[i];
        if (argument.scalar) {
            const std::uint64_t bytes = size_of(argument.type);
            const std::uint64_t word = scalar_word(argument, shape.scalars[i], Side::candidate);
            add(&bytes, sizeof bytes);
            add(&word, bytes);
            continue;
        }
        const std::uint64_t bytes = shape.counts[i] * size_of(argument.type);
        add(&bytes, sizeof bytes);
        if (argument.direction == Direction::out) {
            Bytes poisoned(bytes);
            poison(argument.type, poison_word(argument.type, 0x2545F4914F6CDD1DULL),
                   poisoned.data(), shape.counts[i]);
            add(poisoned.data(), bytes);
        } else {
            add(inputs[i].data(), bytes);
        }
    }
    return file;
}

}  // namespace loopscope
