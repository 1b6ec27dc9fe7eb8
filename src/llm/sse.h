// Server-sent events (WHATWG HTML, section 9.2.6): the bytes of an event stream, cut into events.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

struct SseEvent {
    std::string name;  // "" when the stream names none
    std::string data;  // its data lines, joined by line ends
};

// Takes the bytes in pieces of any size; the events do not depend on where the pieces were cut.
class SseSplitter {
public:
    // The events that `bytes` completes.
    std::vector<SseEvent> feed(std::string_view bytes);
    // What lies there when the stream ends without the empty line that ends an event. The
    // specification drops it; servers that end with "data: [DONE]" and no line end exist, so the
    // caller decides.
    std::optional<SseEvent> finish();

private:
    void end_line(std::vector<SseEvent>& events);

    std::string line_;
    SseEvent event_;
    bool has_data_ = false;
    bool after_return_ =
        false;  // the last byte was \r: a \n that follows belongs to the same line end
    bool first_line_ = true;  // may start with a byte order mark
};

}  // namespace loopscope
