#include "store/journal.h"

#include "core/check.h"
#include "core/hash.h"
#include "core/log.h"
#include "store/compress.h"
#include "store/schema.h"
#include "store/writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <filesystem>
#include <system_error>
#include <unordered_map>

namespace loopscope {

namespace {

constexpr std::size_t longest_text = 1'000'000'000;  // SQLite's own limit for one value

std::string key_of(const StageKey& key, const std::string& inputs_hash) {
    const std::string version = std::to_string(key.version);
    std::string text;
    for (const std::string* part : {&key.stage, &version, &inputs_hash, &key.draw})
        text += fmt::format("{}:{},", part->size(), *part);
    return sha256_hex(text);
}

// One for every journal that is opened: a process that opens its journal again after a failure is
// another one.
std::string process_id(Clock& clock) {
    static std::atomic<int> opened{0};
    return fmt::format("{}-{}-{}", getpid(), clock.unix_milliseconds(), ++opened);
}

Usage usage_at(const Query& query, int first) {
    Usage usage;
    usage.known = !query.is_null(first);
    usage.input_tokens = query.integer(first);
    usage.cached_tokens = query.integer(first + 1);
    usage.output_tokens = query.integer(first + 2);
    usage.reasoning_tokens = query.integer(first + 3);
    return usage;
}

// The raw bytes of a blob, or nullopt when what lies in the file is not what was put there.
std::optional<std::string> unpack(std::string_view hash, std::int64_t size, std::string_view coding,
                                  std::string_view bytes) {
    std::optional<std::string> raw;
    if (coding == "zstd" && size >= 0)
        raw = decompress(bytes, static_cast<std::size_t>(size));
    else if (coding == "raw")
        raw = std::string(bytes);
    if (!raw || sha256_hex(*raw) != hash)
        return std::nullopt;
    return raw;
}

std::string damaged(const std::string& path, std::string_view hash) {
    return fmt::format(
        "{}: the stored text {} is damaged; `loopscope journal --verify` lists all faults, a copy "
        "of "
        "the file mends them",
        path, hash);
}

// A run of a stage that is under way in this process.
struct Run {
    explicit Run(const asio::any_io_executor& executor) : end(std::make_shared<Signal>(executor)) {}
    std::shared_ptr<Signal> end;
    // When it has ended: one of them, or neither when it was cancelled.
    std::optional<Entry> entry;
    std::exception_ptr error;
};

// Ends the run however its coroutine ends, also when its frame is destroyed while it waits.
class EndsRun {
public:
    explicit EndsRun(std::shared_ptr<Run> run) : run_(std::move(run)) {}
    ~EndsRun() { run_->end->fire(); }
    EndsRun(const EndsRun&) = delete;
    EndsRun& operator=(const EndsRun&) = delete;

private:
    std::shared_ptr<Run> run_;
};

std::string message_of(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& known) {
        return known.what();
    } catch (...) {
        return "an unknown exception";
    }
}

bool is_cancellation(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const boost::system::system_error& known) {
        return known.code() == asio::error::operation_aborted;
    } catch (...) {
        return false;
    }
}

class SqliteJournal final : public Journal {
public:
    SqliteJournal(std::shared_ptr<Writer> writer, asio::any_io_executor loop, Clock& clock,
                  std::string process)
        : writer_(std::move(writer)),
          loop_(std::move(loop)),
          clock_(clock),
          process_(std::move(process)) {
        writer_->at = &at;
        next_call_ = 1 + read([](Database& database) {
                         return database.integer("SELECT MAX(id) FROM call");
                     });
    }
    ~SqliteJournal() override { writer_->close(); }
    SqliteJournal(const SqliteJournal&) = delete;
    SqliteJournal& operator=(const SqliteJournal&) = delete;

