// The texts below were recorded from clang 19.1.7, lld 19, clang-tidy 19, g++ 12.2, valgrind 3.19
// and perf 6.1, with the source folder renamed to /work.
#include "feedback/tool_output.h"

#include <gtest/gtest.h>

namespace loopscope {
namespace {

const std::vector<std::string> own = {"matmul.cc"};

TEST(Diagnostics, CompilerErrorsWithSourceAndNotes) {
    const std::vector<Diagnostic> found = parse_diagnostics(
        "bad.cc:3:22: error: expected ';' at end of declaration\n"
        "    3 |         float sum = 0\n"
        "      |                      ^\n"
        "      |                      ;\n"
        "acc.cc:7:63: warning: variable 'sum' is uninitialized when used here [-Wuninitialized]\n"
        "    7 |                 c[i * n + j] += a[i * n + k] + sum;\n"
        "      |                                                ^~~\n"
        "acc.cc:2:14: note: initialize the variable 'sum' to silence this warning\n"
        "    2 |     float sum;\n"
        "      |              ^\n"
        "      |               = 0.0\n"
        "1 warning generated.\n");
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].file, "bad.cc");
    EXPECT_EQ(found[0].line, 3);
    EXPECT_EQ(found[0].column, 22);
    EXPECT_EQ(found[0].severity, "error");
    EXPECT_EQ(found[0].message, "expected ';' at end of declaration");
    EXPECT_EQ(found[0].source, "float sum = 0");
    EXPECT_EQ(found[0].flag, "");
    EXPECT_EQ(found[1].flag, "-Wuninitialized");
    EXPECT_EQ(found[1].message, "variable 'sum' is uninitialized when used here");
    ASSERT_EQ(found[1].notes.size(), 1U);
    EXPECT_EQ(found[1].notes[0].line, 2);
}

TEST(Diagnostics, ClangTidyPathsBecomeRelativeAndRepeatsVanish) {
    const char* const text =
        "/work/acc.cc:7:61: warning: The right operand of '+' is a garbage value "
        "[clang-analyzer-core.UndefinedBinaryOperatorResult]\n"
        "    7 |                 c[i] += a[i] + sum;\n"
        "/work/acc.cc:2:5: note: 'sum' declared without an initial value\n";
    const std::vector<Diagnostic> found = parse_diagnostics(std::string(text) + text);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].file, "acc.cc");
    EXPECT_EQ(found[0].flag, "clang-analyzer-core.UndefinedBinaryOperatorResult");
    ASSERT_EQ(found[0].notes.size(), 1U);
    EXPECT_EQ(found[0].notes[0].file, "acc.cc");
}

TEST(Diagnostics, LinkersOfBothKinds) {
    const std::vector<Diagnostic> lld = parse_diagnostics(
        "ld.lld-19: error: undefined symbol: helper(float*)\n"
        ">>> referenced by undef.cc\n"
        ">>>               /tmp/undef-9b009e.o:(matmul)\n"
        "clang++-19: error: linker command failed with exit code 1 (use -v to see invocation)\n");
    ASSERT_EQ(lld.size(), 1U);
    EXPECT_EQ(lld[0].message, "undefined symbol: helper(float*)");
    EXPECT_EQ(lld[0].line, 0);
    const std::vector<Diagnostic> bfd = parse_diagnostics(
        "/usr/bin/ld: /tmp/undef-cca092.o: in function `matmul':\n"
        "undef.cc:(.text+0x1c): undefined reference to `helper(float*)'\n"
        "clang++-19: error: linker command failed with exit code 1 (use -v to see invocation)\n");
    ASSERT_EQ(bfd.size(), 1U);
    EXPECT_EQ(bfd[0].message, "undefined reference to `helper(float*)'");
}

TEST(Diagnostics, TemporaryNamesDoNotReachTheText) {
    const std::vector<Diagnostic> found = parse_diagnostics(
        "ld.lld-19: error: duplicate symbol in /tmp/matmul-1a2b3c.o and /tmp/x.o\n");
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].message, "duplicate symbol in matmul.o and object.o");
}

TEST(Diagnostics, NothingInProse) {
    EXPECT_TRUE(parse_diagnostics("").empty());
    EXPECT_TRUE(parse_diagnostics("error in judgement: none\n12:30: lunch\n::: : :\n").empty());
    for (const Diagnostic& diagnostic :
         parse_diagnostics("a.cc:99999999999999999999:1: error: x\n"))
        EXPECT_GE(diagnostic.line, 0);
}

