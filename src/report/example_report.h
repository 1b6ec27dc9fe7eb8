// A whole, realistic report for tests, the documentation's picture and the browser test: a
// constructed run and a constructed intervention with known effects. Not part of the library.
#pragma once
#include "attribute/attribution.h"
#include "core/rng.h"
#include "report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace loopscope::testing {

// A ratio whose interval is `half` on the log scale to both sides.
inline Ratio ratio(double estimate, double half, int launches = 10) {
    return {estimate, estimate * std::exp(-half), estimate * std::exp(half), launches, 0.95};
}

inline Program program(std::string text) {
    Program out;
    out.files["matmul.cc"] = std::move(text);
    return out;
}

inline TimeOutcome session(int number, double speedup, double half, double gain) {
    TimeOutcome out;
    out.ok = true;
    out.session = number;
    out.speedup = ratio(speedup, half);
    out.gain = ratio(gain, half);
    out.noise_floor = 0.012 + 0.004 * number;
    out.pinned_cpu = 1;
    out.launches = 10;
    out.pairs = 5;
    out.seconds = 4;
    for (const auto& [n, factor] : {std::pair{250, 0.93}, std::pair{509, 1.075}}) {
        SizeTiming size;
        size.sizes = fmt::format("n={}", n);
        const double flops = 2.0 * n * n * n;
        size.baseline_seconds = flops / 0.9e9;
        size.candidate_seconds = size.baseline_seconds / (speedup * factor);
        size.parent_seconds = size.candidate_seconds * gain;
        size.speedup = ratio(speedup * factor, half * 1.3);
        size.gain = ratio(gain, half * 1.3);
        size.flops_per_second = flops / size.candidate_seconds;
        size.bytes_per_second = 12.0 * n * n / size.candidate_seconds;
        out.sizes.push_back(std::move(size));
    }
    return out;
}

inline Candidate start(std::string id, Status status, Reason reason, double speedup) {
    Candidate out;
    out.id = std::move(id);
    out.program = program("// " + out.id + "\n");
    out.evaluation.status = status;
    out.evaluation.reason = reason;
    if (status >= Status::pass)
        out.evaluation.speedup = ratio(speedup, 0.01);
    return out;
}

inline Candidate proposal(int number, int generation, std::string parent, Status status,
                          Reason reason, double speedup, double gain) {
    Candidate out;
    out.id = fmt::format("c{}", number);
    out.generation = generation;
    out.parent = std::move(parent);
    out.program = program(fmt::format("// c{}\n", number));
    out.evaluation.status = status;
    out.evaluation.reason = reason;
    out.components = {"debugger", "analyzer", "profiler"};
    out.plan =
        "1. Interchange the loops so that the innermost one runs over columns.\n2. Keep the sum in "
        "a register.";
    if (status >= Status::pass) {
        out.evaluation.sessions.push_back(session(0, speedup * 1.01, 0.03, gain));
        if (status == Status::fast)
            out.evaluation.sessions.push_back(session(1, speedup, 0.025, gain));
        out.evaluation.speedup = out.evaluation.sessions.back().speedup;
        out.evaluation.gain = out.evaluation.sessions.back().gain;
        out.evaluation.improves = out.evaluation.gain->low > 1.12;
    }
    return out;
}

inline const char* naive_text() {
    return R"(void matmul(int n, const float* a, const float* b, float* c) {
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) {
            float sum = 0;
            for (int k = 0; k < n; ++k)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
    }
}
)";
}

inline const char* best_text() {
    return R"(void matmul(int n, const float* __restrict a, const float* __restrict b, float* __restrict c) {
    constexpr int tile = 64;
    for (int i = 0; i < n * n; ++i)
        c[i] = 0;
    for (int kk = 0; kk < n; kk += tile) {
        const int k_end = kk + tile < n ? kk + tile : n;
        for (int i = 0; i < n; ++i) {
            for (int k = kk; k < k_end; ++k) {
                const float x = a[i * n + k];
                for (int j = 0; j < n; ++j)
                    c[i * n + j] += x * b[k * n + j];
            }
        }
    }
}
)";
}

