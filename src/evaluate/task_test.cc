#include "evaluate/task.h"

#include "core/file.h"
#include "evaluate/expression.h"
#include "record/evaluation.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

namespace loopscope {
namespace {

namespace fs = std::filesystem;

const fs::path checkout = fs::path(__FILE__).parent_path().parent_path().parent_path();

// A task in memory; a test changes one thing and looks at what is said.
struct Files {
    std::map<std::string, std::string> all = {
        {"task.toml", R"toml(name = "scale"
objective = "Multiply."
baseline = "plain"

[evaluator]
kind = "kernel"

[artifact]
language = "cpp"
files = ["scale.cc"]
editable = ["scale.cc:scale"]

[start.plain]
file = "plain.cc"
expect = "pass"

[kernel]
entry = "scale"
flops = "n"
bytes = "8.0 * n"
reference = { file = "reference.cc", entry = "scale_reference" }
tolerance = { reduction = 1 }

[[kernel.argument]]
name = "n"
type = "i32"

[[kernel.argument]]
name = "factor"
type = "f32"
value = 0.5

[[kernel.argument]]
name = "a"
type = "f32[n]"
init = "uniform(0, 1)"

[[kernel.argument]]
name = "c"
type = "f32"
shape = ["n"]
direction = "out"

[kernel.verify]
sizes = [{ n = 1 }, { n = 17 }]

[kernel.time]
sizes = [{ n = 1000 }]

[limits]
memory_mb = 512
)toml"},
        {"plain.cc",
         "extern \"C\" void scale(int n, float factor, const float* a, float* c) { for (int i = 0; "
         "i < n; ++i) c[i] = factor * a[i]; }\n"},
        {"reference.cc",
         "extern \"C\" void scale_reference(int n, double factor, const double* a, double* c) { "
         "for (int i = 0; i < n; ++i) c[i] = factor * a[i]; }\n"},
    };

    Files& replace(const std::string& file, std::string_view from, std::string_view to) {
        std::string& text = all[file];
        const std::size_t at = text.find(from);
        EXPECT_NE(at, std::string::npos) << "no \"" << from << "\" in " << file;
        if (at != std::string::npos)
            text.replace(at, from.size(), to);
        return *this;
    }
    Files& toml(std::string_view from, std::string_view to) {
        return replace("task.toml", from, to);
    }
    Files& add(std::string_view text) {
        all["task.toml"] += text;
        return *this;
    }

