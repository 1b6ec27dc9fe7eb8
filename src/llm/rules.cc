#include "llm/rules.h"

#include "core/async.h"
#include "core/hash.h"
#include "core/rng.h"
#include "core/text.h"
#include "llm/model.h"
#include "llm/rules_facts.h"
#include "llm/rules_plan.h"
#include "program/edit.h"
#include "program/token.h"
#include "record/prompt.h"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace loopscope {
namespace {

struct SourceFile {
    std::string name, language, text;
    std::vector<std::string> functions;  // the editable ones that are defined here
};

std::uint64_t seed_of(const ModelRequest& request) {
    std::string all(name_of(request.role));
    for (const Message& message : request.messages)
        all += fmt::format("\n{} {} {}\n{}", message.role.size(), message.content.size(),
                           message.role, message.content);
    all += "\n" + request.draw;
    const std::string digits = sha256_hex(all).substr(0, 16);
    std::uint64_t seed = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), seed, 16);
    return seed;
}

// The files of a program section: fenced blocks with file=NAME in their info line.
std::vector<SourceFile> files_of(std::string_view section) {
    std::vector<SourceFile> files;
    bool inside = false;
    for (const std::string& line : split_lines(section)) {
        if (line.substr(0, 3) == "```") {
            if (!inside) {
                SourceFile file;
                file.language = line.substr(3, line.find_first_of(" \r", 3) == std::string::npos
                                                   ? std::string::npos
                                                   : line.find_first_of(" \r", 3) - 3);
                const std::size_t mark = line.find("file=");
                if (mark != std::string::npos)
                    file.name = std::string(trim(std::string_view(line).substr(mark + 5)));
                files.push_back(std::move(file));
            }
            inside = !inside;
        } else if (inside) {
            files.back().text += line + "\n";
        }
    }
    return files;
}

// Every function that a source defines, in order.
std::vector<std::string> defined_in(std::string_view source) {
    std::vector<std::string> out;
    for (const Token& token : code_tokens(source)) {
        if (token.kind != TokenKind::identifier)
            continue;
        const std::string name(token.text);
        if (std::find(out.begin(), out.end(), name) != out.end())
            continue;
        const std::size_t end = token.offset + token.text.size();
        const std::size_t next = source.find_first_not_of(" \t\r\n", end);
        if (next != std::string_view::npos && source[next] == '(' && find_function(source, name))
            out.push_back(name);
    }
    return out;
}

bool has_word(std::string_view text, std::string_view word) {
    const std::vector<Token> tokens = code_tokens(text);
    return std::any_of(tokens.begin(), tokens.end(),
                       [&](const Token& t) { return t.text == word; });
}

// The functions that may be edited, by the words of the interface: "Editable: function matmul in
// matmul.cc."; else those that it names at all; else all of them.
void find_editable(std::vector<SourceFile>& files, std::string_view interface) {
    std::string editable;
    for (const std::string& line : split_lines(interface))
        if (starts_with_word(trim(line), "Editable"))
            editable += line + "\n";
    for (SourceFile& file : files) {
        const std::vector<std::string> all = defined_in(file.text);
        for (const std::string_view words : {std::string_view(editable), interface})
            if (file.functions.empty())
                for (const std::string& name : all)
                    if (has_word(words, name))
                        file.functions.push_back(name);
        if (file.functions.empty())
            file.functions = all;
    }
}

struct Prompted {
    std::vector<SourceFile> files;
    rules::Facts facts;
    std::string plan;
};

Prompted read_prompt(const ModelRequest& request) {
    Prompted out;
    std::string_view user;
    for (const Message& message : request.messages)
        if (message.role == "user")
            user = message.content;
    const std::vector<Section> sections = parse_sections(user);
    out.files = files_of(section_text(sections, "program"));
    find_editable(out.files, section_text(sections, "interface"));
    std::erase_if(out.files, [](const SourceFile& f) {
        return f.functions.empty() || f.language == "python" || f.language == "text";
    });
    out.facts = rules::facts_of(user);
    out.plan = std::string(section_text(sections, "plan"));
    return out;
}

