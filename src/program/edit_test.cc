#include "program/edit.h"

#include "core/result.h"
#include "program/token.h"
#include "record/program.h"

#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {
namespace {

const std::string matmul = R"(// Dense matrix product.
#include <cmath>

static float twice(float x) { return 2 * x; }

extern "C" void matmul(int n, const float* a, const float* b, float* c) {
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            float sum = 0;
            for (int k = 0; k < n; ++k)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}
)";

const std::string signature =
    "extern \"C\" void matmul(int n, const float* a, const float* b, float* c) ";

Program parent(std::string text = matmul) {
    Program program;
    program.files["matmul.cc"] = std::move(text);
    return program;
}

EditRules rules() {
    EditRules r;
    r.editable = {{"matmul.cc", "matmul"}};
    return r;
}

std::string text_of(const Result<Program>& program) {
    return program ? program->files.at("matmul.cc") : "ERROR " + to_text(program.error());
}

std::string error_of(const Result<Program>& program) {
    return program ? "no error" : to_text(program.error());
}

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

std::string fenced(const std::string& code, const std::string& info = "cpp file=matmul.cc") {
    return "Here it is.\n\n```" + info + "\n" + code + "\n```\nDone.\n";
}

// The parent with the function's body replaced.
std::string with_body(const std::string& body) {
    return matmul.substr(0, matmul.find("{\n    for")) + body + "\n";
}

// --- tokens

TEST(Tokens, KindsAndLines) {
    const std::string source =
        "#define A(x) \\\n  (x) // c1\nint a = 0x1.8p-3f + 1'000;/* c\n2 */ u8R\"x(\")x\" 'c' "
        "\"s\\\"\" a<<=b;";
    const std::vector<Token> tokens = tokenize(source);
    std::vector<std::string> texts;
    for (const Token& token : tokens)
        texts.emplace_back(token.text);
    const std::vector<std::string> expected = {"#define A(x) \\\n  (x)",
                                               "// c1",
                                               "int",
                                               "a",
                                               "=",
                                               "0x1.8p-3f",
                                               "+",
                                               "1'000",
                                               ";",
                                               "/* c\n2 */",
                                               "u8R\"x(\")x\"",
                                               "'c'",
                                               "\"s\\\"\"",
                                               "a",
                                               "<<=",
                                               "b",
                                               ";"};
    EXPECT_EQ(texts, expected);
    EXPECT_EQ(tokens[0].kind, TokenKind::directive);
    EXPECT_EQ(tokens[1].kind, TokenKind::comment);
    EXPECT_EQ(tokens[2].line, 3);
    EXPECT_EQ(tokens[10].kind, TokenKind::string);
    EXPECT_EQ(tokens[10].line, 4);
    EXPECT_EQ(code_tokens(source).size(), expected.size() - 2);
}

TEST(Tokens, CutTexts) {
    for (const std::string_view source :
         {"\"abc", "'x", "/* x", "R\"(x", "R\"", "\"a\\", "#define X \\"})
        EXPECT_FALSE(tokenize(source).empty()) << source;
    EXPECT_TRUE(tokenize("/* x").front().cut);
    EXPECT_TRUE(tokenize("\"x\n\"").front().cut);
    EXPECT_FALSE(tokenize("\"x\"").front().cut);
}

// --- functions

TEST(FindFunction, SpansAndSignature) {
    const Result<FunctionSpan> span = find_function(matmul, "matmul");
    ASSERT_TRUE(span) << to_text(span.error());
    EXPECT_EQ(matmul.substr(span->begin, 8), "extern \"");
    EXPECT_EQ(matmul[span->body_begin], '{');
    EXPECT_EQ(span->end, matmul.size() - 1);
    EXPECT_EQ(*signature_of(matmul, "matmul"),
              "void matmul(int n, const float* a, const float* b, float* c)");
}

struct SignatureCase {
    std::string source, name, signature;
};

