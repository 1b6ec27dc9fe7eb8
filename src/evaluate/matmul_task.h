// For tests of this room: a matrix product as a task made in C++, with its reference.
#pragma once
#include <string>
#include <vector>

#include "evaluate/task.h"

namespace loopscope::testing {

inline Argument scalar(std::string name, ElementType type = ElementType::i32,
                       std::string value = "") {
    Argument argument;
    argument.value = value.empty() ? name : std::move(value);
    argument.name = std::move(name);
    argument.type = type;
    argument.scalar = true;
    return argument;
}

inline Argument array(std::string name, std::vector<std::string> shape, Direction direction,
                      ElementType type = ElementType::f32, std::string init = "mixed",
                      std::vector<std::string> init_arguments = {}) {
    Argument argument;
    argument.name = std::move(name);
    argument.type = type;
    argument.shape = std::move(shape);
    argument.direction = direction;
    argument.init.kind = std::move(init);
    argument.init.arguments = std::move(init_arguments);
    return argument;
}

// void kernel(int n, const float* a, const float* b, float* c), as in the collection of cheating
// candidates.
inline Task matmul_task(const std::vector<int>& verify = {1, 17, 64},
                        const std::vector<int>& time = {96}) {
    Task task;
    task.name = "matmul";
    task.files = {"kernel.cc"};
    KernelSpec kernel;
    kernel.entry = "kernel";
    kernel.arguments = {scalar("n"), array("a", {"n", "n"}, Direction::in),
                        array("b", {"n", "n"}, Direction::in),
                        array("c", {"n", "n"}, Direction::out)};
    for (const int n : verify)
        kernel.verify_sizes.push_back({{"n", n}});
    for (const int n : time)
        kernel.time_sizes.push_back({{"n", n}});
    kernel.reference.file = "reference.cc";
    kernel.reference.entry = "reference";
    kernel.tolerance.reduction = "n";
    kernel.tolerance.factor = 8;
    kernel.flops = "2.0*n*n*n";
    kernel.bytes = "12.0*n*n";
    kernel.reference.text =
        "extern \"C\" void reference(int n, const double* a, const double* b, double* c) {\n"
        "    for (int i = 0; i < n; ++i) {\n"
        "        for (int j = 0; j < n; ++j) c[i * n + j] = 0;\n"
        "        for (int k = 0; k < n; ++k)\n"
        "            for (int j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];\n"
        "    }\n"
        "}\n";
    task.kernel = kernel;
    task.limits.verify_seconds = 10;
    task.limits.build_seconds = 60;
    task.limits.memory_mb = 1024;
    return task;
}

inline const char* naive_matmul =
    "extern \"C\" void kernel(int n, const float* a, const float* b, float* c) {\n"
    "    for (int i = 0; i < n; ++i)\n"
    "        for (int j = 0; j < n; ++j) {\n"
    "            float s = 0.0f;\n"
    "            for (int k = 0; k < n; ++k) s += a[i * n + k] * b[k * n + j];\n"
    "            c[i * n + j] = s;\n"
    "        }\n"
    "}\n";
inline const char* fast_matmul =
    "extern \"C\" void kernel(int n, const float* __restrict a, const float* __restrict b, float* "
    "__restrict c) {\n"
    "    for (int i = 0; i < n; ++i) {\n"
    "        for (int j = 0; j < n; ++j) c[i * n + j] = 0;\n"
    "        for (int k = 0; k < n; ++k)\n"
    "            for (int j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];\n"
    "    }\n"
    "}\n";

inline Program program_of(const std::string& text) {
    Program program;
    program.files["kernel.cc"] = text;
    return program;
}

}  // namespace loopscope::testing
