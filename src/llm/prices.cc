#include "llm/prices.h"

#include "core/file.h"
#include "core/text.h"

#include <toml++/toml.h>

#include <algorithm>
#include <array>

namespace loopscope {

namespace {

std::string place(const std::filesystem::path& file, const toml::node& node) {
    return file.string() + ":" + std::to_string(node.source().begin.line);
}

Result<PriceLine> read_line(const std::filesystem::path& file, const toml::table& table) {
    PriceLine line;
    struct TextKey {
        std::string_view name;
        std::string* value;
    };
    struct NumberKey {
        std::string_view name;
        double* value;
    };
    double limit = 0;
    const std::array<TextKey, 4> texts{{{"host", &line.host},
                                        {"model", &line.model},
                                        {"date", &line.date},
                                        {"source", &line.source}}};
    const std::array<NumberKey, 5> numbers{{{"input", &line.input},
                                            {"output", &line.output},
                                            {"cached", &line.cached},
                                            {"cache_write", &line.cache_write},
                                            {"input_limit", &limit}}};
    std::vector<std::string> known;
    for (const TextKey& key : texts)
        known.emplace_back(key.name);
    for (const NumberKey& key : numbers)
        known.emplace_back(key.name);
    for (const auto& [key, node] : table) {
        const auto text = std::find_if(texts.begin(), texts.end(),
                                       [&](const TextKey& one) { return one.name == key.str(); });
        const auto number = std::find_if(numbers.begin(), numbers.end(), [&](const NumberKey& one) {
            return one.name == key.str();
        });
        if (text != texts.end()) {
            if (!node.is_string())
                return fail(place(file, node), std::string(key.str()) + " must be a string");
            *text->value = node.value_or(std::string{});
        } else if (number != numbers.end()) {
            const double value = node.value_or(-1.0);
            if (!node.is_number() || !(value >= 0))
                return fail(place(file, node),
                            std::string(key.str()) + " must be a number, 0 or more");
            *number->value = value;
        } else {
            const std::string near = nearest(key.str(), known);
            return fail(place(file, node),
                        "unknown key " + std::string(key.str()) +
                            (near.empty() ? "" : "; did you mean " + near + "?"));
        }
    }
    for (const std::string_view name : {"host", "model", "input", "output"})
        if (!table.contains(name))
            return fail(place(file, table), "a price needs the key " + std::string(name));
    if (!table.contains("cached"))
        line.cached = line.input;
    if (!table.contains("cache_write"))
        line.cache_write = line.input;
    if (line.source.empty())
        line.source = file.string();
    line.input_limit = static_cast<std::int64_t>(std::min(limit, 1e15));
    return line;
}

bool all_digits(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "gpt-4o-2024-08-06", "claude-haiku-4-5-20251001", "grok-3-latest" -> the name before that.
std::string_view without_date(std::string_view model) {
    if (model.ends_with("-latest"))
        return model.substr(0, model.size() - 7);
    if (model.size() > 11) {
        const std::string_view tail = model.substr(model.size() - 11);
        if (tail[0] == '-' && tail[5] == '-' && tail[8] == '-' && all_digits(tail.substr(1, 4)) &&
            all_digits(tail.substr(6, 2)) && all_digits(tail.substr(9, 2)))
            return model.substr(0, model.size() - 11);
    }
    if (model.size() > 9) {
        const std::string_view tail = model.substr(model.size() - 9);
        if (tail[0] == '-' && all_digits(tail.substr(1)) && tail.substr(1, 2) == "20")
            return model.substr(0, model.size() - 9);
    }
    return model;
}

}  // namespace

Result<std::vector<PriceLine>> read_prices(const std::filesystem::path& file) {
    const Result<std::string> text = read_file(file);
    if (!text)
        return tl::unexpected(text.error());
    toml::table document;
    try {
        document = toml::parse(*text, file.string());
    } catch (const toml::parse_error& problem) {
        return fail(file.string() + ":" + std::to_string(problem.source().begin.line),
                    std::string(problem.description()));
    }
    std::vector<PriceLine> lines;
    for (const auto& [key, node] : document) {
        if (key.str() != "price" || !node.is_array_of_tables())
            return fail(place(file, node), "unknown key " + std::string(key.str()) +
                                               "; a price file holds [[price]] tables");
        for (const toml::node& entry : *node.as_array()) {
            Result<PriceLine> line = read_line(file, *entry.as_table());
            if (!line)
                return tl::unexpected(line.error());
            lines.push_back(std::move(*line));
        }
    }
    return lines;
}

const PriceLine* find_price(const std::vector<PriceLine>& lines, std::string_view host,
                            std::string_view model) {
    const std::string_view plain = without_date(model);
    const std::string first_release =
        std::string(plain) + "-0";  // claude-opus-4-20250514 is claude-opus-4-0
    for (const std::string_view name : {model, plain, std::string_view(first_release)})
        for (const PriceLine& line : lines)
            if ((line.host == "*" || line.host == host) && line.model == name)
                return &line;
    return nullptr;
}

std::optional<double> cost_of(const PriceLine& line, const Billed& billed) {
    const Usage& usage = billed.usage;
    if (!usage.known || (line.input_limit > 0 && usage.input_tokens > line.input_limit))
        return std::nullopt;
    const auto fresh = static_cast<double>(std::max<std::int64_t>(
        usage.input_tokens - usage.cached_tokens - billed.cache_write_tokens, 0));
    return (fresh * line.input + static_cast<double>(usage.cached_tokens) * line.cached +
            static_cast<double>(billed.cache_write_tokens) * line.cache_write +
            static_cast<double>(usage.output_tokens) * line.output) /
           1e6;
}

}  // namespace loopscope
