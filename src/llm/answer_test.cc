#include "llm/answer.h"

#include "llm/command_answer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace loopscope {
namespace {

Fault fault_in(int status, std::string_view body) { return parse_fault(status, body); }

TEST(ChatAnswer, TextReasoningUsageAndModel) {
    const AnswerOr answer = parse_answer(WireFormat::chat, R"({"model":"m-1","choices":[{"index":0,
        "message":{"role":"assistant","content":"int x;","reasoning_content":"because"},"finish_reason":"stop"}],
        "usage":{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,
        "prompt_tokens_details":{"cached_tokens":64},"completion_tokens_details":{"reasoning_tokens":30}}})");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->reply.text, "int x;");
    EXPECT_EQ(answer->reply.reasoning, "because");
    EXPECT_EQ(answer->reply.finish_reason, "stop");
    EXPECT_EQ(answer->reply.reported_model, "m-1");
    const Usage& usage = answer->reply.usage;
    EXPECT_TRUE(usage.known);
    EXPECT_EQ(usage.input_tokens, 100);
    EXPECT_EQ(usage.cached_tokens, 64);
    EXPECT_EQ(usage.output_tokens, 50);
    EXPECT_EQ(usage.reasoning_tokens, 30);
    EXPECT_TRUE(answer->reply.warnings.empty());
}

TEST(ChatAnswer, ReasoningThatIsNotWithinTheCompletionIsAdded) {
    const AnswerOr answer = parse_answer(
        WireFormat::chat, R"({"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],
        "usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":35,
        "completion_tokens_details":{"reasoning_tokens":20}}})");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->reply.usage.output_tokens, 25);
}

TEST(ChatAnswer, ContentMayBeAListOfParts) {
    const AnswerOr answer = parse_answer(
        WireFormat::chat,
        R"({"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},
        {"type":"text","text":"a"},{"type":"text","text":"b"}]},"finish_reason":"stop"}]})");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->reply.text, "ab");
    EXPECT_EQ(answer->reply.reasoning, "hm");
    EXPECT_FALSE(answer->reply.usage.known);
}

TEST(ChatAnswer, EmptyAnswersAreAskedAgainAndWereBilled) {
    for (const char* content : {"\"\"", "null", "\" \\n\""}) {
        const AnswerOr answer = parse_answer(
            WireFormat::chat,
            std::string(R"({"choices":[{"message":{"content":)") + content +
                R"(},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1}})");
        ASSERT_FALSE(answer) << content;
        EXPECT_EQ(answer.error().fault, ModelFault::answer);
        EXPECT_TRUE(answer.error().retry);
        EXPECT_EQ(answer.error().billed.usage.input_tokens, 9);
    }
}

TEST(ChatAnswer, AnAnswerCutAtTheLimitIsKeptWithAWarning) {
    const AnswerOr cut = parse_answer(
        WireFormat::chat,
        R"({"choices":[{"message":{"content":"for (int"},"finish_reason":"length"}]})");
    ASSERT_TRUE(cut);
    EXPECT_EQ(cut->reply.text, "for (int");
    EXPECT_EQ(cut->reply.finish_reason, "length");
    ASSERT_EQ(cut->reply.warnings.size(), 1U);
    EXPECT_NE(cut->reply.warnings[0].find("max_tokens"), std::string::npos);
    const AnswerOr thinking = parse_answer(
        WireFormat::chat,
        R"({"choices":[{"message":{"content":"<think>so, first"},"finish_reason":"length"}]})");
    ASSERT_TRUE(thinking);
    EXPECT_EQ(thinking->reply.text, "");
    EXPECT_EQ(thinking->reply.reasoning, "so, first");
    EXPECT_NE(thinking->reply.warnings.at(0).find("before the answer began"), std::string::npos);
}

TEST(ChatAnswer, RefusalAndFilterAreRepliesWithAWarning) {
    const AnswerOr refusal = parse_answer(
        WireFormat::chat,
        R"({"choices":[{"message":{"content":null,"refusal":"I cannot do that."},"finish_reason":"stop"}]})");
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->reply.finish_reason, "content_filter");
    EXPECT_EQ(refusal->reply.text, "I cannot do that.");
    EXPECT_EQ(refusal->reply.warnings.at(0), "the model refused: I cannot do that.");
    const AnswerOr filtered = parse_answer(
        WireFormat::chat,
        R"({"choices":[{"message":{"content":""},"finish_reason":"content_filter"}]})");
    ASSERT_TRUE(filtered);
    EXPECT_EQ(filtered->reply.warnings.size(), 1U);
}

