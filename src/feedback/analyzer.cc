// The analyzer: what the text of a candidate says about its speed before it runs. Loop nests and
// array accesses with their strides (evaluate/parse.h), what the compiler's vectoriser made of
// them, and the arithmetic intensity.
#include "core/text.h"
#include "evaluate/parse.h"
#include "feedback/components.h"
#include "feedback/tool_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace loopscope {
namespace {

using nlohmann::json;

constexpr int cache_line = 64;
constexpr std::size_t max_listed_accesses = 60;

std::string operations_text(const OperationCount& count) {
    std::vector<std::string> parts;
    const auto add = [&](std::int64_t n, std::string_view one, std::string_view many) {
        if (n > 0)
            parts.push_back(fmt::format("{} {}", n, n == 1 ? one : many));
    };
    add(count.adds, "add", "adds");
    add(count.multiplies, "multiply", "multiplies");
    add(count.divisions, "division", "divisions");
    add(count.square_roots, "square root", "square roots");
    add(count.calls, "mathematical call", "mathematical calls");
    return fmt::format("{}", fmt::join(parts, ", "));
}

std::string strides_text(const ArrayAccess& access) {
    std::string text;
    for (const Stride& stride : access.strides) {
        const std::string how = stride.indirect ? std::string("indirect") : stride.elements;
        text += fmt::format("{}{} in {}", text.empty() ? "" : ", ", how,
                            stride.variable.empty() ? "the loop" : stride.variable);
    }
    return text.empty() ? "not in a loop" : "stride " + text;
}

std::string_view use_of(const ArrayAccess& access) {
    return access.read && access.written ? "read and write" : access.written ? "write" : "read";
}

const Stride* innermost_stride(const ArrayAccess& access) {
    return access.strides.empty() ? nullptr : &access.strides.front();
}

bool is_contiguous(const Stride& stride, int lanes) {
    return stride.constant &&
           (*stride.constant == lanes || *stride.constant == 1 || *stride.constant == -1);
}

// Elements between iterations when it is a number, else "many".
bool is_far(const Stride& stride, std::int64_t element_bytes, int lanes) {
    if (!stride.affine)
        return true;
    if (!stride.constant)
        return true;
    const std::int64_t distance = std::abs(*stride.constant) * element_bytes;
    return distance >= cache_line && std::abs(*stride.constant) != lanes;
}

// --- locality

struct Locality {
    std::vector<std::string> sentences;
    json fields = json::array();
    std::vector<std::pair<std::string, std::vector<std::string>>>
        groups;  // what is said -> accesses, in order

