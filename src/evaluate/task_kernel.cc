#include "evaluate/task_kernel.h"

#include "core/text.h"
#include "evaluate/expression.h"
#include "evaluate/task_signature.h"
#include "program/edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace loopscope {
namespace {

constexpr std::int64_t max_dimension =
    1'000'000'000;  // of one size: keeps products in reach of 64 bits

// Element types

std::vector<std::string> type_names() {
    std::vector<std::string> names;
    for (const ElementType type : {ElementType::i32, ElementType::i64, ElementType::u32,
                                   ElementType::u64, ElementType::f32, ElementType::f64})
        names.emplace_back(name_of(type));
    return names;
}

std::optional<ElementType> type_named(std::string_view name) {
    for (const ElementType type : {ElementType::i32, ElementType::i64, ElementType::u32,
                                   ElementType::u64, ElementType::f32, ElementType::f64})
        if (name == name_of(type))
            return type;
    return std::nullopt;
}

bool is_real(ElementType type) { return type == ElementType::f32 || type == ElementType::f64; }

// Whether `value` fits an integer type.
bool fits(std::int64_t value, ElementType type) {
    switch (type) {
        case ElementType::i32:
            return value >= std::numeric_limits<std::int32_t>::min() &&
                   value <= std::numeric_limits<std::int32_t>::max();
        case ElementType::u32:
            return value >= 0 && value <= std::numeric_limits<std::uint32_t>::max();
        case ElementType::u64:
            return value >= 0;
        default:
            return true;
    }
}

// "f32[n][n + 1]" -> f32 and its dimensions.
void read_type(Reading& reading, std::size_t line, const std::string& text, Argument& argument) {
    const std::size_t open = std::min(text.find('['), text.size());
    const std::string base(trim(std::string_view(text).substr(0, open)));
    const std::optional<ElementType> type = type_named(base);
    if (!type) {
        static const std::map<std::string, std::string> c_types = {
            {"float", "f32"},    {"double", "f64"}, {"int", "i32"},
            {"unsigned", "u32"}, {"long", "i64"},   {"size_t", "u64"}};
        const auto found = c_types.find(base);
        reading.fault(line, fmt::format("argument \"{}\": unknown type \"{}\"{} Accepted: {}; an "
                                        "array is written f32[n][n]",
                                        argument.name, base,
                                        found != c_types.end()
                                            ? fmt::format("; did you mean \"{}\"?", found->second)
                                            : ".",
                                        join(type_names())));
        return;
    }
    argument.type = *type;
    std::size_t at = open;
    while (at < text.size()) {
        const std::size_t close = text.find(']', at);
        if (text[at] != '[' || close == std::string::npos) {
            reading.fault(
                line,
                fmt::format("argument \"{}\": \"{}\" is not a type; an array is written f32[n][n]",
                            argument.name, text));
            return;
        }
        argument.shape.emplace_back(trim(std::string_view(text).substr(at + 1, close - at - 1)));
        at = close + 1;
        while (at < text.size() && text[at] == ' ')
            ++at;
    }
}

// Initialisers

struct InitialiserRule {
    std::string_view kind;
    std::size_t arguments;
    bool for_reals, for_integers;
    std::string_view usage;
};
constexpr std::array<InitialiserRule, 10> initialiser_rules = {{
    {"mixed", 0, true, false, "mixed"},
    {"uniform", 2, true, false, "uniform(low, high)"},
    {"normal", 2, true, false, "normal(mean, sd)"},
    {"lognormal", 2, true, false, "lognormal(mu, sigma)"},
    {"integers", 2, true, true, "integers(low, high), both included"},
    {"constant", 1, true, true, "constant(value)"},
    {"zeros", 0, true, true, "zeros"},
    {"csr_offsets", 2, false, true, "csr_offsets(rows, per_row)"},
    {"csr_columns", 2, false, true, "csr_columns(offsets_argument, columns)"},
    {"permutation", 0, false, true, "permutation"},
}};

const InitialiserRule* rule_of(std::string_view kind) {
    for (const InitialiserRule& rule : initialiser_rules)
        if (rule.kind == kind)
            return &rule;
    return nullptr;
}

void read_initialiser(Reading& reading, std::size_t line, const std::string& text,
                      Argument& argument) {
    const auto fault = [&](const std::string& what) {
        reading.fault(line, fmt::format("argument \"{}\": init {}", argument.name, what));
    };
    const Result<Call> call = parse_call(text);
    if (!call)
        return fault(to_text(call.error()));
    const InitialiserRule* rule = rule_of(call->name);
    if (rule == nullptr) {
        std::vector<std::string> kinds;
        for (const InitialiserRule& known : initialiser_rules)
            kinds.emplace_back(known.kind);
        return fault(fmt::format("\"{}\" is unknown{} Accepted: {}", call->name,
                                 hint(call->name, kinds), join(kinds)));
    }
    if (call->arguments.size() != rule->arguments)
        return fault(fmt::format("takes {} arguments, not {}: {}", rule->arguments,
                                 call->arguments.size(), rule->usage));
    if (is_real(argument.type) ? !rule->for_reals : !rule->for_integers)
        return fault(fmt::format("{} does not make {} values", rule->kind, name_of(argument.type)));
    if (call->name.starts_with("csr_") && argument.type != ElementType::i32)
        return fault(
            fmt::format("{} makes i32 values, not {}", rule->kind, name_of(argument.type)));
    argument.init.kind = call->name;
    argument.init.arguments = call->arguments;
}

// Kernel

std::vector<Sizes> read_sizes(Reading& reading, const toml::table* table, const std::string& name) {
    const TaskSection section(reading, table, name, {"sizes"});
    section.require("sizes");
    std::vector<Sizes> all;
    const toml::array* array = section.array_of_tables("sizes");
    if (array == nullptr)
        return all;
    for (const toml::node& element : *array) {
        Sizes sizes;
        for (const auto& [key, node] : *element.as_table()) {
            const std::string word(key.str());
            if (!is_identifier(word) || word == "min" || word == "max")
                reading.fault(node,
                              fmt::format("\"{}\" in {} cannot be the name of a size", word, name));
            if (!node.is_integer()) {
                reading.fault(node, fmt::format("size \"{}\" in {} must be an integer, not {}",
                                                word, name, kind_of(node)));
                continue;
            }
            const std::int64_t value = node.as_integer()->get();
            if (value < 1 || value > max_dimension)
                reading.fault(node, fmt::format("size \"{}\" in {} is {}; it must be from 1 to {}",
                                                word, name, value, max_dimension));
            sizes[word] = value;
        }
        if (sizes.empty())
            reading.fault(element, fmt::format("a set of sizes in {} is empty", name));
        if (std::find(all.begin(), all.end(), sizes) != all.end())
            reading.fault(element, fmt::format("{} appears twice in {}", to_text(sizes), name));
        all.push_back(std::move(sizes));
    }
    if (all.empty())
        reading.fault(section.line("sizes"),
                      fmt::format("{} needs at least one set of sizes", name));
    return all;
}

struct ReadArgument {
    Argument argument;
    std::size_t line = 0;
};

Direction read_direction(const TaskSection& section) {
    const std::string word = section.choice("direction", "in", {"in", "out", "inout"});
    return word == "out" ? Direction::out : word == "inout" ? Direction::inout : Direction::in;
}

Argument read_argument(Reading& reading, const toml::table& table) {
    const TaskSection section(reading, &table, "[[kernel.argument]]",
                              {"name", "type", "shape", "value", "direction", "init"});
    Argument argument;
    argument.name = section.required_text("name");
    if (section.has("name") && !is_identifier(argument.name))
        reading.fault(
            section.line("name"),
            fmt::format("the argument's name \"{}\" is not a C identifier", argument.name));
    const std::string type = section.required_text("type");
    if (reading.error)
        return argument;
    read_type(reading, section.line("type"), type, argument);
    const std::vector<std::string> shape = section.expressions("shape");
    if (!shape.empty() && !argument.shape.empty())
        reading.fault(
            section.line("shape"),
            fmt::format("argument \"{}\" has a shape in its type and one in \"shape\"; give one",
                        argument.name));
    else if (!shape.empty())
        argument.shape = shape;
    argument.scalar = argument.shape.empty();
    argument.direction = read_direction(section);
    if (argument.scalar) {
        if (argument.direction != Direction::in)
            reading.fault(section.line("direction"),
                          fmt::format("argument \"{}\" is a scalar, passed by value: its direction "
                                      "can only be \"in\"; an array is written {}[1]",
                                      argument.name, name_of(argument.type)));
        if (section.has("init"))
            reading.fault(section.line("init"),
                          fmt::format("argument \"{}\" is a scalar: give it a \"value\" (an "
                                      "expression over the sizes), not \"init\"",
                                      argument.name));
        argument.value = section.has("value") ? section.expression("value") : argument.name;
        return argument;
    }
    if (section.has("value"))
        reading.fault(
            section.line("value"),
            fmt::format("argument \"{}\" is an array: \"value\" is for scalars, use \"init\"",
                        argument.name));
    if (argument.direction == Direction::out) {
        argument.init = Initialiser{.kind = "zeros", .arguments = {}};
        if (section.has("init"))
            reading.fault(section.line("init"),
                          fmt::format("argument \"{}\" is \"out\": what it holds before a call is "
                                      "poisoned; remove \"init\", or make it \"inout\"",
                                      argument.name));
    } else if (section.has("init")) {
        read_initialiser(reading, section.line("init"), section.text("init"), argument);
    } else if (!is_real(argument.type)) {
        reading.fault(section.line(), fmt::format("argument \"{}\" holds integers: say how they "
                                                  "are made, e.g. init = \"integers(0, 9)\"",
                                                  argument.name));
    }
    return argument;
}

// The value of an expression of the task at `sizes`, or nullopt after a fault that names the
// argument or key.
std::optional<double> value_at(Reading& reading, std::size_t line, const std::string& what,
                               const std::string& expression, const Sizes& sizes) {
    const Result<double> value = evaluate_expression(expression, sizes);
    if (!value) {
        reading.fault(line,
                      fmt::format("{}: {} (at {})", what, to_text(value.error()), to_text(sizes)));
        return std::nullopt;
    }
    return *value;
}

std::optional<std::int64_t> count_at(Reading& reading, std::size_t line, const std::string& what,
                                     const std::string& expression, const Sizes& sizes) {
    const Result<std::int64_t> value = evaluate_count(expression, sizes);
    if (!value) {
        reading.fault(line, fmt::format("{}: {}", what, to_text(value.error())));
        return std::nullopt;
    }
    if (*value < 1) {
        reading.fault(line, fmt::format("{}: expression \"{}\" is 0 at {}; it must be at least 1",
                                        what, expression, to_text(sizes)));
        return std::nullopt;
    }
    return *value;
}

// Elements of an array at `sizes`.
std::optional<std::int64_t> elements_at(Reading& reading, const ReadArgument& one,
                                        const Sizes& sizes) {
    std::int64_t product = 1;
    for (const std::string& dimension : one.argument.shape) {
        const std::optional<std::int64_t> count =
            count_at(reading, one.line, fmt::format("shape of argument \"{}\"", one.argument.name),
                     dimension, sizes);
        if (!count)
            return std::nullopt;
        if (__builtin_mul_overflow(product, *count, &product)) {
            reading.fault(one.line, fmt::format("argument \"{}\" has more than 2^63 elements at {}",
                                                one.argument.name, to_text(sizes)));
            return std::nullopt;
        }
    }
    return product;
}

void check_initialiser_at(Reading& reading, const std::vector<ReadArgument>& all,
                          const ReadArgument& one, std::int64_t elements, const Sizes& sizes) {
    const Initialiser& init = one.argument.init;
    const std::string what = fmt::format("argument \"{}\": init {}", one.argument.name, init.kind);
    const auto value = [&](std::size_t i) {
        return value_at(reading, one.line, what, init.arguments[i], sizes);
    };
    if (init.kind == "uniform" || init.kind == "integers") {
        const std::optional<double> low = value(0);
        const std::optional<double> high = value(1);
        const bool whole = init.kind == "integers";
        if (low && high && (whole ? *low > *high : *low >= *high))
            reading.fault(one.line,
                          fmt::format("{}: the low end {} is not below the high end {} (at {})",
                                      what, *low, *high, to_text(sizes)));
        if (low && high && whole && (*low != std::floor(*low) || *high != std::floor(*high)))
            reading.fault(one.line,
                          fmt::format("{}: the ends {} and {} are not whole numbers (at {})", what,
                                      *low, *high, to_text(sizes)));
        if (low && high && whole && std::fabs(*low) <= 0x1p53 && std::fabs(*high) <= 0x1p53 &&
            !(fits(static_cast<std::int64_t>(*low), one.argument.type) &&
              fits(static_cast<std::int64_t>(*high), one.argument.type)))
            reading.fault(one.line,
                          fmt::format("{}: the range {} to {} does not fit {} (at {})", what, *low,
                                      *high, name_of(one.argument.type), to_text(sizes)));
    } else if (init.kind == "normal" || init.kind == "lognormal") {
        value(0);
        const std::optional<double> spread = value(1);
        if (spread && !(*spread > 0))
            reading.fault(one.line,
                          fmt::format("{}: the spread {} must be positive", what, *spread));
    } else if (init.kind == "constant") {
        const std::optional<double> constant = value(0);
        if (constant && !is_real(one.argument.type) && *constant != std::floor(*constant))
            reading.fault(one.line, fmt::format("{}: {} is not a whole number", what, *constant));
    } else if (init.kind == "csr_offsets") {
        const std::optional<std::int64_t> rows =
            count_at(reading, one.line, what, init.arguments[0], sizes);
        const std::optional<std::int64_t> per_row =
            count_at(reading, one.line, what, init.arguments[1], sizes);
        if (rows && per_row && elements != *rows + 1)
            reading.fault(one.line,
                          fmt::format("{}: the array has {} elements at {}; {} rows need {}", what,
                                      elements, to_text(sizes), *rows, *rows + 1));
        if (rows && per_row && *per_row > std::numeric_limits<std::int32_t>::max() / *rows)
            reading.fault(one.line, fmt::format("{}: {} rows of {} do not fit i32 offsets (at {})",
                                                what, *rows, *per_row, to_text(sizes)));
    } else if (init.kind == "csr_columns") {
        const auto offsets = std::find_if(all.begin(), all.end(), [&](const ReadArgument& other) {
            return other.argument.name == init.arguments[0];
        });
        if (offsets == all.end() || offsets->argument.init.kind != "csr_offsets")
            return reading.fault(
                one.line, fmt::format("{}: \"{}\" is not an argument with init csr_offsets", what,
                                      init.arguments[0]));
        const std::optional<std::int64_t> columns =
            count_at(reading, one.line, what, init.arguments[1], sizes);
        const std::optional<std::int64_t> rows =
            count_at(reading, one.line, what, offsets->argument.init.arguments[0], sizes);
        const std::optional<std::int64_t> per_row =
            count_at(reading, one.line, what, offsets->argument.init.arguments[1], sizes);
        if (!columns || !rows || !per_row)
            return;
        // The longest row that the initialiser makes; a row cannot name a column twice.
        const std::int64_t longest = std::min(2 * *per_row, *rows * *per_row);
        if (longest > *columns)
            reading.fault(one.line, fmt::format("{}: a row may have up to {} nonzeros, twice the "
                                                "mean, which do not fit in {} columns (at {})",
                                                what, longest, *columns, to_text(sizes)));
        else if (elements / *rows != *per_row || elements % *rows != 0)
            reading.fault(
                one.line,
                fmt::format("{}: the array has {} elements at {}; \"{}\" ends at {} x {}", what,
                            elements, to_text(sizes), init.arguments[0], *rows, *per_row));
    } else if (init.kind == "permutation" && !fits(elements - 1, one.argument.type)) {
        reading.fault(one.line, fmt::format("{}: {} elements do not fit {}", what, elements,
                                            name_of(one.argument.type)));
    }
}

void check_at(Reading& reading, const std::vector<ReadArgument>& all, const Sizes& sizes,
              std::int64_t memory_mb) {
    double bytes = 0;
    for (const ReadArgument& one : all) {
        const Argument& argument = one.argument;
        if (argument.scalar) {
            const std::string what = fmt::format("value of argument \"{}\"", argument.name);
            const std::optional<double> value =
                value_at(reading, one.line, what, argument.value, sizes);
            if (value && !is_real(argument.type) &&
                (*value != std::floor(*value) || std::fabs(*value) > 0x1p53 ||
                 !fits(static_cast<std::int64_t>(*value), argument.type)))
                reading.fault(one.line,
                              fmt::format("{} is {} at {}, which is not a {}", what, *value,
                                          to_text(sizes), name_of(argument.type)));
            continue;
        }
        const std::optional<std::int64_t> elements = elements_at(reading, one, sizes);
        if (!elements)
            return;
        bytes += static_cast<double>(*elements) * static_cast<double>(size_of(argument.type));
        if (argument.direction != Direction::out)
            check_initialiser_at(reading, all, one, *elements, sizes);
    }
    if (bytes > static_cast<double>(memory_mb) * 0x1p20)
        reading.fault(
            all.empty() ? 0 : all[0].line,
            fmt::format("the arguments take {:.0f} MB at {}, more than limits.memory_mb = {}",
                        bytes / 0x1p20, to_text(sizes), memory_mb));
}

Tolerance read_tolerance(Reading& reading, const TaskSection& kernel) {
    const TaskSection section(reading, kernel.table("tolerance"), "kernel.tolerance",
                              {"reduction", "factor", "scale", "absolute", "relative"});
    Tolerance tolerance;
    if (section.has("reduction"))
        tolerance.reduction = section.expression("reduction");
    tolerance.factor = section.at_least("factor", tolerance.factor, 0);
    tolerance.scale = section.choice("scale", tolerance.scale, {"absolute", "value", "max"});
    tolerance.absolute = section.at_least("absolute", tolerance.absolute, 0);
    tolerance.relative = section.at_least("relative", tolerance.relative, 0);
    return tolerance;
}

}  // namespace

