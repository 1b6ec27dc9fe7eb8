#include "evaluate/inputs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "evaluate/matmul_task.h"
#include "evaluate/verify.h"

namespace loopscope {
namespace {

using testing::array;
using testing::scalar;

KernelSpec spec_of(std::vector<Argument> arguments) {
    KernelSpec kernel;
    kernel.entry = "kernel";
    kernel.arguments = std::move(arguments);
    return kernel;
}

template <class T>
std::vector<T> made(const Argument& argument, const Sizes& sizes,
                    InputClass which = InputClass::declared, std::uint64_t seed = 1) {
    const KernelSpec kernel = spec_of({argument});
    const Result<CallShape> shape = shape_of(kernel, sizes);
    EXPECT_TRUE(shape);
    const Result<std::vector<Bytes>> inputs = make_inputs(kernel, *shape, which, Rng(seed));
    if (!inputs) {
        ADD_FAILURE() << to_text(inputs.error());
        return {};
    }
    const auto values = inputs->front().as<T>();
    return {values.begin(), values.end()};
}

double mean_of(const std::vector<float>& x) {
    double sum = 0;
    for (const float v : x)
        sum += v;
    return sum / static_cast<double>(x.size());
}

TEST(Inputs, AreAFunctionOfTheSeed) {
    const Argument a = array("a", {"n"}, Direction::in);
    const auto first = made<float>(a, {{"n", 100}}, InputClass::uniform, 5);
    EXPECT_EQ(first, made<float>(a, {{"n", 100}}, InputClass::uniform, 5));
    EXPECT_NE(first, made<float>(a, {{"n", 100}}, InputClass::uniform, 6));
    EXPECT_NE(first, made<float>(a, {{"n", 100}}, InputClass::signed_normal, 5));
}

TEST(Inputs, ClassesAreWhatTheySay) {
    const Argument a = array("a", {"n"}, Direction::in);
    const Sizes sizes{{"n", 200000}};
    const auto uniform = made<float>(a, sizes, InputClass::uniform);
    EXPECT_NEAR(mean_of(uniform), 0.5, 0.01);
    EXPECT_GE(*std::min_element(uniform.begin(), uniform.end()), 0);
    EXPECT_LE(*std::max_element(uniform.begin(), uniform.end()), 1);
    const auto normal = made<float>(a, sizes, InputClass::signed_normal);
    double squares = 0;
    std::size_t beyond = 0;
    for (const float x : normal) {
        squares += static_cast<double>(x) * x;
        beyond += std::fabs(x) > 3 ? 1 : 0;
    }
    EXPECT_NEAR(mean_of(normal), 0, 0.01);
    EXPECT_NEAR(squares / 200000, 1, 0.02);
    EXPECT_NEAR(static_cast<double>(beyond) / 200000, 0.0027, 0.0006)
        << "the tails must be those of a normal";
    const auto heavy = made<float>(a, sizes, InputClass::heavy_tailed);
    EXPECT_GT(*std::max_element(heavy.begin(), heavy.end()), 50);
    EXPECT_LT(*std::min_element(heavy.begin(), heavy.end()), -50);
    const auto sparse = made<float>(a, sizes, InputClass::sparse);
    EXPECT_NEAR(static_cast<double>(std::count(sparse.begin(), sparse.end(), 0.0F)) / 200000, 0.9,
                0.01);
    std::set<int> scales;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const auto scaled = made<float>(a, {{"n", 1000}}, InputClass::scaled, seed);
        scales.insert(std::ilogb(*std::max_element(scaled.begin(), scaled.end())));
    }
    EXPECT_GT(scales.size(), 8U);
}

TEST(Inputs, DeclaredInitialisers) {
    const Sizes sizes{{"n", 1000}, {"m", 7}};
    for (const double x : made<double>(
             array("a", {"n"}, Direction::in, ElementType::f64, "uniform", {"-2", "m"}), sizes)) {
        EXPECT_GE(x, -2);
        EXPECT_LT(x, 7);
    }
    std::set<int> seen;
    for (const int x : made<int>(
             array("a", {"n"}, Direction::in, ElementType::i32, "integers", {"-1", "2"}), sizes))
        seen.insert(x);
    EXPECT_EQ(seen, (std::set<int>{-1, 0, 1, 2}));
    for (const float x : made<float>(
             array("a", {"n"}, Direction::in, ElementType::f32, "constant", {"0.5 * m"}), sizes))
        EXPECT_EQ(x, 3.5F);
    for (const float x : made<float>(
             array("a", {"n"}, Direction::in, ElementType::f32, "lognormal", {"0", "1"}), sizes))
        EXPECT_GT(x, 0);
    std::vector<unsigned> order =
        made<unsigned>(array("p", {"n"}, Direction::in, ElementType::u32, "permutation"), sizes);
    EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
    std::sort(order.begin(), order.end());
    for (unsigned i = 0; i < order.size(); ++i)
        EXPECT_EQ(order[i], i);
    for (const unsigned x : made<unsigned>(
             array("a", {"n"}, Direction::in, ElementType::u32, "normal", {"0", "1"}), sizes))
        EXPECT_LE(x, 5U) << "negative draws are clamped, never wrapped";
}

TEST(Inputs, SparseMatrices) {
    const KernelSpec kernel = spec_of({scalar("rows"),
                                       array("offsets", {"rows + 1"}, Direction::in,
                                             ElementType::i32, "csr_offsets", {"rows", "5"}),
                                       array("columns", {"rows * 5"}, Direction::in,
                                             ElementType::i32, "csr_columns", {"offsets", "40"})});
    for (const std::int64_t rows : {1, 2, 500}) {
        const Result<CallShape> shape = shape_of(kernel, {{"rows", rows}});
        ASSERT_TRUE(shape);
        const Result<std::vector<Bytes>> inputs =
            make_inputs(kernel, *shape, InputClass::declared, Rng(3));
        ASSERT_TRUE(inputs) << to_text(inputs.error());
        const auto offsets = (*inputs)[1].as<int>();
        const auto columns = (*inputs)[2].as<int>();
        EXPECT_EQ(offsets.front(), 0);
        EXPECT_EQ(offsets.back(), rows * 5);
        std::set<int> lengths;
        for (std::size_t row = 0; row + 1 < offsets.size(); ++row) {
            lengths.insert(offsets[row + 1] - offsets[row]);
            for (int k = offsets[row]; k < offsets[row + 1]; ++k) {
                EXPECT_GE(columns[static_cast<std::size_t>(k)], 0);
                EXPECT_LT(columns[static_cast<std::size_t>(k)], 40);
                if (k > offsets[row]) {
                    EXPECT_LT(columns[static_cast<std::size_t>(k) - 1],
                              columns[static_cast<std::size_t>(k)]);
                }
            }
        }
        if (rows == 500) {
            EXPECT_GT(lengths.size(), 4U) << "rows of equal length would hide load imbalance";
        }
    }
}

TEST(Inputs, BadInitialisersAreNamed) {
    const Sizes sizes{{"n", 10}};
    for (const Argument& argument :
         {array("a", {"n"}, Direction::in, ElementType::f32, "unifrom", {"0", "1"}),
          array("a", {"n"}, Direction::in, ElementType::f32, "uniform", {"0"}),
          array("a", {"n"}, Direction::in, ElementType::f32, "uniform", {"0", "k"}),
          array("a", {"n"}, Direction::in, ElementType::i32, "integers", {"5", "1"}),
          array("a", {"n"}, Direction::in, ElementType::i32, "csr_offsets", {"n", "2"}),
          array("a", {"n"}, Direction::in, ElementType::i32, "csr_columns", {"nothing", "2"})}) {
        const KernelSpec kernel = spec_of({argument});
        const Result<CallShape> shape = shape_of(kernel, sizes);
        ASSERT_TRUE(shape);
        const Result<std::vector<Bytes>> inputs =
            make_inputs(kernel, *shape, InputClass::declared, Rng(1));
        ASSERT_FALSE(inputs) << argument.init.kind;
        EXPECT_NE(inputs.error().where.find("argument a"), std::string::npos);
    }
    EXPECT_FALSE(shape_of(spec_of({array("a", {"n", "k"}, Direction::in)}), sizes));
    EXPECT_FALSE(shape_of(spec_of({array("a", {"n - 11"}, Direction::in)}), sizes));
    EXPECT_FALSE(
        shape_of(spec_of({array("a", {"n * 1000000", "n * 1000000"}, Direction::in)}), sizes));
}

TEST(Inputs, WideningIsExact) {
    const KernelSpec kernel =
        spec_of({array("a", {"n"}, Direction::in),
                 array("k", {"n"}, Direction::in, ElementType::i64, "integers", {"-9", "9"})});
    const Result<CallShape> shape = shape_of(kernel, {{"n", 50}});
    const Result<std::vector<Bytes>> inputs =
        make_inputs(kernel, *shape, InputClass::signed_normal, Rng(2));
    ASSERT_TRUE(inputs);
    const std::vector<Bytes> wide = widen(kernel, *inputs, false);
    const std::vector<Bytes> magnitudes = widen(kernel, *inputs, true);
    EXPECT_TRUE(has_negative(kernel, *inputs));
    for (std::size_t i = 0; i < 50; ++i) {
        EXPECT_EQ(wide[0].as<double>()[i], static_cast<double>((*inputs)[0].as<float>()[i]));
        EXPECT_EQ(magnitudes[0].as<double>()[i], std::fabs(wide[0].as<double>()[i]));
        EXPECT_EQ(magnitudes[1].as<std::int64_t>()[i], (*inputs)[1].as<std::int64_t>()[i])
            << "integers stay";
    }
}

// ----------------------------------------------------------------------------------------------
// comparison

struct Compared {
    KernelSpec kernel = spec_of({scalar("n"), array("c", {"n"}, Direction::out)});
    CallShape shape;
    Expected expected;
    explicit Compared(const std::vector<double>& values,
                      const std::vector<double>& magnitudes = {}) {
        kernel.tolerance.reduction = "4";
        kernel.tolerance.factor = 8;
        shape = *shape_of(kernel, {{"n", static_cast<std::int64_t>(values.size())}});
        expected.values.resize(2);
        expected.values[1] = bytes_of(values);
        if (!magnitudes.empty()) {
            expected.magnitudes.resize(2);
            expected.magnitudes[1] = bytes_of(magnitudes);
        }
    }
    static Bytes bytes_of(const std::vector<double>& values) {
        Bytes bytes(values.size() * sizeof(double));
        std::copy(values.begin(), values.end(), bytes.as<double>().begin());
        return bytes;
    }
    Comparison with(const std::vector<float>& got, std::uint64_t poison = 0x7FC00001) const {
        return compare(kernel, shape, {nullptr, reinterpret_cast<const char*>(got.data())},
                       {0, poison}, expected);
    }
};

TEST(Comparison, AcceptsWithinTheDerivedBound) {
    const Compared one({1.0});
    const float bound = 8 * 2 * 0x1p-24F;  // factor sqrt(reduction) u |value|
    EXPECT_TRUE(one.with({1.0F}).ok);
    EXPECT_TRUE(one.with({1.0F + bound}).ok);
    EXPECT_FALSE(one.with({1.0F + 1.25F * bound}).ok);
    EXPECT_NEAR(one.with({1.0F + bound}).worst, 1, 1e-6);
    const Compared cancelled({1.0}, {100.0});
    EXPECT_TRUE(cancelled.with({1.0F + 90 * bound}).ok) << "scaled by the reference on magnitudes";
    EXPECT_FALSE(cancelled.with({1.0F + 120 * bound}).ok);
}

TEST(Comparison, NothingButNumbersPasses) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float infinity = std::numeric_limits<float>::infinity();
    Compared huge({1e30});
    huge.kernel.tolerance.relative = 1e9;
    huge.kernel.tolerance.absolute = std::numeric_limits<double>::infinity();
    for (const float x : {nan, -nan, infinity, -infinity}) {
        EXPECT_FALSE(Compared({1.0}).with({x}).ok);
        EXPECT_FALSE(huge.with({x}).ok) << "however wide the bound";
        EXPECT_TRUE(std::isfinite(Compared({1.0}).with({x}).worst)) << "it is stored as JSON";
    }
}

