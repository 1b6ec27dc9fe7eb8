#include "store/writer.h"

#include "core/check.h"
#include "core/log.h"
#include "store/compress.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string_view>
#include <type_traits>
#include <utility>

namespace loopscope {

namespace {

// A batch of this size is big enough for the cost of a commit to vanish in it, and small enough to
// keep in memory.
constexpr std::size_t full_rows = 4096;
constexpr std::size_t full_bytes = 16U << 20U;

void bind_usage(Query& query, int first, const Usage& usage) {
    if (!usage.known) {
        for (int i = 0; i < 4; ++i)
            query.bind_null(first + i);
        return;
    }
    query.bind(first, usage.input_tokens)
        .bind(first + 1, usage.cached_tokens)
        .bind(first + 2, usage.output_tokens)
        .bind(first + 3, usage.reasoning_tokens);
}

std::size_t size_of(const Row& row) {
    constexpr std::size_t overhead = 256;  // hashes, numbers and the row itself
    if (const auto* blob = std::get_if<BlobRow>(&row))
        return overhead + blob->text->size();
    if (const auto* sample = std::get_if<SampleRow>(&row))
        return overhead + sample->document.size();
    if (const auto* study = std::get_if<StudyRow>(&row))
        return overhead + study->config.size();
    return overhead;
}

}  // namespace

void Signal::fire() {
    fired_ = true;
    timer_.cancel();
}

awaitable<void> Signal::wait(std::shared_ptr<Signal> signal) {
    while (!signal->fired_) {
        const auto token = asio::as_tuple(asio::use_awaitable);
        const auto [error] = co_await signal->timer_.async_wait(token);
        if (error && !signal->fired_)
            throw boost::system::system_error(error);  // this waiter was cancelled
    }
}

// Shared with the jobs on the disk executor, so that one that comes late finds it, closed.
class Writer::File {
public:
    File(std::string path, std::unique_ptr<Database> database)
        : path_(std::move(path)), database_(std::move(database)) {}

    // Commits the batch unless that was tried before. Returns what went wrong, "" for nothing.
    std::string commit(Batch& batch) {
        const std::lock_guard lock(mutex_);
        if (batch.tried || database_ == nullptr)
            return batch.failure;
        batch.tried = true;
        try {
            Transaction transaction(*database_);
            for (const Row& row : batch.rows)
                std::visit([this](const auto& typed) { insert(typed); }, row);
            transaction.commit();
        } catch (const DatabaseError& error) {
            batch.failure = explain(error, path_);
        } catch (const std::exception& error) {
            batch.failure = fmt::format("{}: {}", path_, error.what());
        }
        return batch.failure;
    }

    void close() {
        const std::lock_guard lock(mutex_);
        database_.reset();
    }

    Access access() {
        std::unique_lock lock(mutex_);
        CHECK(database_ != nullptr);
        return Access{std::move(lock), *database_};
    }

private:
    void insert(const BlobRow& row) {
        {
            Query query = database_->query("SELECT 1 FROM blob WHERE hash = ?1");
            if (query.bind(1, row.hash).step())
                return;
        }
        const std::optional<std::string> frame = compressor_.compress(*row.text);
        Query query =
            database_->query("INSERT INTO blob(hash, size, coding, bytes) VALUES(?1, ?2, ?3, ?4)");
        query.bind(1, row.hash)
            .bind(2, static_cast<std::int64_t>(row.text->size()))
            .bind(3, frame ? "zstd" : "raw")
            .bind_bytes(4, frame ? *frame : *row.text)
            .step();
    }

    void insert(const EntryRow& row) {
        Query query = database_->query(
            "INSERT INTO entry(key, stage, version, inputs, draw, result, cost, input_tokens, "
            "cached_tokens, output_tokens, reasoning_tokens, created_ms) "
            "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) ON CONFLICT DO NOTHING");
        query.bind(1, row.key)
            .bind(2, row.stage)
            .bind(3, std::int64_t{row.version})
            .bind(4, row.inputs)
            .bind(5, row.draw)
            .bind(6, row.result)
            .bind_real(7, row.cost)
            .bind(12, row.created_ms);
        bind_usage(query, 8, row.usage);
        query.step();
    }

