// A model's specification, "PROVIDER:SUBJECT,option=value,...": its syntax, before any meaning.
#pragma once
#include "core/result.h"
#include "record/prompt.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace loopscope {

struct Specification {
    std::string text;      // as given, for messages
    std::string provider;  // "openai", "anthropic", "command", "replay", "builtin"
    std::string subject;   // model name, command line, file, or name of the built-in
    std::vector<std::pair<std::string, std::string>> options;

    // The value of an option, or nullptr.
    const std::string* find(std::string_view name) const;
};

// Quotes ('...' or "...") protect commas; in the subject they stay (split_words reads them), around
// an option's value they are taken off. An Error for an unknown provider, an option without "=",
// one given twice.
Result<Specification> parse_specification(std::string_view text);

// An Error that names the first option which is not in `accepted`, the nearest one and all of them.
Result<void> check_options(const Specification& specification,
                           const std::vector<std::string>& accepted);

// Words of a command line: separated by blanks; '...' and "..." and a backslash protect, as in a
// shell, and nothing is expanded. An Error for an open quote.
Result<std::vector<std::string>> split_words(std::string_view line);

// Numbers of an option within [low, high]; `fallback` when it is not given.
Result<double> number_option(const Specification& specification, std::string_view name,
                             double fallback, double low, double high);
Result<std::int64_t> integer_option(const Specification& specification, std::string_view name,
                                    std::int64_t fallback, std::int64_t low, std::int64_t high);
// "on" or "off".
Result<bool> switch_option(const Specification& specification, std::string_view name,
                           bool fallback);

// temperature=, top_p=, max_tokens=, seed=, effort=.
Result<Sampling> sampling_options(const Specification& specification, double max_temperature);

}  // namespace loopscope
