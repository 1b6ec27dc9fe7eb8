#include "llm/limits.h"

#include "core/check.h"
#include "core/rng.h"
#include "core/text.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

namespace loopscope {

namespace {

Clock::Duration seconds(double value) {
    return std::chrono::duration_cast<Clock::Duration>(std::chrono::duration<double>(value));
}

}  // namespace

TokenBucket::TokenBucket(double per_minute, double least)
    : per_second_(per_minute / 60), capacity_(std::max(per_minute / 60, least)), level_(capacity_) {
    CHECK(per_minute > 0 && least > 0);
}

Clock::Duration TokenBucket::reserve(double amount, Clock::Duration now) {
    if (at_ && now > *at_) {
        const double elapsed = std::chrono::duration<double>(now - *at_).count();
        level_ = std::min(capacity_, level_ + elapsed * per_second_);
    }
    at_ = now;
    // One that is larger than the bucket waits for a full one.
    const double needed = std::min(amount, capacity_);
    const double missing = needed - level_;
    level_ -= amount;
    return missing > 0 ? seconds(missing / per_second_) : Clock::Duration{0};
}

void TokenBucket::give_back(double amount) { level_ = std::min(capacity_, level_ + amount); }

std::optional<Clock::Duration> parse_retry_after(std::string_view header,
                                                 std::int64_t unix_milliseconds) {
    header = trim(header);
    if (header.empty())
        return std::nullopt;
    double value = 0;
    const auto [end, problem] =
        std::from_chars(header.data(), header.data() + header.size(), value);
    if (problem == std::errc{} && end == header.data() + header.size()) {
        if (!(value >= 0) || value > 1e7)
            return std::nullopt;
        return seconds(value);
    }
    const std::time_t date = curl_getdate(std::string(header).c_str(), nullptr);
    if (date < 0)
        return std::nullopt;
    const std::int64_t wait = static_cast<std::int64_t>(date) * 1000 - unix_milliseconds;
    return std::chrono::milliseconds(std::max<std::int64_t>(wait, 0));
}

Clock::Duration backoff(int attempt, std::uint64_t bits) {
    const double full = std::min(60.0, std::ldexp(1.0, std::clamp(attempt, 1, 10) - 1));
    return seconds(full * (1 - 0.5 * to_unit(bits)));
}

}  // namespace loopscope
