// Child processes, texts, files, hashes, random numbers and slots.
#include "core/async.h"
#include "core/child.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/rng.h"
#include "core/text.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace loopscope {
namespace {

Result<Exit> run(Command command) {
    asio::io_context loop(1);
    Result<Exit> outcome = fail("test", "never ran");
    asio::co_spawn(loop, run_child(std::move(command)),
                   [&](const std::exception_ptr& error, Result<Exit> result) {
                       ASSERT_FALSE(error);
                       outcome = std::move(result);
                   });
    loop.run();
    return outcome;
}

Command shell(std::string script) {
    Command command;
    command.argv = {"/bin/sh", "-c", std::move(script)};
    command.environment = {"PATH=/usr/bin:/bin"};
    return command;
}

TEST(child, keeps_output_and_exit_status_apart) {
    const auto exit = run(shell("echo out; echo err >&2; exit 3"));
    ASSERT_TRUE(exit);
    EXPECT_EQ(exit->kind, Exit::Kind::exited);
    EXPECT_EQ(exit->code, 3);
    EXPECT_EQ(exit->out, "out\n");
    EXPECT_EQ(exit->err, "err\n");
    EXPECT_EQ(describe(*exit), "exit status 3");
}

TEST(child, gets_input_and_only_the_environment_it_is_given) {
    ::setenv("LOOPSCOPE_TEST_SECRET", "secret", 1);
    Command command = shell("cat; env");
    command.input = std::string(1'000'000, 'x');
    command.max_output = 2'000'000;
    const auto exit = run(std::move(command));
    ::unsetenv("LOOPSCOPE_TEST_SECRET");
    ASSERT_TRUE(exit);
    EXPECT_EQ(exit->out.find_first_not_of('x'), 1'000'000U);
    EXPECT_EQ(exit->out.find("LOOPSCOPE_TEST_SECRET"), std::string::npos);
}

TEST(child, ends_at_its_deadline_with_everything_it_started) {
    Command command = shell("sleep 100 & echo $!; sleep 100");
    command.deadline = std::chrono::milliseconds(300);
    const auto exit = run(std::move(command));
    ASSERT_TRUE(exit);
    EXPECT_EQ(exit->kind, Exit::Kind::timed_out);
    EXPECT_LT(exit->wall_seconds, 30);
    const pid_t grandchild = std::stoi(exit->out);
    for (int i = 0; i < 100 && ::kill(grandchild, 0) == 0;
         ++i) {  // a dead one may wait a moment for its reaper
        std::ifstream stat("/proc/" + std::to_string(grandchild) + "/stat");
        std::string id, name, state;
        if (stat >> id >> name >> state && state == "Z")
            break;
        ::usleep(20'000);
        ASSERT_LT(i, 99) << "the grandchild is alive";
    }
}

TEST(child, is_not_waited_for_by_a_pipe_that_a_runaway_holds) {
    const auto exit = run(shell("setsid sleep 5 & echo done"));
    ASSERT_TRUE(exit);
    EXPECT_EQ(exit->kind, Exit::Kind::exited);
    EXPECT_EQ(exit->out, "done\n");
    EXPECT_LT(exit->wall_seconds, 4);
}

TEST(child, output_is_bounded_and_says_so) {
    Command command = shell("head -c 1000000 /dev/zero");
    command.max_output = 1000;
    const auto exit = run(std::move(command));
    ASSERT_TRUE(exit);
    EXPECT_EQ(exit->out.size(), 1000U);
    EXPECT_TRUE(exit->cut);
}

TEST(child, a_missing_program_is_named) {
    Command command;
    command.argv = {"/no/such/program"};
    const auto exit = run(std::move(command));
    ASSERT_FALSE(exit);
    EXPECT_EQ(exit.error().where, "/no/such/program");
}

TEST(child, passes_descriptors_whose_numbers_cross) {
    int first[2];
    int second[2];
    ASSERT_EQ(::pipe(first), 0);
    ASSERT_EQ(::pipe(second), 0);
    ASSERT_EQ(::write(first[1], "first", 5), 5);
    ASSERT_EQ(::write(second[1], "second", 6), 6);
    ::close(first[1]);
    ::close(second[1]);
    Command command = shell("cat <&7; cat <&8");
    command.descriptors = {{first[0], 7}, {second[0], 8}};
    const auto exit = run(std::move(command));
    ::close(first[0]);
    ::close(second[0]);
    ASSERT_TRUE(exit);
    EXPECT_EQ(exit->out, "firstsecond");
}

TEST(child, cancellation_kills_it) {
    asio::io_context loop(1);
    asio::cancellation_signal stop;
    bool thrown = false;
    Command command = shell("sleep 100");
    asio::co_spawn(loop, run_child(std::move(command)),
                   asio::bind_cancellation_slot(
                       stop.slot(), [&](const std::exception_ptr& error, const Result<Exit>&) {
                           thrown = static_cast<bool>(error);
                       }));
    asio::steady_timer timer(loop, std::chrono::milliseconds(100));
    timer.async_wait([&](const error_code&) { stop.emit(asio::cancellation_type::terminal); });
    const auto started = std::chrono::steady_clock::now();
    loop.run();
    EXPECT_TRUE(thrown);
    EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(50));
}

TEST(limiter, never_gives_more_slots_than_it_has) {
    asio::io_context loop(1);
    Limiter limiter(loop.get_executor(), 2);
    int inside = 0;
    int most = 0;
    int finished = 0;
    auto one = [&](std::size_t) -> awaitable<void> {
        const Permit permit = co_await limiter.acquire();
        most = std::max(most, ++inside);
        asio::steady_timer timer(loop, std::chrono::milliseconds(1));
        co_await timer.async_wait(asio::use_awaitable);
        --inside;
        ++finished;
    };
    const std::function<awaitable<void>(std::size_t)> work = one;
    asio::co_spawn(loop, for_each_index(20, 10, work),
                   [](const std::exception_ptr& e) { ASSERT_FALSE(e); });
    loop.run();
    EXPECT_EQ(most, 2);
    EXPECT_EQ(finished, 20);
}

TEST(for_each_index, rethrows_the_first_failure) {
    asio::io_context loop(1);
    std::string message;
    const std::function<awaitable<void>(std::size_t)> work = [](std::size_t i) -> awaitable<void> {
        if (i == 3)
            throw std::runtime_error("three");
        co_return;
    };
    asio::co_spawn(loop, for_each_index(10, 4, work), [&](const std::exception_ptr& error) {
        try {
            if (error)
                std::rethrow_exception(error);
        } catch (const std::exception& caught) {
            message = caught.what();
        }
    });
    loop.run();
    EXPECT_EQ(message, "three");
}

TEST(hash, matches_the_published_vectors) {  // FIPS 180-2, appendix B
    EXPECT_EQ(sha256_hex("abc"),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(rng, forks_do_not_depend_on_what_was_drawn) {
    Rng a(7);
    Rng b(7);
    for (int i = 0; i < 5; ++i)
        b.next();
    EXPECT_EQ(a.fork("x", {1}).next(), b.fork("x", {1}).next());
    EXPECT_NE(a.fork("x", {1}).next(), a.fork("x", {2}).next());
    EXPECT_NE(a.fork("x").next(), a.fork("y").next());
    double sum = 0;
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 4000; ++i) {
        sum += a.unit();
        seen.insert(a.below(3));
    }
    EXPECT_NEAR(sum / 4000, 0.5, 0.03);
    EXPECT_EQ(seen, (std::set<std::uint64_t>{0, 1, 2}));
}

TEST(text, splits_trims_and_shortens) {
    EXPECT_EQ(split_lines("a\r\nb\n\nc"), (std::vector<std::string>{"a", "b", "", "c"}));
    EXPECT_EQ(trim(" \n a b \t"), "a b");
    EXPECT_TRUE(starts_with_word("for (", "for"));
    EXPECT_FALSE(starts_with_word("format", "for"));
    EXPECT_EQ(nearest("tolerence", {"name", "tolerance", "baseline"}), "tolerance");
    EXPECT_EQ(nearest("zzz", {"name", "tolerance"}), "");
    std::size_t cut = 0;
    EXPECT_EQ(shorten("one\ntwo\nthree", 8, &cut), "one\ntwo\n[6 bytes left out]");
    EXPECT_EQ(cut, 6U);
    EXPECT_EQ(shorten("\xC3\xA4\xC3\xA4", 3), "\xC3\xA4\n[2 bytes left out]");
}

TEST(file, an_error_names_the_file) {
    const auto missing = read_file("/no/such/file");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().where, "/no/such/file");
    const auto folder = read_file("/tmp");
    ASSERT_FALSE(folder);
    EXPECT_EQ(folder.error().what, "is a folder, not a file");
    const auto unwritable = write_file("/no/such/folder/x", "text");
    ASSERT_FALSE(unwritable);
}

TEST(file, a_write_that_fails_leaves_the_old_file) {
    const auto folder =
        std::filesystem::temp_directory_path() / ("loopscope_file_" + std::to_string(::getpid()));
    std::filesystem::create_directory(folder);
    ASSERT_TRUE(write_file(folder / "x", "old"));
    ASSERT_TRUE(write_file(folder / "x", "new"));
    EXPECT_EQ(*read_file(folder / "x"), "new");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
    std::filesystem::remove_all(folder);
}

TEST(log, secrets_are_replaced) {
    redact("sk-very-secret");
    EXPECT_EQ(redacted("key sk-very-secret is wrong: sk-very-secret"), "key *** is wrong: ***");
}

}  // namespace
}  // namespace loopscope
