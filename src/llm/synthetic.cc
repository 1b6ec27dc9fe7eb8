// The planner writes down which feedback it was shown and whether it had a good idea; the coder
// succeeds with the probability that the truth gives this coalition in this context. Everything is
// a function of (messages, draw).
#include "llm/synthetic.h"

#include "core/file.h"
#include "core/hash.h"
#include "core/rng.h"
#include "core/text.h"
#include "record/truth.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

namespace loopscope {

namespace {

constexpr std::string_view built_in_truth = R"({
  "players": ["debugger", "analyzer", "profiler"],
  "pass": [{"players": [], "effect": 0.3}, {"players": ["debugger"], "effect": 0.2},
           {"players": ["analyzer"], "effect": 0.15}, {"players": ["debugger", "analyzer"], "effect": -0.05}],
  "gain": [{"players": [], "effect": 0.1}, {"players": ["analyzer"], "effect": 0.1}],
  "context": {"support": [-1, 0, 1], "weights": [0.25, 0.5, 0.25], "level": 0.1, "relative": 0.3},
  "plan_spread": 0.1})";

std::uint64_t bits_of(std::string_view text) {
    return std::strtoull(sha256_hex(text).substr(0, 16).c_str(), nullptr, 16);
}

// The text between the fences of the first block of the program section, without the line that says
// its name.
std::string program_of(std::string_view section) {
    std::string text;
    bool inside = false;
    for (const std::string& line : split_lines(section)) {
        if (line.starts_with("```")) {
            if (inside)
                break;
            inside = true;
            continue;
        }
        if (inside)
            text += line + "\n";
    }
    return text;
}

std::string file_of(std::string_view section) {
    const std::size_t at = section.find("file=");
    if (at == std::string_view::npos)
        return "";
    const std::string_view rest = section.substr(at + 5);
    return std::string(trim(rest.substr(0, rest.find('\n'))));
}

struct Idea {
    std::uint32_t coalition = 0;
    bool lucky = false;
};

Idea idea_from_feedback(const Truth& truth, const std::vector<Section>& sections,
                        std::uint64_t draw) {
    Idea idea;
    for (std::size_t i = 0; i < truth.players.size(); ++i)
        if (!section_text(sections, "feedback: " + truth.players[i]).empty())
            idea.coalition |= std::uint32_t{1} << i;
    idea.lucky = (Rng(draw).fork("luck").next() & 1U) != 0;
    return idea;
}

Idea idea_from_plan(std::string_view plan) {
    Idea idea;
    const std::size_t at = plan.find("coalition ");
    if (at != std::string_view::npos)
        idea.coalition = static_cast<std::uint32_t>(
            std::strtoul(std::string(plan.substr(at + 10)).c_str(), nullptr, 10));
    idea.lucky = plan.find("good idea") != std::string_view::npos;
    return idea;
}

std::string synthetic_answer(const Truth& truth, const ModelRequest& request) {
    std::string prompt;
    for (const Message& message : request.messages)
        if (message.role == "user")
            prompt += message.content;
    const std::vector<Section> sections = parse_sections(prompt);
    const std::uint64_t draw = bits_of(prompt + "\n" + request.draw);
    if (request.role == Role::summarizer) {
        for (const Section& section : sections)
            if (section.name.starts_with("feedback: "))
                return section.text;
        return "nothing to summarise";
    }
    if (request.role == Role::planner) {
        const Idea idea = idea_from_feedback(truth, sections, draw);
        return fmt::format("1. With the evidence of coalition {}: a {} idea.", idea.coalition,
                           idea.lucky ? "good" : "poor");
    }
    const std::string_view plan = section_text(sections, "plan");
    const Idea idea =
        plan.empty() ? idea_from_feedback(truth, sections, draw) : idea_from_plan(plan);
    const std::string_view program_section = section_text(sections, "program");
    const std::string program = program_of(program_section);
    const double u = context_effect(truth, bits_of(program));
    Rng rng = Rng(draw).fork("outcome");
    const bool passes = rng.unit() < success_probability(truth, idea.coalition, u, idea.lucky);
    // Half or one and a half times the mean gain, so that the mean is the truth's; few values, so
    // that equal programs are evaluated once.
    const double gain =
        passes ? gain_when_passing(truth, idea.coalition, u) * ((rng.next() & 1U) != 0 ? 1.5 : 0.5)
               : 0;
    // A new state with an effect of its own. It depends on the history, which grows in a run and
    // stands still in a frozen context: there it is one of three, so that equal programs are
    // evaluated once.
    const std::string successor =
        fmt::format("{}/{}/{}", program, section_text(sections, "history"), rng.below(3));
    const std::string state = sha256_hex(successor).substr(0, 12);
    return fmt::format("```text file={}\nstate {}\noutcome {}\ngain {:.4f}\n```\n",
                       file_of(program_section), state, passes ? "pass" : "compile", gain);
}

class SyntheticModel : public Model {
public:
    explicit SyntheticModel(Truth truth, std::string id)
        : truth_(std::move(truth)), id_(std::move(id)) {}
    awaitable<ModelOutcome> complete(ModelRequest request) override {
        ModelReply reply;
        reply.text = synthetic_answer(truth_, request);
        reply.finish_reason = "stop";
        reply.cost = 0;
        reply.reported_model = id_;
        for (const Message& message : request.messages)
            reply.usage.input_tokens += static_cast<std::int64_t>(message.content.size() / 4);
        reply.usage.output_tokens = static_cast<std::int64_t>(reply.text.size() / 4);
        reply.usage.known = true;
        ModelOutcome outcome(std::move(reply));
        co_return outcome;
    }
    std::string id() const override { return id_; }
    bool builtin() const override { return true; }
    std::optional<double> price(std::int64_t, std::int64_t) const override { return 0; }

private:
    Truth truth_;
    std::string id_;
};

}  // namespace

Result<std::unique_ptr<Model>> open_synthetic(std::string_view truth_file) {
    std::string text(built_in_truth);
    if (!truth_file.empty()) {
        Result<std::string> read = read_file(std::string(truth_file));
        if (!read)
            return tl::unexpected<Error>(read.error());
        text = std::move(*read);
    }
    Result<Truth> truth = parse_truth(text);
    if (!truth)
        return fail(truth_file.empty() ? truth.error().where
                                       : fmt::format("{}: {}", truth_file, truth.error().where),
                    truth.error().what);
    // The truth is part of the model's identity: another truth is another model in the journal's
    // keys.
    const std::string id = truth_file.empty()
                               ? "builtin:synthetic"
                               : "builtin:synthetic#" + sha256_hex(text).substr(0, 8);
    return std::make_unique<SyntheticModel>(std::move(*truth), id);
}

}  // namespace loopscope
