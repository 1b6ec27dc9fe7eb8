// Numbers as a reader sees them: with their unit, a sensible number of digits, and their interval.
// UTF-8 (a real minus sign, a multiplication sign); to_ascii() makes plain text of it.
#pragma once
#include "attribute/attribution.h"
#include "record/evaluation.h"
#include "stats/intervals.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace loopscope {

std::string fixed_text(double x, int digits);   // "−1.20"; "∞", "−∞", "not a number"
std::string signed_text(double x, int digits);  // "+1.20", "−1.20", "0.00"
std::string times_text(double ratio);           // "3.42×", three significant digits
std::string times_text(const Ratio& ratio);     // "3.42× [3.31, 3.53]"
std::string launches_text(const Ratio& ratio);  // "10 launches"
std::string seconds_text(double seconds);       // "1.23 ms"
std::string rate_text(double per_second, std::string_view unit);  // "12.3 GFLOP/s"
std::string percent_text(double share, int digits = 0);           // 0.625 -> "62 %"
std::string money_text(std::optional<double> dollars);            // "$0.0123"; nullopt: "unknown"
std::string count_text(std::int64_t n);                           // "12,345"
std::string count_text(std::size_t n);
std::string p_text(double p);  // "0.012", "< 0.001"

// "1 proposal", "2 proposals".
std::string counted(std::size_t n, std::string_view singular, std::string_view plural);

// The unit in which a metric is shown: shares as percentages and their differences as percentage
// points, gain as a natural logarithm.
bool is_share(Metric metric);
std::string value_text(Metric metric, const stats::Estimate& value);    // "62.5 [51.2, 73.8]"
std::string effect_text(Metric metric, const stats::Estimate& effect);  // "+12.5 [+3.1, +21.9]"
// Whether the estimate has an interval at all: too few contexts have none.
bool has_interval(const stats::Estimate& estimate);

std::string to_ascii(std::string_view utf8);
std::size_t width_of(std::string_view utf8);  // in code points
// At most `width` code points; what is cut shows as "…".
std::string clip(std::string_view utf8, std::size_t width);

}  // namespace loopscope
