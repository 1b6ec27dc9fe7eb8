// What is here to work with: tools, models, tasks.
#include "app/verbs.h"
#include "core/child.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "evaluate/machine.h"
#include "evaluate/task.h"
#include "llm/http.h"
#include "llm/model.h"
#include "llm/prices.h"
#include "loop/stages.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

namespace loopscope {

namespace {

using nlohmann::json;

struct Tool {
    const char* program;
    const char* package;  // Debian's
    const char* adds;     // what is missing without it
    bool required;
};

constexpr Tool tools[] = {
    {"bwrap", "bubblewrap", "the sandbox: nothing is built or run without it", true},
    {"clang++-19", "clang-19", "the default compiler of kernel tasks, and the vectoriser's remarks",
     true},
    {"clang-tidy-19", "clang-tidy-19", "the debugger's lint", false},
    {"valgrind", "valgrind", "the profiler's cache simulation", false},
    {"perf", "linux-perf", "the profiler's hardware counters, where the processor shows them",
     false},
    {"g++", "g++", "tasks that name it as their compiler", false},
};

std::string found_in_path(const std::string& program) {
    const char* path = ::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nobody sets it here
    for (std::string_view rest = path != nullptr ? path : ""; !rest.empty();) {
        const std::size_t end = rest.find(':');
        const std::string candidate = std::string(rest.substr(0, end)) + "/" + program;
        if (::access(candidate.c_str(), X_OK) == 0)
            return candidate;
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    return "";
}

awaitable<void> first_line(std::string program, std::string& into) {
    Command command;
    command.argv = {program, "--version"};
    command.environment = {"PATH=/usr/bin:/bin", "LC_ALL=C"};
    command.deadline = std::chrono::milliseconds(5000);
    const Result<Exit> exit = co_await run_child(std::move(command));
    if (exit && !exit->out.empty())
        into = split_lines(exit->out).front();
}

std::string version_of(const std::string& program) {
    asio::io_context loop(1);
    std::string version;
    asio::co_spawn(loop, first_line(program, version), [](const std::exception_ptr&) {});
    loop.run();
    return version;
}

}  // namespace

int verb_doctor(const Common& common) {
    json document = json::object();
    bool sound = true;
    document["tools"] = json::array();
    for (const Tool& tool : tools) {
        const std::string path = found_in_path(tool.program);
        sound = sound && (!path.empty() || !tool.required);
        document["tools"].push_back({{"program", tool.program},
                                     {"path", path},
                                     {"version", path.empty() ? "" : version_of(path)},
                                     {"package", tool.package},
                                     {"adds", tool.adds},
                                     {"required", tool.required}});
    }
    document["helpers"] = json::array();
    for (const char* helper : {"loopscope-runner", "loopscope-parse"}) {
        const std::filesystem::path path = program_directory() / helper;
        const bool here = ::access(path.c_str(), X_OK) == 0;
        sound = sound && here;
        document["helpers"].push_back(
            {{"program", helper}, {"path", path.string()}, {"found", here}});
    }
    asio::io_context loop(1);
    const Result<std::unique_ptr<Machine>> machine = open_machine(loop.get_executor());
    sound = sound && machine.has_value();
    if (machine) {
        document["sandbox"] = {{"works", true}, {"how", (*machine)->sandbox.description}};
        document["machine"] = {{"cpu", (*machine)->cpu_name},
                               {"cpus", (*machine)->cpus},
                               {"timing_cpu", (*machine)->timing_cpu},
                               {"serialised", (*machine)->serialised}};
    } else {
        document["sandbox"] = {{"works", false}, {"how", to_text(machine.error())}};
    }
    document["keys"] = json::object();
    for (const char* name : {"OPENAI_API_KEY", "ANTHROPIC_API_KEY"})
        document["keys"][name] =
            ::getenv(name) != nullptr;  // NOLINT(concurrency-mt-unsafe): nobody sets it here
    document["sound"] = sound;
    if (common.json) {
        fmt::print("{}\n", document.dump(2));
        return sound ? exit_done : exit_failed;
    }
    for (const json& tool : document["tools"]) {
        const bool here = !tool["path"].get<std::string>().empty();
        fmt::print("{:<14} {}\n", tool["program"].get<std::string>(),
                   here ? tool["version"].get<std::string>()
                        : fmt::format("missing{}; it would add {}: apt-get install {}",
                                      tool["required"].get<bool>() ? " (required)" : "",
                                      tool["adds"].get<std::string>(),
                                      tool["package"].get<std::string>()));
    }
    for (const json& helper : document["helpers"])
        if (!helper["found"].get<bool>())
            fmt::print("{:<14} missing in {}: it is built and installed with loopscope\n",
                       helper["program"].get<std::string>(), program_directory().string());
    fmt::print("{:<14} {}\n", "sandbox", document["sandbox"]["how"].get<std::string>());
    if (machine)
        fmt::print(
            "{:<14} {}; {} cores, timing on core {}{}\n", "machine", (*machine)->cpu_name,
            (*machine)->cpus.size(), (*machine)->timing_cpu,
            (*machine)->serialised ? "; one core only, so builds and timings take turns" : "");
    for (const auto& [name, set] : document["keys"].items())
        fmt::print("{:<14} {}\n", name,
                   set.get<bool>() ? "set" : "not set: that provider's models cannot be asked");
    fmt::print("{}\n", sound ? "all that is required is here" : "something required is missing");
    return sound ? exit_done : exit_failed;
}

namespace {

awaitable<int> check_model(Engine& engine) {
    Prompt prompt;
    prompt.role = Role::coder;
    prompt.sections.push_back(Section{"task", "Answer with the one word: ready", 0});
    const Answered answered =
        co_await ask(engine, *engine.models.coder, prompt,
                     fmt::format("check/{}", engine.clock.unix_milliseconds()), "check");
    if (!answered.reply) {
        log_error(answered.missing);
        co_return exit_failed;
    }
    const ModelReply& reply = *answered.reply;
    fmt::print("{} ({}) answered in {:.2f} s, {} tokens in, {} out, {}: {}\n",
               engine.models.coder->id(), reply.reported_model, reply.latency_seconds,
               reply.usage.input_tokens, reply.usage.output_tokens,
               reply.cost ? fmt::format("{:.6f} dollars", *reply.cost) : "price unknown",
               shorten(reply.text, 200));
    co_return exit_done;
}

}  // namespace

int verb_models(const Common& common, const ModelsOptions& options) {
    if (!options.check.empty()) {
        ModelOptions models;
        models.model = options.check;
        models.price_file = options.price_file;
        return with_engine(common, models, check_model);
    }
    std::vector<PriceLine> lines = prices();
    if (!options.price_file.empty()) {
        const Result<std::vector<PriceLine>> own = read_prices(options.price_file);
        if (!own)
            return usage_error(own.error());
        lines.insert(lines.begin(), own->begin(), own->end());
    }
    if (common.json) {
        json list = json::array();
        for (const PriceLine& line : lines)
            list.push_back({{"host", line.host},
                            {"model", line.model},
                            {"input", line.input},
                            {"cached", line.cached},
                            {"output", line.output},
                            {"date", line.date},
                            {"source", line.source}});
        fmt::print(
            "{}\n",
            json{{"built_in", {"builtin:rules", "builtin:synthetic"}}, {"prices", list}}.dump(2));
        return exit_done;
    }
    fmt::print(
        "openai:NAME[,base=URL][,key=VARIABLE]   any OpenAI-compatible server\n"
        "anthropic:NAME                          the Messages API\n"
        "command:PROGRAM ARGS                    a program of yours, one request a run\n"
        "replay:FILE                             the answers of a recorded journal\n"
        "builtin:rules                           a rule-based kernel engineer: no key, no network\n"
        "builtin:synthetic,file=TRUTH.json       a known value function, to check the attribution\n"
        "Known prices, dollars per million tokens (input, cached, output):\n");
    for (const PriceLine& line : lines)
        fmt::print("  {:<28} {:<36} {:>8.3f} {:>8.3f} {:>8.3f}   {}\n", line.host, line.model,
                   line.input, line.cached, line.output, line.date);
    return exit_done;
}

int verb_tasks(const Common& common, const TasksOptions& options) {
    std::vector<std::filesystem::path> folders(options.folders.begin(), options.folders.end());
    if (folders.empty()) {
        folders.emplace_back(".");
        folders.push_back(program_directory() / "../share/loopscope/workloads");
    }
    std::vector<std::filesystem::path> found;
    for (const std::filesystem::path& folder : folders) {
        std::error_code failed;
        if (!std::filesystem::is_directory(folder, failed)) {
            if (!options.folders.empty())
                return usage_error(Error{folder.string(), "is not a folder"});
            continue;
        }
        auto walk = std::filesystem::recursive_directory_iterator(
            folder, std::filesystem::directory_options::skip_permission_denied, failed);
        for (; !failed && walk != std::filesystem::recursive_directory_iterator();
             walk.increment(failed)) {
            const std::string name = walk->path().filename().string();
            if (walk->is_directory(failed) &&
                (walk.depth() > 3 || name == ".git" || name == "build"))
                walk.disable_recursion_pending();
            else if (name == "task.toml")
                found.push_back(walk->path().parent_path().lexically_normal());
        }
    }
    std::sort(found.begin(), found.end());
    json list = json::array();
    for (const std::filesystem::path& folder : found) {
        const Result<Task> task = read_task(folder);
        if (!task) {
            list.push_back({{"folder", folder.string()}, {"error", to_text(task.error())}});
            continue;
        }
        json starts = json::array();
        for (const auto& [name, start] : task->starts)
            starts.push_back({{"name", name}, {"expect", start.expect}});
        list.push_back({{"folder", folder.string()},
                        {"name", task->name},
                        {"objective", task->objective},
                        {"baseline", task->baseline},
                        {"starts", starts}});
    }
    if (common.json) {
        fmt::print("{}\n", json{{"tasks", list}}.dump(2));
        return exit_done;
    }
    if (list.empty())
        fmt::print("no task.toml below {}; `loopscope init FILE --function NAME` writes one\n",
                   folders.front().string());
    for (const json& task : list) {
        if (task.contains("error")) {
            fmt::print("{}: {}\n", task["folder"].get<std::string>(),
                       task["error"].get<std::string>());
            continue;
        }
        std::vector<std::string> starts;
        for (const json& start : task["starts"])
            starts.push_back(start["name"].get<std::string>());
        fmt::print("{:<32} {}\n{:<32} starts: {}\n", task["folder"].get<std::string>(),
                   task["objective"].get<std::string>(), "", fmt::join(starts, ", "));
    }
    return exit_done;
}

}  // namespace loopscope
