#include "evaluate/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "evaluate/build.h"
#include "evaluate/kernel.h"

namespace loopscope {

namespace {

using Steady = std::chrono::steady_clock;

bool is_floating(ElementType type) { return type == ElementType::f32 || type == ElementType::f64; }

double unit_roundoff(ElementType type) {
    return type == ElementType::f32 ? 0x1p-24 : type == ElementType::f64 ? 0x1p-53 : 0;
}

double smallest(ElementType type) {
    return type == ElementType::f32 ? 0x1p-149 : type == ElementType::f64 ? 0x1p-1074 : 0;
}

// "c[3][7]": by the declared shape when it has that many dimensions, else by the flat index.
std::string element_name(const Argument& argument, const CallShape& shape, std::size_t index) {
    std::vector<std::size_t> extents;
    for (const std::string& extent : argument.shape) {
        const Result<std::int64_t> value = evaluate_count(extent, shape.sizes);
        extents.push_back(value ? static_cast<std::size_t>(*value) : 0);
    }
    std::string name;
    for (std::size_t d = extents.size(); d-- > 1;) {
        if (extents[d] == 0)
            return fmt::format("{}[{}]", argument.name, index);
        name = fmt::format("[{}]{}", index % extents[d], name);
        index /= extents[d];
    }
    return fmt::format("{}[{}]{}", argument.name, index, name);
}

// What makes a comparison of one output wrong.
struct Fault {
    std::size_t index = 0;
    bool poisoned = false;
    std::string text;
};

struct Elementwise {
    double worst = 0;
    std::size_t wrong = 0, unwritten = 0;
    std::optional<Fault> first;
};

struct Call {
    const KernelSpec& kernel;
    const CallShape& shape;
};

// How far off, in bounds. Finite, because it is stored as JSON.
double ratio_of(double error, double bound) {
    const double ratio = error / bound;
    return std::isfinite(ratio) ? ratio : std::numeric_limits<double>::max();
}

// Floats: finite first (an infinity or NaN where the reference has a number is wrong whatever the
// bound says), then accepted only if error <= bound.
template <class T>
Elementwise compare_floats(const Call& task, const Argument& argument, const T* got,
                           std::uint64_t poison, std::span<const double> values,
                           std::span<const double> magnitudes) {
    const Tolerance& tolerance = task.kernel.tolerance;
    const double rounding =
        tolerance.factor * std::sqrt(task.shape.reduction) * unit_roundoff(argument.type);
    const double fixed = tolerance.absolute + smallest(argument.type);
    double largest = 0;
    if (tolerance.scale == "max")
        for (const double value : values)
            largest = std::max(largest, std::fabs(value));
    const bool by_magnitude = tolerance.scale == "absolute" && !magnitudes.empty();
    Elementwise result;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double value = values[i];
        const double size = std::fabs(value);
        const double scale = tolerance.scale == "max" ? largest
                             : by_magnitude           ? std::max(size, std::fabs(magnitudes[i]))
                                                      : size;
        const double bound = rounding * scale + fixed + tolerance.relative * size;
        const double x = static_cast<double>(got[i]);
        const double error = std::fabs(x - value);
        result.worst = std::max(result.worst, ratio_of(error, bound));
        if (std::isfinite(x) && error <= bound)
            continue;
        using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
        const bool unwritten = std::bit_cast<Bits>(got[i]) == static_cast<Bits>(poison);
        result.unwritten += unwritten ? 1 : 0;
        ++result.wrong;
        if (!result.first) {
            result.first.emplace();
            result.first->index = i;
            result.first->poisoned = unwritten;
            const std::string name = element_name(argument, task.shape, i);
            result.first->text =
                unwritten
                    ? fmt::format("{} was not written (expected {:.9g})", name, value)
                    : fmt::format("{} = {:.9g}, expected {:.9g}, off by {:.3g}, allowed {:.3g}",
                                  name, x, value, error, bound);
        }
    }
    return result;
}

template <class T>
Elementwise compare_integers(const Call& task, const Argument& argument, const T* got,
                             std::uint64_t poison, std::span<const T> values) {
    const Tolerance& tolerance = task.kernel.tolerance;
    Elementwise result;
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (got[i] == values[i])
            continue;
        const double value = static_cast<double>(values[i]);
        const double error = std::fabs(static_cast<double>(got[i]) - value);
        const double bound = tolerance.absolute + tolerance.relative * std::fabs(value);
        result.worst = std::max(result.worst, ratio_of(error, bound));
        if (error <= bound)
            continue;
        T held{};
        std::memcpy(&held, &poison, sizeof held);
        const bool unwritten = held == got[i];
        result.unwritten += unwritten ? 1 : 0;
        ++result.wrong;
        if (!result.first) {
            result.first.emplace();
            result.first->index = i;
            result.first->poisoned = unwritten;
            const std::string name = element_name(argument, task.shape, i);
            result.first->text =
                unwritten ? fmt::format("{} was not written (expected {})", name, values[i])
                          : fmt::format("{} = {}, expected {}", name, got[i], values[i]);
        }
    }
    return result;
}

