#include "llm/limits.h"

#include "core/rng.h"
#include "llm/prices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): a missing value fails the test.
namespace loopscope {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

double in_seconds(Clock::Duration duration) {
    return std::chrono::duration<double>(duration).count();
}

TEST(TokenBucket, NoMinuteSeesMoreThanTheRateAndOneSecond) {
    for (const double rate : {30.0, 60.0, 600.0}) {
        TokenBucket bucket(rate, 1);
        std::vector<double> used;
        Rng rng(3);
        double now = 0;
        for (int i = 0; i < 2000; ++i) {
            if (rng.below(10) == 0)
                now += 3 * rng.unit();
            const auto at =
                std::chrono::duration_cast<Clock::Duration>(std::chrono::duration<double>(now));
            used.push_back(now + in_seconds(bucket.reserve(1, at)));
        }
        EXPECT_TRUE(std::is_sorted(used.begin(), used.end()));
        for (std::size_t i = 0; i < used.size(); ++i) {
            const auto end = std::upper_bound(used.begin(), used.end(), used[i] + 60 - 1e-6);
            const auto count =
                static_cast<double>(end - (used.begin() + static_cast<std::ptrdiff_t>(i)));
            ASSERT_LE(count, rate + std::max(1.0, rate / 60) + 1) << rate;
        }
    }
}

TEST(TokenBucket, OneThatIsLargerThanTheBucketPutsItInDebt) {
    TokenBucket bucket(600, 1);  // 10 a second, holds 10
    EXPECT_EQ(in_seconds(bucket.reserve(50, seconds(0))), 0);
    EXPECT_NEAR(in_seconds(bucket.reserve(10, seconds(0))), 5, 1e-6);
    bucket.give_back(50);  // the first took nothing after all
    EXPECT_NEAR(in_seconds(bucket.reserve(1, seconds(0))), 0.1, 1e-6);
}

TEST(RetryAfter, SecondsAndDates) {
    constexpr std::int64_t now = 784111777000;  // Sun, 06 Nov 1994 08:49:37 GMT
    EXPECT_EQ(parse_retry_after("120", now), Clock::Duration(seconds(120)));
    EXPECT_EQ(parse_retry_after(" 1.5 ", now), Clock::Duration(milliseconds(1500)));
    EXPECT_EQ(parse_retry_after("0", now), Clock::Duration(0));
    EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:50:07 GMT", now),
              Clock::Duration(seconds(30)));
    EXPECT_EQ(parse_retry_after("Sunday, 06-Nov-94 08:50:07 GMT", now),
              Clock::Duration(seconds(30)));
    EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:00:00 GMT", now), Clock::Duration(0));
    for (const char* bad : {"", "soon", "-1", "nan", "1e99", "1 2 3 x"})
        EXPECT_FALSE(parse_retry_after(bad, now)) << bad;
}

TEST(Backoff, GrowsAndSpreadsAndIsBounded) {
    for (int attempt = 1; attempt < 40; ++attempt) {
        const double full = std::min(60.0, std::pow(2.0, std::min(attempt, 20) - 1));
        double least = 1e9;
        double most = 0;
        for (std::uint64_t i = 0; i < 200; ++i) {
            const double wait = in_seconds(backoff(attempt, mix64(i)));
            least = std::min(least, wait);
            most = std::max(most, wait);
        }
        EXPECT_GE(least, full / 2);
        EXPECT_LE(most, full);
        EXPECT_GT(most - least, full / 3);
    }
}

Billed billed(std::int64_t input, std::int64_t cached, std::int64_t written, std::int64_t output) {
    Billed out;
    out.usage.input_tokens = input;
    out.usage.cached_tokens = cached;
    out.usage.output_tokens = output;
    out.usage.known = true;
    out.cache_write_tokens = written;
    return out;
}

