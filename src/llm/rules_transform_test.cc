// Every transformation of our own kernels is built and run beside the original: the results agree.
#include "llm/rules_transform.h"

#include "core/file.h"
#include "core/result.h"
#include "llm/rules_depend.h"
#include "llm/rules_plan.h"
#include "llm/rules_repair.h"
#include "llm/rules_syntax.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace loopscope::rules {
namespace {

const std::string matmul = R"(
extern "C" void matmul(int n, const float* a, const float* b, float* c) {
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            float sum = 0.0f;   // of the products
            for (int k = 0; k < n; ++k)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}
)";
const std::string matmul_ikj = R"(
extern "C" void matmul(int n, const float* a, const float* b, float* c) {
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j)
            c[i * n + j] = 0.0f;
        for (int k = 0; k < n; ++k)
            for (int j = 0; j < n; ++j)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
}
)";
const std::string matmul_driver = R"(
typedef void (*Kernel)(int, const float*, const float*, float*);
static void test(Kernel original, Kernel variant, const char* name) {
    for (int n : {0, 1, 3, 17, 35, 50}) {
        std::vector<float> a = draw(n * n), b = draw(n * n), c(n * n, 7), d(n * n, 7);
        original(n, a.data(), b.data(), c.data());
        variant(n, a.data(), b.data(), d.data());
        compare(c, d, name);
    }
}
)";
const std::string fir = R"(
extern "C" void fir(int n, int taps, const float* x, const float* h, float* y) {
    for (int i = 0; i < n; i++) {
        float acc = 0;
        for (int t = 0; t < taps; t++) {
            acc += h[t] * x[i + t];
        }
        y[i] = acc;
    }
}
)";
const std::string fir_driver = R"(
typedef void (*Kernel)(int, int, const float*, const float*, float*);
static void test(Kernel original, Kernel variant, const char* name) {
    for (int n : {0, 1, 17, 70, 200}) {
        std::vector<float> x = draw(n + 40), h = draw(40), c(n, 7), d(n, 7);
        original(n, n / 5, x.data(), h.data(), c.data());
        variant(n, n / 5, x.data(), h.data(), d.data());
        compare(c, d, name);
    }
}
)";
const std::string pairs = R"(#include <cmath>
extern "C" void pairs(int n, float soft, const float* x, const float* m, float* a) {
    for (int i = 0; i < n; ++i) {
        a[i] = 0.0f;
        for (int j = 0; j < n; ++j) {
            const float d = x[j] - x[i];
            const float r = d * d + soft * soft;
            const float w = m[j] / (r * std::sqrt(r));
            a[i] += w * d / soft;
        }
    }
}
)";
const std::string pairs_driver = R"(
typedef void (*Kernel)(int, float, const float*, const float*, float*);
static void test(Kernel original, Kernel variant, const char* name) {
    for (int n : {0, 1, 17, 70, 130}) {
        std::vector<float> x = draw(n), m = draw(n), c(n, 7), d(n, 7);
        original(n, 0.5f, x.data(), m.data(), c.data());
        variant(n, 0.5f, x.data(), m.data(), d.data());
        compare(c, d, name);
    }
}
)";
const std::string stencil = R"(
extern "C" void stencil(int rows, int columns, const float* in, float* out) {
    for (int j = 0; j < columns; ++j) {
        for (int i = 0; i < rows; ++i) {
            if (i == 0 || j == 0 || i == rows - 1 || j == columns - 1)
                out[i * columns + j] = in[i * columns + j];
            else
                out[i * columns + j] = 0.25f * (in[i * columns + j - 1] + in[i * columns + j + 1] +
                                                in[(i - 1) * columns + j] + in[(i + 1) * columns + j]);
        }
    }
}
)";
const std::string stencil_driver = R"(
typedef void (*Kernel)(int, int, const float*, float*);
static void test(Kernel original, Kernel variant, const char* name) {
    for (int r : {0, 1, 2, 3, 17}) for (int k : {1, 2, 20, 33}) {
        std::vector<float> a = draw(r * k), c(r * k, 7), d(r * k, 7);
        original(r, k, a.data(), c.data());
        variant(r, k, a.data(), d.data());
        compare(c, d, name);
    }
}
)";
const std::string sparse = R"(
extern "C" void sparse(int rows, const int* offsets, const int* indices, const float* values, const float* x, float* y) {
    for (int i = 0; i < rows; ++i)
        y[i] = 0.0f;
    int row = 0;
    for (int k = 0; k < offsets[rows]; ++k) {
        while (k >= offsets[row + 1])
            ++row;
        y[row] += values[k] * x[indices[k]];
    }
}
)";
const std::string sparse_rows = R"(
extern "C" void sparse(int rows, const int* offsets, const int* indices, const float* values, const float* x, float* y) {
    for (int i = 0; i < rows; ++i) {
        y[i] = 0.0f;
        for (int k = offsets[i]; k < offsets[i + 1]; ++k)
            y[i] += values[k] * x[indices[k]];
    }
}
)";
const std::string sparse_driver = R"(
typedef void (*Kernel)(int, const int*, const int*, const float*, const float*, float*);
static void test(Kernel original, Kernel variant, const char* name) {
    for (int r : {1, 9, 40}) {
        std::vector<int> o = {0}, ix;
        for (int i = 0; i < r; ++i) { for (int k = rand() % 25 - 3; k > 0; --k) ix.push_back(rand() % 30); o.push_back((int)ix.size()); }
        std::vector<float> v = draw((int)ix.size() + 1), x = draw(30), c(r, 7), d(r, 7);
        original(r, o.data(), ix.data(), v.data(), x.data(), c.data());
        variant(r, o.data(), ix.data(), v.data(), x.data(), d.data());
        compare(c, d, name);
    }
}
)";

