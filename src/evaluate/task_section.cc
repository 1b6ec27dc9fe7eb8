#include "evaluate/task_section.h"

#include "core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace loopscope {
namespace {

bool is_utf8(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
        const auto lead = static_cast<unsigned char>(text[i]);
        const std::size_t more = lead < 0x80   ? 0
                                 : lead < 0xC2 ? 4
                                 : lead < 0xE0 ? 1
                                 : lead < 0xF0 ? 2
                                               : 3;
        if (more == 4 || lead > 0xF4 || i + more >= text.size())
            return false;
        std::uint32_t code = more == 0 ? lead : lead & (0x3FU >> more);
        for (std::size_t k = 1; k <= more; ++k) {
            const auto next = static_cast<unsigned char>(text[i + k]);
            if ((next & 0xC0U) != 0x80U)
                return false;
            code = (code << 6U) | (next & 0x3FU);
        }
        if ((more == 2 && (code < 0x800 || (code >= 0xD800 && code < 0xE000))) ||
            (more == 3 && (code < 0x10000 || code > 0x10FFFF)))
            return false;
        i += more + 1;
    }
    return true;
}

// Control characters, which TOML does not allow, and letters beyond ASCII outside of strings and
// comments, for which toml++ 3.3 runs into undefined behaviour.
std::optional<Error> fault_of_characters(std::string_view toml, const std::string& where) {
    std::size_t line = 1;
    const auto fault = [&](std::string what) {
        return Error{fmt::format("{}:{}", where, line), std::move(what)};
    };
    std::size_t at = toml.starts_with("\xEF\xBB\xBF") ? 3 : 0;
    std::string_view closes;  // of the string that we are in
    bool comment = false;
    while (at < toml.size()) {
        const char c = toml[at];
        if ((static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\r' && c != '\n') ||
            c == 0x7F)
            return fault(
                fmt::format("has the control character 0x{:02x}, which TOML does not allow; is "
                            "this a text file?",
                            static_cast<unsigned char>(c)));
        if (c == '\n') {
            ++line;
            comment = false;
            if (closes.size() == 1)
                closes = {};
            ++at;
        } else if (comment) {
            ++at;
        } else if (!closes.empty()) {
            if (c == '\\' && closes[0] == '"' && at + 1 < toml.size() && toml[at + 1] != '\n') {
                at += 2;
            } else if (toml.substr(at).starts_with(closes)) {
                at += closes.size();
                closes = {};
            } else {
                ++at;
            }
        } else if (c == '"' || c == '\'') {
            const std::string_view three = c == '"' ? "\"\"\"" : "'''";
            closes = toml.substr(at).starts_with(three) ? three : three.substr(0, 1);
            at += closes.size();
        } else {
            if (static_cast<unsigned char>(c) >= 0x80)
                return fault(
                    "has a character beyond ASCII outside of a string; put the key or value in "
                    "quotes");
            comment = c == '#';
            ++at;
        }
    }
    return std::nullopt;
}

bool runs_into_assertion(std::string_view text) {
    try {
        (void)toml::parse(text);
    } catch (const toml::parse_error&) {
        return false;
    } catch (const TomlAssertion&) {
        return true;
    }
    return false;
}

// An assertion has no place; the shortest beginning that runs into one ends with it.
std::size_t line_of_assertion(std::string_view text) {
    std::size_t line = 1;
    for (std::size_t end = text.find('\n'); end != std::string_view::npos && line < 2000;
         end = text.find('\n', end + 1)) {
        if (runs_into_assertion(text.substr(0, end + 1)))
            return line;
        ++line;
    }
    return line;
}

}  // namespace

std::string join(const std::vector<std::string>& words) {
    return fmt::format("{}", fmt::join(words, ", "));
}

std::string hint(std::string_view word, const std::vector<std::string>& known) {
    const std::string near = nearest(word, known);
    return near.empty() ? "." : fmt::format("; did you mean \"{}\"?", near);
}

std::string kind_of(const toml::node& node) {
    switch (node.type()) {
        case toml::node_type::table:
            return "a table";
        case toml::node_type::array:
            return "an array";
        case toml::node_type::string:
            return "a string";
        case toml::node_type::integer:
            return "an integer";
        case toml::node_type::floating_point:
            return "a real number";
        case toml::node_type::boolean:
            return "true or false";
        case toml::node_type::none:
            break;
        case toml::node_type::date:
        case toml::node_type::time:
        case toml::node_type::date_time:
            return "a date or time";
    }
    return "nothing";
}