// The file to work on: one drawn from those with editable functions.
const SourceFile* choose_file(const Prompted& prompt, Rng& rng) {
    return prompt.files.empty() ? nullptr : &prompt.files[rng.below(prompt.files.size())];
}

std::string plan_answer(const Prompted& prompt, Rng rng) {
    const SourceFile* file = choose_file(prompt, rng);
    if (file == nullptr)
        return "1. Leave the program as it is: there is no C or C++ function here that these rules "
               "can read.\n";
    const rules::Decision decision =
        rules::decide(file->text, file->functions, prompt.facts, rng.fork("decide"));
    if (decision.steps.empty())
        return "1. Leave the program as it is: none of the known transformations applies.\n";
    std::string out;
    for (std::size_t i = 0; i < decision.steps.size(); ++i)
        out += fmt::format("{}. {}\n", i + 1, rules::sentence(decision.steps[i]));
    out += "\n";
    for (std::size_t i = 0; i < decision.reasons.size(); ++i)
        out += fmt::format("Because (step {}): {}.\n", i + 1, decision.reasons[i]);
    return out;
}

std::string whole_file(const SourceFile& file, const std::string& text, const std::string& said) {
    return fmt::format("{}\n\n```{} file={}\n{}```\n", said,
                       file.language.empty() ? "cpp" : file.language, file.name, text);
}

std::string code_answer(const Prompted& prompt, Rng rng) {
    const SourceFile* file = choose_file(prompt, rng);
    if (file == nullptr)
        return "There is no C or C++ function here that these rules can read, so there is nothing "
               "to change.\n";
    std::string text = file->text;
    std::string said;
    std::string refused;
    if (!prompt.plan.empty()) {
        // The plan decides which file is meant.
        for (const SourceFile& candidate : prompt.files)
            if (!said.empty())
                break;
            else
                for (const rules::Action& step :
                     rules::read_plan(prompt.plan, candidate.text, candidate.functions)) {
                    const std::string& before = said.empty() ? candidate.text : text;
                    const rules::Applied applied = rules::apply(before, step, false);
                    if (!applied.source) {
                        refused += fmt::format(" Not possible: {} ({})", rules::sentence(step),
                                               applied.why);
                        continue;
                    }
                    file = &candidate;
                    text = *applied.source;
                    said += (said.empty() ? "" : " ") + rules::sentence(step);
                }
    }
    if (said.empty()) {
        const rules::Decision decision =
            rules::decide(file->text, file->functions, prompt.facts, rng.fork("decide"));
        for (const rules::Action& step : decision.steps)
            if (const rules::Applied applied = rules::apply(text, step, false); applied.source) {
                text = *applied.source;
                said += (said.empty() ? "" : " ") + rules::sentence(step);
            }
    }
    if (said.empty())
        return "None of the known transformations applies." + refused + "\n";
    return whole_file(*file, text, said + refused);
}

std::string summary_answer(const ModelRequest& request) {
    std::string_view user;
    for (const Message& message : request.messages)
        if (message.role == "user")
            user = message.content;
    constexpr std::string_view prefix = "feedback: ";
    for (const Section& section : parse_sections(user))
        if (section.name.substr(0, prefix.size()) == prefix)
            return rules::key_lines(std::string_view(section.name).substr(prefix.size()),
                                    section.text);
    return "There is no feedback to summarise.\n";
}

class Rules : public Model {
public:
    awaitable<ModelOutcome> complete(ModelRequest request) override {
        ModelReply reply;
        reply.text = rules_answer(request);
        reply.finish_reason = "stop";
        reply.reported_model = id();
        reply.cost = 0.0;
        co_return reply;
    }
    std::string id() const override { return "builtin:rules"; }
    bool builtin() const override { return true; }
    std::optional<double> price(std::int64_t, std::int64_t) const override { return 0.0; }
};

}  // namespace

std::string rules_answer(const ModelRequest& request) {
    if (request.role == Role::summarizer)
        return summary_answer(request);
    const Prompted prompt = read_prompt(request);
    const Rng rng(seed_of(request));
    return request.role == Role::planner ? plan_answer(prompt, rng.fork("plan"))
                                         : code_answer(prompt, rng.fork("code"));
}

std::unique_ptr<Model> open_rules() { return std::make_unique<Rules>(); }

}  // namespace loopscope