const std::string head = R"(
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>
static std::vector<float> draw(int n) { std::vector<float> v(n); for (float& e : v) e = rand() / (float)RAND_MAX - 0.5f; return v; }
static int wrong = 0;
static void compare(const std::vector<float>& c, const std::vector<float>& d, const char* name) {
    float largest = 1e-6f;
    for (float e : c) largest = std::max(largest, std::fabs(e));
    for (std::size_t i = 0; i < c.size(); ++i)
        if (!(std::fabs(c[i] - d[i]) <= 1e-5f * largest)) { std::printf("%s: element %zu is %g, not %g\n", name, i, d[i], c[i]); ++wrong; return; }
}
)";

struct Variant {
    std::string how, source;
};

int shell(const std::string& command) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe,bugprone-command-processor): one thread, our own words
    return std::system(command.c_str());
}

// Builds the original and all variants into one program, each in a namespace of its own, and runs
// it.
std::string run_all(const std::string& original, const std::string& function,
                    const std::string& driver, const std::vector<Variant>& variants) {
    std::string program = head;
    std::set<std::string> helpers;
    auto add = [&](const std::string& source, const std::string& space) {
        // Helper lines and includes stand once, at the top.
        std::string body;
        std::size_t at = 0;
        while (at < source.size()) {
            const std::size_t end = source.find('\n', at) + 1;
            const std::string line = source.substr(at, end - at);
            at = end;
            if (line.substr(0, 8) == "#include")
                continue;
            if (line.substr(0, 7) == "typedef") {
                if (helpers.insert(line).second)
                    program += line;
                continue;
            }
            body += line;
        }
        const std::size_t linkage = body.find("extern \"C\"");
        body.replace(linkage, 10, "static");
        program += "namespace " + space + " {\n" + body + "\n}\n";
    };
    add(original, "original");
    for (std::size_t i = 0; i < variants.size(); ++i)
        add(variants[i].source, fmt::format("v{}", i));
    program += driver + "int main() {\n";
    for (std::size_t i = 0; i < variants.size(); ++i)
        program += fmt::format("    test(original::{0}, v{1}::{0}, \"{2}\");\n", function, i,
                               variants[i].how);
    program += "    return wrong;\n}\n";
    const std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                         fmt::format("rules_test_{}_{}", ::getpid(), function);
    std::filesystem::create_directories(folder);
    const std::string base = (folder / "all").string();
    EXPECT_TRUE(write_file(base + ".cc", program));
    std::string said;
    const std::string sanitize =
        " -fsanitize=address,undefined -fno-sanitize=alignment -fno-sanitize-recover=all";
    if (shell("clang++-19 -std=c++20 -O0 -march=native -Wno-psabi" + sanitize + " " + base +
              ".cc -o " + base + " > " + base + ".log 2>&1") != 0 ||
        shell(base + " > " + base + ".log 2>&1") != 0)
        said = read_file(base + ".log").value_or("no log");
    std::filesystem::remove_all(folder);
    return said;
}

