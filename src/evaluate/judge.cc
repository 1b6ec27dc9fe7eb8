// The verdict: docs/design.md, "Verdicts", row by row. A pure function, so that all of it can be
// tested.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "evaluate/kernel.h"

namespace loopscope {

namespace {

double tolerance_of(const Task& task) {
    return task.kernel ? task.kernel->fast_tolerance : KernelSpec{}.fast_tolerance;
}

bool is_sound(const Ratio& ratio) {
    return std::isfinite(ratio.estimate) && std::isfinite(ratio.low) && std::isfinite(ratio.high) &&
           ratio.low > 0 && ratio.low <= ratio.estimate && ratio.estimate <= ratio.high;
}

std::string to_text(const Ratio& ratio) {
    return fmt::format("{:.3g} [{:.3g}, {:.3g}] ({} launches)", ratio.estimate, ratio.low,
                       ratio.high, ratio.launches);
}

Evaluation& with(Evaluation& evaluation, std::optional<Status> status, Reason reason,
                 std::string message) {
    evaluation.status = status;
    evaluation.reason = reason;
    evaluation.message = std::move(message);
    return evaluation;
}

}  // namespace

bool wants_confirmation(const Task& task, const TimeOutcome& first) {
    return first.ok && is_sound(first.speedup) && first.speedup.low > 1 + tolerance_of(task) &&
           std::none_of(first.findings.begin(), first.findings.end(),
                        [](const Finding& finding) { return finding.kind == "implausible_time"; });
}

Evaluation judge(const Task& task, const std::string& edit_error,
                 const std::optional<BuildOutcome>& built,
                 const std::optional<VerifyOutcome>& verified,
                 const std::vector<TimeOutcome>& sessions) {
    Evaluation evaluation;
    evaluation.tolerance = tolerance_of(task);
    if (task.kernel)
        evaluation.device = task.kernel->device;
    if (!edit_error.empty())
        return with(evaluation, Status::fail, Reason::edit, edit_error);
    if (!built)
        return with(evaluation, std::nullopt, Reason::infrastructure, "it was not built");
    evaluation.build_log = built->log;
    if (!built->ok) {
        if (built->reason == Reason::infrastructure || built->reason == Reason::ok)
            return with(evaluation, std::nullopt, Reason::infrastructure,
                        "the build gave no verdict: " + built->log);
        return with(evaluation, Status::fail, built->reason, built->log);
    }
    if (!verified)
        return with(evaluation, std::nullopt, Reason::infrastructure,
                    "it was built, but not verified");
    evaluation.cases = verified->cases;
    if (!verified->ok) {
        if (verified->reason == Reason::infrastructure || verified->reason == Reason::ok)
            return with(evaluation, std::nullopt, Reason::infrastructure,
                        "verification gave no verdict: " + verified->message);
        return with(evaluation, Status::compile, verified->reason, verified->message);
    }
    if (sessions.empty())
        return with(evaluation, std::nullopt, Reason::infrastructure,
                    "it was verified, but not timed");
    evaluation.sessions = sessions;
    for (const TimeOutcome& session : sessions)
        evaluation.findings.insert(evaluation.findings.end(), session.findings.begin(),
                                   session.findings.end());
    for (const TimeOutcome& session : sessions)
        if (!session.ok) {
            if (session.reason == Reason::infrastructure || session.reason == Reason::ok)
                return with(evaluation, std::nullopt, Reason::infrastructure,
                            "timing gave no verdict: " + session.message);
            return with(evaluation, Status::compile, session.reason, session.message);
        }
    for (const TimeOutcome& session : sessions)
        if (!is_sound(session.speedup) || (session.gain && !is_sound(*session.gain)))
            return with(evaluation, std::nullopt, Reason::infrastructure,
                        "timing gave an interval that is none");
    const TimeOutcome& last = sessions.back();
    evaluation.speedup = last.speedup;
    evaluation.gain = last.gain;
    const double mark = 1 + evaluation.tolerance;
    for (const Finding& finding : evaluation.findings)
        if (finding.kind == "implausible_time")
            return with(evaluation, Status::pass, Reason::implausible, finding.text);
    evaluation.improves = last.gain && last.gain->low > mark;
    const std::string found = "speed-up over the baseline " + to_text(last.speedup);
    const bool every_low =
        std::all_of(sessions.begin(), sessions.end(),
                    [&](const TimeOutcome& session) { return session.speedup.low > mark; });
    if (every_low && sessions.size() >= 2)
        return with(evaluation, Status::fast, Reason::ok, found);
    if (last.speedup.high <= mark)
        return with(evaluation, Status::pass, Reason::not_faster,
                    fmt::format("{}: not more than {:.3g}", found, mark));
    if (every_low)
        return with(evaluation, Status::pass, Reason::no_difference_shown,
                    found + ": awaits the confirming session");
    return with(evaluation, Status::pass, Reason::no_difference_shown,
                fmt::format("{}: neither above nor below {:.3g} beyond the noise", found, mark));
}

}  // namespace loopscope