    void insert(const CallStart& row) {
        Query query = database_->query(
            "INSERT INTO call(id, key, stage, state, started_ms, process) "
            "VALUES(?1, ?2, ?3, 'in_flight', ?4, ?5)");
        query.bind(1, row.id)
            .bind(2, row.key)
            .bind(3, row.stage)
            .bind(4, row.started_ms)
            .bind(5, row.process)
            .step();
    }

    void insert(const CallEnd& row) {
        Query query = database_->query(
            "UPDATE call SET state = ?2, ended_ms = ?3, cost = ?4, input_tokens = ?5, "
            "cached_tokens = ?6, output_tokens = ?7, reasoning_tokens = ?8, failure = ?9 "
            "WHERE id = ?1");
        query.bind(1, row.id)
            .bind(2, row.state)
            .bind(3, row.ended_ms)
            .bind_real(4, row.cost)
            .bind(9, row.failure);
        bind_usage(query, 5, row.usage);
        query.step();
    }

    void insert(const StudyRow& row) {
        Query query = database_->query(
            "INSERT INTO study(id, kind, config, state, note, created_ms) "
            "VALUES(?1, ?2, ?3, ?4, ?5, ?6) "
            "ON CONFLICT(id) DO UPDATE SET state = excluded.state, note = excluded.note");
        query.bind(1, row.id)
            .bind(2, row.kind)
            .bind(3, row.config)
            .bind(4, row.state)
            .bind(5, row.note)
            .bind(6, row.created_ms)
            .step();
    }

    void insert(const SampleRow& row) {
        Query query = database_->query(
            "INSERT INTO sample(study, position, document) VALUES(?1, ?2, ?3) "
            "ON CONFLICT(study, position) DO UPDATE SET document = excluded.document");
        query.bind(1, row.study).bind(2, row.position).bind(3, row.document).step();
    }

    void insert(const TrajectoryRow& row) {
        Query query = database_->query(
            "INSERT INTO trajectory(id, document, created_ms) VALUES(?1, ?2, ?3) "
            "ON CONFLICT(id) DO UPDATE SET document = excluded.document");
        query.bind(1, row.id).bind(2, row.document).bind(3, row.created_ms).step();
    }

