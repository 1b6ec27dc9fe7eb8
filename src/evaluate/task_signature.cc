#include "evaluate/task_signature.h"

#include "program/token.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace loopscope {
namespace {

constexpr std::array<std::pair<ElementType, std::string_view>, 6> names = {{
    {ElementType::i32, "i32"},
    {ElementType::i64, "i64"},
    {ElementType::u32, "u32"},
    {ElementType::u64, "u64"},
    {ElementType::f32, "f32"},
    {ElementType::f64, "f64"},
}};

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

// The element type that the words of a C type mean on this platform (LP64), in any order: "unsigned
// long int".
std::optional<ElementType> element_of(const std::vector<std::string>& words) {
    int longs = 0;
    bool is_unsigned = false;
    bool is_signed = false;
    bool is_int = false;
    std::string other;
    for (const std::string& word : words) {
        if (word == "long")
            ++longs;
        else if (word == "unsigned")
            is_unsigned = true;
        else if (word == "signed")
            is_signed = true;
        else if (word == "int")
            is_int = true;
        else if (other.empty())
            other = word;
        else
            return std::nullopt;
    }
    if (!other.empty()) {
        if (longs > 0 || is_unsigned || is_signed || is_int)
            return std::nullopt;
        if (other == "float")
            return ElementType::f32;
        if (other == "double")
            return ElementType::f64;
        if (is_one_of(other, {"int32_t", "std::int32_t"}))
            return ElementType::i32;
        if (is_one_of(other, {"uint32_t", "std::uint32_t"}))
            return ElementType::u32;
        if (is_one_of(other, {"int64_t", "std::int64_t", "ptrdiff_t", "std::ptrdiff_t", "ssize_t"}))
            return ElementType::i64;
        if (is_one_of(other, {"uint64_t", "std::uint64_t", "size_t", "std::size_t"}))
            return ElementType::u64;
        return std::nullopt;
    }
    if (longs > 0)
        return is_unsigned ? ElementType::u64 : ElementType::i64;
    if (is_unsigned)
        return ElementType::u32;
    if (is_int || is_signed)
        return ElementType::i32;
    return std::nullopt;
}

// Index one past the token that closes the bracket opened at `open`, or the end.
std::size_t past_bracket(const std::vector<Token>& tokens, std::size_t open) {
    int depth = 0;
    for (std::size_t i = open; i < tokens.size(); ++i) {
        if (is_one_of(tokens[i].text, {"(", "[", "{"}))
            ++depth;
        else if (is_one_of(tokens[i].text, {")", "]", "}"}) && --depth == 0)
            return i + 1;
    }
    return tokens.size();
}

std::string join_type(const std::vector<std::string>& words,
                      const std::optional<ElementType>& element) {
    if (element)
        return std::string(c_name(*element));
    return fmt::format("{}", fmt::join(words, " "));
}

Parameter parse_parameter(const std::vector<Token>& tokens) {
    Parameter parameter;
    std::vector<std::string> words;
    int stars = 0;
    bool is_const = false;
    bool qualified = false;  // the last word ended in "::"
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        const std::string_view text = tokens[i].text;
        if (text == "=") {
            break;  // a default argument
        } else if (text == "*") {
            ++stars;
        } else if (text == "&" || text == "&&") {
            parameter.reference = true;
        } else if (text == "[") {
            ++stars;
            i = past_bracket(tokens, i) - 1;
        } else if (text == "const") {
            if (stars == 0)
                is_const = true;  // behind a star it is the pointer itself: no matter to a caller
        } else if (is_one_of(text, {"restrict", "__restrict", "__restrict__", "volatile",
                                    "register", "struct", "enum"})) {
            continue;
        } else if (is_one_of(text, {"__attribute__", "alignas"})) {
            if (i + 1 < tokens.size() && tokens[i + 1].text == "(")
                i = past_bracket(tokens, i + 1) - 1;
        } else if (text == "::") {
            qualified = true;
            if (words.empty())
                continue;
            words.back() += "::";
        } else if (tokens[i].kind == TokenKind::identifier) {
            if (qualified && !words.empty())
                words.back() += text;
            else
                words.emplace_back(text);
            qualified = false;
        } else {
            parameter.deeper = true;  // function pointer, template argument, pack
            words.emplace_back(text);
        }
    }
    // The last word is the name unless it is needed to make up the type.
    if (words.size() > 1 && !is_one_of(words.back(), {"int", "long", "unsigned", "signed", "short",
                                                      "char", "float", "double"})) {
        parameter.name = words.back();
        words.pop_back();
    }
    parameter.element = element_of(words);
    parameter.pointer = stars > 0;
    parameter.pointee_const = stars > 0 && is_const;
    parameter.deeper = parameter.deeper || stars > 1;
    parameter.type = fmt::format(
        "{}{}{}{}", parameter.pointee_const ? "const " : "", join_type(words, parameter.element),
        std::string(static_cast<std::size_t>(stars), '*'), parameter.reference ? "&" : "");
    return parameter;
}

}  // namespace

std::string_view name_of(ElementType type) {
    for (const auto& [value, name] : names)
        if (value == type)
            return name;
    return "";
}

std::string_view c_name(ElementType type) {
    switch (type) {
        case ElementType::i32:
            return "int";
        case ElementType::i64:
            return "long long";
        case ElementType::u32:
            return "unsigned";
        case ElementType::u64:
            return "unsigned long long";
        case ElementType::f32:
            return "float";
        case ElementType::f64:
            return "double";
    }
    return "";
}

