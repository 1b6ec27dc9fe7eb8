// Time that moves only when nothing else can, so that every interleaving of a simulation repeats.
//
//     asio::io_context io(1);
//     ManualClock clock(io.get_executor());
//     asio::co_spawn(io, work(clock), done);
//     clock.run(io);
//
// Everything must live on that one io_context, the journal's `disk` too: another thread's work does
// not hold the clock back.
#pragma once
#include "core/async.h"
#include "core/clock.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace loopscope {

class ManualClock : public Clock {
public:
    explicit ManualClock(asio::any_io_executor executor) : executor_(std::move(executor)) {}

    awaitable<void> sleep(Duration duration) override {
        asio::steady_timer timer(executor_, asio::steady_timer::time_point::max());
        Sleeper sleeper(sleepers_, Key(now_ + duration, ++sequence_), timer);
        while (!sleeper.due) {
            const auto token = asio::as_tuple(asio::use_awaitable);
            const auto [error] = co_await timer.async_wait(token);
            if (error && !sleeper.due)
                throw boost::system::system_error(error);  // the coroutine was cancelled
        }
    }
    Duration now() override { return now_; }
    // 2023-11-14 22:13:20 UTC when the clock was made.
    std::int64_t unix_milliseconds() override {
        return 1'700'000'000'000 +
               std::chrono::duration_cast<std::chrono::milliseconds>(now_).count();
    }

    // Moves time to the sleeper that is due first, and wakes it. False: nobody sleeps.
    bool advance() {
        if (sleepers_->empty())
            return false;
        const auto first = sleepers_->begin();
        Sleeper& sleeper = *first->second;
        now_ = std::max(now_, first->first.first);
        sleepers_->erase(first);
        sleeper.due = true;
        sleeper.timer.cancel();
        return true;
    }

    // Runs all that is ready, lets time pass when nothing is, until `io` is stopped or nothing is
    // left. False: work is left that neither a handler nor the clock will ever wake.
    bool run(asio::io_context& io) {
        while (!io.stopped() && (io.poll() > 0 || advance())) {
        }
        return io.stopped();
    }

private:
    using Key =
        std::pair<Duration, std::int64_t>;  // equal times wake in the order in which they slept
    struct Sleeper;
    using Sleepers = std::map<Key, Sleeper*>;
    struct Sleeper {
        Sleeper(std::shared_ptr<Sleepers> others, Key until, asio::steady_timer& waits_on)
            : all(std::move(others)), key(until), timer(waits_on) {
            all->emplace(key, this);
        }
        ~Sleeper() {
            if (!due)
                all->erase(key);
        }
        Sleeper(const Sleeper&) = delete;
        Sleeper& operator=(const Sleeper&) = delete;
        std::shared_ptr<Sleepers>
            all;  // shared: a frame that dies with its io_context may outlive the clock
        Key key;
        asio::steady_timer& timer;
        bool due = false;
    };

    asio::any_io_executor executor_;
    Duration now_{};
    std::int64_t sequence_ = 0;
    std::shared_ptr<Sleepers> sleepers_ = std::make_shared<Sleepers>();
};

}  // namespace loopscope