constexpr const char* overflow =
    "=================================================================\n"
    "==18733==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x51a000000b04 at pc "
    "0x5583972a3cd0 bp "
    "0x7ffd51538c70 sp 0x7ffd51538c68\n"
    "READ of size 4 at 0x51a000000b04 thread T0\n"
    "    #0 0x5583972a3ccf in matmul /work/matmul.cc:6:39\n"
    "    #1 0x5583972a32f7 in main /work/../harness.cc:5:39\n"
    "    #2 0x7f9da7a45249 in __libc_start_call_main "
    "csu/../sysdeps/nptl/libc_start_call_main.h:58:16\n"
    "    #3 0x5583971c1330 in _start (/work/oob+0x2c330) (BuildId: "
    "c8de32ea28af5ca3bc8d51dcbf398017ce19ee9f)\n"
    "\n"
    "0x51a000000b04 is located 0 bytes after 1156-byte region [0x51a000000680,0x51a000000b04)\n"
    "allocated by thread T0 here:\n"
    "    #0 0x5583972605cf in malloc (/work/oob+0xcb5cf) (BuildId: "
    "c8de32ea28af5ca3bc8d51dcbf398017ce19ee9f)\n"
    "    #1 0x5583972a2f93 in main /work/../harness.cc:4:93\n"
    "\n"
    "SUMMARY: AddressSanitizer: heap-buffer-overflow /work/matmul.cc:6:39 in matmul\n"
    "==18733==ABORTING\n";

TEST(Sanitizers, HeapOverflow) {
    const std::vector<SanitizerReport> reports = parse_sanitizer_output(overflow, own);
    ASSERT_EQ(reports.size(), 1U);
    const SanitizerReport& report = reports[0];
    EXPECT_EQ(report.tool, "AddressSanitizer");
    EXPECT_EQ(report.kind, "heap-buffer-overflow");
    EXPECT_FALSE(report.write);
    EXPECT_EQ(report.access_bytes, 4);
    EXPECT_EQ(report.file, "matmul.cc");
    EXPECT_EQ(report.line, 6);
    EXPECT_EQ(report.column, 39);
    EXPECT_EQ(report.function, "matmul");
    EXPECT_EQ(report.side, "after");
    EXPECT_EQ(report.distance, 0);
    EXPECT_EQ(report.region_bytes, 1156);
    EXPECT_EQ(report.frames.size(), 4U);
}

TEST(Sanitizers, FaultInALibraryIsBlamedOnItsCaller) {
    std::string text = overflow;
    text.replace(text.find("    #0"), 0,
                 "    #0 0x55 in memcpy (/usr/lib/x.so+0x1) (BuildId: 00)\n");
    const std::vector<SanitizerReport> reports = parse_sanitizer_output(text, own);
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].line, 6);
}

TEST(Sanitizers, StackVariableAndUndefinedBehaviour) {
    const std::vector<SanitizerReport> reports = parse_sanitizer_output(
        "matmul.cc:3:34: runtime error: index 8 out of bounds for type 'float[8]'\n"
        "SUMMARY: UndefinedBehaviorSanitizer: undefined-behavior matmul.cc:3:34 \n"
        "==18741==ERROR: AddressSanitizer: stack-buffer-overflow on address 0x7fb093800040 at pc "
        "0x562334b3eab9\n"
        "WRITE of size 4 at 0x7fb093800040 thread T0\n"
        "    #0 0x562334b3eab8 in matmul /work/matmul.cc:3:41\n"
        "\n"
        "Address 0x7fb093800040 is located in stack of thread T0 at offset 64 in frame\n"
        "    #0 0x562334b3e627 in matmul /work/matmul.cc:1\n"
        "\n"
        "  This frame has 1 object(s):\n"
        "    [32, 64) 'tmp' (line 2) <== Memory access at offset 64 overflows this variable\n",
        own);
    ASSERT_EQ(reports.size(), 2U);
    EXPECT_EQ(reports[0].tool, "UndefinedBehaviorSanitizer");
    EXPECT_EQ(reports[0].kind, "index 8 out of bounds for type 'float[8]'");
    EXPECT_EQ(reports[0].line, 3);
    EXPECT_EQ(reports[0].column, 34);
    EXPECT_TRUE(reports[1].write);
    EXPECT_EQ(reports[1].variable, "tmp");
    EXPECT_EQ(reports[1].region_bytes, 32);
    EXPECT_EQ(reports[1].side, "after");
    EXPECT_EQ(reports[1].frames.size(), 1U);
}