// All transformations that are allowed, two factors of each at most, and for each the first of what
// is allowed then.
std::vector<Variant> variants_of(const std::string& source, const std::string& function) {
    std::vector<Variant> out;
    std::set<std::tuple<Move, std::string, bool>> seen;
    std::set<std::tuple<Move, Move>> pairs_seen;
    for (const Action& a : transformations(source, {function}, true)) {
        std::string loops;
        for (const LoopName& l : a.loops)
            loops += fmt::format("{}:{} ", l.var, l.line);
        if (!seen.emplace(a.move, loops, a.also).second)
            continue;
        const Applied applied = apply(source, a, true);
        EXPECT_TRUE(applied.source) << sentence(a) << applied.why;
        if (!applied.source)
            continue;
        EXPECT_NE(*applied.source, source) << sentence(a);
        out.push_back({sentence(a), *applied.source});
        for (const Action& next : transformations(*applied.source, {function}, true)) {
            if (!pairs_seen.emplace(a.move, next.move).second)
                continue;
            const Applied twice = apply(*applied.source, next, true);
            if (twice.source)
                out.push_back({sentence(a) + " " + sentence(next), *twice.source});
        }
    }
    return out;
}

std::set<Move> moves_of(const std::string& source, const std::string& function) {
    std::set<Move> out;
    for (const Action& a : transformations(source, {function}, true))
        out.insert(a.move);
    return out;
}

TEST(Transform, MatmulVariantsAgree) {
    EXPECT_EQ(run_all(matmul, "matmul", matmul_driver, variants_of(matmul, "matmul")), "");
    for (const Move move : {Move::interchange, Move::unroll, Move::partial_sums, Move::split,
                            Move::register_tile, Move::restrict_pointers, Move::vectorize})
        EXPECT_TRUE(moves_of(matmul, "matmul").contains(move)) << static_cast<int>(move);
}

TEST(Transform, MatmulByRowsVariantsAgree) {
    EXPECT_EQ(run_all(matmul_ikj, "matmul", matmul_driver, variants_of(matmul_ikj, "matmul")), "");
    for (const Move move :
         {Move::interchange, Move::tile, Move::hoist, Move::row_pointers, Move::register_tile})
        EXPECT_TRUE(moves_of(matmul_ikj, "matmul").contains(move)) << static_cast<int>(move);
}

TEST(Transform, FirVariantsAgree) {
    EXPECT_EQ(run_all(fir, "fir", fir_driver, variants_of(fir, "fir")), "");
}

TEST(Transform, PairsVariantsAgree) {
    EXPECT_EQ(run_all(pairs, "pairs", pairs_driver, variants_of(pairs, "pairs")), "");
    for (const Move move :
         {Move::register_sums, Move::arithmetic, Move::hoist, Move::register_tile})
        EXPECT_TRUE(moves_of(pairs, "pairs").contains(move)) << static_cast<int>(move);
}

TEST(Transform, StencilVariantsAgree) {
    EXPECT_EQ(run_all(stencil, "stencil", stencil_driver, variants_of(stencil, "stencil")), "");
    EXPECT_TRUE(moves_of(stencil, "stencil").contains(Move::peel));
}

TEST(Transform, SparseVariantsAgree) {
    EXPECT_EQ(run_all(sparse, "sparse", sparse_driver, variants_of(sparse, "sparse")), "");
    EXPECT_EQ(run_all(sparse_rows, "sparse", sparse_driver, variants_of(sparse_rows, "sparse")),
              "");
    EXPECT_TRUE(moves_of(sparse, "sparse").contains(Move::segments));
}

TEST(Transform, WrongVariantIsSeen) {
    Variant bad{"bad", matmul};
    bad.source.replace(bad.source.find("0.0f"), 4, "1.0f");
    EXPECT_NE(run_all(matmul, "matmul", matmul_driver, {bad}).find("bad: element 0"),
              std::string::npos);
}

// --- legality

struct Illegal {
    std::string body, move, why;
};

std::string why_not(const std::string& body, const std::string& move) {
    const Result<Function> f = parse_function(
        "void f(int n, float* a, const float* b, float* c, const int* p) {\n" + body + "}\n", "f");
    EXPECT_TRUE(f);
    Outcome out;
    if (move == "interchange")
        out = interchange(*f, {"i", 0}, {"j", 0}, false, true);
    else if (move == "split")
        out = interchange(*f, {"i", 0}, {"j", 0}, true, true);
    else if (move == "tile")
        out = tile(*f, {{"i", 0}, {"j", 0}}, 16, true);
    else if (move == "sums")
        out = register_sums(*f, {"j", 0}, true);
    else if (move == "partial")
        out = partial_sums(*f, {"j", 0}, 4, true);
    else if (move == "register")
        out = register_tile(*f, {"i", 0}, 1, 2, false, true);
    else if (move == "unroll")
        out = unroll(*f, {"j", 0}, 4, true);
    return out.function ? "" : out.why;
}

