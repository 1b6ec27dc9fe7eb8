#include "core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace loopscope {

std::vector<std::string> split_lines(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        if (!line.empty() && line.back() == '\r')
            line.remove_suffix(1);
        lines.emplace_back(line);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return lines;
}

std::string_view trim(std::string_view text) {
    constexpr std::string_view blank = " \t\r\n";
    const std::size_t begin = text.find_first_not_of(blank);
    if (begin == std::string_view::npos)
        return {};
    return text.substr(begin, text.find_last_not_of(blank) - begin + 1);
}

bool starts_with_word(std::string_view text, std::string_view word) {
    const auto is_word = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_';
    };
    return text.starts_with(word) && (text.size() == word.size() || !is_word(text[word.size()]));
}

namespace {

// Edit distance of Levenshtein, one row at a time.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
    std::string best;
    std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
    for (const std::string& candidate : candidates) {
        const std::size_t d = distance(word, candidate);
        if (d < best_distance) {
            best_distance = d;
            best = candidate;
        }
    }
    return best;
}

std::string shorten(std::string_view text, std::size_t bytes, std::size_t* cut) {
    if (cut != nullptr)
        *cut = 0;
    if (text.size() <= bytes)
        return std::string(text);
    std::size_t end = bytes;
    if (const std::size_t line_end = text.rfind('\n', bytes);
        line_end != std::string_view::npos && line_end > bytes / 2)
        end = line_end;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) ==
                          0x80U)  // not inside a UTF-8 character
        --end;
    const std::size_t left_out = text.size() - end;
    if (cut != nullptr)
        *cut = left_out;
    return fmt::format("{}\n[{} bytes left out]", text.substr(0, end), left_out);
}

}  // namespace loopscope
