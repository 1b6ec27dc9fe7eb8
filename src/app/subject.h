// What a command's arguments name: a task, a candidate of it, a trajectory.
#pragma once
#include "core/result.h"
#include "evaluate/task.h"
#include "record/candidate.h"
#include "store/journal.h"

#include <string>
#include <vector>

namespace loopscope {

// The task of a folder, of a kind that this version evaluates.
Result<Task> task_to_evaluate(const std::string& folder);

// The artifact with the text of `file` in the place of its only file (or of the file of the same
// name).
Result<Program> program_from(const Task& task, const std::string& file);

struct NamedProgram {
    std::string name;
    Program program;
    std::string expect, expect_reason;
};
// From `file`, or the named starts ("all"), or the baseline.
Result<std::vector<NamedProgram>> candidates_from(const Task& task, const std::string& file,
                                                  const std::vector<std::string>& starts);

// A trajectory of the journal by id or prefix.
Result<Trajectory> trajectory_from(Journal& journal, const std::string& id);

}  // namespace loopscope
