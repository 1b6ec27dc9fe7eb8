#include "feedback/tool_output.h"

#include "core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <set>
#include <tuple>

namespace loopscope {
namespace {

constexpr std::size_t max_diagnostics = 500, max_reports = 50, max_frames = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes a decimal number from the front of `text`; nullopt leaves it untouched.
std::optional<std::int64_t> take_number(std::string_view& text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc())
        return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

bool take(std::string_view& text, std::string_view prefix) {
    if (!text.starts_with(prefix))
        return false;
    text.remove_prefix(prefix.size());
    return true;
}

int small(std::optional<std::int64_t> value) {
    return value && *value >= 0 && *value <= 100'000'000 ? static_cast<int>(*value) : 0;
}

std::string relative(std::string_view path, std::string_view root) {
    if (!root.empty() && path.starts_with(root))
        path.remove_prefix(root.size());
    while (path.starts_with("./"))
        path.remove_prefix(2);
    return std::string(path);
}

// The name that `path` has among the artifact's files: equal, or the tail of an absolute path. "" =
// none.
std::string own_name(std::string_view path, const std::vector<std::string>& own,
                     std::string_view root) {
    const std::string name = relative(path, root);
    for (const std::string& file : own) {
        if (file.empty())
            continue;
        if (name == file)
            return file;
        if (name.size() > file.size() && name.ends_with(file) &&
            name[name.size() - file.size() - 1] == '/')
            return file;
    }
    return "";
}

// "FILE:LINE[:COLUMN]: rest" split up. A path may hold colons, so the digits decide.
struct Located {
    std::string_view file;
    int line = 0, column = 0;
    std::string_view rest;
};
std::optional<Located> located(std::string_view text) {
    for (std::size_t colon = text.find(':'); colon != std::string_view::npos;
         colon = text.find(':', colon + 1)) {
        if (colon == 0 || colon + 1 >= text.size() || !is_digit(text[colon + 1]))
            continue;
        Located place;
        place.file = text.substr(0, colon);
        std::string_view rest = text.substr(colon + 1);
        place.line = small(take_number(rest));
        if (!take(rest, ":"))
            continue;
        if (!rest.empty() && is_digit(rest.front())) {
            place.column = small(take_number(rest));
            if (!take(rest, ":"))
                continue;
        }
        place.rest = trim(rest);
        return place;
    }
    return std::nullopt;
}

constexpr std::array<std::string_view, 7> severities = {"fatal error", "error",  "warning",  "note",
                                                        "remark",      "missed", "optimized"};

// Takes "error: " and the like from the front.
std::string take_severity(std::string_view& text) {
    for (const std::string_view severity : severities) {
        if (text.starts_with(severity) && text.substr(severity.size()).starts_with(":")) {
            text.remove_prefix(severity.size() + 1);
            text = trim(text);
            return severity == "fatal error" ? "error" : std::string(severity);
        }
    }
    return "";
}

// A trailing " [-Wflag]" or " [check-name]".
std::string take_flag(std::string_view& message) {
    if (!message.ends_with("]"))
        return "";
    const std::size_t open = message.rfind(" [");
    if (open == std::string_view::npos)
        return "";
    const std::string_view flag = message.substr(open + 2, message.size() - open - 3);
    if (flag.empty() || flag.find(' ') != std::string_view::npos)
        return "";
    message = trim(message.substr(0, open));
    return std::string(flag);
}

// "    7 |   code": the quoted source line, nullopt for other lines.
std::optional<std::string> quoted_source(std::string_view line) {
    std::string_view rest = line;
    while (!rest.empty() && rest.front() == ' ')
        rest.remove_prefix(1);
    if (!take_number(rest) || !take(rest, " |"))
        return std::nullopt;
    while (!rest.empty() && (rest.back() == ' ' || rest.back() == '\r'))
        rest.remove_suffix(1);
    return std::string(trim(rest));
}

// Names of temporary objects differ from build to build: "/tmp/matmul-1a2b3c.o" -> "matmul.o".
std::string without_temporaries(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t at = text.find("/tmp/");
        if (at == std::string_view::npos)
            break;
        out += text.substr(0, at);
        text.remove_prefix(at);
        std::size_t end = 0;
        while (end < text.size() && text[end] != ' ' && text[end] != ':' && text[end] != ')' &&
               text[end] != '\'')
            ++end;
        std::string_view name = text.substr(0, end);
        name.remove_prefix(name.rfind('/') + 1);
        const std::size_t dash = name.rfind('-'), dot = name.rfind('.');
        if (dash != std::string_view::npos && dot != std::string_view::npos && dash < dot)
            out += std::string(name.substr(0, dash)) + std::string(name.substr(dot));
        else
            out += name.ends_with(".o") ? std::string("object.o") : std::string(name);
        text.remove_prefix(end);
    }
    return out + std::string(text);
}

// A linker's error: "ld.lld-19: error: undefined symbol: f", "undefined reference to `f'".
std::optional<Diagnostic> linker_error(std::string_view line) {
    Diagnostic found;
    found.severity = "error";
    const std::size_t reference = line.find("undefined reference to ");
    if (reference != std::string_view::npos) {
        found.message = std::string(line.substr(reference));
        return found;
    }
    for (const std::string_view mark :
         {std::string_view(": error: "), std::string_view(": fatal error: ")}) {
        const std::size_t at = line.find(mark);
        if (at != std::string_view::npos && at > 0 &&
            line.substr(0, at).find(' ') == std::string_view::npos) {
            const std::string_view program = line.substr(0, at);
            const bool linker = program.find("ld") != std::string_view::npos ||
                                program.find("clang") != std::string_view::npos ||
                                program.find("g++") != std::string_view::npos ||
                                program.find("gcc") != std::string_view::npos;
            if (!linker)
                continue;
            found.message = without_temporaries(trim(line.substr(at + mark.size())));
            // clang's own summary of what the linker has said already.
            if (found.message.starts_with("linker command failed"))
                return std::nullopt;
            return found;
        }
    }
    for (const std::string_view driver :
         {std::string_view("error: "), std::string_view("clang: error: ")}) {
        if (line.starts_with(driver)) {
            found.message = without_temporaries(line.substr(driver.size()));
            if (found.message.starts_with("linker command failed"))
                return std::nullopt;
            return found;
        }
    }
    return std::nullopt;
}

}  // namespace

