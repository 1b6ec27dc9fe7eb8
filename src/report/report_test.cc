#include "report/report.h"

#include "core/file.h"
#include "core/hash.h"
#include "core/text.h"
#include "report/digest.h"
#include "report/escape.h"
#include "report/example_report.h"
#include "report/figures.h"
#include "report/numbers.h"
#include "report/tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace loopscope {
namespace {

using nlohmann::json;

// A golden file lies in tests/golden/report. UPDATE_GOLDEN=1 rewrites it; a missing one fails.
void expect_golden(const std::string& name, const std::string& actual) {
    const std::filesystem::path path =
        std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() /
        "tests/golden/report" / name;
    if (std::getenv("UPDATE_GOLDEN") != nullptr) {  // NOLINT(concurrency-mt-unsafe): one thread
        std::filesystem::create_directories(path.parent_path());
        ASSERT_TRUE(write_file(path, actual).has_value());
        return;
    }
    const Result<std::string> expected = read_file(path);
    ASSERT_TRUE(expected.has_value()) << path << ": missing; UPDATE_GOLDEN=1 writes it";
    if (*expected == actual)
        return;
    const std::vector<std::string> want = split_lines(*expected);
    const std::vector<std::string> got = split_lines(actual);
    std::size_t line = 0;
    while (line < want.size() && line < got.size() && want[line] == got[line])
        ++line;
    ADD_FAILURE() << path << ":" << line + 1
                  << ": differs (UPDATE_GOLDEN=1 rewrites it)\n  golden: "
                  << (line < want.size() ? want[line] : "(end)")
                  << "\n  actual: " << (line < got.size() ? got[line] : "(end)");
}

stats::Estimate estimate(double value, double half, std::size_t n = 12) {
    return {value, value - half, value + half, half / 2.2, static_cast<double>(n) - 1, n};
}

// An attribution written down by hand: two players, two metrics, with all that is unusual in it.
Attribution small_attribution() {
    Attribution attribution;
    attribution.players = {"debugger", "profiler"};
    attribution.arms = {"{}", "{debugger}", "{profiler}", "{debugger,profiler}"};
    attribution.rollouts = 2;
    attribution.trials_per_rollout = 1;
    attribution.contexts = 12;
    attribution.lineages = 3;
    attribution.missing_by_arm = {0, 0, 0.125, 0};
    for (const Metric metric : {Metric::pass, Metric::gain}) {
        GameEstimate game;
        game.metric = metric;
        game.contexts = 12;
        game.clusters = 12;
        game.exploratory = metric != Metric::pass;
        const double scale = metric == Metric::pass ? 1 : 0.5;
        for (const double value : {0.25, 0.5, 0.375, 0.625})
            game.value.push_back(estimate(scale * value, 0.125));
        game.shapley = {{1, estimate(scale * 0.25, 0.125), false, 0, 0.0004, 0.0008},
                        {2, estimate(scale * 0.125, 0.1875), true, 0, 0.21, 0.21}};
        game.banzhaf = game.shapley;
        game.interactions = {{3, estimate(0, 0), false, metric == Metric::pass ? 12 : 5, 1, 1}};
        attribution.games.push_back(game);
        if (metric == Metric::pass) {
            game.exploratory = true;
            game.stratum = "fail";
            game.contexts = 1;
            for (IndexEstimate& index : game.shapley) {
                index.estimate.n = 1;
                index.estimate.low = -std::numeric_limits<double>::infinity();
                index.estimate.high = std::numeric_limits<double>::infinity();
            }
            game.banzhaf.clear();
            game.interactions.clear();
            attribution.games.push_back(game);
            game.stratum.clear();
            game.generation = 2;
            attribution.games.push_back(game);
        }
    }
    ArmComparison comparison;
    comparison.arm_a = 1;
    comparison.arm_b = 0;
    comparison.difference = estimate(0.25, 0.125);
    comparison.p_t = 0.0007;
    comparison.p_sign_flip = 0.002;
    comparison.adjusted_p = 0.004;
    comparison.contexts = 12;
    attribution.comparisons.push_back(comparison);
    comparison.arm_a = 2;
    comparison.difference = estimate(0, 0);
    comparison.structurally_zero = 12;
    comparison.adjusted_p = 1;
    attribution.comparisons.push_back(comparison);
    attribution.warnings = {"12 contexts of 3 lineages"};
    return attribution;
}

ReportData small_report() {
    using testing::proposal;
    using testing::start;
    ReportData data;
    data.study = "i0123456789";
    data.kind = "intervene";
    data.task_name = "saxpy";
    data.objective = "faster";
    data.question = "Does the debugger help?";
    data.config = R"({"seed":11,"rollouts":2})";
    data.state = "done";
    data.candidates = {start("s0", Status::pass, Reason::not_faster, 1),
                       proposal(1, 1, "s0", Status::fail, Reason::edit, 0, 0),
                       proposal(2, 1, "s0", Status::compile, Reason::wrong_output, 0, 0),
                       proposal(3, 1, "s0", Status::fast, Reason::ok, 2, 2),
                       proposal(4, 2, "c3", Status::pass, Reason::no_difference_shown, 1.25, 0.625),
                       proposal(5, 2, "c3", Status::fail, Reason::infrastructure, 0, 0)};
    data.candidates[1].edit_error = "no code found in the answer";
    data.candidates[5].evaluation.status.reset();
    data.best = "c3";
    data.best_start = "naive";
    data.best_start_program = testing::program("int a;\n");
    data.candidates[3].program = testing::program("int b;\n");
    data.best_diff = "--- a/matmul.cc\n+++ b/matmul.cc\n@@ -1,1 +1,1 @@\n-int a;\n+int b;\n";
    data.peers = {{"OpenBLAS", "c3", testing::ratio(0.5, 0.02), "n=250"}};
    data.machine = "a CPU";
    data.roof_flops_per_second = 64e9;
    data.attribution = small_attribution();
    data.players = data.attribution->players;
    for (std::uint32_t coalition = 0; coalition < 4; ++coalition) {
        Arm arm;
        arm.name = data.attribution->arms[coalition];
        arm.coalition = coalition;
        arm.planner = arm.coder = "openai:m";
        data.arms.push_back(arm);
    }
    data.costs = {{"coder", "openai:m", 1234, 56789, 100, 2345, 7, 1.25, 61, 3},
                  {"planner", "openai:other", 10, 20, 0, 30, 0, std::nullopt, 0.5, 0}};
    data.diagnosis = diagnose(data.candidates);
    return data;
}

std::size_t count(const std::string& text, const std::string& what) {
    std::size_t n = 0;
    for (std::size_t at = text.find(what); at != std::string::npos;
         at = text.find(what, at + what.size()))
        ++n;
    return n;
}

// What a browser runs or draws from is in <script> and <style>; the rest is what a reader sees.
std::string without_scripts(std::string html) {
    for (const auto& [open, close] :
         {std::pair{"<script", "</script>"}, std::pair{"<style", "</style>"}}) {
        for (std::size_t at = html.find(open); at != std::string::npos; at = html.find(open)) {
            const std::size_t end = html.find(close, at);
            html.erase(at, end == std::string::npos ? std::string::npos
                                                    : end - at + std::string(close).size());
        }
    }
    return html;
}

TEST(ReportGolden, json) { expect_golden("small.json", json_report(small_report())); }
TEST(ReportGolden, csv) { expect_golden("small.csv", csv_report(small_report())); }
TEST(ReportGolden, text) { expect_golden("small.txt", text_report(small_report())); }
TEST(ReportGolden, ascii) { expect_golden("small_ascii.txt", text_report(small_report(), true)); }

TEST(ReportGolden, figures) {
    const ReportData data = small_report();
    std::vector<Figure> figures;
    for (const auto& make : {learning_curve_figure, outcome_figure, attribution_figures,
                             interaction_figures, comparison_figures})
        for (const Figure& figure : make(data))
            figures.push_back(figure);
    std::vector<std::string> names;
    for (const Figure& figure : figures) {
        names.push_back(figure.name);
        EXPECT_FALSE(figure.description.empty()) << figure.name;
        expect_golden(figure.name + ".vg.json", json::parse(figure.spec).dump(1) + "\n");
    }
    EXPECT_EQ(names, (std::vector<std::string>{"learning-curve", "outcomes", "attribution-pass",
                                               "attribution-gain", "interactions-pass",
                                               "interactions-gain", "comparison-pass"}));
}

// The page without the parts that other golden files and the browser test cover.
TEST(ReportGolden, page) {
    expect_golden("small_page.html", without_scripts(html_report(small_report())));
}

TEST(Report, same_data_same_bytes) {
    const ReportData data = testing::example_report();
    EXPECT_EQ(html_report(data), html_report(testing::example_report()));
    EXPECT_EQ(json_report(data), json_report(testing::example_report()));
    EXPECT_EQ(csv_report(data), csv_report(testing::example_report()));
    EXPECT_EQ(text_report(data), text_report(testing::example_report()));
}

TEST(Report, the_example_has_every_part) {
    const std::string html = html_report(testing::example_report());
    for (const char* id :
         {"asked", "diagnosis", "curve", "generations", "best", "attribution", "interactions",
          "comparisons", "exploratory", "cost", "limits", "reproduce"}) {
        EXPECT_EQ(count(html, fmt::format("<section id=\"{}\"", id)), 1U) << id;
        EXPECT_EQ(count(html, fmt::format("href=\"#{}\"", id)), 1U) << id;
    }
    EXPECT_NE(html.find("c29: 14.3\u00d7"), std::string::npos);
    EXPECT_NE(html.find("0.410\u00d7"), std::string::npos) << "the peer's ratio";
    EXPECT_NE(html.find(">unknown</td>"), std::string::npos) << "an unknown price";
    EXPECT_NE(html.find("$0 + unknown"), std::string::npos) << "a total that is not known";
    EXPECT_NE(html.find("exploratory"), std::string::npos);
    EXPECT_NE(html.find("not a language model"), std::string::npos);
    EXPECT_NE(html.find("<del class=\"removed\">-void matmul(int n, const float* a,"),
              std::string::npos);
    EXPECT_NE(html.find("<ins class=\"added\">+    constexpr int tile = 64;"), std::string::npos);
}

TEST(Report, asks_nothing_of_the_network) {
    const std::string html = html_report(testing::example_report());
    EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
    const std::string page = without_scripts(html);
    EXPECT_EQ(page.find("src="), std::string::npos);
    EXPECT_EQ(page.find("url("), std::string::npos);
    EXPECT_EQ(page.find("<link"), std::string::npos);
    EXPECT_EQ(page.find("href=\"http"), std::string::npos);
}

TEST(Report, scripts_are_those_that_the_policy_names) {
    const std::string html = html_report(testing::example_report());
    std::size_t scripts = 0;
    for (std::size_t at = html.find("<script>"); at != std::string::npos;
         at = html.find("<script>", at + 1)) {
        const std::size_t begin = at + 8;
        const std::string body = html.substr(begin, html.find("</script>", begin) - begin);
        const std::string source = "sha256-" + base64_of_hex(sha256_hex(body));
        EXPECT_NE(html.find(source), std::string::npos);
        ++scripts;
    }
    EXPECT_EQ(scripts, 2U);
    EXPECT_EQ(html.find("unsafe-eval"), std::string::npos);
    EXPECT_EQ(html.find("sourceMappingURL"), std::string::npos);
}

TEST(Report, labels_what_a_builtin_model_made) {
    ReportData data = small_report();
    const std::string label = "made with builtin:rules, not a language model";
    EXPECT_EQ(html_report(data).find("<span class=\"builtin\">"), std::string::npos);
    EXPECT_EQ(html_report(data).find("language model"), std::string::npos);
    data.builtin_models = {"builtin:rules"};
    for (const auto& make : {learning_curve_figure, outcome_figure, attribution_figures,
                             interaction_figures, comparison_figures})
        for (const Figure& figure : make(data))
            EXPECT_NE(figure.spec.find(label), std::string::npos) << figure.name;
    EXPECT_EQ(count(html_report(data), "<span class=\"builtin\">"), 5U);
    EXPECT_NE(text_report(data).find("builtin:rules"), std::string::npos);
    EXPECT_NE(csv_report(data).find("builtin:rules"), std::string::npos);
    EXPECT_EQ(json::parse(json_report(data))["builtin_models"], json::array({"builtin:rules"}));
}

TEST(Report, a_run_without_attribution) {
    ReportData data = small_report();
    data.attribution.reset();
    data.arms.clear();
    data.players.clear();
    const std::string html = html_report(data);
    for (const char* id : {"attribution", "interactions", "comparisons", "exploratory"})
        EXPECT_EQ(html.find(fmt::format("id=\"{}\"", id)), std::string::npos) << id;
    EXPECT_EQ(count(html, "data-figure="), 2U);
    EXPECT_TRUE(json::parse(json_report(data))["attribution"].is_null());
    EXPECT_EQ(csv_report(data).find("# indices"), std::string::npos);
    EXPECT_EQ(text_report(data).find("Worth of each component"), std::string::npos);
}

TEST(Report, an_intervention_without_candidates) {
    ReportData data = small_report();
    data.candidates.clear();
    data.best.clear();
    data.diagnosis.clear();
    data.peers.clear();
    const std::string html = html_report(data);
    for (const char* id : {"diagnosis", "curve", "generations", "best"})
        EXPECT_EQ(html.find(fmt::format("<section id=\"{}\"", id)), std::string::npos) << id;
    EXPECT_NE(html.find("<section id=\"attribution\""), std::string::npos);
    EXPECT_EQ(csv_report(data).find("# candidates"), std::string::npos);
    EXPECT_EQ(text_report(data).find("Best speed-up"), std::string::npos);
}

TEST(Report, nothing_at_all) {
    const ReportData data;
    const std::string html = html_report(data);
    EXPECT_NE(html.find("script-src 'none'"), std::string::npos);
    EXPECT_EQ(html.find("<script"), std::string::npos);
    EXPECT_FALSE(json::parse(json_report(data)).empty());
    EXPECT_FALSE(csv_report(data).empty());
    EXPECT_FALSE(text_report(data).empty());
}

TEST(Report, only_starts) {
    ReportData data;
    data.candidates = {testing::start("s0", Status::pass, Reason::not_faster, 1)};
    const std::string html = html_report(data);
    EXPECT_EQ(html.find("data-figure="), std::string::npos);
    EXPECT_EQ(html.find("id=\"generations\""), std::string::npos);
    EXPECT_NE(html.find("Every candidate, in order of proposal"), std::string::npos);
}

TEST(Report, one_generation_and_no_success) {
    ReportData data;
    data.candidates = {testing::start("s0", Status::pass, Reason::not_faster, 1),
                       testing::proposal(1, 1, "s0", Status::fail, Reason::build_error, 0, 0)};
    data.candidates[0].evaluation.speedup.reset();
    ASSERT_EQ(learning_curve_figure(data).size(), 1U);
    const json curve = json::parse(learning_curve_figure(data)[0].spec);
    EXPECT_TRUE(curve["data"][0]["values"].empty());
    EXPECT_TRUE(curve["data"][1]["values"].empty());
    EXPECT_EQ(curve["data"][2]["values"].size(), 2U);
    const json outcomes = json::parse(outcome_figure(data)[0].spec);
    EXPECT_EQ(outcomes["marks"][0]["type"], "rect");
}

TEST(Report, a_part_done_study_says_so) {
    ReportData data = small_report();
    data.state = "stopped: budget of $2 reached";
    EXPECT_NE(html_report(data).find("<strong>Part-done.</strong>"), std::string::npos);
    EXPECT_NE(limits_of(data)[0].find("stopped: budget of $2 reached"), std::string::npos);
    EXPECT_NE(text_report(data).find("budget of $2"), std::string::npos);
}

// Everything that a model or a user can have written, hostile.
ReportData hostile_report() {
    const std::string bad =
        "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&<!-- \xff\xfe \x1b[31m "
        "\u202e \u2028 ]]>";
    ReportData data = small_report();
    data.study = data.kind = data.task_name = data.objective = data.question = data.state =
        data.machine = bad;
    data.command = bad;
    data.config = json{{"seed", "</script><b>"}, {"x", "<!--"}}.dump();
    data.builtin_models = {bad};
    for (Candidate& candidate : data.candidates) {
        candidate.plan = candidate.answer = bad;
        candidate.edit_error = candidate.edit_error.empty() ? "" : bad;
        candidate.components = {bad};
        candidate.evaluation.device = candidate.evaluation.trust = bad;
        candidate.evaluation.message = candidate.evaluation.build_log = bad;
        candidate.evaluation.findings = {{bad, bad}};
        candidate.evaluation.metrics = {{bad, 1.5}};
        candidate.evaluation.cases = {{bad, bad, false, 2, bad}};
        for (TimeOutcome& outcome : candidate.evaluation.sessions)
            for (SizeTiming& size : outcome.sizes)
                size.sizes = bad;
        if (candidate.id == "c3")
            candidate.id = bad;
        if (candidate.parent == "c3")
            candidate.parent = bad;
        candidate.program.files = {{bad, bad}};
    }
    data.best = data.best_start = bad;
    data.best_start_program.files = {{bad, "x"}};
    data.best_diff =
        "--- a/" + bad + "\n+++ b\n@@ -1 +1 @@\n-" + bad + "\n+" + bad + "\n " + bad + "\n";
    data.peers[0].peer = data.peers[0].candidate = data.peers[0].sizes = bad;
    data.players = data.attribution->players = {bad, bad + "2"};
    data.attribution->warnings = {bad};
    data.attribution->games[0].setting = bad;
    for (Arm& arm : data.arms)
        arm.name = arm.planner = arm.coder = bad;
    for (CostLine& line : data.costs)
        line.role = line.model = bad;
    data.limits = {bad};
    data.diagnosis = diagnose(data.candidates);
    data.diagnosis.push_back(bad);
    return data;
}

TEST(ReportEscaping, hostile_text_stays_text) {
    const ReportData data = hostile_report();
    const std::string html = html_report(data);
    EXPECT_EQ(html.find("<img"), std::string::npos);
    EXPECT_EQ(html.find("<b>"), std::string::npos);
    EXPECT_EQ(html.find("alert(1)</script>"), std::string::npos);
    EXPECT_EQ(html.find("<script>alert"), std::string::npos);
    EXPECT_EQ(html.find('\xff'), std::string::npos);
    EXPECT_EQ(html.find('\x1b'), std::string::npos);
    EXPECT_EQ(html.find("\u202e"), std::string::npos);
    EXPECT_NE(html.find("[U+202E]"), std::string::npos);
    // As many script elements as we wrote, each with its end; no comment began in one.
    EXPECT_EQ(count(html, "<script"), count(html, "</script>"));
    EXPECT_EQ(count(html, "<script>"), 2U);
    EXPECT_EQ(html.find("<!--"), std::string::npos);
    // The figures' data survive: what was written is what a browser will parse.
    std::size_t specs = 0;
    for (std::size_t at = html.find("<script type=\"application/json\""); at != std::string::npos;
         at = html.find("<script type=\"application/json\"", at + 1)) {
        const std::size_t begin = html.find('>', at) + 1;
        const json spec =
            json::parse(html.substr(begin, html.find("</script>", begin) - begin), nullptr, false);
        ASSERT_FALSE(spec.is_discarded());
        ++specs;
    }
    EXPECT_EQ(specs, 7U);
}

TEST(ReportEscaping, terminals_and_spreadsheets) {
    ReportData data = hostile_report();
    data.costs[0].role = "=HYPERLINK(\"http://x\")";
    const std::string text = text_report(data);
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    const std::string csv = csv_report(data);
    EXPECT_EQ(csv.find('\x1b'), std::string::npos);
    EXPECT_NE(csv.find("\"'=HYPERLINK(\"\"http://x\"\")\""), std::string::npos);
    EXPECT_FALSE(json::parse(json_report(data)).empty());
}

TEST(ReportEscaping, pieces) {
    EXPECT_EQ(html_escape("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
    EXPECT_EQ(clean("a\r\nb\tc\x07"), "a\nb\tc\ufffd");
    EXPECT_EQ(clean("\xc0\xaf"), "\ufffd\ufffd") << "an overlong slash";
    EXPECT_EQ(clean("\xed\xa0\x80"), "\ufffd\ufffd\ufffd") << "a surrogate";
    EXPECT_EQ(clean("\xe2\x82"), "\ufffd\ufffd") << "a cut sequence";
    EXPECT_EQ(clean("\u20ac \U0001F600"), "\u20ac \U0001F600");
    const std::string hostile = json{{"k", "</script><!-- & \u2028"}}.dump();
    EXPECT_EQ(json_for_script(hostile).find_first_of("<>&"), std::string::npos);
    EXPECT_EQ(json::parse(json_for_script(hostile)), json::parse(hostile));
    EXPECT_EQ(base64_of_hex("4d616e"), "TWFu");
    EXPECT_EQ(base64_of_hex("4d61"), "TWE=");
    EXPECT_EQ(base64_of_hex("4d"), "TQ==");
    EXPECT_EQ(csv_field("-1.5e-3"), "-1.5e-3");
    EXPECT_EQ(csv_field("-x"), "'-x");
    EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
}

TEST(ReportNumbers, digits_and_units) {
    EXPECT_EQ(times_text(1.0), "1.00\u00d7");
    EXPECT_EQ(times_text(0.4112), "0.411\u00d7");
    EXPECT_EQ(times_text(14.26), "14.3\u00d7");
    EXPECT_EQ(times_text(9.999), "10.0\u00d7");
    EXPECT_EQ(times_text(123.4), "123\u00d7");
    EXPECT_EQ(times_text(Ratio{2, 1.9, 2.1, 5, 0.95}), "2.00\u00d7 [1.90, 2.10]");
    EXPECT_EQ(times_text(Ratio{2, 2, 2, 1, 0.95}), "2.00\u00d7 [no interval]");
    EXPECT_EQ(seconds_text(0.00123), "1.23 ms");
    EXPECT_EQ(seconds_text(3e-8), "30.0 ns");
    EXPECT_EQ(seconds_text(1200), "20.0 min");
    EXPECT_EQ(rate_text(12.34e9, "FLOP/s"), "12.3 GFLOP/s");
    EXPECT_EQ(percent_text(0.625, 1), "62.5 %");
    EXPECT_EQ(money_text(std::nullopt), "unknown");
    EXPECT_EQ(money_text(0.0), "$0");
    EXPECT_EQ(money_text(1.257), "$1.26");
    EXPECT_EQ(money_text(0.01234), "$0.0123");
    EXPECT_EQ(count_text(std::int64_t{1234567}), "1,234,567");
    EXPECT_EQ(count_text(std::int64_t{999}), "999");
    EXPECT_EQ(p_text(0.0004), "< 0.001");
    EXPECT_EQ(fixed_text(-0.0001, 2), "0.00") << "no minus before a zero";
    EXPECT_EQ(signed_text(0.0001, 2), "0.00");
    EXPECT_EQ(effect_text(Metric::pass, {0.125, -0.03125, 0.25, 0, 0, 5}),
              "+12.5 [\u22123.1, +25.0]");
    EXPECT_EQ(effect_text(Metric::gain, {0.125, 0.1, 0.15, 0, 0, 5}), "+0.125 [+0.100, +0.150]");
    const double infinite = std::numeric_limits<double>::infinity();
    EXPECT_EQ(effect_text(Metric::pass, {0.5, -infinite, infinite, 0, 0, 1}),
              "+50.0 [no interval]");
    EXPECT_EQ(to_ascii("2\u00d7 \u2212 \u201cx\u201d \u20ac"), "2x - \"x\" ?");
    EXPECT_EQ(clip("abcdef", 4), "abc\u2026");
    EXPECT_EQ(clip("\u20ac\u20ac\u20ac", 2), "\u20ac\u2026");
}

TEST(ReportText, at_most_100_columns) {
    for (const ReportData& data : {small_report(), testing::example_report(), hostile_report()}) {
        for (const bool ascii : {false, true}) {
            for (const std::string& line : split_lines(text_report(data, ascii))) {
                EXPECT_LE(width_of(line), 100U) << line;
                if (ascii) {
                    EXPECT_TRUE(std::ranges::all_of(line, [](char c) {
                        return c >= ' ' && c <= '~';
                    })) << line;
                }
            }
        }
    }
}

TEST(ReportFigures, structurally_zero_is_no_number) {
    const json spec = json::parse(interaction_figures(small_report())[0].spec);
    EXPECT_EQ(spec["data"][0]["values"][0]["first"], "structurally");
    EXPECT_EQ(spec["data"][0]["values"][0]["zero"], true);
    const Table table = interactions_table(small_report());
    EXPECT_EQ(table.rows[0][2].text, "structurally zero");
    EXPECT_EQ(table.rows[1][2].text, "0.000 [0.000, 0.000]");
    EXPECT_EQ(table.rows[1][6].text, "zero by construction in 5 of 12 contexts; exploratory");
    EXPECT_EQ(comparisons_table(small_report()).rows[1][3].text, "structurally zero");
}

TEST(ReportFigures, the_three_shares_have_one_scale) {
    std::vector<json> domains;
    for (const Figure& figure : attribution_figures(testing::example_report()))
        domains.push_back(json::parse(figure.spec)["scales"][0]["domain"]);
    ASSERT_EQ(domains.size(), 4U);
    EXPECT_EQ(domains[0], domains[1]);
    EXPECT_EQ(domains[1], domains[2]);
    EXPECT_NE(domains[2], domains[3]);
}

TEST(ReportFigures, areas_fill_each_generation) {
    const ReportData data = testing::example_report();
    const json spec = json::parse(outcome_figure(data)[0].spec);
    std::map<std::string, double> top;
    for (const json& row : spec["data"][0]["values"]) {
        EXPECT_DOUBLE_EQ(row["from"].get<double>(), top[row["generation"]]);
        top[row["generation"]] = row["to"];
    }
    EXPECT_EQ(top.size(), 6U);
    for (const auto& [generation, share] : top)
        EXPECT_DOUBLE_EQ(share, 1) << generation;
}

TEST(ReportDigest, verdicts_of_two_devices_are_not_pooled) {
    ReportData data = small_report();
    data.candidates[4].evaluation.device = "pocl";
    const Pool pool = pool_of(data);
    EXPECT_EQ(pool.left_out, 1U);
    EXPECT_EQ(pool.device, "cpu");
    EXPECT_TRUE(std::ranges::any_of(limits_of(data), [](const std::string& limit) {
        return limit.find("1 candidate was judged on another device") != std::string::npos;
    }));
    EXPECT_EQ(outcomes_in_all(pool).with_verdict, 3U);
}

TEST(ReportDigest, a_circle_of_parents_ends) {
    std::vector<Candidate> candidates(2);
    candidates[0].id = "a";
    candidates[0].parent = "b";
    candidates[1].id = "b";
    candidates[1].parent = "a";
    EXPECT_EQ(ancestry(candidates, "a").size(), 2U);
    EXPECT_TRUE(ancestry(candidates, "none").empty());
}

TEST(ReportDigest, an_implausible_time_is_never_the_best) {
    ReportData data = small_report();
    data.candidates[3].evaluation.status = Status::pass;
    data.candidates[3].evaluation.reason = Reason::implausible;
    const std::vector<CurvePoint> curve = learning_curve(pool_of(data));
    EXPECT_DOUBLE_EQ(curve.back().best_so_far, 1.25 * 1.01);
}

TEST(ReportExample, written_where_asked) {
    const char* path =
        std::getenv("LOOPSCOPE_EXAMPLE_REPORT");  // NOLINT(concurrency-mt-unsafe): one thread
    if (path == nullptr)
        GTEST_SKIP() << "LOOPSCOPE_EXAMPLE_REPORT names no file";
    const ReportData data = testing::example_report();
    ASSERT_TRUE(data.attribution.has_value());
    ASSERT_TRUE(write_file(path, html_report(data)).has_value());
    const std::filesystem::path hostile =
        std::filesystem::path(path).replace_extension(".hostile.html");
    ASSERT_TRUE(write_file(hostile, html_report(hostile_report())).has_value());
    const std::filesystem::path text = std::filesystem::path(path).replace_extension(".txt");
    ASSERT_TRUE(write_file(text, text_report(data)).has_value());
}

}  // namespace
}  // namespace loopscope
