// For tests of this room: one machine for the whole program, and coroutines run to their end.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/async.h"
#include "core/check.h"
#include "evaluate/machine.h"
#include "evaluate/sandbox.h"

namespace loopscope::testing {

// Returned by its maker after every test of the program has run, so that its folder goes too.
struct Bench {
    asio::io_context io;
    std::unique_ptr<Machine> machine;
    std::string why;
};
inline Bench& bench() {
    static Bench instance;
    if (!instance.machine && instance.why.empty()) {
        Result<std::unique_ptr<Machine>> opened = open_machine(instance.io.get_executor());
        if (opened)
            instance.machine = std::move(*opened);
        else
            instance.why = to_text(opened.error());
    }
    return instance;
}

template <class T>
T run(awaitable<T> work) {
    Bench& here = bench();
    std::optional<T> result;
    std::exception_ptr failed;
    asio::co_spawn(here.io, std::move(work), [&](const std::exception_ptr& error, T value) {
        failed = error;
        if (!error)
            result.emplace(std::move(value));
    });
    here.io.restart();
    here.io.run();
    if (failed)
        std::rethrow_exception(failed);
    CHECK(result.has_value());
    return std::move(*result);
}

// Ends the test with the reason when there is no sandbox here.
#define NEEDS_MACHINE()                            \
    if (!loopscope::testing::bench().machine)      \
        FAIL() << loopscope::testing::bench().why; \
    [[maybe_unused]] loopscope::Machine& machine = *loopscope::testing::bench().machine

inline SandboxResult sandboxed(SandboxJob job) {
    Result<SandboxResult> result = run(run_sandboxed(*bench().machine, std::move(job)));
    if (!result) {
        ADD_FAILURE() << to_text(result.error());
        return {};
    }
    return std::move(*result);
}

}  // namespace loopscope::testing
