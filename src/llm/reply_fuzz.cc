// What a server or a user's program sends, in any shape: it must come out as an answer or a fault,
// whole or cut into pieces alike. The first byte chooses the reader.
#include "llm/answer.h"
#include "llm/command_answer.h"
#include "llm/specification.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace loopscope {

namespace {

void require(bool condition) {
    if (!condition)
        std::abort();
}

void check(const AnswerOr& answer) {
    if (answer)
        require(answer->reply.usage.input_tokens >= 0 && answer->reply.usage.output_tokens >= 0);
    else
        require(!answer.error().message.empty() && answer.error().message.size() < 2000);
}

void check_stream(WireFormat format, std::string_view bytes) {
    const AnswerOr at_once = parse_answer_stream(format, bytes);
    check(at_once);
    AnswerStream pieces(format);
    for (std::size_t at = 0; at < bytes.size(); at += 1 + at % 7)
        pieces.feed(bytes.substr(at, 1 + at % 7));
    const AnswerOr in_pieces = pieces.finish();
    require(at_once.has_value() == in_pieces.has_value());
    if (at_once)
        require(at_once->reply.text == in_pieces->reply.text &&
                at_once->reply.reasoning == in_pieces->reply.reasoning);
}

}  // namespace

}  // namespace loopscope

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace loopscope;
    if (size == 0)
        return 0;
    const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
    switch (data[0] % 8) {
        case 0:
            check_stream(WireFormat::chat, bytes);
            break;
        case 1:
            check_stream(WireFormat::messages, bytes);
            break;
        case 2:
            check(parse_answer(WireFormat::chat, bytes));
            break;
        case 3:
            check(parse_answer(WireFormat::messages, bytes));
            break;
        case 4:
            require(!parse_fault(400, bytes).message.empty());
            break;
        case 5:
            require(!parse_fault(200, bytes).message.empty());
            break;
        case 6:
            check(parse_command_answer(bytes));
            break;
        default:
            if (const Result<Specification> parsed = parse_specification(bytes))
                require(!parsed->subject.empty());
            break;
    }
    return 0;
}
