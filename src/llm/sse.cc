#include "llm/sse.h"

#include <utility>

namespace loopscope {

std::vector<SseEvent> SseSplitter::feed(std::string_view bytes) {
    std::vector<SseEvent> events;
    while (!bytes.empty()) {
        if (std::exchange(after_return_, false) && bytes.front() == '\n') {
            bytes.remove_prefix(1);
            continue;
        }
        const std::size_t end = bytes.find_first_of("\r\n");
        line_.append(bytes.substr(0, end));
        if (end == std::string_view::npos)
            break;
        after_return_ = bytes[end] == '\r';
        bytes.remove_prefix(end + 1);
        end_line(events);
    }
    return events;
}

void SseSplitter::end_line(std::vector<SseEvent>& events) {
    std::string_view line = line_;
    if (std::exchange(first_line_, false) && line.starts_with("\xEF\xBB\xBF"))
        line.remove_prefix(3);
    if (line.empty()) {
        if (has_data_)
            events.push_back(std::move(event_));
        event_ = {};
        has_data_ = false;
    } else {
        const std::size_t colon = line.find(':');
        const std::string_view field = line.substr(0, colon);
        std::string_view value =
            colon == std::string_view::npos ? std::string_view{} : line.substr(colon + 1);
        if (value.starts_with(' '))
            value.remove_prefix(1);
        if (field == "data") {
            if (has_data_)
                event_.data += '\n';
            event_.data += value;
            has_data_ = true;
        } else if (field == "event") {
            event_.name = value;
        }  // a comment (an empty field), id and retry mean nothing here
    }
    line_.clear();
}

std::optional<SseEvent> SseSplitter::finish() {
    std::vector<SseEvent> events;
    if (!line_.empty())
        end_line(events);
    end_line(events);
    if (events.empty())
        return std::nullopt;
    return std::move(events.front());
}

}  // namespace loopscope