KernelSpec read_kernel(Reading& reading, const toml::table* table, std::int64_t memory_mb,
                       std::size_t& arguments_line) {
    const TaskSection section(reading, table, "[kernel]",
                              {"entry", "argument", "verify", "time", "reference", "tolerance",
                               "flops", "bytes", "cores", "device", "aggregate", "fast_tolerance"});
    KernelSpec kernel;
    kernel.entry = section.required_text("entry");
    if (section.has("entry") && !is_identifier(kernel.entry))
        reading.fault(section.line("entry"),
                      fmt::format("the entry \"{}\" is not a C identifier", kernel.entry));
    for (const char* key : {"argument", "verify", "time", "reference"})
        section.require(key);
    if (reading.error)
        return kernel;

    std::vector<ReadArgument> all;
    if (const toml::array* array = section.array_of_tables("argument"))
        for (const toml::node& element : *array) {
            ReadArgument one;
            one.line = element.source().begin.line;
            one.argument = read_argument(reading, *element.as_table());
            for (const ReadArgument& other : all)
                if (other.argument.name == one.argument.name)
                    reading.fault(
                        one.line,
                        fmt::format("argument \"{}\" appears twice; the first is in line {}",
                                    one.argument.name, other.line));
            all.push_back(std::move(one));
        }
    if (!all.empty())
        arguments_line = all[0].line;
    if (std::none_of(all.begin(), all.end(), [](const ReadArgument& one) {
            return one.argument.direction != Direction::in;
        }))
        reading.fault(section.line("argument"),
                      "no argument is \"out\" or \"inout\": the kernel would have no result");

    kernel.verify_sizes = read_sizes(reading, section.table("verify"), "[kernel.verify]");
    kernel.time_sizes = read_sizes(reading, section.table("time"), "[kernel.time]");
    if (reading.error)
        return kernel;
    const auto name_list = [](const Sizes& sizes) {
        std::vector<std::string> names;
        for (const auto& [name, value] : sizes)
            names.push_back(name);
        return names;
    };
    const std::vector<std::string> size_names = name_list(kernel.verify_sizes[0]);
    for (const std::vector<Sizes>* list : {&kernel.verify_sizes, &kernel.time_sizes})
        for (const Sizes& sizes : *list)
            if (name_list(sizes) != size_names)
                reading.fault(section.line(list == &kernel.verify_sizes ? "verify" : "time"),
                              fmt::format("every set of sizes must name the same ones: the first "
                                          "of [kernel.verify] names {}, another {}",
                                          join(size_names), join(name_list(sizes))));

    for (const std::vector<Sizes>* list : {&kernel.verify_sizes, &kernel.time_sizes})
        for (const Sizes& sizes : *list)
            check_at(reading, all, sizes, memory_mb);

    const TaskSection reference(reading, section.table("reference"), "kernel.reference",
                                {"file", "entry"});
    kernel.reference.file = reference.required_text("file");
    kernel.reference.entry = reference.required_text("entry");
    if (reading.error)
        return kernel;
    if (!is_identifier(kernel.reference.entry))
        reading.fault(reference.line("entry"),
                      fmt::format("the reference's entry \"{}\" is not a C identifier",
                                  kernel.reference.entry));
    if (kernel.reference.entry == kernel.entry)
        reading.fault(
            reference.line("entry"),
            fmt::format("the reference's entry must have a name of its own, e.g. \"{}_reference\"",
                        kernel.entry));
    kernel.reference.text =
        reading.load(kernel.reference.file, reference.line("file"), "kernel.reference.file");

    kernel.tolerance = read_tolerance(reading, section);
    kernel.flops = section.expression("flops");
    kernel.bytes = section.expression("bytes");
    for (const std::vector<Sizes>* list : {&kernel.verify_sizes, &kernel.time_sizes})
        for (const Sizes& sizes : *list) {
            const std::optional<double> reduction =
                value_at(reading, section.line("tolerance"), "tolerance.reduction",
                         kernel.tolerance.reduction, sizes);
            if (reduction && !(*reduction > 0))
                reading.fault(section.line("tolerance"),
                              fmt::format("tolerance.reduction is {} at {}; it must be positive",
                                          *reduction, to_text(sizes)));
            for (const auto& [key, expression] :
                 {std::pair<const char*, const std::string&>{"flops", kernel.flops},
                  {"bytes", kernel.bytes}}) {
                if (!section.has(key))
                    continue;
                const std::optional<double> work =
                    value_at(reading, section.line(key), key, expression, sizes);
                if (work && !(*work >= 0))
                    reading.fault(section.line(key),
                                  fmt::format("{} is {} at {}; it cannot be negative", key, *work,
                                              to_text(sizes)));
            }
        }
    kernel.cores = static_cast<int>(section.count("cores", 1, 4096));
    kernel.device = section.choice("device", "cpu", {"cpu", "pocl", "cuda", "opencl"});
    kernel.aggregate = section.choice("aggregate", "geomean", {"geomean", "min"});
    kernel.fast_tolerance = section.at_least("fast_tolerance", kernel.fast_tolerance, 0);
    for (ReadArgument& one : all)
        kernel.arguments.push_back(std::move(one.argument));
    return kernel;
}

