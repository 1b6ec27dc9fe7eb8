#include "evaluate/task_signature.h"

#include <gtest/gtest.h>

#include <tuple>

namespace loopscope {
namespace {

TEST(Signature, NormalisesWhatMeansTheSame) {
    const std::vector<std::pair<const char*, const char*>> table = {
        {"void f(int n, const float* a, float *c)", "void f(int n, const float* a, float* c)"},
        {"extern \"C\" void f(int32_t n, float const * __restrict__ a, float c[])",
         "void f(int n, const float* a, float* c)"},
        {"static inline void f(const int n, const double* const a, double* restrict c)",
         "void f(int n, const double* a, double* c)"},
        {"void f(unsigned int n, std::size_t m, long int k, long long unsigned j)",
         "void f(unsigned n, unsigned long long m, long long k, unsigned long long j)"},
        {"void\n f ( void )", "void f()"},
        {"[[gnu::noinline]] void f(int)", "void f(int)"},
        {"__attribute__((noinline)) void f(int n = 3)", "void f(int n)"},
        {"double f(float x[16])", "double f(float* x)"},
        {"std::vector<int> f(int n)", "std::vector < int > f(int n)"},
    };
    for (const auto& [text, expected] : table) {
        const Result<Signature> signature = parse_signature(text);
        ASSERT_TRUE(signature) << text << ": " << to_text(signature.error());
        EXPECT_EQ(to_text(*signature), expected) << text;
    }
}

TEST(Signature, SeesWhatCannotBeAKernel) {
    EXPECT_TRUE(parse_signature("void f(int& n)")->parameters[0].reference);
    EXPECT_TRUE(parse_signature("void f(float** a)")->parameters[0].deeper);
    EXPECT_TRUE(parse_signature("void f(float a[4][4])")->parameters[0].deeper);
    EXPECT_TRUE(parse_signature("void f(void (*g)(int), int n)")->parameters[0].deeper);
    EXPECT_EQ(parse_signature("void f(void (*g)(int), int n)")->parameters.size(), 2U);
    EXPECT_TRUE(parse_signature("void f(std::span<const float> a, int n)")->parameters[0].deeper);
    EXPECT_EQ(parse_signature("void f(std::pair<int, int> a, int n)")->parameters.size(), 2U);
    EXPECT_FALSE(parse_signature("void f(short n)")->parameters[0].element);
    EXPECT_FALSE(parse_signature("void f(const char* s)")->parameters[0].element);
    EXPECT_TRUE(parse_signature("template <class T> void f(T* a)")->templated);
    EXPECT_TRUE(parse_signature("static void f(int n)")->internal);
    EXPECT_TRUE(parse_signature("extern \"C\" void f(int n)")->extern_c);
    for (const char* bad : {"", "f", "int", "f(int n)", "void f", "#define f(x)"})
        EXPECT_FALSE(parse_signature(bad)) << bad;
}

KernelSpec kernel() {
    KernelSpec spec;
    spec.entry = "f";
    for (const auto& [name, type, direction] : {std::tuple{"n", ElementType::i32, Direction::in},
                                                {"a", ElementType::f32, Direction::in},
                                                {"c", ElementType::f32, Direction::out}}) {
        Argument argument;
        argument.name = name;
        argument.type = type;
        argument.scalar = type == ElementType::i32;
        argument.direction = direction;
        spec.arguments.push_back(argument);
    }
    return spec;
}

TEST(Signature, ComparesWithTheTask) {
    EXPECT_EQ(declaration_of(kernel()), "void f(int n, const float* a, float* c)");
    for (const char* same :
         {"void f(int n, const float* a, float* c)", "void f(int size, float* x, float* y)",
          "void f(std::int32_t, float const a[], float* __restrict c)"})
        EXPECT_EQ(difference(*parse_signature(same), kernel()), "") << same;
    const std::vector<std::pair<const char*, const char*>> table = {
        {"void g(int n, const float* a, float* c)", "its name is g, not f"},
        {"int f(int n, const float* a, float* c)", "it returns int, not void"},
        {"void f(int n, const float* a)", "it has 2 parameters, not 3"},
        {"void f(long n, const float* a, float* c)", "parameter 1 (n) is long long, not int"},
        {"void f(int n, const double* a, float* c)",
         "parameter 2 (a) is const double*, not float*"},
        {"void f(int n, float a, float* c)", "parameter 2 (a) is float, not float*"},
        {"void f(int* n, const float* a, float* c)", "parameter 1 (n) is int*, not int"},
        {"void f(int n, const float* a, const float* c)", "parameter 3 (c) points to const"},
    };
    for (const auto& [text, expected] : table)
        EXPECT_NE(difference(*parse_signature(text), kernel()).find(expected), std::string::npos)
            << text << ": " << difference(*parse_signature(text), kernel());
}

}  // namespace
}  // namespace loopscope
