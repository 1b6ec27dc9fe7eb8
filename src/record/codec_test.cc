#include "record/codec.h"

#include <gtest/gtest.h>

#include <limits>

namespace loopscope {
namespace {

Evaluation full_evaluation() {
    Evaluation evaluation;
    evaluation.status = Status::fast;
    evaluation.speedup = Ratio{2.5, 2.25, std::numeric_limits<double>::infinity(), 5, 0.95};
    evaluation.sessions.resize(2);
    evaluation.sessions[1].session = 1;
    evaluation.sessions[1].sizes.push_back(
        SizeTiming{"n=250", 0.001, 0.0025, 0, {2.5, 2.25, 2.75, 5, 0.95}, {}, 3.5e10, 0});
    evaluation.cases.push_back(VerifiedCase{"n=1", "uniform", false, 3.5, "c[0]"});
    evaluation.findings.push_back(Finding{"implausible_time", "faster than the roof"});
    evaluation.metrics["score"] = 0.1;
    return evaluation;
}

TEST(codec, a_round_trip_gives_the_same_bytes) {
    const std::string text = encode(full_evaluation());
    const auto back = decode<Evaluation>(text);
    ASSERT_TRUE(back) << to_text(back.error());
    EXPECT_EQ(encode(*back), text);
    EXPECT_EQ(back->status, Status::fast);
    EXPECT_EQ(back->speedup->high, std::numeric_limits<double>::infinity());
    EXPECT_DOUBLE_EQ(back->metrics.at("score"), 0.1);
}

TEST(codec, infrastructure_is_a_null_status) {
    Evaluation evaluation;
    evaluation.reason = Reason::infrastructure;
    const std::string text = encode(evaluation);
    EXPECT_NE(text.find("\"status\":null"), std::string::npos);
    EXPECT_FALSE(decode<Evaluation>(text)->status.has_value());
}

TEST(codec, objects_keep_every_byte) {
    BuildOutcome outcome;
    for (int length = 0; length < 10; ++length) {
        outcome.object =
            std::string("\0\xFF\x7F ELF\n\0\x80", 10).substr(0, static_cast<std::size_t>(length));
        const auto back = decode<BuildOutcome>(encode(outcome));
        ASSERT_TRUE(back);
        EXPECT_EQ(back->object, outcome.object);
    }
}

TEST(codec, foreign_bytes_are_replaced_not_refused) {
    Feedback feedback;
    feedback.text = "bad \xFF byte";
    const auto back = decode<Feedback>(encode(feedback));
    ASSERT_TRUE(back);
    EXPECT_EQ(back->text, "bad \xEF\xBF\xBD byte");
}

TEST(codec, an_error_names_the_field) {
    std::string text = encode(full_evaluation());
    const auto replace = [&](const std::string& from, const std::string& to) {
        std::string changed = text;
        changed.replace(changed.find(from), from.size(), to);
        return changed;
    };
    const auto wrong_name =
        decode<Evaluation>(replace("\"status\":\"fast\"", "\"status\":\"quick\""));
    ASSERT_FALSE(wrong_name);
    EXPECT_EQ(wrong_name.error().where, "evaluation.status");
    const auto wrong_type = decode<Evaluation>(replace("\"launches\":0", "\"launches\":\"many\""));
    ASSERT_FALSE(wrong_type);
    EXPECT_NE(wrong_type.error().where.find("launches"), std::string::npos);
    const auto absent = decode<Evaluation>(replace("\"trust\"", "\"trusty\""));
    ASSERT_FALSE(absent);
    EXPECT_EQ(absent.error().where, "evaluation.trust");
    EXPECT_FALSE(decode<Evaluation>("{"));
    EXPECT_FALSE(decode<Evaluation>("[]"));
}

TEST(codec, every_travelling_type_comes_back) {
    Candidate candidate{"c1",
                        2,
                        "s0",
                        {{{"a.cc", "int x;"}}},
                        full_evaluation(),
                        {Role::coder, "sys", {{"program", "x", 3}}},
                        "plan",
                        "answer",
                        "",
                        "",
                        {"debugger"}};
    EXPECT_EQ(encode(*decode<Candidate>(encode(candidate))), encode(candidate));
    Context context{
        "id", 1, "c1", "s0", candidate.program, candidate.evaluation, candidate.prompt, "naive"};
    Trajectory trajectory{"t1", "tasks/x", "r1", {context}, {"builtin:rules"}};
    EXPECT_EQ(encode(*decode<Trajectory>(encode(trajectory))), encode(trajectory));
    Arm arm{"{debugger}", 1, Mode::summary, true, "p", "c", false};
    EXPECT_EQ(encode(*decode<Arm>(encode(arm))), encode(arm));
    Trial trial;
    trial.status = Status::compile;
    trial.parent_status = Status::fail;
    EXPECT_EQ(encode(*decode<Trial>(encode(trial))), encode(trial));
    ModelReply reply;
    reply.cost = 0.5;
    reply.usage = Usage{10, 5, 7, 2, true};
    EXPECT_EQ(encode(*decode<ModelReply>(encode(reply))), encode(reply));
}

TEST(prompt, sections_survive_rendering) {
    Prompt prompt{Role::planner,
                  "system",
                  {{"objective", "be fast", 0},
                   {"empty", "", 0},
                   {"program", "```cpp\n## not a section\n```", 0}}};
    const std::string text = render(prompt);
    EXPECT_EQ(text, "## objective\nbe fast\n\n## program\n```cpp\n## not a section\n```\n");
    const auto sections = parse_sections(text);
    ASSERT_EQ(sections.size(), 2U);
    EXPECT_EQ(section_text(sections, "objective"), "be fast");
    EXPECT_EQ(section_text(sections, "program"), "```cpp\n## not a section\n```");
    EXPECT_EQ(section_text(sections, "absent"), "");
}

}  // namespace
}  // namespace loopscope
