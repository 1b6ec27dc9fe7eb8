#include "trajectory/freeze.h"

#include "core/hash.h"
#include "core/rng.h"
#include "program/edit.h"
#include "record/codec.h"

#include <map>
#include <set>

namespace loopscope {

namespace {

std::string context_id(const Program& program, const Prompt& prompt) {
    return sha256_hex(encode(program) + "\n" + render(prompt)).substr(0, 16);
}

// The recorded coder prompt without what an intervention puts in itself.
Prompt without_feedback(const Prompt& recorded) {
    Prompt base = recorded;
    std::erase_if(base.sections, [](const Section& section) {
        return section.name == "plan" || section.name.starts_with("feedback: ");
    });
    return base;
}

// `count` of the contexts, spread over the generations: one of each in turn, chosen by the seed
// within it.
std::vector<Context> spread(std::vector<Context> contexts, std::size_t count, std::uint64_t seed) {
    if (count == 0 || contexts.size() <= count)
        return contexts;
    std::map<int, std::vector<std::size_t>> by_generation;
    for (std::size_t i = 0; i < contexts.size(); ++i)
        by_generation[contexts[i].generation].push_back(i);
    Rng rng = Rng(seed).fork("freeze");
    for (auto& [generation, members] : by_generation)
        for (std::size_t i = members.size(); i > 1; --i)
            std::swap(members[i - 1], members[rng.below(i)]);
    std::set<std::size_t> chosen;
    for (std::size_t round = 0; chosen.size() < count; ++round)
        for (const auto& [generation, members] : by_generation)
            if (round < members.size() && chosen.size() < count)
                chosen.insert(members[round]);
    std::vector<Context> kept;
    for (const std::size_t index : chosen)
        kept.push_back(std::move(contexts[index]));
    return kept;
}

}  // namespace

Trajectory freeze(const std::vector<Candidate>& candidates, const std::vector<std::string>& starts,
                  const FreezeConfig& config,
                  const std::function<Prompt(const Candidate&)>& base_prompt) {
    std::map<std::string, const Candidate*> by_id;
    std::map<std::string, const Candidate*> first_child;
    for (const Candidate& candidate : candidates) {
        by_id[candidate.id] = &candidate;
        if (!candidate.parent.empty() && !candidate.prompt.sections.empty())
            first_child.emplace(candidate.parent, &candidate);
    }
    const auto parent_of = [&](const Candidate* candidate) -> const Candidate* {
        const auto found = by_id.find(candidate->parent);
        return candidate->parent.empty() || found == by_id.end() ? nullptr : found->second;
    };
    std::vector<Context> contexts;
    std::set<std::string> seen;
    for (const Candidate& candidate : candidates) {
        if (candidate.program.files.empty() || !candidate.evaluation.status)
            continue;
        const auto child = first_child.find(candidate.id);
        const bool failed = *candidate.evaluation.status < Status::pass;
        if (config.select == FreezeConfig::Select::parents && child == first_child.end() && !failed)
            continue;
        if (!seen.insert(normal_form(candidate.program)).second)
            continue;
        Context context;
        context.generation = candidate.generation;
        context.candidate = candidate.id;
        context.program = candidate.program;
        context.evaluation = candidate.evaluation;
        context.prompt = child != first_child.end() ? without_feedback(child->second->prompt)
                                                    : base_prompt(candidate);
        context.id = context_id(context.program, context.prompt);
        const Candidate* branch = &candidate;
        const Candidate* root = &candidate;
        while (const Candidate* parent = parent_of(root)) {
            branch = root;
            root = parent;
        }
        context.lineage = branch->id;
        const std::size_t index =
            root->id.starts_with('s') ? std::stoul(root->id.substr(1)) : starts.size();
        context.start = index < starts.size() ? starts[index] : "";
        contexts.push_back(std::move(context));
    }
    Trajectory trajectory;
    trajectory.contexts =
        spread(std::move(contexts), static_cast<std::size_t>(config.max_contexts), config.seed);
    return trajectory;
}

std::string identify(const Trajectory& trajectory) {
    std::string identity = trajectory.source;
    for (const Context& context : trajectory.contexts)
        identity += "\n" + context.id;
    return "t" + sha256_hex(identity).substr(0, 10);
}

}  // namespace loopscope
