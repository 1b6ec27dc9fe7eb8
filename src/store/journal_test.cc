#include "store/journal.h"

#include "core/child.h"
#include "core/hash.h"
#include "core/rng.h"
#include "store/compress.h"
#include "store/schema.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "../tests/fakes/manual_clock.h"

// NOLINTBEGIN(cppcoreguidelines-avoid-capturing-lambda-coroutines): every closure outlives the run
// of its coroutine NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one fails the test
namespace loopscope {
namespace {

namespace fs = std::filesystem;

// A folder of its own for each test.
class JournalTest : public testing::Test {
protected:
    JournalTest() {
        std::string pattern = (fs::temp_directory_path() / "journal_test_XXXXXX").string();
        folder_ = mkdtemp(pattern.data());
    }
    ~JournalTest() override {
        std::error_code ignored;
        fs::remove_all(folder_, ignored);
    }
    std::string file(const std::string& name = "j.db") const { return (folder_ / name).string(); }

    fs::path folder_;
};

// One thread, owned time, a journal whose commits run on the loop itself.
struct Bench {
    explicit Bench(const std::string& path, Journal::Options options = fast()) {
        auto opened = Journal::open(path, io.get_executor(), io.get_executor(), clock, options);
        if (opened)
            journal = std::move(*opened);
        else
            error = to_text(opened.error());
    }
    static Journal::Options fast() {
        Journal::Options options;
        options.power_safe = false;
        return options;
    }
    static Journal::Options reading() {
        Journal::Options options;
        options.read_only = true;
        return options;
    }

    // Runs the work to its end; rethrows what it throws.
    template <class T>
    T run(awaitable<T> work) {
        std::exception_ptr thrown;
        std::optional<T> result;
        const auto done = [&](const std::exception_ptr& e, T value) {
            thrown = e;
            result = std::move(value);
        };
        io.restart();
        asio::co_spawn(io, std::move(work), done);
        clock.run(io);
        if (thrown)
            std::rethrow_exception(thrown);
        EXPECT_TRUE(result) << "the work never ended";
        return std::move(*result);
    }
    void run(awaitable<void> work) {
        std::exception_ptr thrown;
        bool ended = false;
        const auto done = [&](const std::exception_ptr& e) {
            thrown = e;
            ended = true;
        };
        io.restart();
        asio::co_spawn(io, std::move(work), done);
        clock.run(io);
        if (thrown)
            std::rethrow_exception(thrown);
        EXPECT_TRUE(ended) << "the work never ended";
    }
    Journal& operator*() const { return *journal; }
    Journal* operator->() const { return journal.get(); }

    asio::io_context io{1};
    ManualClock clock{io.get_executor()};
    std::unique_ptr<Journal> journal;
    std::string error;
};

StageKey key_named(const std::string& name, bool paid = false) {
    StageKey key;
    key.stage = paid ? "model" : "build";
    key.inputs = "{\"name\":\"" + name + "\"}";
    key.draw = "1/0/0";
    key.paid = paid;
    return key;
}

Produced answer(std::string text) {
    Produced produced;
    produced.result = std::move(text);
    produced.cost = 0.25;
    produced.usage.known = true;
    produced.usage.input_tokens = 100;
    produced.usage.cached_tokens = 40;
    produced.usage.output_tokens = 20;
    produced.usage.reasoning_tokens = 5;
    return produced;
}

// A stage that counts its runs.
struct Stage {
    int runs = 0;
    std::function<awaitable<Produced>()> saying(const std::string& text) {
        return [this, text]() -> awaitable<Produced> {
            ++runs;
            co_return answer(text);
        };
    }
    std::function<awaitable<Produced>()> saying_after(Clock& clock, std::chrono::milliseconds wait,
                                                      const std::string& text) {
        return [this, &clock, wait, text]() -> awaitable<Produced> {
            ++runs;
            co_await clock.sleep(wait);
            co_return answer(text);
        };
    }
};

int count_commits(Bench& bench, const std::function<void()>& work) {
    int commits = 0;
    bench->at = [&commits](const char* where) { commits += std::string_view(where) == "after"; };
    work();
    bench->at = nullptr;
    return commits;
}

void change(const std::string& path, const std::string& sql) {
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, &message), SQLITE_OK)
        << (message == nullptr ? "" : message);
    sqlite3_free(message);
    sqlite3_close(handle);
}

std::string only_fault(const std::vector<std::string>& faults) {
    EXPECT_EQ(faults.size(), 1U) << testing::PrintToString(faults);
    return faults.empty() ? "" : faults.front();
}

TEST(StageKeyTest, everything_that_can_change_the_outcome_changes_the_key_and_nothing_else) {
    const StageKey base = key_named("a");
    StageKey other = base;
    other.paid = true;
    EXPECT_EQ(hash_of(base), hash_of(other));
    other = base;
    other.stage = "verify";
    EXPECT_NE(hash_of(base), hash_of(other));
    other = base;
    other.version = 2;
    EXPECT_NE(hash_of(base), hash_of(other));
    other = base;
    other.inputs += " ";
    EXPECT_NE(hash_of(base), hash_of(other));
    other = base;
    other.draw = "1/0/1";
    EXPECT_NE(hash_of(base), hash_of(other));
}

TEST(StageKeyTest, no_field_can_pose_as_part_of_its_neighbour) {
    StageKey one;
    one.stage = "a";
    one.version = 12;
    StageKey two;
    two.stage = "a1";
    two.version = 2;
    EXPECT_NE(hash_of(one), hash_of(two));
}

TEST(StageKeyTest, the_documented_formula) {
    const StageKey key = key_named("a");
    const std::string inputs = sha256_hex(key.inputs);
    EXPECT_EQ(hash_of(key), sha256_hex("5:build,1:1,64:" + inputs + ",5:1/0/0,"));
}

