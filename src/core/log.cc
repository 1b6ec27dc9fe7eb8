#include "core/log.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <mutex>
#include <vector>

namespace loopscope {

namespace {

// The log is the one thing that helper threads share with the loop's.
struct Shared {
    std::mutex mutex;
    LogLevel level = LogLevel::info;
    std::vector<std::string> secrets;
    std::string progress_line;  // what stands on the terminal's last line, "" = nothing
};

Shared& shared() {
    static Shared state;
    return state;
}

bool on_terminal() {
    static const bool terminal = ::isatty(STDERR_FILENO) == 1;
    return terminal;
}

std::size_t terminal_width() {
    winsize size{};
    return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

std::string without_secrets(std::string_view text, const std::vector<std::string>& secrets) {
    std::string clean(text);
    for (const std::string& secret : secrets)
        for (std::size_t at = clean.find(secret); at != std::string::npos;
             at = clean.find(secret, at + 3))
            clean.replace(at, secret.size(), "***");
    return clean;
}

void put(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
}

std::string duration_text(double seconds) {
    if (seconds < 90)
        return fmt::format("{:.0f} s", seconds);
    if (seconds < 5400)
        return fmt::format("{:.0f} min", seconds / 60);
    return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

void set_log_level(LogLevel level) {
    const std::scoped_lock lock(shared().mutex);
    shared().level = level;
}

void redact(std::string secret) {
    const std::scoped_lock lock(shared().mutex);
    if (!secret.empty())
        shared().secrets.push_back(std::move(secret));
}

std::string redacted(std::string_view text) {
    const std::scoped_lock lock(shared().mutex);
    return without_secrets(text, shared().secrets);
}

void log(LogLevel level, std::string_view line) {
    Shared& state = shared();
    const std::scoped_lock lock(state.mutex);
    if (level > state.level)
        return;
    static constexpr std::string_view names[] = {"error: ", "warning: ", "", "debug: "};
    if (!state.progress_line.empty())
        put("\r\033[K");
    put(fmt::format("{}{}\n", names[static_cast<int>(level)],
                    without_secrets(line, state.secrets)));
    put(state.progress_line);
}

struct Progress::State {
    std::string title;
    std::size_t total = 0, done = 0, first_done = 0;
    std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
    std::chrono::steady_clock::time_point shown{};
};

Progress::Progress(std::string title, std::size_t total) : state_(new State) {
    state_->title = std::move(title);
    state_->total = total;
}

Progress::~Progress() {
    {
        const std::scoped_lock lock(shared().mutex);
        if (!shared().progress_line.empty())
            put("\r\033[K");
        shared().progress_line.clear();
    }
    delete state_;
}

void Progress::set_total(std::size_t total) { state_->total = total; }

void Progress::update(std::size_t done, std::string_view note) {
    const auto now = std::chrono::steady_clock::now();
    const bool last = done >= state_->total;
    const auto pause =
        on_terminal() ? std::chrono::milliseconds(100) : std::chrono::milliseconds(15'000);
    state_->done = done;
    if (now - state_->shown < pause && !(last && on_terminal()))
        return;
    if (!on_terminal() && now - state_->started < pause)
        return;
    state_->shown = now;
    const double seconds = std::chrono::duration<double>(now - state_->started).count();
    const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    std::string line = fmt::format("{} {}/{}", state_->title, done, state_->total);
    if (rate > 0 && done > 0) {
        line +=
            rate >= 1 ? fmt::format(", {:.1f}/s", rate) : fmt::format(", {:.1f}/min", rate * 60);
        if (!last)
            line +=
                ", " + duration_text(static_cast<double>(state_->total - done) / rate) + " left";
    }
    if (!note.empty())
        line += fmt::format(", {}", note);
    const std::scoped_lock lock(shared().mutex);
    if (shared().level < LogLevel::info)
        return;
    line = without_secrets(line, shared().secrets);
    if (!on_terminal()) {
        put(line + "\n");
        return;
    }
    if (line.size() >= terminal_width())
        line.resize(terminal_width() - 1);
    put("\r\033[K" + line);
    shared().progress_line = line;
}

}  // namespace loopscope
