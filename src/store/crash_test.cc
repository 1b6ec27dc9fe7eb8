// What a crash leaves behind, and what a resumed study makes of it: simulated at every commit and
// at every turn of the loop (one thread, owned time, scripted stages), and for real with kill -9.
#include "core/hash.h"
#include "core/rng.h"
#include "store/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "../tests/fakes/manual_clock.h"

// NOLINTBEGIN(cppcoreguidelines-avoid-capturing-lambda-coroutines): every closure outlives the run
// of its coroutine NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one fails the test
namespace loopscope {
namespace {

namespace fs = std::filesystem;

class CrashTest : public testing::Test {
protected:
    CrashTest() {
        // Kill -9 and a crash in a simulation leave what was written, whatever the disk: so not on
        // a slow one.
        const fs::path memory = "/dev/shm";
        const bool writable = access(memory.c_str(), W_OK) == 0;
        std::string pattern =
            ((writable ? memory : fs::temp_directory_path()) / "crash_test_XXXXXX").string();
        folder_ = mkdtemp(pattern.data());
    }
    ~CrashTest() override {
        std::error_code ignored;
        fs::remove_all(folder_, ignored);
    }
    std::string file(const std::string& name) const { return (folder_ / name).string(); }

    fs::path folder_;
};

// A small study: each sample asks for feedback (shared by three samples), a plan, proposals until
// one is an answer (some are not), and a build (shared by all samples with the same program).
// Replies, waits and refusals are functions of the key alone.
struct Study {
    Journal& journal;
    Clock& clock;
    int samples = 0;
    int paid_runs = 0;

    std::uint64_t bits(const StageKey& key) const {
        std::uint64_t h = 0;
        for (const char c : hash_of(key))
            h = mix64(h ^ static_cast<unsigned char>(c));
        return h;
    }

    awaitable<Entry> stage(std::string name, std::string inputs, std::string draw, bool paid) {
        StageKey key;
        key.stage = std::move(name);
        key.inputs = fmt::format("{{\"of\":\"{}\"}}", sha256_hex(inputs));
        key.draw = std::move(draw);
        key.paid = paid;
        const std::uint64_t h = bits(key);
        const std::string text =
            key.stage + (h % 2 == 0 ? std::string(2000, 'x') : "") + key.inputs;
        const bool refused = key.stage == "proposal" && h / 2 % 4 == 0;
        const auto produce = [this, h, text, paid, refused]() -> awaitable<Produced> {
            paid_runs += paid ? 1 : 0;
            co_await clock.sleep(std::chrono::milliseconds(1 + h / 8 % 20));
            Produced produced;
            produced.result = text;
            produced.keep = !refused;
            produced.failure = refused ? "no code block" : "";
            produced.cost = 0.125;
            co_return produced;
        };
        co_return co_await journal.once(key, produce);
    }

    awaitable<void> sample(std::size_t index) {
        const std::string position = fmt::format("{:06}", index);
        const Entry feedback =
            co_await stage("feedback", fmt::format("context {}", index / 3), "", false);
        const std::string prompt = "prompt of " + position + feedback.result;
        const std::string prompt_hash = co_await journal.put_text(prompt);
        const Entry plan = co_await stage("plan", prompt_hash, "1/" + position + "/0", true);
        Entry proposal;
        for (int attempt = 0;; ++attempt) {
            const std::string draw = fmt::format("1/{}/{}", position, attempt);
            proposal = co_await stage("proposal", plan.result, draw, true);
            if (proposal.kept)
                break;
        }
        const std::string program = fmt::format("{}", proposal.result.size() % 5);
        const Entry build = co_await stage("build", program, "", false);
        const std::string document = fmt::format(R"({{"plan":"{}","proposal":"{}","build":"{}"}})",
                                                 plan.key, proposal.key, build.key);
        co_await journal.put_sample("r1", position, document);
    }