    std::string path_;
    std::mutex mutex_;
    std::unique_ptr<Database> database_;
    Compressor compressor_;
};

Writer::Writer(std::string path, asio::any_io_executor loop, asio::any_io_executor disk,
               std::unique_ptr<Database> writer, std::unique_ptr<Database> reader,
               std::optional<WriterLock> lock)
    : path_(std::move(path)),
      loop_(std::move(loop)),
      disk_(std::move(disk)),
      lock_(std::move(lock)),
      file_(writer == nullptr ? nullptr : std::make_shared<File>(path_, std::move(writer))),
      reader_(std::move(reader)),
      open_(std::make_shared<Batch>(loop_)) {}

void Writer::check() const {
    if (!failure_.empty())
        throw JournalError(failure_);
}

void Writer::check_writable() const {
    check();
    if (file_ == nullptr)
        throw JournalError(path_ + ": the journal is open for reading only");
}

void Writer::add(Row row) {
    check_writable();
    Batch& batch = *open_;
    batch.bytes += size_of(row);
    if (const auto* entry = std::get_if<EntryRow>(&row))
        batch.entries.emplace(entry->key, batch.rows.size());
    else if (const auto* blob = std::get_if<BlobRow>(&row))
        batch.texts.emplace(blob->hash, blob->text);
    batch.rows.push_back(std::move(row));
    // Rows of a journal in memory are as safe in the queue as in the database: only a full queue is
    // written.
    if (!in_memory() || batch.rows.size() >= full_rows || batch.bytes >= full_bytes)
        start();
}

void Writer::start() {
    if (running_)
        return;
    running_ = true;
    const auto rethrow = [](const std::exception_ptr& error) {
        if (error)
            std::rethrow_exception(error);
    };
    asio::co_spawn(loop_, write(shared_from_this()), rethrow);
}

awaitable<void> Writer::write(std::shared_ptr<Writer> self) {
    // Not within add(): what its caller adds before it waits belongs to the same commit.
    co_await asio::post(self->loop_, asio::use_awaitable);
    while (!self->open_->rows.empty() && self->failure_.empty() && self->file_ != nullptr) {
        const std::shared_ptr<Batch> batch = self->take();
        if (!batch->tried) {
            const std::shared_ptr<File> file = self->file_;
            auto commit = [file, batch] { return file->commit(*batch); };
            co_await offload(self->disk_, commit);
        }
        self->finish(batch);
    }
    self->running_ = false;
}

std::shared_ptr<Writer::Batch> Writer::take() {
    committing_ = std::exchange(open_, std::make_shared<Batch>(loop_));
    const std::shared_ptr<Batch> batch = committing_;
    try {
        call_hook("before");
    } catch (const std::exception& error) {
        batch->tried = true;
        batch->failure = fmt::format("{}: before a commit: {}", path_, error.what());
    }
    return batch;
}

void Writer::finish(const std::shared_ptr<Batch>& batch) {
    if (batch->done->fired())
        return;  // settle() was faster
    if (batch->failure.empty()) {
        try {
            call_hook("after");
        } catch (const std::exception& error) {
            batch->failure = fmt::format("{}: after a commit: {}", path_, error.what());
        }
    }
    if (failure_.empty())
        failure_ = batch->failure;
    if (committing_ == batch)
        committing_ = nullptr;
    batch->done->fire();
    if (!failure_.empty())
        open_->done->fire();  // it will never be written: wake who waits for it
}

void Writer::call_hook(const char* where) {
    if (at != nullptr && *at)
        (*at)(where);
}

awaitable<void> Writer::durable() {
    check_writable();
    if (in_memory()) {
        co_await room();
        co_return;
    }
    const std::shared_ptr<Batch> last = open_->rows.empty() ? committing_ : open_;
    if (last == nullptr)
        co_return;
    co_await Signal::wait(last->done);
    check();
}

awaitable<void> Writer::room() {
    const std::shared_ptr<Batch> batch = open_;
    if (batch->rows.size() < full_rows && batch->bytes < full_bytes)
        co_return;
    co_await Signal::wait(batch->done);
    check();
}

void Writer::settle() {
    check();
    if (file_ == nullptr)
        return;
    if (const std::shared_ptr<Batch> batch = committing_; batch != nullptr) {
        file_->commit(*batch);
        finish(batch);
    }
    if (!open_->rows.empty() && failure_.empty()) {
        const std::shared_ptr<Batch> batch = take();
        file_->commit(*batch);
        finish(batch);
    }
    check();
}

void Writer::close() {
    try {
        if (failure_.empty())
            settle();
    } catch (const std::exception& error) {
        log_error(fmt::format("the journal's last rows were not kept: {}", error.what()));
    }
    at = nullptr;
    reader_.reset();
    if (file_ != nullptr)
        file_->close();
    file_ = nullptr;
    lock_.reset();
}

const EntryRow* Writer::queued_entry(const std::string& key) const {
    for (const auto* batch : {open_.get(), committing_.get()}) {
        if (batch == nullptr)
            continue;
        if (const auto found = batch->entries.find(key); found != batch->entries.end())
            return &std::get<EntryRow>(batch->rows[found->second]);
    }
    return nullptr;
}

SharedText Writer::queued_text(const std::string& hash) const {
    for (const auto* batch : {open_.get(), committing_.get()}) {
        if (batch == nullptr)
            continue;
        if (const auto found = batch->texts.find(hash); found != batch->texts.end())
            return found->second;
    }
    return nullptr;
}

Writer::Access Writer::read() {
    if (reader_ == nullptr)
        return file_->access();
    return Access{std::unique_lock<std::mutex>(), *reader_};
}

}  // namespace loopscope