TEST(Transform, RefusesWhatDependencesForbid) {
    const std::vector<Illegal> cases = {
        {"for (int i = 1; i < n; ++i) for (int j = 1; j < n; ++j) a[i * n + j] = a[(i - 1) * n + j "
         "+ 1];\n",
         "interchange", "written in one place"},
        {"for (int i = 0; i < n; ++i) for (int j = 0; j < i; ++j) a[i * n + j] = 0;\n",
         "interchange", "bounds of j depend on i"},
        {"for (int i = 0; i < n; ++i) for (int j = 0; j < n; ++j) a[p[j]] += b[i];\n",
         "interchange", "is not known"},
        {"for (int i = 0; i < n; ++i) for (int j = 0; j < n; ++j) a[0] = b[i * n + j];\n",
         "interchange", "last value"},
        {"for (int i = 0; i < n; ++i) for (int j = 0; j < n; ++j) a[i + j] = b[i * n + j];\n",
         "interchange", "same element"},
        {"for (int i = 0; i < n; ++i) for (int j = 0; j < n; ++j) g(a, i, j);\n", "interchange",
         "a call of g"},
        {"float s = 0; for (int i = 0; i < n; ++i) for (int j = 0; j < n; ++j) { s = b[i] - s; a[i "
         "* n + j] = s; }\n",
         "interchange", "carries a value"},
        {"for (int i = 0; i < n; ++i) { float s = 0; for (int j = 0; j < n; ++j) s += a[j]; a[i] = "
         "s; }\n",
         "split", "written in one place"},
        {"for (int i = 0; i < n; ++i) { float s = 0; for (int j = 0; j < n; ++j) s = s * b[j]; "
         "c[i] = s; }\n",
         "split", "more than adding"},
        {"for (int i = 0; i < n; ++i) { float s = 0; for (int j = 0; j < n; ++j) s += b[j]; c[i] = "
         "s * 2; }\n",
         "split", "more than a store"},
        {"for (int i = 0; i < n; ++i) for (int j = 0; j < n; ++j) { if (b[j] > 1) break; c[i * n + "
         "j] = 1; }\n",
         "tile", "jumps"},
        {"for (int i = 0; i < n; ++i) { c[i] = 1; for (int j = 0; j < n; ++j) c[i] += b[j]; }\n",
         "tile", "one close nest"},
        {"for (int i = 0; i < n; ++i) for (int j = 0; j < n; ++j) c[i] += c[j];\n", "sums",
         "another place"},
        {"for (int j = 0; j < n; ++j) c[j] += b[j];\n", "sums", "moves with j"},
        {"float s = 0; for (int j = 0; j < n; ++j) { s += b[j]; c[j] = s; } c[0] = s;\n", "partial",
         "more than a sum"},
        {"for (int i = 0; i < n; ++i) { float s = 0; for (int j = 0; j < i; ++j) s += b[j]; c[i] = "
         "s; }\n",
         "register", "differ between the results"},
        {"for (int i = 0; i < n; ++i) { float s = 0; for (int j = 0; j < n; ++j) s += b[i * n + "
         "j]; c[i] = s; }\n",
         "register", "not contiguous along i"},
        {"for (int i = 1; i < n; ++i) { float s = 0; for (int j = 0; j < n; ++j) s += a[i - 1]; "
         "a[i] = s; }\n",
         "register", "written in one place"},
        {"for (int j = 0; j < p[0]; ++j) { if (b[j] > 1) continue; c[j] = 1; }\n", "unroll",
         "jumps"},
    };
    for (const Illegal& c : cases) {
        const std::string why = why_not(c.body, c.move);
        EXPECT_NE(why.find(c.why), std::string::npos) << c.body << c.move << " said: " << why;
    }
}

