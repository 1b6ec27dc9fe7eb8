#include "llm/specification.h"

#include "llm/http.h"
#include "llm/same_answers.h"
#include "llm/wire.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

namespace loopscope {
namespace {

std::string message(const Result<Specification>& result) {
    return result ? std::string{} : to_text(result.error());
}

TEST(Specification, ProviderSubjectAndOptions) {
    const Result<Specification> parsed =
        parse_specification(" openai:qwen2.5:7b, base=http://localhost:11434/v1,temperature=0.7 ");
    ASSERT_TRUE(parsed) << message(parsed);
    EXPECT_EQ(parsed->provider, "openai");
    EXPECT_EQ(parsed->subject, "qwen2.5:7b");
    EXPECT_EQ(*parsed->find("base"), "http://localhost:11434/v1");
    EXPECT_EQ(*parsed->find("temperature"), "0.7");
    EXPECT_EQ(parsed->find("top_p"), nullptr);
}

TEST(Specification, QuotesProtectCommas) {
    const Result<Specification> parsed =
        parse_specification(R"(command:agent --list "a,b" 'c, d' e\,f,timeout=5,as="x,y")");
    ASSERT_TRUE(parsed) << message(parsed);
    EXPECT_EQ(*parsed->find("timeout"), "5");
    EXPECT_EQ(*parsed->find("as"), "x,y");
    const Result<std::vector<std::string>> words = split_words(parsed->subject);
    ASSERT_TRUE(words);
    EXPECT_EQ(*words, (std::vector<std::string>{"agent", "--list", "a,b", "c, d", "e,f"}));
    EXPECT_EQ(*split_words("a '' \"b c\"d"), (std::vector<std::string>{"a", "", "b cd"}));
    EXPECT_FALSE(split_words("a 'b"));
}

TEST(Specification, EachFaultIsNamed) {
    EXPECT_NE(message(parse_specification("opnai:gpt")).find("did you mean openai?"),
              std::string::npos);
    EXPECT_NE(message(parse_specification("")).find("unknown provider"), std::string::npos);
    EXPECT_NE(message(parse_specification("openai")).find("nothing after"), std::string::npos);
    EXPECT_NE(message(parse_specification("openai:m,temperature")).find("name=value"),
              std::string::npos);
    EXPECT_NE(message(parse_specification("openai:m,seed=1,seed=2")).find("twice"),
              std::string::npos);
    EXPECT_NE(message(parse_specification("command:a 'b")).find("quote"), std::string::npos);
    const Result<Specification> parsed = parse_specification("openai:m,temprature=1");
    const Result<void> options = check_options(*parsed, {"temperature", "top_p"});
    ASSERT_FALSE(options);
    EXPECT_NE(to_text(options.error()).find("did you mean temperature?"), std::string::npos);
}

TEST(Specification, NumbersAreWithinTheirRange) {
    for (const char* bad :
         {"temperature=3", "temperature=", "temperature=nan", "temperature=1x", "top_p=0",
          "top_p=1.5", "max_tokens=0", "max_tokens=-5", "max_tokens=1.5", "seed=-1", "effort="}) {
        const Result<Specification> parsed = parse_specification(std::string("openai:m,") + bad);
        ASSERT_TRUE(parsed);
        const Result<Sampling> sampling = sampling_options(*parsed, 2);
        ASSERT_FALSE(sampling) << bad;
        EXPECT_NE(
            to_text(sampling.error()).find(std::string(bad).substr(0, std::string(bad).find('='))),
            std::string::npos);
    }
    const Result<Specification> good =
        parse_specification("openai:m,temperature=2,top_p=1,max_tokens=1,seed=7,effort=high");
    const Result<Sampling> sampling = sampling_options(*good, 2);
    ASSERT_TRUE(sampling);
    EXPECT_EQ(sampling->temperature, 2.0);
    EXPECT_EQ(sampling->max_tokens, 1);
    EXPECT_EQ(sampling->seed, 7);
    EXPECT_EQ(sampling->reasoning_effort, "high");
}

ModelRequest request() {
    ModelRequest out;
    out.messages = {{"system", "be brief"}, {"user", "hello"}};
    out.sampling.temperature = 0.5;
    out.sampling.max_tokens = 100;
    return out;
}

TEST(Wire, ChatRequest) {
    ModelRequest wanted = request();
    wanted.sampling.seed = 5;
    wanted.sampling.reasoning_effort = "low";
    Dialect dialect;
    const auto body = nlohmann::json::parse(request_body(WireFormat::chat, "m", wanted, dialect));
    EXPECT_EQ(body["model"], "m");
    EXPECT_EQ(body["messages"][0]["role"], "system");
    EXPECT_EQ(body["max_tokens"], 100);
    EXPECT_EQ(body["stream_options"]["include_usage"], true);
    EXPECT_EQ(body["seed"], 5);
    EXPECT_EQ(body["reasoning_effort"], "low");
    EXPECT_TRUE(sends(WireFormat::chat, wanted, dialect, "temperature"));
    dialect.completion_tokens = true;
    dialect.stream = false;
    dialect.refused = {"temperature", "seed"};
    const auto less = nlohmann::json::parse(request_body(WireFormat::chat, "m", wanted, dialect));
    EXPECT_EQ(less["max_completion_tokens"], 100);
    for (const char* name : {"max_tokens", "temperature", "seed", "stream", "stream_options"})
        EXPECT_FALSE(less.contains(name)) << name;
    EXPECT_FALSE(sends(WireFormat::chat, wanted, dialect, "temperature"));
}

TEST(Wire, MessagesRequest) {
    ModelRequest wanted = request();
    wanted.sampling.reasoning_effort = "2048";
    const auto budget = nlohmann::json::parse(request_body(WireFormat::messages, "m", wanted, {}));
    EXPECT_EQ(budget["system"], "be brief");
    EXPECT_EQ(budget["messages"].size(), 1U);
    EXPECT_EQ(budget["max_tokens"], 100);
    EXPECT_EQ(budget["thinking"]["budget_tokens"], 2048);
    EXPECT_FALSE(budget.contains("stream_options"));
    wanted.sampling.reasoning_effort = "high";
    const auto effort = nlohmann::json::parse(request_body(WireFormat::messages, "m", wanted, {}));
    EXPECT_EQ(effort["output_config"]["effort"], "high");
    EXPECT_EQ(effort["thinking"]["type"], "adaptive");
}

TEST(Wire, SeedsOfDifferentDrawsDiffer) {
    std::set<std::int64_t> seeds;
    for (int draw = 0; draw < 200; ++draw) {
        const std::int64_t seed = seed_for(1, std::to_string(draw));
        EXPECT_EQ(seed, seed_for(1, std::to_string(draw)));
        EXPECT_GE(seed, 0);
        EXPECT_LT(seed, std::int64_t{1} << 31U);
        seeds.insert(seed);
    }
    EXPECT_EQ(seeds.size(), 200U);
    EXPECT_EQ(seed_for(42, ""), 42);
}

TEST(SameAnswers, AreFoundWhereTheyMeanSomething) {
    Sampling sampling;
    EXPECT_NE(same_answers_warning("openai:m", sampling, {{"0", "a"}, {"1", "a"}, {"2", "a"}}), "");
    EXPECT_EQ(same_answers_warning("openai:m", sampling, {{"0", "a"}, {"1", "a"}}), "");
    EXPECT_EQ(same_answers_warning("openai:m", sampling, {{"0", "a"}, {"0", "a"}, {"1", "a"}}), "");
    EXPECT_EQ(same_answers_warning("openai:m", sampling, {{"0", "a"}, {"1", "a"}, {"2", "b"}}), "");
    EXPECT_EQ(same_answers_warning("openai:m", sampling, {}), "");
    sampling.temperature = 0;
    EXPECT_EQ(same_answers_warning("openai:m", sampling, {{"0", "a"}, {"1", "a"}, {"2", "a"}}), "");
}

TEST(Url, HostAndLoopback) {
    EXPECT_EQ(host_of("https://API.OpenAI.com/v1"), "api.openai.com");
    EXPECT_EQ(host_of("http://localhost:8000/v1"), "localhost:8000");
    EXPECT_EQ(host_of("not a url"), "");
    for (const char* url :
         {"http://localhost:1/v1", "http://127.0.0.1", "http://127.8.9.1:3", "http://[::1]:80/x"})
        EXPECT_TRUE(is_loopback(url)) << url;
    for (const char* url :
         {"http://127.evil.example", "http://localhost.example", "http://10.0.0.1", "x", ""})
        EXPECT_FALSE(is_loopback(url)) << url;
}

}  // namespace
}  // namespace loopscope
