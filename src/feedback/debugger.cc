// The debugger: what is wrong with a candidate, and where. The compiler's diagnostics with all
// warnings, clang-tidy, a run under the address and undefined-behaviour sanitizers at a few verify
// sizes, reads of outputs that nothing has written, and the verdict's own message. It looks at
// programs that pass as well: a right answer can hide an overrun.
#include "core/text.h"
#include "evaluate/parse.h"
#include "feedback/components.h"
#include "feedback/tool_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

namespace loopscope {
namespace {

using nlohmann::json;

constexpr std::size_t max_shown = 12;   // diagnostics of one kind in the text; the fields have all
constexpr double sanitized_work = 2e7;  // operations of one sanitized run: about 0.2 s

bool is_clang(const std::string& compiler) { return compiler.find("clang") != std::string::npos; }

std::string place_text(const std::string& file, int line, int column) {
    if (file.empty())
        return "";
    if (line == 0)
        return file;
    return column > 0 ? fmt::format("{}:{}:{}", file, line, column)
                      : fmt::format("{}:{}", file, line);
}

std::string diagnostic_text(const Diagnostic& diagnostic) {
    const std::string place = place_text(diagnostic.file, diagnostic.line, diagnostic.column);
    std::string text = fmt::format("{}{}{}: {}", place, place.empty() ? "" : ": ",
                                   diagnostic.severity, diagnostic.message);
    if (!diagnostic.flag.empty())
        text += " [" + diagnostic.flag + "]";
    text += '\n';
    if (!diagnostic.source.empty())
        text += "    " + diagnostic.source + "\n";
    // Of an analyzer's path only the end is worth its room; a compiler's notes are few.
    const bool path = diagnostic.flag.starts_with("clang-analyzer");
    std::size_t shown = 0;
    for (const DiagnosticNote& note : diagnostic.notes) {
        const bool step =
            note.message.starts_with("Assuming") ||
            note.message.find("Entering loop body") != std::string::npos ||
            note.message.starts_with("Loop condition") || note.message.starts_with("Taking") ||
            note.message.find(" is < ") != std::string::npos || note.message == diagnostic.message;
        if ((path && step) || ++shown > 3)
            continue;
        text += fmt::format("  {}: note: {}\n", place_text(note.file, note.line, note.column),
                            note.message);
    }
    return text;
}

json to_json(const Diagnostic& diagnostic) {
    json notes = json::array();
    for (const DiagnosticNote& note : diagnostic.notes)
        notes.push_back({{"file", note.file},
                         {"line", note.line},
                         {"column", note.column},
                         {"message", note.message}});
    return {{"file", diagnostic.file},       {"line", diagnostic.line},
            {"column", diagnostic.column},   {"severity", diagnostic.severity},
            {"message", diagnostic.message}, {"flag", diagnostic.flag},
            {"source", diagnostic.source},   {"notes", std::move(notes)}};
}

json to_json(const std::vector<Diagnostic>& diagnostics) {
    json list = json::array();
    for (const Diagnostic& diagnostic : diagnostics)
        list.push_back(to_json(diagnostic));
    return list;
}

std::string source_line(const Program& program, const std::string& file, int line) {
    const auto found = program.files.find(file);
    if (found == program.files.end() || line < 1)
        return "";
    const std::vector<std::string> lines = split_lines(found->second);
    const auto index = static_cast<std::size_t>(line - 1);
    return index < lines.size() ? std::string(trim(lines[index])) : "";
}

// Errors first, then warnings of the artifact's own files; each kind in the order of the log.
void keep_own(std::vector<Diagnostic>& diagnostics, const Program& program) {
    std::erase_if(diagnostics, [&](const Diagnostic& diagnostic) {
        return diagnostic.severity != "error" &&
               (diagnostic.severity != "warning" || !program.files.contains(diagnostic.file));
    });
    std::vector<Diagnostic> sorted;
    for (const std::string_view severity :
         {std::string_view("error"), std::string_view("warning")}) {
        for (const Diagnostic& diagnostic : diagnostics) {
            if (diagnostic.severity == severity)
                sorted.push_back(diagnostic);
        }
    }
    diagnostics = std::move(sorted);
}

std::string list_text(const std::vector<Diagnostic>& diagnostics, std::string_view severity) {
    std::string text;
    std::size_t shown = 0, total = 0;
    for (const Diagnostic& diagnostic : diagnostics) {
        if (diagnostic.severity != severity)
            continue;
        ++total;
        if (++shown <= max_shown)
            text += diagnostic_text(diagnostic);
    }
    if (total > max_shown)
        text += fmt::format("({} more {}s)\n", total - max_shown, severity);
    return text;
}

std::size_t count_of(const std::vector<Diagnostic>& diagnostics, std::string_view severity) {
    return static_cast<std::size_t>(std::count_if(
        diagnostics.begin(), diagnostics.end(),
        [&](const Diagnostic& diagnostic) { return diagnostic.severity == severity; }));
}

// --- the sanitized run

struct SanitizedRun {
    std::string sizes;
    std::vector<SanitizerReport> reports;
    bool crashed = false, timed_out = false;
};

// The size that failed, if one did, then the largest that is not too slow, then the smallest: an
// overrun often shows only at sizes that are no multiple of a block.
std::vector<Sizes> sanitized_sizes(const KernelSpec& kernel, const Evaluation& evaluation) {
    std::vector<Sizes> sorted = kernel.verify_sizes;
    std::sort(sorted.begin(), sorted.end(), [&](const Sizes& a, const Sizes& b) {
        const double work_a = work_of(kernel, a), work_b = work_of(kernel, b);
        return work_a != work_b ? work_a < work_b : a < b;
    });
    std::vector<Sizes> chosen;
    const auto add = [&](const Sizes& sizes) {
        if (std::find(chosen.begin(), chosen.end(), sizes) == chosen.end())
            chosen.push_back(sizes);
    };
    for (const VerifiedCase& verified : evaluation.cases) {
        if (verified.ok)
            continue;
        for (const Sizes& sizes : sorted) {
            if (to_text(sizes) == verified.sizes && work_of(kernel, sizes) <= sanitized_work &&
                chosen.empty())
                add(sizes);
        }
    }
    for (std::size_t i = sorted.size(); i-- > 0;) {
        if (work_of(kernel, sorted[i]) <= sanitized_work) {
            add(sorted[i]);
            break;
        }
    }
    if (!sorted.empty())
        add(sorted.front());
    return chosen;
}

std::string symbolizer() {
    for (const std::string_view path : {std::string_view("/usr/lib/llvm-19/bin/llvm-symbolizer"),
                                        std::string_view("/usr/bin/llvm-symbolizer-19")}) {
        std::error_code ignored;
        if (std::filesystem::exists(path, ignored))
            return std::string(path);
    }
    for (const std::string_view name :
         {std::string_view("llvm-symbolizer"), std::string_view("addr2line")}) {
        const std::string found = find_tool(name);
        if (!found.empty())
            return found;
    }
    return "";
}

// The access at that place, as parsed from the source; nullptr = none there.
const ArrayAccess* access_at(const SourceStructure& structure, const std::string& file, int line,
                             int column, bool write, const SourceFunction*& in) {
    const ArrayAccess* only = nullptr;
    int on_line = 0;
    for (const SourceFunction& function : structure.functions) {
        if (function.file != file)
            continue;
        for (const ArrayAccess& access : function.accesses) {
            if (access.line != line)
                continue;
            if (access.column == column) {
                in = &function;
                return &access;
            }
            if (write ? !access.written : !access.read)
                continue;
            ++on_line;
            only = &access;
            in = &function;
        }
    }
    return on_line == 1 ? only : nullptr;
}

// The argument whose array has that many bytes at these sizes, if there is just one.
std::string argument_of_bytes(const KernelSpec& kernel, const Sizes& sizes, std::int64_t bytes) {
    std::string name;
    for (const Argument& argument : kernel.arguments) {
        if (argument.scalar)
            continue;
        std::int64_t total = static_cast<std::int64_t>(size_of(argument.type));
        bool known = true;
        for (const std::string& dimension : argument.shape) {
            const Result<std::int64_t> extent = evaluate_count(dimension, sizes);
            known = known && extent.has_value() && *extent < (std::int64_t{1} << 30);
            total = known ? total * *extent : 0;
        }
        if (!known || total != bytes)
            continue;
        if (!name.empty())
            return "";
        name = argument.name;
    }
    return name;
}

struct Overrun {
    std::string array;               // "b", "" = not known
    std::string access;              // "b[k * n + j]"
    std::vector<std::string> loops;  // around it, outermost first, with their bounds
    std::int64_t elements = 0;
};

Overrun overrun_of(const SanitizerReport& report, const SourceStructure& structure,
                   const KernelSpec& kernel, const Sizes& sizes) {
    Overrun overrun;
    if (report.access_bytes == 0)
        return overrun;
    const SourceFunction* function = nullptr;
    if (const ArrayAccess* access =
            access_at(structure, report.file, report.line, report.column, report.write, function)) {
        overrun.array = access->base;
        overrun.access = access->text;
        if (access->element_bytes > 0 && report.region_bytes % access->element_bytes == 0)
            overrun.elements = report.region_bytes / access->element_bytes;
        for (int id = access->loop; id >= 0;
             id = function->loops[static_cast<std::size_t>(id)].parent) {
            const SourceLoop& loop = function->loops[static_cast<std::size_t>(id)];
            overrun.loops.insert(overrun.loops.begin(),
                                 fmt::format("loop {} (line {}): {}", loop_name(loop), loop.line,
                                             bounds_text(loop)));
        }
    }
    if (overrun.array.empty())
        overrun.array = report.variable.empty()
                            ? argument_of_bytes(kernel, sizes, report.region_bytes)
                            : report.variable;
    return overrun;
}

std::string report_text(const SanitizerReport& report, const Overrun& overrun,
                        const std::string& sizes, const Program& program) {
    std::string text = report.tool + ": " + report.kind;
    if (report.access_bytes > 0) {
        text += fmt::format(": {} of {}", report.write ? "write" : "read",
                            counted(static_cast<std::size_t>(report.access_bytes), "byte"));
        if (!overrun.access.empty())
            text += fmt::format(" by {}", overrun.access);
        if (!report.side.empty()) {
            const std::string name = overrun.array.empty() ? "an array" : overrun.array;
            text += report.side == "inside"
                        ? fmt::format(", inside {}", name)
                        : fmt::format(", {} {} the {} of {}",
                                      counted(static_cast<std::size_t>(
                                                  std::max<std::int64_t>(0, report.distance)),
                                              "byte"),
                                      report.side, report.side == "after" ? "end" : "start", name);
            if (overrun.elements > 0)
                text += fmt::format(" ({} elements)", overrun.elements);
            else if (report.region_bytes > 0)
                text += fmt::format(" ({} bytes)", report.region_bytes);
        } else if (!overrun.array.empty()) {
            text += " in " + overrun.array;
        }
    }
    const std::string place = place_text(report.file, report.line, report.column);
    if (!place.empty())
        text += " at " + place;
    if (!report.function.empty())
        text += " in " + report.function;
    text += ", sizes " + sizes + "\n";
    const std::string source = source_line(program, report.file, report.line);
    if (!source.empty())
        text += "    " + source + "\n";
    if (!overrun.loops.empty())
        text += fmt::format("    within {}\n", fmt::join(overrun.loops, "; "));
    return text;
}

// --- outputs that are read before anything was written to them

struct UnwrittenRead {
    std::string argument, file, access;
    int line = 0, column = 0;
};

std::vector<UnwrittenRead> unwritten_reads(const KernelSpec& kernel,
                                           const SourceStructure& structure) {
    std::vector<UnwrittenRead> found;
    for (const SourceFunction& function : structure.functions) {
        if (function.name != kernel.entry)
            continue;
        for (std::size_t i = 0; i < kernel.arguments.size() && i < function.parameters.size();
             ++i) {
            const Argument& argument = kernel.arguments[i];
            if (argument.scalar || argument.direction != Direction::out)
                continue;
            for (const ArrayAccess& access : function.accesses) {
                if (access.base != function.parameters[i] || !access.parameter)
                    continue;
                if (access.written && !access.read)
                    break;  // something is written first
                if (!access.read)
                    continue;
                UnwrittenRead entry;
                entry.argument = argument.name;
                entry.file = function.file;
                entry.access = access.text;
                entry.line = access.line;
                entry.column = access.column;
                found.push_back(std::move(entry));
                break;
            }
        }
    }
    return found;
}

std::vector<std::string> warning_command(const Task& task, const Program& program) {
    std::vector<std::string> argv{task.build.compiler};
    argv.insert(argv.end(), task.build.flags.begin(), task.build.flags.end());
    argv.emplace_back("-I.");
    argv.emplace_back("-Wall");
    argv.emplace_back("-Wextra");
    if (is_clang(task.build.compiler)) {
        argv.emplace_back("-fsyntax-only");
        argv.emplace_back("-fno-color-diagnostics");
    } else {
        argv.emplace_back("-c");  // g++ finds some of its warnings only while optimising
    }
    for (const std::string& file : source_files(program))
        argv.push_back(file);
    return argv;
}

std::vector<std::string> tidy_command(const Task& task, const Program& program) {
    // Left out: style that no kernel follows, and the widening of every int product used as an
    // index.
    std::vector<std::string> argv = {
        "clang-tidy-19", "--quiet",
        "--checks=-*,bugprone-*,performance-*,clang-analyzer-*,-bugprone-easily-swappable-"
        "parameters,"
        "-bugprone-narrowing-conversions,-bugprone-implicit-widening-of-multiplication-result,"
        "-performance-enum-size,-performance-avoid-endl"};
    for (const std::string& file : source_files(program))
        argv.push_back(file);
    argv.emplace_back("--");
    argv.insert(argv.end(), task.build.flags.begin(), task.build.flags.end());
    argv.emplace_back("-I.");
    return argv;
}

}  // namespace

awaitable<Result<Feedback>> debugger_feedback(Machine& machine, const Subject& subject) {
    const Task& task = subject.task;
    const Evaluation& evaluation = subject.evaluation;
    Feedback feedback;
    feedback.component = "debugger";
    json fields = {
        {"status", evaluation.status ? json(name_of(*evaluation.status)) : json(nullptr)},
        {"reason", name_of(evaluation.reason)}};
    std::string problems, warnings;
    std::vector<std::string> silent;  // what was asked and found nothing
    const bool compiled_language = !source_files(subject.program).empty();

    // The compiler, with all warnings.
    std::vector<Diagnostic> compiler;
    bool compiles = evaluation.reason != Reason::build_error;
    if (compiled_language && task.build.command.empty() &&
        !find_tool(task.build.compiler).empty()) {
        const Result<SandboxResult> checked =
            co_await run_tool(machine, task, subject.program,
                              warning_command(task, subject.program), task.limits.build_seconds);
        if (!checked)
            co_return tl::unexpected<Error>(checked.error());
        compiler = parse_diagnostics(checked->exit.err);
        compiles = checked->exit.kind == Exit::Kind::exited && checked->exit.code == 0;
        if (checked->exit.kind != Exit::Kind::exited)
            problems += "The compiler was " + describe(checked->exit) + ".\n";
    } else if (!evaluation.build_log.empty()) {
        compiler = parse_diagnostics(evaluation.build_log);
    }
    // What only the real build can say: a signature that differs from the task's, the linker's
    // errors.
    if (evaluation.reason == Reason::link_error ||
        (count_of(compiler, "error") == 0 && evaluation.reason == Reason::build_error)) {
        for (Diagnostic& diagnostic : parse_diagnostics(evaluation.build_log))
            compiler.push_back(std::move(diagnostic));
    }
    keep_own(compiler, subject.program);
    const std::size_t errors = count_of(compiler, "error"), warned = count_of(compiler, "warning");
    problems += list_text(compiler, "error");
    warnings += list_text(compiler, "warning");
    fields["compiler"] = to_json(compiler);
    if (errors == 0 && warned == 0 && compiled_language && compiles)
        silent.emplace_back("the compiler with -Wall -Wextra");
    const bool lists_nothing = errors == 0 && (evaluation.reason == Reason::build_error ||
                                               evaluation.reason == Reason::link_error);
    if (lists_nothing && !evaluation.build_log.empty())
        problems += "The build says:\n" + shorten(evaluation.build_log, 1500) + "\n";

    // The verdict's own words where something went wrong.
    const bool failed = !evaluation.status || *evaluation.status < Status::pass;
    if (failed && !evaluation.message.empty() && evaluation.reason != Reason::build_error &&
        evaluation.reason != Reason::link_error)
        problems += std::string(name_of(evaluation.reason)) + ": " + evaluation.message + "\n";
    fields["message"] = failed ? evaluation.message : "";

    // The sanitizers.
    const Result<SourceStructure> structure = co_await parse_source(machine, task, subject.program);
    if (!structure)
        co_return tl::unexpected<Error>(structure.error());
    json runs = json::array();
    if (task.kernel && compiled_language && !task.build.command.empty()) {
        warnings +=
            "The task is built by a command of its own, so there is no build with sanitizers.\n";
    } else if (task.kernel && compiled_language && compiles &&
               evaluation.reason != Reason::link_error &&
               evaluation.reason != Reason::build_error && evaluation.reason != Reason::policy) {
        const Result<BuildOutcome> sanitized =
            co_await build(machine, task, subject.program, BuildKind::sanitized);
        if (!sanitized)
            co_return tl::unexpected<Error>(sanitized.error());
        if (!sanitized->ok) {
            warnings += "The build with sanitizers failed, so they were not run.\n";
        } else {
            const std::string symbols = symbolizer();
            if (symbols.empty())
                feedback.missing.emplace_back(
                    "llvm-symbolizer (package llvm-19): the source line of a sanitizer report");
            std::vector<std::string> tried;
            bool reported = false;
            for (const Sizes& sizes : sanitized_sizes(*task.kernel, evaluation)) {
                std::vector<std::string> wrapper = {
                    "/usr/bin/env", "ASAN_OPTIONS=detect_leaks=0:allow_addr2line=1:color=never",
                    "UBSAN_OPTIONS=print_stacktrace=0:color=never"};
                if (!symbols.empty())
                    wrapper.push_back("ASAN_SYMBOLIZER_PATH=" + symbols);
                std::vector<std::string> nothing;
                const Result<OneRun> run =
                    co_await run_once(machine, task, sanitized->object, sizes, std::move(wrapper),
                                      std::move(nothing));
                if (!run)
                    co_return tl::unexpected<Error>(run.error());
                const std::string size_text = to_text(sizes);
                tried.push_back(size_text);
                const std::vector<SanitizerReport> reports =
                    parse_sanitizer_output(run->err + "\n" + run->out, own_files(subject.program));
                json listed = json::array();
                std::size_t shown = 0;
                for (const SanitizerReport& report : reports) {
                    const Overrun overrun = overrun_of(report, *structure, *task.kernel, sizes);
                    if (++shown <= 5)
                        problems += report_text(report, overrun, size_text, subject.program);
                    listed.push_back({{"tool", report.tool},
                                      {"kind", report.kind},
                                      {"write", report.write},
                                      {"access_bytes", report.access_bytes},
                                      {"file", report.file},
                                      {"line", report.line},
                                      {"column", report.column},
                                      {"function", report.function},
                                      {"array", overrun.array},
                                      {"access", overrun.access},
                                      {"side", report.side},
                                      {"distance", report.distance},
                                      {"region_bytes", report.region_bytes}});
                }
                if (reports.empty() && run->timed_out)
                    problems += fmt::format(
                        "The program did not end within its time limit at {} (under sanitizers).\n",
                        size_text);
                else if (reports.empty() && (run->signalled || run->exit_code != 0))
                    problems += fmt::format(
                        "The program ended abnormally at {} ({} {}) without a sanitizer report.\n",
                        size_text, run->signalled ? "signal" : "exit status", run->exit_code);
                runs.push_back({{"sizes", size_text},
                                {"reports", std::move(listed)},
                                {"timed_out", run->timed_out}});
                reported =
                    !reports.empty() || run->timed_out || run->signalled || run->exit_code != 0;
                if (reported)
                    break;
            }
            if (!reported && !tried.empty())
                silent.push_back(fmt::format("the address and undefined-behaviour sanitizers at {}",
                                             fmt::join(tried, ", ")));
        }
    }
    fields["sanitizer_runs"] = std::move(runs);

    json unwritten = json::array();
    if (task.kernel) {
        for (const UnwrittenRead& entry : unwritten_reads(*task.kernel, *structure)) {
            problems += fmt::format(
                "{}: warning: {} reads the output {} before anything is written to it: its "
                "contents are "
                "undefined when the function is called, so it must be set first\n    {}\n",
                place_text(entry.file, entry.line, entry.column), entry.access, entry.argument,
                source_line(subject.program, entry.file, entry.line));
            unwritten.push_back({{"argument", entry.argument},
                                 {"file", entry.file},
                                 {"line", entry.line},
                                 {"column", entry.column},
                                 {"access", entry.access}});
        }
    }
    fields["unwritten_reads"] = std::move(unwritten);

    // clang-tidy.
    std::vector<Diagnostic> tidy;
    if (compiled_language && find_tool("clang-tidy-19").empty()) {
        feedback.missing.emplace_back(
            "clang-tidy-19: suspicious code and the static analyzer's findings");
    } else if (compiled_language) {
        const Result<SandboxResult> checked = co_await run_tool(
            machine, task, subject.program, tidy_command(task, subject.program), 60);
        if (!checked)
            co_return tl::unexpected<Error>(checked.error());
        tidy = parse_diagnostics(checked->exit.out);
        std::erase_if(tidy, [&](const Diagnostic& diagnostic) {
            return diagnostic.flag.starts_with("clang-diagnostic") ||
                   !subject.program.files.contains(diagnostic.file) || diagnostic.line == 0;
        });
        keep_own(tidy, subject.program);
        warnings += list_text(tidy, "warning");
        if (checked->exit.kind == Exit::Kind::timed_out)
            warnings += "clang-tidy did not end within 60 s.\n";
        else if (tidy.empty() && compiles)
            silent.emplace_back("clang-tidy");
    }
    fields["clang_tidy"] = to_json(tidy);

    std::string text = problems + warnings;
    if (!silent.empty())
        text += fmt::format("Nothing found by {}.\n", fmt::join(silent, "; "));
    if (problems.empty() && !failed)
        text += evaluation.cases.empty()
                    ? std::string("The program passes.\n")
                    : fmt::format("The output is right in all {}.\n",
                                  counted(evaluation.cases.size(), "verified case"));
    if (text.empty()) {
        feedback.applicable = false;
        text =
            "Nothing can be said: the artifact has no C or C++ source and its evaluation left no "
            "message.\n";
    }
    feedback.text = within(text, task.feedback.max_bytes);
    feedback.fields = fields.dump(-1, ' ', false, json::error_handler_t::replace);
    co_return feedback;
}

}  // namespace loopscope
