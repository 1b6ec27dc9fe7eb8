// How far builtin:rules gets, measured with a small evaluator of its own: kernels it knows from the
// tasks and some that it was not written for. Not a test: it builds and times for minutes,
// natively, sources that are ours.
//
//     rules_bench [improve|attribute] [KERNEL] [DRAWS] [GENERATIONS] [BROKEN_START]
//
// improve:   the best of DRAWS proposals a generation becomes the next parent; prints the speed-up
// after each. attribute: DRAWS proposals from the plain start for every coalition of components;
// prints how often they build, pass and
//            are 1.12 times as fast, and the mean log gain.
#include "core/check.h"
#include "core/file.h"
#include "core/result.h"
#include "core/text.h"
#include "llm/model.h"
#include "llm/rules.h"
#include "llm/rules_depend.h"
#include "llm/rules_syntax.h"
#include "program/edit.h"
#include "record/prompt.h"

#include <fmt/format.h>
#include <unistd.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace loopscope;

namespace {

struct Kernel {
    std::string name;
    std::string source;
    std::string
        harness;  // declares check(): worst error over bound, and run(): one call at the timed size
    double flops = 0;  // of the timed call
};

const std::string harness_head = R"(
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
#include <vector>
typedef std::vector<float> V;
static V draw(int n) { V v(n > 0 ? n : 1); for (float& e : v) e = rand() / (float)RAND_MAX - 0.5f; return v; }
static double worst = 0;
static void compare(double got, double expected, double bound) {
    const double e = std::fabs(got - expected) / bound;
    if (!(e <= worst)) worst = e == e ? e : 1e30;
}
)";
const std::string harness_tail = R"(
int main() {
    check();
    double best = 1e9, total = 0;
    for (int i = 0; i < 1000 && (total < 0.25 || i < 3); ++i) {
        const auto begin = std::chrono::steady_clock::now();
        run();
        const double t = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        best = std::min(best, t); total += t;
    }
    std::printf("%g %g\n", worst, best);
}
)";

std::vector<Kernel> kernels() {
    std::vector<Kernel> out;
    out.push_back({"matmul",
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
)",
                   R"(
extern "C" void matmul(int, const float*, const float*, float*);
static void check() {
    for (int n : {1, 2, 17, 33, 127, 250}) {
        V a = draw(n * n), b = draw(n * n), c(n * n, NAN);
        matmul(n, a.data(), b.data(), c.data());
        for (int i = 0; i < n; ++i) for (int j = 0; j < n; ++j) {
            double s = 0; for (int k = 0; k < n; ++k) s += (double)a[i * n + k] * b[k * n + j];
            compare(c[i * n + j], s, 2e-6 * std::sqrt(n)); }
    }
}
static V A = draw(250 * 250), B = draw(250 * 250), C(250 * 250);
static void run() { matmul(250, A.data(), B.data(), C.data()); }
)",
                   2.0 * 250 * 250 * 250});
    out.push_back({"jacobi2d",
                   R"(extern "C" void jacobi2d(int rows, int columns, const float* in, float* out) {
    for (int j = 0; j < columns; ++j) {
        for (int i = 0; i < rows; ++i) {
            if (i == 0 || j == 0 || i == rows - 1 || j == columns - 1)
                out[i * columns + j] = in[i * columns + j];
            else
                out[i * columns + j] = 0.2f * (in[i * columns + j] + in[i * columns + j - 1] + in[i * columns + j + 1] +
                                               in[(i - 1) * columns + j] + in[(i + 1) * columns + j]);
        }
    }
}
)",
                   R"(
