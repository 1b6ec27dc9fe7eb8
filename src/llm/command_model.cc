// command:PROGRAM ARGS... runs a user's own program for every request (docs/models.md, "A program
// of your own").
#include "core/child.h"
#include "core/log.h"
#include "core/text.h"
#include "llm/command_answer.h"
#include "llm/limits.h"
#include "llm/providers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace loopscope {

namespace {

// What a program of the user's gets of our environment: all but secrets, unless env= names them. A
// variable is taken for a secret by its name, or because a model of this process uses its value as
// a key.
std::vector<std::string> command_environment(const std::vector<std::string>& allowed) {
    static constexpr std::array<std::string_view, 7> secret_names{
        "KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "PASSPHRASE"};
    std::vector<std::string> out;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const std::size_t equals = text.find('=');
        if (equals == std::string_view::npos)
            continue;
        std::string name(text.substr(0, equals));
        const bool asked_for = std::find(allowed.begin(), allowed.end(), name) != allowed.end();
        for (char& c : name)
            if (c >= 'a' && c <= 'z')
                c = static_cast<char>(c - 'a' + 'A');
        const bool secret = std::any_of(
            secret_names.begin(), secret_names.end(),
            [&](std::string_view part) { return name.find(part) != std::string::npos; });
        if (asked_for || (!secret && redacted(text) == text))
            out.emplace_back(text);
    }
    return out;
}

class CommandModel : public Model {
public:
    CommandModel(std::string id, std::vector<std::string> argv,
                 std::vector<std::string> environment, Sampling sampling, std::size_t concurrency,
                 std::chrono::milliseconds deadline, int attempts, const ModelServices& services)
        : id_(std::move(id)),
          argv_(std::move(argv)),
          environment_(std::move(environment)),
          sampling_(std::move(sampling)),
          deadline_(deadline),
          attempts_(attempts),
          clock_(*services.clock),
          slots_(services.loop, concurrency) {}

    std::string id() const override { return id_; }
    Sampling sampling() const override { return sampling_; }

    awaitable<ModelOutcome> complete(ModelRequest request) override {
        const std::string input = command_request(request);
        for (int attempt = 1;; ++attempt) {
            const Clock::Duration start = clock_.now();
            AnswerOr answer = co_await run(input);
            if (answer) {
                ModelReply reply = std::move(answer->reply);
                reply.cost = answer->billed.dollars;
                reply.attempts = attempt;
                reply.latency_seconds = std::chrono::duration<double>(clock_.now() - start).count();
                co_return reply;
            }
            const Fault& fault = answer.error();
            if (!fault.retry || attempt >= attempts_) {
                ModelError error;
                error.fault = fault.fault;
                error.fatal = fault.fatal;
                error.attempts = attempt;
                error.cost = fault.billed.dollars.value_or(0);
                error.message = redacted(fmt::format("{}: {}", id_, fault.message));
                co_return tl::unexpected(std::move(error));
            }
            const std::uint64_t bits = next_jitter_++;
            co_await clock_.sleep(backoff(attempt, bits * 0x9E3779B97F4A7C15ULL));
        }
    }

private:
    awaitable<AnswerOr> run(const std::string& input) {
        const Permit permit = co_await slots_.acquire();
        Command command;
        command.argv = argv_;
        command.environment = environment_;
        command.input = input;
        command.deadline = deadline_;
        command.max_output = std::size_t{64} << 20U;
        const Result<Exit> exit = co_await run_child(std::move(command));
        Fault fault;
        if (!exit) {
            fault.message = to_text(exit.error());
            fault.fatal = true;
            co_return tl::unexpected(std::move(fault));
        }
        if (exit->kind != Exit::Kind::exited || exit->code != 0) {
            const std::string_view err = trim(exit->err);
            const std::string_view tail = err.substr(err.size() > 300 ? err.size() - 300 : 0);
            fault.retry = true;
            fault.message = describe(*exit);
            if (exit->kind == Exit::Kind::timed_out)
                fault.message += "; raise timeout= if it needs longer";
            if (!tail.empty())
                fault.message += "; its standard error ends: " + one_line(tail);
            co_return tl::unexpected(std::move(fault));
        }
        if (exit->cut) {
            fault.fault = ModelFault::answer;
            fault.message = "it printed more than 64 MiB";
            co_return tl::unexpected(std::move(fault));
        }
        co_return parse_command_answer(exit->out);
    }

    const std::string id_;
    const std::vector<std::string> argv_;
    const std::vector<std::string> environment_;
    const Sampling sampling_;
    const std::chrono::milliseconds deadline_;
    const int attempts_;
    Clock& clock_;
    Limiter slots_;
    std::uint64_t next_jitter_ = 1;
};

}  // namespace

Result<std::unique_ptr<Model>> open_command(const Specification& specification,
                                            const ModelServices& services) {
    const Result<void> options =
        check_options(specification, {"temperature", "top_p", "max_tokens", "seed", "effort",
                                      "concurrency", "timeout", "attempts", "env", "as"});
    if (!options)
        return tl::unexpected(options.error());
    Result<std::vector<std::string>> argv = split_words(specification.subject);
    if (!argv)
        return tl::unexpected(argv.error());
    const Result<Sampling> sampling = sampling_options(specification, 2);
    if (!sampling)
        return tl::unexpected(sampling.error());
    const Result<std::int64_t> concurrency =
        integer_option(specification, "concurrency", 4, 1, 1000);
    if (!concurrency)
        return tl::unexpected(concurrency.error());
    const Result<double> timeout = number_option(specification, "timeout", 600, 0.05, 86'400);
    if (!timeout)
        return tl::unexpected(timeout.error());
    const Result<std::int64_t> attempts = integer_option(specification, "attempts", 1, 1, 100);
    if (!attempts)
        return tl::unexpected(attempts.error());
    std::vector<std::string> allowed;
    if (const std::string* names = specification.find("env")) {
        for (std::size_t at = 0; at <= names->size();) {
            const std::size_t end = std::min(names->find('+', at), names->size());
            allowed.push_back(names->substr(at, end - at));
            // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing in this program writes the environment
            const char* const value = std::getenv(allowed.back().c_str());
            if (value == nullptr)
                return fail("model " + specification.text, "env=" + *names +
                                                               ": the environment variable " +
                                                               allowed.back() + " is not set");
            if (value[0] != '\0')
                redact(value);
            at = end + 1;
        }
    }
    const std::string* const as = specification.find("as");
    std::string id = as != nullptr && !as->empty() ? *as : "command:" + specification.subject;
    return std::make_unique<CommandModel>(
        std::move(id), std::move(*argv), command_environment(allowed), *sampling,
        static_cast<std::size_t>(*concurrency),
        std::chrono::milliseconds(static_cast<std::int64_t>(*timeout * 1000)),
        static_cast<int>(*attempts), services);
}

}  // namespace loopscope