std::vector<Diagnostic> parse_diagnostics(std::string_view log, std::string_view root) {
    std::vector<Diagnostic> found;
    std::set<std::string> seen;
    bool current = false;  // the last message was kept, notes and source belong to it
    bool wants_source = false;
    for (const std::string& raw : split_lines(log)) {
        const std::string_view line = raw;
        if (wants_source) {
            if (const std::optional<std::string> source = quoted_source(line)) {
                found.back().source = *source;
                wants_source = false;
                continue;
            }
        }
        const Located place = located(line).value_or(Located{});
        std::string_view rest = place.rest;
        const std::string severity = take_severity(rest);
        if (severity.empty()) {
            // A remark may go on in a second line, which then holds the flag.
            if (wants_source && current && found.back().severity == "remark" &&
                found.back().flag.empty()) {
                std::string_view more = trim(line);
                found.back().flag = take_flag(more);
                found.back().message += " " + without_temporaries(more);
                continue;
            }
            if (std::optional<Diagnostic> error = linker_error(line)) {
                wants_source = false;
                current = seen.insert(error->message).second && found.size() < max_diagnostics;
                if (current)
                    found.push_back(std::move(*error));
            }
            continue;
        }
        wants_source = false;
        if (severity == "note" && !found.empty()) {
            if (current && found.back().notes.size() < 20) {
                DiagnosticNote note;
                note.file = relative(place.file, root);
                note.line = place.line;
                note.column = place.column;
                note.message = without_temporaries(rest);
                found.back().notes.push_back(std::move(note));
            }
            continue;
        }
        Diagnostic diagnostic;
        diagnostic.file = relative(place.file, root);
        diagnostic.line = place.line;
        diagnostic.column = place.column;
        diagnostic.severity = severity;
        diagnostic.flag = take_flag(rest);
        diagnostic.message = without_temporaries(rest);
        const std::string key =
            fmt::format("{}:{}:{}:{}:{}:{}", diagnostic.file, diagnostic.line, diagnostic.column,
                        severity, diagnostic.message, diagnostic.flag);
        current = found.size() < max_diagnostics && seen.insert(key).second;
        wants_source = current;
        if (current)
            found.push_back(std::move(diagnostic));
    }
    return found;
}