extern "C" void jacobi2d(int, int, const float*, float*);
static void check() {
    for (auto [r, c] : std::vector<std::array<int, 2>>{{1, 1}, {1, 9}, {2, 3}, {3, 3}, {17, 33}, {127, 40}}) {
        V a = draw(r * c), o(r * c, NAN);
        jacobi2d(r, c, a.data(), o.data());
        for (int i = 0; i < r; ++i) for (int j = 0; j < c; ++j) {
            double e = a[i * c + j];
            if (i && j && i < r - 1 && j < c - 1) e = 0.2f * ((double)a[i * c + j] + a[i * c + j - 1] + a[i * c + j + 1] + a[(i - 1) * c + j] + a[(i + 1) * c + j]);
            compare(o[i * c + j], e, 2e-6); }
    }
}
static V In = draw(900 * 1100), Out(900 * 1100);
static void run() { jacobi2d(900, 1100, In.data(), Out.data()); }
)",
                   5.0 * 898 * 1098});
    out.push_back({"nbody", R"(#include <cmath>

extern "C" void nbody(int n, float softening, const float* x, const float* y, const float* z, const float* mass,
                      float* ax, float* ay, float* az) {
    for (int i = 0; i < n; ++i) {
        ax[i] = 0.0f;
        ay[i] = 0.0f;
        az[i] = 0.0f;
        for (int j = 0; j < n; ++j) {
            const float dx = x[j] - x[i];
            const float dy = y[j] - y[i];
            const float dz = z[j] - z[i];
            const float d2 = dx * dx + dy * dy + dz * dz + softening * softening;
            const float inverse = 1.0f / std::sqrt(d2);
            const float weight = mass[j] * inverse * inverse * inverse;
            ax[i] += weight * dx;
            ay[i] += weight * dy;
            az[i] += weight * dz;
        }
    }
}
)",
                   R"(
extern "C" void nbody(int, float, const float*, const float*, const float*, const float*, float*, float*, float*);
static void check() {
    for (int n : {2, 3, 17, 64, 127, 500}) {
        V x = draw(n), y = draw(n), z = draw(n), m = draw(n), ax(n, NAN), ay(n, NAN), az(n, NAN);
        nbody(n, 0.125f, x.data(), y.data(), z.data(), m.data(), ax.data(), ay.data(), az.data());
        std::vector<double> r(3 * n); double largest = 0;
        for (int i = 0; i < n; ++i) { for (int j = 0; j < n; ++j) {
            double dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i], d = dx * dx + dy * dy + dz * dz + 0.125 * 0.125, w = m[j] / (d * std::sqrt(d));
            r[i] += w * dx; r[n + i] += w * dy; r[2 * n + i] += w * dz; }
            largest = std::max(largest, std::fabs(r[i])); }
        for (int i = 0; i < n; ++i) { compare(ax[i], r[i], 1e-5 * largest); compare(ay[i], r[n + i], 1e-5 * largest); compare(az[i], r[2 * n + i], 1e-5 * largest); }
    }
}
static V X = draw(1000), Y = draw(1000), Z = draw(1000), M = draw(1000), AX(1000), AY(1000), AZ(1000);
static void run() { nbody(1000, 0.125f, X.data(), Y.data(), Z.data(), M.data(), AX.data(), AY.data(), AZ.data()); }
)",
                   20.0 * 1000 * 1000});
    out.push_back(
        {"spmv",
         R"(extern "C" void spmv(int rows, int columns, const int* offsets, const int* indices, const float* values,
                     const float* x, float* y) {
    (void)columns;
    for (int i = 0; i < rows; ++i)
        y[i] = 0.0f;
    int row = 0;
    for (int k = 0; k < offsets[rows]; ++k) {
        while (k >= offsets[row + 1])
            ++row;
        y[row] += values[k] * x[indices[k]];
    }
}
)",
         R"(