    awaitable<Entry> once(StageKey key, std::function<awaitable<Produced>()> produce) override {
        writer_->check();
        const std::string inputs_hash = sha256_hex(key.inputs);
        const std::string hash = key_of(key, inputs_hash);
        std::shared_ptr<Run> run;
        while (run == nullptr) {
            if (std::optional<Entry> entry = find(hash)) {
                if (key.paid && writer_->queued_entry(hash) != nullptr)
                    co_await writer_->durable();
                co_return std::move(*entry);
            }
            const std::shared_ptr<Run> other = runs_[hash].lock();
            if (other == nullptr || other->end->fired()) {
                writer_->check_writable();
                run = std::make_shared<Run>(loop_);
                runs_[hash] = run;
                break;
            }
            co_await Signal::wait(other->end);
            writer_->check();
            if (other->error)
                std::rethrow_exception(other->error);
            if (const std::optional<Entry>& theirs = other->entry; theirs) {
                Entry shared = *theirs;
                shared.reused = true;
                co_return shared;
            }
        }
        const EndsRun ends(run);

        std::int64_t call = 0;
        Produced produced;
        std::exception_ptr error;
        try {
            if (key.paid) {
                call = next_call_++;
                begin_call(call, hash, key.stage);
                co_await writer_->durable();
            }
            produced = co_await produce();
            check_length(produced.result);
            check_length(key.inputs);
        } catch (...) {
            error = std::current_exception();
        }
        const auto cancellation = co_await asio::this_coro::cancellation_state;
        if (error) {
            runs_.erase(hash);
            // Not awaited: a cancelled coroutine cannot wait, and nothing that was acknowledged
            // depends on it.
            if (key.paid && !failed())
                end_call(call, "failed", Produced(),
                         is_cancellation(error) ? "cancelled" : message_of(error));
            if (cancellation.cancelled() == asio::cancellation_type::none &&
                !is_cancellation(error))
                run->error = error;
            std::rethrow_exception(error);
        }

        Entry entry;
        entry.key = hash;
        entry.kept = produced.keep;
        entry.cost = produced.cost;
        entry.usage = produced.usage;
        if (produced.keep)
            keep(key, hash, inputs_hash, produced);
        if (key.paid)
            end_call(call, produced.keep ? "answered" : "failed", produced, produced.failure);
        if (key.paid)
            co_await writer_->durable();
        else
            co_await writer_->room();
        entry.result = std::move(produced.result);
        run->entry = entry;
        runs_.erase(hash);
        co_return entry;
    }

    std::optional<Entry> find(const std::string& key) override {
        writer_->check();
        Entry entry;
        entry.key = key;
        entry.reused = true;
        if (const EntryRow* queued = writer_->queued_entry(key)) {
            entry.cost = queued->cost;
            entry.usage = queued->usage;
            if (const SharedText text = writer_->queued_text(queued->result))
                entry.result = *text;
            else
                entry.result = stored_text(queued->result);
            return entry;
        }
        return read([&](Database& database) -> std::optional<Entry> {
            Query query = database.query(
                "SELECT entry.cost, input_tokens, cached_tokens, output_tokens, reasoning_tokens, "
                "entry.result, size, coding, bytes "
                "FROM entry LEFT JOIN blob ON blob.hash = entry.result WHERE entry.key = ?1");
            if (!query.bind(1, key).step())
                return std::nullopt;
            entry.cost = query.real(0);
            entry.usage = usage_at(query, 1);
            std::optional<std::string> raw =
                unpack(query.text(5), query.integer(6), query.text(7), query.text(8));
            if (!raw)
                throw JournalError(damaged(writer_->path(), query.text(5)));
            entry.result = std::move(*raw);
            return std::move(entry);
        });
    }

    awaitable<std::string> put_text(std::string text) override {
        check_length(text);
        const std::string hash = add_text(std::move(text));
        co_await writer_->durable();
        co_return hash;
    }

    Result<std::string> text(const std::string& hash) override {
        writer_->check();
        if (const SharedText queued = writer_->queued_text(hash))
            return *queued;
        return read([&](Database& database) -> Result<std::string> {
            Query query = database.query("SELECT size, coding, bytes FROM blob WHERE hash = ?1");
            if (!query.bind(1, hash).step())
                return fail(writer_->path(), "no stored text " + hash);
            std::optional<std::string> raw =
                unpack(hash, query.integer(0), query.text(1), query.text(2));
            if (!raw)
                return fail("", damaged(writer_->path(), hash));
            return std::move(*raw);
        });
    }

    awaitable<void> put_study(StudyRow row) override {
        if (row.created_ms == 0)
            row.created_ms = clock_.unix_milliseconds();
        writer_->add(std::move(row));
        co_await writer_->durable();
    }

    std::optional<StudyRow> study(const std::string& id_or_prefix) override {
        const std::optional<std::string> id = whole_id(
            "SELECT id FROM study WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id != ?1 LIMIT 2",
            id_or_prefix);
        if (!id)
            return std::nullopt;
        return read([&](Database& database) -> std::optional<StudyRow> {
            Query query = database.query(
                "SELECT id, kind, config, state, note, created_ms FROM study WHERE id = ?1");
            if (!query.bind(1, *id).step())
                return std::nullopt;
            return study_at(query);
        });
    }