TEST(Transform, UncheckedDoesAsTold) {
    const Result<Function> f = parse_function(
        "void f(int n, float* a) {\n"
        "for (int i = 1; i < n; ++i) for (int j = 1; j < n; ++j) a[i * n + j] = a[(i - 1) * n + j "
        "+ 1];\n}\n",
        "f");
    ASSERT_TRUE(f);
    EXPECT_FALSE(interchange(*f, {"i", 0}, {"j", 0}, false, true).function);
    EXPECT_TRUE(interchange(*f, {"i", 0}, {"j", 0}, false, false).function);
}

// --- syntax

Expr read_expression(std::string_view text) { return parse_expression(text).value_or(Expr()); }

TEST(Syntax, PrintedCodeReadsBackTheSame) {
    const std::string source =
        "typedef float vf __attribute__((vector_size(64)));\n"
        "void f(int n, const float* __restrict a, float (&b)[4], float* c) {\n"
        "    // first\n    const float *x = a + 1, y = -(-a[0]) * (a[1] - (a[2] - a[3]));\n"
        "    float buffer[4][2] = {{1, 2}, {3}};\n    if (n > 1 && (n & 1)) { c[0] = x[0] ? y : "
        "2.0f; } else if (n) c[1]++; else { return; }\n"
        "#pragma clang loop unroll(disable)\n    for (int i = 0, m = n; i < m; i += 2) { "
        "*(vf*)&c[i] += vf{} + (float)i; }\n"
        "    do { --n; } while (n > (1 << 2));\n    auto g = [&](int q) { return q; };\n    while "
        "(n--) c[n] = std::max<float>(buffer[0][1], sizeof(int));\n"
        "    switch (n) { case 1: break; }\n    for (;;) break;\n    goto end;\nend:;\n}\n";
    // A parameter that is a reference to an array is not understood, so it goes.
    std::string plain = source;
    plain.erase(plain.find("float (&b)[4], "), 15);
    EXPECT_FALSE(parse_function(source, "f"));
    const Result<Function> f = parse_function(plain, "f");
    ASSERT_TRUE(f) << to_text(f.error());
    const std::string once = print(*f);
    const std::string file = plain.substr(0, plain.find("void")) + once;
    const Result<Function> again = parse_function(file, "f");
    ASSERT_TRUE(again);
    EXPECT_EQ(print(*again), once);
    for (const std::string_view part :
         {"// first", "const float* x = a + 1, y = - -a[0] * (a[1] - (a[2] - a[3]));",
          "else if (n)", "#pragma clang loop unroll(disable)\n", "*(vf*)&c[i] += vf{} + (float)i;",
          "auto g = [&](int q) { return q; };", "std::max<float>(buffer[0][1], sizeof(int))",
          "switch (n) { case 1: break; }", "while (n > 1 << 2);"})
        EXPECT_NE(once.find(part), std::string::npos) << part << "\n" << once;
}

TEST(Syntax, Expressions) {
    for (const std::string_view text :
         {"a + b * c", "(a + b) * c", "a - (b - c)", "a - b - c", "a / (b * c)", "-x[i] * 2",
          "(a = b) + 1", "a ? b : c ? d : e", "(float)(a + b)", "f(a, (b, c))", "x.y->z",
          "!(a && b || c)", "a << (b + 1)", "&x[i + 1]", "1.0e-3f + 0x1F"}) {
        ASSERT_TRUE(parse_expression(text)) << text;
        const Expr e = read_expression(text);
        ASSERT_TRUE(parse_expression(print(e))) << print(e);
        EXPECT_EQ(read_expression(print(e)), e) << text << " printed as " << print(e);
    }
    for (const std::string_view text : {"a +", "(a", "a b", "", "f(", "a ? b", "for"})
        EXPECT_FALSE(parse_expression(text)) << text;
}

TEST(Depend, Polynomials) {
    const Result<Function> f = parse_function(
        "void f(int n, int m, float* a) { for (int i = 0; i < n; ++i) for (int j = 0; j < m; ++j) "
        "a[i * m + j] = 0; }",
        "f");
    ASSERT_TRUE(f);
    const Environment env = environment_of(*f);
    auto poly = [&](std::string_view text) {
        return poly_of(read_expression(text), env).value_or(poly_constant(-99));
    };
    EXPECT_EQ(poly("(i + 1) * m + j - m"), poly("i * m + j"));
    EXPECT_EQ(poly_stride(poly("i * m + j"), "i").value_or(Poly()), poly_name("m"));
    EXPECT_EQ(poly_stride(poly("i * m + j"), "j").value_or(Poly()), poly_constant(1));
    EXPECT_FALSE(poly_of(read_expression("a[i]"), env));
    EXPECT_TRUE(poly_nonnegative(poly_name("n") - poly_constant(0)));
    EXPECT_FALSE(poly_nonnegative(poly_name("n") - poly_name("m")));
}