TEST(FindFunction, Forms) {
    const std::vector<SignatureCase> cases = {
        {"namespace x { namespace { int g(); } void f ( int a [ 3 ] , float * p ) noexcept {} }",
         "f", "void f(int a[3], float* p) noexcept"},
        {"extern \"C\" {\nvoid f(const float *__restrict a) { if (a) { } }\n}", "f",
         "void f(const float* __restrict a)"},
        {"template <int N> [[nodiscard]] static std::vector<int> f(std::array<int, N> const & a) { "
         "return {}; }",
         "f",
         "template<int N>[[nodiscard]] static std::vector<int> f(std::array<int, N> const& a)"},
        {"__global__ void __launch_bounds__(256) f(float* x) { }", "f",
         "__global__ void __launch_bounds__(256) f(float* x)"},
        {"__attribute__((noinline)) void A::f(int x) const { }", "A::f",
         "__attribute__((noinline)) void A::f(int x) const"},
        {"int f(int);\nint g = f(1);\nint f(int x) { return x; }", "f", "int f(int x)"},
        {"auto f(int x) -> float { return x; }", "f", "auto f(int x) -> float"},
        {"struct S { int f(int) { return 1; } };\nint f(int x = 1) { return x; }", "f",
         "int f(int x = 1)"},
        {"#ifdef X\nstatic int y;\n#else\nstatic int z;\n#endif\nvoid f() {\n#ifdef X\n if (1) "
         "{\n#else\n if (2) {\n#endif\n }\n}\nint h;",
         "f", "void f()"},
    };
    for (const SignatureCase& c : cases) {
        const Result<std::string> got = signature_of(c.source, c.name);
        ASSERT_TRUE(got) << c.source << "\n" << to_text(got.error());
        EXPECT_EQ(*got, c.signature) << c.source;
    }
}

TEST(FindFunction, Errors) {
    EXPECT_TRUE(has(find_function("int g() {}", "f").error().what,
                    "no definition of the function `f`; defined are: g"));
    EXPECT_TRUE(has(find_function("int x;", "f").error().what, "no function at all"));
    EXPECT_TRUE(has(find_function("int f() {}\nint f() {}", "f").error().what,
                    "defined twice, in lines 1 and 2"));
    EXPECT_TRUE(has(find_function("\nint f() { if (1) {", "f").error().what,
                    "the body of f, which begins in line 2 is not closed"));
}

// --- answers that apply

const std::string zero_body = "{\n    for (int i = 0; i < n * n; ++i)\n        c[i] = 0;\n}";

TEST(ApplyAnswer, FunctionInPlace) {
    const Result<Program> got = apply_answer(parent(), rules(), fenced(signature + zero_body));
    EXPECT_EQ(text_of(got), with_body(zero_body));
    // The declaration stays the parent's, also when the answer leaves extern "C" out.
    const Result<Program> plain = apply_answer(
        parent(), rules(),
        fenced("void matmul(int n, const float* a,\n   const float* b, float* c)\n" + zero_body,
               "c++"));
    EXPECT_EQ(text_of(plain), with_body(zero_body));
}

TEST(ApplyAnswer, WaysToNameTheFile) {
    const std::string code = signature + zero_body;
    for (const std::string& answer :
         {"```cpp:matmul.cc\n" + code + "\n```", "```matmul.cc\n" + code + "\n```",
          "```cpp filename=\"matmul.cc\"\n" + code + "\n```",
          "**matmul.cc**\n```cpp\n" + code + "\n```",
          "### File: `matmul.cc`:\n\n```cpp\n" + code + "\n```",
          "```cpp\n// matmul.cc\n" + code + "\n```", "~~~~cpp\n" + code + "\n~~~~",
          "````cpp file=./matmul.cc\n" + code + "\n````"})
        EXPECT_TRUE(has(text_of(apply_answer(parent(), rules(), answer)), "n * n; ++i")) << answer;
}

