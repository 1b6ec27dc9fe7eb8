#include "app/subject.h"

#include "core/file.h"
#include "core/text.h"
#include "record/codec.h"

#include <fmt/format.h>

#include <filesystem>

namespace loopscope {

Result<Task> task_to_evaluate(const std::string& folder) {
    Result<Task> task = read_task(folder);
    if (!task)
        return task;
    if (const Result<void> can = can_evaluate(*task); !can)
        return tl::unexpected<Error>(can.error());
    return task;
}

Result<Program> program_from(const Task& task, const std::string& file) {
    Result<std::string> text = read_file(file);
    if (!text)
        return tl::unexpected<Error>(text.error());
    Program program = task.starts.at(task.baseline).program;
    const std::string name = std::filesystem::path(file).filename().string();
    if (program.files.contains(name))
        program.files[name] = std::move(*text);
    else if (program.files.size() == 1)
        program.files.begin()->second = std::move(*text);
    else
        return fail(file,
                    fmt::format("the artifact of task {} has several files and none is named {}",
                                task.name, name));
    return program;
}

Result<std::vector<NamedProgram>> candidates_from(const Task& task, const std::string& file,
                                                  const std::vector<std::string>& starts) {
    std::vector<NamedProgram> candidates;
    if (!file.empty()) {
        Result<Program> program = program_from(task, file);
        if (!program)
            return tl::unexpected<Error>(program.error());
        candidates.push_back(NamedProgram{file, std::move(*program), "", ""});
        return candidates;
    }
    std::vector<std::string> names = starts;
    if (names.empty())
        names.push_back(task.baseline);
    if (names == std::vector<std::string>{"all"}) {
        names.clear();
        for (const auto& [name, start] : task.starts)
            names.push_back(name);
    }
    for (const std::string& name : names) {
        const auto start = task.starts.find(name);
        if (start == task.starts.end()) {
            std::vector<std::string> known;
            for (const auto& [one, unused] : task.starts)
                known.push_back(one);
            const std::string near = nearest(name, known);
            return fail("--start",
                        fmt::format("task {} has no start '{}'{}; it has {}", task.name, name,
                                    near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near),
                                    fmt::join(known, ", ")));
        }
        candidates.push_back(NamedProgram{name, start->second.program, start->second.expect,
                                          start->second.expect_reason});
    }
    return candidates;
}

Result<Trajectory> trajectory_from(Journal& journal, const std::string& id) {
    const std::optional<std::string> stored = journal.trajectory(id);
    if (!stored)
        return fail(id,
                    "there is no such trajectory in this journal; `loopscope freeze STUDY` makes "
                    "one of a run");
    return decode<Trajectory>(*stored);
}

}  // namespace loopscope