extern "C" void spmv(int, int, const int*, const int*, const float*, const float*, float*);
struct Csr { std::vector<int> o, i; V v, x; };
static Csr make(int r, int c, int p) {
    Csr m; m.o = {0};
    for (int row = 0; row < r; ++row) { int k = row % 7 == 3 ? 0 : p / 2 + rand() % (p + 1); while (k-- > 0) m.i.push_back(rand() % c); m.o.push_back((int)m.i.size()); }
    m.v = draw((int)m.i.size()); m.x = draw(c); return m;
}
static void check() {
    for (auto [r, c, p] : std::vector<std::array<int, 3>>{{1, 1, 1}, {2, 5, 2}, {17, 33, 5}, {127, 300, 16}, {1000, 1000, 31}}) {
        Csr m = make(r, c, p); V y(r, NAN);
        spmv(r, c, m.o.data(), m.i.data(), m.v.data(), m.x.data(), y.data());
        for (int row = 0; row < r; ++row) { double s = 0; for (int k = m.o[row]; k < m.o[row + 1]; ++k) s += (double)m.v[k] * m.x[m.i[k]]; compare(y[row], s, 2e-6 * std::sqrt(p)); }
    }
}
static Csr L = make(400, 4000, 1200); static V Y(400);
static void run() { spmv(400, 4000, L.o.data(), L.i.data(), L.v.data(), L.x.data(), Y.data()); }
)",
         2.0 * 400 * 1030});
    // Kernels that no rule was written for.
    out.push_back(
        {"fir", R"(extern "C" void fir(int n, int taps, const float* x, const float* h, float* y) {
    for (int i = 0; i < n; i++) {
        float acc = 0;
        for (int t = 0; t < taps; t++) {
            acc += h[t] * x[i + t];
        }
        y[i] = acc;
    }
}
)",
         R"(
extern "C" void fir(int, int, const float*, const float*, float*);
static void check() {
    for (auto [n, k] : std::vector<std::array<int, 2>>{{1, 1}, {17, 3}, {100, 16}, {1000, 64}}) {
        V x = draw(n + k), h = draw(k), y(n, NAN);
        fir(n, k, x.data(), h.data(), y.data());
        for (int i = 0; i < n; ++i) { double s = 0; for (int t = 0; t < k; ++t) s += (double)h[t] * x[i + t]; compare(y[i], s, 2e-6 * std::sqrt(k)); }
    }
}
static V X = draw(20100), H = draw(100), Y(20000);
static void run() { fir(20000, 100, X.data(), H.data(), Y.data()); }
)",
         2.0 * 20000 * 100});
    out.push_back(
        {"transposed",
         R"(extern "C" void transposed(int m, int n, const float* a, const float* x, float* y) {
    for (int j = 0; j < n; ++j) {
        y[j] = 0;
        for (int i = 0; i < m; ++i)
            y[j] += a[i * n + j] * x[i];
    }
}
)",
         R"(
extern "C" void transposed(int, int, const float*, const float*, float*);
static void check() {
    for (auto [m, n] : std::vector<std::array<int, 2>>{{1, 1}, {17, 33}, {100, 16}, {300, 257}}) {
        V a = draw(m * n), x = draw(m), y(n, NAN);
        transposed(m, n, a.data(), x.data(), y.data());
        for (int j = 0; j < n; ++j) { double s = 0; for (int i = 0; i < m; ++i) s += (double)a[i * n + j] * x[i]; compare(y[j], s, 2e-6 * std::sqrt(m)); }
    }
}
static V A = draw(700 * 900), X = draw(700), Y(900);
static void run() { transposed(700, 900, A.data(), X.data(), Y.data()); }
)",
         2.0 * 700 * 900});
    out.push_back({"norms", R"(#include <cmath>
extern "C" void norms(int rows, int columns, const float* a, float* out) {
    for (int r = 0; r < rows; ++r) {
        float total = 0;
        for (int c = 0; c < columns; ++c)
            total += a[r * columns + c] * a[r * columns + c];
        for (int c = 0; c < columns; ++c)
            out[r * columns + c] = a[r * columns + c] / sqrtf(total + 1e-6f);
    }
}
)",
                   R"(
extern "C" void norms(int, int, const float*, float*);
static void check() {
    for (auto [r, c] : std::vector<std::array<int, 2>>{{1, 1}, {7, 33}, {40, 257}}) {
        V a = draw(r * c), o(r * c, NAN);
        norms(r, c, a.data(), o.data());
        for (int i = 0; i < r; ++i) { double s = 0; for (int j = 0; j < c; ++j) s += (double)a[i * c + j] * a[i * c + j]; for (int j = 0; j < c; ++j) compare(o[i * c + j], a[i * c + j] / std::sqrt(s + 1e-6), 4e-6); }
    }
}
static V A = draw(500 * 600), O(500 * 600);
static void run() { norms(500, 600, A.data(), O.data()); }
)",
                   5.0 * 500 * 600});
    return out;
}

