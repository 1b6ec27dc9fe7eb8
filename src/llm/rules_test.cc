// builtin:rules as its callers see it: prompts in, answers out.
#include "llm/rules.h"

#include "core/result.h"
#include "llm/model.h"
#include "llm/rules_facts.h"
#include "llm/rules_plan.h"
#include "llm/rules_repair.h"
#include "llm/rules_syntax.h"
#include "program/edit.h"
#include "record/prompt.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {
namespace {

const std::string matmul =
    R"(extern "C" void matmul(int n, const float* a, const float* b, float* c) {
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) {
            float sum = 0.0f;
            for (int k = 0; k < n; ++k)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
    }
}
)";

const std::string analyzer = R"(function matmul (line 1): 3 loops, deepest nest 3
loop i (depth 1, line 2): 0 <= i < n, step 1
  loop j (depth 2, line 3): 0 <= j < n, step 1
    access c[i * n + j] (write): stride 1 in j, n in i
    loop k (depth 3, line 5): 0 <= k < n, step 1; 1 add, 1 multiply per iteration; accumulates into sum (+)
      access a[i * n + k] (read): stride 1 in k, 0 in j, n in i
      access b[k * n + j] (read): stride n in k, 1 in j, 0 in i
locality: b[k * n + j] (line 6) moves n elements of 4 bytes per iteration of k: a new cache line each time, of which 4 of 64 bytes are used before it may be evicted; it is contiguous in j
locality: with j innermost instead of k, 3 of 3 accesses of line 5 would have stride 0 or 1 (now 1)
line 5: loop not vectorized: cannot prove it is safe to reorder floating-point operations
)";

const std::string profiler =
    R"(n=250: 0.81 GFLOP/s, 0.7 % of this core's roof (110.0), 38.6 ms a call, 1.00 times the baseline's speed (0.99 to 1.01)
  compute-bound by its arithmetic: 41.7 flop/byte, the roof turns at 5.2; attainable 110.0 GFLOP/s, working set 732.4 KB
  it reaches 0.7 % of that: the time goes elsewhere (latency, scalar code, cache misses)
cache simulation at n=250 (D1 32 KB, 8-way): 78000000 instructions, 31000000 data accesses
D1 miss rate 48.9 % (reads 49.0 %, writes 3.0 %), LL miss rate 0.0 %
2.51 instructions a flop: mostly scalar code or overhead
hot: matmul.cc:6 97 % of instructions, D1 miss rate 50.0 %, 99.9 % of all D1 misses | sum += a[i * n + k] * b[k * n + j];
)";

struct Shown {
    std::string source = matmul;
    std::string status = "pass (not_faster), 1.00 times the baseline's speed";
    std::string debugger, analyzer, profiler, plan, history;
    std::string function = "matmul";
};

ModelRequest request(Role role, const Shown& shown, int draw) {
    Prompt prompt;
    prompt.role = role;
    prompt.sections.push_back({"objective", "Make it fast.", 0});
    prompt.sections.push_back(
        {"interface",
         fmt::format("Language: cpp.\nEditable: function {0} in {0}.cc.\n", shown.function), 0});
    prompt.sections.push_back({"status", shown.status, 0});
    prompt.sections.push_back(
        {"program", fmt::format("```cpp file={}.cc\n{}```\n", shown.function, shown.source), 0});
    prompt.sections.push_back({"history", shown.history, 0});
    prompt.sections.push_back({"feedback: debugger", shown.debugger, 0});
    prompt.sections.push_back({"feedback: analyzer", shown.analyzer, 0});
    prompt.sections.push_back({"feedback: profiler", shown.profiler, 0});
    prompt.sections.push_back({"plan", shown.plan, 0});
    prompt.sections.push_back({"task", "Answer.", 0});
    ModelRequest out;
    out.role = role;
    out.messages.push_back({"system", "You are a performance engineer."});
    out.messages.push_back({"user", render(prompt)});
    out.draw = fmt::format("seed 1 draw {}", draw);
    return out;
}

std::string plan_of(const Shown& shown, int draw) {
    return rules_answer(request(Role::planner, shown, draw));
}