TEST_F(JournalTest, a_result_is_produced_once_and_recalled_after_reopening) {
    Stage stage;
    std::string key;
    {
        Bench bench(file());
        ASSERT_TRUE(bench.journal) << bench.error;
        const Entry made = bench.run(bench->once(key_named("a", true), stage.saying("hello")));
        EXPECT_FALSE(made.reused);
        EXPECT_TRUE(made.kept);
        EXPECT_EQ(made.result, "hello");
        key = made.key;
        EXPECT_EQ(key, hash_of(key_named("a", true)));
        EXPECT_TRUE(bench.run(bench->once(key_named("a", true), stage.saying("other"))).reused);
    }
    Bench bench(file());
    ASSERT_TRUE(bench.journal) << bench.error;
    const Entry found = bench.run(bench->once(key_named("a", true), stage.saying("other")));
    EXPECT_TRUE(found.reused);
    EXPECT_EQ(found.result, "hello");
    EXPECT_EQ(found.cost, 0.25);
    EXPECT_TRUE(found.usage.known);
    EXPECT_EQ(found.usage.input_tokens, 100);
    EXPECT_EQ(found.usage.cached_tokens, 40);
    EXPECT_EQ(found.usage.output_tokens, 20);
    EXPECT_EQ(found.usage.reasoning_tokens, 5);
    EXPECT_EQ(stage.runs, 1);
    EXPECT_EQ(bench->find(key)->result, "hello");
    EXPECT_FALSE(bench->find(hash_of(key_named("b"))));
    EXPECT_TRUE(bench->verify().empty());
}

TEST_F(JournalTest, an_unknown_cost_stays_unknown) {
    Bench bench(file());
    const auto produce = []() -> awaitable<Produced> {
        Produced produced;
        produced.result = "x";
        co_return produced;
    };
    bench.run(bench->once(key_named("a", true), produce));
    const auto found = bench->find(hash_of(key_named("a", true)));
    EXPECT_FALSE(found->cost);
    EXPECT_FALSE(found->usage.known);
    const JournalSummary summary = bench->summary();
    EXPECT_EQ(summary.calls_of_unknown_cost, 1);
    EXPECT_EQ(summary.known_cost, 0);
}

TEST_F(JournalTest, results_of_any_bytes_and_sizes_come_back_as_they_were) {
    std::string binary(5000, '\0');
    for (std::size_t i = 0; i < binary.size(); ++i)
        binary[i] = static_cast<char>(i * i % 251);
    const std::vector<std::string> texts = {"",
                                            std::string("\0a\0", 3),
                                            std::string(compress_above_bytes, 'x'),
                                            std::string(compress_above_bytes + 1, 'x'),
                                            binary,
                                            std::string(3'000'000, 'y'),
                                            "\xff\xfe not UTF-8"};
    Stage stage;
    {
        Bench bench(file());
        for (std::size_t i = 0; i < texts.size(); ++i) {
            bench.run(bench->once(key_named(std::to_string(i)), stage.saying(texts[i])));
            EXPECT_EQ(bench.run(bench->put_text(texts[i])), sha256_hex(texts[i]));
        }
    }
    Bench bench(file());
    for (std::size_t i = 0; i < texts.size(); ++i) {
        EXPECT_EQ(bench->find(hash_of(key_named(std::to_string(i))))->result, texts[i]);
        EXPECT_EQ(bench->text(sha256_hex(texts[i])).value(), texts[i]);
    }
    EXPECT_TRUE(bench->verify().empty());
    EXPECT_LT(bench->summary().bytes, 1'000'000) << "long texts are not compressed";
    EXPECT_FALSE(bench->text("no such hash"));
}

TEST_F(JournalTest, two_calls_for_one_key_share_one_run) {
    Bench bench(file());
    Stage stage;
    std::vector<Entry> entries;
    const std::function<awaitable<void>(std::size_t)> ask = [&](std::size_t) -> awaitable<void> {
        auto produce = stage.saying_after(bench.clock, std::chrono::milliseconds(50), "shared");
        entries.push_back(co_await bench->once(key_named("a", true), produce));
    };
    bench.run(for_each_index(5, 5, ask));
    EXPECT_EQ(stage.runs, 1);
    ASSERT_EQ(entries.size(), 5U);
    int reused = 0;
    for (const Entry& entry : entries) {
        EXPECT_EQ(entry.result, "shared");
        reused += entry.reused ? 1 : 0;
    }
    EXPECT_EQ(reused, 4);
    EXPECT_EQ(bench->ledger().size(), 1U);
}

TEST_F(JournalTest, those_who_share_a_run_share_its_exception_and_the_next_call_tries_again) {
    Bench bench(file());
    Stage stage;
    int failures = 0;
    const std::function<awaitable<void>(std::size_t)> ask = [&](std::size_t) -> awaitable<void> {
        const std::function<awaitable<Produced>()> produce = [&]() -> awaitable<Produced> {
            ++stage.runs;
            co_await bench.clock.sleep(std::chrono::milliseconds(5));
            throw std::runtime_error("the machine is on fire");
        };
        try {
            co_await bench->once(key_named("a", true), produce);
        } catch (const std::runtime_error& error) {
            EXPECT_STREQ(error.what(), "the machine is on fire");
            ++failures;
        }
    };
    bench.run(for_each_index(3, 3, ask));
    EXPECT_EQ(failures, 3);
    EXPECT_EQ(stage.runs, 1);
    const auto ledger = bench->ledger();
    ASSERT_EQ(ledger.size(), 1U);
    EXPECT_EQ(ledger[0].state, "failed");
    EXPECT_EQ(ledger[0].failure, "the machine is on fire");
    EXPECT_FALSE(ledger[0].cost);

    const Entry entry = bench.run(bench->once(key_named("a", true), stage.saying("better")));
    EXPECT_EQ(entry.result, "better");
    EXPECT_EQ(bench->ledger().size(), 2U);
}