    std::vector<StudyRow> studies() override {
        writer_->settle();
        return read([](Database& database) {
            std::vector<StudyRow> rows;
            Query query = database.query(
                "SELECT id, kind, config, state, note, created_ms FROM study "
                "ORDER BY created_ms, rowid");
            while (query.step())
                rows.push_back(study_at(query));
            return rows;
        });
    }

    awaitable<void> put_sample(std::string study, std::string position, std::string json) override {
        check_length(json);
        SampleRow row;
        row.study = std::move(study);
        row.position = std::move(position);
        row.document = std::move(json);
        writer_->add(std::move(row));
        co_await writer_->durable();
    }

    std::vector<std::pair<std::string, std::string>> samples(const std::string& study) override {
        writer_->settle();
        return read([&](Database& database) {
            std::vector<std::pair<std::string, std::string>> rows;
            Query query = database.query(
                "SELECT position, document FROM sample WHERE study = ?1 ORDER BY position");
            query.bind(1, study);
            while (query.step())
                rows.emplace_back(query.text(0), query.text(1));
            return rows;
        });
    }

    awaitable<void> put_trajectory(std::string id, std::string json) override {
        check_length(json);
        TrajectoryRow row;
        row.id = std::move(id);
        row.document = add_text(std::move(json));
        row.created_ms = clock_.unix_milliseconds();
        writer_->add(std::move(row));
        co_await writer_->durable();
    }

    std::optional<std::string> trajectory(const std::string& id_or_prefix) override {
        const std::optional<std::string> id = whole_id(
            "SELECT id FROM trajectory WHERE substr(id, 1, length(?1)) = ?1 "
            "ORDER BY id != ?1 LIMIT 2",
            id_or_prefix);
        if (!id)
            return std::nullopt;
        const std::string hash = read([&](Database& database) {
            Query query = database.query("SELECT document FROM trajectory WHERE id = ?1");
            query.bind(1, *id).step();
            return std::string(query.text(0));
        });
        return stored_text(hash);
    }

    std::vector<std::string> trajectories() override {
        writer_->settle();
        return read([](Database& database) {
            std::vector<std::string> ids;
            Query query = database.query("SELECT id FROM trajectory ORDER BY created_ms, rowid");
            while (query.step())
                ids.emplace_back(query.text(0));
            return ids;
        });
    }

    std::vector<LedgerLine> ledger() override {
        writer_->settle();
        return read([](Database& database) {
            std::vector<LedgerLine> lines;
            Query query = database.query(
                "SELECT id, key, stage, state, started_ms, ended_ms, cost, input_tokens, "
                "cached_tokens, output_tokens, reasoning_tokens, process, failure "
                "FROM call ORDER BY id");
            while (query.step()) {
                LedgerLine line;
                line.id = query.integer(0);
                line.key = query.text(1);
                line.stage = query.text(2);
                line.state = query.text(3);
                line.started_ms = query.integer(4);
                line.ended_ms = query.integer(5);
                line.cost = query.real(6);
                line.usage = usage_at(query, 7);
                line.process = query.text(11);
                line.failure = query.text(12);
                lines.push_back(std::move(line));
            }
            return lines;
        });
    }

    JournalSummary summary() override;
    std::vector<std::string> verify() override;

private:
    static StudyRow study_at(const Query& query) {
        StudyRow row;
        row.id = query.text(0);
        row.kind = query.text(1);
        row.config = query.text(2);
        row.state = query.text(3);
        row.note = query.text(4);
        row.created_ms = query.integer(5);
        return row;
    }

    template <class F>
    auto read(F with) -> decltype(with(std::declval<Database&>())) {
        const Writer::Access access = writer_->read();
        try {
            return with(access.database);
        } catch (const DatabaseError& error) {
            throw JournalError(explain(error, writer_->path()));
        }
    }

    bool failed() const {
        try {
            writer_->check();
            return false;
        } catch (const JournalError&) {
            return true;
        }
    }

    // The id itself, or the only one that begins so. `sql` gives up to two of them, an exact one
    // first.
    std::optional<std::string> whole_id(const char* sql, const std::string& id_or_prefix) {
        writer_->settle();
        if (id_or_prefix.empty())
            return std::nullopt;
        return read([&](Database& database) -> std::optional<std::string> {
            Query query = database.query(sql);
            if (!query.bind(1, id_or_prefix).step())
                return std::nullopt;
            std::string id(query.text(0));
            if (id != id_or_prefix && query.step())
                return std::nullopt;
            return id;
        });
    }

    void check_length(const std::string& text) const {
        if (text.size() > longest_text)
            throw JournalError(
                fmt::format("{}: a text of {} bytes is too long to keep (at most {})",
                            writer_->path(), text.size(), longest_text));
    }