TEST(ApplyAnswer, WholeFile) {
    EXPECT_EQ(text_of(apply_answer(parent(), rules(), fenced(with_body(zero_body)))),
              with_body(zero_body));
    EditRules whole;
    EXPECT_EQ(text_of(apply_answer(parent(), whole, fenced("int x() { return 3; }"))),
              "int x() { return 3; }\n");
}

TEST(ApplyAnswer, HelpersGoBeforeTheFunction) {
    const std::string code =
        "#include <cmath>\n#include <immintrin.h>\n#define TILE 8\nstruct Block { float x[4]; "
        "};\n// adds\nstatic float add(float x, float y) { return x + y; }\n\n" +
        signature + "{\n    c[0] = add(a[0], TILE);\n}";
    const std::string text = text_of(apply_answer(parent(), rules(), fenced(code)));
    EXPECT_TRUE(has(text, "#include <immintrin.h>\n#define TILE 8\nstruct Block")) << text;
    EXPECT_TRUE(has(text, "// adds\nstatic float add")) << text;
    EXPECT_EQ(text.find("#include <cmath>"), text.rfind("#include <cmath>"));
    EXPECT_LT(text.find("twice"), text.find("TILE"));
    EXPECT_LT(text.find("add("), text.find("void matmul"));
}

TEST(ApplyAnswer, LinkageBlock) {
    const std::string source =
        "#include <cmath>\n#ifdef __cplusplus\nextern \"C\" {\n#endif\nvoid matmul(int n) { n++; "
        "}\n#ifdef __cplusplus\n}\n#endif\n";
    const std::string code =
        "#include <vector>\n#ifdef __AVX2__\n#define W 8\n#else\n#define W 4\n#endif\nextern \"C\" "
        "{\nvoid matmul(int n) { n += W; }\n}";
    EXPECT_EQ(text_of(apply_answer(parent(source), rules(), fenced(code))),
              "#include <cmath>\n#include <vector>\n#ifdef __cplusplus\nextern \"C\" "
              "{\n#endif\n#ifdef __AVX2__\n#define W 8\n#else\n#define W 4\n#endif\n"
              "void matmul(int n) { n += W; }\n#ifdef __cplusplus\n}\n#endif\n");
}

TEST(ApplyAnswer, AnonymousNamespaceOfHelpers) {
    const std::string code = "namespace {\nfloat add(float x) { return x; }\n}\n" + signature +
                             "{\n    c[0] = add(1);\n}";
    EXPECT_TRUE(has(text_of(apply_answer(parent(), rules(), fenced(code))),
                    "namespace {\nfloat add(float x) { return x; }\n}\n"));
}

TEST(ApplyAnswer, SearchReplace) {
    const std::string answer =
        "```cpp file=matmul.cc\n<<<<<<< SEARCH\n            float sum = 0;\n=======\n            "
        "float sum = 1;\n>>>>>>> REPLACE\n```\n"
        "<<<<<<< SEARCH\nc[i * n + j] = sum;\n=======\n            c[i * n + j] = sum + "
        "1;\n>>>>>>> REPLACE\n";
    const std::string text = text_of(apply_answer(parent(), rules(), answer));
    EXPECT_TRUE(has(text, "float sum = 1;\n            for")) << text;
    EXPECT_TRUE(has(text, "            c[i * n + j] = sum + 1;\n        }")) << text;
}

TEST(ApplyAnswer, BareCodeWithProse) {
    EXPECT_EQ(text_of(apply_answer(
                  parent(), rules(),
                  "Sure, this is faster:\n\n" + signature + zero_body + "\n\nIt clears c.")),
              with_body(zero_body));
}

TEST(ApplyAnswer, NestedAndMissingFences) {
    const std::string code = signature + zero_body;
    for (const std::string& answer :
         {"```markdown\nThe code:\n```cpp\n" + code + "\n```\n```\n", "```cpp\n" + code + "\n",
          "```cpp\n" + code + "\n```cpp\nint example;\n```\n",
          "<think>```cpp\nvoid matmul() {}\n```</think>\n```cpp\n" + code + "\n```",
          "```bash\nmake\n```\n```cpp\n" + code + "\n```\nand `x`"})
        EXPECT_EQ(text_of(apply_answer(parent(), rules(), answer)), with_body(zero_body)) << answer;
}