TEST_F(JournalTest, a_cancelled_run_does_not_poison_its_key) {
    Bench bench(file());
    Stage stage;
    asio::cancellation_signal cancel;
    std::exception_ptr first;
    std::optional<Entry> second;
    const auto ask = [&](std::chrono::milliseconds delay) -> awaitable<Entry> {
        co_await bench.clock.sleep(delay);
        auto produce = stage.saying_after(bench.clock, std::chrono::milliseconds(100), "an answer");
        co_return co_await bench->once(key_named("a", true), produce);
    };
    const auto interrupt = [&]() -> awaitable<void> {
        co_await bench.clock.sleep(std::chrono::milliseconds(50));
        cancel.emit(asio::cancellation_type::terminal);
    };
    asio::co_spawn(bench.io, ask(std::chrono::milliseconds(1)),
                   asio::bind_cancellation_slot(cancel.slot(), [&](const std::exception_ptr& e,
                                                                   const Entry&) { first = e; }));
    asio::co_spawn(bench.io, ask(std::chrono::milliseconds(2)),
                   [&](const std::exception_ptr& e, const Entry& entry) {
                       EXPECT_FALSE(e);
                       second = entry;
                   });
    bench.run(interrupt());
    EXPECT_TRUE(first) << "the first caller was cancelled and must hear of it";
    ASSERT_TRUE(second) << "the second caller waits for ever";
    EXPECT_EQ(second->result, "an answer");
    EXPECT_FALSE(second->reused) << "it ran the stage itself";
    EXPECT_EQ(stage.runs, 2);
    const auto ledger = bench->ledger();
    ASSERT_EQ(ledger.size(), 2U);
    EXPECT_EQ(ledger[0].state, "failed");
    EXPECT_EQ(ledger[0].failure, "cancelled");
    EXPECT_EQ(ledger[1].state, "answered");
}

TEST_F(JournalTest, cancelling_one_who_waits_leaves_the_run_alone) {
    Bench bench(file());
    Stage stage;
    asio::cancellation_signal cancel;
    std::exception_ptr second;
    const auto ask = [&](std::chrono::milliseconds delay) -> awaitable<Entry> {
        co_await bench.clock.sleep(delay);
        auto produce = stage.saying_after(bench.clock, std::chrono::milliseconds(100), "an answer");
        co_return co_await bench->once(key_named("a"), produce);
    };
    const auto interrupt = [&]() -> awaitable<Entry> {
        co_await bench.clock.sleep(std::chrono::milliseconds(50));
        cancel.emit(asio::cancellation_type::terminal);
        co_return co_await ask(std::chrono::milliseconds(1));
    };
    std::optional<Entry> first;
    asio::co_spawn(bench.io, ask(std::chrono::milliseconds(1)),
                   [&](const std::exception_ptr&, const Entry& entry) { first = entry; });
    asio::co_spawn(bench.io, ask(std::chrono::milliseconds(2)),
                   asio::bind_cancellation_slot(cancel.slot(), [&](const std::exception_ptr& e,
                                                                   const Entry&) { second = e; }));
    EXPECT_EQ(bench.run(interrupt()).result, "an answer");
    EXPECT_TRUE(second);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->result, "an answer");
    EXPECT_EQ(stage.runs, 1);
}

TEST_F(JournalTest, what_is_not_an_answer_is_not_kept_but_billed) {
    Bench bench(file());
    const auto produce = []() -> awaitable<Produced> {
        Produced produced = answer("cut");
        produced.keep = false;
        produced.failure = "finish reason length";
        co_return produced;
    };
    const Entry entry = bench.run(bench->once(key_named("a", true), produce));
    EXPECT_FALSE(entry.kept);
    EXPECT_FALSE(bench->find(entry.key));
    const auto ledger = bench->ledger();
    ASSERT_EQ(ledger.size(), 1U);
    EXPECT_EQ(ledger[0].state, "failed");
    EXPECT_EQ(ledger[0].failure, "finish reason length");
    EXPECT_EQ(ledger[0].cost, 0.25);
    Stage stage;
    EXPECT_EQ(bench.run(bench->once(key_named("a", true), stage.saying("whole"))).result, "whole");
    EXPECT_EQ(bench->summary().calls_failed, 1);
    EXPECT_EQ(bench->summary().calls_answered, 1);
    EXPECT_EQ(bench->summary().known_cost, 0.5);
}

TEST_F(JournalTest, the_intent_of_a_paid_call_is_durable_before_it_runs) {
    Bench bench(file());
    std::vector<LedgerLine> seen;
    const auto produce = [&]() -> awaitable<Produced> {
        Bench other(file(), Bench::reading());
        EXPECT_TRUE(other.journal) << other.error;
        seen = other->ledger();
        EXPECT_EQ(other->summary().calls_in_flight_at_a_crash, 0) << "the writer is alive";
        co_return answer("x");
    };
    bench.run(bench->once(key_named("a", true), produce));
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen[0].state, "in_flight");
    EXPECT_EQ(seen[0].key, hash_of(key_named("a", true)));
    EXPECT_EQ(bench->ledger()[0].state, "answered");
}