inline const char* best_diff() {
    return R"(--- a/matmul.cc
+++ b/matmul.cc
@@ -1,10 +1,16 @@
-void matmul(int n, const float* a, const float* b, float* c) {
-    for (int i = 0; i < n; ++i) {
-        for (int j = 0; j < n; ++j) {
-            float sum = 0;
-            for (int k = 0; k < n; ++k)
-                sum += a[i * n + k] * b[k * n + j];
-            c[i * n + j] = sum;
+void matmul(int n, const float* __restrict a, const float* __restrict b, float* __restrict c) {
+    constexpr int tile = 64;
+    for (int i = 0; i < n * n; ++i)
+        c[i] = 0;
+    for (int kk = 0; kk < n; kk += tile) {
+        const int k_end = kk + tile < n ? kk + tile : n;
+        for (int i = 0; i < n; ++i) {
+            for (int k = kk; k < k_end; ++k) {
+                const float x = a[i * n + k];
+                for (int j = 0; j < n; ++j)
+                    c[i * n + j] += x * b[k * n + j];
+            }
         }
     }
 }
)";
}

// 40 proposals over 6 generations, from two starts that run and one that does not.
inline std::vector<Candidate> example_candidates() {
    std::vector<Candidate> out;
    out.push_back(start("s0", Status::pass, Reason::not_faster, 1));
    out.push_back(start("s1", Status::compile, Reason::wrong_output, 0));
    out.push_back(start("s2", Status::fail, Reason::build_error, 0));
    struct Step {
        int generation;
        const char* parent;
        Status status;
        Reason reason;
        double speedup, gain;
    };
    constexpr Status failed = Status::fail, built = Status::compile, right = Status::pass,
                     fast = Status::fast;
    const std::vector<Step> steps = {
        {1, "s0", failed, Reason::edit, 0, 0},
        {1, "s0", right, Reason::no_difference_shown, 1.07, 1.07},
        {1, "s1", failed, Reason::build_error, 0, 0},
        {1, "s2", failed, Reason::build_error, 0, 0},
        {1, "s1", right, Reason::not_faster, 0.98, 1},
        {1, "s0", fast, Reason::ok, 2.6, 2.6},
        {2, "c6", failed, Reason::edit, 0, 0},
        {2, "c6", built, Reason::wrong_output, 0, 0},
        {2, "c6", fast, Reason::ok, 4.9, 1.88},
        {2, "c2", right, Reason::no_difference_shown, 1.09, 1.02},
        {2, "c4", failed, Reason::link_error, 0, 0},
        {2, "c6", built, Reason::timeout, 0, 0},
        {2, "c6", fast, Reason::ok, 2.7, 1.04},
        {3, "c9", fast, Reason::ok, 7.9, 1.61},
        {3, "c9", failed, Reason::edit, 0, 0},
        {3, "c9", built, Reason::wrong_output, 0, 0},
        {3, "c13", fast, Reason::ok, 3.1, 1.15},
        {3, "c8", fast, Reason::ok, 2.2, 2.2},
        {3, "c9", fast, Reason::ok, 5.1, 1.04},
        {4, "c14", failed, Reason::build_error, 0, 0},
        {4, "c14", fast, Reason::ok, 8.2, 1.04},
        {4, "c14", built, Reason::crash, 0, 0},
        {4, "c14", fast, Reason::ok, 11.8, 1.49},
        {4, "c16", right, Reason::not_faster, 0.71, 1},
        {4, "c19", fast, Reason::ok, 5.0, 0.98},
        {4, "c14", failed, Reason::edit, 0, 0},
        {5, "c23", fast, Reason::ok, 12.1, 1.03},
        {5, "c23", built, Reason::wrong_output, 0, 0},
        {5, "c23", fast, Reason::ok, 14.3, 1.21},
        {5, "c21", fast, Reason::ok, 9.0, 1.1},
        {5, "c23", failed, Reason::edit, 0, 0},
        {5, "c23", fast, Reason::ok, 11.5, 0.97},
        {5, "c22", right, Reason::no_difference_shown, 1.1, 1},
        {6, "c29", fast, Reason::ok, 14.1, 0.99},
        {6, "c29", built, Reason::memory, 0, 0},
        {6, "c29", fast, Reason::ok, 13.8, 0.97},
        {6, "c29", failed, Reason::edit, 0, 0},
        {6, "c27", fast, Reason::ok, 12.6, 1.04},
        {6, "c29", fast, Reason::ok, 14.2, 1.0},
        {6, "c29", fast, Reason::ok, 9.9, 0.69},
    };
    int number = 0;
    for (const Step& step : steps)
        out.push_back(proposal(++number, step.generation, step.parent, step.status, step.reason,
                               step.speedup, step.gain));
    for (Candidate& candidate : out) {
        if (candidate.evaluation.reason == Reason::edit) {
            const bool missing = candidate.id != "c15" && candidate.id != "c26";
            candidate.edit_error = missing ? "the SEARCH text of block 1 is not in matmul.cc; the "
                                             "nearest lines are 12 to 15"
                                           : "no code found in the answer";
            candidate.program = {};
        }
    }
    out[3 + 18].repeats = "c13";
    out[3 + 33].repeats = "c27";
    Candidate& best = out[3 + 28];
    best.program = program(best_text());
    best.evaluation.cases = {{"n=1", "uniform", true, 0.0, ""},
                             {"n=17", "signed", true, 0.21, ""},
                             {"n=64", "heavy_tailed", true, 0.34, ""},
                             {"n=130", "sparse", true, 0.18, ""}};
    for (Candidate& candidate : out) {
        if (candidate.generation < 4)
            continue;
        candidate.prompt.sections = {{"program", "...", 0}, {"feedback: analyzer", "...", 412}};
    }
    return out;
}

// Trials of 8 arms at 24 contexts with known effects: the debugger repairs, the profiler speeds up,
// the analyzer helps beside the profiler.
inline StudyData example_study() {
    StudyData data;
    data.players = {"debugger", "analyzer", "profiler"};
    data.rollouts = 3;
    data.trials_per_rollout = 2;
    for (std::uint32_t coalition = 0; coalition < 8; ++coalition) {
        Arm arm;
        arm.coalition = coalition;
        arm.planner = arm.coder = "builtin:rules";
        arm.name = "{";
        for (std::size_t i = 0; i < 3; ++i)
            if ((coalition >> i & 1U) != 0)
                arm.name += (arm.name.size() > 1 ? "," : "") + data.players[i];
        arm.name += "}";
        data.arms.push_back(std::move(arm));
    }
    const Rng seed(20260101);
    for (std::uint64_t context = 0; context < 24; ++context) {
        Rng here = seed.fork("context", {context});
        const double ease = 0.25 * here.unit();
        const Status parent = context % 3 == 0   ? Status::fail
                              : context % 3 == 1 ? Status::pass
                                                 : Status::fast;
        for (std::uint32_t arm = 0; arm < 8; ++arm) {
            const bool debugger = (arm & 1U) != 0;
            const bool analyzer = (arm & 2U) != 0;
            const bool profiler = (arm & 4U) != 0;
            const double right = 0.25 + ease +
                                 (debugger ? (parent == Status::fail ? 0.4 : 0.12) : 0) +
                                 (analyzer ? 0.04 : 0);
            const double faster = 0.15 + (profiler ? 0.3 : 0) + (profiler && analyzer ? 0.2 : 0);
            for (int rollout = 0; rollout < data.rollouts; ++rollout) {
                for (int draw = 0; draw < data.trials_per_rollout; ++draw) {
                    Rng rng = seed.fork("trial", {context, arm, static_cast<std::uint64_t>(rollout),
                                                  static_cast<std::uint64_t>(draw)});
                    Trial trial;
                    trial.context = fmt::format("x{:02}", context);
                    trial.generation = static_cast<int>(context / 8) + 1;
                    trial.lineage = fmt::format("s{}", context % 6);
                    trial.parent_status = parent;
                    trial.arm = static_cast<int>(arm);
                    trial.rollout = rollout;
                    trial.trial = draw;
                    trial.prompt_hash = fmt::format("{}-{}", context, arm);
                    const double luck = rng.unit();
                    trial.status = luck < 0.12           ? Status::fail
                                   : luck > right + 0.12 ? Status::compile
                                                         : Status::pass;
                    if (*trial.status == Status::pass && rng.unit() < faster) {
                        trial.status = Status::fast;
                        trial.gain = 0.2 + 0.6 * rng.unit();
                        trial.log_speedup = 1 + trial.gain;
                    }
                    trial.reason = Reason::ok;
                    data.trials.push_back(std::move(trial));
                }
            }
        }
    }
    return data;
}

inline ReportData example_report() {
    ReportData data;
    data.study = "i3f09c2a17b4";
    data.kind = "intervene";
    data.task_name = "matmul";
    data.objective = "Make the dense matrix product as fast as possible on one core.";
    data.question =
        "Which of debugger, analyzer and profiler feedback makes the next proposal better, at the "
        "frozen states of run "
        "r81d2e50c96?";
    data.config =
        R"({"arms":"all coalitions","coder":"builtin:rules","planner":"builtin:rules","rollouts":3,"seed":7,)"
        R"("trajectory":"t5520f1c9aa","trials":2})";
    data.state = "done";
    data.builtin_models = {"builtin:rules"};
    data.candidates = example_candidates();
    data.best = "c29";
    data.best_start = "s0 (naive)";
    data.best_start_program = program(naive_text());
    data.best_diff = best_diff();
    data.peers = {{"OpenBLAS", "c29", ratio(0.41, 0.02, 10), "n=250, n=509"}};
    data.machine = "Example CPU, one core: 78 GFLOP/s (f32), 11 GB/s from memory";
    data.roof_flops_per_second = 78e9;
    data.roof_bytes_per_second = 11e9;
    const StudyData study = example_study();
    data.arms = study.arms;
    data.players = study.players;
    Result<Attribution> attribution = attribute(study, {});
    if (attribution)
        data.attribution = *attribution;
    data.costs = {
        {"planner", "builtin:rules", 576, 812340, 0, 61200, 0, 0.0, 3.1, 24},
        {"coder", "builtin:rules", 1152, 1904410, 0, 388900, 0, 0.0, 5.4, 96},
        {"summarizer", "openai:gpt-x", 24, 70210, 51200, 9100, 2048, std::nullopt, 71.0, 0}};
    data.calls_cut_by_a_crash = 1;
    data.calls_failed = 3;
    data.limits = {"Timed on one machine; another CPU may rank the candidates differently."};
    data.diagnosis = diagnose(data.candidates);
    return data;
}

}  // namespace loopscope::testing