TEST(Prices, TheTableIsWholeAndDated) {
    const std::vector<PriceLine> lines = prices();
    EXPECT_GT(lines.size(), 80U);
    for (const PriceLine& line : lines) {
        EXPECT_GT(line.input, 0) << line.model;
        EXPECT_GT(line.output, 0) << line.model;
        EXPECT_LE(line.cached, line.input) << line.model;
        EXPECT_GE(line.cache_write, line.input) << line.model;
        EXPECT_EQ(line.date.size(), 10U);
        EXPECT_FALSE(line.source.empty());
        EXPECT_EQ(find_price(lines, line.host, line.model), &line) << "given twice: " << line.model;
    }
}

TEST(Prices, NamesWithDatesAndUnknownOnes) {
    const std::vector<PriceLine> lines = prices();
    const auto model = [&](const char* host, const char* name) {
        const PriceLine* line = find_price(lines, host, name);
        return line == nullptr ? std::string("unknown") : line->model;
    };
    EXPECT_EQ(model("api.openai.com", "gpt-4o"), "gpt-4o");
    EXPECT_EQ(model("api.openai.com", "gpt-4o-2024-08-06"), "gpt-4o");
    EXPECT_EQ(model("api.openai.com", "gpt-4o-2024-05-13"), "gpt-4o-2024-05-13");
    EXPECT_EQ(model("api.anthropic.com", "claude-haiku-4-5-20251001"), "claude-haiku-4-5");
    EXPECT_EQ(model("api.anthropic.com", "claude-opus-4-20250514"), "claude-opus-4-0");
    EXPECT_EQ(model("api.openai.com", "gpt-4o-unheard-of"), "unknown");
    EXPECT_EQ(model("localhost:8000", "gpt-4o"), "unknown");
}

TEST(Prices, CachedTokensAndTheLimit) {
    PriceLine line;
    line.input = 10;
    line.cached = 1;
    line.cache_write = 12;
    line.output = 100;
    line.input_limit = 2000;
    EXPECT_NEAR(*cost_of(line, billed(1000, 600, 100, 10)),
                (300 * 10 + 600 * 1 + 100 * 12 + 10 * 100) / 1e6, 1e-12);
    EXPECT_FALSE(cost_of(line, billed(2001, 0, 0, 10)));
    EXPECT_FALSE(cost_of(line, Billed{}));  // unknown usage is an unknown price, not a price of 0
}

class PriceFile : public ::testing::Test {
protected:
    Result<std::vector<PriceLine>> read(const std::string& text) {
        const std::string path = ::testing::TempDir() + "prices_test.toml";
        std::ofstream(path) << text;
        Result<std::vector<PriceLine>> lines = read_prices(path);
        std::remove(path.c_str());
        return lines;
    }
    std::string problem(const std::string& text) {
        const auto lines = read(text);
        return lines ? "" : to_text(lines.error());
    }
};

TEST_F(PriceFile, IsReadStrictly) {
    const auto lines = read(
        "[[price]]\nhost = \"*\"\nmodel = \"mine\"\ninput = 1\noutput = 2.5\ndate = "
        "\"2026-01-01\"\n");
    ASSERT_TRUE(lines) << to_text(lines.error());
    EXPECT_EQ(find_price(*lines, "anywhere:1", "mine")->cached, 1);
    EXPECT_NE(problem("[[price]]\nhost=\"*\"\nmodel=\"m\"\ninput=1\noutpt=2\n")
                  .find(":5: unknown key outpt; did you mean output?"),
              std::string::npos);
    EXPECT_NE(problem("[[price]]\nhost=\"*\"\nmodel=\"m\"\ninput=-1\noutput=2\n")
                  .find(":4: input must be"),
              std::string::npos);
    EXPECT_NE(problem("[[price]]\nmodel=\"m\"\ninput=1\noutput=2\n").find("needs the key host"),
              std::string::npos);
    EXPECT_NE(problem("[[price]\n").find(":1"), std::string::npos);
    EXPECT_NE(problem("prices = 3\n").find("unknown key prices"), std::string::npos);
    EXPECT_FALSE(read_prices("/nonexistent/prices.toml"));
}

}  // namespace
}  // namespace loopscope
// NOLINTEND(bugprone-unchecked-optional-access)