std::size_t size_of(ElementType type) {
    switch (type) {
        case ElementType::i32:
        case ElementType::u32:
        case ElementType::f32:
            return 4;
        case ElementType::i64:
        case ElementType::u64:
        case ElementType::f64:
            return 8;
    }
    return 0;
}

Result<Signature> parse_signature(std::string_view declaration) {
    const std::vector<Token> tokens = code_tokens(declaration);
    Signature signature;
    std::vector<std::string> before;  // words in front of the parameters
    std::size_t i = 0;
    for (; i < tokens.size() && tokens[i].text != "("; ++i) {
        const std::string_view text = tokens[i].text;
        if (text == "extern" && i + 1 < tokens.size() && tokens[i + 1].kind == TokenKind::string) {
            signature.extern_c = tokens[i + 1].text == "\"C\"";
            ++i;
        } else if (is_one_of(text, {"__attribute__", "__declspec", "alignas"}) &&
                   i + 1 < tokens.size()) {
            i = past_bracket(tokens, i + 1) - 1;
        } else if (text == "[") {  // [[attribute]]
            i = past_bracket(tokens, i) - 1;
        } else if (text == "template") {
            signature.templated = true;
            int depth = 0;
            while (i + 1 < tokens.size()) {
                ++i;
                if (tokens[i].text == "<")
                    ++depth;
                else if (tokens[i].text == ">" && --depth == 0)
                    break;
            }
        } else if (text == "static") {
            signature.internal = true;
        } else if (is_one_of(text, {"extern", "inline", "__inline", "__inline__", "constexpr",
                                    "__global__", "__kernel", "kernel", "__forceinline"})) {
            continue;
        } else if (text == "*" || text == "&") {
            before.emplace_back(text);
        } else if (tokens[i].kind == TokenKind::identifier || text == "::" || text == "<" ||
                   text == ">" || text == ",") {
            const bool glue = text == "::" || (!before.empty() && before.back().ends_with("::"));
            if (glue && !before.empty())
                before.back() += text;
            else
                before.emplace_back(text);
        } else {
            return fail("", fmt::format("\"{}\" is not the declaration of a function",
                                        declaration.substr(0, 200)));
        }
    }
    if (before.size() < 2 || i == tokens.size())
        return fail("", fmt::format("\"{}\" is not the declaration of a function",
                                    declaration.substr(0, 200)));
    signature.name = before.back();
    before.pop_back();
    signature.returns = fmt::format("{}", fmt::join(before, " "));

    const std::size_t end = past_bracket(tokens, i);
    std::vector<Token> one;
    int depth = 0;
    for (++i; i < end; ++i) {
        const std::string_view text = tokens[i].text;
        const bool last = i + 1 == end;
        if (is_one_of(text, {"(", "[", "{", "<"}))
            ++depth;
        if (!last && is_one_of(text, {")", "]", "}", ">"}))
            --depth;
        if (!last && (text != "," || depth > 0)) {
            one.push_back(tokens[i]);
            continue;
        }
        if (!one.empty() && !(one.size() == 1 && one[0].text == "void"))
            signature.parameters.push_back(parse_parameter(one));
        one.clear();
    }
    return signature;
}

std::string to_text(const Signature& signature) {
    std::vector<std::string> parameters;
    parameters.reserve(signature.parameters.size());
    for (const Parameter& parameter : signature.parameters)
        parameters.push_back(parameter.name.empty()
                                 ? parameter.type
                                 : fmt::format("{} {}", parameter.type, parameter.name));
    return fmt::format("{} {}({})", signature.returns, signature.name, fmt::join(parameters, ", "));
}

std::string difference(const Signature& signature, const KernelSpec& kernel) {
    if (signature.name != kernel.entry)
        return fmt::format("its name is {}, not {}", signature.name, kernel.entry);
    if (signature.returns != "void")
        return fmt::format("it returns {}, not void", signature.returns);
    if (signature.templated)
        return "it is a template";
    if (signature.parameters.size() != kernel.arguments.size())
        return fmt::format("it has {} parameters, not {}", signature.parameters.size(),
                           kernel.arguments.size());
    for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
        const Argument& argument = kernel.arguments[i];
        const Parameter& parameter = signature.parameters[i];
        const std::string which = fmt::format("parameter {} ({})", i + 1, argument.name);
        if (parameter.reference || parameter.deeper || parameter.element != argument.type ||
            parameter.pointer == argument.scalar)
            return fmt::format("{} is {}, not {}{}", which, parameter.type, c_name(argument.type),
                               argument.scalar ? "" : "*");
        if (parameter.pointee_const && argument.direction != Direction::in)
            return fmt::format("{} points to const, but its direction is not \"in\"", which);
    }
    return "";
}

std::string declaration_of(const KernelSpec& kernel) {
    std::vector<std::string> parameters;
    parameters.reserve(kernel.arguments.size());
    for (const Argument& argument : kernel.arguments)
        parameters.push_back(fmt::format(
            "{}{}{} {}", !argument.scalar && argument.direction == Direction::in ? "const " : "",
            c_name(argument.type), argument.scalar ? "" : "*", argument.name));
    return fmt::format("void {}({})", kernel.entry, fmt::join(parameters, ", "));
}

}  // namespace loopscope
