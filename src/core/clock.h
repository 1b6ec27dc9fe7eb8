// The only way the engine tells or waits for time, so that a test can own time.
#pragma once
#include "core/async.h"

#include <chrono>
#include <cstdint>

namespace loopscope {

class Clock {
public:
    using Duration = std::chrono::steady_clock::duration;
    virtual ~Clock() = default;
    virtual awaitable<void> sleep(Duration duration) = 0;
    // Monotonic, from an arbitrary zero.
    virtual Duration now() = 0;
    // Milliseconds since 1970-01-01 UTC, for records that a person reads.
    virtual std::int64_t unix_milliseconds() = 0;
};

class RealClock : public Clock {
public:
    awaitable<void> sleep(Duration duration) override;
    Duration now() override;
    std::int64_t unix_milliseconds() override;
};

}  // namespace loopscope
