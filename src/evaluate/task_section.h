// Strict reading of task.toml: a table with the keys it may have, values with their types, files
// with their paths. Only the task's readers include this; what they make of it is evaluate/task.h.
#pragma once
#include "evaluate/task.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {
// toml++ 3.3 asserts on some malformed texts, like "[}", instead of reporting them (and in a
// release build assumes that they do not occur). Here an assertion throws, so that parse_toml() can
// report it.
struct TomlAssertion {};
[[noreturn]] inline void throw_toml_assertion() { throw TomlAssertion(); }
}  // namespace loopscope
// Under a name of its own: the linker would merge it with the toml++ of a file that keeps the
// assertions.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(condition) \
    ((condition) ? static_cast<void>(0) : loopscope::throw_toml_assertion())
#define TOML_EXCEPTIONS 1  // else its functions are noexcept
#define toml toml_throwing
#include <toml++/toml.h>
#undef toml
#pragma pop_macro("NDEBUG")
namespace toml = toml_throwing;

namespace loopscope {

constexpr std::size_t max_source_bytes = 256UL * 1024;  // of one file of a program, as in EditRules

std::string join(const std::vector<std::string>& words);
// "; did you mean "x"?", or "." when nothing is near.
std::string hint(std::string_view word, const std::vector<std::string>& known);
// "an array", "a string", ...
std::string kind_of(const toml::node& node);
// Why a path may not be used, or "". Only plain relative paths below the task's folder are.
std::string fault_of_path(std::string_view path);

// Errors: not TOML, with the line.
Result<toml::table> parse_toml(std::string_view text, const std::string& where);

// State of one reading: the first fault found is the one reported.
struct Reading {
    const std::string& where;
    const TaskFiles& read;
    std::optional<Error> error;

    void fault(std::size_t line, std::string what);  // line 0: the file as a whole
    void fault(const toml::node& node, std::string what);

    // The text of a file of the task; "" after a fault.
    std::string load(const std::string& path, std::size_t line, std::string_view what,
                     std::size_t max_bytes = max_source_bytes);
};

// One table of the file. Every reader of a value records a fault where the value is not what it
// must be and returns the fallback; a key that is absent is its fallback too, unless it is
// required.
class TaskSection {
public:
    // `table` null: the section is absent, every value is its default and nothing is required of
    // it. A key that is not among `keys` is a fault.
    TaskSection(Reading& reading, const toml::table* table, std::string name,
                const std::vector<std::string>& keys);

    const toml::node* get(std::string_view key) const;
    bool has(std::string_view key) const { return get(key) != nullptr; }
    // Of the key, or of the section when the key is absent.
    std::size_t line(std::string_view key) const;
    std::size_t line() const;
    const std::string& name() const { return name_; }
    void require(std::string_view key) const;

    std::string text(std::string_view key, std::string fallback = "") const;
    std::string required_text(std::string_view key) const;
    std::string choice(std::string_view key, std::string fallback,
                       const std::vector<std::string>& options) const;
    std::string expression(std::string_view key) const;  // a string, or a number taken as its text
    std::vector<std::string> expressions(std::string_view key) const;  // one a dimension

    double number(std::string_view key, double fallback) const;
    double at_least(std::string_view key, double fallback, double least) const;
    double positive(std::string_view key, double fallback) const;
    std::int64_t count(std::string_view key, std::int64_t fallback,
                       std::int64_t most) const;  // from 1

    std::vector<std::string> texts(std::string_view key,
                                   std::vector<std::string> fallback = {}) const;
    std::vector<std::string> distinct_texts(std::string_view key,
                                            std::vector<std::string> fallback = {}) const;
    std::vector<std::string> argv(
        std::string_view key) const;  // a program and its arguments: not empty

    const toml::table* table(std::string_view key) const;
    const toml::array* array_of_tables(std::string_view key) const;
    std::map<std::string, std::string> pairs(std::string_view key) const;  // NAME = "value"

private:
    void mistyped(std::string_view key, const toml::node& node, std::string_view wanted) const;
    std::string expression_of(std::string_view key, const toml::node& node) const;

    Reading& reading_;
    const toml::table* table_;
    std::string name_;
};

}  // namespace loopscope