TEST(Sanitizers, AddressesAreNoPartOfTheText) {
    const std::vector<SanitizerReport> reports = parse_sanitizer_output(
        "matmul.cc:3:12: runtime error: load of address 0x000000000044 with insufficient space for "
        "an object of type "
        "'const float'\n",
        own);
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].kind,
              "load of address 0x... with insufficient space for an object of type 'const float'");
}

TEST(Sanitizers, SegmentationFault) {
    const std::vector<SanitizerReport> reports = parse_sanitizer_output(
        "AddressSanitizer:DEADLYSIGNAL\n"
        "==18749==ERROR: AddressSanitizer: SEGV on unknown address 0x000000000044 (pc "
        "0x561d722bc684 bp 0x0 sp 0x7ff T0)\n"
        "==18749==The signal is caused by a READ memory access.\n"
        "==18749==Hint: address points to the zero page.\n"
        "    #0 0x561d722bc684 in matmul /work/matmul.cc:3:12\n",
        own);
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].kind, "SEGV");
    EXPECT_EQ(reports[0].line, 3);
}

TEST(Remarks, ClangReasonsReplaceBareOnes) {
    const std::vector<VectorRemark> remarks = vector_remarks(parse_diagnostics(
        "saxpy.cc:2:5: remark: vectorized loop (vectorization width: 16, interleaved count: 4) "
        "[-Rpass=loop-vectorize]\n"
        "saxpy.cc:5:9: remark: loop not vectorized: cannot identify array bounds "
        "[-Rpass-analysis=loop-vectorize]\n"
        "saxpy.cc:5:9: remark: loop not vectorized [-Rpass-missed=loop-vectorize]\n"
        "saxpy.cc:9:5: remark: loop not vectorized [-Rpass-missed=loop-vectorize]\n"
        "saxpy.cc:5:22: remark: Cannot SLP vectorize list: vectorization was impossible with "
        "available vectorization "
        "factors [-Rpass-missed=slp-vectorizer]\n"
        "matmul.cc:6:21: remark: loop not vectorized: cannot prove it is safe to reorder "
        "floating-point operations; allow "
        "reordering by specifying '#pragma clang loop vectorize(enable)' before the loop or by "
        "providing the compiler "
        "option '-ffast-math' [-Rpass-analysis=loop-vectorize]\n"));
    ASSERT_EQ(remarks.size(), 4U);
    EXPECT_EQ(remarks[0].file, "matmul.cc");
    EXPECT_EQ(remarks[0].reason, "cannot prove it is safe to reorder floating-point operations");
    EXPECT_TRUE(remarks[1].vectorized);
    EXPECT_EQ(remarks[1].reason, "width 16, interleaved 4");
    EXPECT_EQ(remarks[2].reason, "cannot identify array bounds");
    EXPECT_EQ(remarks[3].line, 9);
    EXPECT_EQ(remarks[3].reason, "");
}

TEST(Remarks, OfTwoLines) {
    const std::vector<VectorRemark> remarks = vector_remarks(
        parse_diagnostics("nbody.cc:17:19: remark: loop not vectorized: unsafe dependent memory "
                          "operations in loop. Use #pragma clang loop "
                          "distribute(enable) to allow loop distribution to attempt to isolate the "
                          "offending operations into a separate loop\n"
                          "Unknown data dependence. Memory location is the same as accessed at "
                          "nbody.cc:7:9 [-Rpass-analysis=loop-vectorize]\n"
                          "nbody.cc:9:9: remark: the cost-model indicates that interleaving is not "
                          "beneficial [-Rpass-analysis=loop-vectorize]\n"));
    ASSERT_EQ(remarks.size(), 1U);
    EXPECT_EQ(remarks[0].line, 17);
    EXPECT_EQ(remarks[0].reason,
              "unsafe dependent memory operations in loop (Unknown data dependence. Memory "
              "location is the "
              "same as accessed at nbody.cc:7:9)");
}

