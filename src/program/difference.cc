// unified_diff and similarity of edit.h.
#include "program/edit.h"
#include "program/token.h"
#include "record/program.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace loopscope {
namespace {

std::vector<std::string_view> lines_with_ends(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        const std::size_t length = end == std::string_view::npos ? text.size() : end + 1;
        lines.push_back(text.substr(0, length));
        text = text.substr(length);
    }
    return lines;
}

struct Change {
    char kind = ' ';  // ' ' kept, '-' removed, '+' added
    std::string_view line;
};

// Shortest edit script by the greedy algorithm of E. W. Myers, "An O(ND) difference algorithm and
// its variations", Algorithmica 1 (1986). Scripts longer than `limit` are not worth reading: then
// everything between the common beginning and end is replaced.
std::vector<Change> edit_script(const std::vector<std::string_view>& a,
                                const std::vector<std::string_view>& b) {
    constexpr int limit = 2000;
    const int n = static_cast<int>(a.size());
    const int m = static_cast<int>(b.size());
    std::vector<std::vector<int>> trace;
    std::vector<int> reach(static_cast<std::size_t>(2 * std::min(n + m, limit) + 3), 0);
    const int offset = std::min(n + m, limit) + 1;
    auto at = [&](int i) -> const std::string_view& { return a[static_cast<std::size_t>(i)]; };
    auto bt = [&](int i) -> const std::string_view& { return b[static_cast<std::size_t>(i)]; };
    auto slot = [&](int k) -> int& {
        return reach[static_cast<std::size_t>(k) + static_cast<std::size_t>(offset)];
    };
    int steps = -1;
    for (int d = 0; d <= std::min(n + m, limit) && steps < 0; ++d) {
        trace.push_back(reach);
        for (int k = -d; k <= d; k += 2) {
            int x =
                k == -d || (k != d && slot(k - 1) < slot(k + 1)) ? slot(k + 1) : slot(k - 1) + 1;
            while (x < n && x - k < m && x - k >= 0 && at(x) == bt(x - k))
                ++x;
            slot(k) = x;
            if (x >= n && x - k >= m) {
                steps = d;
                break;
            }
        }
    }
    std::vector<Change> script;
    if (steps < 0) {
        int head = 0;
        while (head < n && head < m && at(head) == bt(head))
            ++head;
        int tail = 0;
        while (tail < n - head && tail < m - head && at(n - 1 - tail) == bt(m - 1 - tail))
            ++tail;
        for (int i = 0; i < head; ++i)
            script.push_back({' ', at(i)});
        for (int i = head; i < n - tail; ++i)
            script.push_back({'-', at(i)});
        for (int i = head; i < m - tail; ++i)
            script.push_back({'+', bt(i)});
        for (int i = n - tail; i < n; ++i)
            script.push_back({' ', at(i)});
        return script;
    }
    int x = n;
    int y = m;
    for (int d = steps; d > 0; --d) {
        const std::vector<int>& before = trace[static_cast<std::size_t>(d)];
        auto past = [&](int k) {
            return before[static_cast<std::size_t>(k) + static_cast<std::size_t>(offset)];
        };
        const int k = x - y;
        const bool down = k == -d || (k != d && past(k - 1) < past(k + 1));
        const int from = down ? k + 1 : k - 1;
        const int start = past(from);
        while (x > (down ? start : start + 1) && y > 0 && x > 0) {
            --x;
            --y;
            script.push_back({' ', at(x)});
        }
        if (down)
            script.push_back({'+', bt(--y)});
        else
            script.push_back({'-', at(--x)});
    }
    while (x > 0)
        script.push_back({' ', at(--x)});
    std::reverse(script.begin(), script.end());
    return script;
}

std::string range(int start, int count) {
    if (count == 1)
        return fmt::format("{}", start);
    return fmt::format("{},{}", count == 0 ? start - 1 : start, count);
}

std::string file_diff(const std::string& file, const std::string* before,
                      const std::string* after) {
    constexpr std::size_t context = 3;
    const std::string nothing;
    const std::vector<std::string_view> a = lines_with_ends(before != nullptr ? *before : nothing);
    const std::vector<std::string_view> b = lines_with_ends(after != nullptr ? *after : nothing);
    const std::vector<Change> script = edit_script(a, b);
    std::string out = fmt::format("--- {}\n+++ {}\n", before != nullptr ? "a/" + file : "/dev/null",
                                  after != nullptr ? "b/" + file : "/dev/null");
    std::size_t i = 0;
    int old_line = 1;
    int new_line = 1;
    while (i < script.size()) {
        std::size_t first = i;
        while (first < script.size() && script[first].kind == ' ')
            ++first;
        if (first == script.size())
            break;
        const std::size_t begin = first - std::min(context, first - i);
        old_line += static_cast<int>(begin - i);
        new_line += static_cast<int>(begin - i);
        std::size_t end = first;
        std::size_t quiet = 0;
        while (end < script.size() && quiet <= 2 * context) {
            quiet = script[end].kind == ' ' ? quiet + 1 : 0;
            ++end;
        }
        end -= quiet > context ? quiet - context : 0;
        int removed = 0;
        int added = 0;
        std::string body;
        for (std::size_t k = begin; k < end; ++k) {
            removed += script[k].kind != '+' ? 1 : 0;
            added += script[k].kind != '-' ? 1 : 0;
            body += script[k].kind;
            body += script[k].line;
            if (script[k].line.back() != '\n')
                body += "\n\\ No newline at end of file\n";
        }
        out +=
            fmt::format("@@ -{} +{} @@\n", range(old_line, removed), range(new_line, added)) + body;
        old_line += removed;
        new_line += added;
        i = end;
    }
    return out;
}

// Counts of token trigrams; two sentinels before the first token let short texts be compared as
// well.
std::unordered_map<std::string, int> trigrams(std::string_view text, int& total) {
    std::unordered_map<std::string, int> counts;
    std::string_view one;
    std::string_view two;
    for (const Token& token : code_tokens(text)) {
        std::string key = fmt::format("{}\n{}\n{}", one, two, token.text);
        ++counts[std::move(key)];
        ++total;
        one = two;
        two = token.text;
    }
    return counts;
}

}  // namespace

std::string unified_diff(const Program& before, const Program& after) {
    std::string out;
    auto left = before.files.begin();
    auto right = after.files.begin();
    while (left != before.files.end() || right != after.files.end()) {
        const bool only_left = right == after.files.end() ||
                               (left != before.files.end() && left->first < right->first);
        const bool only_right = left == before.files.end() ||
                                (right != after.files.end() && right->first < left->first);
        if (only_left) {
            out += file_diff(left->first, &left->second, nullptr);
            ++left;
        } else if (only_right) {
            out += file_diff(right->first, nullptr, &right->second);
            ++right;
        } else {
            if (left->second != right->second)
                out += file_diff(left->first, &left->second, &right->second);
            ++left;
            ++right;
        }
    }
    return out;
}

double similarity(std::string_view a, std::string_view b) {
    int in_a = 0;
    int in_b = 0;
    const std::unordered_map<std::string, int> left = trigrams(a, in_a);
    const std::unordered_map<std::string, int> right = trigrams(b, in_b);
    if (in_a + in_b == 0)
        return 1;
    int common = 0;
    for (const auto& [key, count] : left)
        if (const auto found = right.find(key); found != right.end())
            common += std::min(count, found->second);
    return 2.0 * common / (in_a + in_b);
}

}  // namespace loopscope
