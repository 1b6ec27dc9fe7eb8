#include "evaluate/task.h"

#include "core/file.h"
#include "core/text.h"
#include "evaluate/expression.h"
#include "evaluate/task_kernel.h"
#include "evaluate/task_section.h"
#include "program/edit.h"
#include "record/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace loopscope {
namespace {

constexpr std::size_t max_data_bytes = 256UL << 20U;  // of a data set

const std::vector<std::string> builtin_components = {"debugger", "analyzer", "profiler"};

// Artifact and starts

void read_artifact(Reading& reading, const toml::table* table, Task& task) {
    const TaskSection section(reading, table, "[artifact]",
                              {"language", "files", "editable", "support"});
    task.language =
        section.choice("language", "cpp", {"cpp", "c", "cuda", "opencl", "python", "text"});
    section.require("files");
    task.files = section.distinct_texts("files");
    if (section.has("files") && task.files.empty())
        reading.fault(section.line("files"),
                      "\"files\" in [artifact] is empty: an artifact has at least one file");
    for (const std::string& file : task.files)
        if (const std::string bad = fault_of_path(file); !bad.empty())
            reading.fault(section.line("files"),
                          fmt::format("\"files\" in [artifact]: the path \"{}\" {}", file, bad));
    for (const std::string& text : section.distinct_texts("editable")) {
        const std::size_t colon = text.rfind(':');
        EditableFunction editable;
        if (colon == std::string::npos && task.files.size() == 1) {
            editable.file = task.files[0];
            editable.function = text;
        } else if (colon != std::string::npos) {
            editable.file = text.substr(0, colon);
            editable.function = text.substr(colon + 1);
        } else {
            reading.fault(section.line("editable"),
                          fmt::format("\"editable\": \"{}\" must be written FILE:FUNCTION", text));
            continue;
        }
        if (std::find(task.files.begin(), task.files.end(), editable.file) == task.files.end())
            reading.fault(
                section.line("editable"),
                fmt::format("\"editable\": \"{}\" is not a file of the artifact{} Its files: {}",
                            editable.file, hint(editable.file, task.files), join(task.files)));
        if (!is_identifier(editable.function))
            reading.fault(section.line("editable"),
                          fmt::format("\"editable\": \"{}\" is not the name of a function",
                                      editable.function));
        if (task.language == "text")
            reading.fault(section.line("editable"),
                          "\"editable\" names functions, which an artifact of language \"text\" "
                          "has not; remove it: the whole files may be edited");
        task.editable.push_back(std::move(editable));
    }
    for (const std::string& file : section.distinct_texts("support")) {
        if (std::find(task.files.begin(), task.files.end(), file) != task.files.end())
            reading.fault(section.line("support"),
                          fmt::format("\"support\": \"{}\" is a file of the artifact too", file));
        task.support[file] = reading.load(file, section.line("support"), "[artifact] support");
    }
}

const std::vector<std::string>& reasons() {
    static const std::vector<std::string> all = [] {
        std::vector<std::string> names;
        for (const Reason reason :
             {Reason::ok, Reason::edit, Reason::build_error, Reason::link_error, Reason::policy,
              Reason::wrong_output, Reason::no_answer, Reason::crash, Reason::timeout,
              Reason::resource, Reason::memory, Reason::not_faster, Reason::no_difference_shown,
              Reason::implausible})
            names.emplace_back(name_of(reason));
        return names;
    }();
    return all;
}

// The statuses that a reason can come with (docs/design.md, "Verdicts").
bool belongs(const std::string& reason, const std::string& status) {
    static const std::map<std::string, std::vector<std::string>> table = {
        {"fail", {"edit", "build_error", "link_error", "policy"}},
        {"compile",
         {"wrong_output", "no_answer", "crash", "timeout", "resource", "memory", "policy"}},
        {"pass", {"not_faster", "no_difference_shown", "implausible"}},
        {"fast", {"ok"}},
    };
    const auto found = table.find(status);
    return found != table.end() &&
           std::find(found->second.begin(), found->second.end(), reason) != found->second.end();
}

Start read_start(Reading& reading, const toml::table& table, const std::string& name,
                 const Task& task) {
    const TaskSection section(reading, &table, fmt::format("[start.{}]", name),
                              {"file", "files", "language", "expect", "expect_reason", "note"});
    Start start;
    start.name = name;
    start.language = section.text("language", task.language);
    if (start.language != task.language)
        reading.fault(section.line("language"),
                      fmt::format("start \"{}\" is in {}, the artifact in {}: a task has one "
                                  "language; make a second task folder for the other",
                                  name, start.language, task.language));
    start.note = section.text("note");
    start.expect = section.choice("expect", "", {"fail", "compile", "pass", "fast"});
    start.expect_reason = section.choice("expect_reason", "", reasons());
    if (section.has("expect_reason") && !belongs(start.expect_reason, start.expect))
        reading.fault(section.line("expect_reason"),
                      fmt::format("start \"{}\": the status \"{}\" never has the reason \"{}\"",
                                  name, start.expect, start.expect_reason));

    std::map<std::string, std::string> files;  // the artifact's name -> path
    if (section.has("file") && section.has("files"))
        reading.fault(section.line("files"),
                      fmt::format("start \"{}\" has both \"file\" and \"files\"; give one", name));
    else if (section.has("file") && task.files.size() != 1)
        reading.fault(section.line("file"), fmt::format("start \"{}\": the artifact has {} files; "
                                                        "write files = {{ \"{}\" = \"...\", ... }}",
                                                        name, task.files.size(),
                                                        task.files.empty() ? "" : task.files[0]));
    else if (section.has("file"))
        files[task.files[0]] = section.required_text("file");
    else if (section.has("files"))
        files = section.pairs("files");
    else
        reading.fault(
            section.line(),
            fmt::format("start \"{}\" needs \"file\", or \"files\" when the artifact has several",
                        name));
    for (const auto& [file, path] : files)
        if (std::find(task.files.begin(), task.files.end(), file) == task.files.end())
            reading.fault(
                section.line("files"),
                fmt::format("start \"{}\": \"{}\" is not a file of the artifact{} Its files: {}",
                            name, file, hint(file, task.files), join(task.files)));
    for (const std::string& file : task.files) {
        const auto found = files.find(file);
        if (found == files.end()) {
            reading.fault(
                section.line("files"),
                fmt::format("start \"{}\" gives no text for the artifact's file {}", name, file));
            continue;
        }
        start.files.push_back(found->second);
        start.program.files[file] =
            reading.load(found->second, section.line(section.has("file") ? "file" : "files"),
                         fmt::format("[start.{}]", name));
    }
    if (reading.error)
        return start;
    for (const EditableFunction& editable : task.editable) {
        const std::string& text = start.program.files.at(editable.file);
        if (is_c_family(task.language)) {
            const Result<FunctionSpan> span = find_function(text, editable.function);
            if (!span)
                reading.fault(section.line(),
                              fmt::format("start \"{}\": the editable function {}:{}: {}", name,
                                          editable.file, editable.function, to_text(span.error())));
        } else if (text.find(fmt::format("def {}(", editable.function)) == std::string::npos) {
            reading.fault(section.line(), fmt::format("start \"{}\": no \"def {}(\" in {}, but "
                                                      "[artifact] says that function may be edited",
                                                      name, editable.function, editable.file));
        }
    }
    return start;
}

// The rest

BuildSpec read_build(Reading& reading, const toml::table* table) {
    const TaskSection section(reading, table, "[build]",
                              {"compiler", "flags", "link", "command", "output"});
    BuildSpec build;
    build.compiler = section.text("compiler", build.compiler);
    if (trim(build.compiler).empty() || build.compiler.find(' ') != std::string::npos)
        reading.fault(section.line("compiler"),
                      "\"compiler\" in [build] is one program; options belong into \"flags\"");
    build.flags = section.texts("flags", build.flags);
    build.link = section.distinct_texts("link");
    for (const std::string& library : build.link)
        if (library.starts_with('-') || library.find('/') != std::string::npos)
            reading.fault(section.line("link"),
                          fmt::format("\"link\" in [build] names libraries, like \"m\" for -lm; "
                                      "\"{}\" is an option or a path",
                                      library));
    build.command = section.text("command");
    build.output = section.text("output");
    if (section.has("command") != section.has("output"))
        reading.fault(section.line(),
                      "[build]: \"command\" and \"output\" belong together: the command must leave "
                      "the shared object that \"output\" names");
    if (section.has("command")) {
        if (section.has("link"))
            reading.fault(section.line("link"),
                          "\"link\" in [build] has no effect beside \"command\"; put the libraries "
                          "into the command");
        build.command = section.required_text("command");
        if (const std::string bad = fault_of_path(build.output); !bad.empty())
            reading.fault(
                section.line("output"),
                fmt::format("\"output\" in [build]: the path \"{}\" {}", build.output, bad));
    }
    return build;
}

Limits read_limits(Reading& reading, const toml::table* table) {
    const TaskSection section(reading, table, "[limits]",
                              {"build_seconds", "verify_seconds", "time_seconds", "memory_mb",
                               "processes", "output_kb", "file_mb"});
    Limits limits;
    limits.build_seconds = section.positive("build_seconds", limits.build_seconds);
    limits.verify_seconds = section.positive("verify_seconds", limits.verify_seconds);
    limits.time_seconds = section.positive("time_seconds", limits.time_seconds);
    limits.memory_mb = section.count("memory_mb", limits.memory_mb, std::int64_t{1} << 24U);
    limits.processes = static_cast<int>(section.count("processes", limits.processes, 100'000));
    limits.output_kb = section.count("output_kb", limits.output_kb, std::int64_t{1} << 20U);
    limits.file_mb = section.count("file_mb", limits.file_mb, std::int64_t{1} << 20U);
    return limits;
}

FeedbackSpec read_feedback(Reading& reading, const toml::table* table) {
    const TaskSection section(reading, table, "[feedback]", {"components", "max_bytes", "command"});
    FeedbackSpec feedback;
    std::vector<std::string> known = builtin_components;
    if (const toml::table* commands = section.table("command"))
        for (const auto& [key, node] : *commands) {
            const std::string name(key.str());
            if (!node.is_table()) {
                reading.fault(node, fmt::format("[feedback.command.{}] must be a table, not {}",
                                                name, kind_of(node)));
                continue;
            }
            if (std::find(builtin_components.begin(), builtin_components.end(), name) !=
                builtin_components.end())
                reading.fault(node, fmt::format("[feedback.command.{}]: \"{}\" is a built-in "
                                                "component; choose another name",
                                                name, name));
            if (!is_identifier(name))
                reading.fault(
                    node, fmt::format(
                              "[feedback.command.{}]: the name may have letters, digits and _ only",
                              name));
            const TaskSection command(reading, node.as_table(),
                                      fmt::format("[feedback.command.{}]", name), {"argv"});
            feedback.commands[name] = command.argv("argv");
            known.push_back(name);
        }
    std::vector<std::string> all = feedback.components;
    for (const auto& [name, argv] : feedback.commands)
        all.push_back(name);
    feedback.components = section.distinct_texts("components", all);
    for (const std::string& name : feedback.components)
        if (std::find(known.begin(), known.end(), name) == known.end())
            reading.fault(section.line("components"),
                          fmt::format("unknown component \"{}\" in [feedback]{} Known: {}; your "
                                      "own needs a [feedback.command.{}]",
                                      name, hint(name, known), join(known), name));
    feedback.max_bytes = static_cast<std::size_t>(
        section.count("max_bytes", static_cast<std::int64_t>(feedback.max_bytes), 1'000'000));
    return feedback;
}

std::vector<StagedMessage> read_messages(Reading& reading, const toml::array* array) {
    std::vector<StagedMessage> messages;
    if (array == nullptr)
        return messages;
    for (const toml::node& element : *array) {
        const TaskSection section(reading, element.as_table(), "[[message]]",
                                  {"from", "to", "text"});
        StagedMessage message;
        if (section.has("from"))
            message.from = section.number("from", 0);
        if (section.has("to"))
            message.to = section.number("to", 0);
        message.text = section.required_text("text");
        if (!(message.from < message.to))
            reading.fault(element, fmt::format("[[message]]: \"from\" {} must be below \"to\" {}",
                                               message.from, message.to));
        for (const StagedMessage& other : messages)
            if (message.from < other.to && other.from < message.to)
                reading.fault(
                    element,
                    fmt::format("[[message]]: the range from {} to {} overlaps that of \"{}\"",
                                message.from, message.to, other.text));
        messages.push_back(std::move(message));
    }
    return messages;
}

Splits read_splits(Reading& reading, const toml::table* table) {
    const TaskSection section(reading, table, "[splits]",
                              {"train", "validation", "shadow", "test", "group"});
    Splits splits;
    for (const auto& [key, target] : {std::pair<const char*, std::string*>{"train", &splits.train},
                                      {"validation", &splits.validation},
                                      {"shadow", &splits.shadow},
                                      {"test", &splits.test},
                                      {"group", &splits.group}})
        if (section.has(key))
            *target = section.required_text(key);
    return splits;
}
void read_evaluator(Reading& reading, const TaskSection& top, Task& task,
                    std::size_t& arguments_line) {
    const TaskSection evaluator(reading, top.table("evaluator"), "[evaluator]", {"kind"});
    const std::string kind =
        evaluator.choice("kind", "kernel", {"kernel", "command", "python", "qa"});
    if (top.has("evaluator"))
        evaluator.require("kind");
    for (const char* section : {"kernel", "command", "python", "qa"}) {
        if (kind == section && !top.has(section))
            reading.fault(
                evaluator.line(),
                fmt::format("an evaluator of kind \"{}\" needs a section [{}]", kind, section));
        if (kind != section && top.has(section))
            reading.fault(top.line(section),
                          fmt::format("the section [{}] does not belong to an evaluator of kind "
                                      "\"{}\"; remove it, or set [evaluator] kind = \"{}\"",
                                      section, kind, section));
    }
    if (kind != "kernel")
        for (const char* section : {"build", "peer"})
            if (top.has(section))
                reading.fault(
                    top.line(section),
                    fmt::format(
                        "the section [{}] belongs to an evaluator of kind \"kernel\", not \"{}\"",
                        section, kind));
    if (kind == "kernel" || kind == "command")
        if (top.has("splits"))
            reading.fault(
                top.line("splits"),
                fmt::format("[splits] is for evaluators with examples (python, qa), not for \"{}\"",
                            kind));
    if (reading.error)
        return;

    if (kind == "kernel") {
        task.kind = EvaluatorKind::kernel;
        if (!is_c_family(task.language))
            reading.fault(
                top.line("artifact"),
                fmt::format("a kernel cannot be of language \"{}\"; accepted: cpp, c, cuda, opencl",
                            task.language));
        task.kernel =
            read_kernel(reading, top.table("kernel"), task.limits.memory_mb, arguments_line);
        if (!reading.error)
            check_reference(reading, *task.kernel, top.line("kernel"));
    } else if (kind == "command") {
        task.kind = EvaluatorKind::command;
        const TaskSection section(reading, top.table("command"), "[command]",
                                  {"argv", "timeout_seconds"});
        task.command.emplace();
        task.command->argv = section.argv("argv");
        task.command->timeout_seconds =
            section.positive("timeout_seconds", task.command->timeout_seconds);
    } else if (kind == "python") {
        task.kind = EvaluatorKind::python;
        if (task.language != "python")
            reading.fault(top.line("artifact"),
                          fmt::format("an evaluator of kind \"python\" needs [artifact] language = "
                                      "\"python\", not \"{}\"",
                                      task.language));
        const TaskSection section(reading, top.table("python"), "[python]",
                                  {"mode", "file", "entry", "timeout_seconds"});
        PythonSpec spec;
        spec.mode = section.choice("mode", spec.mode, {"function", "module", "environment"});
        spec.file = section.required_text("file");
        spec.entry = section.text("entry", spec.mode == "module" ? "evaluate" : "");
        if (spec.mode != "module")
            spec.entry = section.required_text("entry");
        spec.timeout_seconds = section.positive("timeout_seconds", spec.timeout_seconds);
        spec.text = reading.load(spec.file, section.line("file"), "[python] file");
        task.python = std::move(spec);
    } else {
        task.kind = EvaluatorKind::qa;
        const TaskSection section(reading, top.table("qa"), "[qa]",
                                  {"data", "question", "answer", "match"});
        QaSpec spec;
        spec.data = section.required_text("data");
        spec.question = section.text("question", spec.question);
        spec.answer = section.text("answer", spec.answer);
        spec.match = section.choice("match", spec.match, {"exact", "number", "choice", "contains"});
        spec.text = reading.load(spec.data, section.line("data"), "[qa] data", max_data_bytes);
        task.qa = std::move(spec);
    }
}

void read_starts(Reading& reading, const TaskSection& top, Task& task, std::size_t arguments_line) {
    const toml::table* starts = top.table("start");
    if (starts == nullptr || starts->empty())
        return reading.fault(0,
                             "no start: an artifact needs at least one initial version, "
                             "[start.NAME] with file = \"...\"");
    for (const auto& [key, node] : *starts) {
        const std::string name(key.str());
        if (!node.is_table()) {
            reading.fault(node,
                          fmt::format("[start.{}] must be a table, not {}", name, kind_of(node)));
            continue;
        }
        if (!is_identifier(name))
            reading.fault(
                node,
                fmt::format("[start.{}]: the name may have letters, digits and _ only", name));
        Start start = read_start(reading, *node.as_table(), name, task);
        if (!reading.error && task.kernel && !start.program.files.empty() &&
            is_c_family(task.language))
            check_entry(reading, task, *task.kernel, start, node.source().begin.line,
                        arguments_line);
        task.starts[name] = std::move(start);
    }
    if (!task.starts.contains(task.baseline)) {
        std::vector<std::string> names;
        for (const auto& [name, start] : task.starts)
            names.push_back(name);
        reading.fault(top.line("baseline"),
                      fmt::format("the baseline \"{}\" is not a start{} Starts: {}", task.baseline,
                                  hint(task.baseline, names), join(names)));
    } else if (const std::string& expect = task.starts[task.baseline].expect;
               !expect.empty() && expect != "pass") {
        reading.fault(top.line("baseline"),
                      fmt::format("the baseline \"{}\" expects the status \"{}\", but a baseline "
                                  "is what speed-ups refer to: it must pass",
                                  task.baseline, expect));
    }
}

}  // namespace

std::string to_text(const Sizes& sizes) {
    std::string text;
    for (const auto& [name, value] : sizes)
        text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
    return text;
}

Result<Task> parse_task(std::string_view toml, const std::string& where, const TaskFiles& read) {
    const Result<toml::table> parsed = parse_toml(toml, where);
    if (!parsed)
        return tl::unexpected<Error>(parsed.error());
    Reading reading{.where = where, .read = read, .error = std::nullopt};
    const TaskSection top(
        reading, &*parsed, "the task",
        {"name", "objective", "baseline", "artifact", "evaluator", "start", "kernel", "command",
         "python", "qa", "build", "limits", "feedback", "splits", "message", "peer"});
    Task task;
    task.name = top.required_text("name");
    for (const char c : task.name)
        if (static_cast<unsigned char>(c) <= 0x20 || c == '/' || c == '\\')
            reading.fault(
                top.line("name"),
                fmt::format("the task's name \"{}\" may not have spaces or slashes", task.name));
    task.objective = top.required_text("objective");
    task.baseline = top.required_text("baseline");
    top.require("artifact");
    if (reading.error)
        return tl::unexpected<Error>(*reading.error);
    task.limits = read_limits(reading, top.table("limits"));
    read_artifact(reading, top.table("artifact"), task);
    std::size_t arguments_line = 0;
    if (!reading.error)
        read_evaluator(reading, top, task, arguments_line);
    if (!reading.error)
        read_starts(reading, top, task, arguments_line);
    task.build = read_build(reading, top.table("build"));
    task.feedback = read_feedback(reading, top.table("feedback"));
    task.messages = read_messages(reading, top.array_of_tables("message"));
    task.splits = read_splits(reading, top.table("splits"));
    if (!reading.error && task.kernel)
        task.peers = read_peers(reading, top.table("peer"), *task.kernel);
    if (reading.error)
        return tl::unexpected<Error>(*reading.error);
    return task;
}

Result<Task> read_task(const std::filesystem::path& path) {
    std::error_code problem;
    const bool is_folder = std::filesystem::is_directory(path, problem);
    const std::filesystem::path file = is_folder ? path / "task.toml" : path;
    const std::filesystem::path folder =
        file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
    if (!std::filesystem::is_regular_file(file, problem))
        return fail(file.string(), is_folder ? "no task.toml in this folder; `loopscope init FILE "
                                               "--function F` makes one for your own function"
                                             : "no such task; name a folder with a task.toml");
    const Result<std::string> text = read_file(file);
    if (!text)
        return tl::unexpected<Error>(text.error());
    const std::filesystem::path root = std::filesystem::weakly_canonical(folder, problem);
    const TaskFiles read = [&](const std::string& relative) -> Result<std::string> {
        const std::filesystem::path inside = folder / relative;
        std::error_code failed;
        const std::filesystem::path real = std::filesystem::weakly_canonical(inside, failed);
        // A link may point elsewhere.
        const auto [root_end, rest] =
            std::mismatch(root.begin(), root.end(), real.begin(), real.end());
        if (root_end != root.end())
            return fail(inside.string(),
                        "is a link out of the task's folder; copy the file into it");
        if (!std::filesystem::exists(inside, failed))
            return fail(inside.string(), "no such file");
        if (!std::filesystem::is_regular_file(inside, failed))
            return fail(inside.string(), "is not a regular file");
        return read_file(inside);
    };
    Result<Task> task = parse_task(*text, file.string(), read);
    if (task)
        task->folder = folder;
    return task;
}

Result<void> can_evaluate(const Task& task) {
    const auto unavailable = [&](const std::string& what) {
        return fail(fmt::format("task {}", task.name), what);
    };
    if (task.kind == EvaluatorKind::python || task.kind == EvaluatorKind::qa)
        return unavailable(
            fmt::format("evaluators of kind \"{}\" are not available in this version; available: "
                        "kernel, command",
                        task.kind == EvaluatorKind::python ? "python" : "qa"));
    if (!task.kernel)
        return {};
    if (task.kernel->device != "cpu")
        return unavailable(fmt::format(
            "kernels for the device \"{}\" are not available in this version; available: cpu",
            task.kernel->device));
    if (task.language != "cpp" && task.language != "c")
        return unavailable(fmt::format(
            "kernels in {} are not available in this version; available: cpp, c", task.language));
    return {};
}

EditRules edit_rules(const Task& task) {
    EditRules rules;
    rules.language = task.language;
    rules.editable = task.editable;
    return rules;
}

std::string canonical(const Task& task) {
    using nlohmann::json;
    json out = json::object();
    out["language"] = task.language;
    out["files"] = task.files;
    out["support"] = task.support;
    json editable = json::array();
    for (const EditableFunction& function : task.editable)
        editable.push_back({{"file", function.file}, {"function", function.function}});
    out["editable"] = editable;
    const auto baseline = task.starts.find(task.baseline);
    if (baseline != task.starts.end())
        out["baseline"] = baseline->second.program.files;
    out["limits"] = {{"build_seconds", task.limits.build_seconds},
                     {"verify_seconds", task.limits.verify_seconds},
                     {"time_seconds", task.limits.time_seconds},
                     {"memory_mb", task.limits.memory_mb},
                     {"processes", task.limits.processes},
                     {"output_kb", task.limits.output_kb},
                     {"file_mb", task.limits.file_mb}};
    if (task.kernel) {
        const KernelSpec& kernel = *task.kernel;
        json arguments = json::array();
        for (const Argument& argument : kernel.arguments) {
            const char* direction = argument.direction == Direction::in    ? "in"
                                    : argument.direction == Direction::out ? "out"
                                                                           : "inout";
            arguments.push_back({{"name", argument.name},
                                 {"type", name_of(argument.type)},
                                 {"scalar", argument.scalar},
                                 {"value", argument.value},
                                 {"shape", argument.shape},
                                 {"direction", direction},
                                 {"init", argument.init.kind},
                                 {"init_arguments", argument.init.arguments}});
        }
        out["kernel"] = {
            {"entry", kernel.entry},
            {"arguments", arguments},
            {"verify_sizes", kernel.verify_sizes},
            {"time_sizes", kernel.time_sizes},
            {"reference", {{"entry", kernel.reference.entry}, {"text", kernel.reference.text}}},
            {"tolerance",
             {{"reduction", kernel.tolerance.reduction},
              {"factor", kernel.tolerance.factor},
              {"scale", kernel.tolerance.scale},
              {"absolute", kernel.tolerance.absolute},
              {"relative", kernel.tolerance.relative}}},
            {"flops", kernel.flops},
            {"bytes", kernel.bytes},
            {"cores", kernel.cores},
            {"device", kernel.device},
            {"aggregate", kernel.aggregate},
            {"fast_tolerance", kernel.fast_tolerance}};
        out["build"] = {{"compiler", task.build.compiler},
                        {"flags", task.build.flags},
                        {"link", task.build.link},
                        {"command", task.build.command},
                        {"output", task.build.output}};
    }
    if (task.command)
        out["command"] = {{"argv", task.command->argv},
                          {"timeout_seconds", task.command->timeout_seconds}};
    if (task.python)
        out["python"] = {{"mode", task.python->mode},
                         {"entry", task.python->entry},
                         {"text", task.python->text},
                         {"timeout_seconds", task.python->timeout_seconds}};
    if (task.qa)
        out["qa"] = {{"text", task.qa->text},
                     {"question", task.qa->question},
                     {"answer", task.qa->answer},
                     {"match", task.qa->match}};
    if (task.python || task.qa)
        out["splits"] = {{"train", task.splits.train},
                         {"validation", task.splits.validation},
                         {"shadow", task.splits.shadow},
                         {"test", task.splits.test},
                         {"group", task.splits.group}};
    return out.dump();
}

}  // namespace loopscope
