// A task: a folder with task.toml - artifact, evaluator, objective, data splits. docs/task.md is
// the manual.
#pragma once
#include "core/result.h"
#include "program/edit.h"
#include "record/program.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

enum class EvaluatorKind { kernel, command, python, qa };

// One declared initial version of the artifact. The start whose name is Task::baseline is what
// speed-ups refer to.
struct Start {
    std::string name;
    std::string language = "cpp";
    std::vector<std::string> files;  // relative to the task's folder
    Program program;                 // their texts, named by the artifact's file names
    std::string expect;              // the status its author intends ("" = not said)
    std::string expect_reason;       // and the reason ("" = any)
    std::string note;
};

enum class ElementType { i32, i64, u32, u64, f32, f64 };
std::string_view name_of(ElementType type);  // "i32", ...
std::string_view c_name(
    ElementType type);  // "int", "long long", "unsigned", "unsigned long long", "float", "double"
std::size_t size_of(ElementType type);

enum class Direction { in, out, inout };

// How an argument's contents are made, before every call, from a secret seed.
struct Initialiser {
    // One of, with its arguments (docs/task.md):
    //   mixed: a class drawn per call: uniform, signed normal, heavy-tailed, sparse, scaled
    //   uniform(low, high), normal(mean, sd), lognormal(mu, sigma): real
    //   integers(low, high), constant(value), zeros: real or integer
    //   permutation: of 0 .. count - 1, integer
    //   csr_offsets(rows, per_row): rows + 1 nondecreasing i32 from 0 to exactly rows * per_row
    //   csr_columns(offsets_argument, columns): i32 in [0, columns), sorted and unique within a row
    // read_task has checked kind, number of arguments, and that every expression has a value at
    // every size.
    std::string kind = "mixed";
    std::vector<std::string> arguments;  // numbers, size expressions or argument names, by kind
};

struct Argument {
    std::string name;
    ElementType type = ElementType::f32;
    bool scalar = false;  // passed by value: a size, or `value`
    std::string value;    // of a scalar: an expression over the sizes, e.g. "n" or "0.01"
    std::vector<std::string> shape;  // of an array: one expression a dimension, e.g. ["n", "m + 2"]
    Direction direction = Direction::in;
    Initialiser init;
};

using Sizes = std::map<std::string, std::int64_t>;
std::string to_text(const Sizes& sizes);  // "m=3 n=17"

// error <= bound, elementwise, against a reference computed in double:
//   bound_i = factor * sqrt(reduction) * u * scale_i + absolute,   u = unit roundoff of the
//   output's type
// scale: "absolute" = the reference applied to the absolute values of its inputs (|A||B| of a
// matrix product), "value" = |reference_i|, "max" = max over the output of |reference|.
struct Tolerance {
    std::string reduction = "1";  // expression over the sizes: the longest sum
    double factor = 8;
    std::string scale = "absolute";
    double absolute = 0;
    double relative = 0;  // added: relative * |reference_i| (0 = none)
};

struct Reference {
    std::string file;   // C++ source in the task's folder
    std::string entry;  // extern "C", the kernel's arguments with float widened to double
    std::string text;   // of `file`, read once: the key and the build see the same bytes
};

// A trusted comparison beside the best candidate, e.g. a vendor library: never a start, never shown
// to a model.
struct Peer {
    std::string name;
    std::string file;
    std::vector<std::string> link;  // libraries, e.g. ["openblas"]
    std::map<std::string, std::string> environment;
    std::string text;  // of `file`; defines the kernel's entry with the kernel's own types
};

struct KernelSpec {
    std::string entry;                // the function's name, extern "C", returns void
    std::vector<Argument> arguments;  // in the order of the signature
    std::vector<Sizes> verify_sizes, time_sizes;
    Reference reference;
    Tolerance tolerance;
    std::string flops, bytes;  // expressions over the sizes; "" = not declared
    int cores = 1;
    std::string device = "cpu";
    std::string aggregate = "geomean";  // of the timing sizes: "geomean" or "min"
    double fast_tolerance = 0.12;       // speed-up must exceed 1 + this
};

struct BuildSpec {
    std::string compiler = "clang++-19";
    std::vector<std::string> flags = {"-O3", "-march=native"};
    std::vector<std::string> link;  // libraries
    std::string
        command;  // multi-file projects: run in the sandbox instead, with compiler and flags in
    std::string output;  // CXX and CXXFLAGS; it must leave this shared object
};

