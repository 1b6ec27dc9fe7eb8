// Comparison of a candidate's outputs with the reference's, and the reference as a process of its
// own. verify() itself is declared in evaluate/kernel.h.
#pragma once
#include "core/result.h"
#include "evaluate/inputs.h"
#include "evaluate/served.h"
#include "evaluate/task.h"
#include "record/evaluation.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace loopscope {

// What a call should have given, elementwise: in the reference's types, one entry per argument
// (empty for inputs).
struct Expected {
    std::vector<Bytes> values;
    std::vector<Bytes>
        magnitudes;  // the reference on absolute inputs; empty = the same as |values|
};

struct Comparison {
    bool ok = false;
    Reason reason = Reason::ok;
    double worst = 0;    // max of error / bound
    std::string detail;  // for a wrong one
};
// `got[i]` points at argument i's output, or is null for inputs. `poisons[i]` is what it held
// before the call.
Comparison compare(const KernelSpec& kernel, const CallShape& shape,
                   const std::vector<const char*>& got, const std::vector<std::uint64_t>& poisons,
                   const Expected& expected);

// The reference in its own sandbox.
class ReferenceProcess {
public:
    // `shapes`: all that it will be asked for; its memory is reserved once.
    static Result<std::unique_ptr<ReferenceProcess>> start(
        Machine& machine, const Task& task, std::string_view object, std::string_view glue,
        const std::vector<CallShape>& shapes, const std::vector<int>& cpus, int nice = 0);
    // An Error names the reference: it crashed, hung or gave a value that is not finite.
    Result<Expected> operator()(const CallShape& shape, const std::vector<Bytes>& inputs);

private:
    ReferenceProcess(const Task& task) : task_(task) {}
    Result<std::vector<Bytes>> once(const CallShape& shape, const std::vector<Bytes>& inputs);
    const Task& task_;
    Arena input_, output_;
    std::unique_ptr<Served> process_;
    Layout layout_;
    std::optional<Sizes> mapped_;
};

// Puts inputs where the candidate sees them: the read-only ones (shared by all programs) and, for
// each program, what its writable arguments hold before a call.
void place_inputs(const KernelSpec& kernel, const Layout& layout, std::uint32_t slot,
                  const std::vector<Bytes>& inputs, const Arena& arena);
void place_outputs(const KernelSpec& kernel, const CallShape& shape, const Layout& layout,
                   std::uint32_t slot, const std::vector<Bytes>& inputs,
                   const std::vector<std::uint64_t>& poisons, const Arena& arena);
std::vector<const char*> outputs_of(const Layout& layout, std::uint32_t slot, const Arena& arena);

// Limits and cores of a served program of this task.
Served::Spec served_spec(const Task& task, std::string_view object, std::string_view glue,
                         Side side, const Peer* peer);

}  // namespace loopscope
