// `loopscope init FILE --function F`: a task for a user's own function, from its signature and its
// loops.
#include "core/file.h"
#include "core/text.h"
#include "evaluate/expression.h"
#include "evaluate/task.h"
#include "evaluate/task_loops.h"
#include "evaluate/task_signature.h"
#include "program/edit.h"
#include "program/items.h"
#include "program/token.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace loopscope {
namespace {

// What one evaluation may cost when nothing is known: additions of a naive loop nest in tens of
// milliseconds, and arrays that stay within a last-level cache.
constexpr double wanted_operations = 2e7;
constexpr double wanted_elements = 4e6;

struct Guessed {
    Parameter parameter;
    ArrayGuess array;
    Direction direction = Direction::in;
    std::vector<std::string> shape;
    std::string init;
};

struct Draft {
    std::string function, language, artifact_file, source, body, reference;
    Signature signature;
    std::vector<Guessed> arguments;
    int depth = 0;  // of its loops
    std::vector<std::string> sizes;
    std::vector<Sizes> verify_sizes, time_sizes;
    std::map<std::string, std::string> support;
    NewTask task;

    void to_fill_in(std::string line) { task.to_fill_in.push_back(std::move(line)); }
};

std::string in_quotes(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\')
            out += '\\';
        out += c;
    }
    return out + "\"";
}

// `text` with the replacements (offset, length, new text), which are in order and do not overlap.
struct Replacement {
    std::size_t offset, length;
    std::string text;
};
std::string replaced(std::string_view text, const std::vector<Replacement>& replacements) {
    std::string out;
    std::size_t at = 0;
    for (const Replacement& replacement : replacements) {
        out += text.substr(at, replacement.offset - at);
        out += replacement.text;
        at = replacement.offset + replacement.length;
    }
    out += text.substr(at);
    return out;
}

Result<std::string> language_of(const std::filesystem::path& source) {
    const std::string extension = source.extension().string();
    if (extension == ".c")
        return std::string("c");
    for (const char* known : {".cc", ".cpp", ".cxx", ".c++", ".C", ".h", ".hpp", ".hh"})
        if (extension == known)
            return std::string("cpp");
    return fail(source.string(), fmt::format("a task can be made from a C or C++ file (.c, .cc, "
                                             ".cpp, .cxx, .h, .hpp), not from \"{}\"",
                                             extension));
}

std::string functions_in(std::string_view source, std::string_view function) {
    std::vector<std::string> names;
    for (const Item& item : items_of(source, "cpp", {std::string(function)}).items)
        if (item.kind == ItemKind::function && !item.name.empty())
            names.push_back(item.name);
    if (names.empty())
        return "; the file defines no function at its outermost level";
    const std::string near = nearest(function, names);
    return fmt::format("{}; functions here: {}",
                       near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near),
                       fmt::join(names, ", "));
}

