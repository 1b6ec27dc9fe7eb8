// Text helpers that four rooms share: strict templates and lines.
#pragma once
#include "core/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

std::vector<std::string> split_lines(
    std::string_view text);  // without the line ends; a last empty line is dropped
std::string_view trim(std::string_view text);  // spaces, tabs, line ends at both sides
bool starts_with_word(std::string_view text, std::string_view word);

// The candidate nearest to `word` by edit distance when it is near enough to be a slip (at most a
// third of its length, at least 1), else "".
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// At most `bytes` of `text`, cut at a line end where possible, with a line that says how much was
// left out. `cut` receives the number of bytes left out.
std::string shorten(std::string_view text, std::size_t bytes, std::size_t* cut = nullptr);

}  // namespace loopscope