namespace {

// "    #0 0x55cb in matmul /work/oob.cc:6:39" or "... in f(int) (/lib/x.so+0x1) (BuildId: ...)".
std::optional<StackFrame> stack_frame(std::string_view line, std::string_view root) {
    line = trim(line);
    if (!take(line, "#") || !take_number(line))
        return std::nullopt;
    StackFrame frame;
    const std::size_t in = line.find(" in ");
    if (in == std::string_view::npos)
        return frame;
    line.remove_prefix(in + 4);
    const std::size_t space = line.rfind(' ');
    const std::size_t module = line.find(" (/");
    if (module != std::string_view::npos) {
        frame.function = std::string(trim(line.substr(0, module)));
        return frame;
    }
    if (space == std::string_view::npos) {
        frame.function = std::string(line);
        return frame;
    }
    frame.function = std::string(trim(line.substr(0, space)));
    std::string_view place = line.substr(space + 1);
    const std::size_t colon = place.find(':');
    frame.file = relative(place.substr(0, colon), root);
    if (colon != std::string_view::npos) {
        place.remove_prefix(colon + 1);
        frame.line = small(take_number(place));
        if (take(place, ":"))
            frame.column = small(take_number(place));
    }
    return frame;
}

// "0x51 is located 0 bytes after 1156-byte region [..)", "... 4 bytes after global variable 't'
// defined in ..."
void read_region(std::string_view line, SanitizerReport& report) {
    const std::size_t at = line.find(" is located ");
    if (at == std::string_view::npos)
        return;
    line.remove_prefix(at + 12);
    const std::optional<std::int64_t> distance = take_number(line);
    if (!distance || !take(line, " bytes "))
        return;
    for (const std::string_view side :
         {std::string_view("after"), std::string_view("before"), std::string_view("inside of"),
          std::string_view("inside"), std::string_view("to the right of"),
          std::string_view("to the left of")}) {
        if (!take(line, side))
            continue;
        report.side = side == "to the right of"  ? "after"
                      : side == "to the left of" ? "before"
                      : side == "inside of"      ? "inside"
                                                 : std::string(side);
        report.distance = *distance;
        line = trim(line);
        std::string_view sized = line;
        if (const std::optional<std::int64_t> bytes = take_number(sized);
            bytes && sized.starts_with("-byte region"))
            report.region_bytes = *bytes;
        if (take(line, "global variable '")) {
            report.variable = std::string(line.substr(0, line.find('\'')));
            const std::size_t size = line.find(" of size ");
            if (size != std::string_view::npos) {
                std::string_view digits = line.substr(size + 9);
                report.region_bytes = take_number(digits).value_or(0);
            }
        }
        return;
    }
}

// "    [32, 48) 'tmp' (line 5) <== Memory access at offset 48 overflows this variable"
void read_stack_variable(std::string_view line, SanitizerReport& report) {
    if (line.find("<== Memory access") == std::string_view::npos)
        return;
    std::string_view range = trim(line);
    if (!take(range, "["))
        return;
    const std::optional<std::int64_t> from = take_number(range);
    if (!from || !take(range, ", "))
        return;
    const std::optional<std::int64_t> to = take_number(range);
    const std::size_t open = line.find('\'');
    const std::size_t close = open == std::string_view::npos ? open : line.find('\'', open + 1);
    if (!to || *to < *from || close == std::string_view::npos)
        return;
    report.variable = std::string(line.substr(open + 1, close - open - 1));
    if (report.region_bytes == 0 && *from >= 0)
        report.region_bytes = *to - *from;
    if (report.side.empty())
        report.side = line.find("underflows") != std::string_view::npos ? "before" : "after";
}

void blame(SanitizerReport& report, const std::vector<std::string>& own, std::string_view root) {
    for (const StackFrame& frame : report.frames) {
        const std::string name = own_name(frame.file, own, root);
        if (name.empty())
            continue;
        report.file = name;
        report.line = frame.line;
        report.column = frame.column;
        report.function = frame.function;
        return;
    }
}

}  // namespace

