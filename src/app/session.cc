#include "app/session.h"

#include "core/log.h"
#include "evaluate/machine.h"
#include "llm/http.h"
#include "loop/sample.h"
#include "record/codec.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace loopscope {

namespace {

// A recorded journal that `replay:` answers from.
struct Recorded {
    std::unique_ptr<Journal> journal;
    std::map<std::string, std::string> key_at;  // position of a call -> its key
    std::set<std::string> models;
};

class Recordings {
public:
    Recordings(asio::any_io_executor loop, asio::any_io_executor disk, Clock& clock)
        : loop_(std::move(loop)), disk_(std::move(disk)), clock_(clock) {}

    Result<Recorded*> open(const std::string& file) {
        if (const auto found = open_.find(file); found != open_.end())
            return &found->second;
        Journal::Options options;
        options.read_only = true;
        Result<std::unique_ptr<Journal>> journal =
            Journal::open(file, loop_, disk_, clock_, options);
        if (!journal)
            return fail("replay:" + file, to_text(journal.error()));
        Recorded recorded;
        recorded.journal = std::move(*journal);
        for (const StudyRow& study : recorded.journal->studies())
            for (const auto& [position, sample] : recorded.journal->samples(study.id)) {
                const Result<SampleKeys> keys = sample_keys(sample);
                if (!keys)
                    continue;
                for (const SampleKeys::Call& call : keys->calls) {
                    recorded.key_at.emplace(study.kind + "/" + call.position, call.key);
                    recorded.models.insert(call.model);
                }
            }
        return &open_.emplace(file, std::move(recorded)).first->second;
    }

private:
    asio::any_io_executor loop_, disk_;
    Clock& clock_;
    std::map<std::string, Recorded> open_;
};

std::optional<ModelReply> reply_of(Journal& journal, const std::string& key) {
    const std::optional<Entry> entry = journal.find(key);
    if (!entry)
        return std::nullopt;
    Result<ModelReply> reply = decode<ModelReply>(entry->result);
    return reply ? std::optional<ModelReply>(std::move(*reply)) : std::nullopt;
}

std::optional<ModelReply> replayed(Recordings& recordings, const std::string& file,
                                   const ModelRequest& request, bool by_position,
                                   std::string* warning) {
    const Result<Recorded*> recorded = recordings.open(file);
    if (!recorded)
        return std::nullopt;
    Journal& journal = *(*recorded)->journal;
    if (!by_position)
        return reply_of(journal, request.key);
    // Positions of interventions ("c0003/...") and of runs ("00012/...") cannot be confused.
    const std::string kind = request.position.starts_with('c') ? "intervene/" : "run/";
    const auto found = (*recorded)->key_at.find(kind + request.position);
    if (found == (*recorded)->key_at.end())
        return std::nullopt;
    if (found->second != request.key && warning != nullptr)
        *warning = fmt::format("the prompt at {} differs from the recorded one", request.position);
    return reply_of(journal, found->second);
}

std::string what_of(const std::exception_ptr& thrown) {
    try {
        std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
        return error.what();
    } catch (...) {
        return "an unknown exception";
    }
}

// The study's row says how it ended. The journal may be the very thing that failed, so a second
// failure is dropped: the first has been told.
void note_stop(asio::io_context& loop, Journal& journal, const std::string& study,
               const std::string& why) {
    try {
        std::optional<StudyRow> row = journal.study(study);
        if (!row)
            return;
        row->state = "stopped";
        row->note = redacted(why);
        asio::co_spawn(loop, journal.put_study(std::move(*row)), [](const std::exception_ptr&) {});
        loop.run();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): see above
    }
}

Result<void> open_models(const ModelOptions& options, const ModelServices& services,
                         Models& models) {
    const auto one = [&](const std::string& own, std::unique_ptr<Model>& into) -> Result<void> {
        Result<std::unique_ptr<Model>> model =
            open_model(own.empty() ? options.model : own, services);
        if (!model)
            return tl::unexpected<Error>(model.error());
        into = std::move(*model);
        return {};
    };
    for (const auto& [own, into] :
         {std::pair{&options.planner, &models.planner}, std::pair{&options.coder, &models.coder},
          std::pair{&options.summarizer, &models.summarizer}})
        if (const Result<void> opened = one(*own, *into); !opened)
            return opened;
    return {};
}

}  // namespace

int usage_error(const Error& error) {
    log_error(to_text(error));
    return exit_usage;
}

int failure(const Error& error) {
    log_error(to_text(error));
    return exit_failed;
}

int with_journal(const Common& common, bool read_only, const std::function<int(Journal&)>& body) {
    asio::io_context loop(1);
    asio::thread_pool disk(1);
    RealClock clock;
    Journal::Options options;
    options.read_only = read_only;
    Result<std::unique_ptr<Journal>> journal =
        Journal::open(common.journal, loop.get_executor(), disk.get_executor(), clock, options);
    if (!journal)
        return failure(journal.error());
    try {
        return body(**journal);
    } catch (const std::exception& error) {
        return failure(Error{"", error.what()});
    }
}

int with_engine(const Common& common, const ModelOptions& options,
                const std::function<awaitable<int>(Engine&)>& body) {
    asio::io_context loop(1);
    asio::thread_pool disk(1);
    RealClock clock;
    HttpClient http;
    Recordings recordings(loop.get_executor(), disk.get_executor(), clock);

    ModelServices services;
    services.loop = loop.get_executor();
    services.clock = &clock;
    services.http = &http;
    services.price_file = options.price_file;
    services.replay = [&](const std::string& file, const ModelRequest& request, bool by_position,
                          std::string* warning) {
        return replayed(recordings, file, request, by_position, warning);
    };
    services.recorded_models = [&](const std::string& file) -> Result<std::vector<std::string>> {
        const Result<Recorded*> recorded = recordings.open(file);
        if (!recorded)
            return tl::unexpected<Error>(recorded.error());
        return std::vector<std::string>((*recorded)->models.begin(), (*recorded)->models.end());
    };
    Models models;
    if (const Result<void> opened = open_models(options, services, models); !opened)
        return usage_error(opened.error());

    Result<std::unique_ptr<Machine>> machine = open_machine(loop.get_executor());
    if (!machine)
        return failure(machine.error());
    Result<std::unique_ptr<Journal>> journal =
        Journal::open(common.journal, loop.get_executor(), disk.get_executor(), clock, {});
    if (!journal)
        return failure(journal.error());

    Engine engine{loop.get_executor(),      clock, **journal, **machine, std::move(models),
                  Budget(options.max_cost), {},    0,         ""};
    int code = exit_failed;
    bool interrupted = false;
    asio::signal_set signals(loop, SIGINT, SIGTERM);
    asio::cancellation_signal stop;
    signals.async_wait([&](const error_code& error, int) {
        if (error)
            return;
        interrupted = true;
        stop.emit(asio::cancellation_type::terminal);
    });
    std::exception_ptr thrown;
    asio::co_spawn(
        loop, body(engine),
        asio::bind_cancellation_slot(stop.slot(), [&](const std::exception_ptr& error, int result) {
            thrown = error;
            code = result;
            signals.cancel();
        }));
    loop.run();
    if (!engine.study.empty() && (interrupted || thrown)) {
        loop.restart();
        note_stop(loop, **journal, engine.study, interrupted ? "interrupted" : what_of(thrown));
    }
    if (interrupted) {
        log_info(
            "interrupted; what is done is in the journal: run the same command again to go on");
        return exit_interrupted;
    }
    if (!thrown)
        return code;
    return failure(Error{"", what_of(thrown)});
}

}  // namespace loopscope