std::string fault_of_path(std::string_view path) {
    if (path.empty())
        return "is empty";
    if (path.front() == '/')
        return "is absolute; write it relative to the task's folder";
    for (const char c : path)
        if (static_cast<unsigned char>(c) < 0x20 || c == '\\' || c == 0x7F)
            return "has a character that file names in a task may not have";
    std::size_t begin = 0;
    while (begin <= path.size()) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        const std::string_view part = path.substr(begin, end - begin);
        if (part == "..")
            return "leaves the task's folder; copy the file into it";
        if (part.empty() || part == ".")
            return "is not in its plain form (a/b.cc)";
        begin = end + 1;
    }
    return "";
}
Result<toml::table> parse_toml(std::string_view text, const std::string& where) {
    if (!is_utf8(text))
        return fail(where, "is not UTF-8 text; convert it (iconv -f latin1 -t utf8)");
    if (const std::optional<Error> bad = fault_of_characters(text, where))
        return tl::unexpected<Error>(*bad);
    try {
        return toml::parse(text, std::string_view(where));
    } catch (const toml::parse_error& error) {
        return fail(fmt::format("{}:{}", where, error.source().begin.line),
                    std::string(error.description()));
    } catch (const TomlAssertion&) {
        return fail(fmt::format("{}:{}", where, line_of_assertion(text)), "is not valid TOML");
    }
}

void Reading::fault(std::size_t line, std::string what) {
    if (!error)
        error = Error{line == 0 ? where : fmt::format("{}:{}", where, line), std::move(what)};
}
void Reading::fault(const toml::node& node, std::string what) {
    fault(node.source().begin.line, std::move(what));
}

std::string Reading::load(const std::string& path, std::size_t line, std::string_view what,
                          std::size_t max_bytes) {
    if (error)
        return "";
    if (const std::string bad = fault_of_path(path); !bad.empty()) {
        fault(line, fmt::format("{}: the path \"{}\" {}", what, path, bad));
        return "";
    }
    Result<std::string> text = read(path);
    if (!text) {
        fault(line, fmt::format("{}: {}", what, to_text(text.error())));
        return "";
    }
    if (text->size() > max_bytes)
        fault(line, fmt::format("{}: {} has {} bytes; at most {} are allowed", what, path,
                                text->size(), max_bytes));
    else if (!is_utf8(*text))
        fault(line, fmt::format("{}: {} is not UTF-8 text; convert it (iconv -f latin1 -t utf8)",
                                what, path));
    return std::move(*text);
}

TaskSection::TaskSection(Reading& reading, const toml::table* table, std::string name,
                         const std::vector<std::string>& keys)
    : reading_(reading), table_(table), name_(std::move(name)) {
    if (table == nullptr)
        return;
    for (const auto& [key, node] : *table) {
        const std::string word(key.str());
        if (std::find(keys.begin(), keys.end(), word) == keys.end())
            reading_.fault(key.source().begin.line,
                           fmt::format("unknown key \"{}\" in {}{} Accepted: {}", word, name_,
                                       hint(word, keys), join(keys)));
    }
}

const toml::node* TaskSection::get(std::string_view key) const {
    return table_ == nullptr ? nullptr : table_->get(key);
}

std::size_t TaskSection::line(std::string_view key) const {
    if (const toml::node* node = get(key))
        return node->source().begin.line;
    return line();
}

std::size_t TaskSection::line() const {
    return table_ == nullptr ? 0 : table_->source().begin.line;
}

void TaskSection::require(std::string_view key) const {
    if (!has(key))
        reading_.fault(line(), fmt::format("{} needs the key \"{}\"", name_, key));
}

std::string TaskSection::text(std::string_view key, std::string fallback) const {
    const toml::node* node = get(key);
    if (node == nullptr)
        return fallback;
    if (!node->is_string()) {
        mistyped(key, *node, "a string");
        return fallback;
    }
    return std::string(node->as_string()->get());
}

std::string TaskSection::required_text(std::string_view key) const {
    require(key);
    std::string value = text(key);
    if (has(key) && trim(value).empty())
        reading_.fault(line(key), fmt::format("\"{}\" in {} is empty", key, name_));
    return value;
}

std::string TaskSection::expression(std::string_view key) const {
    const toml::node* node = get(key);
    return node == nullptr ? "" : expression_of(key, *node);
}

std::string TaskSection::choice(std::string_view key, std::string fallback,
                                const std::vector<std::string>& options) const {
    if (!has(key))
        return fallback;
    std::string value = text(key, fallback);
    if (std::find(options.begin(), options.end(), value) == options.end())
        reading_.fault(line(key), fmt::format("\"{}\" in {} is \"{}\"{} Accepted: {}", key, name_,
                                              value, hint(value, options), join(options)));
    return value;
}

double TaskSection::number(std::string_view key, double fallback) const {
    const toml::node* node = get(key);
    if (node == nullptr)
        return fallback;
    const std::optional<double> value = node->is_number() ? node->value<double>() : std::nullopt;
    if (!value) {
        mistyped(key, *node, "a number");
        return fallback;
    }
    if (!std::isfinite(*value))
        reading_.fault(*node, fmt::format("\"{}\" in {} must be a finite number", key, name_));
    return *value;
}