TEST(ChatAnswer, WhatIsNoAnswerIsAFault) {
    for (const char* body :
         {"", "{", "[]", "{}", "null", "<html>hello</html>", R"({"choices":[]})",
          R"({"choices":{}})", R"({"choices":[7]})", R"({"choices":[{"message":"x"}]})"}) {
        const AnswerOr answer = parse_answer(WireFormat::chat, body);
        ASSERT_FALSE(answer) << body;
        EXPECT_EQ(answer.error().fault, ModelFault::answer) << body;
        EXPECT_TRUE(answer.error().retry) << body;
    }
}

TEST(ChatAnswer, AnErrorWithStatus200) {
    const AnswerOr overloaded = parse_answer(
        WireFormat::chat, R"({"error":{"message":"Provider is overloaded","code":529}})");
    ASSERT_FALSE(overloaded);
    EXPECT_EQ(overloaded.error().fault, ModelFault::server);
    EXPECT_EQ(overloaded.error().status, 529);
    EXPECT_TRUE(overloaded.error().retry);
    const AnswerOr choice = parse_answer(
        WireFormat::chat,
        R"({"choices":[{"error":{"message":"upstream","code":502},"message":{"content":"ha"},"finish_reason":"error"}]})");
    ASSERT_FALSE(choice);
    EXPECT_EQ(choice.error().status, 502);
    const AnswerOr odd = parse_answer(WireFormat::chat, R"({"error":"something odd"})");
    ASSERT_FALSE(odd);
    EXPECT_EQ(odd.error().fault, ModelFault::answer);
    EXPECT_NE(odd.error().message.find("something odd"), std::string::npos);
}

TEST(ChatStream, PiecesMakeOneAnswer) {
    const AnswerOr answer = parse_answer_stream(
        WireFormat::chat,
        "data: "
        "{\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\","
        "\"reasoning\":\"hm\"}}]}\n\n"
        ": keep-alive\n\n"
        "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"another choice\"}}]}\n\n"
        "data: "
        "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"He\"},\"finish_reason\":null}]}\n\n"
        "data: "
        "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"llo\"},\"finish_reason\":\"stop\"}]}"
        "\n\n"
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n"
        "data: [DONE]\n\n");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->reply.text, "Hello");
    EXPECT_EQ(answer->reply.reasoning, "hm");
    EXPECT_EQ(answer->reply.usage.output_tokens, 2);
    EXPECT_EQ(answer->reply.reported_model, "m");
}

TEST(ChatStream, WithoutItsEndItIsNoAnswer) {
    const std::string start =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\n";
    for (const std::string& bytes : {start, start + "data: {\"choices\":[{\"ind",
                                     start + "data: [DO", std::string(": ping\n\n")}) {
        const AnswerOr answer = parse_answer_stream(WireFormat::chat, bytes);
        ASSERT_FALSE(answer) << bytes;
        EXPECT_EQ(answer.error().fault, ModelFault::answer);
        EXPECT_TRUE(answer.error().retry);
    }
    // An end without its line end is an end, and so is a finish reason alone.
    EXPECT_TRUE(parse_answer_stream(WireFormat::chat, start + "data: [DONE]"));
    EXPECT_TRUE(parse_answer_stream(
        WireFormat::chat,
        start + "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"));
}

TEST(ChatStream, AnErrorInTheMiddle) {
    const AnswerOr answer = parse_answer_stream(
        WireFormat::chat,
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\n"
        "data: {\"error\":{\"code\":429,\"message\":\"slow down\"}}\n\ndata: [DONE]\n\n");
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().fault, ModelFault::quota);
    EXPECT_TRUE(answer.error().retry);
}

TEST(MessagesAnswer, ThinkingApartAndCacheTokens) {
    const AnswerOr answer =
        parse_answer(WireFormat::messages, R"({"type":"message","model":"claude-x","content":[
        {"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"a"},{"type":"text","text":"b"}],
        "stop_reason":"end_turn","usage":{"input_tokens":10,"cache_read_input_tokens":70,
        "cache_creation_input_tokens":20,"output_tokens":5}})");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->reply.text, "ab");
    EXPECT_EQ(answer->reply.reasoning, "hm");
    EXPECT_EQ(answer->reply.finish_reason, "stop");
    EXPECT_EQ(answer->reply.usage.input_tokens, 100);
    EXPECT_EQ(answer->reply.usage.cached_tokens, 70);
    EXPECT_EQ(answer->billed.cache_write_tokens, 20);
}

std::string messages_stream(std::string_view end) {
    return std::string(
               "event: message_start\ndata: "
               "{\"type\":\"message_start\",\"message\":{\"model\":\"claude-x\","
               "\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n"
               "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
               "\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}}\n\n"
               "event: ping\ndata: {\"type\": \"ping\"}\n\n"
               "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"
               "\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\n"
               "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,"
               "\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello\"}}\n\n") +
           std::string(end);
}

