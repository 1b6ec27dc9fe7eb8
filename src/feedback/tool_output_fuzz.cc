// Everything that reads tool output, over bytes that a candidate may have printed.
#include "feedback/tool_output.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace loopscope;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const std::vector<std::string> own = {"matmul.cc", ""};
    const std::vector<Diagnostic> diagnostics = parse_diagnostics(text);
    const std::vector<VectorRemark> remarks = vector_remarks(diagnostics);
    const std::vector<SanitizerReport> reports = parse_sanitizer_output(text, own);
    const Result<CacheProfile> profile = parse_cachegrind(text, own);
    const auto counts = parse_perf_csv(text);
    // What is shown to a person must have a place that can be shown.
    for (const Diagnostic& diagnostic : diagnostics) {
        if (diagnostic.line < 0 || diagnostic.column < 0)
            __builtin_trap();
    }
    for (const SanitizerReport& report : reports) {
        if (report.line < 0 || report.region_bytes < 0)
            __builtin_trap();
    }
    if (remarks.size() > diagnostics.size() || (profile && profile->caches.size() > size))
        __builtin_trap();
    return static_cast<int>(counts.size() > size);
}
