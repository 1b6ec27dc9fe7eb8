#include "feedback/feedback.h"

#include "core/hash.h"
#include "core/text.h"
#include "evaluate/parse.h"
#include "feedback/components.h"
#include "record/codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

namespace loopscope {
namespace {

using nlohmann::json;

// Raised when a component's text or fields change for the same inputs.
constexpr int component_version = 1;

constexpr std::array<std::string_view, 3> built_in = {"debugger", "analyzer", "profiler"};

bool is_built_in(std::string_view component) {
    return std::find(built_in.begin(), built_in.end(), component) != built_in.end();
}

Error unknown_component(const Task& task, const std::string& component) {
    const std::vector<std::string> known = component_names(task);
    const std::string near = nearest(component, known);
    Error error;
    error.where = "feedback component \"" + component + "\"";
    error.what = "is not known; there are " + fmt::format("{}", fmt::join(known, ", "));
    if (!near.empty())
        error.what += " (did you mean " + near + "?)";
    return error;
}

}  // namespace

std::vector<std::string> component_names(const Task& task) {
    std::vector<std::string> names(built_in.begin(), built_in.end());
    for (const auto& [name, argv] : task.feedback.commands) {
        if (!is_built_in(name))
            names.push_back(name);
    }
    return names;
}

awaitable<Result<Feedback>> make_feedback(Machine& machine, const std::string& component,
                                          const Subject& subject, const Roof* roof) {
    const auto begin = std::chrono::steady_clock::now();
    Result<Feedback> feedback = tl::unexpected<Error>(unknown_component(subject.task, component));
    if (component == "debugger")
        feedback = co_await debugger_feedback(machine, subject);
    else if (component == "analyzer")
        feedback = co_await analyzer_feedback(machine, subject);
    else if (component == "profiler")
        feedback = co_await profiler_feedback(machine, subject, roof);
    else if (subject.task.feedback.commands.contains(component))
        feedback = co_await command_feedback(machine, component, subject);
    if (feedback)
        feedback->seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    co_return feedback;
}

awaitable<Result<std::string>> feedback_inputs(Machine& machine, const std::string& component,
                                               const Subject& subject) {
    const Task& task = subject.task;
    const Evaluation& evaluation = subject.evaluation;
    const std::vector<std::string> known = component_names(task);
    if (std::find(known.begin(), known.end(), component) == known.end())
        co_return tl::unexpected<Error>(unknown_component(task, component));
    const json whole = json::parse(encode(evaluation), nullptr, false);
    json inputs = {{"component", component},
                   {"version", component_version},
                   {"program", subject.program.files},
                   {"task", sha256_hex(canonical(task))},
                   {"max_bytes", task.feedback.max_bytes}};
    json tools = json::object();
    const auto ask = [](std::string name) { return tool_version(std::move(name)); };
    if (is_built_in(component)) {
        tools["compiler"] = co_await ask(task.build.compiler);
        tools["parser"] = structure_version;
    }
    if (component == "debugger") {
        tools["clang-tidy"] = co_await ask("clang-tidy-19");
        // Of a passing candidate nothing but that it passes is told: its times are no input.
        const bool failed = !evaluation.status || *evaluation.status < Status::pass;
        inputs["status"] = evaluation.status ? json(name_of(*evaluation.status)) : json(nullptr);
        inputs["reason"] = failed ? name_of(evaluation.reason) : std::string_view();
        inputs["message"] = failed ? evaluation.message : "";
        inputs["build_log"] = failed ? evaluation.build_log : "";
        inputs["cases"] = evaluation.cases.size();
        json wrong = json::array();
        for (const VerifiedCase& verified : evaluation.cases) {
            if (!verified.ok)
                wrong.push_back(verified.sizes);
        }
        inputs["wrong_cases"] = std::move(wrong);
    } else if (component == "profiler") {
        tools["valgrind"] = co_await ask("valgrind");
        tools["perf"] = co_await ask("perf");
        inputs["machine"] = machine.fingerprint;
        inputs["evaluation"] = whole;
    } else if (component != "analyzer") {
        const std::vector<std::string>& argv = task.feedback.commands.at(component);
        const Result<std::map<std::string, std::string>> files = files_of_command(task, argv);
        if (!files)
            co_return tl::unexpected<Error>(files.error());
        json hashes = json::object();
        for (const auto& [name, text] : *files)
            hashes[name] = sha256_hex(text);
        inputs["argv"] = argv;
        inputs["files"] = std::move(hashes);
        inputs["evaluation"] = whole;
        if (!argv.empty() && !files->contains(argv.front()))
            tools["command"] = find_tool(argv.front());
    }
    inputs["tools"] = std::move(tools);
    co_return inputs.dump(-1, ' ', false, json::error_handler_t::replace);
}

// The profiler measures no time itself: the times are the evaluation's, which is among its inputs.
// What it draws anew, the counts of the simulation, does not depend on the clock; hardware counters
// do in their last digits, and are read once for a context, like its times. So no component takes
// part in the draw.
bool is_deterministic(const std::string&) { return true; }

}  // namespace loopscope