    void say(const std::string& what, const std::string& access) {
        for (auto& [known, accesses] : groups) {
            if (known == what) {
                if (std::find(accesses.begin(), accesses.end(), access) == accesses.end())
                    accesses.push_back(access);
                return;
            }
        }
        groups.push_back({what, {access}});
    }
};

// "a[i] and b[j]" - and only the first four of many.
std::string listed(const std::vector<std::string>& names) {
    std::string text;
    for (std::size_t i = 0; i < names.size() && i < 4; ++i) {
        const bool last = i + 1 == names.size();
        text += (i == 0 ? "" : last ? " and " : ", ") + names[i];
    }
    return names.size() > 4 ? fmt::format("{} and {} more", text, names.size() - 4) : text;
}

void describe_access(const SourceFunction& function, const ArrayAccess& access, Locality& out) {
    const Stride* stride = innermost_stride(access);
    if (stride == nullptr)
        return;
    const SourceLoop& loop = function.loops[static_cast<std::size_t>(access.loop)];
    if (!loop.innermost)
        return;
    const std::string variable = loop_name(loop);
    std::string kind, what;
    if (stride->indirect) {
        kind = "indirect";
        what = fmt::format(
            "indirect in {} (line {}): each iteration may touch another cache line, and a vector "
            "of it needs a "
            "gather",
            variable, loop.line);
    } else if (stride->constant && *stride->constant == 0) {
        if (access.written) {
            kind = "updated_in_memory";
            what = access.read ? fmt::format(
                                     "read and written in every iteration of {} (line {}) at one "
                                     "address (stride 0): a "
                                     "local accumulator would keep it in a register",
                                     variable, loop.line)
                               : fmt::format(
                                     "written in every iteration of {} (line {}) at one address "
                                     "(stride 0): one write "
                                     "after the loop would do",
                                     variable, loop.line);
        } else {
            kind = "invariant";
        }
    } else if (is_contiguous(*stride, access.lanes)) {
        kind = "contiguous";
    } else if (is_far(*stride, access.element_bytes, access.lanes)) {
        kind = "strided";
        const std::string distance =
            !stride->affine ? std::string("an irregular distance")
            : stride->constant
                ? fmt::format("{} bytes", std::abs(*stride->constant) * access.element_bytes)
                : fmt::format("{} elements of {} bytes", stride->elements, access.element_bytes);
        what = fmt::format(
            "moved by {} per iteration of {} (line {}): a new cache line each time, of which {} of "
            "{} bytes are "
            "used before it may be evicted",
            distance, variable, loop.line, access.element_bytes * access.lanes, cache_line);
        for (std::size_t i = 1; i < access.strides.size(); ++i) {
            if (is_contiguous(access.strides[i], 1)) {
                what += fmt::format("; contiguous in {}", access.strides[i].variable);
                break;
            }
        }
    } else {
        kind = "short_stride";
        what = fmt::format(
            "of stride {} in {} (line {}): a part of each cache line is loaded and not used",
            stride->elements, variable, loop.line);
    }
    out.fields.push_back({{"function", function.name},
                          {"line", access.line},
                          {"access", access.text},
                          {"loop", variable},
                          {"kind", kind}});
    if (!what.empty())
        out.say(what, access.text);
}

// Which loop of a nest would give its accesses stride 0 or 1 if it were the innermost one.
void suggest_order(const SourceFunction& function, Locality& out) {
    for (const SourceLoop& inner : function.loops) {
        if (!inner.innermost || inner.parent < 0)
            continue;
        std::vector<int> nest;
        for (int id = inner.id; id >= 0; id = function.loops[static_cast<std::size_t>(id)].parent)
            nest.push_back(id);
        std::map<int, std::pair<int, int>> good;  // loop -> (near accesses, all)
        int accesses = 0;
        for (const ArrayAccess& access : function.accesses) {
            if (access.loop != inner.id)
                continue;
            ++accesses;
            for (const Stride& stride : access.strides) {
                const bool near = stride.constant && std::abs(*stride.constant) <= 1;
                good[stride.loop].first += near ? 1 : 0;
                good[stride.loop].second += 1;
            }
        }
        if (accesses < 1)
            continue;
        const int now = good[inner.id].first;
        int best = inner.id;
        for (const int id : nest) {
            if (good[id].first > good[best].first)
                best = id;
        }
        if (best == inner.id || now == accesses)
            continue;
        const SourceLoop& other = function.loops[static_cast<std::size_t>(best)];
        out.sentences.push_back(fmt::format(
            "with {} innermost instead of {}, {} of {} accesses of line {} would have stride 0 or "
            "1 (now {})",
            loop_name(other), loop_name(inner), good[best].first, accesses, inner.line, now));
        out.fields.push_back({{"function", function.name},
                              {"line", inner.line},
                              {"loop", loop_name(inner)},
                              {"kind", "better_innermost"},
                              {"better", loop_name(other)},
                              {"near", good[best].first},
                              {"near_now", now},
                              {"accesses", accesses}});
    }
}

// --- the vectoriser

// The innermost loop of the file that holds the line; nullptr = none.
const SourceLoop* loop_around(const SourceStructure& structure, const std::string& file, int line,
                              const SourceFunction** in = nullptr) {
    const SourceLoop* best = nullptr;
    for (const SourceFunction& function : structure.functions) {
        if (function.file != file)
            continue;
        for (const SourceLoop& loop : function.loops) {
            if (loop.line <= line && line <= loop.end_line &&
                (best == nullptr || loop.depth >= best->depth)) {
                best = &loop;
                if (in != nullptr)
                    *in = &function;
            }
        }
    }
    return best;
}

struct LoopRemark {
    std::string file;
    int loop_line = 0;  // 0 = outside of loops
    std::string variable;
    VectorRemark remark;
};

std::vector<LoopRemark> tie_to_loops(const SourceStructure& structure,
                                     const std::vector<VectorRemark>& remarks) {
    std::vector<LoopRemark> tied;
    for (const VectorRemark& remark : remarks) {
        LoopRemark entry;
        entry.file = remark.file;
        entry.remark = remark;
        if (const SourceLoop* loop = loop_around(structure, remark.file, remark.line)) {
            entry.loop_line = loop->line;
            entry.variable = loop_name(*loop);
        }
        tied.push_back(std::move(entry));
    }
    // A bare "not vectorized" at a loop says nothing beside a reason found inside it, nor beside a
    // success.
    std::vector<LoopRemark> kept;
    std::set<std::string> seen;
    for (const LoopRemark& entry : tied) {
        bool told = false;
        for (const LoopRemark& other : tied) {
            told = told || (entry.remark.reason.empty() && !entry.remark.vectorized &&
                            !other.remark.reason.empty() && other.file == entry.file &&
                            other.loop_line == entry.loop_line && !other.remark.superword);
        }
        const std::string key =
            fmt::format("{}:{}:{}:{}:{}", entry.file, entry.loop_line, entry.remark.vectorized,
                        entry.remark.superword, entry.remark.reason);
        if (!told && seen.insert(key).second)
            kept.push_back(entry);
    }
    return kept;
}

// One line a loop: how it was vectorized, or why not. The compiler may make several copies of a
// loop; one that is vectorized outweighs others that are not (peeled or unswitched ones).
std::vector<std::string> remark_lines(const std::vector<LoopRemark>& entries, bool several_files) {
    std::vector<std::string> lines;
    std::set<std::string> done;
    for (const LoopRemark& entry : entries) {
        const std::string prefix = several_files ? entry.file + " " : "";
        if (entry.remark.superword) {
            lines.push_back(fmt::format("{}line {}: straight-line code vectorized ({})", prefix,
                                        entry.remark.line, entry.remark.reason));
            continue;
        }
        const int line = entry.loop_line > 0 ? entry.loop_line : entry.remark.line;
        if (!done.insert(fmt::format("{}:{}", entry.file, line)).second)
            continue;
        std::vector<std::string> how, why;
        for (const LoopRemark& other : entries) {
            const int other_line = other.loop_line > 0 ? other.loop_line : other.remark.line;
            if (other.file != entry.file || other_line != line || other.remark.superword)
                continue;
            if (other.remark.vectorized)
                how.push_back(other.remark.reason);
            else if (!other.remark.reason.empty())
                why.push_back(
                    other.remark.line == line
                        ? other.remark.reason
                        : fmt::format("{} (at line {})", other.remark.reason, other.remark.line));
        }
        if (!how.empty())
            lines.push_back(
                fmt::format("{}line {}: loop vectorized ({})", prefix, line, fmt::join(how, "; ")));
        else if (!why.empty())
            lines.push_back(fmt::format("{}line {}: loop not vectorized: {}", prefix, line,
                                        fmt::join(why, "; ")));
        else
            lines.push_back(fmt::format("{}line {}: loop not vectorized", prefix, line));
    }
    return lines;
}

// --- arithmetic intensity

struct Intensity {
    std::vector<std::string> lines;
    json fields = json::object();
};

Intensity intensity_of(const Task& task, const SourceStructure& structure) {
    Intensity out;
    if (task.kernel && !task.kernel->flops.empty()) {
        json sizes = json::array();
        for (const Sizes& size : task.kernel->time_sizes) {
            const double flops = work_of(*task.kernel, size), bytes = bytes_of(*task.kernel, size);
            if (flops <= 0 || bytes <= 0)
                continue;
            out.lines.push_back(fmt::format(
                "arithmetic intensity: {:.3g} flop/byte at {} ({})", flops / bytes, to_text(size),
                task.kernel->bytes.empty() ? "every array moved once" : "as the task declares"));
            sizes.push_back({{"sizes", to_text(size)},
                             {"flops", flops},
                             {"bytes", bytes},
                             {"flop_per_byte", flops / bytes}});
        }
        out.fields["declared"] = std::move(sizes);
    }
    json loops = json::array();
    for (const SourceFunction& function : structure.functions) {
        for (const SourceLoop& loop : function.loops) {
            const std::int64_t flops = loop.operations.flops();
            if (!loop.innermost || flops == 0)
                continue;
            std::int64_t bytes = 0;
            for (const ArrayAccess& access : function.accesses) {
                if (access.loop != loop.id)
                    continue;
                // A read at one address is served from a register; an update or write goes to
                // memory each time.
                const Stride* stride = innermost_stride(access);
                const bool invariant =
                    stride != nullptr && stride->constant && *stride->constant == 0;
                const std::int64_t moved = access.element_bytes * access.lanes;
                bytes += (access.read && (!invariant || access.written) ? moved : 0) +
                         (access.written ? moved : 0);
            }
            out.lines.push_back(
                bytes > 0 ? fmt::format("arithmetic intensity of loop {} (line {}) as written: {} "
                                        "flop per {} bytes = {:.3g} "
                                        "flop/byte",
                                        loop_name(loop), loop.line, flops, bytes,
                                        static_cast<double>(flops) / static_cast<double>(bytes))
                          : fmt::format("arithmetic intensity of loop {} (line {}) as written: {} "
                                        "flop, no memory access",
                                        loop_name(loop), loop.line, flops));
            loops.push_back({{"function", function.name},
                             {"line", loop.line},
                             {"flops", flops},
                             {"bytes", bytes}});
        }
    }
    out.fields["loops"] = std::move(loops);
    return out;
}

// --- text and fields

std::string structure_text(const SourceStructure& structure, bool several_files) {
    std::string text;
    for (const SourceFunction& function : structure.functions) {
        int deepest = 0;
        for (const SourceLoop& loop : function.loops)
            deepest = std::max(deepest, loop.depth);
        text += fmt::format("function {} ({}line {}): {}", function.name,
                            several_files ? function.file + ", " : "", function.line,
                            function.loops.empty()
                                ? "no loops\n"
                                : fmt::format("{}, deepest nest {}\n",
                                              counted(function.loops.size(), "loop"), deepest));
        std::size_t listed = 0;
        const auto list_accesses = [&](int loop, const std::string& indent) {
            for (const ArrayAccess& access : function.accesses) {
                if (access.loop != loop)
                    continue;
                if (++listed > max_listed_accesses)
                    continue;
                text += fmt::format(
                    "{}access {} ({}{}): {}{}\n", indent, access.text, use_of(access),
                    access.conditional ? ", conditional" : "", strides_text(access),
                    access.lanes > 1 ? fmt::format(", {} elements at once", access.lanes) : "");
            }
        };
        for (const SourceLoop& loop : function.loops) {
            const std::string indent(static_cast<std::size_t>(2 * (std::min(loop.depth, 20) - 1)),
                                     ' ');
            text += fmt::format("{}loop {} (depth {}, line {}): {}", indent, loop_name(loop),
                                loop.depth, loop.line, bounds_text(loop));
            const std::string operations = operations_text(loop.operations);
            if (!operations.empty())
                text += "; " + operations + " per iteration";
            for (const Reduction& reduction : function.reductions) {
                if (reduction.loop == loop.id)
                    text += fmt::format("; accumulates into {} ({})", reduction.variable,
                                        reduction.operation);
            }
            if (!loop.branch_lines.empty())
                text +=
                    fmt::format("; {} (line {})",
                                fmt::format("{} {}", loop.branch_lines.size(),
                                            loop.branch_lines.size() == 1 ? "branch" : "branches"),
                                fmt::join(loop.branch_lines, ", "));
            if (!loop.calls.empty())
                text += fmt::format("; calls {}", fmt::join(loop.calls, ", "));
            text += '\n';
            list_accesses(loop.id, indent + "  ");
        }
        list_accesses(-1, "");
        if (listed > max_listed_accesses)
            text += fmt::format("({} more accesses)\n", listed - max_listed_accesses);
    }
    return text;
}

json operations_json(const OperationCount& count) {
    return {{"adds", count.adds},
            {"multiplies", count.multiplies},
            {"divisions", count.divisions},
            {"square_roots", count.square_roots},
            {"calls", count.calls}};
}

json structure_json(const SourceStructure& structure) {
    json functions = json::array();
    for (const SourceFunction& function : structure.functions) {
        json loops = json::array();
        for (const SourceLoop& loop : function.loops)
            loops.push_back({{"id", loop.id},
                             {"parent", loop.parent},
                             {"depth", loop.depth},
                             {"line", loop.line},
                             {"end_line", loop.end_line},
                             {"kind", loop.kind},
                             {"variable", loop.variable},
                             {"lower", loop.lower},
                             {"comparison", loop.comparison},
                             {"upper", loop.upper},
                             {"step", loop.step},
                             {"condition", loop.condition},
                             {"operations", operations_json(loop.operations)},
                             {"branch_lines", loop.branch_lines},
                             {"calls", loop.calls}});
        json accesses = json::array();
        for (const ArrayAccess& access : function.accesses) {
            json strides = json::object();
            for (const Stride& stride : access.strides)
                strides[stride.variable.empty() ? fmt::format("loop {}", stride.loop)
                                                : stride.variable] =
                    stride.indirect ? std::string("indirect") : stride.elements;
            accesses.push_back({{"text", access.text},
                                {"array", access.base},
                                {"line", access.line},
                                {"column", access.column},
                                {"read", access.read},
                                {"written", access.written},
                                {"conditional", access.conditional},
                                {"element_bytes", access.element_bytes},
                                {"lanes", access.lanes},
                                {"loop", access.loop},
                                {"strides", std::move(strides)}});
        }
        json reductions = json::array();
        for (const Reduction& reduction : function.reductions)
            reductions.push_back({{"variable", reduction.variable},
                                  {"operation", reduction.operation},
                                  {"line", reduction.line},
                                  {"loop", reduction.loop}});
        functions.push_back({{"name", function.name},
                             {"file", function.file},
                             {"line", function.line},
                             {"loops", std::move(loops)},
                             {"accesses", std::move(accesses)},
                             {"reductions", std::move(reductions)},
                             {"operations", operations_json(function.operations)}});
    }
    return functions;
}

bool is_clang(const std::string& compiler) { return compiler.find("clang") != std::string::npos; }

std::vector<std::string> remark_command(const Task& task, const Program& program) {
    std::vector<std::string> argv{task.build.compiler};
    argv.insert(argv.end(), task.build.flags.begin(), task.build.flags.end());
    if (is_clang(task.build.compiler)) {
        for (const std::string_view kind :
             {std::string_view("-Rpass="), std::string_view("-Rpass-missed="),
              std::string_view("-Rpass-analysis=")})
            argv.push_back(std::string(kind) + "(loop-vectorize|slp-vectorizer)");
        argv.emplace_back("-fno-caret-diagnostics");
        argv.emplace_back("-fno-color-diagnostics");
    } else {
        argv.emplace_back("-fopt-info-vec-optimized-missed");
    }
    for (const std::string_view flag :
         {std::string_view("-w"), std::string_view("-I."), std::string_view("-c")})
        argv.emplace_back(flag);
    for (const std::string& file : source_files(program))
        argv.push_back(file);
    return argv;
}

}  // namespace

