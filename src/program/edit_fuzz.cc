// Whatever a model answers, apply_answer() returns a program or an error. Input: the answer to a
// fixed program; what applies keeps its promises, and the readers of sources survive the same
// bytes.
#include "core/check.h"
#include "core/result.h"
#include "program/edit.h"
#include "program/token.h"
#include "record/program.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

using namespace loopscope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string answer(reinterpret_cast<const char*>(data), size);
    Program parent;
    parent.files["matmul.cc"] =
        "#include <cmath>\nstatic float one() { return 1; }\nextern \"C\" {\n"
        "void matmul(int n, const float* a, float* c) {\n    for (int i = 0; i < n; ++i)\n        "
        "c[i] = a[i];\n}\n}\n";
    EditRules rules;
    rules.editable = {{"matmul.cc", "matmul"}};
    rules.max_bytes = 4096;
    const std::string before = *signature_of(parent.files["matmul.cc"], "matmul");
    if (const Result<Program> program = apply_answer(parent, rules, answer)) {
        const std::string& text = program->files.at("matmul.cc");
        const Result<std::string> after = signature_of(text, "matmul");
        CHECK(after && *after == before);
        CHECK(text.size() <= rules.max_bytes);
        CHECK(text.find("static float one() { return 1; }") != std::string::npos);
        CHECK(normal_form(parent) != normal_form(*program));
        CHECK(!unified_diff(parent, *program).empty());
    }
    for (const std::string_view language : {"cpp", "python", "text"}) {
        EditRules whole;
        whole.language = language;
        (void)apply_answer(parent, whole, answer);
    }
    (void)find_function(answer, "matmul");
    CHECK(similarity(answer, answer) == 1);
    for (const Token& token : tokenize(answer))
        CHECK(!token.text.empty() && token.offset + token.text.size() <= answer.size());
    return 0;
}
