// Enumerators and their names in the journal, both ways. Names are stored; do not change them.
#include "record/evaluation.h"
#include "record/feedback.h"
#include "record/prompt.h"

#include <array>
#include <utility>

namespace loopscope {

namespace {

constexpr std::array<std::string_view, 4> status_names{"fail", "compile", "pass", "fast"};
constexpr std::array<std::string_view, 15> reason_names{"ok",
                                                        "edit",
                                                        "build_error",
                                                        "link_error",
                                                        "policy",
                                                        "wrong_output",
                                                        "no_answer",
                                                        "crash",
                                                        "timeout",
                                                        "resource",
                                                        "memory",
                                                        "not_faster",
                                                        "no_difference_shown",
                                                        "implausible",
                                                        "infrastructure"};
constexpr std::array<std::string_view, 3> mode_names{"none", "raw", "summary"};
constexpr std::array<std::string_view, 3> role_names{"planner", "coder", "summarizer"};

template <class Enum, std::size_t N>
std::optional<Enum> find(const std::array<std::string_view, N>& names, std::string_view name) {
    for (std::size_t i = 0; i < N; ++i)
        if (names[i] == name)
            return static_cast<Enum>(i);
    return std::nullopt;
}

}  // namespace

std::string_view name_of(Status status) {
    return status_names.at(static_cast<std::size_t>(status));
}
std::string_view name_of(Reason reason) {
    return reason_names.at(static_cast<std::size_t>(reason));
}
std::string_view name_of(Mode mode) { return mode_names.at(static_cast<std::size_t>(mode)); }
std::string_view name_of(Role role) { return role_names.at(static_cast<std::size_t>(role)); }

std::optional<Status> status_named(std::string_view name) {
    return find<Status>(status_names, name);
}
std::optional<Reason> reason_named(std::string_view name) {
    return find<Reason>(reason_names, name);
}
std::optional<Mode> mode_named(std::string_view name) { return find<Mode>(mode_names, name); }
std::optional<Role> role_named(std::string_view name) { return find<Role>(role_names, name); }

}  // namespace loopscope