TEST_F(JournalTest, rows_that_arrive_during_a_commit_share_the_next_one) {
    Bench bench(file());
    Stage stage;
    const std::function<awaitable<void>(std::size_t)> ask = [&](std::size_t i) -> awaitable<void> {
        auto produce = stage.saying("x");
        co_await bench->once(key_named(std::to_string(i), true), produce);
    };
    // 100 intents: the first commit may start with fewer, the rest share one; then the same for the
    // results.
    EXPECT_LE(count_commits(bench, [&] { bench.run(for_each_index(100, 100, ask)); }), 4);
    EXPECT_EQ(stage.runs, 100);
    const std::function<awaitable<void>(std::size_t)> alone =
        [&](std::size_t i) -> awaitable<void> {
        auto produce = stage.saying("x");
        co_await bench->once(key_named("alone" + std::to_string(i), true), produce);
    };
    EXPECT_EQ(count_commits(bench, [&] { bench.run(for_each_index(10, 1, alone)); }), 20);
}

TEST_F(JournalTest, an_unpaid_result_waits_for_no_commit_and_is_there_for_every_reader) {
    Bench bench(file());
    Stage stage;
    bool checked = false;
    const auto work = [&]() -> awaitable<void> {
        int commits = 0;
        bench->at = [&commits](const char*) { ++commits; };
        auto produce = stage.saying("x");
        const Entry entry = co_await bench->once(key_named("a"), produce);
        EXPECT_EQ(commits, 0);
        EXPECT_EQ(bench->find(entry.key)->result, "x");
        EXPECT_EQ(bench->text(sha256_hex("x")).value(), "x");
        EXPECT_EQ(bench->summary().entries, 1);
        EXPECT_GT(commits, 0);
        bench->at = nullptr;
        checked = true;
    };
    bench.run(work());
    EXPECT_TRUE(checked);
}

TEST_F(JournalTest, closing_writes_what_is_queued) {
    Stage stage;
    {
        Bench bench(file());
        const auto work = [&]() -> awaitable<void> {
            auto produce = stage.saying("x");
            co_await bench->once(key_named("a"), produce);
            bench.journal.reset();
        };
        bench.run(work());
    }
    Bench bench(file());
    EXPECT_TRUE(bench->find(hash_of(key_named("a"))));
}

TEST_F(JournalTest, studies_samples_and_trajectories_are_kept_updated_and_found_by_prefix) {
    StudyRow row;
    row.id = "r0123456789";
    row.kind = "run";
    row.config = "{}";
    row.state = "running";
    {
        Bench bench(file());
        bench.run(bench->put_study(row));
        bench.run(bench->put_sample(row.id, "000010", "{\"n\":10}"));
        bench.run(bench->put_sample(row.id, "000002", "{\"n\":2}"));
        bench.run(bench->put_sample(row.id, "000010", "{\"n\":11}"));
        row.state = "stopped";
        row.note = "interrupted";
        bench.run(bench->put_study(row));
        StudyRow other;
        other.id = "r0199999999";
        other.kind = "intervene";
        other.created_ms = 1;
        bench.run(bench->put_study(other));
        bench.run(bench->put_trajectory("t1", "{\"a\":1}"));
        bench.run(bench->put_trajectory("t12", "{\"a\":12}"));
        bench.run(bench->put_trajectory("t1", "{\"a\":2}"));
    }
    Bench bench(file(), Bench::reading());
    ASSERT_TRUE(bench.journal) << bench.error;
    const auto found = bench->study("r0123");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->state, "stopped");
    EXPECT_EQ(found->note, "interrupted");
    EXPECT_EQ(found->kind, "run");
    EXPECT_GT(found->created_ms, 1'600'000'000'000);
    EXPECT_FALSE(bench->study("r01")) << "two begin so";
    EXPECT_FALSE(bench->study("x"));
    EXPECT_FALSE(bench->study(""));
    const auto studies = bench->studies();
    ASSERT_EQ(studies.size(), 2U);
    EXPECT_EQ(studies[0].id, "r0199999999") << "oldest first";
    const auto samples = bench->samples(row.id);
    ASSERT_EQ(samples.size(), 2U);
    EXPECT_EQ(samples[0].first, "000002");
    EXPECT_EQ(samples[1].second, "{\"n\":11}");
    EXPECT_EQ(bench->trajectories(), (std::vector<std::string>{"t1", "t12"}));
    EXPECT_EQ(bench->trajectory("t1"), "{\"a\":2}") << "the whole id wins over a longer one";
    EXPECT_EQ(bench->trajectory("t12"), "{\"a\":12}");
    EXPECT_FALSE(bench->trajectory("t2"));
    EXPECT_TRUE(bench->verify().empty());
    const JournalSummary summary = bench->summary();
    EXPECT_EQ(summary.schema, schema_version);
    EXPECT_EQ(summary.studies, 2);
    EXPECT_EQ(summary.trajectories, 2);
}

TEST_F(JournalTest, a_failed_commit_sticks) {
    Bench bench(file());
    bench.run(bench->put_text("kept"));
    bench->at = [](const char* where) {
        if (std::string_view(where) == "before")
            throw std::runtime_error("planted");
    };
    EXPECT_THROW(bench.run(bench->put_text("lost")), JournalError);
    bench->at = nullptr;
    try {
        bench.run(bench->put_text("later"));
        FAIL() << "it did not stick";
    } catch (const JournalError& error) {
        EXPECT_NE(std::string(error.what()).find("planted"), std::string::npos) << error.what();
    }
    Stage stage;
    EXPECT_THROW(bench.run(bench->once(key_named("a"), stage.saying("x"))), JournalError);
    EXPECT_EQ(stage.runs, 0);
    EXPECT_THROW(bench->find("k"), JournalError);
    EXPECT_THROW((void)bench->text("k"), JournalError);
    EXPECT_THROW(bench->studies(), JournalError);
    EXPECT_THROW(bench->summary(), JournalError);
    bench.journal.reset();
    Bench again(file());
    EXPECT_EQ(again->text(sha256_hex("kept")).value(), "kept");
    EXPECT_FALSE(again->text(sha256_hex("lost")));
    EXPECT_TRUE(again->verify().empty());
}

