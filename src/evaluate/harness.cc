#include "evaluate/harness.h"

#include <fmt/format.h>

namespace loopscope {

namespace {

std::string type_name(ElementType type, Side side) {
    if (side == Side::reference && type == ElementType::f32)
        return "double";
    return std::string(c_name(type));
}

std::string parameter_type(const Argument& argument, Side side) {
    std::string element = type_name(argument.type, side);
    if (argument.scalar)
        return element;
    return argument.direction == Direction::in ? "const " + element + "*" : element + "*";
}

std::string parameters(const KernelSpec& kernel, Side side, bool named) {
    std::string text;
    for (const Argument& argument : kernel.arguments)
        text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", parameter_type(argument, side),
                            named ? " " : "", named ? argument.name : "");
    return text;
}

}  // namespace

std::string entry_of(const KernelSpec& kernel, Side side) {
    return side == Side::reference ? kernel.reference.entry : kernel.entry;
}

std::string signature_header(const KernelSpec& kernel, Side side) {
    return fmt::format("extern \"C\" __attribute__((visibility(\"default\"))) void {}({});\n",
                       entry_of(kernel, side), parameters(kernel, side, true));
}

std::string glue_source(const KernelSpec& kernel, Side side) {
    std::string call;
    for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
        const Argument& argument = kernel.arguments[i];
        const std::string type = parameter_type(argument, side);
        call += call.empty() ? "" : ", ";
        call += argument.scalar ? fmt::format("*static_cast<const {}*>(arguments[{}])", type, i)
                                : fmt::format("static_cast<{}>(arguments[{}])", type, i);
    }
    return fmt::format(
        "extern \"C\" __attribute__((visibility(\"default\"))) void loopscope_call(void "
        "(*entry)(), void** arguments) "
        "{{\n"
        "    (void)arguments;\n"
        "    reinterpret_cast<void (*)({})>(entry)({});\n}}\n",
        parameters(kernel, side, false), call);
}

std::string standalone_source(const KernelSpec& kernel) {
    constexpr const char* text = R"(#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" void loopscope_call(void (*entry)(), void** arguments);

// count, then for each argument its size in bytes and its contents; a block of no bytes is still a block
int main(int argc, char** argv) {
    std::FILE* file = argc > 1 ? std::fopen(argv[1], "rb") : nullptr;
    std::uint64_t count = 0;
    if (!file || std::fread(&count, sizeof count, 1, file) != 1)
        return 125;
    std::vector<void*> arguments(count);
    for (void*& argument : arguments) {
        std::uint64_t bytes = 0;
        if (std::fread(&bytes, sizeof bytes, 1, file) != 1)
            return 125;
        argument = std::malloc(bytes);
        if (bytes > 0 && (!argument || std::fread(argument, 1, bytes, file) != bytes))
            return 125;
    }
    std::fclose(file);
    loopscope_call(reinterpret_cast<void (*)()>(&@ENTRY@), arguments.data());
    for (void* argument : arguments)
        std::free(argument);
}
)";
    std::string source = text;
    constexpr std::string_view mark = "@ENTRY@";
    source.replace(source.find(mark), mark.size(), kernel.entry);
    return signature_header(kernel, Side::candidate) + source;
}

}  // namespace loopscope
