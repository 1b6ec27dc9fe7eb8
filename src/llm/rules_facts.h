// What builtin:rules learns from a prompt: the status of the program, and what the feedback
// sections that are shown say. Read by keyword from text that is meant for models, so a summary or
// another wording mostly does as well.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope::rules {

struct CompilerError {
    std::string file;
    int line = 0, column = 0;
    std::string message;
};

struct OutOfBounds {
    int line = 0;               // 0 = not told
    std::string access, array;  // "" = not told
    bool before = false;        // before the start, not after the end
};

// The debugger's section.
struct DebuggerFacts {
    std::vector<CompilerError> errors;
    std::vector<OutOfBounds> overruns;
    std::set<int> uninitialised;  // lines that read what was not set
    std::set<std::string> unset;  // arrays and variables named in such sentences
    bool wrong = false;           // an output element with its expected value is quoted
    bool negated = false;         // it has the expected size and the other sign
    bool not_finite = false;
    bool part_wrong = false;  // some elements are right
};

struct LoopFacts {
    std::string var;
    int line = 0;
    bool inclusive = false;  // "i <= n" in its bounds
    long step = 1;
};

// The analyzer's section.
struct AnalyzerFacts {
    std::vector<LoopFacts> loops;
    struct Order {
        std::string now, better;
        int line = 0;
    };
    std::vector<Order> orders;           // "with j innermost instead of k"
    std::set<int> in_memory;             // lines that update one address in every iteration
    std::set<std::string> strided;       // loops in which some access moves far
    std::map<int, std::string> remarks;  // line -> why the vectoriser gave up
    bool reorders = false, aliases = false, calls = false, uncountable = false, branches = false,
         divisions = false, indirect = false;
    bool sums = false;  // some loop accumulates
};

// The profiler's section.
struct ProfilerFacts {
    std::optional<double> roof_percent;      // of the arithmetic roof, the worst size
    std::optional<double> attained_percent;  // of what arithmetic intensity allows
    std::optional<double> d1_miss_percent, ll_miss_percent;
    std::optional<double> instructions_per_flop;
    bool memory_bound = false;
    std::vector<int> hot;  // lines, the hottest first
};

struct Facts {
    std::string status, reason;  // "pass", "not_faster"; "" = not told
    bool failing() const { return status == "fail" || status == "compile"; }
    std::optional<DebuggerFacts> debugger;
    std::optional<AnalyzerFacts> analyzer;
    std::optional<ProfilerFacts> profiler;
    std::string history;
};

// Sections "status", "history" and "feedback: NAME" of a rendered user message.
Facts facts_of(std::string_view user_message);

DebuggerFacts read_debugger(std::string_view text);
AnalyzerFacts read_analyzer(std::string_view text);
ProfilerFacts read_profiler(std::string_view text);

// At most eight lines of a component's text that name places, numbers and causes, under a heading.
std::string key_lines(std::string_view component, std::string_view text);

}  // namespace loopscope::rules