void check_reference(Reading& reading, const KernelSpec& kernel, std::size_t line) {
    KernelSpec wide = kernel;
    wide.entry = kernel.reference.entry;
    for (Argument& argument : wide.arguments)
        if (argument.type == ElementType::f32)
            argument.type = ElementType::f64;
    const Result<std::string> text = signature_of(kernel.reference.text, wide.entry);
    if (!text)
        return reading.fault(line,
                             fmt::format("{}: {}", kernel.reference.file, to_text(text.error())));
    const Result<Signature> signature = parse_signature(*text);
    const std::string how = signature ? difference(*signature, wide) : signature.error().what;
    if (!how.empty())
        reading.fault(line, fmt::format("{} defines\n    {}\nbut the arguments of [kernel], with "
                                        "f32 widened to double, ask for\n    {}\n{}",
                                        kernel.reference.file, *text, declaration_of(wide), how));
    if (kernel.reference.text.find("extern \"C\"") == std::string::npos)
        reading.fault(
            line,
            fmt::format("{}: declare {} as extern \"C\", or it cannot be found in the built object",
                        kernel.reference.file, wide.entry));
}

bool is_c_family(std::string_view language) {
    return language == "cpp" || language == "c" || language == "cuda" || language == "opencl";
}

void check_entry(Reading& reading, const Task& task, const KernelSpec& kernel, const Start& start,
                 std::size_t line, std::size_t arguments_line) {
    std::map<std::string, std::string> sources = task.support;
    for (const auto& [file, text] : start.program.files)
        sources[file] = text;
    std::vector<std::string> defined_in;
    std::string found;
    std::string trouble;
    bool extern_c = task.language != "cpp";
    for (const auto& [file, text] : sources) {
        extern_c = extern_c || text.find("extern \"C\"") != std::string::npos;
        const Result<std::string> signature = signature_of(text, kernel.entry);
        if (signature) {
            defined_in.push_back(file);
            found = *signature;
        } else if (start.program.files.size() == 1 && start.program.files.contains(file)) {
            trouble = to_text(signature.error());
        }
    }
    if (defined_in.empty())
        return reading.fault(line,
                             fmt::format("start \"{}\" does not define the entry {}{}", start.name,
                                         kernel.entry, trouble.empty() ? "" : ": " + trouble));
    if (defined_in.size() > 1)
        return reading.fault(
            line, fmt::format("start \"{}\" defines the entry {} in more than one file: {}",
                              start.name, kernel.entry, join(defined_in)));
    const Result<Signature> signature = parse_signature(found);
    const std::string how = signature ? difference(*signature, kernel) : signature.error().what;
    if (!how.empty())
        return reading.fault(
            line, fmt::format("start \"{}\" defines\n    {}\nbut the arguments of [kernel] (line "
                              "{}) ask for\n    {}\n{}: change one of them",
                              start.name, found, arguments_line, declaration_of(kernel), how));
    if (signature->internal || !extern_c)
        reading.fault(line, fmt::format("start \"{}\": declare {} as extern \"C\"{}, or it cannot "
                                        "be found in the built object",
                                        start.name, kernel.entry,
                                        signature->internal ? " and not static" : ""));
}