std::vector<SanitizerReport> parse_sanitizer_output(std::string_view text,
                                                    const std::vector<std::string>& own,
                                                    std::string_view root) {
    std::vector<SanitizerReport> reports;
    bool stack =
        false;  // the frames of the fault itself come first; those of the allocation follow
    bool stack_done = false;
    for (const std::string& raw : split_lines(text)) {
        const std::string_view line = raw;
        if (reports.size() >= max_reports)
            break;
        const std::size_t header = line.find("ERROR: ");
        if (header != std::string_view::npos) {
            std::string_view rest = line.substr(header + 7);
            const std::size_t colon = rest.find(": ");
            const std::string_view tool = rest.substr(0, colon);
            if (colon != std::string_view::npos && tool.ends_with("Sanitizer") &&
                tool.find(' ') == tool.npos) {
                rest.remove_prefix(colon + 2);
                SanitizerReport report;
                report.tool = std::string(tool);
                report.kind = std::string(rest.substr(0, rest.find(' ')));
                if (report.kind == "detected" || report.kind == "requested" ||
                    report.kind == "attempting") {
                    const std::size_t address = rest.find(" 0x");
                    report.kind = std::string(trim(rest.substr(0, address)));
                    while (report.kind.ends_with(" on") || report.kind.ends_with(":"))
                        report.kind = std::string(trim(report.kind.substr(
                            0, report.kind.rfind(report.kind.ends_with(":") ? ':' : ' '))));
                }
                reports.push_back(std::move(report));
                stack = true;
                stack_done = false;
                continue;
            }
        }
        const std::size_t runtime = line.find(": runtime error: ");
        if (runtime != std::string_view::npos) {
            SanitizerReport report;
            report.tool = "UndefinedBehaviorSanitizer";
            report.kind = std::string(line.substr(runtime + 17));
            // Addresses differ from run to run.
            for (std::size_t at = report.kind.find("0x"); at != std::string::npos;
                 at = report.kind.find("0x", at + 2)) {
                std::size_t end = at + 2;
                while (end < report.kind.size() &&
                       std::isxdigit(static_cast<unsigned char>(report.kind[end])) != 0)
                    ++end;
                report.kind.replace(at, end - at, "0x...");
            }
            if (const std::optional<Located> place = located(line)) {
                StackFrame frame;
                frame.file = relative(place->file, root);
                frame.line = place->line;
                frame.column = place->column;
                report.frames.push_back(std::move(frame));
            }
            blame(report, own, root);
            if (report.file.empty() && !report.frames.empty()) {
                report.file = report.frames[0].file;
                report.line = report.frames[0].line;
                report.column = report.frames[0].column;
            }
            bool repeated = false;
            for (const SanitizerReport& earlier : reports)
                repeated =
                    repeated || (earlier.tool == report.tool && earlier.file == report.file &&
                                 earlier.line == report.line && earlier.column == report.column);
            if (!repeated)
                reports.push_back(std::move(report));
            stack = false;
            stack_done = true;
            continue;
        }
        if (reports.empty() || reports.back().tool == "UndefinedBehaviorSanitizer")
            continue;
        SanitizerReport& report = reports.back();
        if (line.starts_with("READ of size ") || line.starts_with("WRITE of size ")) {
            report.write = line.starts_with("WRITE");
            std::string_view digits = line.substr(report.write ? 14 : 13);
            report.access_bytes = take_number(digits).value_or(0);
            continue;
        }
        if (line.find("The signal is caused by a ") != std::string_view::npos) {
            report.write = line.find("WRITE") != std::string_view::npos;
            continue;
        }
        if (const std::optional<StackFrame> frame = stack_frame(line, root)) {
            if (stack && !stack_done && report.frames.size() < max_frames)
                report.frames.push_back(*frame);
            continue;
        }
        if (stack && !report.frames.empty() && trim(line).empty()) {
            stack_done = true;
            if (report.file.empty())
                blame(report, own, root);
        }
        read_region(line, report);
        read_stack_variable(line, report);
    }
    for (SanitizerReport& report : reports) {
        if (report.file.empty())
            blame(report, own, root);
    }
    return reports;
}

