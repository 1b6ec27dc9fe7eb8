// Evaluator kind `command`: a program of the task's own, run in the sandbox over the artifact. It
// shares the process with the candidate, or at least the sandbox, so what it says is believed only
// as far as that goes: trust shared_process.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "evaluate/kernel.h"
#include "evaluate/sandbox.h"

namespace loopscope {

namespace {

constexpr std::size_t max_message_bytes = 8192;

std::string fault_in(const nlohmann::json& answer) {
    if (!answer.is_object())
        return "is not a JSON object";
    if (!answer.contains("status") || !answer["status"].is_string())
        return "has no \"status\" (\"fail\", \"compile\", \"pass\" or \"fast\")";
    if (!status_named(answer["status"].get<std::string>()))
        return fmt::format(
            "has the status \"{}\"; it must be \"fail\", \"compile\", \"pass\" or \"fast\"",
            shorten(answer["status"].get<std::string>(), 40));
    if (answer.contains("score") && !answer["score"].is_number())
        return "has a \"score\" that is no number";
    if (answer.contains("message") && !answer["message"].is_string())
        return "has a \"message\" that is no text";
    if (answer.contains("metrics") && !answer["metrics"].is_object())
        return "has \"metrics\" that are no object";
    if (answer.contains("metrics"))
        for (const auto& [name, value] : answer["metrics"].items())
            if (!value.is_number() || !std::isfinite(value.get<double>()))
                return fmt::format("has a metric \"{}\" that is no finite number",
                                   shorten(name, 40));
    return "";
}

}  // namespace

awaitable<Result<Evaluation>> evaluate_command(Machine& machine, const Task& task,
                                               const Program& program) {
    if (!task.command || task.command->argv.empty())
        co_return fail(task.name,
                       "has no command: [evaluator] kind = \"command\" needs [command] argv");
    SandboxJob job;
    job.argv = task.command->argv;
    job.files = task.support;
    for (const auto& [path, text] : program.files)
        job.files[path] = text;
    job.wall_seconds = task.command->timeout_seconds;
    job.cpu_seconds =
        task.command->timeout_seconds * static_cast<double>(machine.build_cpus.size());
    job.memory_mb = task.limits.memory_mb;
    job.processes = task.limits.processes;
    job.file_mb = task.limits.file_mb;
    job.output_kb = task.limits.output_kb;
    const Permit slot = co_await machine.build_slots.acquire();
    Result<SandboxResult> ran = co_await run_sandboxed(machine, std::move(job));
    if (!ran)
        co_return fail(ran.error().where, ran.error().what);

    Evaluation evaluation;
    evaluation.trust = "shared_process";
    if (task.kernel)
        evaluation.tolerance = task.kernel->fast_tolerance;
    // A program that does not answer has still been started.
    evaluation.status = Status::compile;
    const std::string said = shorten(ran->exit.err, max_message_bytes);
    if (ran->exit.kind == Exit::Kind::timed_out) {
        evaluation.reason = Reason::timeout;
        evaluation.message =
            fmt::format("the command did not finish within {:g} s", task.command->timeout_seconds);
        co_return evaluation;
    }
    if (ran->out_of_memory || ran->out_of_processes) {
        evaluation.reason = Reason::resource;
        evaluation.message =
            ran->out_of_memory
                ? fmt::format("the command needed more than {} MiB of memory",
                              task.limits.memory_mb)
                : fmt::format("the command needed more than {} processes", task.limits.processes);
        co_return evaluation;
    }
    if (ran->exit.kind == Exit::Kind::signalled || ran->exit.code != 0) {
        evaluation.reason = Reason::crash;
        evaluation.message =
            fmt::format("the command ended with {}\n{}", describe(ran->exit), said);
        co_return evaluation;
    }
    const nlohmann::json answer = nlohmann::json::parse(ran->exit.out, nullptr, false);
    const std::string fault = ran->exit.cut           ? "is longer than the limit on output"
                              : answer.is_discarded() ? "is not JSON"
                                                      : fault_in(answer);
    if (!fault.empty()) {
        evaluation.reason = Reason::no_answer;
        evaluation.message = fmt::format("the command's answer {}\n{}", fault, said);
        co_return evaluation;
    }
    evaluation.status = status_named(answer["status"].get<std::string>());
    evaluation.reason = *evaluation.status == Status::fast   ? Reason::ok
                        : *evaluation.status == Status::pass ? Reason::not_faster
                        : *evaluation.status == Status::fail ? Reason::build_error
                                                             : Reason::wrong_output;
    evaluation.message = shorten(answer.value("message", std::string()), max_message_bytes);
    if (answer.contains("metrics"))
        for (const auto& [name, value] : answer["metrics"].items())
            evaluation.metrics[name] = value.get<double>();
    if (answer.contains("score")) {
        const double score = answer["score"].get<double>();
        if (!std::isfinite(score)) {
            evaluation.status = Status::compile;
            evaluation.reason = Reason::wrong_output;
            evaluation.message = "the score is not finite";
            co_return evaluation;
        }
        evaluation.metrics["score"] = score;
    }
    co_return evaluation;
}

}  // namespace loopscope