std::map<std::string, Peer> read_peers(Reading& reading, const toml::table* table,
                                       const KernelSpec& kernel) {
    std::map<std::string, Peer> peers;
    if (table == nullptr)
        return peers;
    for (const auto& [key, node] : *table) {
        Peer peer;
        peer.name = std::string(key.str());
        if (!node.is_table()) {
            reading.fault(
                node, fmt::format("[peer.{}] must be a table, not {}", peer.name, kind_of(node)));
            continue;
        }
        const TaskSection section(reading, node.as_table(), fmt::format("[peer.{}]", peer.name),
                                  {"file", "link", "environment"});
        peer.file = section.required_text("file");
        peer.link = section.distinct_texts("link");
        peer.environment = section.pairs("environment");
        peer.text = reading.load(peer.file, section.line("file"), section.name());
        if (!reading.error) {
            const Result<std::string> text = signature_of(peer.text, kernel.entry);
            const Result<Signature> signature =
                text ? parse_signature(*text) : tl::unexpected<Error>(text.error());
            const std::string how =
                signature ? difference(*signature, kernel) : to_text(signature.error());
            if (!how.empty())
                reading.fault(section.line("file"),
                              fmt::format("{}: {} must define\n    {}\n{}", section.name(),
                                          peer.file, declaration_of(kernel), how));
        }
        peers[peer.name] = std::move(peer);
    }
    return peers;
}

}  // namespace loopscope