struct CommandSpec {
    // Run in the sandbox, the artifact and the support files in its working folder; prints one JSON
    // object:
    // {"status": ..., "score": ..., "message": ..., "metrics": {...}}
    std::vector<std::string> argv;
    double timeout_seconds = 60;
};

// Evaluator kind `python`: the candidate is imported by the worker, not by the engine.
struct PythonSpec {
    std::string mode =
        "function";               // "function", "module" (evaluate(program_path)) or "environment"
    std::string file;             // of the task: the checker, the evaluator or the environment
    std::string entry;            // the name called in it
    std::string text;             // of `file`
    double timeout_seconds = 60;  // of one call
};

// Evaluator kind `qa`: question/answer pairs; the artifact is a prompt or a small program that
// calls the model.
struct QaSpec {
    std::string data;  // JSON or JSON Lines in the task's folder
    std::string question = "question", answer = "answer";  // fields of one example
    std::string match = "exact";  // "exact", "number", "choice" or "contains"
    std::string text;             // of `data`
};

struct Limits {
    double build_seconds = 60, verify_seconds = 30, time_seconds = 120;
    std::int64_t memory_mb = 4096;
    int processes = 64;
    std::int64_t output_kb = 256;
    std::int64_t file_mb = 64;
};

struct FeedbackSpec {
    std::vector<std::string> components = {"debugger", "analyzer", "profiler"};
    std::map<std::string, std::vector<std::string>> commands;  // user components: name -> argv
    std::size_t max_bytes = 6000;  // of one component's text in a prompt
};

struct StagedMessage {  // told to the model when the score lies in [from, to)
    double from = -std::numeric_limits<double>::infinity();
    double to = std::numeric_limits<double>::infinity();
    std::string text;
};

struct Splits {                                   // of data sets, by evaluators that have examples
    std::string train, validation, shadow, test;  // files or index ranges
    std::string group;                            // field that must not straddle splits
};

struct Task {
    std::filesystem::path folder;
    std::string name, objective;
    EvaluatorKind kind = EvaluatorKind::kernel;
    std::string language = "cpp";
    std::vector<std::string> files;  // of the artifact
    std::vector<EditableFunction> editable;
    std::map<std::string, Start> starts;
    std::string baseline;  // name of a start
    std::optional<KernelSpec> kernel;
    std::optional<CommandSpec> command;
    std::optional<PythonSpec> python;
    std::optional<QaSpec> qa;
    BuildSpec build;
    Limits limits;
    FeedbackSpec feedback;
    Splits splits;
    std::vector<StagedMessage> messages;
    std::map<std::string, Peer> peers;
    std::map<std::string, std::string> support;  // other files a build may include: name -> text
};

// Reads FOLDER/task.toml (or the file itself) and every file it names. Errors name file and line,
// the key at fault, and for an unknown key the nearest known one.
Result<Task> read_task(const std::filesystem::path& path);

// The same from a text. `where` names it in messages; `read` gives the bytes of a file by its path
// relative to the task's folder. Task::folder stays empty.
using TaskFiles = std::function<Result<std::string>(const std::string&)>;
Result<Task> parse_task(std::string_view toml, const std::string& where, const TaskFiles& read);

// An Error says why this version cannot evaluate the task: the format holds more kinds of
// evaluators, devices and languages than are built. Checked where an evaluation is asked for, so
// that reading and listing still work.
Result<void> can_evaluate(const Task& task);

EditRules edit_rules(const Task& task);
// The C declaration of the entry: "void matmul(int n, const float* a, ...)", from the arguments.
std::string declaration_of(const KernelSpec& kernel);

// Integer and real expressions over sizes: + - * / % ( ) min max, decimal numbers, names. Division
// of integers truncates. Errors name the position and the unknown name.
Result<double> evaluate_expression(std::string_view expression, const Sizes& sizes);
Result<std::int64_t> evaluate_count(std::string_view expression,
                                    const Sizes& sizes);  // integral and >= 0

// Canonical JSON of everything in the task that can change an evaluation's outcome, for journal
// keys.
std::string canonical(const Task& task);

// The text of a task.toml for the user's own kernel, made from the signature of `function` in
// `source`, with comments that say what is to be filled in; and the reference stub. `loopscope
// init`.
struct NewTask {
    std::map<std::string, std::string> files;  // relative path -> text
    std::vector<std::string> to_fill_in;       // one line each, for the person
};
Result<NewTask> new_task(const std::filesystem::path& source, std::string_view function);

}  // namespace loopscope