// Says why a function of this signature cannot be a kernel, and the mend.
Result<void> check_signature(const std::string& where, const Signature& signature) {
    const auto wrong = [&](const std::string& what) {
        return fail(where, fmt::format("\"{}\": {}", to_text(signature), what));
    };
    const std::string wrapper = fmt::format(
        "add a function extern \"C\" void {}_kernel(...) with plain arguments that calls it, and "
        "name that one",
        signature.name);
    if (signature.templated)
        return wrong("a template has no address of its own; " + wrapper);
    if (signature.returns != "void")
        return wrong(fmt::format(
            "it returns {}; a kernel returns void and writes its result through a pointer: {}",
            signature.returns, wrapper));
    if (signature.parameters.empty())
        return wrong("it has no parameters; a kernel gets its sizes and arrays as arguments: " +
                     wrapper);
    bool has_size = false;
    bool has_result = false;
    std::set<std::string> names;
    for (std::size_t i = 0; i < signature.parameters.size(); ++i) {
        const Parameter& parameter = signature.parameters[i];
        const std::string which =
            fmt::format("parameter {}{}", i + 1,
                        parameter.name.empty() ? "" : fmt::format(" ({})", parameter.name));
        if (parameter.reference)
            return wrong(fmt::format("{} is a reference; pass it by value or by pointer: {}", which,
                                     wrapper));
        if (parameter.deeper)
            return wrong(fmt::format("{} is {}; a kernel's arrays are flat, one pointer each: {}",
                                     which, parameter.type, wrapper));
        if (!parameter.element)
            return wrong(
                fmt::format("{} is of type {}; a kernel's arguments are int, long, unsigned, "
                            "size_t, float, double and pointers to them: {}",
                            which, parameter.type, wrapper));
        if (parameter.name.empty())
            return wrong(fmt::format("{} has no name; give it one, the task refers to it", which));
        if (!names.insert(parameter.name).second)
            return wrong(fmt::format("two parameters have the name {}", parameter.name));
        const bool real =
            parameter.element == ElementType::f32 || parameter.element == ElementType::f64;
        has_size = has_size || (!parameter.pointer && !real);
        has_result = has_result || (parameter.pointer && !parameter.pointee_const);
    }
    if (!has_result)
        return wrong(
            "it has no pointer to non-const: where is its result? Write it through a pointer: " +
            wrapper);
    if (!has_size)
        return wrong(
            "it has no integer parameter: a task varies the sizes of its arrays; add their length "
            "as a parameter: " +
            wrapper);
    return {};
}

// True when the token at `offset` lies inside extern "C" { ... }.
bool inside_linkage_block(std::string_view source, std::size_t offset) {
    std::vector<bool> open;
    const std::vector<Token> tokens = code_tokens(source);
    for (std::size_t i = 0; i < tokens.size() && tokens[i].offset < offset; ++i) {
        if (tokens[i].text == "{")
            open.push_back(i >= 2 && tokens[i - 1].text == "\"C\"" &&
                           tokens[i - 2].text == "extern");
        else if (tokens[i].text == "}" && !open.empty())
            open.pop_back();
    }
    return std::find(open.begin(), open.end(), true) != open.end();
}

// The user's text, with the function made visible to the harness.
void make_artifact(Draft& draft, const FunctionSpan& span) {
    const std::string_view head =
        std::string_view(draft.source).substr(span.begin, span.body_begin - span.begin);
    std::vector<Replacement> replacements;
    bool has_linkage = false;
    for (const Token& token : code_tokens(head)) {
        has_linkage = has_linkage || token.text == "\"C\"";
        if (token.text != "static" && token.text != "inline")
            continue;
        const std::size_t next =
            std::min(head.find_first_not_of(" \t", token.offset + token.text.size()), head.size());
        replacements.push_back({span.begin + token.offset, next - token.offset, ""});
        draft.to_fill_in(fmt::format(
            "{}: removed \"{}\" from the copy of {}, so that it can be found in the built object",
            draft.artifact_file, token.text, draft.function));
    }
    if (draft.language == "cpp" && !has_linkage &&
        !inside_linkage_block(draft.source, span.begin)) {
        replacements.insert(replacements.begin(), {span.begin, 0, "extern \"C\" "});
        draft.to_fill_in(
            fmt::format("{}: added extern \"C\" to the copy of {}; if a header declares it, "
                        "declare it so there too",
                        draft.artifact_file, draft.function));
    }
    draft.source = replaced(draft.source, replacements);
}

// Headers in quotes that lie beside the source, and what they include in turn.
void collect_support(Draft& draft, const std::filesystem::path& folder, std::string_view text) {
    for (const Token& token : code_tokens(text)) {
        if (token.kind != TokenKind::directive)
            continue;
        std::string_view line = trim(token.text.substr(1));
        if (!starts_with_word(line, "include"))
            continue;
        line = trim(line.substr(7));
        const std::size_t end =
            line.size() > 1 && line[0] == '"' ? line.find('"', 1) : std::string_view::npos;
        if (end == std::string_view::npos)
            continue;
        const std::string name(line.substr(1, end - 1));
        if (draft.support.contains(name) || name == draft.artifact_file)
            continue;
        const bool plain = !name.empty() && name[0] != '/' &&
                           name.find("..") == std::string::npos &&
                           name.find("./") == std::string::npos;
        const Result<std::string> header = plain ? read_file(folder / name) : fail("", "");
        if (!header) {
            draft.to_fill_in(fmt::format(
                "\"{}\" is included but {}: copy it into the task's folder and name it in "
                "[artifact] support",
                name,
                plain ? "does not lie beside the source" : "lies outside of the source's folder"));
            continue;
        }
        draft.support[name] = *header;
        collect_support(draft, folder, *header);
    }
}