    awaitable<void> run() {
        StudyRow row;
        row.id = "r1";
        row.kind = "run";
        row.config = "{}";
        row.state = "running";
        co_await journal.put_study(row);
        const std::function<awaitable<void>(std::size_t)> one = [this](std::size_t i) {
            return sample(i);
        };
        co_await for_each_index(static_cast<std::size_t>(samples), 5, one);
        std::string document = "[";
        for (const auto& [position, json] : journal.samples("r1"))
            document += (document.size() > 1 ? "," : "") + json;
        co_await journal.put_trajectory("t1", document + "]");
        row.state = "done";
        co_await journal.put_study(row);
    }
};

struct Crash {
    int commit = -1;        // at this commit, from 1
    std::string side = "";  // "before" or "after" it
    int turn = -1;          // or: after so many handlers of the loop
};
struct Outcome {
    bool finished = false;
    std::string error;
    int commits = 0, turns = 0, paid_runs = 0;
    std::int64_t cut =
        0;  // calls in flight at a crash, by the journal's own count when it was opened
    Clock::Duration took{};
};

Outcome simulate(const std::string& path, int samples, const Crash& crash) {
    Outcome outcome;
    asio::io_context io(1);
    ManualClock clock(io.get_executor());
    Journal::Options options;
    options.power_safe = false;
    auto opened = Journal::open(path, io.get_executor(), io.get_executor(), clock, options);
    if (!opened) {
        outcome.error = to_text(opened.error());
        return outcome;
    }
    const std::unique_ptr<Journal> journal = std::move(*opened);
    outcome.cut = journal->summary().calls_in_flight_at_a_crash;
    bool dead = false;  // as after kill -9: nothing more reaches the file, whatever still runs
    journal->at = [&](const char* where) {
        outcome.commits += std::string_view(where) == "before" ? 1 : 0;
        dead = dead || (outcome.commits == crash.commit && crash.side == where);
        if (dead)
            throw std::runtime_error("crash");
    };
    Study study{*journal, clock, samples};
    asio::co_spawn(io, study.run(), [&](const std::exception_ptr& error) {
        outcome.finished = !error;
        io.stop();
    });
    while (!io.stopped() && outcome.turns != crash.turn) {
        if (io.poll_one() > 0)
            ++outcome.turns;
        else if (!clock.advance())
            break;
    }
    if (!outcome.finished) {
        dead = true;
        try {
            journal
                ->summary();  // fails on whatever is queued, so that closing writes nothing either
        } catch (const JournalError& error) {
            EXPECT_NE(std::string(error.what()).find("crash"), std::string::npos) << error.what();
        }
    }
    outcome.paid_runs = study.paid_runs;
    outcome.took = clock.now();
    return outcome;
}

// Every row but those of the ledger, without the times at which they were made.
std::set<std::string> rows_of(const std::string& path) {
    std::set<std::string> rows;
    sqlite3* handle = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
    for (const char* sql :
         {"SELECT 'entry', key, stage, version, inputs, draw, result, cost FROM entry",
          "SELECT 'blob', hash, size, coding, hex(bytes) FROM blob",
          "SELECT 'study', id, kind, config, state, note FROM study",
          "SELECT 'sample', study, position, document FROM sample",
          "SELECT 'trajectory', id, document FROM trajectory"}) {
        sqlite3_stmt* all = nullptr;
        EXPECT_EQ(sqlite3_prepare_v2(handle, sql, -1, &all, nullptr), SQLITE_OK);
        while (sqlite3_step(all) == SQLITE_ROW) {
            std::string row;
            for (int i = 0; i < sqlite3_column_count(all); ++i) {
                const unsigned char* text = sqlite3_column_text(all, i);
                row += text == nullptr ? "-" : reinterpret_cast<const char*>(text);
                row += '|';
            }
            rows.insert(row);
        }
        sqlite3_finalize(all);
    }
    sqlite3_close(handle);
    return rows;
}

// The ledger by state, and the keys that were answered twice (there must be none).
struct Bill {
    std::map<std::string, int> by_state;
    int answered_twice = 0;
    std::vector<std::string> faults;
};
Bill bill_of(const std::string& path) {
    Bill bill;
    asio::io_context io(1);
    ManualClock clock(io.get_executor());
    Journal::Options options;
    options.read_only = true;
    auto opened = Journal::open(path, io.get_executor(), io.get_executor(), clock, options);
    EXPECT_TRUE(opened);
    std::map<std::string, int> answers;
    for (const LedgerLine& line : (*opened)->ledger()) {
        ++bill.by_state[line.state];
        if (line.state == "answered" && ++answers[line.key] > 1)
            ++bill.answered_twice;
    }
    bill.faults = (*opened)->verify();
    return bill;
}

void forget(const std::string& path) {
    for (const char* end : {"", "-wal", "-shm", "-lock"})
        fs::remove(path + end);
}

class Simulation : public CrashTest {
protected:
    static constexpr int samples = 9;

