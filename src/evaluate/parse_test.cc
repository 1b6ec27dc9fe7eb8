#include "evaluate/parse.h"

#include "evaluate/affine.h"
#include "evaluate/with_machine.h"

#include <gtest/gtest.h>

namespace loopscope {
namespace {

using affine::Polynomial;
using affine::Symbol;
using affine::Symbols;

TEST(Affine, StrideOfAFlattenedIndex) {
    Symbols symbols;
    Symbol i, k, n, loaded;
    i.name = "i";
    i.counter_of = 0;
    k.name = "k";
    k.counter_of = 1;
    n.name = "n";
    loaded.name = "col[k]";
    loaded.varies_with = {1};
    loaded.loaded = true;
    const Polynomial pi = Polynomial::symbol(symbols.intern(i)),
                     pk = Polynomial::symbol(symbols.intern(k));
    const Polynomial pn = Polynomial::symbol(symbols.intern(n)),
                     pl = Polynomial::symbol(symbols.intern(loaded));
    bool indirect = false;
    const Polynomial index = (pi * pn + pk) * Polynomial::constant(4);
    EXPECT_EQ(affine::to_text(*affine::divided(*affine::stride_in(index, 0, symbols, indirect), 4),
                              symbols),
              "n");
    EXPECT_EQ(affine::to_text(*affine::stride_in(index, 1, symbols, indirect), symbols), "4");
    EXPECT_EQ(affine::stride_in(index, 7, symbols, indirect)->value(), 0);
    EXPECT_FALSE(affine::stride_in(pi * pi, 0, symbols, indirect));
    EXPECT_FALSE(affine::stride_in(pi * pk, 0, symbols, indirect));
    EXPECT_FALSE(indirect);
    EXPECT_FALSE(affine::stride_in(pl + pi, 1, symbols, indirect));
    EXPECT_TRUE(indirect);
    EXPECT_EQ(affine::stride_in(pl + pi, 0, symbols, indirect)->value(), 1);
    EXPECT_EQ(affine::to_text(-pn * Polynomial::constant(64) + Polynomial::constant(2), symbols),
              "-64 * n + 2");
    EXPECT_EQ((pi - pi), Polynomial::constant(0));
}

TEST(Affine, OverflowIsUnknownNotWrong) {
    const Polynomial big = Polynomial::constant(1LL << 62);
    EXPECT_FALSE((big * big).known);
    EXPECT_FALSE((big + big).known);
    Symbols symbols;
    bool indirect = false;
    EXPECT_FALSE(affine::stride_in(big + big, 0, symbols, indirect));
}

Task cpp_task() {
    Task task;
    task.name = "parse";
    task.build.flags = {"-O3", "-march=native", "-fno-such-flag", "-std=c++20"};
    return task;
}

SourceStructure parsed(std::map<std::string, std::string> files) {
    Program program;
    program.files = std::move(files);
    const Task task = cpp_task();
    Result<SourceStructure> structure =
        testing::run(parse_source(*testing::bench().machine, task, program));
    if (!structure) {
        ADD_FAILURE() << to_text(structure.error());
        return {};
    }
    return std::move(*structure);
}

const SourceFunction& function_named(const SourceStructure& structure, std::string_view name) {
    for (const SourceFunction& function : structure.functions) {
        if (function.name == name)
            return function;
    }
    ADD_FAILURE() << name << " is not listed";
    static const SourceFunction none;
    return none;
}

// "k=n j=1 i=0", innermost first.
std::string strides(const SourceFunction& function, std::string_view text) {
    for (const ArrayAccess& access : function.accesses) {
        if (access.text != text)
            continue;
        std::string all;
        for (const Stride& stride : access.strides)
            all += (all.empty() ? "" : " ") + stride.variable + "=" +
                   (stride.indirect ? "indirect" : stride.elements);
        return all;
    }
    return "no such access";
}

TEST(Parse, MatrixProduct) {
    NEEDS_MACHINE();
    const SourceStructure structure = parsed(
        {{"matmul.cc", R"(extern "C" void matmul(int n, const float* a, const float* b, float* c) {
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) {
            float sum = 0;
            for (int k = 0; k < n; ++k)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
    }
}
)"}});
    EXPECT_EQ(structure.errors, 0);
    EXPECT_EQ(structure.problem, "");
    const SourceFunction& function = function_named(structure, "matmul");
    EXPECT_EQ(function.file, "matmul.cc");
    EXPECT_EQ(function.line, 1);
    EXPECT_EQ(function.parameters, (std::vector<std::string>{"n", "a", "b", "c"}));
    ASSERT_EQ(function.loops.size(), 3U);
    const SourceLoop& inner = function.loops[2];
    EXPECT_EQ(inner.variable, "k");
    EXPECT_EQ(inner.depth, 3);
    EXPECT_EQ(inner.line, 5);
    EXPECT_EQ(inner.parent, 1);
    EXPECT_EQ(inner.lower, "0");
    EXPECT_EQ(inner.comparison, "<");
    EXPECT_EQ(inner.upper, "n");
    EXPECT_EQ(inner.step, "1");
    EXPECT_TRUE(inner.innermost);
    EXPECT_FALSE(function.loops[0].innermost);
    EXPECT_EQ(inner.operations.adds, 1);
    EXPECT_EQ(inner.operations.multiplies, 1);
    EXPECT_EQ(function.loops[1].operations.flops(), 0);
    EXPECT_EQ(strides(function, "a[i * n + k]"), "k=1 j=0 i=n");
    EXPECT_EQ(strides(function, "b[k * n + j]"), "k=n j=1 i=0");
    EXPECT_EQ(strides(function, "c[i * n + j]"), "j=1 i=n");
    ASSERT_EQ(function.accesses.size(), 3U);
    EXPECT_TRUE(function.accesses[0].read && !function.accesses[0].written &&
                function.accesses[0].parameter);
    EXPECT_TRUE(function.accesses[2].written && !function.accesses[2].read);
    EXPECT_EQ(function.accesses[1].column, 39);
    ASSERT_EQ(function.reductions.size(), 1U);
    EXPECT_EQ(function.reductions[0].variable, "sum");
    EXPECT_EQ(function.reductions[0].operation, "+");
}

TEST(Parse, TilesPointersAndInduction) {
    NEEDS_MACHINE();
    const SourceStructure structure = parsed({{"k.cc", R"(#include <algorithm>
#include <cstddef>
#include <cmath>
static constexpr int tile = 64;
void tiled(int n, const float* a, const float* b, float* c) {
    for (int ii = 0; ii < n; ii += tile)
        for (int i = ii; i < std::min(ii + tile, n); ++i) {
            const float* row = a + (std::size_t)i * n;
            float* out = c + i * n;
            for (int k = 0; k < n; k += 2) {
                const int base = k * n;
                for (int j = 0; j < n; j++)
                    out[j] += row[k] * b[base + j];
            }
        }
}
struct Body { float x, y, z, m; };
void bodies(int n, const Body* p, double* f, const int* idx) {
    int t = 0;
    for (int i = 0; i < n; ++i) {
        double acc = 0, best = -1;
        for (int j = n - 1; j >= 0; --j) {
            if (j == i) continue;
            acc += std::sqrt(double(p[j].x)) / p[idx[j]].m;
            best = best > acc ? best : acc;
            f[t++] = acc;
        }
    }
    const Body* q = p;
    while (n > 0) { f[0] += q->y; ++q; --n; }
}
void tails(int n, const float* a, float* c) {
    for (int i = 0; i < n; ++i) {
        int k = 0;
        for (; k + 4 <= n; k += 4)
            c[i] += a[i * n + k] + a[i * n + k + 3];
        for (; k < n; ++k)
            c[i] += a[k + n * i];
    }
}
void grid(int n, double (*m)[16], double** rows) {
    double local[4][8];
    for (int r = 0; r < 4; ++r)
        for (int c = 0; c < 8; ++c)
            local[r][c] = m[r][c] + rows[r][c];
    m[0][0] = local[n][0];
}
)"}});
    const SourceFunction& tiled = function_named(structure, "tiled");
    EXPECT_EQ(strides(tiled, "row[k]"), "j=0 k=2 i=n ii=64 * n");
    EXPECT_EQ(strides(tiled, "b[base + j]"), "j=1 k=2 * n i=0 ii=0");
    EXPECT_EQ(strides(tiled, "out[j]"), "j=1 k=0 i=n ii=64 * n");
    EXPECT_EQ(tiled.loops[0].step, "tile");
    EXPECT_EQ(tiled.loops[1].upper, "std::min(ii + tile, n)");
    for (const ArrayAccess& access : tiled.accesses) {
        if (access.text == "row[k]") {
            EXPECT_EQ(access.base, "a");
            EXPECT_TRUE(access.parameter);
        }
        if (access.text == "out[j]")
            EXPECT_TRUE(access.read && access.written);
    }
    EXPECT_TRUE(tiled.reductions.empty()) << tiled.reductions[0].variable;

    const SourceFunction& bodies = function_named(structure, "bodies");
    EXPECT_EQ(strides(bodies, "p[j].x"), "j=-1 i=0");
    EXPECT_EQ(strides(bodies, "p[idx[j]].m"), "j=indirect i=0");
    EXPECT_EQ(strides(bodies, "f[t++]"), "j=1 i=n");
    EXPECT_EQ(bodies.loops[1].lower, "n - 1");
    EXPECT_EQ(bodies.loops[1].comparison, ">=");
    EXPECT_EQ(bodies.loops[1].step, "-1");
    EXPECT_EQ(bodies.loops[1].branch_lines.size(), 2U);
    EXPECT_EQ(bodies.loops[1].operations.square_roots, 1);
    EXPECT_EQ(bodies.loops[1].operations.divisions, 1);
    EXPECT_EQ(bodies.loops[2].kind, "while");
    EXPECT_EQ(strides(bodies, "q->y"), "n=1");
    bool largest = false;
    for (const Reduction& reduction : bodies.reductions)
        largest = largest || (reduction.variable == "best" && reduction.operation == "max");
    EXPECT_TRUE(largest);

    const SourceFunction& tails = function_named(structure, "tails");
    EXPECT_EQ(strides(tails, "a[i * n + k + 3]"), "k=4 i=n");
    EXPECT_EQ(strides(tails, "a[k + n * i]"), "k=1 i=n");
    EXPECT_EQ(tails.loops[1].lower, "0");
    EXPECT_EQ(tails.loops[1].condition, "k + 4 <= n");

    const SourceFunction& grid = function_named(structure, "grid");
    EXPECT_EQ(strides(grid, "local[r][c]"), "c=1 r=8");
    EXPECT_EQ(strides(grid, "m[r][c]"), "c=1 r=16");
    EXPECT_EQ(strides(grid, "rows[r][c]"), "c=1 r=indirect");
}

TEST(Parse, SourcesWithErrorsAreReadAsFarAsPossible) {
    NEEDS_MACHINE();
    const SourceStructure structure = parsed({{"bad.cc", R"(void first(int n, float* c) {
    for (int i = 0; i < n; ++i)
        c[i] = 1;
}
void second(int n, float* c) {
    float x = 0;
    for (int i = 0; i < n; ++i) {
        c[i] = undeclared + x;
        c[2 * i] = x;
    }
}
)"}});
    EXPECT_GT(structure.errors, 0);
    EXPECT_EQ(strides(function_named(structure, "first"), "c[i]"), "i=1");
    EXPECT_EQ(function_named(structure, "second").loops.size(), 1U);
    EXPECT_EQ(strides(function_named(structure, "second"), "c[2 * i]"), "i=2");
}

TEST(Parse, WhatIsNoSourceOrHostile) {
    NEEDS_MACHINE();
    EXPECT_NE(parsed({{"policy.py", "def f(): pass\n"}}).problem, "");
    EXPECT_TRUE(parsed({{"empty.cc", ""}}).functions.empty());
    // Deep nesting, an endless recursion of templates and binary rubbish end in a structure or a
    // problem, never in a hang.
    const std::string deep = "int f(int n) { return " + std::string(20000, '(') + "n" +
                             std::string(20000, ')') + "; }\n";
    parsed({{"deep.cc", deep}});
    std::string sum = "int f(int n) { return n";
    for (int i = 0; i < 20000; ++i)
        sum += "+n";
    parsed({{"sum.cc", sum + "; }\n"}});
    parsed({{"template.cc",
             "template <int N> struct A { A<N + 1> a; int f() { return a.f(); } };\nint x = "
             "A<0>().f();\n"}});
    parsed({{"rubbish.cc", std::string("\0\xff\xfe{{{{for(;;", 13)}});
}

TEST(Parse, BadDocuments) {
    EXPECT_FALSE(decode_structure(""));
    EXPECT_FALSE(decode_structure("[]"));
    EXPECT_FALSE(decode_structure(R"({"version": 1})"));
    EXPECT_FALSE(decode_structure(
        R"({"version": 2, "errors": 0, "cut": false, "functions": [], "unreadable": []})"));
    EXPECT_TRUE(decode_structure(
        R"({"version": 1, "errors": 0, "cut": false, "functions": [], "unreadable": []})"));
    // A reduction in a loop that is not listed.
    EXPECT_FALSE(decode_structure(
        R"({"version": 1, "errors": 0, "cut": false, "unreadable": [], "functions": [{"name": "f", "file": "f.cc", "line": 1,
            "end_line": 2, "parameters": [], "loops": [], "accesses": [],
            "operations": {"adds": 0, "multiplies": 0, "divisions": 0, "square_roots": 0, "calls": 0},
            "reductions": [{"variable": "s", "operation": "+", "line": 1, "loop": 3, "floating": true}]}]})"));
}

}  // namespace
}  // namespace loopscope
