// What providers charge. The table that came with the program is dated; a user's own file comes
// before it.
#pragma once
#include "core/result.h"
#include "llm/answer.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

// Dollars per million tokens.
struct PriceLine {
    std::string host;   // of the base URL, with its port if one is written; "*" = any
    std::string model;  // without its date
    double input = 0;
    double cached = 0;       // input read from the provider's cache
    double cache_write = 0;  // input written to it
    double output = 0;
    std::int64_t input_limit =
        0;             // prompts longer than this cost more, how much is not in the line; 0 = none
    std::string date;  // when it was looked up, YYYY-MM-DD
    std::string source;
};

// The table that came with the program. Standard tier, list price.
std::vector<PriceLine> prices();

// A TOML file of [[price]] tables with the members' names as keys; host, model, input and output
// are required, cached and cache_write default to input. Unknown keys are errors.
Result<std::vector<PriceLine>> read_prices(const std::filesystem::path& file);

// The first line for this host whose model is `model`, or `model` without its date or "-latest".
const PriceLine* find_price(const std::vector<PriceLine>& lines, std::string_view host,
                            std::string_view model);

// Dollars; nullopt when the counts are unknown or the prompt is beyond the line's limit.
std::optional<double> cost_of(const PriceLine& line, const Billed& billed);

}  // namespace loopscope