bool has(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

int count(const Shown& shown, std::string_view part, int draws = 30) {
    int found = 0;
    for (int draw = 0; draw < draws; ++draw)
        found += has(plan_of(shown, draw), part) ? 1 : 0;
    return found;
}

// The coder's program for the planner's plan.
Result<Program> proposal(Shown shown, int draw) {
    shown.plan = plan_of(shown, draw);
    shown.debugger = shown.analyzer = shown.profiler = "";
    const std::string answer = rules_answer(request(Role::coder, shown, draw));
    Program parent;
    parent.files[shown.function + ".cc"] = shown.source;
    EditRules rules;
    rules.editable = {{shown.function + ".cc", shown.function}};
    return apply_answer(parent, rules, answer);
}

std::string text_of(const Result<Program>& program) {
    return program ? program->files.begin()->second : "ERROR " + to_text(program.error());
}

TEST(Rules, AnswersAreAFunctionOfMessagesAndDraw) {
    Shown shown;
    std::set<std::string> plans;
    for (int draw = 0; draw < 40; ++draw) {
        const std::string plan = plan_of(shown, draw);
        EXPECT_EQ(plan, plan_of(shown, draw));
        plans.insert(plan);
        EXPECT_TRUE(has(plan, "1. ")) << plan;
    }
    EXPECT_GT(plans.size(), 10U);  // different draws explore
    Shown other = shown;
    other.status += " ";
    int equal = 0;
    for (int draw = 0; draw < 40; ++draw)
        equal += plan_of(shown, draw) == plan_of(other, draw) ? 1 : 0;
    EXPECT_LT(equal, 20);
}

TEST(Rules, EveryPlanIsReadBackAndGivesAnApplicableAnswer) {
    Shown blind;
    Shown informed;
    informed.analyzer = analyzer;
    informed.profiler = profiler;
    for (const Shown& shown : {blind, informed})
        for (int draw = 0; draw < 25; ++draw) {
            const Result<Program> got = proposal(shown, draw);
            EXPECT_TRUE(got) << plan_of(shown, draw) << text_of(got);
        }
}

TEST(Rules, CoderWithoutPlanDecidesItself) {
    Shown shown;
    shown.analyzer = analyzer;
    const std::string answer = rules_answer(request(Role::coder, shown, 1));
    EXPECT_TRUE(has(answer, "```cpp file=matmul.cc\n")) << answer;
    shown.plan = "1. Do something clever.\n";  // not understood: as without
    EXPECT_TRUE(has(rules_answer(request(Role::coder, shown, 1)), "```cpp file=matmul.cc\n"));
}

TEST(Rules, CoderFollowsAModelsOwnWords) {
    Shown shown;
    shown.plan =
        "Here is what I would do.\n\n1. **Swap the j and k loops** so that b is read row by row; "
        "split the initialisation off.\n"
        "2) Then unroll the innermost loop j by 4.\n";
    const std::string answer = rules_answer(request(Role::coder, shown, 3));
    EXPECT_TRUE(has(answer, "c[i * n + j] += a[i * n + k] * b[k * n + j];")) << answer;
    EXPECT_TRUE(has(answer, "j += 4")) << answer;
}

TEST(Rules, InformationChangesTheChoice) {
    Shown blind;
    Shown with_analyzer;
    with_analyzer.analyzer = analyzer;
    Shown with_profiler;
    with_profiler.profiler = profiler;
    const int useful_blind =
        count(blind, "Interchange loops j (line 3) and k (line 5) of matmul, splitting") +
        count(blind, "register tiles");
    const int useful_analyzer =
        count(with_analyzer, "Interchange loops j (line 3) and k (line 5) of matmul, splitting") +
        count(with_analyzer, "register tiles");
    const int useful_profiler =
        count(with_profiler, "Interchange loops j") + count(with_profiler, "register tiles");
    EXPECT_GT(useful_analyzer, 2 * useful_blind);
    EXPECT_GT(useful_profiler, useful_blind);
    // Blind plans are sometimes illegal: the loops are not closely nested.
    EXPECT_GT(count(blind, "Interchange loops j (line 3) and k (line 5) of matmul."), 0);
    EXPECT_EQ(count(with_analyzer, "Interchange loops j (line 3) and k (line 5) of matmul."), 0);
    // The reason is given.
    EXPECT_GT(count(with_analyzer, "with j innermost instead of k"), 12);
}

TEST(Rules, WhatWasTriedIsLessLikely) {
    Shown shown;
    shown.analyzer = analyzer;
    const std::string_view interchange =
        "1. Interchange loops j (line 3) and k (line 5) of matmul, splitting off";
    const int before = count(shown, interchange, 40);
    shown.history =
        "- c1: pass (not_faster); plan: 1. Interchange loops j (line 3) and k (line 5) of matmul, "
        "splitting off the initialisation.\n";
    EXPECT_LT(count(shown, interchange, 40), before);
}

// Braces and white space as the rules print them.
std::string canonical(const std::string& source) {
    const Result<rules::Function> f = rules::parse_function(source, "matmul");
    return f ? rules::print(*f) : source;
}

struct Broken {
    std::string right, wrong, status, debugger;
};

TEST(Rules, DebuggerNamesTheRepair) {
    const std::vector<Broken> cases = {
        {"i < n", "i <= n", "compile (memory)",
         "AddressSanitizer: heap-buffer-overflow: read of 4 bytes by a[i * n + k], 0 bytes after "
         "the end of a (4 elements) at matmul.cc:6:24 in matmul, sizes n=2\n"},
        {"b[k * n", "b[k * stride", "fail (build_error)",
         "matmul.cc:6:45: error: use of undeclared identifier 'stride'\n"},
        {"k * n + j];", "k * n + j]", "fail (build_error)",
         "matmul.cc:6:52: error: expected ';' after expression\n"},
        {"sum = 0.0f;", "sum;", "compile (wrong_output)",
         "matmul.cc:6:17: warning: variable 'sum' is uninitialized when used here "
         "[-Wuninitialized]\n"},
    };
    for (const Broken& c : cases) {
        Shown shown;
        shown.status = c.status;
        shown.source.replace(shown.source.find(c.right), c.right.size(), c.wrong);
        shown.debugger = c.debugger;
        int repaired = 0;
        for (int draw = 0; draw < 20; ++draw)
            repaired += canonical(text_of(proposal(shown, draw))) == canonical(matmul) ? 1 : 0;
        EXPECT_GE(repaired, 14) << c.debugger << plan_of(shown, 0) << text_of(proposal(shown, 0));
        // Without the debugger it guesses.
        shown.debugger = "";
        int guessed = 0;
        for (int draw = 0; draw < 20; ++draw)
            guessed += canonical(text_of(proposal(shown, draw))) == canonical(matmul) ? 1 : 0;
        EXPECT_LT(guessed, 10) << c.wrong;
    }
}

TEST(Rules, DebuggerOnWrongResults) {
    Shown shown;
    shown.status = "compile (wrong_output)";
    shown.source =
        "extern \"C\" void matmul(int n, const float* a, const float* b, float* c) {\n    for (int "
        "i = 0; i < n; ++i)\n"
        "        for (int k = 0; k < n; ++k)\n            for (int j = 0; j < n; ++j)\n"
        "                c[i * n + j] += a[i * n + k] * b[k * n + j];\n}\n";
    shown.debugger =
        "wrong_output: at n=1, uniform: c[0] = nan, expected 0.25 (1 of 1 elements wrong)\n"
        "matmul.cc:5:17: c[i * n + j] reads the output c before anything is written to it: its "
        "contents are undefined when the function is called, so it must be set first\n";
    EXPECT_GE(count(shown, "Set `c` to zero in matmul before it is accumulated."), 22);
    EXPECT_TRUE(has(text_of(proposal(shown, 1)), "c[i * n + j] = 0.0f;"));
    shown.source =
        "extern \"C\" void matmul(int n, const float* x, float* a) {\n    for (int i = 0; i < n; "
        "++i) {\n        float s = 0;\n"
        "        for (int j = 0; j < n; ++j)\n            s += x[i] - x[j];\n        a[i] = s;\n   "
        " }\n}\n";
    shown.debugger = "wrong_output: at n=3: a[0] = -2.5, expected 2.5 (3 of 3 elements wrong)\n";
    EXPECT_GE(count(shown, "Swap the operands of the differences"), 22);
}

TEST(Rules, OddProgramsAreLeftAlone) {
    for (const std::string& source :
         {std::string(""), std::string("int x;\n"),
          std::string("void matmul(int n) { asm(\"nop\"); }\n"),
          std::string("void matmul(int n) {\n#if 1\n for (;;) {}\n#endif\n}\n"),
          std::string("void matmul(int n) { if (n {\n"),
          std::string(
              "template <class T> void matmul(T (&x)[3]) { for (auto& e : x) e = 0; }\n")}) {
        Shown shown;
        shown.source = source;
        EXPECT_TRUE(has(plan_of(shown, 1), "Leave the program as it is"))
            << source << plan_of(shown, 1);
        EXPECT_FALSE(has(rules_answer(request(Role::coder, shown, 1)), "```")) << source;
        shown.status = "fail (build_error)";
        shown.debugger =
            "matmul.cc:1:1: error: expected ';' after top level declarator\nlink error: x\n: 5: "
            "error:\n::::";
        EXPECT_FALSE(plan_of(shown, 2).empty());
    }
    ModelRequest empty;
    EXPECT_FALSE(rules_answer(empty).empty());
    empty.role = Role::planner;
    EXPECT_FALSE(rules_answer(empty).empty());
}

TEST(Rules, Summary) {
    Shown shown;
    shown.analyzer = analyzer;
    const std::string summary = rules_answer(request(Role::summarizer, shown, 1));
    EXPECT_TRUE(has(summary, "The analyzer says:\n")) << summary;
    EXPECT_TRUE(has(summary, "with j innermost instead of k")) << summary;
    EXPECT_TRUE(has(summary, "loop not vectorized")) << summary;
    // What a summary says leads to the same kind of plan as the text.
    Shown summarised;
    summarised.analyzer = summary;
    EXPECT_GT(count(summarised, "with j innermost instead of k"), 12);
    EXPECT_TRUE(has(rules_answer(request(Role::summarizer, Shown(), 1)), "no feedback"));
}

TEST(Rules, Facts) {
    using namespace rules;
    const ProfilerFacts p = read_profiler(profiler);
    EXPECT_DOUBLE_EQ(p.roof_percent.value_or(0), 0.7);
    EXPECT_DOUBLE_EQ(p.attained_percent.value_or(0), 0.7);
    EXPECT_DOUBLE_EQ(p.d1_miss_percent.value_or(0), 48.9);
    EXPECT_DOUBLE_EQ(p.ll_miss_percent.value_or(-1), 0);
    EXPECT_DOUBLE_EQ(p.instructions_per_flop.value_or(0), 2.51);
    EXPECT_EQ(p.hot, std::vector<int>{6});
    EXPECT_FALSE(p.memory_bound);
    const AnalyzerFacts a = read_analyzer(analyzer);
    ASSERT_EQ(a.loops.size(), 3U);
    EXPECT_EQ(a.loops[2].var, "k");
    EXPECT_EQ(a.loops[2].line, 5);
    EXPECT_FALSE(a.loops[2].inclusive);
    ASSERT_EQ(a.orders.size(), 1U);
    EXPECT_EQ(a.orders[0].better, "j");
    EXPECT_EQ(a.orders[0].now, "k");
    EXPECT_TRUE(a.reorders && a.sums && a.strided.contains("k"));
    EXPECT_TRUE(read_analyzer("loop i (depth 1, line 2): 0 <= i <= n, step 4").loops[0].inclusive);
    EXPECT_EQ(read_analyzer("loop i (depth 1, line 2): 0 <= i <= n, step 4").loops[0].step, 4);
    const DebuggerFacts d = read_debugger(
        "m.cc:7:9: error: expected ')'\nAddressSanitizer: heap-buffer-overflow: write of 4 bytes "
        "by c[i + 1], 4 bytes before the start of c (9 elements) at m.cc:12:3 in f, sizes n=2\n"
        "wrong_output: at n=2: c[1] = -1.5, expected 1.5 (2 of 9 elements wrong)\n");
    ASSERT_EQ(d.errors.size(), 1U);
    EXPECT_EQ(d.errors[0].line, 7);
    EXPECT_EQ(d.errors[0].column, 9);
    ASSERT_EQ(d.overruns.size(), 1U);
    EXPECT_EQ(d.overruns[0].line, 12);
    EXPECT_EQ(d.overruns[0].access, "c[i + 1]");
    EXPECT_EQ(d.overruns[0].array, "c");
    EXPECT_TRUE(d.overruns[0].before);
    EXPECT_TRUE(d.wrong && d.negated && d.part_wrong && !d.not_finite);
}

TEST(Rules, SentencesAreReadBack) {
    using namespace rules;
    std::vector<Action> all = transformations(matmul, {"matmul"}, false);
    for (const Action& a : repairs(matmul, {"matmul"}))
        all.push_back(a);
    Action a;
    a.function = "matmul";
    a.move = Move::rename;
    a.subject = "x1";
    a.object = "n";
    all.push_back(a);
    a.move = Move::include;
    a.subject = "<cmath>";
    all.push_back(a);
    a.move = Move::insert;
    a.subject = ";";
    a.line = 3;
    a.column = 14;
    all.push_back(a);
    EXPECT_GT(all.size(), 30U);
    for (const Action& action : all) {
        const std::optional<Action> read =
            read_sentence("1. " + sentence(action), matmul, {"matmul"});
        ASSERT_TRUE(read) << sentence(action);
        const Action back = read.value_or(Action());
        EXPECT_EQ(sentence(back), sentence(action));
        EXPECT_EQ(back.move, action.move) << sentence(action);
    }
    EXPECT_FALSE(read_sentence("Think harder.", matmul, {"matmul"}));
    // A variable whose name holds a word of the trade is a variable.
    const std::string tiled =
        "void f(int n, float* c) { for (int i_tile = 0; i_tile < n; ++i_tile) c[i_tile] = 0; }";
    const std::optional<Action> hoisted =
        read_sentence("Hoist the invariants out of loop i_tile (line 1) of f.", tiled, {"f"});
    EXPECT_EQ(hoisted.value_or(Action()).factor, 0);
    EXPECT_TRUE(hoisted && hoisted->move == Move::hoist);
}

TEST(Rules, ModelSaysWhatItIs) {
    const std::unique_ptr<Model> model = open_rules();
    EXPECT_EQ(model->id(), "builtin:rules");
    EXPECT_TRUE(model->builtin());
    EXPECT_EQ(model->price(1000, 1000), 0.0);
}

}  // namespace
}  // namespace loopscope