awaitable<Result<Feedback>> analyzer_feedback(Machine& machine, const Subject& subject) {
    Feedback feedback;
    feedback.component = "analyzer";
    if (source_files(subject.program).empty()) {
        feedback.applicable = false;
        feedback.text =
            "The artifact has no C or C++ source; the analyzer reads no other language.";
        co_return feedback;
    }
    const Result<SourceStructure> structure =
        co_await parse_source(machine, subject.task, subject.program);
    if (!structure)
        co_return tl::unexpected<Error>(structure.error());

    std::vector<LoopRemark> remarks;
    std::string remark_note;
    if (!subject.task.build.command.empty()) {
        remark_note = "The task has a build command of its own, so the vectoriser was not asked.";
    } else if (find_tool(subject.task.build.compiler).empty()) {
        feedback.missing.push_back(subject.task.build.compiler + ": the vectoriser's remarks");
    } else {
        const Result<SandboxResult> compiled =
            co_await run_tool(machine, subject.task, subject.program,
                              remark_command(subject.task, subject.program), 30);
        if (!compiled)
            co_return tl::unexpected<Error>(compiled.error());
        if (compiled->exit.kind != Exit::Kind::exited)
            remark_note =
                "The vectoriser was not heard: the compiler was " + describe(compiled->exit) + ".";
        else if (compiled->exit.code != 0)
            remark_note = "The source does not compile, so the vectoriser has nothing to say.";
        remarks = tie_to_loops(*structure, vector_remarks(parse_diagnostics(compiled->exit.err)));
        std::erase_if(remarks, [&](const LoopRemark& entry) {
            return !subject.program.files.contains(entry.file);
        });
        if (remark_note.empty() && remarks.empty())
            remark_note = "The vectoriser reports nothing.";
    }

    const bool several = source_files(subject.program).size() > 1;
    std::string head = structure_text(*structure, several);
    if (!structure->problem.empty())
        head += "The source could not be read: " + structure->problem + ".\n";
    else if (structure->errors > 0)
        head += fmt::format("The source has {}; what is listed is what could be read.\n",
                            counted(static_cast<std::size_t>(structure->errors), "error"));
    if (structure->cut)
        head += "The source is larger than what is listed.\n";

    std::string tail;
    json remark_fields = json::array();
    for (const std::string& line : remark_lines(remarks, several))
        tail += line + "\n";
    for (const LoopRemark& entry : remarks) {
        remark_fields.push_back({{"file", entry.file},
                                 {"line", entry.remark.line},
                                 {"loop_line", entry.loop_line},
                                 {"loop", entry.variable},
                                 {"vectorized", entry.remark.vectorized},
                                 {"superword", entry.remark.superword},
                                 {"reason", entry.remark.reason}});
    }
    if (!remark_note.empty())
        tail += remark_note + "\n";
    Locality locality;
    for (const SourceFunction& function : structure->functions) {
        suggest_order(function, locality);
        for (const ArrayAccess& access : function.accesses)
            describe_access(function, access, locality);
    }
    for (const auto& [what, accesses] : locality.groups)
        locality.sentences.push_back(
            fmt::format("{} {} {}", listed(accesses), accesses.size() == 1 ? "is" : "are", what));
    for (const std::string& sentence : locality.sentences)
        tail += "locality: " + sentence + "\n";
    const Intensity intensity = intensity_of(subject.task, *structure);
    for (const std::string& line : intensity.lines)
        tail += line + "\n";

    // The conclusions are worth more than the end of a long list: the list gives way first.
    const std::size_t room = subject.task.feedback.max_bytes;
    if (head.size() + tail.size() > room) {
        tail = within(tail, std::max(room / 2, room - std::min(room, head.size())));
        head = within(head, room - std::min(room, tail.size()));
        if (!head.empty() && head.back() != '\n')
            head += '\n';
    }
    feedback.text = head + tail;
    feedback.fields =
        json{{"functions", structure_json(*structure)},
             {"vectorizer", std::move(remark_fields)},
             {"locality", std::move(locality.fields)},
             {"arithmetic_intensity", intensity.fields},
             {"errors", structure->errors},
             {"partial", structure->cut || structure->errors > 0 || !structure->problem.empty()}}
            .dump(-1, ' ', false, json::error_handler_t::replace);
    co_return feedback;
}

}  // namespace loopscope