bool is_vector_code(std::string_view word) {
    return word.starts_with("_mm") || word.starts_with("__m128") || word.starts_with("__m256") ||
           word.starts_with("__m512") || word.starts_with("vld1") || word.starts_with("float32x") ||
           word == "vector_size" || word == "ext_vector_type" || word == "asm" || word == "__asm__";
}

// The artifact in double precision: types, literals and functions of <math.h> widened, the entry
// renamed.
void make_reference(Draft& draft) {
    static const std::set<std::string_view> math = {
        "sqrtf", "expf",   "exp2f",  "logf",   "log2f", "log10f", "sinf",  "cosf",  "tanf", "asinf",
        "acosf", "atanf",  "atan2f", "sinhf",  "coshf", "tanhf",  "powf",  "fabsf", "fmaf", "fmaxf",
        "fminf", "floorf", "ceilf",  "roundf", "fmodf", "hypotf", "cbrtf", "erff"};
    const std::string entry = draft.function + "_reference";
    std::vector<Replacement> replacements;
    bool vector_code = false;
    for (const Token& token : tokenize(draft.source)) {
        const std::string_view text = token.text;
        vector_code =
            vector_code || (token.kind == TokenKind::identifier && is_vector_code(text)) ||
            (token.kind == TokenKind::directive && text.find("intrin.h") != std::string_view::npos);
        const bool word = token.kind == TokenKind::identifier;
        const bool single = token.kind == TokenKind::number && !text.starts_with("0x") &&
                            !text.starts_with("0X") && (text.ends_with('f') || text.ends_with('F'));
        std::string widened(text);
        if (word && text == "float")
            widened = "double";
        else if (word && text == draft.function)
            widened = entry;
        else if (word && text == "restrict")
            widened = "__restrict__";
        else if (single || (word && math.contains(text)))
            widened.pop_back();
        if (widened != text)
            replacements.push_back({token.offset, text.size(), widened});
    }
    std::vector<std::string> parameters;
    for (const Guessed& argument : draft.arguments) {
        std::string type = argument.parameter.type;
        if (const std::size_t at = type.find("float"); at != std::string::npos)
            type.replace(at, 5, "double");
        parameters.push_back(fmt::format("{} {}", type, argument.parameter.name));
    }
    const std::string opening =
        "// The truth that candidates are compared with, in double precision. It runs in a process "
        "of its own.\n";
    if (vector_code) {
        draft.reference = fmt::format(
            "{}extern \"C\" void {}({}) {{\n#error \"write this function in plain loops and double "
            "precision\"\n}}\n",
            opening, entry, fmt::join(parameters, ", "));
        draft.to_fill_in(
            fmt::format("reference.cc: {} uses vector instructions, which cannot be widened by "
                        "rule: write the reference in plain loops",
                        draft.function));
        return;
    }
    draft.reference = opening +
                      "// Made from your own code by widening float to double: CHECK IT. A fault "
                      "of the original is in here too.\n" +
                      replaced(draft.source, replacements);
    if (draft.language == "c") {
        const Result<FunctionSpan> span = find_function(draft.reference, entry);
        if (span)
            draft.reference.insert(span->begin, "extern \"C\" ");
    }
    draft.to_fill_in(
        "reference.cc: made from your own code by widening float to double; check that it is "
        "right, everything is compared with it");
    if (!draft.support.empty())
        draft.to_fill_in(
            "reference.cc: the headers it includes are not widened; see that they hold nothing "
            "that computes in float");
}