TEST(ApplyAnswer, QuotedParentIsNoSecondVersion) {
    const std::string function = matmul.substr(matmul.find("extern"));
    EXPECT_EQ(text_of(apply_answer(parent(), rules(),
                                   "Before:\n```cpp\n" + function + "```\nAfter:\n```cpp\n" +
                                       signature + zero_body + "\n```\n")),
              with_body(zero_body));
}

TEST(ApplyAnswer, CarriageReturns) {
    std::string windows;
    for (const char c : matmul)
        windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
    std::string answer = fenced(signature + zero_body);
    const std::string text = text_of(apply_answer(parent(windows), rules(), answer));
    EXPECT_TRUE(has(text, "c[i] = 0;\r\n}")) << text;
    EXPECT_FALSE(has(text, "\r\r"));
    std::string crlf;
    for (const char c : answer)
        crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
    EXPECT_EQ(text_of(apply_answer(parent(), rules(), crlf)), with_body(zero_body));
}

TEST(ApplyAnswer, SeveralFilesAndFunctions) {
    Program program;
    program.files["a.cc"] = "int f() { return 1; }\nint g() { return 2; }\n";
    program.files["b.cc"] = "int h() { return 3; }\n";
    EditRules r;
    r.editable = {{"a.cc", "f"}, {"a.cc", "g"}, {"b.cc", "h"}};
    const Result<Program> got =
        apply_answer(program, r,
                     "```cpp\nint h() { return 30; }\n```\n```cpp\nint g() { return 20; "
                     "}\n```\n```cpp\nint f() { return 10; }\n```\n");
    ASSERT_TRUE(got) << to_text(got.error());
    EXPECT_EQ(got->files.at("a.cc"), "int f() { return 10; }\nint g() { return 20; }\n");
    EXPECT_EQ(got->files.at("b.cc"), "int h() { return 30; }\n");
}

TEST(ApplyAnswer, Python) {
    Program program;
    program.files["policy.py"] =
        "import math\n\n# acts\ndef act(x, *, k=1):\n    return x\n\n\ndef other():\n    return "
        "2\n";
    EditRules r;
    r.language = "python";
    r.editable = {{"policy.py", "act"}};
    const Result<Program> got =
        apply_answer(program, r,
                     "```python\nimport math\nimport random\n\ndef act(x, *, k=1):\n    "
                     "\"\"\"text\n\"\"\"\n    return random.random()\n```");
    ASSERT_TRUE(got) << to_text(got.error());
    EXPECT_EQ(got->files.at("policy.py"),
              "import math\n\nimport random\n\n# acts\ndef act(x, *, k=1):\n    "
              "\"\"\"text\n\"\"\"\n    return random.random()\n\n\n"
              "def other():\n    return 2\n");
    EXPECT_TRUE(has(error_of(apply_answer(program, r, "```python\ndef act(x):\n    return 1\n```")),
                    "signature of act"));
    EXPECT_TRUE(has(error_of(apply_answer(
                        program, r, "```python\ndef act(x, *, k=1):\n    return max(1,\n```")),
                    "ends inside"));
    EXPECT_TRUE(has(
        error_of(apply_answer(
            program, r, "<<<<<<< SEARCH\n    return 2\n=======\n    return 3\n>>>>>>> REPLACE\n")),
        "outside the editable part"));
}

TEST(ApplyAnswer, Text) {
    Program program;
    program.files["prompt.txt"] = "Answer briefly.\n";
    EditRules r;
    r.language = "text";
    EXPECT_EQ(apply_answer(program, r, "Think, then answer.")->files.at("prompt.txt"),
              "Think, then answer.\n");
    EXPECT_EQ(apply_answer(program, r, "```text\nThink.\n```")->files.at("prompt.txt"), "Think.\n");
    EXPECT_TRUE(has(error_of(apply_answer(program, r, "Answer briefly.  ")), "identical"));
}

