// A built executable (sanitized or simulated) run once on inputs made from a fixed seed: what a
// feedback component looks at is the same each time.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "evaluate/harness.h"
#include "evaluate/inputs.h"
#include "evaluate/kernel.h"
#include "evaluate/sandbox.h"

namespace loopscope {

namespace {

// The sanitizers want a program of exactly the name llvm-symbolizer; Debian keeps it in a folder
// per version, as in "clang++-19".
std::string symbolizer_of(const std::string& compiler) {
    const std::size_t dash = compiler.rfind('-');
    const std::string version = dash == std::string::npos ? "" : compiler.substr(dash + 1);
    for (const std::string& path : {fmt::format("/usr/lib/llvm-{}/bin/llvm-symbolizer", version),
                                    std::string("/usr/bin/llvm-symbolizer")})
        if (::access(path.c_str(), X_OK) == 0)
            return path;
    return "";
}

}  // namespace

awaitable<Result<OneRun>> run_once(Machine& machine, const Task& task,
                                   const std::string& executable, const Sizes& sizes,
                                   std::vector<std::string> wrapper,
                                   std::vector<std::string> collect) {
    if (!task.kernel)
        co_return fail(task.name, "has no [kernel]: only the kernel evaluator runs executables");
    const KernelSpec& kernel = kernel_of(task);
    const Result<CallShape> shape = shape_of(kernel, sizes);
    if (!shape)
        co_return fail(shape.error().where, shape.error().what);
    constexpr std::uint64_t fixed_seed = 20260101;
    const Result<std::vector<Bytes>> inputs = make_inputs(
        kernel, *shape, classes_of(kernel).front(), Rng(fixed_seed).fork(to_text(sizes)));
    if (!inputs)
        co_return fail(inputs.error().where, inputs.error().what);
    SandboxJob job;
    job.files["program"] = executable;
    job.files["call"] = call_file(kernel, *shape, *inputs);
    job.argv = std::move(wrapper);
    job.argv.emplace_back("./program");
    job.argv.emplace_back("call");
    job.collect = std::move(collect);
    // The leak checker needs to trace its own process, which the sandbox refuses.
    job.environment["ASAN_OPTIONS"] = "detect_leaks=0:color=never:symbolize=1";
    job.environment["UBSAN_OPTIONS"] = "print_stacktrace=1:color=never";
    if (const std::string symbolizer = symbolizer_of(task.build.compiler); !symbolizer.empty())
        job.environment["ASAN_SYMBOLIZER_PATH"] = symbolizer;
    job.reserves_address_space = true;
    job.wall_seconds = job.cpu_seconds = task.limits.verify_seconds;
    job.memory_mb = task.limits.memory_mb;
    job.processes = task.limits.processes;
    job.file_mb = std::max<std::int64_t>(
        task.limits.file_mb, static_cast<std::int64_t>(job.files["call"].size() >> 20U) + 1);
    job.output_kb = task.limits.output_kb;
    const Permit slot = co_await machine.build_slots.acquire();
    Result<SandboxResult> result = co_await run_sandboxed(machine, std::move(job));
    if (!result)
        co_return fail(result.error().where, result.error().what);
    OneRun once;
    once.exit_code = result->exit.code;
    once.timed_out = result->exit.kind == Exit::Kind::timed_out;
    once.signalled = result->exit.kind == Exit::Kind::signalled;
    once.out = std::move(result->exit.out);
    once.err = std::move(result->exit.err);
    once.files = std::move(result->files);
    co_return once;
}

}  // namespace loopscope