void guess_arguments(Draft& draft) {
    std::vector<std::string> pointers;
    for (const Parameter& parameter : draft.signature.parameters) {
        const bool real =
            parameter.element == ElementType::f32 || parameter.element == ElementType::f64;
        if (parameter.pointer)
            pointers.push_back(parameter.name);
        else if (!real)
            draft.sizes.push_back(parameter.name);
    }
    const LoopGuess loops = guess_from_loops(draft.body, draft.sizes, pointers);
    draft.depth = loops.depth;
    for (const Parameter& parameter : draft.signature.parameters) {
        Guessed one;
        one.parameter = parameter;
        if (!parameter.pointer) {
            draft.arguments.push_back(std::move(one));
            continue;
        }
        one.array = loops.arrays.at(parameter.name);
        one.shape =
            one.array.shape.empty() ? std::vector<std::string>{draft.sizes[0]} : one.array.shape;
        if (one.array.shape.empty())
            draft.to_fill_in(fmt::format(
                "argument {}: its shape could not be seen in the loops; \"{}\" is a guess",
                parameter.name, one.shape[0]));
        const bool seen = one.array.assigned || one.array.updated || one.array.read;
        if (parameter.pointee_const || (seen && !one.array.assigned && !one.array.updated))
            one.direction = Direction::in;
        else
            one.direction = (one.array.updated && !one.array.assigned) || one.array.partly
                                ? Direction::inout
                                : Direction::out;
        if (one.array.partly)
            draft.to_fill_in(
                fmt::format("argument {}: not every element seems to be written, so it is "
                            "\"inout\": what is left alone must stay as it was",
                            parameter.name));
        if (one.direction == Direction::out && one.array.read)
            draft.to_fill_in(
                fmt::format("argument {}: it is read too; if it is before it is written, make its "
                            "direction \"inout\"",
                            parameter.name));
        draft.arguments.push_back(std::move(one));
    }
    for (Guessed& one : draft.arguments) {
        const bool real =
            one.parameter.element == ElementType::f32 || one.parameter.element == ElementType::f64;
        if (!one.parameter.pointer || one.direction == Direction::out || real)
            continue;
        std::string limit = "100";
        if (!one.array.indexes.empty())
            for (const Guessed& other : draft.arguments)
                if (other.parameter.name == one.array.indexes)
                    limit = other.shape.size() == 1
                                ? fmt::format("{} - 1", other.shape[0])
                                : fmt::format("{} - 1", fmt::join(other.shape, " * "));
        one.init = fmt::format("integers(0, {})", limit);
        draft.to_fill_in(
            fmt::format("argument {}: which integers may it hold? \"{}\" is a guess{}",
                        one.parameter.name, one.init,
                        one.array.indexes.empty()
                            ? ""
                            : fmt::format(" from its use as an index of {}; for a sparse matrix "
                                          "see csr_offsets and csr_columns in docs/task.md",
                                          one.array.indexes)));
    }
}

// Every array has at least one element there, and the work is bearable.
bool usable(const Draft& draft, const Sizes& sizes, int depth) {
    double largest = 1;
    for (const auto& [name, value] : sizes)
        largest = std::max(largest, static_cast<double>(value));
    if (std::pow(largest, depth) > 2 * wanted_operations)
        return false;
    double elements = 0;
    for (const Guessed& argument : draft.arguments) {
        double product = 1;
        for (const std::string& dimension : argument.shape) {
            const Result<std::int64_t> count = evaluate_count(dimension, sizes);
            if (!count || *count < 1)
                return false;
            product *= static_cast<double>(*count);
        }
        elements += product;
    }
    return elements <= 2 * wanted_elements;
}

