// The loop in words. Every sentence is a count and what it is a count of; nothing is claimed that a
// reader could not check in the table of candidates.
#include "report/digest.h"
#include "report/numbers.h"

#include "core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace loopscope {

namespace {

using Counts = std::map<std::string, std::size_t>;

// Largest first, equal ones by name.
std::vector<std::pair<std::string, std::size_t>> ranked(const Counts& counts) {
    std::vector<std::pair<std::string, std::size_t>> list(counts.begin(), counts.end());
    std::ranges::sort(list, [](const auto& a, const auto& b) {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    return list;
}

std::string listed(const Counts& counts) {
    std::string text;
    for (const auto& [name, count] : ranked(counts))
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, count_text(count));
    return text;
}

// What several messages of one kind have in common: the first line, without what is quoted in it
// and without its numbers.
std::string kind_of_message(std::string_view message) {
    const std::vector<std::string> lines = split_lines(trim(message));
    if (lines.empty())
        return "";
    std::string kind;
    char quote = 0;
    for (const char c : lines.front()) {
        if (quote != 0) {
            if (c == quote)
                quote = 0;
            continue;
        }
        if (c == '"' || c == '`') {
            quote = c;
            kind += "\u2026";
        } else if (c >= '0' && c <= '9') {
            if (!kind.ends_with('#'))
                kind += '#';
        } else {
            kind += c;
        }
    }
    return kind;
}

std::string share_of(std::size_t part, std::size_t whole, std::string_view verb_one,
                     std::string_view verb_many, std::string_view noun_one,
                     std::string_view noun_many) {
    return fmt::format("{} of {} {} {}", count_text(part), count_text(whole),
                       whole == 1 ? noun_one : noun_many, part == 1 ? verb_one : verb_many);
}

std::string about_edits(const std::vector<const Candidate*>& proposals) {
    Counts kinds;
    std::map<std::string, std::string> example;
    std::size_t refused = 0;
    for (const Candidate* candidate : proposals) {
        if (!edit_failed(*candidate))
            continue;
        ++refused;
        const std::string& message =
            candidate->edit_error.empty() ? candidate->evaluation.message : candidate->edit_error;
        const std::string kind = kind_of_message(message);
        ++kinds[kind];
        const std::vector<std::string> lines = split_lines(trim(message));
        example.try_emplace(kind, lines.empty() ? "" : lines.front());
    }
    if (refused == 0)
        return proposals.size() == 1
                   ? "The one edit applied."
                   : fmt::format("All {} edits applied.", count_text(proposals.size()));
    std::string text =
        share_of(refused, proposals.size(), "did not apply", "did not apply", "edit", "edits");
    const auto [kind, count] = ranked(kinds).front();
    if (kind.empty())
        return text + ".";
    return text + fmt::format(". The commonest reason ({} of {}): \u201c{}\u201d.",
                              count_text(count), count_text(refused), clip(example[kind], 160));
}

std::string about_repeats(const std::vector<const Candidate*>& proposals) {
    std::set<std::string> repeated;
    std::size_t repeats = 0;
    for (const Candidate* candidate : proposals) {
        if (candidate->repeats.empty())
            continue;
        ++repeats;
        repeated.insert(candidate->repeats);
    }
    if (repeats == 0)
        return "No proposal repeated an earlier program.";
    return fmt::format("{} (of {}).",
                       share_of(repeats, proposals.size(), "repeated an earlier program",
                                "repeated an earlier program", "proposal", "proposals"),
                       counted(repeated.size(), "earlier program", "earlier programs"));
}

std::string about_status(const std::vector<const Candidate*>& proposals) {
    std::array<Counts, 4> reasons;
    std::array<std::size_t, 4> counts = {};
    std::size_t without_verdict = 0;
    for (const Candidate* candidate : proposals) {
        const Evaluation& evaluation = candidate->evaluation;
        if (!evaluation.status) {
            ++without_verdict;
            continue;
        }
        const std::size_t status = static_cast<std::size_t>(*evaluation.status);
        ++counts[status];
        ++reasons[status][std::string(name_of(evaluation.reason))];
    }
    static constexpr std::array<std::string_view, 4> meaning = {
        "at fail", "at compile, built but wrong or stopped",
        "at pass, right but not shown to be faster", "at fast"};
    std::string text =
        fmt::format("Where the {} ended: ", counted(proposals.size(), "proposal", "proposals"));
    for (std::size_t status = 0; status < counts.size(); ++status) {
        text += fmt::format("{}{} {}", status == 0 ? "" : "; ", count_text(counts[status]),
                            meaning[status]);
        if (counts[status] > 0 && status != 3)
            text += fmt::format(" ({})", listed(reasons[status]));
    }
    text += ".";
    if (without_verdict > 0)
        text += fmt::format(" {} no verdict, because our own side failed.",
                            without_verdict == 1 ? "1 has" : count_text(without_verdict) + " have");
    return text;
}

std::string about_improvement(const std::vector<const Candidate*>& proposals) {
    std::size_t improved = 0;
    std::size_t judged = 0;
    for (const Candidate* candidate : proposals) {
        judged += candidate->evaluation.status ? 1U : 0U;
        improved += candidate->evaluation.improves ? 1U : 0U;
    }
    if (judged == 0)
        return "";
    const stats::Estimate share = stats::wilson(improved, judged);
    return fmt::format(
        "{} on {} parent beyond the noise and the tolerance ({} [{}, {}]).",
        share_of(improved, judged, "improved", "improved", "judged proposal", "judged proposals"),
        improved == 1 ? "its" : "their", percent_text(share.value), percent_text(share.low),
        percent_text(share.high));
}

// Of the proposals made from a parent that did not pass.
std::string about_repair(const std::vector<Candidate>& candidates,
                         const std::vector<const Candidate*>& proposals) {
    std::map<std::string, const Candidate*> by_id;
    for (const Candidate& candidate : candidates)
        by_id.emplace(candidate.id, &candidate);
    std::size_t from_failed = 0;
    std::size_t repaired = 0;
    for (const Candidate* candidate : proposals) {
        const auto parent = by_id.find(candidate->parent);
        if (parent == by_id.end() || !parent->second->evaluation.status ||
            *parent->second->evaluation.status >= Status::pass)
            continue;
        ++from_failed;
        const std::optional<Status>& status = candidate->evaluation.status;
        repaired += status && *status >= Status::pass ? 1U : 0U;
    }
    if (from_failed == 0)
        return "";
    return share_of(repaired, from_failed, "reached pass", "reached pass",
                    "proposal made from a failed parent", "proposals made from a failed parent") +
           ".";
}

std::string about_noise(const std::vector<const Candidate*>& proposals) {
    std::vector<double> floors;
    const Candidate* best = nullptr;
    std::size_t gains = 0;
    for (const Candidate* candidate : proposals) {
        const Evaluation& evaluation = candidate->evaluation;
        for (const TimeOutcome& session : evaluation.sessions)
            if (session.ok && session.noise_floor > 0)
                floors.push_back(session.noise_floor);
        if (!has_speedup(*candidate) || !evaluation.gain)
            continue;
        ++gains;
        if (best == nullptr || evaluation.gain->estimate > best->evaluation.gain->estimate)
            best = candidate;
    }
    if (floors.empty())
        return "";
    const double floor = stats::median(floors);
    const double largest = *std::ranges::max_element(floors);
    std::string text = fmt::format("The noise floor is {} (median of {}, at most {})",
                                   percent_text(std::expm1(floor), 1),
                                   counted(floors.size(), "timing session", "timing sessions"),
                                   percent_text(std::expm1(largest), 1));
    if (best == nullptr)
        return text + "; no gain over a parent was measured.";
    const Ratio& gain = *best->evaluation.gain;
    const int digits = gain.estimate >= 2 ? 0 : 1;
    text += fmt::format("; the largest of {} over a parent is {}",
                        counted(gains, "measured gain", "measured gains"),
                        percent_text(gain.estimate - 1, digits));
    if (gain.launches >= 2)
        text += fmt::format(" [{}, {}]", percent_text(gain.low - 1, digits),
                            percent_text(gain.high - 1, digits));
    text += fmt::format(" ({}, {}).", best->id, launches_text(gain));
    if (gain.estimate <= 1 + std::expm1(floor))
        text += " No gain exceeds the noise: nothing that was measured can be told from luck.";
    else if (gain.launches >= 2 && gain.low <= 1)
        text += " Its interval includes no gain at all.";
    return text;
}

// A generation makes progress when a candidate's lower bound exceeds the best estimate before it.
std::string about_progress(const std::vector<Candidate>& candidates) {
    std::map<int, std::vector<const Candidate*>> by_generation;
    int last = 0;
    for (const Candidate& candidate : candidates) {
        if (!is_start(candidate))
            last = std::max(last, candidate.generation);
        if (has_speedup(candidate))
            by_generation[is_start(candidate) ? 0 : candidate.generation].push_back(&candidate);
    }
    if (last < 1)
        return "";
    double best = 0;
    std::string best_id;
    std::vector<int> idle;
    for (int generation = 0; generation <= last; ++generation) {
        bool progress = false;
        double level = best;
        for (const Candidate* candidate : by_generation[generation]) {
            const Ratio& speedup = *candidate->evaluation.speedup;
            progress = progress || (speedup.launches >= 2 ? speedup.low : speedup.estimate) > best;
            if (speedup.estimate > level) {
                level = speedup.estimate;
                best_id = candidate->id;
            }
        }
        best = level;
        if (generation == 0)
            continue;
        if (!progress)
            idle.push_back(generation);
    }
    std::string text;
    if (idle.empty()) {
        text =
            last == 1
                ? "The one generation brought a candidate faster than any before it, beyond its "
                  "interval."
                : fmt::format(
                      "Each of the {} generations brought a candidate faster than any before it, "
                      "beyond its interval.",
                      last);
    } else {
        std::string which;
        for (std::size_t i = 0; i < idle.size() && i < 12; ++i)
            which += fmt::format("{}{}", i == 0 ? "" : ", ", idle[i]);
        text = fmt::format(
            "{} of {} brought no candidate whose interval lies above the best before it "
            "(generation{} "
            "{}{}).",
            idle.size(), counted(static_cast<std::size_t>(last), "generation", "generations"),
            idle.size() == 1 ? "" : "s", which, idle.size() > 12 ? ", \u2026" : "");
    }
    if (!best_id.empty())
        text += fmt::format(" The largest speed-up is {} ({}).", times_text(best), best_id);
    return text;
}

std::string about_cuts(const std::vector<const Candidate*>& proposals) {
    Counts sections;
    std::size_t cut_prompts = 0;
    for (const Candidate* candidate : proposals) {
        bool cut = false;
        for (const Section& section : candidate->prompt.sections) {
            if (section.cut_bytes == 0)
                continue;
            cut = true;
            ++sections[section.name];
        }
        cut_prompts += cut ? 1U : 0U;
    }
    if (cut_prompts == 0)
        return "";
    return fmt::format("In {} of {} something was cut to fit: {}.", count_text(cut_prompts),
                       counted(proposals.size(), "prompt", "prompts"), listed(sections));
}

std::string about_findings(const std::vector<const Candidate*>& proposals) {
    Counts kinds;
    std::size_t suspicious = 0;
    for (const Candidate* candidate : proposals) {
        suspicious += candidate->evaluation.findings.empty() ? 0U : 1U;
        for (const Finding& finding : candidate->evaluation.findings)
            ++kinds[finding.kind];
    }
    if (suspicious == 0)
        return "";
    return share_of(suspicious, proposals.size(), "carries a finding", "carry a finding",
                    "proposal", "proposals") +
           fmt::format(" ({}): look at them before trusting the figures.", listed(kinds));
}

}  // namespace

std::vector<std::string> diagnose(const std::vector<Candidate>& candidates) {
    std::vector<const Candidate*> proposals;
    for (const Candidate& candidate : candidates)
        if (!is_start(candidate))
            proposals.push_back(&candidate);
    std::vector<std::string> sentences;
    if (proposals.empty())
        return sentences;
    for (const std::string& sentence :
         {about_edits(proposals), about_repeats(proposals), about_status(proposals),
          about_improvement(proposals), about_repair(candidates, proposals), about_noise(proposals),
          about_progress(candidates), about_cuts(proposals), about_findings(proposals)})
        if (!sentence.empty())
            sentences.push_back(sentence);
    return sentences;
}

}  // namespace loopscope