// Fails the n-th commit for n = 1, 2, ... until a run is clean; whatever was acknowledged before
// must be there.
TEST_F(JournalTest, after_a_fault_at_any_commit_nothing_acknowledged_is_missing) {
    int clean_at = 0;
    for (int n = 1; clean_at == 0 && n < 100; ++n) {
        const std::string path = file(std::to_string(n));
        std::vector<std::string> acknowledged;
        bool faulted = false;
        {
            Bench bench(path);
            int commit = 0;
            bench->at = [&](const char* where) {
                if (std::string_view(where) == "before" && ++commit == n) {
                    faulted = true;
                    throw std::runtime_error("planted");
                }
            };
            Stage stage;
            const std::function<awaitable<void>(std::size_t)> ask =
                [&](std::size_t i) -> awaitable<void> {
                auto produce = stage.saying_after(bench.clock, std::chrono::milliseconds(i % 3),
                                                  std::to_string(i));
                const StageKey key = key_named(std::to_string(i), true);
                const Entry entry = co_await bench->once(key, produce);
                acknowledged.push_back(entry.key);
            };
            try {
                bench.run(for_each_index(12, 3, ask));
                clean_at = n;
            } catch (const JournalError&) {
                EXPECT_TRUE(faulted);
            }
            if (clean_at == n) {
                EXPECT_FALSE(faulted) << "a fault went unnoticed";
                EXPECT_EQ(acknowledged.size(), 12U);
            }
        }
        Bench bench(path);
        for (const std::string& key : acknowledged)
            EXPECT_TRUE(bench->find(key)) << "after a fault at commit " << n;
        EXPECT_TRUE(bench->verify().empty());
    }
    EXPECT_GT(clean_at, 5);
}

TEST_F(JournalTest, in_memory_works_and_forgets) {
    {
        Bench bench(":memory:");
        ASSERT_TRUE(bench.journal) << bench.error;
        Stage stage;
        bench.run(bench->once(key_named("a", true), stage.saying("x")));
        EXPECT_TRUE(bench.run(bench->once(key_named("a", true), stage.saying("y"))).reused);
        EXPECT_EQ(bench->summary().entries, 1);
        EXPECT_EQ(bench->ledger().at(0).state, "answered");
        EXPECT_TRUE(bench->find(hash_of(key_named("a", true))));
        EXPECT_TRUE(bench->verify().empty());
    }
    Bench bench(":memory:");
    EXPECT_EQ(bench->summary().entries, 0);
    EXPECT_FALSE(fs::exists(":memory:"));
    Bench reader(":memory:", Bench::reading());
    EXPECT_NE(reader.error.find("cannot be opened for reading"), std::string::npos);
}

TEST_F(JournalTest, reading_needs_a_journal_and_writes_nothing) {
    Bench missing(file("none.db"), Bench::reading());
    EXPECT_NE(missing.error.find("there is no such journal"), std::string::npos) << missing.error;
    EXPECT_FALSE(fs::exists(file("none.db")));
    {
        Bench bench(file());
        bench.run(bench->put_text("kept"));
    }
    Bench bench(file(), Bench::reading());
    ASSERT_TRUE(bench.journal) << bench.error;
    EXPECT_EQ(bench->text(sha256_hex("kept")).value(), "kept");
    EXPECT_THROW(bench.run(bench->put_text("new")), JournalError);
    Stage stage;
    EXPECT_THROW(bench.run(bench->once(key_named("a"), stage.saying("x"))), JournalError);
    EXPECT_EQ(stage.runs, 0);
}

TEST_F(JournalTest, one_writer_many_readers) {
    Bench writer(file());
    ASSERT_TRUE(writer.journal) << writer.error;
    writer.run(writer->put_text("one"));
    Bench second(file());
    EXPECT_FALSE(second.journal);
    EXPECT_NE(second.error.find("another loopscope is writing"), std::string::npos) << second.error;
    EXPECT_NE(second.error.find(std::to_string(getpid())), std::string::npos) << second.error;
    Bench reader(file(), Bench::reading());
    ASSERT_TRUE(reader.journal) << reader.error;
    EXPECT_TRUE(reader->text(sha256_hex("one")));
    writer.run(writer->put_text("two"));
    EXPECT_TRUE(reader->text(sha256_hex("two"))) << "a reader sees what came after its opening";
    writer.journal.reset();
    Bench third(file());
    EXPECT_TRUE(third.journal) << third.error;
    third.journal.reset();
    EXPECT_FALSE(fs::exists(file() + "-lock")) << "closing leaves nothing beside the file";
}

TEST_F(JournalTest, what_is_not_a_journal_is_refused_and_left_as_it_was) {
    const auto refused = [&](const std::string& path, const std::string& with) {
        for (const bool reading : {false, true}) {
            Bench bench(path, reading ? Bench::reading() : Bench::fast());
            EXPECT_FALSE(bench.journal);
            EXPECT_NE(bench.error.find(with), std::string::npos) << bench.error;
            EXPECT_EQ(bench.error.find(path), 0U) << "names the file first: " << bench.error;
        }
    };
    std::ofstream(file("text")) << "def attend(q, k, v):\n";
    refused(file("text"), "not an SQLite database");
    EXPECT_EQ(fs::file_size(file("text")), 21U);

    change(file("foreign"), "CREATE TABLE songs(title TEXT)");
    refused(file("foreign"), "of another program");

    std::ofstream(file("torn"), std::ios::binary)
        << std::string("SQLite format 3\0", 16) << std::string(4000, 'z');
    refused(file("torn"), "not a journal");

    fs::create_directory(file("folder"));
    refused(file("folder"), "not a file");

    Bench nowhere(file("none/j.db"));
    EXPECT_NE(nowhere.error.find("its folder does not exist"), std::string::npos) << nowhere.error;

    for (const auto& entry : fs::directory_iterator(folder_))
        EXPECT_FALSE(entry.path().string().ends_with("-lock")) << entry.path();
}

