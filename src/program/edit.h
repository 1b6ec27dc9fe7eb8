// From a model's answer to a new program: what was meant, whether it is allowed, and how it
// differs.
#pragma once
#include "core/result.h"
#include "record/program.h"

#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

// A function that may be edited: everything from its signature's end to its closing brace; helpers
// before it may be added, the signature may not change.
struct EditableFunction {
    std::string file;
    std::string function;
};

struct EditRules {
    std::string language = "cpp";            // "cpp", "c", "cuda", "opencl", "python", "text"
    std::vector<EditableFunction> editable;  // empty: whole files may be edited
    std::size_t max_bytes = 262144;          // of one file
};

// The program that `answer` proposes. Understands, in this order: SEARCH/REPLACE blocks (each must
// match exactly once), fenced code blocks naming files ("```cpp file=matmul.cc" or a first comment
// line with the path), one fenced block with the whole file, one fenced block with just the
// editable function(s) (replaced in place), bare code. Errors say what a model needs to mend it: no
// code found, ambiguous or missing match with the nearest lines, changed signature (old and new),
// text outside the editable part, identical to the parent, too large, truncated.
Result<Program> apply_answer(const Program& parent, const EditRules& rules,
                             std::string_view answer);

// Where the definition of a free function lies in a C-family source; `name` may be qualified. An
// Error when it is absent, defined twice or not closed.
struct FunctionSpan {
    std::size_t begin =
        0;  // first character of the declaration (its return type, attributes, extern "C")
    std::size_t body_begin = 0;  // the opening brace
    std::size_t end = 0;         // one past the closing brace
};
Result<FunctionSpan> find_function(std::string_view source, std::string_view name);
// The declaration without body and without extern "C", white space normalised:
// "void matmul(int n, const float* a, ...)".
Result<std::string> signature_of(std::string_view source, std::string_view name);

// Comments and white space removed: two programs with equal normal forms are the same proposal. A
// text is read as C-family source; the files of a program each by their extension (Python keeps its
// indentation, other texts their lines).
std::string normal_form(std::string_view source);
std::string normal_form(const Program& program);

// Unified diff with three lines of context, "--- a/FILE" headers; "" when equal.
std::string unified_diff(const Program& before, const Program& after);

// Share of common tokens (Dice coefficient over token trigrams), 0 to 1.
double similarity(std::string_view a, std::string_view b);

}  // namespace loopscope
