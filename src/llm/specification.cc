#include "llm/specification.h"

#include "core/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace loopscope {

namespace {

// The parts between commas that are not within quotes. nullopt when a quote is left open.
std::optional<std::vector<std::string>> split_at_commas(std::string_view text) {
    std::vector<std::string> parts(1);
    char quote = '\0';
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
            parts.back() += c;
            parts.back() += text[++i];
            continue;
        }
        if (quote != '\0') {
            if (c == quote)
                quote = '\0';
        } else if (c == '\'' || c == '"') {
            quote = c;
        } else if (c == ',') {
            parts.emplace_back();
            continue;
        }
        parts.back() += c;
    }
    if (quote != '\0')
        return std::nullopt;
    return parts;
}

std::string without_quotes(std::string_view text) {
    text = trim(text);
    if (text.size() >= 2 && (text.front() == '\'' || text.front() == '"') &&
        text.back() == text.front())
        text = text.substr(1, text.size() - 2);
    return std::string(text);
}

Error bad_option(const Specification& specification, std::string_view name,
                 std::string_view wanted) {
    return Error{specification.text,
                 fmt::format("{}={} must be {}", name, *specification.find(name), wanted)};
}

}  // namespace

const std::string* Specification::find(std::string_view name) const {
    for (const auto& [key, value] : options)
        if (key == name)
            return &value;
    return nullptr;
}

Result<Specification> parse_specification(std::string_view text) {
    static const std::vector<std::string> providers{"openai", "anthropic", "command", "replay",
                                                    "builtin"};
    Specification out;
    out.text = std::string(trim(text));
    const std::size_t colon = out.text.find(':');
    out.provider = out.text.substr(0, colon);
    if (std::find(providers.begin(), providers.end(), out.provider) == providers.end()) {
        const std::string near = nearest(out.provider, providers);
        return fail(
            "model " + out.text,
            fmt::format("unknown provider \"{}\"{}; a model is PROVIDER:NAME with one of {}",
                        out.provider, near.empty() ? "" : ", did you mean " + near + "?",
                        fmt::join(providers, ", ")));
    }
    const std::optional<std::vector<std::string>> parts =
        split_at_commas(colon == std::string::npos ? std::string_view{}
                                                   : std::string_view(out.text).substr(colon + 1));
    if (!parts)
        return fail("model " + out.text, "a quote is left open");
    out.subject = std::string(trim(parts->front()));
    if (out.subject.empty())
        return fail("model " + out.text, "nothing after \"" + out.provider +
                                             ":\"; see docs/models.md for what belongs there");
    for (std::size_t i = 1; i < parts->size(); ++i) {
        const std::string_view part = trim((*parts)[i]);
        const std::size_t equals = part.find('=');
        if (equals == std::string_view::npos || equals == 0)
            return fail("model " + out.text,
                        fmt::format("\"{}\" is not an option: write name=value (a comma "
                                    "that belongs to the text goes into quotes)",
                                    part));
        const std::string name(trim(part.substr(0, equals)));
        if (out.find(name) != nullptr)
            return fail("model " + out.text, name + "= is given twice");
        out.options.emplace_back(name, without_quotes(part.substr(equals + 1)));
    }
    return out;
}

Result<void> check_options(const Specification& specification,
                           const std::vector<std::string>& accepted) {
    for (const auto& [name, value] : specification.options) {
        if (std::find(accepted.begin(), accepted.end(), name) != accepted.end())
            continue;
        const std::string near = nearest(name, accepted);
        return fail("model " + specification.text,
                    fmt::format("unknown option {}={}; {}", name,
                                near.empty() ? std::string{} : " did you mean " + near + "?",
                                accepted.empty()
                                    ? std::string("this model takes none")
                                    : fmt::format("accepted: {}=", fmt::join(accepted, "=, "))));
    }
    return {};
}

Result<std::vector<std::string>> split_words(std::string_view line) {
    std::vector<std::string> words;
    bool in_word = false;
    char quote = '\0';
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (quote == '\0' && (c == ' ' || c == '\t' || c == '\n')) {
            in_word = false;
            continue;
        }
        if (!in_word) {
            words.emplace_back();
            in_word = true;
        }
        if (quote != '\0' && c == quote)
            quote = '\0';
        else if (quote == '\0' && (c == '\'' || c == '"'))
            quote = c;
        else if (c == '\\' && quote != '\'' && i + 1 < line.size())
            words.back() += line[++i];
        else
            words.back() += c;
    }
    if (quote != '\0')
        return fail(std::string(line), "a quote is left open");
    return words;
}

Result<double> number_option(const Specification& specification, std::string_view name,
                             double fallback, double low, double high) {
    const std::string* text = specification.find(name);
    if (text == nullptr)
        return fallback;
    double value = 0;
    const char* const end = text->data() + text->size();
    const auto [stop, problem] = std::from_chars(text->data(), end, value);
    if (text->empty() || problem != std::errc{} || stop != end || !(value >= low && value <= high))
        return tl::unexpected(
            bad_option(specification, name, fmt::format("a number from {} to {}", low, high)));
    return value;
}

Result<std::int64_t> integer_option(const Specification& specification, std::string_view name,
                                    std::int64_t fallback, std::int64_t low, std::int64_t high) {
    const std::string* text = specification.find(name);
    if (text == nullptr)
        return fallback;
    std::int64_t value = 0;
    const char* const end = text->data() + text->size();
    const auto [stop, problem] = std::from_chars(text->data(), end, value);
    if (text->empty() || problem != std::errc{} || stop != end || value < low || value > high)
        return tl::unexpected(bad_option(specification, name,
                                         fmt::format("a whole number from {} to {}", low, high)));
    return value;
}

Result<bool> switch_option(const Specification& specification, std::string_view name,
                           bool fallback) {
    const std::string* text = specification.find(name);
    if (text == nullptr)
        return fallback;
    if (*text != "on" && *text != "off")
        return tl::unexpected(bad_option(specification, name, "on or off"));
    return *text == "on";
}

Result<Sampling> sampling_options(const Specification& specification, double max_temperature) {
    Sampling out;
    if (specification.find("temperature") != nullptr) {
        const Result<double> value =
            number_option(specification, "temperature", 0, 0, max_temperature);
        if (!value)
            return tl::unexpected(value.error());
        out.temperature = *value;
    }
    if (specification.find("top_p") != nullptr) {
        const Result<double> value = number_option(specification, "top_p", 1, 1e-6, 1);
        if (!value)
            return tl::unexpected(value.error());
        out.top_p = *value;
    }
    const Result<std::int64_t> most =
        integer_option(specification, "max_tokens", out.max_tokens, 1, 10'000'000);
    if (!most)
        return tl::unexpected(most.error());
    out.max_tokens = static_cast<int>(*most);
    if (specification.find("seed") != nullptr) {
        const Result<std::int64_t> value =
            integer_option(specification, "seed", 0, 0, std::numeric_limits<std::int64_t>::max());
        if (!value)
            return tl::unexpected(value.error());
        out.seed = *value;
    }
    if (const std::string* effort = specification.find("effort")) {
        if (effort->empty())
            return tl::unexpected(
                bad_option(specification, "effort", "a word such as low, medium or high"));
        out.reasoning_effort = *effort;
    }
    return out;
}

}  // namespace loopscope