// --- answers that do not

struct Refused {
    std::string answer, part;
};

TEST(ApplyAnswer, Refusals) {
    const std::string search = "<<<<<<< SEARCH\n";
    const std::string end = ">>>>>>> REPLACE\n";
    const std::vector<Refused> cases = {
        {"", "answer: it is empty"},
        {"I cannot do that.", "no code found; answer with the full text of matmul"},
        {"<think>so much to", "ends inside its reasoning"},
        {fenced(signature + zero_body, "cpp file=other.cc"),
         "answer:4: there is no file \"other.cc\" in the program; its files are matmul.cc"},
        {fenced("int x;"), "no code block defines matmul"},
        {fenced(signature + "{\n    for (int i = 0; i < n"),
         "the code ends inside the body of matmul, which begins in line 1"},
        {"```cpp\nextern \"C\" void matmul(int n,",
         "the code ends inside the bracket \"(\" of line 1"},
        {fenced("void matmul(int n, const float* a, const float* b, double* c) {}"),
         "the signature of matmul may not change. It is\n    void matmul(int n, const float* a, "
         "const float* b, float* c)\nand the answer has\n    void matmul(int n, const float* a, "
         "const float* b, double* c)"},
        {fenced("void matmul(int n, const float* __restrict a, const float* b, float* c) {}"),
         "declare local ones in the body"},
        {fenced(matmul.substr(matmul.find("extern"))), "identical to its parent"},
        {fenced("// comment\n" + matmul), "identical to its parent"},
        {fenced(signature + "{\n    // ... rest of the code unchanged ...\n}"),
         "stands for text that was left out"},
        {fenced("static float twice(float x) { return 3 * x; }\n" + signature + zero_body),
         "`twice` is outside the editable part"},
        {fenced(signature + zero_body + "\nint main() { return 0; }"),
         "comes after the editable part: helpers go before matmul"},
        {fenced(signature + zero_body + "\n" + signature + "{ c[0] = 1; }"),
         "matmul is defined twice in the answer"},
        {fenced(signature + zero_body, "cpp") + fenced(signature + "{ c[0] = 2; }", "cpp"),
         "two different code blocks give new text for matmul.cc"},
        {"```diff\n--- a/matmul.cc\n+++ b/matmul.cc\n@@ -1 +1 @@\n-a\n+b\n```",
         "a unified diff is not understood"},
        {search + "            float summ = 0;\n=======\nx\n" + end,
         "do not occur in the program; nearest lines of matmul.cc:\n9:             float sum = 0;"},
        {search + "zzz\n=======\nx\n" + end, "do not occur in the program"},
        {search + "for (int k = 0; k < n; ++k)\nnot there\n=======\nx\n" + end,
         "nearest lines of matmul.cc:\n10:"},
        {search + "\n=======\nx\n" + end, "the SEARCH part is empty"},
        {search + "float sum = 0;\n=======\nx\n",
         "the answer was cut inside this SEARCH/REPLACE block"},
        {search + "float sum = 0;\n", "the answer was cut inside this SEARCH block"},
        {search + "float sum = 0;\n" + search + "x\n=======\n" + end,
         "has no \"=======\" before the next block"},
        {search + "x\n=======\n" + search + "x\n=======\n" + end,
         "has no \">>>>>>> REPLACE\" before the next"},
        {search +
             "static float twice(float x) { return 2 * x; }\n=======\nstatic float twice(float x) "
             "{ return 3 * x; }\n" +
             end,
         "removes or changes line 4 (`static float twice(float x) { return 2 * x; }`) is outside "
         "the editable part"},
        {search +
             matmul.substr(matmul.find("extern"),
                           matmul.find(" {\n    for") - matmul.find("extern")) +
             " {\n=======\nvoid matmul(int m) {\n" + end,
         "signature of matmul"},
        {search +
             "            c[i * n + j] = sum;\n        }\n=======\n            c[i * n + j] = "
             "sum;\n" +
             end,
         "is not closed"},
        {"```cpp file=nothing.cc\n" + search + "x\n=======\n" + end + "```",
         "there is no file \"nothing.cc\""},
    };
    for (const Refused& c : cases) {
        const std::string error = error_of(apply_answer(parent(), rules(), c.answer));
        EXPECT_TRUE(has(error, c.part))
            << "answer:\n"
            << c.answer << "\nerror: " << error << "\nwanted: " << c.part;
    }
}