    Result<Task> parse() const {
        const TaskFiles read = [this](const std::string& path) -> Result<std::string> {
            const auto found = all.find(path);
            if (found == all.end())
                return fail(path, "no such file");
            return found->second;
        };
        return parse_task(all.at("task.toml"), "task.toml", read);
    }
    std::string error() const {
        const Result<Task> task = parse();
        return task ? "no error" : to_text(task.error());
    }
};

TEST(Task, IsReadInFull) {
    const Result<Task> task = Files()
                                  .add(R"(processes = 8
[build]
flags = ["-O2"]
link = ["m"]
[feedback]
components = ["debugger", "lines"]
max_bytes = 1000
[feedback.command.lines]
argv = ["wc", "-l", "scale.cc"]
[[message]]
to = 1
text = "slower"
[[message]]
from = 1
text = "faster"
[start.other]
files = { "scale.cc" = "plain.cc" }
note = "the same"
[peer.vendor]
file = "plain.cc"
link = ["openblas"]
environment = { THREADS = "1" }
)")
                                  .parse();
    ASSERT_TRUE(task) << to_text(task.error());
    EXPECT_EQ(task->name, "scale");
    EXPECT_EQ(task->kind, EvaluatorKind::kernel);
    EXPECT_EQ(task->starts.at("plain").program.files.at("scale.cc").substr(0, 10), "extern \"C\"");
    EXPECT_EQ(task->starts.at("plain").files, std::vector<std::string>{"plain.cc"});
    EXPECT_EQ(task->starts.at("other").program, task->starts.at("plain").program);
    const KernelSpec& kernel = *task->kernel;
    ASSERT_EQ(kernel.arguments.size(), 4U);
    EXPECT_TRUE(kernel.arguments[0].scalar);
    EXPECT_EQ(kernel.arguments[0].value, "n");
    EXPECT_EQ(evaluate_expression(kernel.arguments[1].value, {}).value(), 0.5);
    EXPECT_EQ(kernel.arguments[2].shape, std::vector<std::string>{"n"});
    EXPECT_EQ(kernel.arguments[2].init.kind, "uniform");
    EXPECT_EQ(kernel.arguments[2].init.arguments, (std::vector<std::string>{"0", "1"}));
    EXPECT_EQ(kernel.arguments[3].shape, std::vector<std::string>{"n"});
    EXPECT_EQ(kernel.arguments[3].direction, Direction::out);
    EXPECT_EQ(kernel.verify_sizes.size(), 2U);
    EXPECT_EQ(kernel.time_sizes[0].at("n"), 1000);
    EXPECT_EQ(kernel.tolerance.reduction, "1");
    EXPECT_EQ(kernel.tolerance.factor, 8);
    EXPECT_NE(kernel.reference.text.find("scale_reference"), std::string::npos);
    EXPECT_EQ(task->limits.memory_mb, 512);
    EXPECT_EQ(task->limits.processes, 8);
    EXPECT_EQ(task->build.flags, std::vector<std::string>{"-O2"});
    EXPECT_EQ(task->feedback.components, (std::vector<std::string>{"debugger", "lines"}));
    EXPECT_EQ(task->feedback.commands.at("lines").size(), 3U);
    EXPECT_EQ(task->messages[1].from, 1);
    EXPECT_TRUE(std::isinf(task->messages[1].to));
    EXPECT_EQ(task->peers.at("vendor").environment.at("THREADS"), "1");
    EXPECT_EQ(edit_rules(*task).editable.size(), 1U);
    EXPECT_TRUE(can_evaluate(*task));
}

struct Bad {
    const char* from;
    const char* to;
    const char* expected;
};

TEST(Task, SaysWhatIsWrongAndWhere) {
    const std::vector<Bad> table = {
        {"objective =", "\x01 =", "task.toml:2: has the control character 0x01"},
        {"[limits]", "[:limits]", "task.toml:50: is not valid TOML"},
        {"[limits]", "[[ ?]]", "task.toml:50: is not valid TOML"},
        {"[limits]", "[]", "task.toml:50: "},
        {"files = [\"scale.cc\"]", "files = [}", "task.toml:10: is not valid TOML"},
        {"[limits]", "\xC8\xA8 = 1\n[limits]",
         "task.toml:50: has a character beyond ASCII outside of a string"},
        {"Multiply.", "\xC8", "task.toml: is not UTF-8 text"},
        {"objective =", "objectve =",
         "task.toml:2: unknown key \"objectve\" in the task; did you mean \"objective\"?"},
        {"flops =", "flop =",
         "task.toml:19: unknown key \"flop\" in [kernel]; did you mean \"flops\"? Accepted: entry, "
         "argument,"},
        {"flops =", "zzzzzzzz =", "unknown key \"zzzzzzzz\" in [kernel]. Accepted: entry,"},
        {"memory_mb", "memory", "task.toml:51: unknown key \"memory\" in [limits]"},
        {"expect = \"pass\"", "expects = \"pass\"",
         "unknown key \"expects\" in [start.plain]; did you mean \"expect\"?"},
        {"init = \"uni", "initialiser = \"uni",
         "unknown key \"initialiser\" in [[kernel.argument]]"},
        {"entry = \"scale_reference\"", "symbol = \"scale_reference\"",
         "unknown key \"symbol\" in kernel.reference"},
        {"reduction = 1", "reductions = 1", "in kernel.tolerance; did you mean \"reduction\"?"},
        {"kind =", "kin =", "in [evaluator]; did you mean \"kind\"?"},
        {"language =", "lang =", "in [artifact]"},
        {"name = \"scale\"\n", "name = scale\n", "task.toml:1: "},
        {"name = \"scale\"\n", "", "the task needs the key \"name\""},
        {"name = \"scale\"\n", "name = \"\"\n", "\"name\" in the task is empty"},
        {"name = \"scale\"\n", "name = \"a b\"\n", "may not have spaces"},
        {"name = \"scale\"\n", "name = 3\n",
         "task.toml:1: \"name\" in the task must be a string, not an integer"},
        {"name = \"scale\"\n", "name = \"scale\"\nname = \"x\"\n", "task.toml:2: "},
        {"memory_mb = 512", "memory_mb = \"512\"",
         "\"memory_mb\" in [limits] must be an integer, not a string"},
        {"memory_mb = 512", "memory_mb = 512.5",
         "\"memory_mb\" in [limits] must be an integer, not a real number"},
        {"memory_mb = 512", "memory_mb = 0", "\"memory_mb\" in [limits] is 0; it must be from 1"},
        {"memory_mb = 512", "memory_mb = -4", "\"memory_mb\" in [limits] is -4"},
        {"memory_mb = 512", "build_seconds = 0",
         "\"build_seconds\" in [limits] is 0; it must be positive"},
        {"memory_mb = 512", "build_seconds = nan", "must be a finite number"},
        {"{ n = 17 }", "{ n = -17 }",
         "task.toml:45: size \"n\" in [kernel.verify] is -17; it must be from 1"},
        {"{ n = 17 }", "{ n = 0 }", "size \"n\" in [kernel.verify] is 0"},
        {"{ n = 17 }", "{ n = 1.5 }",
         "size \"n\" in [kernel.verify] must be an integer, not a real number"},
        {"{ n = 17 }", "{ m = 17 }",
         "every set of sizes must name the same ones: the first of [kernel.verify] names n, "
         "another m"},
        {"{ n = 17 }", "{ n = 1 }", "n=1 appears twice in [kernel.verify]"},
        {"{ n = 17 }", "{}", "a set of sizes in [kernel.verify] is empty"},
        {"{ n = 17 }", "17", "\"sizes\" in [kernel.verify] must be an array of tables"},
        {"sizes = [{ n = 1000 }]", "sizes = []", "[kernel.time] needs at least one set of sizes"},
        {"sizes = [{ n = 1000 }]", "", "[kernel.time] needs the key \"sizes\""},
        {"{ n = 1000 }", "{ n = 100000000 }", "more than limits.memory_mb = 512"},
        {"{ n = 1000 }", "{ m = 1000 }", "every set of sizes must name the same ones"},
        {"shape = [\"n\"]", "shape = [\"k\"]",
         "shape of argument \"c\": expression \"k\", position 1: unknown name \"k\"; known: n"},
        {"shape = [\"n\"]", "shape = [\"n - 1\"]",
         "shape of argument \"c\": expression \"n - 1\" is 0 at n=1; it must be at least 1"},
        {"shape = [\"n\"]", "shape = [\"n - 2\"]", "is -1 at n=1: a count cannot be negative"},
        {"shape = [\"n\"]", "shape = []", "must be an array of expressions"},
        {"shape = [\"n\"]", "shape = \"n\"", "must be an array of expressions"},
        {"type = \"f32[n]\"", "type = \"float[n]\"",
         "argument \"a\": unknown type \"float\"; did you mean \"f32\"?"},
        {"type = \"f32[n]\"", "type = \"f16[n]\"",
         "argument \"a\": unknown type \"f16\". Accepted: i32,"},
        {"type = \"f32[n]\"", "type = \"f32[n\"", "\"f32[n\" is not a type"},
        {"type = \"f32[n]\"", "type = \"f32[n]\"\nshape = [\"n\"]",
         "a shape in its type and one in \"shape\""},
        {"init = \"uniform(0, 1)\"", "init = \"unifrom(0, 1)\"",
         "argument \"a\": init \"unifrom\" is unknown; did you mean \"uniform\"?"},
        {"init = \"uniform(0, 1)\"", "init = \"uniform(0)\"",
         "init takes 2 arguments, not 1: uniform(low, high)"},
        {"init = \"uniform(0, 1)\"", "init = \"uniform(1, 0)\"",
         "the low end 1 is not below the high end 0"},
        {"init = \"uniform(0, 1)\"", "init = \"uniform(0, k)\"", "unknown name \"k\""},
        {"init = \"uniform(0, 1)\"", "init = \"normal(0, 0)\"", "the spread 0 must be positive"},
        {"init = \"uniform(0, 1)\"", "init = \"integers(0.5, 2)\"", "are not whole numbers"},
        {"init = \"uniform(0, 1)\"", "init = \"permutation\"",
         "permutation does not make f32 values"},
        {"init = \"uniform(0, 1)\"", "init = \"uniform(0, 1\"", "does not end in \")\""},
        {"direction = \"out\"", "direction = \"outt\"",
         "\"direction\" in [[kernel.argument]] is \"outt\"; did you mean \"out\"?"},
        {"direction = \"out\"", "direction = \"out\"\ninit = \"zeros\"",
         "what it holds before a call is poisoned"},
        {"direction = \"out\"", "", "no argument is \"out\" or \"inout\""},
        {"value = 0.5", "value = \"k\"", "value of argument \"factor\": expression \"k\""},
        {"value = 0.5", "init = \"zeros\"", "argument \"factor\" is a scalar: give it a \"value\""},
        {"value = 0.5", "direction = \"out\"", "its direction can only be \"in\""},
        {"value = 0.5", "",
         "value of argument \"factor\": expression \"factor\", position 1: unknown name "
         "\"factor\""},
        {"name = \"factor\"", "name = \"n\"",
         "task.toml:28: argument \"n\" appears twice; the first is in line 24"},
        {"name = \"factor\"", "name = \"a-b\"", "is not a C identifier"},
        {"tolerance = { reduction = 1 }", "tolerance = { reduction = \"n - 1\" }",
         "tolerance.reduction is 0 at n=1; it must be positive"},
        {"tolerance = { reduction = 1 }", "tolerance = { factor = -1 }",
         "\"factor\" in kernel.tolerance is -1; it must be at least 0"},
        {"tolerance = { reduction = 1 }", "tolerance = { scale = \"abs\" }",
         "Accepted: absolute, value, max"},
        {"tolerance = { reduction = 1 }", "tolerance = 1e-3",
         "\"tolerance\" in [kernel] must be a table, not a real number"},
        {"flops = \"n\"", "flops = \"n *\"", "task.toml:19: flops: expression \"n *\", position 4"},
        {"flops = \"n\"", "flops = \"-n\"", "flops is -1 at n=1; it cannot be negative"},
        {"flops = \"n\"", "device = \"gpu\"", "Accepted: cpu, pocl, cuda, opencl"},
        {"flops = \"n\"", "cores = 0", "\"cores\" in [kernel] is 0"},
        {"flops = \"n\"", "aggregate = \"mean\"", "Accepted: geomean, min"},
        {"baseline = \"plain\"", "baseline = \"plan\"",
         "task.toml:3: the baseline \"plan\" is not a start; did you mean \"plain\"?"},
        {"expect = \"pass\"", "expect = \"fast\"", "it must pass"},
        {"expect = \"pass\"", "expect = \"passed\"", "did you mean \"pass\"?"},
        {"expect = \"pass\"", "expect = \"pass\"\nexpect_reason = \"crash\"",
         "the status \"pass\" never has the reason \"crash\""},
        {"expect = \"pass\"", "expect_reason = \"crashed\"", "did you mean \"crash\"?"},
        {"expect = \"pass\"", "language = \"opencl\"", "a task has one language"},
        {"file = \"plain.cc\"", "file = \"missing.cc\"",
         "task.toml:14: [start.plain]: missing.cc: no such file"},
        {"file = \"plain.cc\"", "file = \"../plain.cc\"",
         "the path \"../plain.cc\" leaves the task's folder"},
        {"file = \"plain.cc\"", "file = \"/etc/passwd\"", "is absolute"},
        {"file = \"plain.cc\"", "file = \"./plain.cc\"", "not in its plain form"},
        {"file = \"plain.cc\"", "file = \"\"", "\"file\" in [start.plain] is empty"},
        {"file = \"plain.cc\"", "", "start \"plain\" needs \"file\""},
        {"file = \"plain.cc\"", "file = \"plain.cc\"\nfiles = { \"scale.cc\" = \"plain.cc\" }",
         "has both \"file\" and \"files\""},
        {"file = \"plain.cc\"", "files = { \"scala.cc\" = \"plain.cc\" }",
         "\"scala.cc\" is not a file of the artifact; did you mean \"scale.cc\"?"},
        {"[start.plain]\n", "[start]\n", "[start.expect] must be a table, not a string"},
        {"file = \"reference.cc\"", "file = \"ref.cc\"",
         "kernel.reference.file: ref.cc: no such file"},
        {"entry = \"scale_reference\"", "entry = \"scale\"",
         "the reference's entry must have a name of its own"},
        {"entry = \"scale_reference\"", "entry = \"scale_ref\"", "reference.cc: "},
        {"files = [\"scale.cc\"]", "files = []", "an artifact has at least one file"},
        {"files = [\"scale.cc\"]", "files = [\"scale.cc\", \"scale.cc\"]",
         "names \"scale.cc\" twice"},
        {"files = [\"scale.cc\"]", "files = [\"../scale.cc\"]", "leaves the task's folder"},
        {"files = [\"scale.cc\"]", "files = \"scale.cc\"",
         "must be an array of strings, not a string"},
        {"files = [\"scale.cc\"]", "files = [\"scale.cc\", \"more.cc\"]",
         "the artifact has 2 files; write files = {"},
        {"files = [\"scale.cc\"]", "files = [\"scale.cc\"]\nsupport = [\"none.h\"]",
         "[artifact] support: none.h: no such file"},
        {"files = [\"scale.cc\"]", "files = [\"scale.cc\"]\nsupport = [\"scale.cc\"]",
         "is a file of the artifact too"},
        {"language = \"cpp\"", "language = \"rust\"",
         "Accepted: cpp, c, cuda, opencl, python, text"},
        {"language = \"cpp\"", "language = \"text\"",
         "which an artifact of language \"text\" has not"},
        {"editable = [\"scale.cc:scale\"]", "editable = [\"scale.cc:scala\"]",
         "the editable function scale.cc:scala"},
        {"editable = [\"scale.cc:scale\"]", "editable = [\"other.cc:scale\"]",
         "\"other.cc\" is not a file of the artifact"},
        {"editable = [\"scale.cc:scale\"]", "editable = [\"scale.cc:1\"]",
         "is not the name of a function"},
        {"kind = \"kernel\"", "kind = \"kernels\"", "did you mean \"kernel\"?"},
        {"kind = \"kernel\"", "kind = \"command\"",
         "the section [kernel] does not belong to an evaluator of kind \"command\""},
        {"[kernel]", "[kernels]", "unknown key \"kernels\" in the task; did you mean \"kernel\"?"},
        {"kind = \"kernel\"", "", "[evaluator] needs the key \"kind\""},
        {"[limits]", "[command]\nargv = [\"x\"]\n[limits]",
         "the section [command] does not belong to an evaluator of kind \"kernel\""},
        {"[limits]", "[splits]\ntrain = \"0:10\"\n[limits]",
         "[splits] is for evaluators with examples"},
        {"[limits]", "[build]\ncommand = \"make\"\n[limits]",
         "\"command\" and \"output\" belong together"},
        {"[limits]", "[build]\ncommand = \"make\"\noutput = \"x.so\"\nlink = [\"m\"]\n[limits]",
         "has no effect beside \"command\""},
        {"[limits]", "[build]\nlink = [\"-lm\"]\n[limits]", "names libraries"},
        {"[limits]", "[build]\ncompiler = \"clang -O3\"\n[limits]",
         "options belong into \"flags\""},
        {"[limits]", "[feedback]\ncomponents = [\"debuger\"]\n[limits]",
         "unknown component \"debuger\" in [feedback]; did you mean \"debugger\"?"},
        {"[limits]", "[feedback]\ncomponents = [\"profiler\", \"profiler\"]\n[limits]",
         "names \"profiler\" twice"},
        {"[limits]", "[feedback.command.profiler]\nargv = [\"x\"]\n[limits]",
         "is a built-in component"},
        {"[limits]", "[feedback.command.mine]\nargv = []\n[limits]", "must name a program"},
        {"[limits]", "[[message]]\nfrom = 2\nto = 1\ntext = \"x\"\n[limits]",
         "\"from\" 2 must be below \"to\" 1"},
        {"[limits]", "[[message]]\ntext = \"x\"\n[[message]]\nfrom = 1\ntext = \"y\"\n[limits]",
         "overlaps that of \"x\""},
        {"[limits]", "[peer.x]\nfile = \"reference.cc\"\n[limits]",
         "[peer.x]: reference.cc must define"},
        {"[limits]", "[limits", "task.toml:50: "},
        {"name = \"scale\"\n", "name = \"scale\"\nbuild = 3\n",
         "\"build\" in the task must be a table, not an integer"},
    };
    for (const Bad& bad : table) {
        const std::string error = Files().toml(bad.from, bad.to).error();
        EXPECT_NE(error.find(bad.expected), std::string::npos)
            << bad.from << " -> " << bad.to << "\n  said:   " << error
            << "\n  wanted: " << bad.expected;
    }
}

TEST(Task, TakesWhatOnlyLooksLikeABadHeader) {
    const Result<Task> task =
        Files()
            .toml("\"Multiply.\"",
                  "\"\"\"\n[:no header \xC8\xA8] \\\"\"\" \n[?]\"\"\" # [\n  # [:x]")
            .toml("{ n = 17 }]", "\n  { n = 17 },\n  { n = 19 },\n]")
            .parse();
    ASSERT_TRUE(task) << to_text(task.error());
    EXPECT_EQ(task->objective.substr(0, 12), "[:no header ");
    EXPECT_EQ(task->kernel->verify_sizes.size(), 3U);
}

TEST(Task, ComparesSignatures) {
    const std::string error = Files().replace("plain.cc", "float factor", "double factor").error();
    EXPECT_NE(error.find("void scale(int n, double factor, const float* a, float* c)"),
              std::string::npos)
        << error;
    EXPECT_NE(error.find("void scale(int n, float factor, const float* a, float* c)"),
              std::string::npos)
        << error;
    EXPECT_NE(error.find("task.toml:13"), std::string::npos) << error;
    EXPECT_NE(error.find("line 24"), std::string::npos) << error;
    const auto says = [](std::string_view from, std::string_view to, std::string_view expected) {
        const std::string text = Files().replace("plain.cc", from, to).error();
        EXPECT_NE(text.find(expected), std::string::npos) << text;
    };
    says("extern \"C\" ", "", "declare scale as extern \"C\"");
    says("int n, ", "", "it has 3 parameters, not 4");
    says("void scale", "int scale", "it returns int, not void");
    says("void scale", "void skale", "scale.cc:scale");
    const std::string wide =
        Files().replace("reference.cc", "const double* a", "const float* a").error();
    EXPECT_NE(wide.find("with f32 widened to double"), std::string::npos) << wide;
    EXPECT_TRUE(
        Files().replace("plain.cc", "const float* a", "float const *__restrict__ a").parse());
}

TEST(Task, RefusesFilesThatAreNoText) {
    EXPECT_NE(Files().replace("plain.cc", "{ for", "{ /* \xE9 */ for").error().find("not UTF-8"),
              std::string::npos);
    EXPECT_TRUE(
        Files()
            .replace("plain.cc", "{ for", "{ /* \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 */ for")
            .parse());
    for (const char* bad :
         {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\xFF", "\x80"})
        EXPECT_NE(Files()
                      .replace("plain.cc", "{ for", std::string("{ /* ") + bad + " */ for")
                      .error()
                      .find("not UTF-8"),
                  std::string::npos);
    Files large;
    large.all["plain.cc"] += std::string(300'000, ' ');
    EXPECT_NE(large.error().find("at most 262144"), std::string::npos);
}

const char* const csr = R"toml(
[[kernel.argument]]
name = "offsets"
type = "i32[n + 1]"
init = "csr_offsets(n, 3)"
[[kernel.argument]]
name = "indices"
type = "i32[n * 3]"
init = "csr_columns(offsets, 8)"
[[kernel.argument]]
name = "c"
)toml";

TEST(Task, ChecksSparseArguments) {
    const auto files = [](std::string_view from, std::string_view to) {
        Files all;
        all.toml("\n[[kernel.argument]]\nname = \"c\"\n", csr);
        if (!from.empty())
            all.toml(from, to);
        all.replace("plain.cc", "const float* a,",
                    "const float* a, const int* offsets, const int* indices,");
        all.replace("reference.cc", "const double* a,",
                    "const double* a, const int* offsets, const int* indices,");
        return all;
    };
    const Result<Task> task = files("", "").parse();
    ASSERT_TRUE(task) << to_text(task.error());
    EXPECT_EQ(task->kernel->arguments[4].init.kind, "csr_columns");
    const std::vector<Bad> table = {
        {"i32[n + 1]", "i32[n]", "rows need"},
        {"i32[n * 3]", "i32[n * 4]", "\"offsets\" ends at 1 x 3"},
        {"i32[n * 3]", "i64[n * 3]", "csr_columns makes i32 values, not i64"},
        {"csr_columns(offsets, 8)", "csr_columns(a, 8)",
         "\"a\" is not an argument with init csr_offsets"},
        {"csr_columns(offsets, 8)", "csr_columns(offsets, 2)",
         "a row may have up to 3 nonzeros, twice the mean, which do not fit in 2 columns (at n=1)"},
        {"csr_offsets(n, 3)", "csr_offsets(n, 0)", "is 0 at n=1"},
        {"init = \"csr_offsets(n, 3)\"", "", "holds integers: say how they are made"},
    };
    for (const Bad& bad : table) {
        const std::string error = files(bad.from, bad.to).error();
        EXPECT_NE(error.find(bad.expected), std::string::npos) << bad.to << ": " << error;
    }
}

TEST(Task, ReadsTheOtherKindsOfEvaluators) {
    Files python;
    python.all = {{"task.toml", R"(name = "p"
objective = "o"
baseline = "a"
evaluator = { kind = "python" }
artifact = { language = "python", files = ["policy.py"], editable = ["policy.py:act"] }
start.a.file = "a.py"
python = { mode = "environment", file = "game.py", entry = "Game" }
splits = { train = "0:15", validation = "15:25", test = "25:", group = "family" }
)"},
                  {"a.py", "def act(x):\n    return x\n"},
                  {"game.py", "class Game: pass\n"}};
    const Result<Task> task = python.parse();
    ASSERT_TRUE(task) << to_text(task.error());
    EXPECT_EQ(task->python->mode, "environment");
    EXPECT_EQ(task->splits.group, "family");
    ASSERT_FALSE(can_evaluate(*task));
    EXPECT_NE(can_evaluate(*task).error().what.find("\"python\" are not available"),
              std::string::npos);
    Files bare = python;
    EXPECT_NE(bare.toml("python = { mode", "qa = { mode")
                  .error()
                  .find("an evaluator of kind \"python\" needs a section [python]"),
              std::string::npos);
    EXPECT_NE(python.toml("policy.py:act", "policy.py:step").error().find("no \"def step(\""),
              std::string::npos);

    Files qa;
    qa.all = {{"task.toml", R"(name = "q"
objective = "o"
baseline = "a"
evaluator = { kind = "qa" }
artifact = { language = "text", files = ["prompt.txt"] }
start.a.file = "a.txt"
qa = { data = "task.json", match = "choice" }
)"},
              {"a.txt", "Answer.\n"},
              {"task.json", "[]"}};
    const Result<Task> other = qa.parse();
    ASSERT_TRUE(other) << to_text(other.error());
    EXPECT_EQ(other->qa->question, "question");
    EXPECT_FALSE(can_evaluate(*other));
    EXPECT_NE(qa.toml("qa = { data", "build = {}\nqa = { data")
                  .error()
                  .find("the section [build] belongs to an evaluator of kind \"kernel\""),
              std::string::npos);

    Files cuda;
    const Result<Task> device = cuda.toml("flops = \"n\"", "device = \"cuda\"").parse();
    ASSERT_TRUE(device) << to_text(device.error());
    EXPECT_NE(can_evaluate(*device).error().what.find("device \"cuda\""), std::string::npos);
}

TEST(Task, CanonicalHoldsWhatCanChangeAnOutcomeAndNothingElse) {
    const Task task = Files().parse().value();
    const std::string before = canonical(task);
    EXPECT_EQ(nlohmann::json::parse(before).dump(), before);  // sorted, one line
    for (const auto& [from, to] : std::vector<std::pair<const char*, const char*>>{
             {"objective = \"Multiply.\"", "objective = \"Multiply fast.\""},
             {"name = \"scale\"\n", "name = \"scaling\"\n"},
             {"expect = \"pass\"", "note = \"x\""},
             {"[limits]", "[feedback]\ncomponents = []\n[limits]"},
             {"[limits]", "[start.second]\nfile = \"plain.cc\"\n[limits]"},
             {"[limits]", "[[message]]\ntext = \"x\"\n[limits]"},
             {"[limits]", "[peer.x]\nfile = \"plain.cc\"\n[limits]"}}) {
        const Result<Task> changed = Files().toml(from, to).parse();
        ASSERT_TRUE(changed) << to << ": " << to_text(changed.error());
        EXPECT_EQ(canonical(*changed), before) << to;
    }
    for (const auto& [from, to] : std::vector<std::pair<const char*, const char*>>{
             {"flops = \"n\"", "flops = \"2 * n\""},
             {"value = 0.5", "value = 0.25"},
             {"uniform(0, 1)", "uniform(0, 2)"},
             {"{ n = 17 }", "{ n = 18 }"},
             {"{ n = 1000 }", "{ n = 1001 }"},
             {"reduction = 1", "reduction = 2"},
             {"flops = \"n\"", "aggregate = \"min\""},
             {"flops = \"n\"", "fast_tolerance = 0.2"},
             {"flops = \"n\"", "cores = 2"},
             {"direction = \"out\"", "direction = \"inout\""},
             {"memory_mb = 512", "memory_mb = 513"},
             {"memory_mb = 512", "verify_seconds = 5"},
             {"[limits]", "[build]\nflags = [\"-O1\"]\n[limits]"},
             {"files = [\"scale.cc\"]", "files = [\"scale.cc\"]\nsupport = [\"reference.cc\"]"}}) {
        const Result<Task> changed = Files().toml(from, to).parse();
        ASSERT_TRUE(changed) << to << ": " << to_text(changed.error());
        EXPECT_NE(canonical(*changed), before) << to;
    }
    EXPECT_NE(
        canonical(Files().replace("plain.cc", "factor * a[i]", "a[i] * factor").parse().value()),
        before);
    EXPECT_NE(
        canonical(
            Files().replace("reference.cc", "factor * a[i]", "a[i] * factor").parse().value()),
        before);
}

TEST(Task, EveryShippedTaskIsSound) {
    int tasks = 0;
    int workloads = 0;
    for (const char* folder : {"workloads", "tests/tasks"})
        for (const fs::directory_entry& entry : fs::directory_iterator(checkout / folder)) {
            if (!fs::exists(entry.path() / "task.toml"))
                continue;
            const Result<Task> task = read_task(entry.path());
            ASSERT_TRUE(task) << to_text(task.error());
            ++tasks;
            EXPECT_EQ(task->name, entry.path().filename().string());
            EXPECT_EQ(task->folder, entry.path());
            EXPECT_TRUE(can_evaluate(*task)) << task->name;
            bool has_broken = false;
            for (const auto& [name, start] : task->starts) {
                EXPECT_FALSE(start.expect.empty()) << task->name << " " << name;
                EXPECT_FALSE(start.note.empty() && std::string(folder) == "workloads")
                    << task->name << " " << name;
                has_broken = has_broken || start.expect == "fail" || start.expect == "compile";
            }
            EXPECT_TRUE(has_broken || std::string(folder) != "workloads") << task->name;
            workloads += std::string(folder) == "workloads" ? 1 : 0;
            if (task->kernel)
                for (const Sizes& sizes : task->kernel->time_sizes)
                    for (const auto& [name, value] : sizes)
                        EXPECT_NE(value & (value - 1), 0)
                            << task->name << ": a power of two is no fair size to time";
        }
    EXPECT_GE(tasks, 6);
    EXPECT_EQ(workloads, 4);
}

class Folder {
public:
    Folder()
        : path_(fs::temp_directory_path() / ("loopscope_task_test_" + std::to_string(::getpid()))) {
        fs::remove_all(path_);
        fs::create_directories(path_);
    }
    ~Folder() { fs::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    void put(const std::string& name, const std::string& text) const {
        fs::create_directories((path_ / name).parent_path());
        ASSERT_TRUE(write_file(path_ / name, text));
    }
    const fs::path& path() const { return path_; }

private:
    fs::path path_;
};

TEST(Task, IsReadFromAFolder) {
    const Folder folder;
    EXPECT_NE(to_text(read_task(folder.path()).error()).find("no task.toml in this folder"),
              std::string::npos);
    EXPECT_NE(to_text(read_task(folder.path() / "nowhere").error()).find("no such task"),
              std::string::npos);
    for (const auto& [name, text] : Files().all)
        folder.put(name, text);
    EXPECT_TRUE(read_task(folder.path()));
    EXPECT_TRUE(read_task(folder.path() / ""));
    EXPECT_TRUE(read_task(folder.path() / "task.toml"));

    fs::remove(folder.path() / "plain.cc");
    EXPECT_NE(to_text(read_task(folder.path()).error()).find("plain.cc: no such file"),
              std::string::npos);
    fs::create_directory(folder.path() / "plain.cc");
    EXPECT_NE(to_text(read_task(folder.path()).error()).find("is not a regular file"),
              std::string::npos);
    fs::remove(folder.path() / "plain.cc");
    fs::create_symlink("/etc/hostname", folder.path() / "plain.cc");
    EXPECT_NE(to_text(read_task(folder.path()).error()).find("is a link out of the task's folder"),
              std::string::npos);
}

// new_task

Result<NewTask> task_from(const Folder& folder, const std::string& file, const std::string& source,
                          const std::string& function) {
    folder.put(file, source);
    return new_task(folder.path() / file, function);
}

Result<Task> parsed(const NewTask& task) {
    const TaskFiles read = [&](const std::string& path) -> Result<std::string> {
        const auto found = task.files.find(path);
        if (found == task.files.end())
            return fail(path, "no such file");
        return found->second;
    };
    return parse_task(task.files.at("task.toml"), "task.toml", read);
}

TEST(NewTask, IsMadeFromASignatureAndItsLoops) {
    const Folder folder;
    const Result<NewTask> made = task_from(folder, "mm.cpp", R"(#include <cmath>
#include "scale.h"
static float half(float x) { return 0.5f * sqrtf(x); }
// The product.
void mm(int n, const float* a, const float *b, float* c)
{
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            float sum = 0.f;
            for (int k = 0; k < n; k++) sum += half(a[i * n + k]) * b[k * n + j];
            c[i * n + j] = sum;
        }
}
)",
                                           "mm");
    ASSERT_TRUE(made) << to_text(made.error());
    const Result<Task> task = parsed(*made);
    ASSERT_TRUE(task) << to_text(task.error());
    EXPECT_EQ(task->name, "mm");
    EXPECT_EQ(task->files, std::vector<std::string>{"mm.cpp"});
    const KernelSpec& kernel = *task->kernel;
    EXPECT_EQ(declaration_of(kernel), "void mm(int n, const float* a, const float* b, float* c)");
    for (int i = 1; i < 4; ++i)
        EXPECT_EQ(kernel.arguments[static_cast<std::size_t>(i)].shape,
                  (std::vector<std::string>{"n", "n"}))
            << i;
    EXPECT_EQ(kernel.time_sizes, (std::vector<Sizes>{{{"n", 250}}}));
    EXPECT_GE(kernel.verify_sizes.size(), 5U);
    const std::string& start = made->files.at("starts/original.cpp");
    EXPECT_NE(start.find("extern \"C\" void mm(int n"), std::string::npos);
    EXPECT_NE(start.find("// The product."), std::string::npos);
    const std::string& reference = made->files.at("reference.cc");
    EXPECT_NE(
        reference.find("void mm_reference(int n, const double* a, const double *b, double* c)"),
        std::string::npos)
        << reference;
    EXPECT_NE(reference.find("static double half(double x) { return 0.5 * sqrt(x); }"),
              std::string::npos)
        << reference;
    EXPECT_NE(reference.find("CHECK IT"), std::string::npos);
    EXPECT_EQ(reference.find("float sum"), std::string::npos);
    std::string lines;
    for (const std::string& line : made->to_fill_in)
        lines += line + "\n";
    EXPECT_NE(lines.find("added extern \"C\""), std::string::npos) << lines;
    EXPECT_NE(lines.find("\"scale.h\" is included but does not lie beside the source"),
              std::string::npos)
        << lines;
}

struct Shapes {
    const char* source;
    std::map<std::string, std::string> expected;  // argument -> "direction shape[...]" as declared
};

TEST(NewTask, SeesShapesAndDirections) {
    const Folder folder;
    const std::vector<Shapes> table = {
        {"extern \"C\" void f(int n, int m, const double* a, const double* x, double* y) { for "
         "(int i = 0; i < n; i++) { y[i] = 0; for (int j = 0; j < m; j++) y[i] += a[i*m+j] * x[j]; "
         "} }",
         {{"a", "in [n][m]"}, {"x", "in [m]"}, {"y", "out [n]"}}},
        {"extern \"C\" void f(int n, float* a, float s) { for (int i = 0; i < n; ++i) a[i] *= s; }",
         {{"a", "inout [n]"}}},
        {"extern \"C\" void f(int n, float* a, float* b) { for (int i = 0; i < n; ++i) b[i] = "
         "a[i]; }",
         {{"a", "in [n]"}, {"b", "out [n]"}}},
        {"extern \"C\" void f(int h, int w, const float* in, float* out) { for (int i = 1; i < h - "
         "1; ++i) for (int j = 1; j < w - 1; ++j) out[i * w + j] = in[(i - 1) * w + j] + in[(i + "
         "1) * w + j]; }",
         {{"in", "in [h][w]"}, {"out", "inout [h][w]"}}},
        {"extern \"C\" void f(int n, int taps, const float* x, const float* h, float* y) { for "
         "(int i = 0; i < n; ++i) { float s = 0; for (int t = 0; t < taps; ++t) s += h[t] * x[i + "
         "t]; y[i] = s; } }",
         {{"x", "in [n + taps - 1]"}, {"h", "in [taps]"}, {"y", "out [n]"}}},
        {"extern \"C\" void f(size_t n, const float* a, float* sum) { float s = 0; for (size_t i = "
         "n - 1; i > 0; --i) s += a[i]; sum[0] = s; }",
         {{"a", "in [n]"}, {"sum", "out [1]"}}},
        {"extern \"C\" void f(int n, const float* a, float* c) { for (int i = 0; i < n; ++i) { "
         "const float* row = a + i * n; float* to = &c[i * n]; for (int j = 0; j < n; ++j) to[j] = "
         "row[j]; } }",
         {{"a", "in [n][n]"}, {"c", "out [n][n]"}}},
        {"extern \"C\" void f(int n, const float* a, float* c) { for (int b = 0; b < n; b += 32) "
         "for (int i = b; i < std::min(b + 32, n); ++i) { int at = (int)i * 3; c[i] = a[at] + a[at "
         "+ 1] + a[at + 2]; } }",
         {{"a", "in [n][3]"}, {"c", "out [n]"}}},
        {"extern \"C\" void f(int n, const float* x, const int* index, float* y) { for (int i = 0; "
         "i < n; ++i) y[i] = x[index[i]]; }",
         {{"x", "in [n]"}, {"index", "in [n]"}, {"y", "out [n]"}}},
        {"extern \"C\" void f(int n, int m, int k, const float* a, const float* b, float* c) { for "
         "(int i = 0; i < n; ++i) for (int j = 0; j < m; ++j) { float s = 0; for (int l = 0; l < "
         "k; ++l) s += a[l + i * k] * b[m * l + j]; c[m * i + j] = s; } }",
         {{"a", "in [n][k]"}, {"b", "in [k][m]"}, {"c", "out [n][m]"}}},
    };
    for (const Shapes& one : table) {
        const Result<NewTask> made = task_from(folder, "f.cc", one.source, "f");
        ASSERT_TRUE(made) << one.source << ": " << to_text(made.error());
        const Result<Task> task = parsed(*made);
        ASSERT_TRUE(task) << to_text(task.error());
        std::map<std::string, std::string> found;
        for (const Argument& argument : task->kernel->arguments)
            if (!argument.scalar)
                found[argument.name] =
                    std::string(argument.direction == Direction::in    ? "in"
                                : argument.direction == Direction::out ? "out"
                                                                       : "inout") +
                    " [" +
                    [&] {
                        std::string all;
                        for (const std::string& dimension : argument.shape)
                            all += (all.empty() ? "" : "][") + dimension;
                        return all;
                    }() +
                    "]";
        EXPECT_EQ(found, one.expected) << one.source;
    }
}

TEST(NewTask, TakesCAndHeaders) {
    const Folder folder;
    folder.put("lib/common.h", "#define SCALE 2\n#include \"deeper.h\"\n");
    folder.put("deeper.h", "#define DEEP 1\n");
    const Result<NewTask> made =
        task_from(folder, "k.c",
                  "#include \"lib/common.h\"\nstatic void k(long n, float *restrict a) { for (long "
                  "i = 0; i < n; ++i) a[i] = SCALE; }\n",
                  "k");
    ASSERT_TRUE(made) << to_text(made.error());
    const Result<Task> task = parsed(*made);
    ASSERT_TRUE(task) << to_text(task.error());
    EXPECT_EQ(task->language, "c");
    EXPECT_TRUE(task->support.contains("lib/common.h"));
    EXPECT_TRUE(task->support.contains("deeper.h"));
    EXPECT_EQ(made->files.at("starts/original.c").find("static"), std::string::npos);
    EXPECT_NE(made->files.at("reference.cc").find("extern \"C\""), std::string::npos);
    EXPECT_NE(made->files.at("reference.cc").find("double *__restrict__ a"), std::string::npos)
        << made->files.at("reference.cc");
}

TEST(NewTask, LeavesVectorCodeToThePerson) {
    const Folder folder;
    const Result<NewTask> made =
        task_from(folder, "v.cc",
                  "#include <immintrin.h>\nextern \"C\" { void v(int n, float* a) { for (int i = "
                  "0; i < n; i += 8) _mm256_storeu_ps(a + i, _mm256_setzero_ps()); a[0] = 0; } }\n",
                  "v");
    ASSERT_TRUE(made) << to_text(made.error());
    EXPECT_TRUE(parsed(*made));
    EXPECT_NE(made->files.at("reference.cc").find("#error"), std::string::npos);
    EXPECT_EQ(made->files.at("starts/original.cc").find("extern \"C\" void"),
              std::string::npos);  // the block says it
}

TEST(NewTask, SaysWhyItCannot) {
    const Folder folder;
    const std::vector<Bad> table = {
        {"void g(int n, float* a) {}", "f", "did you mean \"g\"?"},
        {"int x;", "f", "the file defines no function"},
        {"void f(int n, float* a) {} void f(int n, double* a) {}", "f", "twice"},
        {"template <class T> void f(int n, T* a) {}", "f", "a template has no address of its own"},
        {"float f(int n, const float* a) { return 0; }", "f",
         "it returns float; a kernel returns void"},
        {"void f(int n, float& a) {}", "f", "parameter 2 (a) is a reference"},
        {"void f(int n, float** a) {}", "f", "a kernel's arrays are flat"},
        {"void f(int n, short* a) {}", "f", "is of type short*"},
        {"void f(int n, float*) {}", "f", "parameter 2 has no name"},
        {"void f(int n, const float* a) {}", "f", "it has no pointer to non-const"},
        {"void f(float* a) {}", "f", "it has no integer parameter"},
        {"void f() {}", "f", "it has no parameters"},
        {"void f(int max, float* a) { a[0] = 1; }", "f", "cannot be the name of a size"},
        {"void f(int n, float* a) {}", "f g", "is not the name of a C function"},
        {"void f(int n, float* a) {", "f", ""},
    };
    for (const Bad& bad : table) {
        const Result<NewTask> made = task_from(folder, "f.cc", bad.from, bad.to);
        ASSERT_FALSE(made) << bad.from;
        EXPECT_NE(to_text(made.error()).find(bad.expected), std::string::npos)
            << bad.from << ": " << to_text(made.error());
    }
    EXPECT_NE(to_text(new_task(folder.path() / "none.cc", "f").error()).find("none.cc"),
              std::string::npos);
    EXPECT_NE(
        to_text(task_from(folder, "f.py", "def f(): pass", "f").error()).find("a C or C++ file"),
        std::string::npos);
}

}  // namespace
}  // namespace loopscope