std::vector<VectorRemark> vector_remarks(const std::vector<Diagnostic>& diagnostics) {
    std::vector<VectorRemark> remarks;
    std::vector<VectorRemark> bare;  // "missed" without a reason
    for (const Diagnostic& diagnostic : diagnostics) {
        VectorRemark remark;
        remark.file = diagnostic.file;
        remark.line = diagnostic.line;
        remark.column = diagnostic.column;
        std::string_view message = diagnostic.message;
        if (diagnostic.severity == "remark") {
            const bool loop = diagnostic.flag.find("loop-vectorize") != std::string::npos;
            remark.superword = diagnostic.flag.find("slp-vectorize") != std::string::npos;
            if (!loop && !remark.superword)
                continue;
            if (diagnostic.flag.starts_with("-Rpass=")) {
                remark.vectorized = true;
                if (message.find("hoisted") != std::string_view::npos)
                    continue;  // a by-product of vectorising, no news of its own
                const std::size_t open = message.find('(');
                if (loop && open != std::string_view::npos && message.ends_with(")")) {
                    std::string how(message.substr(open + 1, message.size() - open - 2));
                    for (const auto& [from, to] : {std::pair<std::string_view, std::string_view>(
                                                       "vectorization width: ", "width "),
                                                   std::pair<std::string_view, std::string_view>(
                                                       "interleaved count: ", "interleaved ")}) {
                        const std::size_t at = how.find(from);
                        if (at != std::string::npos)
                            how.replace(at, from.size(), to);
                    }
                    remark.reason = how;
                } else {
                    remark.reason = std::string(message);
                }
                remarks.push_back(std::move(remark));
                continue;
            }
            const std::size_t colon = message.find("not vectorized: ");
            if (colon != std::string_view::npos) {
                message.remove_prefix(colon + 16);
                message = message.substr(0, message.find("; allow reordering"));
                const std::size_t advice = message.find(". Use #pragma");
                constexpr std::string_view end_of_advice = " separate loop";
                const std::size_t end =
                    advice == message.npos ? advice : message.find(end_of_advice, advice);
                remark.reason = std::string(trim(message.substr(0, advice)));
                if (end != message.npos) {
                    const std::string_view detail =
                        trim(message.substr(end + end_of_advice.size()));
                    if (!detail.empty())
                        remark.reason += fmt::format(" ({})", detail);
                }
                remarks.push_back(std::move(remark));
            } else if (diagnostic.flag.starts_with("-Rpass-missed=") && loop) {
                bare.push_back(std::move(remark));
            } else if (!message.starts_with("loop not vectorized") && !remark.superword &&
                       message.find("interleaving") == message.npos &&
                       diagnostic.flag.starts_with("-Rpass-analysis=")) {
                // "the cost-model indicates that vectorization is not beneficial" and the like
                remark.reason = std::string(message);
                remarks.push_back(std::move(remark));
            }
        } else if (diagnostic.severity == "optimized") {
            remark.vectorized = message.find("loop vectorized") != std::string_view::npos;
            remark.superword = message.find("basic block") != std::string_view::npos;
            if (!remark.vectorized && !remark.superword)
                continue;
            remark.vectorized = true;
            const std::size_t how = message.find("using ");
            remark.reason =
                std::string(how == std::string_view::npos ? message : message.substr(how + 6));
            remarks.push_back(std::move(remark));
        } else if (diagnostic.severity == "missed") {
            if (take(message, "not vectorized: ")) {
                remark.reason = std::string(message);
                remarks.push_back(std::move(remark));
            } else if (message.starts_with("couldn't vectorize loop")) {
                bare.push_back(std::move(remark));
            }
        }
    }
    // clang puts the reason at the offending statement, the bare remark at the loop: the caller,
    // who knows the loops, joins the two; here only equal places are joined.
    for (VectorRemark& remark : bare) {
        bool explained = false;
        for (const VectorRemark& other : remarks)
            explained = explained || (other.file == remark.file && other.line == remark.line &&
                                      !other.superword);
        if (!explained)
            remarks.push_back(std::move(remark));
    }
    std::sort(remarks.begin(), remarks.end(), [](const VectorRemark& a, const VectorRemark& b) {
        return std::tie(a.file, a.line, a.column, a.superword, a.vectorized, a.reason) <
               std::tie(b.file, b.line, b.column, b.superword, b.vectorized, b.reason);
    });
    return remarks;
}

CacheCounts& CacheCounts::operator+=(const CacheCounts& other) {
    // Sums of counts that a file may have invented: they wrap rather than overflow.
    const auto add = [](std::int64_t& into, std::int64_t value) {
        into = static_cast<std::int64_t>(static_cast<std::uint64_t>(into) +
                                         static_cast<std::uint64_t>(value));
    };
    add(instructions, other.instructions);
    add(reads, other.reads);
    add(writes, other.writes);
    add(d1_read_misses, other.d1_read_misses);
    add(d1_write_misses, other.d1_write_misses);
    add(ll_read_misses, other.ll_read_misses);
    add(ll_write_misses, other.ll_write_misses);
    return *this;
}

namespace {

// "D1 cache:         32768 B, 64 B, 8-way associative" -> "D1 32 KB, 8-way"
std::string cache_description(std::string_view text) {
    const std::size_t space = text.find(' ');
    const std::string_view name = text.substr(0, space);
    const std::size_t colon = text.find(':');
    if (space == std::string_view::npos || colon == std::string_view::npos)
        return std::string(text);
    std::string_view rest = trim(text.substr(colon + 1));
    const std::optional<std::int64_t> bytes = take_number(rest);
    const std::size_t way = rest.find("-way");
    if (!bytes || way == std::string_view::npos)
        return std::string(text);
    const std::size_t comma = rest.rfind(' ', way);
    const std::string_view ways = rest.substr(comma + 1, way - comma - 1);
    const std::string size = *bytes >= (1 << 20) ? fmt::format("{} MB", *bytes >> 20)
                                                 : fmt::format("{} KB", *bytes >> 10);
    return fmt::format("{} {}, {}-way", name, size, ways);
}

}  // namespace