TEST(ApplyAnswer, AmbiguousSearch) {
    const std::string text = "void matmul() {\n    x();\n    y();\n    x();\n}\n";
    EXPECT_TRUE(has(
        error_of(apply_answer(parent(text), rules(),
                              "<<<<<<< SEARCH\n    x();\n=======\n    z();\n>>>>>>> REPLACE\n")),
        "answer:1: the SEARCH lines occur 2 times (matmul.cc:2, matmul.cc:4); quote more lines"));
}

TEST(ApplyAnswer, TooLarge) {
    EditRules r = rules();
    r.max_bytes = 600;
    std::string body = "{\n";
    for (int i = 0; i < 60; ++i)
        body += "    c[0] += 1;\n";
    EXPECT_TRUE(has(error_of(apply_answer(parent(), r, fenced(signature + body + "}"))),
                    "matmul.cc: it is too large"));
    EXPECT_TRUE(has(error_of(apply_answer(parent(), r, std::string(100000, 'x'))),
                    "answer: it is too large"));
}

TEST(ApplyAnswer, WholeFileRefusals) {
    Program program = parent();
    program.files["other.cc"] = "int x;\n";
    EditRules whole;
    EXPECT_TRUE(has(error_of(apply_answer(program, whole, fenced("int y;", "cpp"))),
                    "several files and the code block names none"));
    EXPECT_TRUE(has(error_of(apply_answer(program, whole, fenced("int y;") + fenced("int z;"))),
                    "two code blocks give the file matmul.cc"));
    EXPECT_TRUE(has(
        error_of(apply_answer(parent(), whole, fenced("int y;", "cpp") + fenced("int z;", "cpp"))),
        "several code blocks without a file name"));
    EXPECT_TRUE(has(error_of(apply_answer(parent(), whole, fenced("int y() {", "cpp"))),
                    "the code ends inside the body of y"));
    EXPECT_TRUE(
        has(error_of(apply_answer(parent(), whole, "no idea")), "answer with the whole file"));
    EditRules limited;
    limited.editable = {{"missing.cc", "f"}};
    EXPECT_TRUE(has(error_of(apply_answer(program, limited, "x")),
                    "editable: the program has no file missing.cc"));
    EXPECT_TRUE(
        has(error_of(apply_answer(program, rules(),
                                  "<<<<<<< SEARCH\nint x;\n=======\nint z;\n>>>>>>> REPLACE\n")),
            "other.cc: this file may not be edited"));
    EXPECT_TRUE(has(error_of(apply_answer(Program(), rules(), "x")), "it has no files"));
}

// Every prefix of an answer is refused or gives a program whose function is complete.
TEST(ApplyAnswer, EveryPrefix) {
    const std::string answer = fenced(
        "#include <cstring>\n" + signature +
        "{\n    /* \" */ c[0] = a[0] ? '}' : 2;\n    const char* s = \"}\";\n    (void)s;\n}");
    int applied = 0;
    for (std::size_t i = 0; i < answer.size(); ++i) {
        const Result<Program> got = apply_answer(parent(), rules(), answer.substr(0, i));
        if (!got)
            continue;
        ++applied;
        EXPECT_TRUE(has(text_of(got), "(void)s;\n}\n")) << answer.substr(0, i);
    }
    EXPECT_GT(applied, 3);
}

// --- the rest