    Simulation()
        : whole_(simulate(file("whole.db"), samples, Crash())),
          expected_(rows_of(file("whole.db"))),
          whole_bill_(bill_of(file("whole.db"))) {}

    void crash_and_resume(const Crash& crash) {
        SCOPED_TRACE(fmt::format("commit {} {} turn {}", crash.commit, crash.side, crash.turn));
        const std::string path = file("crash.db");
        forget(path);
        const Outcome cut = simulate(path, samples, crash);
        ASSERT_FALSE(cut.finished);
        ASSERT_EQ(cut.error, "");
        const Outcome rest = simulate(path, samples, Crash());
        EXPECT_TRUE(rest.finished) << rest.error;
        EXPECT_TRUE(rows_of(path) == expected_) << "the resumed journal differs";
        Bill bill = bill_of(path);
        EXPECT_TRUE(bill.faults.empty()) << testing::PrintToString(bill.faults);
        EXPECT_EQ(bill.answered_twice, 0);
        EXPECT_EQ(bill.by_state["answered"], whole_bill_.by_state["answered"]);
        EXPECT_EQ(bill.by_state["in_flight"], rest.cut) << "what was cut is counted";
        // Every run of a paid stage has its line; some intents were cut before their run began.
        const int lines =
            bill.by_state["answered"] + bill.by_state["failed"] + bill.by_state["in_flight"];
        EXPECT_LE(cut.paid_runs + rest.paid_runs, lines);
        repeated_ += cut.paid_runs + rest.paid_runs - whole_.paid_runs;
    }

