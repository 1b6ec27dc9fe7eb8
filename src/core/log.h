// What the person at the terminal sees while work goes on: one line an event on stderr, and one
// redrawn progress line.
#pragma once
#include <string>
#include <string_view>

namespace loopscope {

enum class LogLevel { error, warn, info, debug };

// Lines below `level` are dropped. Default: info. --quiet sets warn.
void set_log_level(LogLevel level);

// Texts (API keys) that are replaced by "***" wherever they would be printed. Empty texts are
// ignored.
void redact(std::string secret);
// `text` with every redacted secret replaced.
std::string redacted(std::string_view text);

void log(LogLevel level, std::string_view line);
inline void log_error(std::string_view line) { log(LogLevel::error, line); }
inline void log_warn(std::string_view line) { log(LogLevel::warn, line); }
inline void log_info(std::string_view line) { log(LogLevel::info, line); }

// Progress of long work: on a terminal one line, redrawn at most 10 times a second, with rate and
// remaining time; elsewhere a plain line at most every 15 s. Nothing when the level is warn or
// error.
class Progress {
public:
    Progress(std::string title, std::size_t total);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    // `done` of the total are finished; `note` is short and changes (the best speed-up, the money
    // spent).
    void update(std::size_t done, std::string_view note = {});
    void set_total(std::size_t total);

private:
    struct State;
    State* state_;
};

}  // namespace loopscope
