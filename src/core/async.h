// The engine's coroutines: one thread holds all state and awaits helpers (docs/design.md, "How the
// engine runs").
//
// The rule that g++ 12 forces on every statement with co_await: no braced aggregate and no
// capturing lambda in it; build them in a named variable on the line before. tools/check_coroutines
// enforces it.
#pragma once
#include <boost/asio.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/channel.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <cstddef>
#include <exception>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

namespace loopscope {

namespace asio = boost::asio;
using asio::awaitable;
using boost::system::error_code;

// Runs blocking work on `where` and resumes on the caller's executor. Not itself a coroutine, so
// that no capturing temporary meets a co_await.
template <class F>
auto offload(asio::any_io_executor where, F work) -> awaitable<std::invoke_result_t<F>> {
    // co_spawn keeps the closure alive until its coroutine has ended.
    auto blocking = [work = std::move(work)]() mutable -> awaitable<std::invoke_result_t<F>> {
        co_return work();
    };
    return asio::co_spawn(std::move(where), std::move(blocking), asio::use_awaitable);
}

// A counting semaphore for coroutines of one thread: a channel with room for `slots` messages is
// one.
class Limiter;

// One slot, given back when it is destroyed. Give it back before a back-off.
class [[nodiscard]] Permit {
public:
    explicit Permit(Limiter& limiter) : limiter_(&limiter) {}
    Permit(Permit&& other) noexcept : limiter_(std::exchange(other.limiter_, nullptr)) {}
    Permit& operator=(Permit&&) = delete;
    Permit(const Permit&) = delete;
    Permit& operator=(const Permit&) = delete;
    ~Permit();

private:
    Limiter* limiter_;
};

class Limiter {
public:
    Limiter(const asio::any_io_executor& executor, std::size_t slots) : taken_(executor, slots) {}
    awaitable<Permit> acquire();

private:
    friend class Permit;
    asio::experimental::channel<void(error_code)> taken_;
};

// Calls work(i) for i = 0 .. count - 1, at most `width` at a time, each on the caller's executor.
// Returns when all are done; the first failure cancels the rest and is rethrown. `work` must
// outlive the call.
awaitable<void> for_each_index(std::size_t count, std::size_t width,
                               const std::function<awaitable<void>(std::size_t)>& work);

}  // namespace loopscope