Elementwise compare_output(const Call& task, std::size_t index, const char* got,
                           std::uint64_t poison, const Expected& expected) {
    const Argument& argument = task.kernel.arguments[index];
    const Bytes& values = expected.values[index];
    switch (argument.type) {
        case ElementType::f32:
        case ElementType::f64: {
            const std::span<const double> magnitudes =
                expected.magnitudes.empty() ? std::span<const double>()
                                            : expected.magnitudes[index].as<double>();
            if (argument.type == ElementType::f32)
                return compare_floats(task, argument, reinterpret_cast<const float*>(got), poison,
                                      values.as<double>(), magnitudes);
            return compare_floats(task, argument, reinterpret_cast<const double*>(got), poison,
                                  values.as<double>(), magnitudes);
        }
        case ElementType::i32:
            return compare_integers(task, argument, reinterpret_cast<const std::int32_t*>(got),
                                    poison, values.as<std::int32_t>());
        case ElementType::i64:
            return compare_integers(task, argument, reinterpret_cast<const std::int64_t*>(got),
                                    poison, values.as<std::int64_t>());
        case ElementType::u32:
            return compare_integers(task, argument, reinterpret_cast<const std::uint32_t*>(got),
                                    poison, values.as<std::uint32_t>());
        case ElementType::u64:
            break;
    }
    return compare_integers(task, argument, reinterpret_cast<const std::uint64_t*>(got), poison,
                            values.as<std::uint64_t>());
}

}  // namespace

Comparison compare(const KernelSpec& kernel, const CallShape& shape,
                   const std::vector<const char*>& got, const std::vector<std::uint64_t>& poisons,
                   const Expected& expected) {
    Comparison result;
    result.ok = true;
    for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
        if (got[i] == nullptr)
            continue;
        const Argument& argument = kernel.arguments[i];
        const Elementwise found = compare_output({kernel, shape}, i, got[i], poisons[i], expected);
        result.worst = std::max(result.worst, found.worst);
        if (!found.first || !result.ok)
            continue;
        result.ok = false;
        const bool nothing =
            argument.direction == Direction::out && found.unwritten == shape.counts[i];
        result.reason = nothing ? Reason::no_answer : Reason::wrong_output;
        result.detail = nothing ? fmt::format(
                                      "{} was not written (it holds what was there before the "
                                      "call; outputs are not "
                                      "zeroed, so nothing may be added to them)",
                                      argument.name)
                                : fmt::format("{} ({} of {} elements wrong)", found.first->text,
                                              found.wrong, shape.counts[i]);
    }
    return result;
}

void place_inputs(const KernelSpec& kernel, const Layout& layout, std::uint32_t slot,
                  const std::vector<Bytes>& inputs, const Arena& arena) {
    for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
        const Layout::Place& place = layout.at(slot, i);
        if (place.array && !place.output && place.bytes > 0)
            std::memcpy(arena.data() + place.begin, inputs[i].data(), place.bytes);
    }
}

void place_outputs(const KernelSpec& kernel, const CallShape& shape, const Layout& layout,
                   std::uint32_t slot, const std::vector<Bytes>& inputs,
                   const std::vector<std::uint64_t>& poisons, const Arena& arena) {
    for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
        const Layout::Place& place = layout.at(slot, i);
        if (!place.array || !place.output || place.bytes == 0)
            continue;
        if (kernel.arguments[i].direction == Direction::inout)
            std::memcpy(arena.data() + place.begin, inputs[i].data(), place.bytes);
        else
            poison(place.bytes / shape.counts[i] == 8 ? ElementType::f64 : ElementType::f32,
                   poisons[i], arena.data() + place.begin, shape.counts[i]);
    }
}