TEST(NormalForm, IgnoresCommentsAndSpaceOnly) {
    EXPECT_EQ(normal_form("int  a;// x\n#define  F(x)  x // y\n"),
              normal_form("int a ; /* z */\n# define F(x) x\n"));
    EXPECT_NE(normal_form("#define F (x)\n"), normal_form("#define F(x)\n"));
    EXPECT_NE(normal_form("int a;"), normal_form("inta;"));
    EXPECT_NE(normal_form("a = \"x  y\";"), normal_form("a = \"x y\";"));
    EXPECT_NE(normal_form("a + +b"), normal_form("a ++b"));
    Program one;
    one.files["a.py"] = "if x:\n  y()\nz()\n";
    Program two;
    two.files["a.py"] = "if x:\n  y()\n  z()\n";
    EXPECT_NE(normal_form(one), normal_form(two));
    two.files["a.py"] = "if x:  # why\n  y()\n\nz()\n";
    EXPECT_EQ(normal_form(one), normal_form(two));
    Program split;
    split.files["a.cc"] = "int a;";
    split.files["b.cc"] = "int b;";
    Program joined_files;
    joined_files.files["a.cc"] = "int a; int b;";
    EXPECT_NE(normal_form(split), normal_form(joined_files));
}

TEST(UnifiedDiff, Hunks) {
    Program a;
    Program b;
    a.files["x"] = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
    b.files["x"] = "1\n2\nthree\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13";
    EXPECT_EQ(unified_diff(a, b),
              "--- a/x\n+++ b/x\n@@ -1,6 +1,6 @@\n 1\n 2\n-3\n+three\n 4\n 5\n 6\n@@ -10,3 +10,4 "
              "@@\n 10\n 11\n 12\n+13\n\\ No newline at end of file\n");
    EXPECT_EQ(unified_diff(a, a), "");
    b.files["y"] = "new\n";
    EXPECT_TRUE(has(unified_diff(a, b), "--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+new\n"));
    EXPECT_TRUE(has(unified_diff(b, a), "--- a/y\n+++ /dev/null\n@@ -1 +0,0 @@\n-new\n"));
}

// Applying the diff by its own rules gives the second text, for every pair of short texts over two
// lines.
TEST(UnifiedDiff, ExhaustiveOverShortTexts) {
    std::vector<std::string> texts;
    for (int length = 0; length <= 5; ++length)
        for (int bits = 0; bits < (1 << length); ++bits) {
            std::string text;
            for (int i = 0; i < length; ++i)
                text += (bits >> i) % 2 == 1 ? "b\n" : "a\n";
            texts.push_back(text);
        }
    for (const std::string& from : texts)
        for (const std::string& to : texts) {
            Program a;
            Program b;
            a.files["x"] = from;
            b.files["x"] = to;
            const std::string diff = unified_diff(a, b);
            if (from == to) {
                EXPECT_EQ(diff, "");
                continue;
            }
            // At most five lines: one hunk with everything in it.
            std::string before;
            std::string after;
            std::size_t i = diff.find("@@\n") + 3;
            for (; i < diff.size(); i = diff.find('\n', i) + 1) {
                const std::string line = diff.substr(i + 1, diff.find('\n', i) - i);
                before += diff[i] != '+' ? line : "";
                after += diff[i] != '-' ? line : "";
            }
            const bool whole =
                from.size() <= 6;  // at most three lines of context before the change
            if (whole) {
                EXPECT_EQ(before, from) << diff;
                EXPECT_EQ(after, to) << diff;
            } else {
                EXPECT_TRUE(has(from, before)) << diff;
                EXPECT_TRUE(has(to, after)) << diff;
            }
        }
}

TEST(Similarity, Range) {
    EXPECT_EQ(similarity("", ""), 1);
    EXPECT_EQ(similarity("a", ""), 0);
    EXPECT_EQ(similarity("a + b", "a /* x */ + b"), 1);
    EXPECT_EQ(similarity("a b c", "d e f"), 0);
    const double near = similarity(matmul, with_body(zero_body));
    EXPECT_GT(near, 0.3);
    EXPECT_LT(near, 0.9);
}

}  // namespace
}  // namespace loopscope