Result<CacheProfile> parse_cachegrind(std::string_view text, const std::vector<std::string>& own,
                                      std::string_view root) {
    CacheProfile profile;
    std::vector<std::string> events;
    struct Entry {
        std::string file, function;
        int line;
        CacheCounts counts;
    };
    std::vector<Entry> entries;
    std::set<std::string> own_functions;
    std::string file, function;
    int number = 0;
    for (const std::string& raw : split_lines(text)) {
        ++number;
        std::string_view line = raw;
        if (take(line, "desc: ")) {
            if (line.starts_with("D1") || line.starts_with("LL"))
                profile.caches.push_back(cache_description(line));
        } else if (take(line, "events: ")) {
            for (std::string_view rest = trim(line); !rest.empty();) {
                const std::size_t space = rest.find(' ');
                events.emplace_back(rest.substr(0, space));
                rest =
                    space == std::string_view::npos ? std::string_view() : trim(rest.substr(space));
            }
        } else if (take(line, "fl=")) {
            file = std::string(line);
        } else if (take(line, "fn=")) {
            function = std::string(line);
            if (!own_name(file, own, root).empty())
                own_functions.insert(function);
        } else if (!line.empty() && is_digit(line.front())) {
            if (events.empty())
                return fail(fmt::format("cachegrind output, line {}", number),
                            "counts before the events line");
            Entry entry;
            entry.file = own_name(file, own, root);
            entry.function = function;
            entry.line = small(take_number(line));
            for (const std::string& event : events) {
                line = trim(line);
                if (line.empty())
                    break;  // trailing zeros may be left out
                const std::optional<std::int64_t> count = take_number(line);
                if (!count)
                    return fail(fmt::format("cachegrind output, line {}", number),
                                "a count is not a number");
                if (event == "Ir")
                    entry.counts.instructions = *count;
                else if (event == "Dr")
                    entry.counts.reads = *count;
                else if (event == "Dw")
                    entry.counts.writes = *count;
                else if (event == "D1mr")
                    entry.counts.d1_read_misses = *count;
                else if (event == "D1mw")
                    entry.counts.d1_write_misses = *count;
                else if (event == "DLmr")
                    entry.counts.ll_read_misses = *count;
                else if (event == "DLmw")
                    entry.counts.ll_write_misses = *count;
            }
            entries.push_back(std::move(entry));
        }
    }
    if (events.empty())
        return fail("cachegrind output", "no events line: the simulation left no counts");
    for (const Entry& entry : entries) {
        profile.total += entry.counts;
        if (!entry.file.empty()) {
            profile.own += entry.counts;
            profile.lines[{entry.file, entry.line}] += entry.counts;
        } else if (own_functions.contains(entry.function)) {
            profile.own += entry.counts;
        }
    }
    return profile;
}

std::map<std::string, std::optional<double>> parse_perf_csv(std::string_view text) {
    std::map<std::string, std::optional<double>> counts;
    for (const std::string& raw : split_lines(text)) {
        const std::string_view line = raw;
        if (line.empty() || line.front() == '#')
            continue;
        std::vector<std::string_view> fields;
        std::size_t from = 0;
        for (std::size_t comma = line.find(','); comma != std::string_view::npos;
             comma = line.find(',', from)) {
            fields.push_back(line.substr(from, comma - from));
            from = comma + 1;
        }
        fields.push_back(line.substr(from));
        if (fields.size() < 3 || fields[2].empty())
            continue;
        // "cycles:u": only user mode was allowed to be counted.
        const std::string event(fields[2].substr(0, fields[2].find(':')));
        double value = 0;
        const auto [end, error] =
            std::from_chars(fields[0].data(), fields[0].data() + fields[0].size(), value);
        const bool whole = error == std::errc() && end == fields[0].data() + fields[0].size();
        if (whole)
            counts[event] = value;
        else if (fields[0].starts_with("<not"))
            counts[event] = std::nullopt;
    }
    return counts;
}

}  // namespace loopscope