    Outcome whole_;
    std::set<std::string> expected_;
    Bill whole_bill_;
    int repeated_ = 0;
};

TEST_F(Simulation, an_undisturbed_study_repeats_to_the_byte) {
    ASSERT_TRUE(whole_.finished) << whole_.error;
    EXPECT_GT(whole_.commits, 30);
    EXPECT_GT(whole_bill_.by_state["failed"], 0) << "the script refuses nothing";
    EXPECT_EQ(whole_bill_.by_state["in_flight"], 0);
    const Outcome again = simulate(file("again.db"), samples, Crash());
    EXPECT_EQ(again.commits, whole_.commits);
    EXPECT_EQ(again.turns, whole_.turns);
    EXPECT_EQ(again.took, whole_.took);
    EXPECT_TRUE(rows_of(file("again.db")) == expected_);

    // A finished study that is started again asks for nothing but what was no answer.
    const Outcome third = simulate(file("again.db"), samples, Crash());
    EXPECT_TRUE(third.finished);
    EXPECT_EQ(third.paid_runs, whole_bill_.by_state["failed"]);
    EXPECT_TRUE(rows_of(file("again.db")) == expected_);
}

TEST_F(Simulation, a_crash_before_or_after_any_commit_is_made_good) {
    for (int commit = 1; commit <= whole_.commits; ++commit)
        for (const char* side : {"before", "after"})
            crash_and_resume(Crash{commit, side, -1});
    EXPECT_GT(repeated_, 0) << "no crash cut a call: the test shows nothing";
}

TEST_F(Simulation, a_crash_at_any_turn_of_the_loop_is_made_good) {
    const int stride = std::max(1, whole_.turns / 60);
    for (int turn = 1; turn < whole_.turns; turn += stride)
        crash_and_resume(Crash{-1, "", turn});
    EXPECT_GT(repeated_, 0) << "no crash cut a call: the test shows nothing";
}

// Writes through the journal for ever, and tells `acknowledge` each key and each sample that was
// acknowledged.
[[noreturn]] void write_for_ever(const std::string& path, int round, int acknowledge) {
    asio::io_context io(1);
    asio::thread_pool disk(1);
    RealClock clock;
    auto opened =
        Journal::open(path, io.get_executor(), disk.get_executor(), clock, Journal::Options());
    if (!opened)
        _exit(2);
    Journal& journal = **opened;
    const std::function<awaitable<void>(std::size_t)> one =
        [&](std::size_t index) -> awaitable<void> {
        StageKey key;
        key.stage = "model";
        key.inputs = fmt::format("{{\"round\":{},\"index\":{}}}", round, index);
        key.paid = true;
        const auto produce = [&]() -> awaitable<Produced> {
            co_await clock.sleep(std::chrono::microseconds(index % 7 * 100));
            Produced produced;
            produced.result = key.inputs + std::string(index % 3000, 'x');
            co_return produced;
        };
        const Entry entry = co_await journal.once(key, produce);
        StageKey unpaid = key;
        unpaid.stage = "build";
        unpaid.paid = false;
        co_await journal.once(unpaid, produce);
        const std::string position = fmt::format("{}/{:06}", round, index);
        co_await journal.put_sample("r1", position, key.inputs);
        // Both are acknowledged by now, and with the sample every row before it.
        const std::string line = fmt::format("{} {} {}\n", entry.key, hash_of(unpaid), position);
        if (write(acknowledge, line.data(), line.size()) < 0)
            _exit(3);
    };
    const auto all = [&]() -> awaitable<void> {
        StudyRow study;
        study.id = "r1";
        co_await journal.put_study(study);
        co_await for_each_index(10'000'000, 8, one);
    };
    asio::co_spawn(io, all(), [](const std::exception_ptr&) { _exit(4); });
    io.run();
    _exit(5);
}

// Everything that comes through the pipe; kills the child `lifetime` after its first word.
std::string read_and_kill(int descriptor, pid_t child, std::chrono::microseconds lifetime) {
    using std::chrono::steady_clock;
    auto deadline = steady_clock::now() + std::chrono::seconds(60);
    std::string text;
    std::array<char, 65536> buffer{};
    bool killed = false;
    for (;;) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
        if (!killed && left.count() <= 0) {
            kill(child, SIGKILL);
            killed = true;
        }
        pollfd wait{descriptor, POLLIN, 0};
        if (poll(&wait, 1, killed ? -1 : static_cast<int>(left.count())) <= 0)
            continue;
        const ssize_t n = read(descriptor, buffer.data(), buffer.size());
        if (n <= 0)
            return text;
        if (text.empty())
            deadline = steady_clock::now() + lifetime;
        text.append(buffer.data(), static_cast<std::size_t>(n));
    }
}

TEST_F(CrashTest, kill_9_at_random_moments_loses_nothing_acknowledged) {
    const std::string path = file("kill.db");
    Rng rng(20260701);
    std::size_t acknowledged = 0;
    std::int64_t cut = 0;
    for (int round = 0; round < 10; ++round) {
        std::array<int, 2> ends{};
        ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0)
            write_for_ever(path, round, ends[1]);
        close(ends[1]);
        const std::chrono::microseconds lifetime(rng.below(100'000));
        const std::string text = read_and_kill(ends[0], child, lifetime);
        close(ends[0]);
        int status = 0;
        waitpid(child, &status, 0);
        ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);

        asio::io_context io(1);
        RealClock clock;
        auto opened =
            Journal::open(path, io.get_executor(), io.get_executor(), clock, Journal::Options());
        ASSERT_TRUE(opened) << to_text(opened.error());
        Journal& journal = **opened;
        std::set<std::string> positions;
        for (const auto& [position, json] : journal.samples("r1"))
            positions.insert(position);
        std::size_t begin = 0;
        for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos;
             begin = end + 1) {
            const std::string line = text.substr(begin, end - begin);
            const std::string paid = line.substr(0, 64);
            const std::string unpaid = line.substr(65, 64);
            ASSERT_TRUE(journal.find(paid)) << "lost in round " << round << ": " << line;
            ASSERT_TRUE(journal.find(unpaid)) << "lost in round " << round << ": " << line;
            ASSERT_TRUE(positions.count(line.substr(130)) == 1) << "lost: " << line;
            ++acknowledged;
        }
        const std::vector<std::string> faults = journal.verify();
        ASSERT_TRUE(faults.empty()) << testing::PrintToString(faults);
        cut = journal.summary().calls_in_flight_at_a_crash;
    }
    EXPECT_GE(acknowledged, 10U);
    EXPECT_GT(cut, 0) << "no kill ever met a call in flight";
    RecordProperty("acknowledged", static_cast<int>(acknowledged));
    RecordProperty("cut", static_cast<int>(cut));
    fmt::print("{} samples acknowledged over 10 kills, {} calls cut\n", acknowledged, cut);
}

}  // namespace
}  // namespace loopscope
// NOLINTEND(bugprone-unchecked-optional-access)
// NOLINTEND(cppcoreguidelines-avoid-capturing-lambda-coroutines)