void guess_sizes(Draft& draft) {
    const int depth = std::max(1, draft.depth);
    const auto same = [&](std::int64_t value, std::int64_t step) {
        Sizes sizes;
        for (std::size_t i = 0; i < draft.sizes.size(); ++i)
            sizes[draft.sizes[i]] = value + step * static_cast<std::int64_t>(i);
        return sizes;
    };
    constexpr std::array<std::int64_t, 7> small = {1, 2, 7, 17, 33, 64, 127};
    for (std::size_t k = 0; k < small.size(); ++k) {
        Sizes sizes;
        for (std::size_t i = 0; i < draft.sizes.size(); ++i)
            sizes[draft.sizes[i]] = small[i == 0 ? k : (k + 2 * i) % small.size()];
        if (usable(draft, sizes, depth))
            draft.verify_sizes.push_back(std::move(sizes));
    }
    // From large to small; none is a power of two, which caches treat badly.
    constexpr std::array<std::int64_t, 14> large = {
        1'000'000, 300'000, 100'000, 30'000, 10'000, 3000, 1500, 1000, 500, 250, 120, 60, 30, 10};
    for (const std::int64_t value : large)
        if (usable(draft, same(value, 3), depth)) {
            draft.time_sizes.push_back(same(value, 3));
            break;
        }
    if (draft.verify_sizes.empty())
        draft.verify_sizes.push_back(same(17, 1));
    if (draft.time_sizes.empty())
        draft.time_sizes.push_back(same(10, 3));
}

std::string toml_sizes(const std::vector<Sizes>& all) {
    std::vector<std::string> sets;
    sets.reserve(all.size());
    for (const Sizes& sizes : all) {
        std::vector<std::string> pairs;
        for (const auto& [name, value] : sizes)
            pairs.push_back(fmt::format("{} = {}", name, value));
        sets.push_back(fmt::format("{{ {} }}", fmt::join(pairs, ", ")));
    }
    return fmt::format("[{}]", fmt::join(sets, ", "));
}

std::string toml_argument(const Guessed& argument) {
    // check_signature() has seen that every parameter has one.
    const std::string type(name_of(argument.parameter.element.value_or(ElementType::f32)));
    std::string out =
        fmt::format("\n[[kernel.argument]]\nname = {}\n", in_quotes(argument.parameter.name));
    if (!argument.parameter.pointer) {
        const bool real = argument.parameter.element == ElementType::f32 ||
                          argument.parameter.element == ElementType::f64;
        return out +
               fmt::format(
                   "type = \"{}\"\n{}", type,
                   real ? "value = 1.0   # FILL IN: a number, or an expression over the sizes\n"
                        : "");
    }
    out += fmt::format("type = {}   # CHECK the shape\n",
                       in_quotes(fmt::format("{}[{}]", type, fmt::join(argument.shape, "]["))));
    if (argument.direction != Direction::in)
        out += fmt::format("direction = \"{}\"\n",
                           argument.direction == Direction::out ? "out" : "inout");
    if (!argument.init.empty())
        out += fmt::format("init = {}   # CHECK\n", in_quotes(argument.init));
    return out;
}

std::string toml_of(const Draft& draft, const std::string& start) {
    std::string largest = draft.sizes[0];
    if (draft.sizes.size() > 1)
        largest = fmt::format("max({})", fmt::join(draft.sizes, ", "));
    std::vector<std::string> support;
    for (const auto& [name, text] : draft.support)
        support.push_back(in_quotes(name));
    std::string out = fmt::format(
        R"(# A task made from {0} by `loopscope init`. What is marked CHECK or FILL IN was guessed; docs/task.md explains every key.
name = "{0}"
# The model reads this: say what the function computes and what may be assumed. FILL IN
objective = "Make {0} as fast as possible on one core, with the same results up to rounding."
baseline = "original"

[evaluator]
kind = "kernel"

[artifact]
language = "{1}"
files = [{2}]
editable = [{3}]
{4}
[start.original]
file = {5}
expect = "pass"

[kernel]
entry = "{0}"
# The work of one call, for GFLOP/s and GB/s in the profile, e.g. flops = "2.0 * n * n * n". FILL IN
# flops = ""
# bytes = ""
reference = {{ file = "reference.cc", entry = "{0}_reference" }}
# error <= factor * sqrt(reduction) * rounding unit * scale. `reduction` is the length of the longest sum; the scale
# "absolute" applies the reference to the absolute values of the inputs, which bounds sums of products. Where results
# come from differences or divisions, "max" (the largest result) is the better one. CHECK
tolerance = {{ reduction = "{6}", factor = 8, scale = "absolute" }}
)",
        draft.function, draft.language, in_quotes(draft.artifact_file),
        in_quotes(draft.artifact_file + ":" + draft.function),
        support.empty() ? "" : fmt::format("support = [{}]\n", fmt::join(support, ", ")),
        in_quotes(start), largest);
    for (const Guessed& argument : draft.arguments)
        out += toml_argument(argument);
    out += fmt::format(R"(
# Sizes that are checked: small, odd and prime ones find most mistakes.
[kernel.verify]
sizes = {}

# Sizes that are timed (and checked): those that matter to you. CHECK
[kernel.time]
sizes = {}
)",
                       toml_sizes(draft.verify_sizes), toml_sizes(draft.time_sizes));
    if (draft.language == "c")
        out += "\n[build]\ncompiler = \"clang-19\"\n";
    return out;
}

}  // namespace