std::vector<const char*> outputs_of(const Layout& layout, std::uint32_t slot, const Arena& arena) {
    std::vector<const char*> outputs;
    for (std::size_t i = 0; i < layout.arguments; ++i) {
        const Layout::Place& place = layout.at(slot, i);
        outputs.push_back(place.array && place.output ? arena.data() + place.begin : nullptr);
    }
    return outputs;
}

Served::Spec served_spec(const Task& task, std::string_view object, std::string_view glue,
                         Side side, const Peer* peer) {
    Served::Spec spec;
    spec.object = object;
    spec.glue = glue;
    spec.entry = entry_of(kernel_of(task), side);
    spec.memory_mb = task.limits.memory_mb;
    spec.processes = task.limits.processes;
    spec.output_kb = task.limits.output_kb;
    // Libraries that the task itself links are part of the task; a candidate gets no others, so
    // that it cannot load one that does its work. The C and C++ runtimes need no mention.
    const bool plain =
        std::all_of(task.build.link.begin(), task.build.link.end(), [](const std::string& library) {
            return library == "m" || library == "pthread" || library == "dl" || library == "rt" ||
                   library == "stdc++" || library == "atomic" || library == "gomp" ||
                   library == "omp";
        });
    if (peer != nullptr) {
        spec.root = Cage::Root::libraries;
        spec.environment = peer->environment;
    } else if (!plain || side == Side::reference) {
        spec.root = Cage::Root::libraries;
    }
    return spec;
}

Result<std::unique_ptr<ReferenceProcess>> ReferenceProcess::start(
    Machine& machine, const Task& task, std::string_view object, std::string_view glue,
    const std::vector<CallShape>& shapes, const std::vector<int>& cpus, int nice) {
    std::unique_ptr<ReferenceProcess> reference(new ReferenceProcess(task));
    std::size_t input_bytes = 0;
    std::size_t output_bytes = 0;
    for (const CallShape& shape : shapes) {
        const Layout layout = lay_out(kernel_of(task), shape, Side::reference, 1, {});
        input_bytes = std::max(input_bytes, layout.input_bytes);
        output_bytes = std::max(output_bytes, layout.output_bytes);
    }
    Result<Arena> input = Arena::make(input_bytes, Arena::Use::input);
    Result<Arena> output = Arena::make(output_bytes, Arena::Use::output);
    for (const Result<Arena>* arena : {&input, &output})
        if (!*arena)
            return fail(arena->error().where, arena->error().what);
    reference->input_ = std::move(*input);
    reference->output_ = std::move(*output);
    Served::Spec spec = served_spec(task, object, glue, Side::reference, nullptr);
    spec.cpus = cpus;
    spec.nice = nice;
    spec.input = &reference->input_;
    spec.output = &reference->output_;
    Result<std::unique_ptr<Served>> process = Served::start(machine, spec);
    if (!process)
        return fail(process.error().where, process.error().what);
    reference->process_ = std::move(*process);
    if (const std::optional<Trouble> trouble =
            reference->process_->load(Steady::now() + std::chrono::seconds(20)))
        return fail(kernel_of(task).reference.file, "the reference " + trouble->message);
    return reference;
}

Result<std::vector<Bytes>> ReferenceProcess::once(const CallShape& shape,
                                                  const std::vector<Bytes>& inputs) {
    const KernelSpec& kernel = kernel_of(task_);
    const auto deadline = Steady::now() + std::chrono::milliseconds(static_cast<long long>(
                                              1000 * std::max(task_.limits.verify_seconds, 1.0)));
    const auto failed = [&](const Trouble& trouble) {
        return fail(kernel.reference.file,
                    fmt::format("the reference {} at {}", trouble.message, to_text(shape.sizes)));
    };
    if (mapped_ != shape.sizes) {
        layout_ = lay_out(kernel, shape, Side::reference, 1, {});
        if (const std::optional<Trouble> trouble = process_->map(kernel, layout_, deadline))
            return failed(*trouble);
        mapped_ = shape.sizes;
    }
    std::vector<std::uint64_t> poisons;
    for (const Argument& argument : kernel.arguments)
        poisons.push_back(poison_word(type_at(argument, Side::reference), 0x5DEECE66DULL));
    place_inputs(kernel, layout_, 0, inputs, input_);
    place_outputs(kernel, shape, layout_, 0, inputs, poisons, output_);
    Served::Timing timing;
    if (const std::optional<Trouble> trouble = process_->go({0}, deadline, timing))
        return failed(*trouble);
    std::vector<Bytes> values(kernel.arguments.size());
    for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
        const Layout::Place& place = layout_.at(0, i);
        if (!place.array || !place.output)
            continue;
        values[i] = Bytes(place.bytes);
        if (place.bytes > 0)
            std::memcpy(values[i].data(), output_.data() + place.begin, place.bytes);
        if (!is_floating(kernel.arguments[i].type))
            continue;
        for (const double value : values[i].as<double>())
            if (!std::isfinite(value))
                return fail(
                    kernel.reference.file,
                    fmt::format("the reference gives {} in {} at {}; choose initialisers for which "
                                "every result "
                                "is finite",
                                std::isnan(value) ? "no number (or leaves an element unwritten)"
                                                  : "infinity",
                                kernel.arguments[i].name, to_text(shape.sizes)));
    }
    return values;
}

