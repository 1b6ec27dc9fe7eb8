// What keeps a model's calls within its provider's limits, and how long to wait before asking
// again.
#pragma once
#include "core/clock.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace loopscope {

// A token bucket that admits by reservation: whoever asks is told how long to wait, in the order of
// asking. It holds one second's worth (at least `least`), so that no minute sees more than the rate
// and that; one reservation may be larger than the bucket and puts it in debt.
class TokenBucket {
public:
    // per_minute > 0, least > 0.
    TokenBucket(double per_minute, double least);
    // Takes `amount` and returns how long to wait before using it.
    Clock::Duration reserve(double amount, Clock::Duration now);
    // Corrects an earlier reservation once the true amount is known: positive gives back.
    void give_back(double amount);

private:
    double per_second_;
    double capacity_;
    double level_;
    std::optional<Clock::Duration> at_;
};

// Seconds or an HTTP date (RFC 9110, 10.2.3), as a duration from `unix_milliseconds`; never
// negative. nullopt when the header is neither.
std::optional<Clock::Duration> parse_retry_after(std::string_view header,
                                                 std::int64_t unix_milliseconds);

// The wait before the next attempt: exponential from 1 s, at most 60 s, of which a random half is
// taken off so that callers which failed together do not come back together. attempt counts from 1;
// `bits` is the randomness.
Clock::Duration backoff(int attempt, std::uint64_t bits);

}  // namespace loopscope