TEST(Comparison, TinyResultsMayUnderflow) {
    EXPECT_TRUE(Compared({1e-60}).with({0.0F}).ok);
    EXPECT_FALSE(Compared({1e-30}).with({0.0F}).ok);
    EXPECT_TRUE(Compared({0.0}).with({0.0F}).ok);
    EXPECT_TRUE(Compared({0.0}).with({-0.0F}).ok);
}

TEST(Comparison, ScalesAndMessages) {
    Compared two({1.0, 1000.0});
    two.kernel.tolerance.scale = "max";
    const double bound = 8 * 2 * 0x1p-24 * 1000;
    EXPECT_TRUE(two.with({static_cast<float>(1 + 0.9 * bound), 1000.0F}).ok);
    two.kernel.tolerance.scale = "value";
    const Comparison wrong = two.with({static_cast<float>(1 + 0.9 * bound), 1000.0F});
    EXPECT_FALSE(wrong.ok);
    EXPECT_NE(wrong.detail.find("c[0] = 1.00"), std::string::npos) << wrong.detail;
    EXPECT_NE(wrong.detail.find("expected 1,"), std::string::npos) << wrong.detail;
    EXPECT_NE(wrong.detail.find("(1 of 2 elements wrong)"), std::string::npos) << wrong.detail;
}

}  // namespace
}  // namespace loopscope
