// A component of the user's own: any program that reads the artifact and prints what it has to say
// (docs/feedback.md).
#include "core/file.h"
#include "core/text.h"
#include "feedback/components.h"
#include "record/codec.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace loopscope {
namespace {

constexpr double user_seconds = 60;
constexpr int not_applicable = 3;

}  // namespace

Result<std::map<std::string, std::string>> files_of_command(const Task& task,
                                                            const std::vector<std::string>& argv) {
    std::map<std::string, std::string> files;
    for (const std::string& word : argv) {
        const std::filesystem::path relative(word);
        if (word.empty() || relative.is_absolute() || word.front() == '-')
            continue;
        bool leaves = false;
        for (const std::filesystem::path& part : relative)
            leaves = leaves || part == "..";
        std::error_code ignored;
        const std::filesystem::path path = task.folder / relative;
        if (leaves || !std::filesystem::is_regular_file(path, ignored))
            continue;
        Result<std::string> text = read_file(path);
        if (!text)
            return tl::unexpected<Error>(text.error());
        files[relative.lexically_normal().string()] = std::move(*text);
    }
    return files;
}

awaitable<Result<Feedback>> command_feedback(Machine& machine, const std::string& component,
                                             const Subject& subject) {
    const std::vector<std::string>& argv = subject.task.feedback.commands.at(component);
    Feedback feedback;
    feedback.component = component;
    Result<std::map<std::string, std::string>> files = files_of_command(subject.task, argv);
    if (!files)
        co_return tl::unexpected<Error>(files.error());
    SandboxJob job;
    job.argv = argv;
    job.files = subject.program.files;
    for (const auto& [name, text] : subject.task.support)
        job.files.emplace(name, text);
    for (auto& [name, text] : *files)
        job.files.insert_or_assign(
            name, std::move(text));  // the user's program wins over a candidate's file of its name
    job.input = encode(subject.evaluation);
    job.wall_seconds = user_seconds;
    job.cpu_seconds = user_seconds;
    job.memory_mb = subject.task.limits.memory_mb;
    job.processes = subject.task.limits.processes;
    job.output_kb = subject.task.limits.output_kb;
    Result<SandboxResult> done = fail("", "");
    {
        const Permit permit = co_await machine.build_slots.acquire();
        done = co_await run_sandboxed(machine, std::move(job));
    }
    if (!done)
        co_return tl::unexpected<Error>(done.error());
    const Exit& exit = done->exit;
    nlohmann::json fields = {{"exit", describe(exit)}};
    if (exit.kind == Exit::Kind::exited && (exit.code == 126 || exit.code == 127))
        co_return fail(fmt::format("[feedback.commands] {}", component),
                       fmt::format("\"{}\" does not start in the sandbox ({}): name an installed "
                                   "program, or a file of the "
                                   "task's folder",
                                   argv.front(), trim(exit.err)));
    if (exit.kind == Exit::Kind::exited && exit.code == not_applicable) {
        feedback.applicable = false;
        feedback.text =
            exit.out.empty() ? component + " has nothing to say of this candidate.\n" : exit.out;
    } else if (exit.kind == Exit::Kind::exited && exit.code == 0) {
        feedback.text = exit.out;
        feedback.applicable = !trim(exit.out).empty();
        if (!feedback.applicable)
            feedback.text = component + " printed nothing.\n";
    } else {
        // Its failure is not the candidate's: say so in words that a planner cannot take for a
        // finding.
        feedback.applicable = false;
        feedback.text =
            exit.kind == Exit::Kind::timed_out
                ? fmt::format("{} gave no answer within {:.0f} s.\n", component, user_seconds)
                : fmt::format("{} failed ({}): {}\n", component, describe(exit),
                              trim(shorten(exit.err, 500)));
    }
    if (exit.cut)
        feedback.text += "\n[its output went on; the rest was dropped]";
    // A program that prints a JSON object gives its fields that way.
    const nlohmann::json printed = nlohmann::json::parse(exit.out, nullptr, false);
    if (printed.is_object()) {
        fields["output"] = printed;
        if (printed.contains("text") && printed["text"].is_string() && feedback.applicable)
            feedback.text = printed["text"].get<std::string>();
    }
    feedback.text = within(feedback.text, subject.task.feedback.max_bytes);
    feedback.fields = fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    co_return feedback;
}

}  // namespace loopscope
