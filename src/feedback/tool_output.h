// What compilers, clang-tidy, sanitizers, cachegrind and perf print, read back into facts. Pure
// functions of text that a candidate may have shaped: they accept anything and never fail louder
// than by finding nothing.
#pragma once
#include "core/result.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace loopscope {

struct DiagnosticNote {
    std::string file;
    int line = 0, column = 0;
    std::string message;
};

// One message of a compiler, a linker (line 0) or clang-tidy.
struct Diagnostic {
    std::string file;          // relative to the artifact; "" for the linker
    int line = 0, column = 0;  // 1-based, 0 = none
    std::string
        severity;  // "error", "warning", "remark"; of g++'s optimiser also "optimized", "missed"
    std::string message;
    std::string
        flag;  // "-Wuninitialized", "clang-analyzer-core...", "-Rpass-missed=loop-vectorize", or ""
    std::string source;  // the source line that was quoted, white space trimmed at its end
    std::vector<DiagnosticNote> notes;
};

// `root` ("/work/") is cut off paths. Repeated messages (a header read twice) appear once. At most
// 500.
std::vector<Diagnostic> parse_diagnostics(std::string_view log, std::string_view root = "/work/");

struct StackFrame {
    std::string function, file;  // file "" = no debug information
    int line = 0, column = 0;
};

struct SanitizerReport {
    std::string tool;  // "AddressSanitizer", "UndefinedBehaviorSanitizer", "LeakSanitizer"
    std::string kind;  // "heap-buffer-overflow"; of UndefinedBehaviorSanitizer its sentence
    bool write = false;
    std::int64_t access_bytes = 0;  // 0 = not an access
    std::string file;               // of the innermost frame in one of the `own` files
    int line = 0, column = 0;       // 0 = not known
    std::string function;
    std::vector<StackFrame> frames;
    std::string
        side;  // where the address lies: "after", "before" or "inside" a region; "" = not told
    std::int64_t distance = 0;  // bytes from that region
    std::int64_t region_bytes = 0;
    std::string variable;  // a stack or global variable's name, when told
};

// `own`: the artifact's file names, which decide the place that is blamed. At most 50 reports.
std::vector<SanitizerReport> parse_sanitizer_output(std::string_view text,
                                                    const std::vector<std::string>& own,
                                                    std::string_view root = "/work/");

// What the vectoriser said of a place.
struct VectorRemark {
    std::string file;
    int line = 0, column = 0;
    bool vectorized = false;
    bool superword = false;  // straight-line code (SLP), not a loop
    std::string reason;      // why not, or how ("width 8, interleaved 4"); without advice on flags
};
// From diagnostics of clang (-Rpass...) or g++ (-fopt-info-vec-optimized-missed). Where clang gives
// both a bare "missed" and a reason, the reason remains.
std::vector<VectorRemark> vector_remarks(const std::vector<Diagnostic>& diagnostics);

struct CacheCounts {
    std::int64_t instructions = 0, reads = 0, writes = 0;
    std::int64_t d1_read_misses = 0, d1_write_misses = 0;
    std::int64_t ll_read_misses = 0, ll_write_misses = 0;
    std::int64_t accesses() const { return reads + writes; }
    std::int64_t d1_misses() const { return d1_read_misses + d1_write_misses; }
    std::int64_t ll_misses() const { return ll_read_misses + ll_write_misses; }
    CacheCounts& operator+=(const CacheCounts& other);
};

struct CacheProfile {
    std::vector<std::string> caches;  // "D1 32 KB, 8-way", "LL 32 MB, 16-way"
    CacheCounts total;                // of the whole process
    CacheCounts own;  // of the artifact's files and of what was inlined into their functions
    std::map<std::pair<std::string, int>, CacheCounts>
        lines;  // of the artifact's files; line 0 = no line known
};
// A cachegrind.out file. Errors: no events line, a count that is no number.
Result<CacheProfile> parse_cachegrind(std::string_view text, const std::vector<std::string>& own,
                                      std::string_view root = "/work/");

// `perf stat -x,`: event -> count; nullopt = not supported or not counted. Lines that are none of
// its are skipped.
std::map<std::string, std::optional<double>> parse_perf_csv(std::string_view text);

}  // namespace loopscope