TEST(MessagesStream, WholeCutAndOverloaded) {
    const AnswerOr whole = parse_answer_stream(
        WireFormat::messages,
        messages_stream(
            "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
            "\"max_tokens\"},\"usage\":{\"output_tokens\":15}}\n\n"
            "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
    ASSERT_TRUE(whole);
    EXPECT_EQ(whole->reply.text, "Hello");
    EXPECT_EQ(whole->reply.reasoning, "hm");
    EXPECT_EQ(whole->reply.finish_reason, "length");
    EXPECT_EQ(whole->reply.usage.input_tokens, 25);
    EXPECT_EQ(whole->reply.usage.output_tokens, 15);
    const AnswerOr cut = parse_answer_stream(WireFormat::messages, messages_stream(""));
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().billed.usage.input_tokens, 25);
    const AnswerOr overloaded = parse_answer_stream(
        WireFormat::messages,
        messages_stream(
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
            "\"message\":\"Overloaded\"}}\n\n"));
    ASSERT_FALSE(overloaded);
    EXPECT_EQ(overloaded.error().status, 529);
    EXPECT_EQ(overloaded.error().fault, ModelFault::server);
    EXPECT_TRUE(overloaded.error().retry);
}

TEST(Thinking, LeadingBlockMovesApart) {
    const auto split = [](std::string text) {
        std::string reasoning;
        split_thinking(text, reasoning);
        return std::pair(text, reasoning);
    };
    EXPECT_EQ(split("<think>\nhm\n</think>\n\nint x;"),
              std::pair(std::string("int x;"), std::string("hm")));
    EXPECT_EQ(split("hm, so\n</think>\nint x;"),
              std::pair(std::string("int x;"), std::string("hm, so")));
    EXPECT_EQ(split("<think>never ends"), std::pair(std::string(), std::string("never ends")));
    EXPECT_EQ(split("  plain"), std::pair(std::string("  plain"), std::string()));
    const std::string code = "```cpp\n// </think>\n```";
    EXPECT_EQ(split(code), std::pair(code, std::string()));
    EXPECT_EQ(split("say <think>x</think>"),
              std::pair(std::string("say <think>x</think>"), std::string()));
}

TEST(Fault, SaysWhatIsToBlame) {
    struct Case {
        int status;
        const char* body;
        ModelFault fault;
        bool retry, fatal;
    };
    const std::vector<Case> cases{
        {401, R"({"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}})",
         ModelFault::key, false, true},
        {400,
         R"([{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}])",
         ModelFault::key, false, true},
        {404, R"({"error":{"message":"The model `x` does not exist","code":"model_not_found"}})",
         ModelFault::model_name, false, true},
        {404,
         R"({"type":"error","error":{"type":"not_found_error","message":"model: claude-zzz"}})",
         ModelFault::model_name, false, true},
        {404, R"({"error":"model 'x' not found"})", ModelFault::model_name, false, true},
        {404, "404 page not found", ModelFault::network, false, true},
        {429, R"({"error":{"message":"Rate limit reached","type":"requests"}})", ModelFault::quota,
         true, false},
        {429,
         R"({"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}})",
         ModelFault::quota, false, true},
        {402, R"({"error":{"message":"Insufficient Balance"}})", ModelFault::quota, false, true},
        {400, R"({"type":"error","error":{"type":"invalid_request_error",
            "message":"Your credit balance is too low to access the API"}})",
         ModelFault::quota, false, true},
        {400,
         R"({"error":{"message":"maximum context length is 8192 tokens","code":"context_length_exceeded"}})",
         ModelFault::length, false, false},
        {400,
         R"({"error":{"code":400,"message":"the request exceeds the available context size","type":"x"}})",
         ModelFault::length, false, false},
        {413, "", ModelFault::length, false, false},
        {400, R"({"error":{"message":"The response was filtered","code":"content_filter"}})",
         ModelFault::content, false, false},
        {400, R"({"error":{"message":"temperature must be at most 2","param":"temperature"}})",
         ModelFault::parameter, false, true},
        {500, "", ModelFault::server, true, false},
        {503, "<html>busy</html>", ModelFault::server, true, false},
        {529, R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})",
         ModelFault::server, true, false},
        {408, "", ModelFault::server, true, false},
        {302, "", ModelFault::network, false, true},
    };
    for (const Case& one : cases) {
        const Fault fault = fault_in(one.status, one.body);
        EXPECT_EQ(name_of(fault.fault), name_of(one.fault)) << one.status << one.body;
        EXPECT_EQ(fault.retry, one.retry) << one.body;
        EXPECT_EQ(fault.fatal, one.fatal) << one.body;
        EXPECT_FALSE(fault.message.empty());
        EXPECT_EQ(fault.status, one.status);
    }
}

