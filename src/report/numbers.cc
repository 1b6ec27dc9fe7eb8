#include "report/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace loopscope {

namespace {

constexpr std::string_view minus = "\u2212";

// Digits after the point that show three significant ones.
int digits_for(double magnitude) {
    if (magnitude >= 99.95)
        return 0;
    if (magnitude >= 9.995)
        return 1;
    return magnitude >= 0.9995 || magnitude == 0 ? 2 : 3;
}

std::string scaled(double value, std::string_view unit) {
    return fmt::format("{} {}", fixed_text(value, digits_for(std::abs(value))), unit);
}

std::string interval_text(double low, double high, int digits, bool with_sign) {
    return with_sign ? fmt::format("[{}, {}]", signed_text(low, digits), signed_text(high, digits))
                     : fmt::format("[{}, {}]", fixed_text(low, digits), fixed_text(high, digits));
}

std::string estimate_text(Metric metric, const stats::Estimate& x, bool with_sign) {
    const double scale = is_share(metric) ? 100 : 1;
    const int digits = is_share(metric) ? 1 : 3;
    const std::string value =
        with_sign ? signed_text(scale * x.value, digits) : fixed_text(scale * x.value, digits);
    if (!has_interval(x))
        return value + " [no interval]";
    return value + " " + interval_text(scale * x.low, scale * x.high, digits, with_sign);
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

}  // namespace

std::string fixed_text(double x, int digits) {
    if (std::isnan(x))
        return "not a number";
    if (std::isinf(x))
        return x > 0 ? "\u221e" : std::string(minus) + "\u221e";
    const std::string magnitude = fmt::format("{:.{}f}", std::abs(x), digits);
    const bool zero = magnitude.find_first_not_of("0.") == std::string::npos;
    return x < 0 && !zero ? std::string(minus) + magnitude : magnitude;
}

std::string signed_text(double x, int digits) {
    const std::string text = fixed_text(x, digits);
    const bool zero = text.find_first_not_of("0.") == std::string::npos;
    return x > 0 && !zero ? "+" + text : text;
}

std::string times_text(double ratio) {
    return fixed_text(ratio, digits_for(std::abs(ratio))) + "\u00d7";
}

std::string times_text(const Ratio& ratio) {
    const int digits = digits_for(std::abs(ratio.estimate));
    const std::string value = fixed_text(ratio.estimate, digits) + "\u00d7 ";
    if (ratio.launches < 2)
        return value + "[no interval]";
    return value + interval_text(ratio.low, ratio.high, digits, false);
}

std::string launches_text(const Ratio& ratio) {
    return counted(static_cast<std::size_t>(std::max(ratio.launches, 0)), "launch", "launches");
}

std::string seconds_text(double seconds) {
    const double magnitude = std::abs(seconds);
    if (magnitude == 0)
        return "0 s";
    if (magnitude < 1e-6)
        return scaled(seconds * 1e9, "ns");
    if (magnitude < 1e-3)
        return scaled(seconds * 1e6, "\u00b5s");
    if (magnitude < 1)
        return scaled(seconds * 1e3, "ms");
    if (magnitude < 600)
        return scaled(seconds, "s");
    return scaled(seconds / 60, "min");
}

std::string rate_text(double per_second, std::string_view unit) {
    static constexpr std::array<std::pair<double, const char*>, 4> prefixes = {
        {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
    for (const auto& [size, prefix] : prefixes)
        if (per_second >= size)
            return scaled(per_second / size, fmt::format("{}{}", prefix, unit));
    return scaled(per_second, unit);
}

std::string percent_text(double share, int digits) {
    return fixed_text(100 * share, digits) + " %";
}

std::string money_text(std::optional<double> dollars) {
    if (!dollars)
        return "unknown";
    if (*dollars == 0)
        return "$0";
    return "$" + fixed_text(*dollars, *dollars >= 1 ? 2 : 4);
}

std::string count_text(std::int64_t n) {
    std::string digits = std::to_string(n < 0 ? -n : n);
    for (int place = static_cast<int>(digits.size()) - 3; place > 0; place -= 3)
        digits.insert(static_cast<std::size_t>(place), ",");
    return n < 0 ? std::string(minus) + digits : digits;
}

std::string count_text(std::size_t n) { return count_text(static_cast<std::int64_t>(n)); }

std::string p_text(double p) {
    if (std::isnan(p))
        return "\u2013";
    if (p < 0.001)
        return "< 0.001";
    return fixed_text(p, 3);
}

std::string counted(std::size_t n, std::string_view singular, std::string_view plural) {
    return fmt::format("{} {}", count_text(n), n == 1 ? singular : plural);
}

bool is_share(Metric metric) { return metric != Metric::gain; }

std::string value_text(Metric metric, const stats::Estimate& value) {
    return estimate_text(metric, value, false);
}

std::string effect_text(Metric metric, const stats::Estimate& effect) {
    return estimate_text(metric, effect, true);
}

bool has_interval(const stats::Estimate& estimate) {
    return estimate.n >= 1 && std::isfinite(estimate.low) && std::isfinite(estimate.high);
}

std::string to_ascii(std::string_view utf8) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 12> spelled = {{
        {"\u2212", "-"},
        {"\u00d7", "x"},
        {"\u2013", "-"},
        {"\u2014", "-"},
        {"\u2026", "..."},
        {"\u00b5", "u"},
        {"\u221e", "inf"},
        {"\u00b7", "."},
        {"\u2192", "->"},
        {"\u201c", "\""},
        {"\u201d", "\""},
        {"\u2265", ">="},
    }};
    std::string out;
    for (std::size_t i = 0; i < utf8.size();) {
        if (static_cast<unsigned char>(utf8[i]) < 0x80U) {
            out += utf8[i++];
            continue;
        }
        std::size_t length = 1;
        while (i + length < utf8.size() && continues(utf8[i + length]))
            ++length;
        std::string_view replacement = "?";
        for (const auto& [character, ascii] : spelled)
            if (utf8.substr(i, length) == character)
                replacement = ascii;
        out += replacement;
        i += length;
    }
    return out;
}

std::size_t width_of(std::string_view utf8) {
    std::size_t width = 0;
    for (const char c : utf8)
        width += continues(c) ? 0U : 1U;
    return width;
}

std::string clip(std::string_view utf8, std::size_t width) {
    if (width_of(utf8) <= width)
        return std::string(utf8);
    std::size_t seen = 0;
    std::size_t end = 0;
    while (end < utf8.size() && (continues(utf8[end]) || seen + 1 < width)) {
        seen += continues(utf8[end]) ? 0U : 1U;
        ++end;
    }
    return std::string(utf8.substr(0, end)) + "\u2026";
}

}  // namespace loopscope