Result<NewTask> new_task(const std::filesystem::path& source, std::string_view function) {
    Draft draft;
    const std::string where = source.string();
    const Result<std::string> language = language_of(source);
    if (!language)
        return tl::unexpected<Error>(language.error());
    draft.language = *language;
    if (!is_identifier(function))
        return fail("--function", fmt::format("\"{}\" is not the name of a C function", function));
    draft.function = std::string(function);
    Result<std::string> text = read_file(source);
    if (!text)
        return tl::unexpected<Error>(text.error());
    draft.source = std::move(*text);

    const Result<FunctionSpan> found = find_function(draft.source, function);
    if (!found)
        return fail(where, to_text(found.error()) + functions_in(draft.source, function));
    const Result<std::string> declaration = signature_of(draft.source, function);
    const Result<Signature> signature =
        declaration ? parse_signature(*declaration) : tl::unexpected<Error>(declaration.error());
    if (!signature)
        return fail(where, to_text(signature.error()));
    draft.signature = *signature;
    if (const Result<void> fit = check_signature(where, draft.signature); !fit)
        return tl::unexpected<Error>(fit.error());

    // A header becomes a source: its own name would be included, not built.
    std::string extension = source.extension().string();
    if (extension.starts_with(".h"))
        extension = ".cc";
    draft.artifact_file = source.stem().string() + extension;
    const std::string start = "starts/original" + extension;
    draft.body = draft.source.substr(found->body_begin, found->end - found->body_begin);
    make_artifact(draft, *found);
    collect_support(draft, source.parent_path(), draft.source);
    guess_arguments(draft);
    guess_sizes(draft);
    make_reference(draft);
    for (const Guessed& argument : draft.arguments)
        if (!argument.parameter.pointer && (argument.parameter.element == ElementType::f32 ||
                                            argument.parameter.element == ElementType::f64))
            draft.to_fill_in(
                fmt::format("argument {}: which value? 1.0 is a guess", argument.parameter.name));
    draft.to_fill_in(
        "task.toml: check the shapes, directions and sizes marked CHECK, the tolerance, and say in "
        "the objective what the function computes");
    draft.to_fill_in(
        "task.toml: declare flops and bytes of one call, so that the profile can compare with this "
        "machine's roof");

    std::map<std::string, std::string>& files = draft.task.files;
    files = draft.support;
    files["task.toml"] = toml_of(draft, start);
    files[start] = draft.source;
    files["reference.cc"] = draft.reference;
    // What is handed out must be readable as it is.
    const TaskFiles read = [&](const std::string& path) -> Result<std::string> {
        const auto file = files.find(path);
        if (file == files.end())
            return fail(path, "no such file");
        return file->second;
    };
    const Result<Task> check = parse_task(files["task.toml"], "task.toml", read);
    if (!check)
        return fail(where, fmt::format("no task can be made from {}: {}", function,
                                       to_text(check.error())));
    return std::move(draft.task);
}

}  // namespace loopscope
