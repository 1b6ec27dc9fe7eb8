// Prices of common models, in dollars per million tokens: standard tier, list price, looked up on
// the date below.
//
// Left out, and so unknown: models whose price depends on the time of day or is not per token.
// Renewed by reading the source again and replacing the table and its date.
#include "llm/prices.h"

namespace loopscope {

namespace {

constexpr const char* looked_up = "2026-12-01";
constexpr const char* source =
    "PyPI genai-prices 0.2.3 (collected from the providers' price pages)";

struct Row {
    const char* model;
    double input, cached, cache_write, output;
    std::int64_t input_limit;
};

constexpr Row anthropic[] = {
    {"claude-3-5-haiku", 0.8, 0.08, 1, 4, 0},
    {"claude-3-5-sonnet", 3, 0.3, 3.75, 15, 0},
    {"claude-3-7-sonnet", 3, 0.3, 3.75, 15, 0},
    {"claude-3-haiku", 0.25, 0.03, 0.3, 1.25, 0},
    {"claude-3-opus", 15, 1.5, 18.75, 75, 0},
    {"claude-3-sonnet", 3, 0.3, 3.75, 15, 0},
    {"claude-fable-5", 10, 1, 12.5, 50, 0},
    {"claude-fable-5-1", 10, 0.25, 12.5, 50, 0},
    {"claude-fable-5-2", 8, 0.2, 10, 40, 0},
    {"claude-haiku-4-5", 1, 0.1, 1.25, 5, 0},
    {"claude-haiku-5-5", 0.1, 0.01, 0.125, 0.5, 100000},
    {"claude-mythos-5-2", 8, 0.2, 10, 40, 0},
    {"claude-opus-4-0", 15, 1.5, 18.75, 75, 0},
    {"claude-opus-4-1", 15, 1.5, 18.75, 75, 0},
    {"claude-opus-4-5", 5, 0.5, 6.25, 25, 0},
    {"claude-opus-4-6", 5, 0.5, 6.25, 25, 0},
    {"claude-opus-4-7", 5, 0.5, 6.25, 25, 0},
    {"claude-opus-4-8", 5, 0.5, 6.25, 25, 0},
    {"claude-opus-5", 5, 0.5, 6.25, 25, 0},
    {"claude-opus-5-5", 4, 0.2, 5, 20, 0},
    {"claude-sonnet-4-0", 3, 0.3, 3.75, 15, 0},
    {"claude-sonnet-4-5", 3, 0.3, 3.75, 15, 200000},
    {"claude-sonnet-4-6", 3, 0.3, 3.75, 15, 0},
    {"claude-sonnet-5", 2, 0.2, 2.5, 10, 0},
    {"claude-sonnet-5-5", 2, 0.1, 2.5, 10, 0},
};

constexpr Row google[] = {
    {"gemini-1.5-flash", 0.075, 0.01875, 0.075, 0.3, 128000},
    {"gemini-1.5-pro", 1.25, 1.25, 1.25, 5, 128000},
    {"gemini-2.5-flash", 0.3, 0.03, 0.3, 2.5, 0},
    {"gemini-2.5-flash-lite", 0.1, 0.01, 0.1, 0.4, 0},
    {"gemini-2.5-pro", 1.25, 0.125, 1.25, 10, 200000},
    {"gemini-3-flash-preview", 0.5, 0.05, 0.5, 3, 0},
    {"gemini-3.1-flash-lite", 0.25, 0.025, 0.25, 1.5, 0},
    {"gemini-3.1-pro-preview", 2, 0.2, 2, 12, 200000},
    {"gemini-3.5-flash", 1.5, 0.15, 1.5, 9, 0},
    {"gemini-3.5-flash-lite", 0.3, 0.03, 0.3, 2.5, 0},
    {"gemini-3.6-flash", 0.75, 0.075, 0.75, 3.75, 0},
    {"gemini-3.7-flash", 0.75, 0.075, 0.75, 3.75, 0},
    {"gemini-3.8-flash", 0.75, 0.075, 0.75, 3.75, 0},
    {"gemini-4-argon", 4, 0.2, 4, 20, 0},
    {"gemini-flash-1.5", 0.075, 0.01875, 0.075, 0.3, 128000},
    {"gemini-flash-1.5-8b", 0.0375, 0.01, 0.0375, 0.15, 128000},
    {"gemini-pro", 0.125, 0.125, 0.125, 0.375, 0},
    {"gemini-pro-1.5", 1.25, 0.3125, 1.25, 5, 128000},
};

constexpr Row openai[] = {
    {"chatgpt-4o", 5, 5, 5, 15, 0},
    {"gpt-3.5-turbo", 0.5, 0.5, 0.5, 1.5, 0},
    {"gpt-3.5-turbo-0613", 1.5, 1.5, 1.5, 2, 0},
    {"gpt-3.5-turbo-1106", 1, 1, 1, 2, 0},
    {"gpt-3.5-turbo-16k", 3, 3, 3, 4, 0},
    {"gpt-4", 30, 30, 30, 60, 0},
    {"gpt-4-32k", 60, 60, 60, 120, 0},
    {"gpt-4-turbo", 10, 10, 10, 30, 0},
    {"gpt-4.1", 2, 0.5, 2, 8, 0},
    {"gpt-4.1-mini", 0.4, 0.1, 0.4, 1.6, 0},
    {"gpt-4.1-nano", 0.1, 0.025, 0.1, 0.4, 0},
    {"gpt-4.5-preview", 75, 37.5, 75, 150, 0},
    {"gpt-4o", 2.5, 1.25, 2.5, 10, 0},
    {"gpt-4o-2024-05-13", 5, 5, 5, 15, 0},
    {"gpt-4o-mini", 0.15, 0.075, 0.15, 0.6, 0},
    {"gpt-5", 1.25, 0.125, 1.25, 10, 0},
    {"gpt-5-mini", 0.25, 0.025, 0.25, 2, 0},
    {"gpt-5-nano", 0.05, 0.005, 0.05, 0.4, 0},
    {"gpt-5-pro", 15, 15, 15, 120, 0},
    {"gpt-5.1", 1.25, 0.125, 1.25, 10, 0},
    {"gpt-5.2", 1.75, 0.175, 1.75, 14, 0},
    {"gpt-5.2-pro", 21, 21, 21, 168, 0},
    {"gpt-5.3", 1.75, 0.175, 1.75, 14, 0},
    {"gpt-5.3-codex", 1.75, 0.175, 1.75, 14, 0},
    {"gpt-5.4", 2.5, 0.25, 2.5, 15, 272000},
    {"gpt-5.4-mini", 0.75, 0.075, 0.75, 4.5, 0},
    {"gpt-5.4-nano", 0.2, 0.02, 0.2, 1.25, 0},
    {"gpt-5.4-pro", 30, 30, 30, 180, 272000},
    {"gpt-5.5", 5, 0.5, 5, 30, 272000},
    {"gpt-5.5-pro", 30, 30, 30, 180, 272000},
    {"gpt-5.6-luna", 0.2, 0.02, 0.25, 1.2, 272000},
    {"gpt-5.6-sol", 4, 0.4, 5, 20, 272000},
    {"gpt-5.6-terra", 2, 0.2, 2.5, 12, 272000},
    {"gpt-6-astra", 10, 1, 12.5, 50, 272000},
    {"gpt-6-luna", 0.1, 0.01, 0.125, 0.5, 272000},
    {"gpt-6-sol", 2, 0.2, 2.5, 10, 272000},
    {"gpt-6.1-sol", 2, 0.1, 2.5, 10, 272000},
    {"gpt-6.1-terra", 1, 0.05, 1.25, 5, 272000},
    {"gpt-chat", 5, 0.5, 5, 30, 0},
    {"o1", 15, 7.5, 15, 60, 0},
    {"o1-mini", 1.1, 0.55, 1.1, 4.4, 0},
    {"o1-preview", 15, 7.5, 15, 60, 0},
    {"o1-pro", 150, 150, 150, 600, 0},
    {"o3", 2, 0.5, 2, 8, 0},
    {"o3-mini", 1.1, 0.55, 1.1, 4.4, 0},
    {"o3-pro", 20, 20, 20, 80, 0},
    {"o4-mini", 1.1, 0.275, 1.1, 4.4, 0},
};

constexpr Row xai[] = {
    {"grok-3", 3, 0.75, 3, 15, 0},
    {"grok-3-fast", 5, 1.25, 5, 25, 0},
    {"grok-3-mini", 0.3, 0.075, 0.3, 0.5, 0},
    {"grok-3-mini-fast", 0.6, 0.15, 0.6, 4, 0},
    {"grok-4-0709", 3, 0.75, 3, 15, 0},
    {"grok-4-1-fast-non-reasoning", 0.2, 0.05, 0.2, 0.5, 0},
    {"grok-4-1-fast-reasoning", 0.2, 0.05, 0.2, 0.5, 0},
    {"grok-4-fast-non-reasoning", 0.2, 0.05, 0.2, 0.5, 0},
    {"grok-4-fast-reasoning", 0.2, 0.05, 0.2, 0.5, 0},
    {"grok-4.20", 1.25, 0.2, 1.25, 2.5, 199999},
    {"grok-4.20-multi-agent-0309", 1.25, 0.2, 1.25, 2.5, 199999},
    {"grok-4.3", 1.25, 0.2, 1.25, 2.5, 199999},
    {"grok-4.5", 2, 0.3, 2, 6, 199999},
    {"grok-4.6", 2, 0.5, 2, 6, 199999},
    {"grok-4.7", 2, 0.5, 2, 6, 199999},
    {"grok-build-0.1", 1, 0.2, 1, 2, 199999},
    {"grok-code-fast-1", 0.2, 0.02, 0.2, 1.5, 0},
};

template <std::size_t N>
void append(std::vector<PriceLine>& lines, const char* host, const Row (&rows)[N]) {
    for (const Row& row : rows)
        lines.push_back(PriceLine{.host = host,
                                  .model = row.model,
                                  .input = row.input,
                                  .cached = row.cached,
                                  .cache_write = row.cache_write,
                                  .output = row.output,
                                  .input_limit = row.input_limit,
                                  .date = looked_up,
                                  .source = source});
}

}  // namespace

std::vector<PriceLine> prices() {
    std::vector<PriceLine> lines;
    append(lines, "api.anthropic.com", anthropic);
    append(lines, "generativelanguage.googleapis.com", google);
    append(lines, "api.openai.com", openai);
    append(lines, "api.x.ai", xai);
    return lines;
}

}  // namespace loopscope
