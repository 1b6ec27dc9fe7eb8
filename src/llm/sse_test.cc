#include "llm/sse.h"

#include <gtest/gtest.h>

namespace loopscope {
namespace {

std::vector<SseEvent> split(std::string_view bytes, std::size_t piece) {
    SseSplitter splitter;
    std::vector<SseEvent> out;
    for (std::size_t at = 0; at < bytes.size(); at += piece)
        for (SseEvent& event : splitter.feed(bytes.substr(at, piece)))
            out.push_back(std::move(event));
    if (std::optional<SseEvent> rest = splitter.finish())
        out.push_back(std::move(*rest));
    return out;
}

TEST(Sse, EventsDoNotDependOnWhereThePiecesWereCut) {
    const std::string bytes =
        "\xEF\xBB\xBF"
        "data: one\n\n: a comment\r\ndata:two\r\ndata: three\r\n\r\nevent: named\rdata:  four\r\r"
        "event: without data\n\nid: 5\nretry: 10\ndata\n\ndata: last";
    for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
        const std::vector<SseEvent> events = split(bytes, piece);
        ASSERT_EQ(events.size(), 5U) << piece;
        EXPECT_EQ(events[0].data, "one");
        EXPECT_EQ(events[1].data, "two\nthree");
        EXPECT_EQ(events[1].name, "");
        EXPECT_EQ(events[2].name, "named");
        EXPECT_EQ(events[2].data, " four");
        EXPECT_EQ(events[3].data, "");
        EXPECT_EQ(events[4].data, "last");
    }
}

TEST(Sse, NothingComesOutOfNothing) {
    SseSplitter splitter;
    EXPECT_TRUE(splitter.feed("").empty());
    EXPECT_TRUE(splitter.feed("\n\n\r\n: ping\n\n").empty());
    EXPECT_FALSE(splitter.finish());
}

}  // namespace
}  // namespace loopscope
