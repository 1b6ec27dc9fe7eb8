#include "loop/prompts.h"

#include "core/text.h"

#include <fmt/format.h>

namespace loopscope {

namespace {

constexpr std::string_view planner_system =
    "You are a performance engineer who plans the next change to a program. You read the program "
    "and the evidence about "
    "it and decide what to change and why. You do not write the code.";
constexpr std::string_view coder_system =
    "You are a performance engineer who writes correct and fast code. You answer with code that "
    "compiles and keeps the "
    "declared interface.";
constexpr std::string_view summarizer_system =
    "You condense a tool's output for an engineer who has to decide what to change. You keep "
    "numbers, names and lines, and "
    "you add nothing that the output does not say.";

constexpr std::string_view planner_task =
    "Write a plan for the next version: at most five numbered steps, the most valuable first. Name "
    "functions, loops, "
    "variables and lines. If the program is wrong, repair it first. Do not write code.";
constexpr std::string_view coder_task =
    "Write the next version of the program. Answer with the complete text of each file that you "
    "change in one fenced block "
    "whose first line is ```{language} file=NAME, or with the complete editable function alone in "
    "such a block, or with "
    "blocks of the form\n<<<<<<< SEARCH\n(lines as they stand)\n=======\n(new lines)\n>>>>>>> "
    "REPLACE\n"
    "Do not change the declared signature. Everything outside the editable functions stays as it "
    "is; helper functions may "
    "be added before them.";
constexpr std::string_view summarizer_task =
    "Summarise this tool's output in at most eight lines: what it found, where (file, line, loop, "
    "variable), how large it is, "
    "and what follows for the next change.";

std::string fenced(const std::string& language, const std::string& file, const std::string& text) {
    std::string block = fmt::format("```{} file={}\n{}", language, file, text);
    if (!block.ends_with('\n'))
        block += '\n';
    return block + "```\n";
}

std::string program_text(const Task& task, const Program& program) {
    std::string text;
    for (const auto& [file, source] : program.files)
        text += fenced(task.language, file, source);
    return text;
}

std::string interface_text(const Task& task) {
    std::string text = fmt::format("Language: {}.\n", task.language);
    if (task.kernel) {
        text += fmt::format("Entry: extern \"C\" {};\n", declaration_of(*task.kernel));
        std::string sizes;
        for (const Sizes& one : task.kernel->time_sizes)
            sizes += (sizes.empty() ? "" : "; ") + to_text(one);
        text +=
            fmt::format("Timed at: {}. Also verified at other sizes, odd ones included.\n", sizes);
        text += fmt::format("Compiled with: {} {}. Threads: {}.\n", task.build.compiler,
                            fmt::join(task.build.flags, " "), task.kernel->cores);
    }
    for (const EditableFunction& editable : task.editable)
        text += fmt::format("Editable: function {} in {}.\n", editable.function, editable.file);
    if (task.editable.empty())
        text += "Editable: the whole of each file.\n";
    return text;
}

std::string history_text(const std::vector<Attempt>& history) {
    std::string text;
    for (const Attempt& attempt : history) {
        std::string outcome = status_line(attempt.evaluation);
        if (!attempt.edit_error.empty())
            outcome = "refused: " + std::string(shorten(attempt.edit_error, 120));
        const std::vector<std::string> plan = split_lines(attempt.plan);
        text += fmt::format("- {}: {}{}{}\n", attempt.id, outcome,
                            plan.empty() ? "" : "; plan: ", plan.empty() ? "" : plan.front());
    }
    return text;
}

std::vector<Section>::iterator after_program(std::vector<Section>& sections) {
    for (auto section = sections.begin(); section != sections.end(); ++section)
        if (section->name == "program")
            return section + 1;
    return sections.end();
}

void set_task(Prompt& prompt, std::string text) {
    std::erase_if(prompt.sections, [](const Section& section) { return section.name == "task"; });
    prompt.sections.push_back(Section{"task", std::move(text), 0});
}

void add_feedback(Prompt& prompt, const std::vector<Shown>& feedback, std::size_t max_bytes) {
    auto at = after_program(prompt.sections);
    for (const Shown& shown : feedback) {
        Section section;
        section.name = "feedback: " + shown.component;
        section.text = shorten(shown.text, max_bytes, &section.cut_bytes);
        at = prompt.sections.insert(at, std::move(section)) + 1;
    }
}

std::string_view language_of(const Prompt& prompt) {
    for (const Section& section : prompt.sections)
        if (section.name == "program" && section.text.starts_with("```"))
            return std::string_view(section.text).substr(3, section.text.find(' ') - 3);
    return "cpp";
}

std::string coder_task_for(const Prompt& prompt) {
    std::string text(coder_task);
    constexpr std::string_view slot = "{language}";
    text.replace(text.find(slot), slot.size(), language_of(prompt));
    return text;
}

}  // namespace

std::string status_line(const Evaluation& evaluation) {
    if (!evaluation.status)
        return "not evaluated (our own side failed)";
    std::string line =
        fmt::format("{} ({})", name_of(*evaluation.status), name_of(evaluation.reason));
    if (evaluation.speedup)
        line += fmt::format(", {:.2f} times the baseline's speed [{:.2f}, {:.2f}] over {} launches",
                            evaluation.speedup->estimate, evaluation.speedup->low,
                            evaluation.speedup->high, evaluation.speedup->launches);
    for (const auto& [name, value] : evaluation.metrics)
        line += fmt::format(", {} {:.6g}", name, value);
    return line;
}

Prompt base_prompt(const Task& task, const Program& program, const Evaluation& evaluation,
                   const std::vector<Attempt>& history) {
    Prompt prompt;
    prompt.role = Role::coder;
    prompt.system = coder_system;
    prompt.sections.push_back(Section{"objective", task.objective, 0});
    prompt.sections.push_back(Section{"interface", interface_text(task), 0});
    std::string status = status_line(evaluation) + "\n";
    for (const StagedMessage& message : task.messages) {
        const auto score = evaluation.metrics.find("score");
        const double value = score != evaluation.metrics.end() ? score->second
                             : evaluation.speedup              ? evaluation.speedup->estimate
                                                               : 0;
        if (value >= message.from && value < message.to)
            status += message.text + "\n";
    }
    prompt.sections.push_back(Section{"status", status, 0});
    prompt.sections.push_back(Section{"program", program_text(task, program), 0});
    prompt.sections.push_back(Section{"history", history_text(history), 0});
    set_task(prompt, coder_task_for(prompt));
    return prompt;
}

Prompt planner_prompt(const Prompt& base, const std::vector<Shown>& feedback,
                      std::size_t max_bytes) {
    Prompt prompt = base;
    prompt.role = Role::planner;
    prompt.system = planner_system;
    add_feedback(prompt, feedback, max_bytes);
    set_task(prompt, std::string(planner_task));
    return prompt;
}

Prompt coder_prompt(const Prompt& base, const std::string& plan, const std::vector<Shown>& feedback,
                    std::size_t max_bytes) {
    Prompt prompt = base;
    prompt.role = Role::coder;
    add_feedback(prompt, feedback, max_bytes);
    std::erase_if(prompt.sections, [](const Section& section) { return section.name == "task"; });
    if (!plan.empty())
        prompt.sections.push_back(Section{"plan", plan, 0});
    set_task(prompt, coder_task_for(prompt));
    return prompt;
}

Prompt summarizer_prompt(const Prompt& base, const Shown& feedback, std::size_t max_bytes) {
    Prompt prompt;
    prompt.role = Role::summarizer;
    prompt.system = summarizer_system;
    for (const Section& section : base.sections)
        if (section.name == "interface" || section.name == "program")
            prompt.sections.push_back(section);
    add_feedback(prompt, {feedback}, max_bytes * 4);  // a summary may read more than a prompt shows
    set_task(prompt, std::string(summarizer_task));
    return prompt;
}

}  // namespace loopscope