TEST(Remarks, OfGcc) {
    const std::vector<VectorRemark> remarks = vector_remarks(parse_diagnostics(
        "saxpy.cc:4:23: missed: couldn't vectorize loop\n"
        "saxpy.cc:5:17: missed: not vectorized: no vectype for stmt: _16 = *_15;\n"
        " scalar_type: float\n"
        "saxpy.cc:2:23: optimized: loop vectorized using 64 byte vectors\n"
        "saxpy.cc:2:23: optimized:  loop versioned for vectorization because of possible "
        "aliasing\n"));
    ASSERT_EQ(remarks.size(), 3U);
    EXPECT_TRUE(remarks[0].vectorized);
    EXPECT_EQ(remarks[0].reason, "64 byte vectors");
    EXPECT_EQ(remarks[2].reason, "no vectype for stmt: _16 = *_15;");
}

constexpr const char* cachegrind =
    "desc: I1 cache:         32768 B, 64 B, 8-way associative\n"
    "desc: D1 cache:         32768 B, 64 B, 8-way associative\n"
    "desc: LL cache:         33554432 B, 64 B, 16-way associative\n"
    "cmd: ./mm 250\n"
    "events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw \n"
    "fl=/work/matmul.cc\n"
    "fn=matmul\n"
    "0 375750 2 2 250 249 0 0 0 0\n"
    "5 8812500 1 1 0 0 0 0 0 0\n"
    "6 42875000 2 2 31250000 980860 0 0 0 0\n"
    "7 62500 0 0 0 0 0 62500 3907 3906\n"
    "fl=/usr/include/c++/12/bits/stl_algobase.h\n"
    "fn=matmul\n"
    "235 1000 0 0 10 1 0 0 0 0\n"
    "fn=main\n"
    "235 7 0 0 0 0 0 0 0 0\n"
    "summary: 54391100 1586 1544 31750012 997472 7165 219458 13798 12920\n";

TEST(Cachegrind, CountsByLine) {
    const Result<CacheProfile> profile = parse_cachegrind(cachegrind, own);
    ASSERT_TRUE(profile) << to_text(profile.error());
    ASSERT_EQ(profile->caches.size(), 2U);
    EXPECT_EQ(profile->caches[0], "D1 32 KB, 8-way");
    EXPECT_EQ(profile->caches[1], "LL 32 MB, 16-way");
    const CacheCounts& hot = profile->lines.at({"matmul.cc", 6});
    EXPECT_EQ(hot.instructions, 42875000);
    EXPECT_EQ(hot.reads, 31250000);
    EXPECT_EQ(hot.d1_misses(), 980860);
    EXPECT_EQ(profile->lines.at({"matmul.cc", 7}).ll_misses(), 3906);
    // What was inlined into matmul counts as its own, main does not.
    EXPECT_EQ(profile->own.instructions, 375750 + 8812500 + 42875000 + 62500 + 1000);
    EXPECT_EQ(profile->total.instructions, profile->own.instructions + 7);
}

TEST(Cachegrind, BadFiles) {
    EXPECT_FALSE(parse_cachegrind("", own));
    EXPECT_FALSE(parse_cachegrind("fl=x\nfn=y\n1 2 3\n", own));
    EXPECT_FALSE(parse_cachegrind("events: Ir\nfl=x\n1 x\n", own));
    EXPECT_TRUE(parse_cachegrind(
        "events: Ir Dr\nfl=matmul.cc\nfn=f\n1 9223372036854775807\n2 9223372036854775807\n", own));
}

TEST(Perf, CountsAndWhatIsNotSupported) {
    const auto counts = parse_perf_csv(
        "# started on Tue Dec  1 15:17:51 2026\n\n"
        "<not supported>,,cycles,0,100.00,,\n"
        "<not counted>,,cache-misses,0,100.00,,\n"
        "12345678,,instructions:u,1000000,100.00,1.52,insn per cycle\n"
        "3.50,msec,task-clock,3500000,100.00,0.98,CPUs utilized\n"
        "nonsense\n,,,\n");
    EXPECT_FALSE(counts.at("cycles").has_value());
    EXPECT_FALSE(counts.at("cache-misses").has_value());
    EXPECT_EQ(counts.at("instructions"), 12345678.0);
    EXPECT_EQ(counts.at("task-clock"), 3.5);
    EXPECT_EQ(counts.size(), 4U);
}

}  // namespace
}  // namespace loopscope