TEST_F(JournalTest, a_newer_schema_is_refused_with_both_numbers) {
    {
        const Bench bench(file());
    }
    change(file(), "PRAGMA user_version = 7");
    for (const bool reading : {false, true}) {
        Bench bench(file(), reading ? Bench::reading() : Bench::fast());
        EXPECT_FALSE(bench.journal);
        EXPECT_NE(bench.error.find("its schema is 7"), std::string::npos) << bench.error;
        EXPECT_NE(bench.error.find("up to 1"), std::string::npos) << bench.error;
    }
}

// Runs `work` in a child that is nobody, since root may write anywhere. Returns what it says.
std::string as_nobody(const std::function<std::string()>& work) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    const pid_t child = fork();
    if (child == 0) {
        std::string text = "cannot become another user";
        if (setgid(65534) == 0 && setuid(65534) == 0)
            text = work();
        const ssize_t written = write(ends[1], text.data(), text.size());
        _exit(written < 0 ? 1 : 0);
    }
    close(ends[1]);
    std::string text;
    std::array<char, 4096> buffer{};
    for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;)
        text.append(buffer.data(), static_cast<std::size_t>(n));
    close(ends[0]);
    waitpid(child, nullptr, 0);
    return text;
}

TEST_F(JournalTest, a_read_only_file_or_folder_is_one_clear_error) {
    if (geteuid() != 0)
        GTEST_SKIP() << "needs root, to become a user who may not write";
    {
        Bench bench(file());
        bench.run(bench->put_text("kept"));
    }
    const auto open_both = [&] {
        const Bench writer(file());
        const Bench reader(file(), Bench::reading());
        const bool reads = reader.journal && reader->text(sha256_hex("kept")).has_value();
        return writer.error + "\n" + (reads ? "reads" : reader.error);
    };
    fs::permissions(folder_, fs::perms(0777));
    fs::permissions(file(), fs::perms(0444));
    std::string said = as_nobody(open_both);
    EXPECT_NE(said.find("the file may only be read"), std::string::npos) << said;
    EXPECT_NE(said.find("\nreads"), std::string::npos) << said;

    fs::permissions(folder_, fs::perms(0755));
    said = as_nobody(open_both);
    EXPECT_NE(said.find("its folder may only be read"), std::string::npos) << said;
    EXPECT_NE(said.find("\nreads"), std::string::npos) << said;

    {
        Bench alive(file());
        said = as_nobody(open_both);
        EXPECT_NE(said.find("\nreads"), std::string::npos) << "beside a live writer: " << said;
        fs::create_directory(file("left"));
        fs::copy_file(file(), file("left/j.db"));
        fs::copy_file(file() + "-wal", file("left/j.db-wal"));
    }
    said = as_nobody([&] { return Bench(file("left/j.db"), Bench::reading()).error; });
    EXPECT_NE(said.find("copy both files"), std::string::npos) << said;

    fs::permissions(file(), fs::perms(0000));
    said = as_nobody([&] { return Bench(file(), Bench::reading()).error; });
    EXPECT_NE(said.find("may not be read"), std::string::npos) << said;
}