double TaskSection::at_least(std::string_view key, double fallback, double least) const {
    const double value = number(key, fallback);
    if (value < least)
        reading_.fault(line(key), fmt::format("\"{}\" in {} is {}; it must be at least {}", key,
                                              name_, value, least));
    return value;
}

double TaskSection::positive(std::string_view key, double fallback) const {
    const double value = number(key, fallback);
    if (!(value > 0))
        reading_.fault(line(key),
                       fmt::format("\"{}\" in {} is {}; it must be positive", key, name_, value));
    return value;
}

std::int64_t TaskSection::count(std::string_view key, std::int64_t fallback,
                                std::int64_t most) const {
    const toml::node* node = get(key);
    if (node == nullptr)
        return fallback;
    if (!node->is_integer()) {
        mistyped(key, *node, "an integer");
        return fallback;
    }
    const std::int64_t value = node->as_integer()->get();
    if (value < 1 || value > most) {
        reading_.fault(*node, fmt::format("\"{}\" in {} is {}; it must be from 1 to {}", key, name_,
                                          value, most));
        return fallback;
    }
    return value;
}

std::vector<std::string> TaskSection::texts(std::string_view key,
                                            std::vector<std::string> fallback) const {
    const toml::node* node = get(key);
    if (node == nullptr)
        return fallback;
    const toml::array* array = node->as_array();
    if (array == nullptr) {
        mistyped(key, *node, "an array of strings");
        return fallback;
    }
    std::vector<std::string> values;
    for (const toml::node& element : *array) {
        if (!element.is_string()) {
            mistyped(key, element, "an array of strings");
            return fallback;
        }
        values.emplace_back(element.as_string()->get());
    }
    return values;
}

std::vector<std::string> TaskSection::distinct_texts(std::string_view key,
                                                     std::vector<std::string> fallback) const {
    std::vector<std::string> values = texts(key, std::move(fallback));
    std::set<std::string> seen;
    for (const std::string& value : values) {
        if (trim(value).empty())
            reading_.fault(line(key), fmt::format("\"{}\" in {} has an empty string", key, name_));
        if (!seen.insert(value).second)
            reading_.fault(line(key),
                           fmt::format("\"{}\" in {} names \"{}\" twice", key, name_, value));
    }
    return values;
}

std::vector<std::string> TaskSection::argv(std::string_view key) const {
    require(key);
    std::vector<std::string> values = texts(key);
    if (has(key) && (values.empty() || values[0].empty()))
        reading_.fault(line(key), fmt::format("\"{}\" in {} must name a program and its arguments",
                                              key, name_));
    return values;
}

std::vector<std::string> TaskSection::expressions(std::string_view key) const {
    const toml::node* node = get(key);
    if (node == nullptr)
        return {};
    const toml::array* array = node->as_array();
    if (array == nullptr || array->empty()) {
        mistyped(key, *node, "an array of expressions, one a dimension");
        return {};
    }
    std::vector<std::string> values;
    for (const toml::node& element : *array)
        values.push_back(expression_of(key, element));
    return values;
}

const toml::table* TaskSection::table(std::string_view key) const {
    const toml::node* node = get(key);
    if (node == nullptr)
        return nullptr;
    if (!node->is_table())
        mistyped(key, *node, "a table");
    return node->as_table();
}

const toml::array* TaskSection::array_of_tables(std::string_view key) const {
    const toml::node* node = get(key);
    if (node == nullptr)
        return nullptr;
    const toml::array* array = node->as_array();
    const bool right = array != nullptr &&
                       std::all_of(array->begin(), array->end(),
                                   [](const toml::node& element) { return element.is_table(); });
    if (!right)
        mistyped(key, *node, "an array of tables");
    return right ? array : nullptr;
}

std::map<std::string, std::string> TaskSection::pairs(std::string_view key) const {
    std::map<std::string, std::string> values;
    const toml::table* inside = table(key);
    if (inside == nullptr)
        return values;
    for (const auto& [name, node] : *inside) {
        if (!node.is_string()) {
            mistyped(fmt::format("{}.{}", key, name.str()), node, "a string");
            return values;
        }
        values[std::string(name.str())] = std::string(node.as_string()->get());
    }
    return values;
}

void TaskSection::mistyped(std::string_view key, const toml::node& node,
                           std::string_view wanted) const {
    reading_.fault(
        node, fmt::format("\"{}\" in {} must be {}, not {}", key, name_, wanted, kind_of(node)));
}

std::string TaskSection::expression_of(std::string_view key, const toml::node& node) const {
    if (node.is_string())
        return std::string(node.as_string()->get());
    if (node.is_integer())
        return fmt::format("{}", node.as_integer()->get());
    if (node.is_floating_point() && std::isfinite(node.as_floating_point()->get()))
        return fmt::format("{}", node.as_floating_point()->get());
    mistyped(key, node, "an expression (a string) or a number");
    return "";
}

}  // namespace loopscope