// --- repairs

std::string repaired(const std::string& body, const Action& action) {
    Action a = action;
    a.function = "f";
    const Applied out =
        apply("void f(int n, const float* a, float* c) {\n" + body + "}\n", a, false);
    return out.source ? *out.source : "refused: " + out.why;
}

TEST(Repair, Loops) {
    auto action = [](Move move) {
        Action a;
        a.move = move;
        a.loops = {{"k", 0}};
        return a;
    };
    EXPECT_NE(repaired("for (int k = 0; k <= n; ++k) c[k] = 0;\n", action(Move::strict_bound))
                  .find("k < n"),
              std::string::npos);
    EXPECT_NE(repaired("for (int k = 0; k < n - 1; ++k) c[k] = 0;\n", action(Move::longer_loop))
                  .find("k < n;"),
              std::string::npos);
    EXPECT_NE(repaired("for (int k = 0; k < n; ++k) c[k] = 0;\n", action(Move::shorter_loop))
                  .find("k < n - 1"),
              std::string::npos);
    EXPECT_NE(repaired("for (int k = 0; k < n; ++k) c[k] = 0;\n", action(Move::later_start))
                  .find("k = 1"),
              std::string::npos);
    EXPECT_NE(repaired("for (int k = 0; k < n; ++k) c[k] = a[k] - a[0];\n",
                       action(Move::swap_differences))
                  .find("a[0] - a[k]"),
              std::string::npos);
    const std::string tail = repaired(
        "float s = 0; for (int k = 0; k + 2 <= n; k += 2) { s += a[k]; s += a[k + 1]; } c[0] = "
        "s;\n",
        action(Move::add_tail));
    EXPECT_NE(tail.find("for (int k = n / 2 * 2; k < n; ++k)\n        s += a[k];"),
              std::string::npos)
        << tail;
    EXPECT_NE(repaired(tail.substr(tail.find('{') + 1, tail.rfind('}') - tail.find('{') - 1),
                       action(Move::add_tail))
                  .find("refused"),
              std::string::npos);
}

TEST(Repair, Initialise) {
    Action a;
    a.move = Move::initialise;
    a.subject = "c";
    const std::string nest = repaired(
        "for (int i = 0; i < n; ++i)\nfor (int k = 0; k < n; ++k)\nfor (int j = 0; j < n; "
        "++j)\nc[i * n + j] += a[k];\n",
        a);
    EXPECT_NE(
        nest.find(
            "for (int j = 0; j < n; ++j)\n            c[i * n + j] = 0.0f;\n        for (int k"),
        std::string::npos)
        << nest;
    const std::string row =
        repaired("for (int i = 0; i < n; ++i) {\nfor (int k = 0; k < n; ++k) c[i] += a[k]; }\n", a);
    EXPECT_NE(row.find("c[i] = 0.0f;\n        for (int k"), std::string::npos) << row;
    a.subject = "s";
    EXPECT_NE(repaired("float s; for (int k = 0; k < n; ++k) s += a[k]; c[0] = s;\n", a)
                  .find("float s = 0.0f;"),
              std::string::npos);
    const Result<Function> f = parse_function(
        "void f(int n, float* c) { float s; float t = 0; for (int k = 0; k < n; ++k) { s += 1; t "
        "+= 1; c[k] += s; } }",
        "f");
    EXPECT_EQ(never_set(*f), (std::set<std::string>{"c", "s"}));
}

TEST(Repair, Text) {
    EXPECT_EQ(insert_at("int a\nint b;\n", 1, 6, ";"), "int a;\nint b;\n");
    EXPECT_EQ(insert_at("int a\n  int b;\n", 2, 3, ";"), "int a;\n  int b;\n");
    EXPECT_EQ(insert_at("x", 9, 9, ";"), "x;");
    EXPECT_EQ(
        rename_in("int m; void f() { m = mm + \"m\"[0]; } int g() { return m; }", "f", "m", "n"),
        "int m; void f() { n = mm + \"m\"[0]; } int g() { return m; }");
    EXPECT_EQ(header_of("std::min"), "<algorithm>");
    EXPECT_EQ(header_of("sqrtf"), "<cmath>");
    EXPECT_EQ(header_of("stride"), "");
}

}  // namespace
}  // namespace loopscope::rules
