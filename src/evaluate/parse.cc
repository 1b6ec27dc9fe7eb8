#include "evaluate/parse.h"

#include "core/file.h"
#include "evaluate/sandbox.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

namespace loopscope {
namespace {

using nlohmann::json;

// Throws json::exception, which decode_structure turns into an Error.
OperationCount operations_of(const json& from) {
    OperationCount count;
    count.adds = from.at("adds").get<std::int64_t>();
    count.multiplies = from.at("multiplies").get<std::int64_t>();
    count.divisions = from.at("divisions").get<std::int64_t>();
    count.square_roots = from.at("square_roots").get<std::int64_t>();
    count.calls = from.at("calls").get<std::int64_t>();
    return count;
}

SourceLoop loop_of(const json& from) {
    SourceLoop loop;
    loop.id = from.at("id").get<int>();
    loop.parent = from.at("parent").get<int>();
    loop.depth = from.at("depth").get<int>();
    loop.line = from.at("line").get<int>();
    loop.column = from.at("column").get<int>();
    loop.end_line = from.at("end_line").get<int>();
    loop.kind = from.at("kind").get<std::string>();
    loop.variable = from.at("variable").get<std::string>();
    loop.lower = from.at("lower").get<std::string>();
    loop.comparison = from.at("comparison").get<std::string>();
    loop.upper = from.at("upper").get<std::string>();
    loop.step = from.at("step").get<std::string>();
    loop.condition = from.at("condition").get<std::string>();
    loop.innermost = from.at("innermost").get<bool>();
    loop.operations = operations_of(from.at("operations"));
    loop.branch_lines = from.at("branch_lines").get<std::vector<int>>();
    loop.calls = from.at("calls").get<std::vector<std::string>>();
    return loop;
}

ArrayAccess access_of(const json& from) {
    ArrayAccess access;
    access.base = from.at("base").get<std::string>();
    access.parameter = from.at("parameter").get<bool>();
    access.text = from.at("text").get<std::string>();
    access.line = from.at("line").get<int>();
    access.column = from.at("column").get<int>();
    access.read = from.at("read").get<bool>();
    access.written = from.at("written").get<bool>();
    access.conditional = from.at("conditional").get<bool>();
    access.element_bytes = from.at("element_bytes").get<std::int64_t>();
    access.lanes = from.at("lanes").get<int>();
    access.loop = from.at("loop").get<int>();
    for (const json& item : from.at("strides")) {
        Stride stride;
        stride.loop = item.at("loop").get<int>();
        stride.variable = item.at("variable").get<std::string>();
        stride.affine = item.at("affine").get<bool>();
        stride.indirect = item.at("indirect").get<bool>();
        stride.elements = item.at("elements").get<std::string>();
        if (item.contains("constant"))
            stride.constant = item.at("constant").get<std::int64_t>();
        access.strides.push_back(std::move(stride));
    }
    return access;
}

Reduction reduction_of(const json& from) {
    Reduction reduction;
    reduction.variable = from.at("variable").get<std::string>();
    reduction.operation = from.at("operation").get<std::string>();
    reduction.line = from.at("line").get<int>();
    reduction.loop = from.at("loop").get<int>();
    reduction.floating = from.at("floating").get<bool>();
    return reduction;
}

SourceFunction function_of(const json& from) {
    SourceFunction function;
    function.name = from.at("name").get<std::string>();
    function.file = from.at("file").get<std::string>();
    function.line = from.at("line").get<int>();
    function.end_line = from.at("end_line").get<int>();
    function.parameters = from.at("parameters").get<std::vector<std::string>>();
    function.operations = operations_of(from.at("operations"));
    for (const json& loop : from.at("loops"))
        function.loops.push_back(loop_of(loop));
    for (const json& access : from.at("accesses"))
        function.accesses.push_back(access_of(access));
    for (const json& reduction : from.at("reductions"))
        function.reductions.push_back(reduction_of(reduction));
    return function;
}

// Users index `loops` by these ids: the parser read hostile text, so they are checked once, here.
bool ids_in_range(const SourceFunction& function) {
    const int count = static_cast<int>(function.loops.size());
    const auto known = [&](int id) { return id >= 0 && id < count; };
    for (int i = 0; i < count; ++i) {
        const SourceLoop& loop = function.loops[static_cast<std::size_t>(i)];
        if (loop.id != i || loop.parent < -1 || loop.parent >= i)
            return false;
    }
    for (const ArrayAccess& access : function.accesses) {
        if (access.loop != -1 && !known(access.loop))
            return false;
        for (const Stride& stride : access.strides) {
            if (!known(stride.loop))
                return false;
        }
    }
    for (const Reduction& reduction : function.reductions) {
        if (!known(reduction.loop))
            return false;
    }
    return true;
}

// The flags that change what the text means; optimisation flags would only make libclang complain
// of those it lacks.
bool matters_to_parser(std::string_view flag) {
    static constexpr std::array<std::string_view, 8> prefixes = {
        "-D", "-U", "-I", "-std=", "-m", "-fopenmp", "-x", "-include"};
    for (const std::string_view prefix : prefixes) {
        if (flag.starts_with(prefix))
            return true;
    }
    return false;
}

bool is_c_family_source(std::string_view name) {
    static constexpr std::array<std::string_view, 5> endings = {".cc", ".cpp", ".cxx", ".c", ".C"};
    for (const std::string_view ending : endings) {
        if (name.ends_with(ending))
            return true;
    }
    return false;
}

}  // namespace

Result<SourceStructure> decode_structure(std::string_view text) {
    const json document = json::parse(text, nullptr, false);
    if (!document.is_object())
        return fail("loopscope-parse", "its output is not a JSON object");
    try {
        if (document.at("version").get<int>() != structure_version)
            return fail(
                "loopscope-parse",
                fmt::format("its output has version {}, this program reads {}: install both "
                            "from one build",
                            document.at("version").dump(), structure_version));
        SourceStructure structure;
        structure.errors = document.at("errors").get<int>();
        structure.cut = document.at("cut").get<bool>();
        for (const json& function : document.at("functions")) {
            structure.functions.push_back(function_of(function));
            if (!ids_in_range(structure.functions.back()))
                return fail("loopscope-parse", "its output names a loop that it does not list");
        }
        for (const json& unreadable : document.at("unreadable"))
            structure.problem +=
                (structure.problem.empty() ? "" : "; ") + unreadable.get<std::string>();
        return structure;
    } catch (const json::exception& error) {
        return fail("loopscope-parse", std::string("unexpected output: ") + error.what());
    }
}

awaitable<Result<SourceStructure>> parse_source(Machine& machine, const Task& task,
                                                const Program& program) {
    const std::filesystem::path parser = program_directory() / "loopscope-parse";
    std::error_code ignored;
    if (!std::filesystem::exists(parser, ignored))
        co_return fail(
            parser.string(),
            "not found: it belongs beside the program (LOOPSCOPE_LIBEXEC names another folder)");
    constexpr const char* inside = "/loopscope-parse";
    SandboxJob job;
    job.argv.emplace_back(inside);
    for (const auto& [name, text] : program.files) {
        if (is_c_family_source(name))
            job.argv.push_back(name);
    }
    SourceStructure none;
    if (job.argv.size() == 1) {
        none.problem = "no C or C++ source among the artifact's files";
        co_return none;
    }
    job.argv.emplace_back("--");
    for (const std::string& flag : task.build.flags) {
        if (matters_to_parser(flag))
            job.argv.push_back(flag);
    }
    job.files = program.files;
    for (const auto& [name, text] : task.support)
        job.files.emplace(name, text);
    job.read_only.emplace_back(parser.string(), inside);
    job.wall_seconds = 20;
    job.cpu_seconds = 20;
    job.memory_mb = 2048;
    job.output_kb = 8192;
    const Permit permit = co_await machine.build_slots.acquire();
    Result<SandboxResult> done = co_await run_sandboxed(machine, std::move(job));
    if (!done)
        co_return tl::unexpected<Error>(done.error());
    const Exit& exit = done->exit;
    if (exit.kind != Exit::Kind::exited || (exit.code != 0 && exit.code != 3) || exit.cut) {
        if (exit.kind == Exit::Kind::exited && exit.code == 127)
            co_return fail(parser.string(), "does not start in the sandbox: " + exit.err);
        none.problem = exit.cut ? std::string("the source's structure is too large to list")
                                : "the parser ended without an answer (" + describe(exit) + ")";
        co_return none;
    }
    co_return decode_structure(exit.out);
}

}  // namespace loopscope