    std::string add_text(std::string text) {
        BlobRow row;
        row.hash = sha256_hex(text);
        row.text = std::make_shared<const std::string>(std::move(text));
        std::string hash = row.hash;
        writer_->add(std::move(row));
        return hash;
    }

    // A text that something in the journal refers to.
    std::string stored_text(const std::string& hash) {
        Result<std::string> found = text(hash);
        if (!found)
            throw JournalError(to_text(found.error()));
        return std::move(*found);
    }

    void begin_call(std::int64_t id, const std::string& key, const std::string& stage) {
        CallStart row;
        row.id = id;
        row.key = key;
        row.stage = stage;
        row.started_ms = clock_.unix_milliseconds();
        row.process = process_;
        writer_->add(std::move(row));
    }

    void end_call(std::int64_t id, const char* state, const Produced& produced,
                  const std::string& failure) {
        CallEnd row;
        row.id = id;
        row.state = state;
        row.ended_ms = clock_.unix_milliseconds();
        row.cost = produced.cost;
        row.usage = produced.usage;
        row.failure = redacted(failure);
        writer_->add(std::move(row));
    }

    // Inputs, result and entry lie in one batch: nothing is awaited in between.
    void keep(const StageKey& key, const std::string& hash, const std::string& inputs_hash,
              const Produced& produced) {
        BlobRow inputs;
        inputs.hash = inputs_hash;
        inputs.text = std::make_shared<const std::string>(key.inputs);
        writer_->add(std::move(inputs));
        EntryRow row;
        row.key = hash;
        row.stage = key.stage;
        row.version = key.version;
        row.inputs = inputs_hash;
        row.draw = key.draw;
        row.result = add_text(produced.result);
        row.cost = produced.cost;
        row.usage = produced.usage;
        row.created_ms = clock_.unix_milliseconds();
        writer_->add(std::move(row));
    }

    std::shared_ptr<Writer> writer_;
    asio::any_io_executor loop_;
    Clock& clock_;
    std::string process_;
    std::int64_t next_call_ = 1;
    std::unordered_map<std::string, std::weak_ptr<Run>> runs_;
};

JournalSummary SqliteJournal::summary() {
    writer_->settle();
    const std::optional<std::string> holder =
        writer_->in_memory() ? std::nullopt : lock_holder(writer_->path());
    return read([&](Database& database) {
        JournalSummary summary;
        summary.path = writer_->path();
        summary.schema = static_cast<int>(database.integer("PRAGMA user_version"));
        if (writer_->in_memory()) {
            summary.bytes =
                database.integer("PRAGMA page_count") * database.integer("PRAGMA page_size");
        } else {
            for (const char* end : {"", "-wal"}) {
                std::error_code error;
                const auto bytes = std::filesystem::file_size(writer_->path() + end, error);
                summary.bytes += error ? 0 : static_cast<std::int64_t>(bytes);
            }
        }
        summary.blobs = database.integer("SELECT COUNT(*) FROM blob");
        summary.studies = database.integer("SELECT COUNT(*) FROM study");
        summary.trajectories = database.integer("SELECT COUNT(*) FROM trajectory");
        {
            Query query =
                database.query("SELECT stage, COUNT(*) FROM entry GROUP BY stage ORDER BY stage");
            while (query.step()) {
                summary.entries_by_stage.emplace_back(query.text(0), query.integer(1));
                summary.entries += query.integer(1);
            }
        }
        Query query = database.query(
            "SELECT state, process, COUNT(*), COALESCE(SUM(cost), 0.0), SUM(cost IS NULL) FROM "
            "call "
            "GROUP BY state, process");
        while (query.step()) {
            const std::string_view state = query.text(0);
            const std::int64_t count = query.integer(2);
            if (state == "in_flight") {
                const std::string_view process = query.text(1);
                if (process == process_ || (holder && process == *holder))
                    continue;  // under way
                summary.calls_in_flight_at_a_crash += count;
            } else {
                (state == "answered" ? summary.calls_answered : summary.calls_failed) += count;
            }
            summary.known_cost += query.real(3).value_or(0);
            summary.calls_of_unknown_cost += query.integer(4);
        }
        return summary;
    });
}