Result<Expected> ReferenceProcess::operator()(const CallShape& shape,
                                              const std::vector<Bytes>& inputs) {
    const KernelSpec& kernel = kernel_of(task_);
    Expected expected;
    Result<std::vector<Bytes>> values = once(shape, widen(kernel, inputs, false));
    if (!values)
        return fail(values.error().where, values.error().what);
    expected.values = std::move(*values);
    if (kernel.tolerance.scale == "absolute" && has_negative(kernel, inputs)) {
        Result<std::vector<Bytes>> magnitudes = once(shape, widen(kernel, inputs, true));
        if (!magnitudes)
            return fail(magnitudes.error().where, magnitudes.error().what);
        expected.magnitudes = std::move(*magnitudes);
    }
    return expected;
}

namespace {

// Everything a blocking verification needs, by reference to what its coroutine keeps alive.
struct Job {
    Machine& machine;
    const Task& task;
    std::string_view candidate, reference, candidate_glue, reference_glue;
    const Peer* peer;
    bool threads;
};

// Whether an object starts threads by the usual names. What races is right by luck; on one core it
// is lucky nearly always, so such an object is verified on all cores (which takes the timing
// lane's, too), several times, and at the sizes to be timed as well.
bool starts_threads(std::string_view object) {
    for (const std::string_view name :
         {"pthread_create", "GOMP_parallel", "__kmpc_fork_call", "thrd_create"})
        if (object.find(name) != std::string_view::npos)
            return true;
    return false;
}
constexpr std::size_t threaded_repeats = 5;

Result<VerifyOutcome> verify_blocking(const Job& job) {
    const auto started = Steady::now();
    const KernelSpec& kernel = kernel_of(job.task);
    std::vector<CallShape> shapes;
    std::size_t input_bytes = 0;
    std::size_t output_bytes = 0;
    std::vector<Sizes> all_sizes = kernel.verify_sizes;
    if (job.threads)  // small sizes are done before a second thread has started
        all_sizes.insert(all_sizes.end(), kernel.time_sizes.begin(), kernel.time_sizes.end());
    for (const Sizes& sizes : all_sizes) {
        Result<CallShape> shape = shape_of(kernel, sizes);
        if (!shape)
            return fail(shape.error().where, shape.error().what);
        const Layout layout = lay_out(kernel, *shape, Side::candidate, 1, {});
        input_bytes = std::max(input_bytes, layout.input_bytes);
        output_bytes = std::max(output_bytes, layout.output_bytes);
        shapes.push_back(std::move(*shape));
    }
    Result<Arena> input = Arena::make(input_bytes, Arena::Use::input);
    Result<Arena> output = Arena::make(output_bytes, Arena::Use::output);
    for (const Result<Arena>* arena : {&input, &output})
        if (!*arena)
            return fail(arena->error().where, arena->error().what);
    Served::Spec spec =
        served_spec(job.task, job.candidate, job.candidate_glue, Side::candidate, job.peer);
    spec.cpus = job.threads ? job.machine.cpus : job.machine.build_cpus;
    spec.input = &*input;
    spec.output = &*output;
    Result<std::unique_ptr<ReferenceProcess>> reference = ReferenceProcess::start(
        job.machine, job.task, job.reference, job.reference_glue, shapes, job.machine.build_cpus);
    if (!reference)
        return fail(reference.error().where, reference.error().what);
    Result<std::unique_ptr<Served>> candidate = Served::start(job.machine, spec);
    if (!candidate)
        return fail(candidate.error().where, candidate.error().what);

    VerifyOutcome outcome;
    const auto finish = [&](const Trouble& trouble,
                            const std::string& where) -> Result<VerifyOutcome> {
        if (trouble.reason == Reason::infrastructure)
            return fail("verify", trouble.message);
        outcome.reason = trouble.reason;
        outcome.message =
            where.empty() ? trouble.message : fmt::format("at {}: {}", where, trouble.message);
        outcome.seconds = std::chrono::duration<double>(Steady::now() - started).count();
        return outcome;
    };
    const auto deadline =
        Steady::now() +
        std::chrono::milliseconds(static_cast<long long>(1000 * job.task.limits.verify_seconds));
    if (const std::optional<Trouble> trouble = (*candidate)->load(deadline))
        return finish(*trouble, "");
    outcome.seed = secret_seed();
    const Rng rng(outcome.seed);
    for (std::size_t s = 0; s < shapes.size(); ++s) {
        const CallShape& shape = shapes[s];
        const Layout layout = lay_out(kernel, shape, Side::candidate, 1, {});
        if (const std::optional<Trouble> trouble = (*candidate)->map(kernel, layout, deadline))
            return finish(*trouble, to_text(shape.sizes));
        const std::vector<InputClass> classes = classes_of(kernel);
        const std::size_t repeats = job.threads ? threaded_repeats : 1;
        for (std::size_t k = 0; k < classes.size() * repeats; ++k) {
            const InputClass which = classes[k % classes.size()];
            VerifiedCase verified;
            verified.sizes = to_text(shape.sizes);
            verified.inputs = std::string(name_of(which));
            const std::string where = fmt::format("{}, {} inputs", verified.sizes, verified.inputs);
            Result<std::vector<Bytes>> inputs =
                make_inputs(kernel, shape, which, rng.fork("inputs", {s, k}));
            if (!inputs)
                return fail(inputs.error().where, inputs.error().what);
            std::vector<std::uint64_t> poisons;
            for (std::size_t i = 0; i < kernel.arguments.size(); ++i)
                poisons.push_back(
                    poison_word(kernel.arguments[i].type, rng.fork("poison", {s, k, i}).seed()));
            const std::uint64_t canary = rng.fork("canary", {s, k}).seed();
            place_inputs(kernel, layout, 0, *inputs, *input);
            place_outputs(kernel, shape, layout, 0, *inputs, poisons, *output);
            set_canaries(layout, *output, canary);
            Served::Timing timing;
            if (const std::optional<Trouble> trouble = (*candidate)->go({0}, deadline, timing)) {
                verified.detail = trouble->message;
                outcome.cases.push_back(std::move(verified));
                return finish(*trouble, where);
            }
            const Result<Expected> expected = (**reference)(shape, *inputs);
            if (!expected)
                return fail(expected.error().where, expected.error().what);
            const std::string broken = broken_canary(kernel, layout, *output, canary, {0});
            const Comparison compared =
                compare(kernel, shape, outputs_of(layout, 0, *output), poisons, *expected);
            verified.worst = compared.worst;
            verified.ok = compared.ok && broken.empty();
            verified.detail = broken.empty() ? compared.detail : broken;
            outcome.cases.push_back(verified);
            if (!verified.ok)
                return finish({broken.empty() ? compared.reason : Reason::memory, verified.detail},
                              where);
        }
    }
    outcome.ok = true;
    outcome.seconds = std::chrono::duration<double>(Steady::now() - started).count();
    return outcome;
}

}  // namespace

awaitable<Result<VerifyOutcome>> verify(Machine& machine, const Task& task,
                                        const std::string& candidate_object,
                                        const std::string& reference_object, const Peer* peer) {
    if (!task.kernel)
        co_return fail(task.name, "has no [kernel]: only the kernel evaluator verifies");
    Result<std::string> candidate_glue = co_await glue_object(machine, task, Side::candidate);
    Result<std::string> reference_glue = co_await glue_object(machine, task, Side::reference);
    if (!candidate_glue)
        co_return fail(candidate_glue.error().where, candidate_glue.error().what);
    if (!reference_glue)
        co_return fail(reference_glue.error().where, reference_glue.error().what);
    // The lane before the slot: time_session() takes them in this order, too.
    const bool threads = starts_threads(candidate_object);
    std::optional<Permit> lane;
    if (threads)
        lane.emplace(co_await machine.timing_lane.acquire());
    const Permit slot = co_await machine.build_slots.acquire();
    const Job job{machine,         task, candidate_object, reference_object, *candidate_glue,
                  *reference_glue, peer, threads};
    auto work = [&job] { return verify_blocking(job); };
    co_return co_await offload(machine.pool->get_executor(), std::move(work));
}

}  // namespace loopscope
