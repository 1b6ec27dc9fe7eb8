// Programs that components call, and what a task says about the work of one call.
#include "core/child.h"
#include "core/text.h"
#include "feedback/components.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <map>

namespace loopscope {

std::string find_tool(std::string_view name) {
    for (const std::string_view folder :
         {std::string_view("/usr/local/bin/"), std::string_view("/usr/bin/"),
          std::string_view("/bin/")}) {
        std::string path = std::string(folder) + std::string(name);
        if (::access(path.c_str(), X_OK) == 0)
            return path;
    }
    return "";
}

awaitable<std::string> tool_version(std::string name) {
    // A tool does not change under a running program; the loop's one thread owns this.
    static std::map<std::string, std::string> known;
    const auto found = known.find(name);
    if (found != known.end())
        co_return found->second;
    const std::string path = find_tool(name);
    std::string version;
    if (!path.empty()) {
        Command command;
        command.argv.push_back(path);
        command.argv.emplace_back("--version");
        command.environment.emplace_back("PATH=/usr/local/bin:/usr/bin:/bin");
        command.environment.emplace_back("LANG=C.UTF-8");
        command.deadline = std::chrono::seconds(10);
        const Result<Exit> exit = co_await run_child(std::move(command));
        if (exit) {
            for (const std::string& line : split_lines(exit->out)) {
                if (line.find_first_of("0123456789") == std::string::npos)
                    continue;
                version = std::string(trim(line));
                break;
            }
        }
        if (version.empty())
            version = path;
    }
    known[name] = version;
    co_return version;
}

awaitable<Result<SandboxResult>> run_tool(Machine& machine, const Task& task,
                                          const Program& program, std::vector<std::string> argv,
                                          double seconds) {
    SandboxJob job;
    job.argv = std::move(argv);
    job.files = program.files;
    for (const auto& [name, text] : task.support)
        job.files.emplace(name, text);
    job.wall_seconds = seconds;
    job.cpu_seconds = seconds;
    job.output_kb = 1024;
    const Permit permit = co_await machine.build_slots.acquire();
    co_return co_await run_sandboxed(machine, std::move(job));
}

std::vector<std::string> source_files(const Program& program) {
    std::vector<std::string> names;
    for (const auto& [name, text] : program.files) {
        for (const std::string_view ending :
             {std::string_view(".cc"), std::string_view(".cpp"), std::string_view(".cxx"),
              std::string_view(".c"), std::string_view(".C")}) {
            if (name.ends_with(ending)) {
                names.push_back(name);
                break;
            }
        }
    }
    return names;
}

std::vector<std::string> own_files(const Program& program) {
    std::vector<std::string> names;
    names.reserve(program.files.size());
    for (const auto& [name, text] : program.files)
        names.push_back(name);
    return names;
}

namespace {

double elements_of(const Argument& argument, const Sizes& sizes) {
    double elements = 1;
    for (const std::string& dimension : argument.shape) {
        const Result<double> extent = evaluate_expression(dimension, sizes);
        if (!extent)
            return 0;
        elements *= *extent;
    }
    return elements;
}

}  // namespace

double work_of(const KernelSpec& kernel, const Sizes& sizes) {
    if (!kernel.flops.empty()) {
        const Result<double> flops = evaluate_expression(kernel.flops, sizes);
        if (flops)
            return *flops;
    }
    double elements = 0;
    for (const Argument& argument : kernel.arguments) {
        if (!argument.scalar)
            elements += elements_of(argument, sizes);
    }
    return elements;
}

double bytes_of(const KernelSpec& kernel, const Sizes& sizes) {
    if (!kernel.bytes.empty()) {
        const Result<double> bytes = evaluate_expression(kernel.bytes, sizes);
        if (bytes)
            return *bytes;
    }
    double total = 0;
    for (const Argument& argument : kernel.arguments) {
        if (argument.scalar)
            continue;
        const double moves = argument.direction == Direction::inout ? 2 : 1;
        total += moves * elements_of(argument, sizes) * static_cast<double>(size_of(argument.type));
    }
    return total;
}

std::string within(std::string_view text, std::size_t bytes) {
    constexpr std::size_t notice = 48;  // "\n[12345678 bytes left out]" and the line end after it
    if (text.size() <= bytes)
        return std::string(text);
    return bytes > notice ? shorten(text, bytes - notice) : std::string();
}

std::string bounds_text(const SourceLoop& loop) {
    if (loop.variable.empty() || loop.comparison.empty()) {
        if (loop.kind == "range")
            return fmt::format("each {} of {}", loop.variable, loop.condition);
        if (loop.condition.empty())
            return "bounds unknown";
        if (loop.variable.empty() || loop.step.empty())
            return loop.kind + " " + loop.condition;
        return fmt::format("{} from {} while {}, step {}", loop.variable,
                           loop.lower.empty() ? "?" : loop.lower, loop.condition, loop.step);
    }
    const bool descends = loop.comparison == ">" || loop.comparison == ">=";
    const std::string lower = loop.lower.empty() ? "?" : loop.lower;
    const std::string step = loop.step.empty() ? "unknown" : loop.step;
    if (loop.comparison == "!=")
        return fmt::format("{} from {} until {}, step {}", loop.variable, lower, loop.upper, step);
    return fmt::format("{} {} {} {} {}, step {}", lower, descends ? ">=" : "<=", loop.variable,
                       loop.comparison, loop.upper, step);
}

std::string loop_name(const SourceLoop& loop) {
    return loop.variable.empty() ? loop.kind : loop.variable;
}

std::string counted(std::size_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace loopscope