struct Measured {
    bool built = false, right = false;
    double seconds = 0, worst = 0;
    std::string log;
};

// RULES_PLANS: plans are printed; RULES_SOURCE: with the programs that fail.
bool wants(const char* variable) {
    return std::getenv(variable) != nullptr;  // NOLINT(concurrency-mt-unsafe): one thread
}

std::filesystem::path folder;

// Runs a command of our own; its output goes to a file that is read back.
int run_command(const std::string& command) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe,bugprone-command-processor): one thread, our own words
    return std::system(command.c_str());
}

Measured measure(const Kernel& kernel, const std::string& source) {
    static std::map<std::string, Measured> known;
    const std::string key = kernel.name + "\n" + source;
    if (const auto found = known.find(key); found != known.end())
        return found->second;
    Measured m;
    const std::string base = (folder / kernel.name).string();
    if (!std::filesystem::exists(base + "_harness.o")) {
        CHECK(write_file(base + "_harness.cc", harness_head + kernel.harness + harness_tail));
        CHECK(run_command("clang++-19 -O1 -std=c++20 -c " + base + "_harness.cc -o " + base +
                          "_harness.o") == 0);
    }
    CHECK(write_file(base + ".cc", source));
    const std::string remarks = " -Rpass-missed=loop-vectorize -Rpass-analysis=loop-vectorize";
    m.built = run_command("cd " + folder.string() + " && timeout 60 clang++-19 -O3 -march=native" +
                          remarks + " -c " + kernel.name + ".cc -o " + base + ".o 2> log") == 0;
    if (const Result<std::string> log = read_file(folder / "log"))
        m.log = *log;
    if (m.built) {
        m.built = run_command("clang++-19 " + base + "_harness.o " + base + ".o -o " + base +
                              ".exe 2> /dev/null") == 0;
        const int status =
            run_command("timeout 20 " + base + ".exe > " + base + ".out 2> /dev/null");
        const Result<std::string> out = read_file(base + ".out");
        if (m.built && status == 0 && out &&
            std::sscanf(out->c_str(), "%lf %lf", &m.worst, &m.seconds) ==
                2)  // NOLINT(cert-err34-c)
            m.right = m.worst <= 1;
    }
    known[key] = m;
    return m;
}

// The analyzer's words for the source, from this room's own reading of it and the compiler's
// remarks.
std::string analyzer_text(const std::string& source, const std::string& function,
                          const std::string& log) {
    Result<rules::Function> f = rules::parse_function(source, function);
    if (!f)
        return "";
    const rules::Environment env = rules::environment_of(*f);
    std::string text = fmt::format("function {}\n", function);
    std::string tail;
    for (const rules::LoopPlace& place : rules::loops_of(*f)) {
        const rules::Effects effects = rules::effects_of(place.loop().body, env);
        bool accumulates = false;
        for (const std::string& scalar : effects.writes)
            accumulates = accumulates || (!effects.declares.contains(scalar) &&
                                          effects.writes_by.at(scalar).contains("+="));
        bool branches = false;
        rules::for_each_statement(place.loop().body, [&](const rules::Stmt& s) {
            branches = branches || s.kind == rules::StmtKind::branch;
        });
        text += fmt::format("loop {} (depth {}, line {}): {} <= {} {} {}, step {}{}{}\n",
                            place.head.var, place.parents.size() + 1, place.loop().line,
                            rules::print(place.head.low), place.head.var,
                            place.head.inclusive ? "<=" : "<", rules::print(place.head.bound),
                            place.head.step, accumulates ? "; accumulates into a sum (+)" : "",
                            branches ? "; 1 branch" : "");
        if (!place.innermost)
            continue;
        std::map<std::string, int> near;
        int accesses = 0;
        for (const rules::Access& a : effects.accesses) {
            ++accesses;
            if (!a.known || a.subscripts.size() != 1)
                continue;
            std::vector<rules::Counted> loops = place.around;
            loops.push_back(place.head);
            for (const rules::Counted& loop : loops) {
                const std::optional<rules::Poly> stride =
                    rules::poly_stride(a.subscripts[0], loop.var);
                const std::optional<long> number =
                    stride ? rules::poly_number(*stride) : std::nullopt;
                if (number && std::labs(*number) <= 1)
                    ++near[loop.var];
                if (loop.var == place.head.var && number == 0 && a.write)
                    tail += fmt::format(
                        "locality: {} (line {}) is read and written in every iteration of {} at "
                        "one address (stride 0): a local accumulator "
                        "would keep it in a register\n",
                        a.through, a.line, loop.var);
            }
        }
        std::string best = place.head.var;
        for (const rules::Counted& loop : place.around)
            if (near[loop.var] > near[best])
                best = loop.var;
        if (best != place.head.var)
            tail += fmt::format(
                "locality: with {} innermost instead of {}, {} of {} accesses of line {} would "
                "have stride 0 or 1 (now {})\n",
                best, place.head.var, near[best], accesses, place.loop().line,
                near[place.head.var]);
    }
    for (const std::string& line : split_lines(log)) {
        const std::size_t remark = line.find("loop not vectorized:");
        if (remark == std::string::npos)
            continue;
        const std::size_t colon = line.find(':');
        tail += fmt::format("line {}: {}\n",
                            line.substr(colon + 1, line.find(':', colon + 1) - colon - 1),
                            line.substr(remark));
    }
    return text + tail;
}

