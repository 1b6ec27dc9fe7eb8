#include "report/example_report.h"
#include "report/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace loopscope {
namespace {

using testing::proposal;
using testing::start;

bool says(const std::vector<std::string>& sentences, const std::string& text) {
    return std::ranges::any_of(sentences, [&text](const std::string& sentence) {
        return sentence.find(text) != std::string::npos;
    });
}

std::string all(const std::vector<std::string>& sentences) {
    std::string text;
    for (const std::string& sentence : sentences)
        text += sentence + "\n";
    return text;
}

Candidate naive() { return start("s0", Status::pass, Reason::not_faster, 1); }

TEST(Diagnosis, nothing_to_say_without_proposals) {
    EXPECT_TRUE(diagnose({}).empty());
    EXPECT_TRUE(diagnose({naive()}).empty());
}

TEST(Diagnosis, edits_that_did_not_apply_with_their_commonest_reason) {
    std::vector<Candidate> candidates = {naive()};
    for (int i = 1; i <= 40; ++i) {
        candidates.push_back(proposal(i, 1, "s0", i <= 31 ? Status::fail : Status::pass,
                                      i <= 31 ? Reason::edit : Reason::not_faster, 1, 1));
        if (i <= 18)  // one kind of message, whatever the numbers in it
            candidates.back().edit_error =
                fmt::format("block {} does not match \"line {}\"\nnearest: ...", i, i * 7);
        else if (i <= 31)
            candidates.back().edit_error = "no code found in the answer";
    }
    const std::vector<std::string> sentences = diagnose(candidates);
    EXPECT_TRUE(says(
        sentences,
        "31 of 40 edits did not apply. The commonest reason (18 of 31): \u201cblock 1 does not "
        "match \"line 7\"\u201d."))
        << all(sentences);
    EXPECT_TRUE(says(
        sentences,
        "31 at fail (edit 31); 0 at compile, built but wrong or stopped; 9 at pass, right but not "
        "shown to be faster (not_faster 9); 0 at fast."))
        << all(sentences);
}

TEST(Diagnosis, all_edits_applied) {
    EXPECT_TRUE(says(diagnose({naive(), proposal(1, 1, "s0", Status::fast, Reason::ok, 2, 2)}),
                     "The one edit applied."));
}

TEST(Diagnosis, repeats_name_how_many_programs) {
    std::vector<Candidate> candidates = {naive()};
    for (int i = 1; i <= 5; ++i)
        candidates.push_back(proposal(i, 1, "s0", Status::pass, Reason::not_faster, 1, 1));
    EXPECT_TRUE(says(diagnose(candidates), "No proposal repeated an earlier program."));
    candidates[3].repeats = candidates[4].repeats = "c1";
    candidates[5].repeats = "s0";
    EXPECT_TRUE(says(diagnose(candidates),
                     "3 of 5 proposals repeated an earlier program (of 2 earlier programs)."));
}

TEST(Diagnosis, our_own_failures_are_not_the_candidates) {
    std::vector<Candidate> candidates = {
        naive(), proposal(1, 1, "s0", Status::fail, Reason::infrastructure, 0, 0),
        proposal(2, 1, "s0", Status::compile, Reason::timeout, 0, 0)};
    candidates[1].evaluation.status.reset();
    const std::vector<std::string> sentences = diagnose(candidates);
    EXPECT_TRUE(says(sentences, "1 has no verdict, because our own side failed."))
        << all(sentences);
    EXPECT_TRUE(says(sentences, "0 at fail; 1 at compile")) << all(sentences);
    EXPECT_TRUE(says(sentences, "0 of 1 judged proposal improved")) << all(sentences);
}

TEST(Diagnosis, gains_within_the_noise_are_luck) {
    std::vector<Candidate> candidates = {
        naive(), proposal(1, 1, "s0", Status::pass, Reason::no_difference_shown, 1.01, 1.01)};
    for (TimeOutcome& session : candidates[1].evaluation.sessions)
        session.noise_floor = 0.021;
    const std::vector<std::string> sentences = diagnose(candidates);
    EXPECT_TRUE(says(
        sentences,
        "The noise floor is 2.1 % (median of 1 timing session, at most 2.1 %); the largest of 1 "
        "measured gain over a parent is 1.0 % ["))
        << all(sentences);
    EXPECT_TRUE(says(sentences, "No gain exceeds the noise")) << all(sentences);
    candidates[1] = proposal(1, 1, "s0", Status::fast, Reason::ok, 2, 2);
    EXPECT_FALSE(says(diagnose(candidates), "No gain exceeds the noise"));
}

TEST(Diagnosis, generations_without_progress) {
    std::vector<Candidate> candidates = {
        naive(), proposal(1, 1, "s0", Status::fast, Reason::ok, 2, 2),
        // its interval reaches below 2: no progress shown
        proposal(2, 2, "c1", Status::fast, Reason::ok, 2.02, 1.01),
        proposal(3, 3, "c1", Status::fail, Reason::build_error, 0, 0),
        proposal(4, 4, "c2", Status::fast, Reason::ok, 4, 2)};
    EXPECT_TRUE(says(diagnose(candidates),
                     "2 of 4 generations brought no candidate whose interval lies above the best "
                     "before it (generations 2, 3). The largest speed-up is 4.00\u00d7 (c4)."))
        << all(diagnose(candidates));
    candidates.resize(2);
    EXPECT_TRUE(says(diagnose(candidates),
                     "The one generation brought a candidate faster than any before it"));
}

TEST(Diagnosis, repair_of_failed_parents) {
    const std::vector<Candidate> candidates = {
        start("s0", Status::compile, Reason::wrong_output, 0),
        proposal(1, 1, "s0", Status::pass, Reason::not_faster, 1, 1),
        proposal(2, 1, "s0", Status::fail, Reason::build_error, 0, 0),
        proposal(3, 2, "c1", Status::fast, Reason::ok, 2, 2)};
    EXPECT_TRUE(
        says(diagnose(candidates), "1 of 2 proposals made from a failed parent reached pass."));
}

TEST(Diagnosis, what_was_cut_and_what_looks_suspicious) {
    std::vector<Candidate> candidates = {
        naive(), proposal(1, 1, "s0", Status::pass, Reason::implausible, 900, 900),
        proposal(2, 1, "s0", Status::pass, Reason::not_faster, 1, 1)};
    candidates[1].evaluation.findings = {{"implausible_time", "faster than the roof"}};
    candidates[1].prompt.sections = {{"program", "", 0}, {"feedback: analyzer", "", 12}};
    const std::vector<std::string> sentences = diagnose(candidates);
    EXPECT_TRUE(
        says(sentences, "In 1 of 2 prompts something was cut to fit: feedback: analyzer 1."))
        << all(sentences);
    EXPECT_TRUE(says(sentences, "1 of 2 proposals carries a finding (implausible_time 1)"))
        << all(sentences);
    EXPECT_FALSE(says(sentences, "900")) << "an implausible time is no gain\n" << all(sentences);
}

TEST(Diagnosis, the_share_that_improved_has_its_interval) {
    const std::vector<Candidate> candidates = {
        naive(), proposal(1, 1, "s0", Status::fast, Reason::ok, 2, 2),
        proposal(2, 1, "s0", Status::pass, Reason::not_faster, 1, 1),
        proposal(3, 1, "s0", Status::fail, Reason::build_error, 0, 0),
        proposal(4, 1, "s0", Status::fail, Reason::build_error, 0, 0)};
    // Wilson, 1 of 4: 4.6 % to 69.9 %.
    EXPECT_TRUE(says(diagnose(candidates),
                     "1 of 4 judged proposals improved on its parent beyond the noise and the "
                     "tolerance (25 % [5 %, 70 %])."))
        << all(diagnose(candidates));
}

}  // namespace
}  // namespace loopscope
