// Prompts as lists of named sections: what was shown, in which order, and what was cut.
#pragma once
#include "core/result.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

struct Section {
    std::string name;  // "objective", "program", "feedback: profiler", ...
    std::string text;
    std::size_t cut_bytes = 0;  // left out to keep within the section's budget
};

enum class Role { planner, coder, summarizer };
std::string_view name_of(Role role);
std::optional<Role> role_named(std::string_view name);

struct Prompt {
    Role role = Role::coder;
    std::string system;
    std::vector<Section> sections;
};

// The user message: every non-empty section as "## NAME", a line end, its text, in order. This
// rendering is what is hashed into the key of a model call, so two arms that render the same text
// share one answer.
std::string render(const Prompt& prompt);

// The sections of a rendered user message, in order; text before the first "## " line has the name
// "".
std::vector<Section> parse_sections(std::string_view rendered);
// The text of the first section of that name, or "".
std::string_view section_text(const std::vector<Section>& sections, std::string_view name);

struct Sampling {
    std::optional<double> temperature;
    std::optional<double> top_p;
    int max_tokens = 8192;
    std::optional<std::int64_t> seed;  // sent to providers that take one
    std::string reasoning_effort;      // "" = the provider's default
};

struct Usage {
    std::int64_t input_tokens = 0;   // all, the cached ones included
    std::int64_t cached_tokens = 0;  // read from the provider's prompt cache
    std::int64_t output_tokens = 0;  // all, the reasoning ones included
    std::int64_t reasoning_tokens = 0;
    bool known = false;  // false: the server sent none
};

struct ModelReply {
    std::string text;
    std::string reasoning;
    std::string finish_reason;  // "stop", "length", "content_filter", "tool_calls", ""
    Usage usage;
    std::optional<double> cost;  // dollars; nullopt = the price is unknown, never 0 for that
    std::string reported_model;  // what the server says answered
    int attempts = 1;
    double latency_seconds = 0;
    std::vector<std::string>
        warnings;  // "temperature is not accepted by this model: sent without it"
};

}  // namespace loopscope
