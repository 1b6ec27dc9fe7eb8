#include "core/async.h"

#include "core/check.h"
#include "core/clock.h"

#include <algorithm>
#include <memory>

namespace loopscope {

Permit::~Permit() {
    if (limiter_ != nullptr)
        limiter_->taken_.try_receive([](auto...) {});
}

awaitable<Permit> Limiter::acquire() {
    co_await taken_.async_send(error_code{}, asio::use_awaitable);
    co_return Permit(*this);
}

namespace {

awaitable<void> take_turns(std::size_t& next, std::size_t count,
                           const std::function<awaitable<void>(std::size_t)>& work) {
    while (next < count) {
        const std::size_t index = next++;
        co_await work(index);
    }
}

}  // namespace

awaitable<void> for_each_index(std::size_t count, std::size_t width,
                               const std::function<awaitable<void>(std::size_t)>& work) {
    CHECK(width > 0);
    if (count == 0)
        co_return;
    std::size_t next = 0;
    const auto executor = co_await asio::this_coro::executor;
    auto worker = [&] {
        return asio::co_spawn(executor, take_turns(next, count, work), asio::deferred);
    };
    std::vector<decltype(worker())> workers;
    for (std::size_t i = 0; i < std::min(count, width); ++i)
        workers.push_back(worker());
    auto group = asio::experimental::make_parallel_group(std::move(workers));
    auto [order, errors] =
        co_await group.async_wait(asio::experimental::wait_for_one_error(), asio::use_awaitable);
    for (const std::size_t finished : order)  // in order of completion: the first is the cause
        if (errors[finished])
            std::rethrow_exception(errors[finished]);
}

awaitable<void> RealClock::sleep(Duration duration) {
    asio::steady_timer timer(co_await asio::this_coro::executor, duration);
    co_await timer.async_wait(asio::use_awaitable);
}

Clock::Duration RealClock::now() { return std::chrono::steady_clock::now().time_since_epoch(); }

std::int64_t RealClock::unix_milliseconds() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

}  // namespace loopscope
