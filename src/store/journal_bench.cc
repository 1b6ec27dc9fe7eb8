// How fast once() is: 100,000 small unpaid calls, the same recalled, and paid calls in groups.
#include "store/journal.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <string>

// NOLINTBEGIN(cppcoreguidelines-avoid-capturing-lambda-coroutines): every closure outlives the run
// of its coroutine NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one fails the test
namespace loopscope {
namespace {

StageKey key_number(std::size_t i, bool paid) {
    StageKey key;
    key.stage = paid ? "model" : "build";
    key.inputs = fmt::format("{{\"number\":{}}}", i);
    key.paid = paid;
    return key;
}

void measure(const std::string& path, bool power_safe, bool paid, std::size_t count,
             std::size_t width) {
    if (path != ":memory:")
        for (const char* end : {"", "-wal", "-shm"})
            std::filesystem::remove(path + end);
    asio::io_context io(1);
    asio::thread_pool disk(1);
    RealClock clock;
    Journal::Options options;
    options.power_safe = power_safe;
    auto opened = Journal::open(path, io.get_executor(), disk.get_executor(), clock, options);
    if (!opened) {
        fmt::print(stderr, "{}\n", to_text(opened.error()));
        return;
    }
    Journal& journal = **opened;
    const std::function<awaitable<Produced>()> produce = []() -> awaitable<Produced> {
        Produced produced;
        produced.result = "{\"ok\":true}";
        co_return produced;
    };
    const std::function<awaitable<void>(std::size_t)> one = [&](std::size_t i) -> awaitable<void> {
        co_await journal.once(key_number(i, paid), produce);
    };
    std::string line =
        fmt::format("{:<9} {} {} width {:<4} {:>7} calls:", path == ":memory:" ? path : "file",
                    power_safe ? "FULL  " : "NORMAL", paid ? "paid  " : "unpaid", width, count);
    for (const char* what : {"produced", "recalled"}) {
        io.restart();
        const auto start = std::chrono::steady_clock::now();
        asio::co_spawn(io, for_each_index(count, width, one), [](const std::exception_ptr& error) {
            if (error)
                std::rethrow_exception(error);
        });
        io.run();
        const std::int64_t entries = journal.summary().entries;
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        line += fmt::format(" {} in {:.2f} s ({:.1f} us each)", what, seconds,
                            seconds * 1e6 / static_cast<double>(count));
        if (entries != static_cast<std::int64_t>(count))
            line += " WRONG COUNT";
    }
    const auto start = std::chrono::steady_clock::now();
    journal.summary();
    fmt::print("{} summary {:.1f} ms\n", line,
               std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                   .count());
}

}  // namespace
}  // namespace loopscope
// NOLINTEND(bugprone-unchecked-optional-access)
// NOLINTEND(cppcoreguidelines-avoid-capturing-lambda-coroutines)

int main(int argc, char** argv) {
    const std::string path = argc > 1 ? argv[1] : "journal_bench.db";
    loopscope::measure(":memory:", false, false, 100'000, 1);
    loopscope::measure(":memory:", false, true, 100'000, 64);
    loopscope::measure(path, false, false, 100'000, 1);
    loopscope::measure(path, false, true, 20'000, 64);
    loopscope::measure(path, true, true, 2'000, 1);
    loopscope::measure(path, true, true, 20'000, 64);
    for (const char* end : {"", "-wal", "-shm"})
        std::filesystem::remove(path + end);
}