std::vector<std::string> SqliteJournal::verify() {
    writer_->settle();
    std::vector<std::string> faults;
    const Writer::Access access = writer_->read();
    Database& database = access.database;
    // Each check by itself, so that a page that cannot be read does not hide what the others find.
    const auto attempt = [&](const char* what, const std::function<void()>& check) {
        try {
            check();
        } catch (const DatabaseError& error) {
            faults.push_back(fmt::format("{}: {}", what, explain(error, writer_->path())));
        }
    };
    // For each row of `sql` a fault: its first column, then what is wrong with it.
    const auto dangling = [&](const char* sql, const char* what, const char* wrong) {
        attempt(what, [&] {
            Query query = database.query(sql);
            while (query.step())
                faults.push_back(fmt::format("{} {}: {}", what, query.text(0), wrong));
        });
    };
    attempt("integrity_check", [&] {
        Query query = database.query("PRAGMA integrity_check");
        while (query.step())
            if (query.text(0) != "ok")
                faults.push_back(fmt::format("file: {}", query.text(0)));
    });
    attempt("blob", [&] {
        Query query = database.query("SELECT hash, size, coding, bytes FROM blob");
        while (query.step()) {
            const std::string hash(query.text(0));
            const std::optional<std::string> raw =
                unpack(hash, query.integer(1), query.text(2), query.text(3));
            if (!raw)
                faults.push_back(fmt::format("blob {}: its bytes do not match its hash", hash));
            else if (static_cast<std::int64_t>(raw->size()) != query.integer(1))
                faults.push_back(fmt::format("blob {}: its size is {}, the row says {}", hash,
                                             raw->size(), query.integer(1)));
        }
    });
    attempt("entry", [&] {
        Query query = database.query("SELECT key, stage, version, inputs, draw FROM entry");
        while (query.step()) {
            StageKey key;
            key.stage = query.text(1);
            key.version = static_cast<int>(query.integer(2));
            key.draw = query.text(4);
            if (key_of(key, std::string(query.text(3))) != query.text(0))
                faults.push_back(fmt::format(
                    "entry {}: its key is not the hash of its stage, version, inputs and draw",
                    query.text(0)));
        }
    });
    dangling("SELECT key FROM entry WHERE NOT EXISTS(SELECT 1 FROM blob WHERE hash = inputs)",
             "entry", "its inputs are not stored");
    dangling("SELECT key FROM entry WHERE NOT EXISTS(SELECT 1 FROM blob WHERE hash = result)",
             "entry", "its result is not stored");
    dangling(
        "SELECT id FROM call WHERE state = 'answered' "
        "AND NOT EXISTS(SELECT 1 FROM entry WHERE entry.key = call.key)",
        "call", "it was answered, and its entry is not stored");
    dangling(
        "SELECT study || ' ' || position FROM sample "
        "WHERE NOT EXISTS(SELECT 1 FROM study WHERE id = sample.study)",
        "sample", "its study is not stored");
    dangling("SELECT study || ' ' || position FROM sample WHERE NOT json_valid(document)", "sample",
             "its document is not JSON");
    dangling("SELECT id FROM trajectory WHERE NOT EXISTS(SELECT 1 FROM blob WHERE hash = document)",
             "trajectory", "its document is not stored");
    return faults;
}

}  // namespace

std::string hash_of(const StageKey& key) { return key_of(key, sha256_hex(key.inputs)); }

Result<std::unique_ptr<Journal>> Journal::open(const std::string& path, asio::any_io_executor loop,
                                               asio::any_io_executor disk, Clock& clock,
                                               Options options) {
    const std::string process = process_id(clock);
    std::optional<WriterLock> lock;
    std::unique_ptr<Database> writer;
    std::unique_ptr<Database> reader;
    if (options.read_only) {
        auto opened = open_for_reading(path);
        if (!opened)
            return tl::unexpected<Error>(opened.error());
        reader = std::move(*opened);
    } else {
        if (path != ":memory:") {
            auto taken = WriterLock::take(path, process);
            if (!taken)
                return tl::unexpected<Error>(taken.error());
            lock.emplace(std::move(*taken));
        }
        auto opened = open_for_writing(path, options.power_safe);
        if (!opened)
            return tl::unexpected<Error>(opened.error());
        writer = std::move(*opened);
        if (path != ":memory:") {
            auto second = open_for_reading(path);
            if (!second)
                return tl::unexpected<Error>(second.error());
            reader = std::move(*second);
        }
    }
    try {
        auto journal_writer = std::make_shared<Writer>(
            path, loop, std::move(disk), std::move(writer), std::move(reader), std::move(lock));
        return std::make_unique<SqliteJournal>(std::move(journal_writer), std::move(loop), clock,
                                               process);
    } catch (const JournalError& error) {
        return fail("", error.what());
    }
}

}  // namespace loopscope
