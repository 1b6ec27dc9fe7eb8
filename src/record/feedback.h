// Feedback components and what one component said of one candidate.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

// How a component's feedback is shown: not at all, as its own text, or summarised by a model.
enum class Mode { none, raw, summary };
std::string_view name_of(Mode mode);
std::optional<Mode> mode_named(std::string_view name);

struct Feedback {
    std::string component;      // "debugger", "analyzer", "profiler", or a user's own
    bool applicable = true;     // false: it has nothing to say of this candidate, `text` says why
    std::string text;           // what a planner reads in mode raw
    std::string fields = "{}";  // the same as a JSON object, for programs
    std::vector<std::string>
        missing;  // tools that would have added something and are not installed
    double seconds = 0;
};

}  // namespace loopscope
