#include "llm/same_answers.h"

#include <fmt/format.h>

#include <set>

namespace loopscope {

std::string same_answers_warning(std::string_view model_id, const Sampling& sampling,
                                 const std::vector<std::pair<std::string, std::string>>& answers) {
    if (sampling.temperature && *sampling.temperature == 0)
        return {};
    std::set<std::string_view> draws;
    for (const auto& [draw, text] : answers) {
        if (text != answers.front().second)
            return {};
        draws.insert(draw);
    }
    if (draws.size() < 3)
        return {};
    return fmt::format(
        "{} gave the same answer to {} different draws of one prompt: repeats tell nothing. Set "
        "temperature= "
        "above 0; a server that caches answers or fixes its seed must be told not to",
        model_id, draws.size());
}

}  // namespace loopscope