TEST(Fault, NamesTheParameterThatIsNotTaken) {
    const auto refused = [](const char* body) { return fault_in(400, body).parameter; };
    EXPECT_EQ(
        refused(
            R"({"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model.
        Use 'max_completion_tokens' instead.","param":"max_tokens","code":"unsupported_parameter"}})"),
        "max_tokens");  // a line end within a string is not JSON: read as text
    EXPECT_EQ(
        refused(
            R"({"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","code":"invalid_request_body"}})"),
        "max_tokens");
    EXPECT_EQ(
        refused(
            R"({"error":{"message":"Unsupported value: 'temperature' does not support 0.2 with this model.","param":"temperature","code":"unsupported_value"}})"),
        "temperature");
    EXPECT_EQ(
        refused(
            R"({"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not permitted"}]})"),
        "seed");
    EXPECT_EQ(
        refused(
            R"({"type":"error","error":{"type":"invalid_request_error","message":"`temperature` and `top_p` cannot both be specified for this model."}})"),
        "top_p");
    EXPECT_EQ(refused(R"({"error":{"message":"temperature must be between 0 and 2"}})"), "");
    EXPECT_EQ(refused(R"({"error":{"message":"Unknown field: prompt_tokens_limit"}})"), "");
}

TEST(OneLine, IsPrintableAndShort) {
    EXPECT_EQ(one_line(" a\n\tb\x01 c "), "a b c");
    const std::string long_text(500, 'x');
    EXPECT_EQ(one_line(long_text, 10), "xxxxxxxxxx...");
    EXPECT_EQ(one_line("ab\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4", 5), "ab\xC3\xA4...");
}

TEST(CommandAnswer, PlainTextAndJson) {
    const AnswerOr plain = parse_command_answer("```cpp\nint x;\n```\n\n");
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->reply.text, "```cpp\nint x;\n```");
    EXPECT_EQ(plain->reply.finish_reason, "stop");
    EXPECT_FALSE(plain->reply.usage.known);
    EXPECT_EQ(parse_command_answer("{ int x; }")->reply.text, "{ int x; }");
    const AnswerOr json = parse_command_answer(
        R"({"text":"a","reasoning":"b","usage":{"input_tokens":3,"output_tokens":4},"cost":0.5,"model":"m",
            "finish_reason":"length","warnings":["w"]})");
    ASSERT_TRUE(json);
    EXPECT_EQ(json->reply.text, "a");
    EXPECT_EQ(json->reply.reasoning, "b");
    EXPECT_EQ(json->reply.usage.output_tokens, 4);
    EXPECT_TRUE(json->reply.usage.known);
    EXPECT_EQ(json->billed.dollars, 0.5);
    EXPECT_EQ(json->reply.finish_reason, "length");
    EXPECT_EQ(json->reply.warnings, std::vector<std::string>{"w"});
}

TEST(CommandAnswer, WhatBreaksTheContractIsNamed) {
    const auto message = [](const char* output) {
        const AnswerOr answer = parse_command_answer(output);
        return answer ? "" : answer.error().message;
    };
    EXPECT_NE(message(""), "");
    EXPECT_NE(message(R"({"text":"a","usgae":{}})").find("usgae"), std::string::npos);
    EXPECT_NE(message(R"({"text":7})").find("\"text\""), std::string::npos);
    EXPECT_NE(message(R"({"text":"a","usage":{"input_tokens":-1}})").find("input_tokens"),
              std::string::npos);
    EXPECT_NE(message(R"({"text":"a","cost":"much"})").find("cost"), std::string::npos);
    EXPECT_NE(message(R"({"text":""})").find("empty"), std::string::npos);
    const AnswerOr told =
        parse_command_answer(R"({"error":{"message":"no quota","fault":"quota","retry":false}})");
    ASSERT_FALSE(told);
    EXPECT_EQ(told.error().fault, ModelFault::quota);
    EXPECT_FALSE(told.error().retry);
    EXPECT_EQ(told.error().message, "no quota");
}

TEST(CommandRequest, HoldsEverythingTheAnswerMayDependOn) {
    ModelRequest request;
    request.role = Role::planner;
    request.messages = {{"user", "why\xFF"}};
    request.sampling.temperature = 0.5;
    request.sampling.seed = 3;
    request.draw = "1/2/3";
    const nlohmann::json document = nlohmann::json::parse(command_request(request));
    EXPECT_EQ(document["version"], 1);
    EXPECT_EQ(document["role"], "planner");
    EXPECT_EQ(document["messages"][0]["content"], "why\xEF\xBF\xBD");
    EXPECT_EQ(document["sampling"]["temperature"], 0.5);
    EXPECT_EQ(document["draw"], "1/2/3");
}

}  // namespace
}  // namespace loopscope