std::string profiler_text(const Kernel& kernel, const Measured& m, const Measured& start) {
    const double roof = 110e9;
    const double rate = kernel.flops / m.seconds;
    return fmt::format(
        "{:.2f} GFLOP/s, {:.1f} % of this core's roof (110.0), {:.2f} times the baseline's "
        "speed\n{:.2f} instructions a flop\n",
        rate / 1e9, 100 * rate / roof, start.seconds / m.seconds, rate < 0.1 * roof ? 2.0 : 0.3);
}

std::string debugger_text(const Measured& m) {
    if (m.right)
        return "The output is right in all verified cases.\n";
    if (!m.built)
        return m.log;
    return m.worst >= 1e29 ? "wrong_output: c[0] = nan, expected 1 (9 of 9 elements wrong)\n"
                           : "wrong_output: c[0] = 3, expected 2 (9 of 9 elements wrong)\n";
}

std::string ask(Role role, const std::vector<Section>& sections, int draw) {
    Prompt prompt;
    prompt.role = role;
    prompt.sections = sections;
    ModelRequest request;
    request.role = role;
    request.messages.push_back({"user", render(prompt)});
    request.draw = fmt::format("{}", draw);
    return rules_answer(request);
}

// A plan and a proposal; "" when there is no proposal.
std::string propose(const Kernel& kernel, const std::string& source, const Measured& m,
                    const Measured& start, int components, int draw, std::string& plan) {
    std::vector<Section> sections;
    sections.push_back(
        {"interface", fmt::format("Editable: function {0} in {0}.cc.\n", kernel.name), 0});
    sections.push_back({"status",
                        m.right   ? "pass (not_faster)"
                        : m.built ? "compile (wrong_output)"
                                  : "fail (build_error)",
                        0});
    sections.push_back(
        {"program", fmt::format("```cpp file={}.cc\n{}```\n", kernel.name, source), 0});
    std::vector<Section> with_feedback = sections;
    if ((components & 1) != 0)
        with_feedback.push_back({"feedback: debugger", debugger_text(m), 0});
    if ((components & 2) != 0)
        with_feedback.push_back(
            {"feedback: analyzer", analyzer_text(source, kernel.name, m.log), 0});
    if ((components & 4) != 0 && m.right)
        with_feedback.push_back({"feedback: profiler", profiler_text(kernel, m, start), 0});
    plan = ask(Role::planner, with_feedback, draw);
    sections.push_back({"plan", plan, 0});
    const std::string answer = ask(Role::coder, sections, draw);
    Program parent;
    parent.files[kernel.name + ".cc"] = source;
    EditRules rules;
    rules.editable = {{kernel.name + ".cc", kernel.name}};
    const Result<Program> program = apply_answer(parent, rules, answer);
    if (!program) {
        fmt::print(stderr, "refused: {}\nplan:\n{}\n", to_text(program.error()), plan);
        return "";
    }
    return program->files.begin()->second;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

void improve(const Kernel& kernel, int draws, int generations) {
    const Measured start = measure(kernel, kernel.source);
    std::string best = kernel.source;
    Measured best_time = start;
    fmt::print("{}: start {:.1f} us\n", kernel.name, start.seconds * 1e6);
    for (int g = 1; g <= generations; ++g) {
        const std::string parent = best;
        const Measured parent_time = best_time;
        std::string how;
        int passed = 0;
        for (int d = 0; d < draws; ++d) {
            std::string plan;
            const std::string source =
                propose(kernel, parent, parent_time, start, 7, g * 1000 + d, plan);
            if (source.empty())
                continue;
            const Measured m = measure(kernel, source);
            passed += m.right ? 1 : 0;
            if (!m.right && wants("RULES_PLANS"))
                fmt::print("    {} ({}):\n{}{}\n", m.built ? "wrong" : "no build", m.worst, plan,
                           wants("RULES_SOURCE") ? source + m.log : "");
            if (m.right && m.seconds < best_time.seconds) {
                best = source;
                best_time = m;
                how = plan.substr(0, plan.find("\n\n"));
            }
        }
        fmt::print("  generation {}: {:.2f}x ({:.2f} GFLOP/s), {} of {} pass; {}\n", g,
                   start.seconds / best_time.seconds, kernel.flops / best_time.seconds / 1e9,
                   passed, draws, how);
        std::fflush(stdout);
    }
}

// `file`: a broken start of the kernel, "" = its plain one.
void attribute(const Kernel& kernel, int draws, const std::string& file) {
    const Measured plain = measure(kernel, kernel.source);
    std::string source_text = kernel.source;
    if (!file.empty()) {
        const Result<std::string> text = read_file(file);
        CHECK(text);
        source_text = *text;
    }
    Measured start = measure(kernel, source_text);
    if (!start.right)
        start.seconds = plain.seconds;
    fmt::print(
        "{}: coalition (debugger 1, analyzer 2, profiler 4): build, pass, fast, mean log gain\n",
        kernel.name);
    for (int components = 0; components < 8; ++components) {
        int built = 0;
        int passed = 0;
        int fast = 0;
        double gain = 0;
        for (int d = 0; d < draws; ++d) {
            std::string plan;
            const std::string source =
                propose(kernel, source_text, start, plain, components, d, plan);
            const Measured m = source.empty() ? Measured() : measure(kernel, source);
            built += m.built ? 1 : 0;
            passed += m.right ? 1 : 0;
            fast += m.right && start.seconds > 1.12 * m.seconds ? 1 : 0;
            gain += m.right ? std::max(0.0, std::log(start.seconds / m.seconds)) : 0;
            if (wants("RULES_PLANS"))
                fmt::print("    {} {} {:.2f} {}\n", components,
                           m.built ? m.right ? "pass" : "wrong" : "no build",
                           m.right ? start.seconds / m.seconds : 0.0, first_line(plan));
        }
        fmt::print("  {}{}{}: {:3.0f} % {:3.0f} % {:3.0f} % {:.3f}\n",
                   (components & 1) != 0 ? "d" : "-", (components & 2) != 0 ? "a" : "-",
                   (components & 4) != 0 ? "p" : "-", 100.0 * built / draws, 100.0 * passed / draws,
                   100.0 * fast / draws, gain / draws);
        std::fflush(stdout);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "improve";
    const std::string which = argc > 2 ? argv[2] : "all";
    const int draws = argc > 3 ? std::atoi(argv[3]) : 6;        // NOLINT(cert-err34-c)
    const int generations = argc > 4 ? std::atoi(argv[4]) : 5;  // NOLINT(cert-err34-c)
    folder = std::filesystem::temp_directory_path() / fmt::format("rules_bench_{}", ::getpid());
    std::filesystem::create_directories(folder);
    for (const Kernel& kernel : kernels())
        if (which == "all" || which == kernel.name) {
            if (what == "attribute")
                attribute(kernel, draws, argc > 5 ? argv[5] : "");
            else
                improve(kernel, draws, generations);
        }
    std::filesystem::remove_all(folder);
    return 0;
}
