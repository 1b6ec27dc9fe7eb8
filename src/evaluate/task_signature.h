// A C function's declaration as data, for comparing what a source defines with what a task
// declares.
#pragma once
#include "core/result.h"
#include "evaluate/task.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

struct Parameter {
    std::string name;  // "" when the declaration gives none
    std::string type;  // normalised, without top-level const and restrict: "const float*"
    std::optional<ElementType>
        element;           // of the value or of what is pointed to; nullopt: not one of ours
    bool pointer = false;  // one level; "float x[]" is one too
    bool pointee_const = false;
    bool reference = false;
    bool deeper = false;  // pointer to pointer, array of arrays, function pointer, pack
};

struct Signature {
    std::string returns;  // "void"
    std::string name;
    std::vector<Parameter> parameters;
    bool extern_c = false;  // said in the declaration itself
    bool internal = false;  // static
    bool templated = false;
};

// Errors: not a function's declaration (with the text).
Result<Signature> parse_signature(std::string_view declaration);

// "void f(int n, const float* a)": one spelling for equal declarations.
std::string to_text(const Signature& signature);

// "" when a function of this signature can be called as the kernel declares, else the difference in
// words. Names of parameters, constness of values and of an `in` array do not matter to a caller.
std::string difference(const Signature& signature, const KernelSpec& kernel);

}  // namespace loopscope
