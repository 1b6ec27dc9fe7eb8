#include "evaluate/expression.h"

#include "core/rng.h"
#include "evaluate/task.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace loopscope {
namespace {

const Sizes sizes = {{"n", 17}, {"m", 4}, {"rows", 1000}};

TEST(Expression, Computes) {
    const std::vector<std::pair<const char*, double>> table = {
        {"n", 17},
        {" n * m + 1 ", 69},
        {"1 + 2 * 3", 7},
        {"(1 + 2) * 3", 9},
        {"10 - 3 - 2", 5},
        {"n / m", 4},
        {"-n / m", -4},
        {"n % m", 1},
        {"n / 4.0", 4.25},
        {"2.0 * n", 34},
        {"1e3", 1000},
        {".5 * m", 2},
        {"1.5e-2", 0.015},
        {"max(n, m)", 17},
        {"min(n, m, 2)", 2},
        {"max(n, 17.5)", 17.5},
        {"--3", 3},
        {"-(n - m)", -13},
        {"+m", 4},
        {"24 / 5 / 2", 2},
        {"2 * n % 5", 4},
        {"7.5 % 2", 1.5},
        {"max(1,min(2,3))", 2},
        {"n\t*\tm", 68},
        {"9223372036854775807", 9223372036854775807.0},
    };
    for (const auto& [text, expected] : table) {
        const Result<double> value = evaluate_expression(text, sizes);
        ASSERT_TRUE(value) << text << ": " << to_text(value.error());
        EXPECT_DOUBLE_EQ(*value, expected) << text;
    }
}

TEST(Expression, SaysWhatIsWrong) {
    const std::vector<std::pair<const char*, const char*>> table = {
        {"", "is empty"},
        {"   ", "is empty"},
        {"n +", "ends where a number or a name is expected"},
        {"n m", "unexpected \"m\""},
        {"2n", "write \"*\" to multiply"},
        {"(n", "missing \")\""},
        {"n)", "unexpected \")\""},
        {"k", "unknown name \"k\"; known: m, n, rows"},
        {"row", "did you mean \"rows\"?"},
        {"n / 0", "division by zero"},
        {"n % (m - 4)", "division by zero"},
        {"n / 0.0", "division by zero"},
        {"1e400", "out of range"},
        {"99999999999999999999", "write it as a real number"},
        {"9223372036854775807 + 1", "exceeds 64-bit integers"},
        {"(0 - 9223372036854775807 - 1) / (0 - 1)", "exceeds 64-bit integers"},
        {"1e308 * 10", "not a finite number"},
        {"1e", "not a number"},
        {".", "not a number"},
        {"min(n)", "min takes at least two values"},
        {"max(n,", "ends where"},
        {"n ^ 2", "unexpected \"^\""},
        {"n ** 2", "unexpected \"*\""},
    };
    for (const auto& [text, expected] : table) {
        const Result<double> value = evaluate_expression(text, sizes);
        ASSERT_FALSE(value) << text << " gave " << *value;
        EXPECT_NE(to_text(value.error()).find(expected), std::string::npos)
            << text << ": " << to_text(value.error());
    }
    EXPECT_NE(evaluate_expression("n + kk", sizes).error().where.find("position 5"),
              std::string::npos);
}

TEST(Expression, RefusesToRecurseWithoutEnd) {
    EXPECT_FALSE(evaluate_expression(std::string(100'000, '('), sizes));
    EXPECT_FALSE(evaluate_expression(std::string(100'000, '-') + "1", sizes));
    EXPECT_TRUE(evaluate_expression(std::string(30, '(') + "1" + std::string(30, ')'), sizes));
}

TEST(Expression, Counts) {
    EXPECT_EQ(evaluate_count("n * m", sizes).value(), 68);
    EXPECT_EQ(evaluate_count("n - 17", sizes).value(), 0);
    EXPECT_EQ(evaluate_count("0.5 * m", sizes).value(), 2);
    EXPECT_NE(evaluate_count("n - 18", sizes).error().what.find("is -1 at m=4 n=17 rows=1000"),
              std::string::npos);
    EXPECT_NE(evaluate_count("0.5 * n", sizes).error().what.find("not a whole number"),
              std::string::npos);
    EXPECT_FALSE(evaluate_count("1e17", sizes));
}

TEST(Expression, Names) {
    EXPECT_EQ(names_in("max(n, 2 * m) + min").value(), (std::set<std::string>{"m", "min", "n"}));
    EXPECT_FALSE(names_in("n +"));
}

// Random trees, printed with and without spaces, against the arithmetic that made them.
TEST(Expression, AgreesWithAPlainComputation) {
    Rng rng(7);
    for (int trial = 0; trial < 2000; ++trial) {
        std::string text = "n";
        std::int64_t expected = 17;
        for (int step = 0; step < 6; ++step) {
            const auto operand = static_cast<std::int64_t>(1 + rng.below(9));
            switch (rng.below(5)) {
                case 0:
                    text = "(" + text + ") + " + std::to_string(operand);
                    expected += operand;
                    break;
                case 1:
                    text = std::to_string(operand) + "-(" + text + ")";
                    expected = operand - expected;
                    break;
                case 2:
                    text = "(" + text + ")*" + std::to_string(operand);
                    expected *= operand;
                    break;
                case 3:
                    text = "(" + text + ") / " + std::to_string(operand);
                    expected /= operand;
                    break;
                default:
                    text = "max(" + text + ", " + std::to_string(operand) + ") % 7";
                    expected = std::max(expected, operand) % 7;
                    break;
            }
        }
        const Result<double> value = evaluate_expression(text, sizes);
        ASSERT_TRUE(value) << text << ": " << to_text(value.error());
        EXPECT_EQ(*value, static_cast<double>(expected)) << text;
    }
}

TEST(Call, Splits) {
    const Call call = parse_call(" uniform( -1 , max(2, n) ) ").value();
    EXPECT_EQ(call.name, "uniform");
    EXPECT_EQ(call.arguments, (std::vector<std::string>{"-1", "max(2, n)"}));
    EXPECT_TRUE(parse_call("zeros").value().arguments.empty());
    EXPECT_TRUE(parse_call("zeros()").value().arguments.empty());
    for (const char* bad :
         {"", "(1)", "f(", "f(1", "f(1))", "f((1)", "f(1,)", "f(,)", "f(1) g", "2f(1)"})
        EXPECT_FALSE(parse_call(bad)) << bad;
}

}  // namespace
}  // namespace loopscope
