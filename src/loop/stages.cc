#include "loop/stages.h"

#include "core/hash.h"
#include "core/log.h"
#include "evaluate/kernel.h"
#include "record/codec.h"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>

namespace loopscope {

namespace {

using nlohmann::json;

// Raised when a stage's code changes what it yields for the same inputs.
constexpr int build_version = 1, verify_version = 1, time_version = 1, command_version = 1,
              feedback_version = 1, model_version = 1, roof_version = 1;

// Our own side failed (no sandbox, a full scratch disk): not an outcome of the candidate.
struct Infrastructure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Runs `stage` through the journal; its Error becomes Infrastructure and is not kept.
template <class Outcome>
awaitable<std::pair<Outcome, std::string>> recall(
    Engine& engine, StageKey key, std::function<awaitable<Result<Outcome>>()> stage) {
    const std::function<awaitable<Produced>()> produce = [&stage]() -> awaitable<Produced> {
        const Result<Outcome> outcome = co_await stage();
        if (!outcome)
            throw Infrastructure(to_text(outcome.error()));
        Produced produced;
        produced.result = encode(*outcome);
        co_return produced;
    };
    const std::string stage_name = key.stage;
    Entry entry = co_await engine.journal.once(std::move(key), produce);
    Result<Outcome> outcome = decode<Outcome>(entry.result);
    if (!outcome)
        throw JournalError(fmt::format("entry {} of stage {}: {}", entry.key, stage_name,
                                       to_text(outcome.error())));
    std::pair<Outcome, std::string> pair(std::move(*outcome), std::move(entry.key));
    co_return pair;
}

StageKey key_of(std::string stage, int version, std::string inputs, std::string draw) {
    StageKey key;
    key.stage = std::move(stage);
    key.version = version;
    key.inputs = std::move(inputs);
    key.draw = std::move(draw);
    return key;
}

template <class T>
T or_throw(Result<T> result) {
    if (!result)
        throw Infrastructure(to_text(result.error()));
    return std::move(*result);
}

awaitable<std::pair<BuildOutcome, std::string>> recall_build(Engine& engine, const Task& task,
                                                             const Program& program,
                                                             const std::string& draw) {
    std::string inputs =
        or_throw(co_await build_inputs(engine.machine, task, program, BuildKind::timed));
    const std::function<awaitable<Result<BuildOutcome>>()> stage = [&]() {
        return build(engine.machine, task, program, BuildKind::timed);
    };
    StageKey key = key_of("build", build_version, std::move(inputs), draw);
    co_return co_await recall<BuildOutcome>(engine, std::move(key), stage);
}

// The trusted reference, built once. A reference that does not build is the task author's to mend.
awaitable<std::string> recall_reference(Engine& engine, const Task& task) {
    const std::string inputs = json{{"task", canonical(task)}}.dump();
    const std::function<awaitable<Result<BuildOutcome>>()> stage = [&]() {
        return build_reference(engine.machine, task);
    };
    StageKey key = key_of("build_reference", build_version, inputs, "");
    const auto built = co_await recall<BuildOutcome>(engine, std::move(key), stage);
    if (!built.first.ok)
        throw StudyStopped(
            fmt::format("the reference of task {} does not build: mend {}\n{}", task.name,
                        (task.folder / task.kernel->reference.file).string(), built.first.log));
    co_return built.first.object;
}

json time_inputs(Engine& engine, const Task& task, const std::string& candidate,
                 const std::string& baseline, const std::optional<std::string>& parent,
                 const TimingPlan& plan) {
    return {{"task", canonical(task)},
            {"candidate", sha256_hex(candidate)},
            {"baseline", sha256_hex(baseline)},
            {"parent", parent ? json(sha256_hex(*parent)) : json(nullptr)},
            {"machine", engine.machine.fingerprint},
            {"session", plan.session},
            {"launches", plan.launches},
            {"seconds_per_launch", plan.seconds_per_launch},
            {"target_half_width", plan.target_half_width}};
}

awaitable<Evaluated> evaluate_kernel(Engine& engine, const Task& task, const Program& program,
                                     const Program* parent, const EvaluateOptions& options,
                                     const std::string& draw) {
    Evaluated result;
    auto built = co_await recall_build(engine, task, program, draw);
    result.keys["build"] = built.second;
    std::optional<BuildOutcome> build_outcome(std::move(built.first));
    if (!build_outcome->ok) {
        result.evaluation = judge(task, "", build_outcome, std::nullopt, {});
        co_return result;
    }
    const std::string reference = co_await recall_reference(engine, task);
    const json verify_inputs = {{"task", canonical(task)},
                                {"candidate", sha256_hex(build_outcome->object)},
                                {"reference", sha256_hex(reference)}};
    const std::function<awaitable<Result<VerifyOutcome>>()> check = [&]() {
        return verify(engine.machine, task, build_outcome->object, reference);
    };
    StageKey verify_key = key_of("verify", verify_version, verify_inputs.dump(), draw);
    auto checked = co_await recall<VerifyOutcome>(engine, std::move(verify_key), check);
    result.keys["verify"] = checked.second;
    std::optional<VerifyOutcome> verify_outcome(std::move(checked.first));
    if (!verify_outcome->ok) {
        result.evaluation = judge(task, "", build_outcome, verify_outcome, {});
        co_return result;
    }
    const Program& baseline_program = task.starts.at(task.baseline).program;
    auto baseline = co_await recall_build(engine, task, baseline_program, "");
    if (!baseline.first.ok)
        throw StudyStopped(fmt::format("the baseline start '{}' of task {} does not build:\n{}",
                                       task.baseline, task.name, baseline.first.log));
    std::optional<std::string> parent_object;
    if (parent != nullptr && !(*parent == baseline_program) && !(*parent == program)) {
        const auto parent_built = co_await recall_build(engine, task, *parent, "");
        if (parent_built.first.ok)
            parent_object = parent_built.first.object;
    }
    const Roof roof = co_await recall_roof(engine);
    std::vector<TimeOutcome> sessions;
    for (int session = 0; session < 2; ++session) {
        TimingPlan plan;
        plan.session = session;
        if (options.launches > 0)
            plan.launches = options.launches;
        if (options.seconds_per_launch > 0)
            plan.seconds_per_launch = options.seconds_per_launch;
        const std::function<awaitable<Result<TimeOutcome>>()> measure = [&]() {
            return time_session(engine.machine, task, build_outcome->object, baseline.first.object,
                                parent_object, reference, plan, &roof);
        };
        const std::string inputs = time_inputs(engine, task, build_outcome->object,
                                               baseline.first.object, parent_object, plan)
                                       .dump();
        StageKey key = key_of("time", time_version, inputs, draw);
        auto timed = co_await recall<TimeOutcome>(engine, std::move(key), measure);
        result.keys[fmt::format("time{}", session)] = timed.second;
        sessions.push_back(std::move(timed.first));
        if (session == 0 && !wants_confirmation(task, sessions.front()))
            break;
    }
    result.evaluation = judge(task, "", build_outcome, verify_outcome, sessions);
    if (parent != nullptr && *parent == baseline_program && !result.evaluation.gain)
        result.evaluation.gain =
            result.evaluation.speedup;  // the parent is the baseline: the same ratio
    if (result.evaluation.gain)
        result.evaluation.improves = result.evaluation.gain->low > 1 + result.evaluation.tolerance;
    co_return result;
}

awaitable<Evaluated> evaluate_by_command(Engine& engine, const Task& task, const Program& program,
                                         const std::string& draw) {
    const std::string inputs = json{{"task", canonical(task)}, {"program", encode(program)}}.dump();
    const std::function<awaitable<Result<Evaluation>>()> stage = [&]() {
        return evaluate_command(engine.machine, task, program);
    };
    StageKey key = key_of("evaluate", command_version, inputs, draw);
    auto evaluated = co_await recall<Evaluation>(engine, std::move(key), stage);
    Evaluated result;
    result.evaluation = std::move(evaluated.first);
    result.keys["evaluate"] = std::move(evaluated.second);
    co_return result;
}

}  // namespace

awaitable<Roof> recall_roof(Engine& engine) {
    if (engine.roof)
        co_return *engine.roof;
    const auto measure = [&]() -> awaitable<Produced> {
        const Roof roof = co_await measure_roof(engine.machine);
        Produced produced;
        produced.result = json{{"flops_per_second_f32", roof.flops_per_second_f32},
                               {"flops_per_second_f64", roof.flops_per_second_f64},
                               {"bytes_per_second_memory", roof.bytes_per_second_memory},
                               {"bytes_per_second_cache", roof.bytes_per_second_cache}}
                              .dump();
        co_return produced;
    };
    const std::function<awaitable<Produced>()> produce = measure;
    const std::string inputs = json{{"machine", engine.machine.fingerprint}}.dump();
    StageKey key = key_of("roof", roof_version, inputs, "");
    const Entry entry = co_await engine.journal.once(std::move(key), produce);
    const json stored = json::parse(entry.result);
    Roof roof;
    roof.flops_per_second_f32 = stored.at("flops_per_second_f32");
    roof.flops_per_second_f64 = stored.at("flops_per_second_f64");
    roof.bytes_per_second_memory = stored.at("bytes_per_second_memory");
    roof.bytes_per_second_cache = stored.at("bytes_per_second_cache");
    engine.roof = roof;
    co_return roof;
}

awaitable<std::string> machine_sample_json(Engine& engine, const Task& task) {
    json machine = {{"cpu", engine.machine.cpu_name}};
    if (task.kernel) {
        const Roof roof = co_await recall_roof(engine);
        bool in_double = false;
        for (const Argument& argument : task.kernel->arguments)
            if (argument.direction != Direction::in && argument.type == ElementType::f64)
                in_double = true;
        const double flops = in_double ? roof.flops_per_second_f64 : roof.flops_per_second_f32;
        machine["flops_per_second"] = flops * task.kernel->cores;
        machine["bytes_per_second"] = roof.bytes_per_second_memory;
    }
    co_return json{{"machine", machine}}.dump();
}

awaitable<Evaluated> evaluate_candidate(Engine& engine, const Task& task, const Program& program,
                                        const Program* parent, const std::string& edit_error,
                                        const EvaluateOptions& options) {
    if (!edit_error.empty()) {
        Evaluated refused;
        refused.evaluation = judge(task, edit_error, std::nullopt, std::nullopt, {});
        co_return refused;
    }
    if (task.kind != EvaluatorKind::kernel && task.kind != EvaluatorKind::command)
        throw StudyStopped(fmt::format(
            "task {}: this version evaluates tasks of kind kernel and command only", task.name));
    std::string why;
    for (int attempt = 0; attempt < 2; ++attempt) {
        std::string draw;
        if (options.fresh)
            draw = fmt::format("fresh/{}/{}", engine.clock.unix_milliseconds(),
                               ++engine.fresh_counter);
        try {
            if (task.kind == EvaluatorKind::command)
                co_return co_await evaluate_by_command(engine, task, program, draw);
            co_return co_await evaluate_kernel(engine, task, program, parent, options, draw);
        } catch (const Infrastructure& failure) {
            why = failure.what();
        }
    }
    log_warn(fmt::format("task {}: an evaluation failed on our own side: {}", task.name, why));
    Evaluated failed;
    failed.evaluation.reason = Reason::infrastructure;
    failed.evaluation.message = why;
    co_return failed;
}

awaitable<Result<TimeOutcome>> time_against_peer(Engine& engine, const Task& task,
                                                 const Program& program, const Peer& peer) {
    try {
        const std::string inputs = json{{"task", canonical(task)}, {"peer", peer.name}}.dump();
        const std::function<awaitable<Result<BuildOutcome>>()> stage = [&]() {
            return build_peer(engine.machine, task, peer);
        };
        StageKey peer_key = key_of("build_peer", build_version, inputs, "");
        const auto peer_built = co_await recall<BuildOutcome>(engine, std::move(peer_key), stage);
        if (!peer_built.first.ok)
            co_return fail(fmt::format("peer.{}", peer.name),
                           "does not build here: " + peer_built.first.log);
        const auto built = co_await recall_build(engine, task, program, "");
        const std::string reference = co_await recall_reference(engine, task);
        TimingPlan plan;
        plan.session = 1;  // fixed length: a published figure
        plan.peer = &peer;
        const std::optional<std::string> no_parent;  // outlives the coroutine that refers to it
        // The peer takes the candidate's place and the candidate the baseline's: only a peer may
        // link libraries.
        const std::function<awaitable<Result<TimeOutcome>>()> measure = [&]() {
            return time_session(engine.machine, task, peer_built.first.object, built.first.object,
                                no_parent, reference, plan, nullptr);
        };
        const std::string time_key_inputs =
            time_inputs(engine, task, peer_built.first.object, built.first.object, no_parent, plan)
                .dump();
        StageKey key = key_of("time", time_version, time_key_inputs, "");
        auto timed = co_await recall<TimeOutcome>(engine, std::move(key), measure);
        co_return std::move(timed.first);
    } catch (const Infrastructure& failure) {
        co_return fail(fmt::format("peer.{}", peer.name), failure.what());
    }
}

awaitable<Said> recall_feedback(Engine& engine, const Task& task, const std::string& component,
                                const Program& program, const Evaluation& evaluation) {
    const Subject subject{task, program, evaluation};
    Said said;
    const auto kernel_roof = [&]() -> awaitable<const Roof*> {
        if (task.kind != EvaluatorKind::kernel)
            co_return nullptr;
        (void)co_await recall_roof(engine);
        co_return &*engine.roof;
    };
    const Roof* roof = co_await kernel_roof();
    std::string why;
    try {
        std::string inputs = or_throw(co_await feedback_inputs(engine.machine, component, subject));
        const std::function<awaitable<Result<Feedback>>()> stage = [&]() {
            return make_feedback(engine.machine, component, subject, roof);
        };
        StageKey key = key_of("feedback", feedback_version, std::move(inputs), "");
        auto made = co_await recall<Feedback>(engine, std::move(key), stage);
        said.feedback = std::move(made.first);
        said.key = std::move(made.second);
        co_return said;
    } catch (const Infrastructure& failure) {
        why = failure.what();
    }
    log_warn(fmt::format("{} could not look at a candidate: {}", component, why));
    said.feedback.component = component;
    said.feedback.applicable = false;
    said.feedback.text = "This tool failed on our own side and has nothing to say.";
    co_return said;
}

std::optional<double> worst_case_cost(const Model& model, const Prompt& prompt) {
    const std::size_t bytes = prompt.system.size() + render(prompt).size();
    return model.price(static_cast<std::int64_t>(bytes / 3 + 1), model.sampling().max_tokens);
}

awaitable<Answered> ask(Engine& engine, Model& model, const Prompt& prompt, std::string draw,
                        std::string position) {
    ModelRequest request;
    request.role = prompt.role;
    if (!prompt.system.empty())
        request.messages.push_back(Message{"system", prompt.system});
    request.messages.push_back(Message{"user", render(prompt)});
    request.sampling = model.sampling();
    request.draw = draw;
    request.position = std::move(position);

    json messages = json::array();
    for (const Message& message : request.messages)
        messages.push_back({{"role", message.role}, {"content", message.content}});
    const Sampling& sampling = request.sampling;
    const auto number = [](const auto& value) { return value ? json(*value) : json(nullptr); };
    const json inputs = {{"model", model.id()},
                         {"messages", messages},
                         {"sampling",
                          {{"temperature", number(sampling.temperature)},
                           {"top_p", number(sampling.top_p)},
                           {"max_tokens", sampling.max_tokens},
                           {"seed", number(sampling.seed)},
                           {"reasoning_effort", sampling.reasoning_effort}}}};
    StageKey key =
        key_of("model", model_version, inputs.dump(-1, ' ', false, json::error_handler_t::replace),
               std::move(draw));
    key.paid = true;
    Answered answered;
    answered.key = hash_of(key);
    request.key = answered.key;

    std::optional<ModelError> error;
    const double reserved = worst_case_cost(model, prompt).value_or(0);
    const std::function<awaitable<Produced>()> produce = [&]() -> awaitable<Produced> {
        if (!engine.budget.reserve(reserved))
            throw StudyStopped(fmt::format(
                "the budget is reached: {:.4f} of at most {:.2f} dollars are spent and the next "
                "call may cost {:.4f}; raise --max-cost and run the same command to go on",
                engine.budget.spent(), engine.budget.max_cost(), reserved));
        Produced produced;
        std::exception_ptr cancelled;
        try {
            ModelOutcome outcome = co_await model.complete(request);
            engine.budget.settle(reserved, outcome ? outcome->cost : outcome.error().cost);
            if (outcome) {
                for (const std::string& warning : outcome->warnings)
                    log_warn(fmt::format("{}: {}", model.id(), warning));
                produced.result = encode(*outcome);
                produced.cost = outcome->cost;
                produced.usage = outcome->usage;
            } else {
                error = std::move(outcome.error());
                produced.keep = false;
                produced.cost = error->cost;
                produced.failure = fmt::format("{}: {}", name_of(error->fault), error->message);
            }
        } catch (...) {
            cancelled = std::current_exception();
        }
        if (cancelled) {
            engine.budget.settle(reserved, std::nullopt);
            std::rethrow_exception(cancelled);
        }
        co_return produced;
    };
    const Entry entry = co_await engine.journal.once(std::move(key), produce);
    if (!entry.kept) {
        // Another sample may have shared the failed call: then only the one that made it knows the
        // fault in full.
        if (error && error->fatal)
            throw StudyStopped(fmt::format("{}: {}", model.id(), error->message));
        answered.missing = error ? fmt::format("{}: {}", name_of(error->fault), error->message)
                                 : std::string("a shared call failed");
        if (error)
            log_warn(fmt::format("{}: {}", model.id(), error->message));
        co_return answered;
    }
    Result<ModelReply> reply = decode<ModelReply>(entry.result);
    if (!reply)
        throw JournalError(
            fmt::format("entry {} of stage model: {}", entry.key, to_text(reply.error())));
    answered.reply = std::move(*reply);
    co_return answered;
}

}  // namespace loopscope