// A file system of its own, or nothing where mounting is not permitted.
class SmallDisk {
public:
    SmallDisk(std::string where, const char* size) : where_(std::move(where)) {
        fs::create_directory(where_);
        const std::string options = std::string("size=") + size;
        mounted_ = mount("tmpfs", where_.c_str(), "tmpfs", 0, options.c_str()) == 0;
    }
    ~SmallDisk() {
        if (mounted_)
            umount(where_.c_str());
    }
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;
    bool mounted() const { return mounted_; }
    bool make_read_only() const {
        return mount(nullptr, where_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0;
    }

private:
    std::string where_;
    bool mounted_ = false;
};

TEST_F(JournalTest, a_full_disk_is_one_clear_error_and_loses_nothing_acknowledged) {
    const SmallDisk disk(file("disk"), "512k");
    if (!disk.mounted())
        GTEST_SKIP() << "mounting a tmpfs is not permitted here";
    const std::string path = file("disk/j.db");
    std::vector<std::string> acknowledged;
    std::string said;
    {
        Bench bench(path);
        ASSERT_TRUE(bench.journal) << bench.error;
        Rng rng(1);
        try {
            for (int i = 0; i < 1000; ++i) {
                std::string noise(8000, '\0');
                for (char& c : noise)
                    c = static_cast<char>(rng.below(256));
                acknowledged.push_back(bench.run(bench->put_text(noise)));
            }
        } catch (const JournalError& error) {
            said = error.what();
        }
        EXPECT_NE(said.find("the disk is full"), std::string::npos) << said;
        EXPECT_GT(acknowledged.size(), 5U);
        EXPECT_THROW(bench.run(bench->put_text("small")), JournalError) << "it must stick";
    }
    Bench reader(path, Bench::reading());
    ASSERT_TRUE(reader.journal) << reader.error;
    for (const std::string& hash : acknowledged)
        EXPECT_TRUE(reader->text(hash));
    EXPECT_TRUE(reader->verify().empty());
}

TEST_F(JournalTest, a_disk_that_is_full_already_cannot_take_a_journal) {
    const SmallDisk disk(file("disk"), "16k");
    if (!disk.mounted())
        GTEST_SKIP() << "mounting a tmpfs is not permitted here";
    std::ofstream(file("disk/ballast")) << std::string(12'000, 'x') << std::flush;
    const Bench bench(file("disk/j.db"));
    EXPECT_FALSE(bench.journal);
    EXPECT_NE(bench.error.find("the disk is full"), std::string::npos) << bench.error;
}

TEST_F(JournalTest, a_read_only_disk_can_be_read) {
    const SmallDisk disk(file("disk"), "4m");
    if (!disk.mounted())
        GTEST_SKIP() << "mounting a tmpfs is not permitted here";
    {
        Bench bench(file("disk/j #1?.db"));
        ASSERT_TRUE(bench.journal) << bench.error;
        bench.run(bench->put_text("kept"));
    }
    ASSERT_TRUE(disk.make_read_only());
    const Bench writer(file("disk/j #1?.db"));
    EXPECT_NE(writer.error.find("may only be read"), std::string::npos) << writer.error;
    Bench reader(file("disk/j #1?.db"), Bench::reading());
    ASSERT_TRUE(reader.journal) << reader.error;
    EXPECT_EQ(reader->text(sha256_hex("kept")).value(), "kept");
    EXPECT_TRUE(reader->verify().empty());
}

// Opening a reader must not drop the locks that the writer of this process holds: a foreign program
// that closes the file would then take itself for the last one and remove the log that is still
// written to.
TEST_F(JournalTest, a_shell_that_comes_and_goes_costs_no_row) {
    Bench bench(file());
    bench.run(bench->put_text("one"));
    {
        const Bench reader(file(), Bench::reading());
    }
    const auto shell = [&]() -> awaitable<Result<Exit>> {
        Command command;
        command.argv = {"sqlite3", file(), "UPDATE study SET note = ''; SELECT COUNT(*) FROM blob"};
        command.environment = {"PATH=/usr/local/bin:/usr/bin:/bin"};
        co_return co_await run_child(std::move(command));
    };
    asio::io_context real(1);
    std::optional<Result<Exit>> exit;
    asio::co_spawn(real, shell(),
                   [&](const std::exception_ptr&, Result<Exit> e) { exit = std::move(e); });
    real.run();
    ASSERT_TRUE(exit);
    if (!*exit)
        GTEST_SKIP() << "the sqlite3 shell is not installed: " << to_text(exit->error());
    EXPECT_EQ((*exit)->out, "1\n") << (*exit)->err;
    EXPECT_TRUE(fs::exists(file() + "-wal")) << "the shell removed the log under the writer";
    bench.run(bench->put_text("two"));
    const Bench reader(file(), Bench::reading());
    EXPECT_TRUE(reader->text(sha256_hex("one")));
    EXPECT_TRUE(reader->text(sha256_hex("two")));
}

TEST_F(JournalTest, a_foreign_lock_on_the_database_is_one_clear_error) {
    Bench bench(file());
    sqlite3* shell = nullptr;
    ASSERT_EQ(sqlite3_open(file().c_str(), &shell), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(shell, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
    std::thread lets_go([shell] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        sqlite3_exec(shell, "ROLLBACK", nullptr, nullptr, nullptr);
    });
    EXPECT_NO_THROW(bench.run(bench->put_text("waits a while")));
    lets_go.join();
    ASSERT_EQ(sqlite3_exec(shell, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
    try {
        bench.run(bench->put_text("gives up"));
        ADD_FAILURE() << "committed through another's lock";
    } catch (const JournalError& error) {
        EXPECT_NE(std::string(error.what()).find("locked by another program"), std::string::npos)
            << error.what();
    }
    sqlite3_close(shell);
}

class VerifyTest : public JournalTest {
protected:
    VerifyTest() {
        Bench bench(file());
        Stage stage;
        StudyRow study;
        study.id = "r1";
        bench.run(bench->once(key_named("a", true), stage.saying("short")));
        bench.run(bench->once(key_named("b"), stage.saying(std::string(9000, 'l'))));
        bench.run(bench->put_study(study));
        bench.run(bench->put_sample("r1", "0", "{}"));
        bench.run(bench->put_trajectory("t1", "{\"t\":1}"));
        EXPECT_TRUE(bench->verify().empty());
    }
    std::vector<std::string> faults() {
        Bench bench(file(), Bench::reading());
        EXPECT_TRUE(bench.journal) << bench.error;
        return bench->verify();
    }
    std::string hash(const std::string& text) { return sha256_hex(text); }
};

TEST_F(VerifyTest, finds_a_flipped_byte_in_a_blob_and_nobody_is_given_it) {
    // In the file itself, as a failing disk would.
    std::fstream bytes(file(), std::ios::in | std::ios::out | std::ios::binary);
    std::string all((std::istreambuf_iterator<char>(bytes)), std::istreambuf_iterator<char>());
    const std::size_t place = all.find("short");
    ASSERT_NE(place, std::string::npos);
    bytes.clear();
    bytes.seekp(static_cast<std::streamoff>(place));
    bytes << "shorT" << std::flush;
    bytes.close();
    EXPECT_NE(only_fault(faults()).find(hash("short")), std::string::npos);
    Bench bench(file());
    EXPECT_THROW(bench->find(hash_of(key_named("a", true))), JournalError);
    EXPECT_FALSE(bench->text(hash("short")));
    Stage stage;
    EXPECT_THROW(bench.run(bench->once(key_named("a", true), stage.saying("x"))), JournalError);
    EXPECT_EQ(stage.runs, 0) << "a damaged answer must not be paid for again in silence";
}

TEST_F(VerifyTest, finds_a_flipped_byte_in_a_compressed_blob) {
    const std::string long_hash = hash(std::string(9000, 'l'));
    change(file(),
           "UPDATE blob SET bytes = CAST(substr(bytes, 1, 12) || x'55' || substr(bytes, 14) "
           "AS BLOB) WHERE hash = '" +
               long_hash + "'");
    EXPECT_NE(only_fault(faults()).find(long_hash), std::string::npos);
}

TEST_F(VerifyTest, finds_a_size_that_lies) {
    const std::string long_hash = hash(std::string(9000, 'l'));
    change(file(), "UPDATE blob SET size = 99999999999 WHERE hash = '" + long_hash + "'");
    EXPECT_NE(only_fault(faults()).find(long_hash), std::string::npos);
    change(file(), "UPDATE blob SET size = 9000 WHERE hash = '" + long_hash + "'");
    change(file(), "UPDATE blob SET size = 4 WHERE hash = '" + hash("short") + "'");
    EXPECT_NE(only_fault(faults()).find("its size is 5"), std::string::npos);
}

TEST_F(VerifyTest, finds_dangling_references) {
    change(file(), "DELETE FROM blob WHERE hash = '" + hash("short") + "'");
    EXPECT_NE(only_fault(faults()).find("its result is not stored"), std::string::npos);
    Bench bench(file());
    EXPECT_THROW(bench->find(hash_of(key_named("a", true))), JournalError);
}

TEST_F(VerifyTest, finds_a_lost_entry_of_an_answered_call) {
    change(file(), "DELETE FROM entry WHERE stage = 'model'");
    EXPECT_NE(only_fault(faults()).find("its entry is not stored"), std::string::npos);
}

TEST_F(VerifyTest, finds_an_entry_under_a_wrong_key) {
    change(file(), "UPDATE entry SET draw = '1/0/1' WHERE stage = 'build'");
    EXPECT_NE(only_fault(faults()).find("its key is not the hash"), std::string::npos);
}

TEST_F(VerifyTest, finds_a_sample_without_its_study_and_one_that_is_not_json) {
    change(file(), "UPDATE sample SET study = 'r2'");
    EXPECT_NE(only_fault(faults()).find("its study is not stored"), std::string::npos);
    change(file(), "UPDATE sample SET study = 'r1', document = '{'");
    EXPECT_NE(only_fault(faults()).find("is not JSON"), std::string::npos);
}

TEST_F(VerifyTest, finds_a_damaged_page) {
    std::fstream bytes(file(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(4096 + 3);
    bytes << std::string(64, '\x77') << std::flush;
    bytes.close();
    EXPECT_FALSE(faults().empty());
}

TEST_F(JournalTest, lines_in_flight_when_a_process_died_are_counted) {
    {
        Bench bench(file());
        // Never answered: the loop is left while it waits, as by a crash.
        const auto produce = [&]() -> awaitable<Produced> {
            co_await bench.clock.sleep(std::chrono::hours(1));
            co_return answer("x");
        };
        asio::co_spawn(bench.io, bench->once(key_named("a", true), produce),
                       [](const std::exception_ptr&, const Entry&) {});
        bench.io.poll();
        EXPECT_EQ(bench->ledger().at(0).state, "in_flight");
        EXPECT_EQ(bench->summary().calls_in_flight_at_a_crash, 0);
        EXPECT_EQ(bench->summary().calls_of_unknown_cost, 0);
    }
    Bench bench(file());
    EXPECT_EQ(bench->summary().calls_in_flight_at_a_crash, 1);
    EXPECT_EQ(bench->summary().calls_of_unknown_cost, 1);
    EXPECT_TRUE(bench->verify().empty());
    Stage stage;
    EXPECT_EQ(bench.run(bench->once(key_named("a", true), stage.saying("x"))).result, "x");
    EXPECT_EQ(bench->summary().calls_in_flight_at_a_crash, 1) << "it stays in the bill";
    EXPECT_EQ(bench->summary().calls_answered, 1);
}

// The production arrangement: commits on a thread of their own, real time.
TEST_F(JournalTest, with_a_disk_thread) {
    asio::io_context io(1);
    asio::thread_pool disk(1);
    RealClock clock;
    auto opened =
        Journal::open(file(), io.get_executor(), disk.get_executor(), clock, Bench::fast());
    ASSERT_TRUE(opened) << to_text(opened.error());
    Journal& journal = **opened;
    Stage stage;
    int wrong = 0;
    const std::function<awaitable<void>(std::size_t)> ask = [&](std::size_t i) -> awaitable<void> {
        const std::string name = std::to_string(i % 300);
        auto produce = stage.saying_after(clock, std::chrono::milliseconds(i % 3), name);
        const Entry entry = co_await journal.once(key_named(name, i % 2 == 0), produce);
        wrong += entry.result == name ? 0 : 1;
        wrong += journal.find(entry.key)->result == name ? 0 : 1;
        if (i % 50 == 0)
            wrong += journal.summary().entries > 0 ? 0 : 1;
    };
    std::exception_ptr thrown;
    asio::co_spawn(io, for_each_index(600, 20, ask),
                   [&](const std::exception_ptr& e) { thrown = e; });
    io.run();
    EXPECT_FALSE(thrown);
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(stage.runs, 300);
    EXPECT_EQ(journal.summary().entries, 300);
    EXPECT_TRUE(journal.verify().empty());
}

TEST(CompressTest, what_is_no_whole_frame_is_refused) {
    Compressor compressor;
    const std::string raw(5000, 'a');
    const std::string frame = compressor.compress(raw).value();
    EXPECT_LT(frame.size(), 100U);
    EXPECT_EQ(decompress(frame, raw.size()), raw);
    EXPECT_FALSE(decompress(frame, raw.size() + 1));
    EXPECT_FALSE(decompress(frame.substr(0, frame.size() - 1), raw.size()));
    EXPECT_FALSE(decompress("", 10));
    EXPECT_FALSE(decompress("not zstd at all", 10));
    EXPECT_FALSE(compressor.compress(std::string(compress_above_bytes, 'a')));
}

}  // namespace
}  // namespace loopscope
// NOLINTEND(bugprone-unchecked-optional-access)
// NOLINTEND(cppcoreguidelines-avoid-capturing-lambda-coroutines)
