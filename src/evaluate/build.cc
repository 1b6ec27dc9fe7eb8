// One compilation per source and one link, each in a sandbox of its own, so that what failed is
// told apart by which step failed and not by what a text looks like. The candidate controls neither
// flags nor file names.
#include "evaluate/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "core/hash.h"
#include "core/text.h"
#include "evaluate/kernel.h"
#include "evaluate/sandbox.h"
#include "program/edit.h"

namespace loopscope {

namespace {

constexpr const char* signature_path = ".loopscope/signature.h";
constexpr std::size_t max_log_bytes = 16384;

std::string_view name_of_kind(BuildKind kind) {
    switch (kind) {
        case BuildKind::timed:
            return "timed";
        case BuildKind::sanitized:
            return "sanitized";
        case BuildKind::simulated:
            return "simulated";
    }
    return "";
}

bool is_source(const std::string& path) {
    for (const char* ending : {".cc", ".cpp", ".cxx", ".C", ".c"})
        if (path.ends_with(ending))
            return true;
    return false;
}

// What one build compiles and links, whoever wrote it.
struct Unit {
    std::map<std::string, std::string> files;  // of the source tree
    std::vector<std::string> sources;          // those of them that are compiled
    std::map<std::string, std::string>
        own;  // ours: glue and main(), compiled without the forced signature
    std::string entry, signature;
    std::vector<std::string> flags, link;
    bool executable = false;
};

std::vector<std::string> flags_of(const BuildSpec& spec, BuildKind kind) {
    std::vector<std::string> flags;
    for (const std::string& flag : spec.flags) {
        const bool target = flag.starts_with("-march=") || flag.starts_with("-mtune=") ||
                            flag.starts_with("-mcpu=");
        const bool optimisation = flag.starts_with("-O") || flag.starts_with("-flto");
        if ((kind == BuildKind::simulated && (target || flag.starts_with("-flto"))) ||
            (kind == BuildKind::sanitized && optimisation))
            continue;
        flags.push_back(flag);
    }
    if (kind == BuildKind::sanitized)
        for (const char* flag : {"-O1", "-g", "-fno-omit-frame-pointer",
                                 "-fsanitize=address,undefined", "-fno-sanitize-recover=all"})
            flags.emplace_back(flag);
    if (kind == BuildKind::simulated) {
#if defined(__x86_64__)
        flags.emplace_back("-march=x86-64-v3");  // valgrind knows no AVX-512
#endif
        flags.emplace_back("-gdwarf-4");  // nor the debug information of version 5
    }
    return flags;
}

bool is_clang(const std::string& compiler) { return compiler.find("clang") != std::string::npos; }

// extern "C" in the code, not in a comment.
bool mentions_c_linkage(const std::string& source) {
    std::string code = normal_form(source);
    std::erase(code, ' ');
    return code.find("extern\"C\"") != std::string::npos;
}

// Diagnostics as a person would see them in the artifact's folder: no path of ours, not endless.
std::string readable(std::string log) {
    for (const std::string_view noise : {std::string_view("/work/"), std::string_view("./")})
        for (std::size_t at = 0; (at = log.find(noise, at)) != std::string::npos;) {
            const bool starts_path = at == 0 || std::string_view(" \n\t'\"(").find(log[at - 1]) !=
                                                    std::string_view::npos;
            if (starts_path)
                log.erase(at, noise.size());
            else
                at += noise.size();
        }
    return shorten(log, max_log_bytes);
}

SandboxJob tool_job(const Task& task) {
    SandboxJob job;
    job.wall_seconds = task.limits.build_seconds;
    job.cpu_seconds = task.limits.build_seconds;
    job.memory_mb = task.limits.memory_mb;
    job.processes = task.limits.processes;
    job.file_mb = task.limits.file_mb;
    job.output_kb = task.limits.output_kb;
    job.environment["TMPDIR"] = "/tmp";
    return job;
}

// Why a tool ended badly, when that was a limit and not its opinion of the source. Nothing
// otherwise.
std::optional<BuildOutcome> limit_reached(const Task& task, const SandboxResult& result) {
    BuildOutcome outcome;
    if (result.exit.kind == Exit::Kind::timed_out) {
        outcome.reason = Reason::timeout;
        outcome.log =
            fmt::format("the build was stopped after {:g} s\n", task.limits.build_seconds);
    } else if (result.out_of_memory) {
        outcome.reason = Reason::resource;
        outcome.log =
            fmt::format("the build needed more than {} MiB of memory\n", task.limits.memory_mb);
    } else if (result.exit.err.find("File too large") != std::string::npos ||
               (result.exit.kind == Exit::Kind::signalled && result.exit.code == SIGXFSZ)) {
        outcome.reason = Reason::policy;
        outcome.log = fmt::format("the built object is larger than {} MiB\n", task.limits.file_mb);
    } else {
        return std::nullopt;
    }
    // What a compiler says of its own death is of no use to anybody who reads this.
    if (outcome.reason == Reason::timeout)
        outcome.log += readable(result.exit.out + result.exit.err);
    return outcome;
}

awaitable<Result<BuildOutcome>> build_unit(Machine& machine, const Task& task, Unit unit) {
    const Permit slot = co_await machine.build_slots.acquire();
    const auto started = std::chrono::steady_clock::now();
    const std::string& compiler = task.build.compiler;
    Result<std::string> version = co_await compiler_version(machine, compiler);
    if (!version)
        co_return fail(version.error().where, version.error().what);
    unit.files[signature_path] = unit.signature;

    // The declaration is forced in only where the source says itself that it has C linkage: a
    // definition after it would silently inherit the linkage, and the file would be of no use
    // anywhere else.
    const bool has_linkage =
        std::any_of(unit.files.begin(), unit.files.end(), [](const auto& file) {
            return file.first != signature_path && mentions_c_linkage(file.second);
        });
    std::map<std::string, std::string> objects;
    BuildOutcome outcome;
    outcome.compiler = *version;
    std::vector<std::string> sources = unit.sources;
    for (const auto& [path, text] : unit.own)
        sources.push_back(path);
    for (std::size_t i = 0; i < sources.size(); ++i) {
        const bool own = unit.own.contains(sources[i]);
        const std::string object = fmt::format(".loopscope/{}.o", i);
        const std::string own_key =
            own ? "own " +
                      sha256_hex(fmt::format("{}\n{}\n{}", compiler, fmt::join(unit.flags, " "),
                                             unit.own.at(sources[i])))
                : "";
        if (const auto known = machine.made_once.find(own_key);
            own && known != machine.made_once.end()) {
            objects[object] = known->second;
            continue;
        }
        SandboxJob job = tool_job(task);
        job.files = own ? unit.own : unit.files;
        job.argv = {compiler};
        job.argv.insert(job.argv.end(), unit.flags.begin(), unit.flags.end());
        for (const char* flag : {"-fPIC", "-fdiagnostics-color=never", "-I.", "-c"})
            job.argv.emplace_back(flag);
        job.argv.emplace_back(is_clang(compiler) ? "-ferror-limit=20" : "-fmax-errors=20");
        if (has_linkage && !own)
            job.argv.insert(job.argv.end(), {"-include", signature_path});
        job.argv.insert(job.argv.end(), {"-o", object, "./" + sources[i]});
        job.files[".loopscope/x"] = "";  // makes the folder for sources of our own
        job.collect = {object};
        Result<SandboxResult> result = co_await run_sandboxed(machine, std::move(job));
        if (!result)
            co_return fail(result.error().where, result.error().what);
        if (std::optional<BuildOutcome> limited = limit_reached(task, *result)) {
            limited->compiler = *version;
            limited->seconds =
                std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
            co_return std::move(*limited);
        }
        outcome.log += readable(result->exit.out + result->exit.err);
        if (result->exit.kind != Exit::Kind::exited || result->exit.code != 0 ||
            !result->files.contains(object)) {
            if (own)
                co_return fail(sources[i],
                               "our own code does not compile with this compiler: " + outcome.log);
            outcome.reason = Reason::build_error;
            if (outcome.log.empty())
                outcome.log = fmt::format("{}: {}", compiler, describe(result->exit));
            outcome.seconds =
                std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
            co_return outcome;
        }
        if (own)
            machine.made_once[own_key] = result->files[object];
        objects[object] = std::move(result->files[object]);
    }

    SandboxJob job = tool_job(task);
    job.argv = {compiler};
    // -ffast-math at the link would change the floating-point mode of whoever loads the object.
    for (const std::string& flag : unit.flags)
        if (flag != "-ffast-math" && flag != "-Ofast" && flag != "-funsafe-math-optimizations")
            job.argv.push_back(flag);
    for (const auto& [path, bytes] : objects)
        job.argv.push_back(path);
    for (const std::string& library : unit.link)
        job.argv.push_back("-l" + library);
    job.files = std::move(objects);
    if (!unit.executable) {
        // Only the entry is visible: no symbol of a candidate can take the place of one of ours.
        job.files[".loopscope/exports"] = fmt::format("{{ global: {}; local: *; }};\n", unit.entry);
        job.argv.insert(job.argv.end(), {"-shared", "-Wl,--version-script=.loopscope/exports",
                                         "-Wl,-z,defs", "-Wl,--no-undefined-version"});
    }
    job.argv.insert(job.argv.end(), {"-Wl,--build-id=none", "-o", ".loopscope/out"});
    if (is_clang(compiler) && machine.has_lld)
        job.argv.emplace_back("-fuse-ld=lld-19");
    job.collect = {".loopscope/out"};
    Result<SandboxResult> linked = co_await run_sandboxed(machine, std::move(job));
    if (!linked)
        co_return fail(linked.error().where, linked.error().what);
    outcome.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    if (std::optional<BuildOutcome> limited = limit_reached(task, *linked)) {
        limited->compiler = *version;
        limited->seconds = outcome.seconds;
        co_return std::move(*limited);
    }
    outcome.log += readable(linked->exit.out + linked->exit.err);
    if (linked->exit.kind != Exit::Kind::exited || linked->exit.code != 0 ||
        !linked->files.contains(".loopscope/out")) {
        outcome.reason = Reason::link_error;
        if (outcome.log.find(unit.entry) != std::string::npos)
            outcome.log +=
                fmt::format("the entry {} must be defined with C linkage: extern \"C\" {}\n",
                            unit.entry, declaration_of(kernel_of(task)));
        co_return outcome;
    }
    outcome.ok = true;
    outcome.object = std::move(linked->files[".loopscope/out"]);
    co_return outcome;
}

// A project with its own build: the command runs over the whole artifact and leaves a shared
// object.
awaitable<Result<BuildOutcome>> build_by_command(Machine& machine, const Task& task,
                                                 const Program& program) {
    const Permit slot = co_await machine.build_slots.acquire();
    const auto started = std::chrono::steady_clock::now();
    Result<std::string> version = co_await compiler_version(machine, task.build.compiler);
    if (!version)
        co_return fail(version.error().where, version.error().what);
    SandboxJob job = tool_job(task);
    job.files = task.support;
    for (const auto& [path, text] : program.files)
        job.files[path] = text;
    job.files[signature_path] = signature_header(kernel_of(task), Side::candidate);
    job.environment["CXX"] = task.build.compiler;
    job.environment["CXXFLAGS"] = fmt::format("{} -fPIC", fmt::join(task.build.flags, " "));
    job.environment["LOOPSCOPE_SIGNATURE"] = signature_path;
    job.argv = {"/bin/sh", "-c", task.build.command};
    job.collect = {task.build.output};
    Result<SandboxResult> result = co_await run_sandboxed(machine, std::move(job));
    if (!result)
        co_return fail(result.error().where, result.error().what);
    BuildOutcome outcome;
    if (std::optional<BuildOutcome> limited = limit_reached(task, *result))
        outcome = std::move(*limited);
    else
        outcome.log = readable(result->exit.out + result->exit.err);
    outcome.compiler = *version;
    if (outcome.reason == Reason::ok &&
        (result->exit.kind != Exit::Kind::exited || result->exit.code != 0)) {
        outcome.reason = Reason::build_error;
        outcome.log += fmt::format("the build command ended with {}\n", describe(result->exit));
    } else if (outcome.reason == Reason::ok && !result->files.contains(task.build.output)) {
        outcome.reason = Reason::build_error;
        outcome.log += fmt::format("the build command left no {}\n", task.build.output);
    }
    if (outcome.reason == Reason::ok) {
        SandboxJob look = tool_job(task);
        look.files["object"] = result->files[task.build.output];
        look.argv = {"nm", "--dynamic", "--defined-only", "object"};
        Result<SandboxResult> symbols = co_await run_sandboxed(machine, std::move(look));
        if (!symbols)
            co_return fail(symbols.error().where, symbols.error().what);
        const std::string exported = " T " + kernel_of(task).entry + "\n";
        if (symbols->exit.out.find(exported) == std::string::npos) {
            outcome.reason = Reason::link_error;
            outcome.log += fmt::format("{} does not export {} (with C linkage)\n",
                                       task.build.output, kernel_of(task).entry);
        } else {
            outcome.ok = true;
            outcome.object = std::move(result->files[task.build.output]);
        }
    }
    outcome.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    co_return outcome;
}

Error not_a_kernel(const Task& task) {
    return Error{task.name,
                 "has no [kernel]: only the kernel evaluator builds, verifies and times"};
}

}  // namespace

awaitable<Result<std::string>> compiler_version(Machine& machine, const std::string& compiler) {
    const std::string key = "version of " + compiler;
    if (const auto known = machine.made_once.find(key); known != machine.made_once.end())
        co_return known->second;
    SandboxJob job;
    job.argv = {compiler, "--version"};
    job.wall_seconds = 20;
    Result<SandboxResult> result = co_await run_sandboxed(machine, std::move(job));
    if (!result)
        co_return fail(result.error().where, result.error().what);
    const std::vector<std::string> lines = split_lines(result->exit.out);
    if (result->exit.kind != Exit::Kind::exited || result->exit.code != 0 || lines.empty())
        co_return fail(compiler, "does not work as a compiler here: " + describe(result->exit) +
                                     " " + result->exit.err +
                                     " (install it, or name another one in [build] compiler)");
    co_return machine.made_once[key] = lines.front();
}

awaitable<Result<std::string>> glue_object(Machine& machine, const Task& task, Side side) {
    if (!task.kernel)
        co_return tl::unexpected(not_a_kernel(task));
    const std::string source = glue_source(kernel_of(task), side);
    const std::string key = "glue " + task.build.compiler + sha256_hex(source);
    if (const auto known = machine.made_once.find(key); known != machine.made_once.end())
        co_return known->second;
    SandboxJob job;
    job.files["glue.cc"] = source;
    job.argv = {task.build.compiler, "-O2", "-fPIC", "-shared", "-o", "glue.so", "glue.cc"};
    job.collect = {"glue.so"};
    Result<SandboxResult> result = co_await run_sandboxed(machine, std::move(job));
    if (!result)
        co_return fail(result.error().where, result.error().what);
    if (!result->files.contains("glue.so"))
        co_return fail(task.name,
                       "the glue for its arguments does not compile: " + result->exit.err);
    co_return machine.made_once[key] = std::move(result->files["glue.so"]);
}

awaitable<Result<std::string>> build_inputs(Machine& machine, const Task& task,
                                            const Program& program, BuildKind kind) {
    if (!task.kernel)
        co_return tl::unexpected(not_a_kernel(task));
    Result<std::string> version = co_await compiler_version(machine, task.build.compiler);
    if (!version)
        co_return fail(version.error().where, version.error().what);
    nlohmann::json files = nlohmann::json::object();
    for (const auto& [path, text] : task.support)
        files[path] = sha256_hex(text);
    for (const auto& [path, text] : program.files)
        files[path] = sha256_hex(text);
    const std::vector<std::string> flags = flags_of(task.build, kind);
    nlohmann::json inputs = {{"stage", "build"},
                             {"harness", harness_version},
                             {"kind", name_of_kind(kind)},
                             {"compiler", task.build.compiler},
                             {"compiler_version", *version},
                             {"flags", flags},
                             {"link", task.build.link},
                             {"signature", signature_header(kernel_of(task), Side::candidate)},
                             {"files", files}};
    if (!task.build.command.empty()) {
        inputs["command"] = task.build.command;
        inputs["output"] = task.build.output;
    }
    // With "native" in the flags the object depends on the processor.
    if (std::any_of(flags.begin(), flags.end(), [](const std::string& flag) {
            return flag.find("=native") != std::string::npos;
        }))
        inputs["processor"] = machine.cpu_name;
    co_return inputs.dump();
}

awaitable<Result<BuildOutcome>> build(Machine& machine, const Task& task, const Program& program,
                                      BuildKind kind) {
    if (!task.kernel)
        co_return tl::unexpected(not_a_kernel(task));
    if (!task.build.command.empty()) {
        if (kind != BuildKind::timed)
            co_return fail(
                task.name,
                fmt::format("is built by a command of its own, so that there is no {} build of it",
                            name_of_kind(kind)));
        co_return co_await build_by_command(machine, task, program);
    }
    Unit unit;
    unit.files = task.support;
    for (const auto& [path, text] : program.files) {
        unit.files[path] = text;
        if (is_source(path))
            unit.sources.push_back(path);
    }
    if (unit.sources.empty())
        co_return fail(task.name, "its artifact has no source file (.cc, .cpp, .cxx, .c)");
    unit.entry = kernel_of(task).entry;
    unit.signature = signature_header(kernel_of(task), Side::candidate);
    unit.flags = flags_of(task.build, kind);
    unit.link = task.build.link;
    if (kind != BuildKind::timed) {
        unit.executable = true;
        unit.own[".loopscope/glue.cc"] = glue_source(kernel_of(task), Side::candidate);
        unit.own[".loopscope/main.cc"] = standalone_source(kernel_of(task));
    }
    co_return co_await build_unit(machine, task, std::move(unit));
}

awaitable<Result<BuildOutcome>> build_reference(Machine& machine, const Task& task) {
    if (!task.kernel)
        co_return tl::unexpected(not_a_kernel(task));
    Unit unit;
    unit.files = task.support;
    unit.files[kernel_of(task).reference.file] = kernel_of(task).reference.text;
    unit.sources = {kernel_of(task).reference.file};
    unit.entry = kernel_of(task).reference.entry;
    unit.signature = signature_header(kernel_of(task), Side::reference);
    unit.flags = {"-O3", "-march=native", "-ffp-contract=off"};
    co_return co_await build_unit(machine, task, std::move(unit));
}

awaitable<Result<BuildOutcome>> build_peer(Machine& machine, const Task& task, const Peer& peer) {
    if (!task.kernel)
        co_return tl::unexpected(not_a_kernel(task));
    Unit unit;
    unit.files = task.support;
    unit.files[peer.file] = peer.text;
    unit.sources = {peer.file};
    unit.entry = kernel_of(task).entry;
    unit.signature = signature_header(kernel_of(task), Side::candidate);
    unit.flags = flags_of(task.build, BuildKind::timed);
    unit.link = peer.link;
    co_return co_await build_unit(machine, task, std::move(unit));
}

}  // namespace loopscope
