// The order in which the stages are called, with a real journal in memory, real sandboxes and
// scripted models.
#include "loop/intervene.h"
#include "loop/prompts.h"
#include "loop/run.h"
#include "loop/sample.h"
#include "loop/stages.h"
#include "record/codec.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

namespace loopscope {
namespace {

using nlohmann::json;

std::filesystem::path source_folder() {
    return std::filesystem::path(__FILE__).parent_path() / "../..";
}

Candidate candidate(std::string id, std::string parent, std::optional<Status> status,
                    double speedup, std::string text) {
    Candidate one;
    one.id = std::move(id);
    one.parent = std::move(parent);
    one.evaluation.status = status;
    if (speedup > 0)
        one.evaluation.speedup = Ratio{speedup, speedup * 0.9, speedup * 1.1, 5, 0.95};
    if (!text.empty())
        one.program.files["a.cc"] = std::move(text);
    return one;
}

TEST(select_parent, prefers_the_fast_and_never_takes_a_refused_edit) {
    const Candidate start = candidate("s0", "", Status::pass, 1, "start");
    const Candidate fast = candidate("c1", "s0", Status::fast, 4, "fast");
    const Candidate copy = candidate("c2", "s0", Status::fast, 4, "fast");
    const Candidate refused = candidate("c3", "s0", Status::fail, 0, "");
    const Candidate broken = candidate("c4", "s0", Status::compile, 0, "broken");
    const std::vector<const Candidate*> seen{&start, &fast, &copy, &refused, &broken};
    RunConfig config;
    config.population = 1;
    config.repair_probability = 0;
    std::map<std::string, int> chosen;
    for (std::uint64_t i = 0; i < 200; ++i)
        ++chosen[select_parent(seen, config, Rng(i)).id];
    EXPECT_EQ(chosen, (std::map<std::string, int>{{"c1", 200}}));
    config.population = 4;
    config.repair_probability = 0.25;
    chosen.clear();
    for (std::uint64_t i = 0; i < 2000; ++i)
        ++chosen[select_parent(seen, config, Rng(i)).id];
    EXPECT_NEAR(chosen["c4"], 500, 100);   // the only failed program that can be repaired
    EXPECT_NEAR(chosen["c1"], 1000, 130);  // weight 1 of 1 + 1/2
    EXPECT_NEAR(chosen["s0"], 500, 100);
    EXPECT_EQ(chosen.size(), 3U);
}

TEST(select_parent, repairs_when_nothing_passes_and_spreads_the_repairs) {
    const Candidate first = candidate("s0", "", Status::compile, 0, "one");
    const Candidate second = candidate("c1", "s0", Status::fail, 0, "two");
    const std::vector<const Candidate*> seen{&first, &second};
    RunConfig config;
    config.repair_probability = 0;
    EXPECT_EQ(select_parent(seen, config, Rng(1)).id, "c1");  // s0 has been repaired once already
}

TEST(best_of, is_empty_when_nothing_passes) {
    const Candidate broken = candidate("s0", "", Status::compile, 9, "x");
    EXPECT_EQ(best_of({&broken}), nullptr);
    const Candidate good = candidate("c1", "s0", Status::pass, 0.5, "y");
    EXPECT_EQ(best_of({&broken, &good}), &good);
}

TEST(budget, calls_in_flight_cannot_overshoot_together) {
    Budget budget(1.0);
    EXPECT_TRUE(budget.reserve(0.6));
    EXPECT_FALSE(budget.reserve(0.6));
    budget.settle(0.6, 0.1);
    EXPECT_TRUE(budget.reserve(0.6));
    budget.settle(0.6, std::nullopt);
    EXPECT_DOUBLE_EQ(budget.spent(), 0.1);
    EXPECT_EQ(budget.calls_of_unknown_cost(), 1);
}

TEST(prompts, carry_feedback_to_the_planner_and_the_plan_to_the_coder) {
    const Result<Task> task = read_task(source_folder() / "workloads/matmul");
    ASSERT_TRUE(task) << to_text(task.error());
    Evaluation evaluation;
    evaluation.status = Status::fail;
    evaluation.reason = Reason::build_error;
    evaluation.message = "matmul.cc:7:9: error: secret detail";
    const Prompt base = base_prompt(*task, task->starts.at("naive").program, evaluation, {});
    EXPECT_EQ(render(base).find("secret detail"), std::string::npos)
        << "the base prompt is free of feedback";
    const Prompt planner = planner_prompt(
        base, {{"debugger", "error at line 7"}, {"profiler", std::string(10'000, 'x')}}, 6000);
    const std::string text = render(planner);
    EXPECT_LT(text.find("## program"), text.find("## feedback: debugger"));
    EXPECT_LT(text.find("## feedback: debugger"), text.find("## feedback: profiler"));
    for (const Section& section : planner.sections) {
        if (section.name == "feedback: profiler") {
            EXPECT_GT(section.cut_bytes, 3900U) << "what was cut is on record";
        }
    }
    const Prompt coder = coder_prompt(base, "1. Do it.", {}, 6000);
    EXPECT_EQ(render(coder).find("feedback:"), std::string::npos);
    EXPECT_NE(render(coder).find("## plan\n1. Do it."), std::string::npos);
    EXPECT_EQ(coder.role, Role::coder);
    EXPECT_EQ(planner.role, Role::planner);
    EXPECT_TRUE(section_text(parse_sections(render(planner)), "program")
                    .starts_with("```cpp file=matmul.cc\n"));
}

// A model that answers from a function and counts.
class Scripted : public Model {
public:
    using Answer = std::function<ModelOutcome(const ModelRequest&)>;
    explicit Scripted(Answer answer, std::string name = "scripted")
        : answer_(std::move(answer)), name_(std::move(name)) {}
    awaitable<ModelOutcome> complete(ModelRequest request) override {
        ++calls;
        if (slow && mix64(request.draw.size() + static_cast<unsigned char>(request.draw[2])) % 2 ==
                        0) {  // others overtake this call
            asio::steady_timer timer(co_await asio::this_coro::executor,
                                     std::chrono::milliseconds(40));
            co_await timer.async_wait(asio::use_awaitable);
        }
        ModelOutcome outcome = answer_(request);
        co_return outcome;
    }
    std::string id() const override { return name_; }
    std::optional<double> price(std::int64_t, std::int64_t) const override { return unit_price; }
    int calls = 0;
    bool slow = false;
    double unit_price = 0.01;

private:
    Answer answer_;
    std::string name_;
};

ModelOutcome say(std::string text) {
    ModelReply reply;
    reply.text = std::move(text);
    reply.cost = 0.01;
    return reply;
}

// One whole engine over a journal in memory.
struct Bench {
    asio::io_context loop{1};
    RealClock clock;
    std::unique_ptr<Machine> machine;
    std::unique_ptr<Journal> journal;
    std::unique_ptr<Engine> engine;
    Scripted* planner = nullptr;
    Scripted* coder = nullptr;

    explicit Bench(Scripted::Answer answer,
                   const std::string& path = ":memory:", double max_cost = 100) {
        Result<std::unique_ptr<Machine>> opened = open_machine(loop.get_executor());
        if (!opened)
            throw std::runtime_error(to_text(opened.error()));
        machine = std::move(*opened);
        Journal::Options options;
        options.power_safe = false;
        auto file = Journal::open(path, loop.get_executor(), loop.get_executor(), clock, options);
        if (!file)
            throw std::runtime_error(to_text(file.error()));
        journal = std::move(*file);
        Models models;
        auto planner_model = std::make_unique<Scripted>(answer, "scripted-planner");
        auto coder_model = std::make_unique<Scripted>(answer, "scripted-coder");
        planner = planner_model.get();
        coder = coder_model.get();
        models.planner = std::move(planner_model);
        models.coder = std::move(coder_model);
        models.summarizer = std::make_unique<Scripted>(answer, "scripted-summarizer");
        engine = std::make_unique<Engine>(Engine{loop.get_executor(),
                                                 clock,
                                                 *journal,
                                                 *machine,
                                                 std::move(models),
                                                 Budget(max_cost),
                                                 {},
                                                 0,
                                                 ""});
    }
    template <class T>
    T await(awaitable<T> work) {
        std::optional<T> result;
        std::exception_ptr thrown;
        asio::co_spawn(loop, std::move(work), [&](const std::exception_ptr& error, T value) {
            thrown = error;
            if (!error)
                result = std::move(value);
        });
        loop.restart();
        loop.run();
        if (thrown)
            std::rethrow_exception(thrown);
        return std::move(*result);
    }
};

Task arith() {
    const Result<Task> task = read_task(source_folder() / "tests/tasks/arith");
    if (!task)
        throw std::runtime_error(to_text(task.error()));
    return *task;
}

// Plans nothing; proposes numbers that depend on the draw, some of them unusable.
ModelOutcome number_for(const ModelRequest& request) {
    if (request.role == Role::planner)
        return say("1. Try a number. " + request.draw);
    std::uint64_t h = 0;
    for (const char c : request.messages.back().content + request.draw)
        h = mix64(h ^ static_cast<unsigned char>(c));
    if (h % 7 == 0)
        return say("<<<<<<< SEARCH\nnothing like this\n=======\n5\n>>>>>>> REPLACE");
    if (h % 7 == 1)
        return say("```text file=policy.txt\nnot a number " + std::to_string(h % 100) + "\n```");
    return say("```text file=policy.txt\n" + std::to_string(h % 1200) + "\n```");
}

RunConfig small_run() {
    RunConfig config;
    config.steps = 12;
    config.width = 3;
    config.mode = Mode::none;
    return config;
}

std::vector<std::pair<std::string, std::string>> samples_without_time(Journal& journal,
                                                                      const std::string& study) {
    auto samples = journal.samples(study);
    for (auto& [position, sample] : samples) {
        json document = json::parse(sample);
        if (document.contains("candidate"))
            document["candidate"]["evaluation"].erase("sessions");
        sample = document.dump();
    }
    return samples;
}

TEST(run, keeps_every_proposal_and_asks_nothing_twice) {
    Bench bench(number_for);
    const Task task = arith();
    std::size_t last = 0;
    const RunProgress progress = [&](std::size_t done, std::size_t total, const Candidate*) {
        EXPECT_LE(done, total);
        last = done;
    };
    const std::string study = bench.await(run_study(*bench.engine, task, small_run(), progress));
    EXPECT_EQ(last, 13U);
    const auto first = samples_without_time(*bench.journal, study);
    int refused = 0;
    int evaluated = 0;
    for (const auto& [position, sample] : first) {
        const json document = json::parse(sample);
        if (!document.contains("candidate"))
            continue;
        refused += document["candidate"]["edit_error"] != "" ? 1 : 0;
        evaluated += document["candidate"]["evaluation"]["status"].is_string() ? 1 : 0;
    }
    EXPECT_EQ(evaluated, 13);
    EXPECT_GT(refused, 0);
    EXPECT_EQ(bench.journal->study(study)->state, "done");
    const int calls = bench.planner->calls + bench.coder->calls;
    EXPECT_EQ(bench.await(run_study(*bench.engine, task, small_run(), progress)), study);
    EXPECT_EQ(bench.planner->calls + bench.coder->calls, calls)
        << "the same command asks nothing again";
    EXPECT_EQ(samples_without_time(*bench.journal, study), first);
    RunConfig other = small_run();
    other.seed = 2;
    EXPECT_NE(bench.await(run_study(*bench.engine, task, other, progress)), study);
}

TEST(run, does_not_depend_on_how_many_are_in_flight_finishing_first) {
    Bench quick(number_for);
    Bench slow(number_for);
    slow.planner->slow = slow.coder->slow = true;
    const Task task = arith();
    const RunProgress quiet = [](std::size_t, std::size_t, const Candidate*) {};
    const std::string a = quick.await(run_study(*quick.engine, task, small_run(), quiet));
    const std::string b = slow.await(run_study(*slow.engine, task, small_run(), quiet));
    EXPECT_EQ(a, b);
    EXPECT_EQ(samples_without_time(*quick.journal, a), samples_without_time(*slow.journal, b));
}

TEST(run, stops_at_the_budget_and_keeps_what_is_done) {
    Bench bench(number_for, ":memory:", 0.055);
    const Task task = arith();
    const RunProgress quiet = [](std::size_t, std::size_t, const Candidate*) {};
    EXPECT_THROW(bench.await(run_study(*bench.engine, task, small_run(), quiet)), StudyStopped);
    EXPECT_LE(bench.engine->budget.spent(), 0.055);
    EXPECT_EQ(bench.planner->calls + bench.coder->calls, 5) << "a cent each";
}

TEST(run, a_fatal_fault_stops_it_and_a_passing_one_is_a_missing_trial) {
    const Task task = arith();
    const RunProgress quiet = [](std::size_t, std::size_t, const Candidate*) {};
    Bench fatal([](const ModelRequest&) -> ModelOutcome {
        return tl::unexpected<ModelError>(
            ModelError{ModelFault::key, "the key is wrong", 401, 1, true, 0});
    });
    try {
        fatal.await(run_study(*fatal.engine, task, small_run(), quiet));
        FAIL() << "a wrong key ends the study";
    } catch (const StudyStopped& stopped) {
        EXPECT_NE(std::string(stopped.what()).find("the key is wrong"), std::string::npos);
    }
    Bench flaky([](const ModelRequest& request) -> ModelOutcome {
        if (request.role == Role::coder)
            return tl::unexpected<ModelError>(
                ModelError{ModelFault::network, "no route", 0, 3, false, 0});
        return number_for(request);
    });
    const std::string study = flaky.await(run_study(*flaky.engine, task, small_run(), quiet));
    int missing = 0;
    for (const auto& [position, sample] : flaky.journal->samples(study))
        missing += sample.find("no proposal: network: no route") != std::string::npos ? 1 : 0;
    EXPECT_EQ(missing, 12);
}

InterveneConfig small_intervention() {
    InterveneConfig config;
    config.components = {"alpha", "placebo"};
    config.rollouts = 2;
    config.trials = 2;
    return config;
}

TEST(intervene, crosses_contexts_with_coalitions_and_shares_equal_prompts) {
    const Result<Task> task = read_task(source_folder() / "tests/tasks/synthetic");
    ASSERT_TRUE(task) << to_text(task.error());
    std::map<std::string, int> asked;
    Bench bench([&](const ModelRequest& request) {
        ++asked[request.messages.back().content + "\n" + request.draw];
        if (request.role == Role::planner) {
            const bool alpha =
                request.messages.back().content.find("alpha was here") != std::string::npos;
            return say(alpha ? "1. good" : "1. poor");
        }
        const bool good = request.messages.back().content.find("1. good") != std::string::npos;
        return say("```text file=state.txt\nstate " + std::to_string(mix64(asked.size()) % 97) +
                   "\noutcome " + (good ? "pass" : "compile") + "\ngain 0.5\n```");
    });
    const RunProgress quiet = [](std::size_t, std::size_t, const Candidate*) {};
    RunConfig run_config = small_run();
    run_config.steps = 8;
    const std::string run = bench.await(run_study(*bench.engine, *task, run_config, quiet));
    const Result<Trajectory> trajectory = freeze_run(*bench.journal, *task, run, {});
    ASSERT_TRUE(trajectory) << to_text(trajectory.error());
    ASSERT_GE(trajectory->contexts.size(), 5U);
    for (const Context& context : trajectory->contexts)
        for (const Section& section : context.prompt.sections)
            EXPECT_FALSE(section.name.starts_with("feedback") || section.name == "plan")
                << section.name;
    const InterveneProgress none = [](std::size_t, std::size_t) {};
    const std::string study =
        bench.await(intervene(*bench.engine, *task, *trajectory, small_intervention(), none));
    for (const auto& [prompt, count] : asked)
        EXPECT_EQ(count, 1) << "the same prompt at the same draw was asked twice";
    const Result<StudyData> data = load_trials(*bench.journal, study);
    ASSERT_TRUE(data) << to_text(data.error());
    EXPECT_EQ(data->trials.size(), trajectory->contexts.size() * 4 * 2 * 2);
    const Result<Attribution> attribution = attribute(*data, {});
    ASSERT_TRUE(attribution) << to_text(attribution.error());
    for (const GameEstimate& game : attribution->games) {
        if (game.metric != Metric::pass || game.generation >= 0 || !game.stratum.empty())
            continue;
        EXPECT_DOUBLE_EQ(game.shapley[0].estimate.value, 1) << "alpha decides";
        EXPECT_DOUBLE_EQ(game.shapley[1].estimate.value, 0) << "the placebo does not";
    }
    const int calls = bench.planner->calls + bench.coder->calls;
    bench.await(intervene(*bench.engine, *task, *trajectory, small_intervention(), none));
    EXPECT_EQ(bench.planner->calls + bench.coder->calls, calls);
}

TEST(intervene, a_control_arm_draws_its_own_answers) {
    const Result<Task> task = read_task(source_folder() / "tests/tasks/synthetic");
    ASSERT_TRUE(task);
    Bench bench([&](const ModelRequest& request) {
        if (request.role == Role::planner)
            return say("1. plan " + request.draw);
        return say("```text file=state.txt\nstate 1\noutcome pass\ngain 0\n```");
    });
    const RunProgress quiet = [](std::size_t, std::size_t, const Candidate*) {};
    RunConfig run_config = small_run();
    run_config.steps = 2;
    const std::string run = bench.await(run_study(*bench.engine, *task, run_config, quiet));
    const Result<Trajectory> trajectory = freeze_run(*bench.journal, *task, run, {});
    ASSERT_TRUE(trajectory);
    InterveneConfig config = small_intervention();
    config.control = true;
    const InterveneProgress none = [](std::size_t, std::size_t) {};
    const int before = bench.planner->calls;
    bench.await(intervene(*bench.engine, *task, *trajectory, config, none));
    EXPECT_EQ(bench.planner->calls - before, static_cast<int>(trajectory->contexts.size()) * 5 * 2);
}

TEST(freeze, says_what_is_wrong) {
    Bench bench(number_for);
    const Result<Trajectory> nothing = freeze_run(*bench.journal, arith(), "r0123", {});
    ASSERT_FALSE(nothing);
    EXPECT_NE(nothing.error().what.find("no such study"), std::string::npos);
    EXPECT_FALSE(load_trials(*bench.journal, "r0123"));
}

}  // namespace
}  // namespace loopscope
