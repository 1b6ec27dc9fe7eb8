// One command at work: the loop's thread, the disk's, the journal, the machine and the models, and
// how it ends.
#pragma once
#include "core/result.h"
#include "loop/engine.h"
#include "store/journal.h"

#include <cstdint>
#include <functional>
#include <string>

namespace loopscope {

// Options that every verb takes.
struct Common {
    std::string journal = "loopscope.db";
    bool json = false;
    bool quiet = false;
    std::uint64_t seed = 1;
};

// Which models answer, and how much they may cost.
struct ModelOptions {
    std::string model = "builtin:rules";     // of every role that has none of its own
    std::string planner, coder, summarizer;  // "" = `model`
    std::string price_file;
    double max_cost = 5.0;  // dollars, over all roles
};

enum : int { exit_done = 0, exit_failed = 1, exit_usage = 2, exit_interrupted = 130 };

// Prints the error on stderr; returns exit_usage.
int usage_error(const Error& error);
int failure(const Error& error);

// Opens everything, runs `body` on the loop's thread until it ends, Ctrl-C cancels it or it throws,
// and turns the way it ended into an exit code with one clear message. What is done by then is in
// the journal.
int with_engine(const Common& common, const ModelOptions& models,
                const std::function<awaitable<int>(Engine&)>& body);

// For verbs that only read the journal.
int with_journal(const Common& common, bool read_only, const std::function<int(Journal&)>& body);

}  // namespace loopscope
