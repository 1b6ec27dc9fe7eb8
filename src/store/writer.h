// Group commit: rows that arrive while a commit runs share the next one (leveldb's, without its
// mutex).
//
// All members belong to the loop's thread, but what commit() touches: the write connection, under a
// mutex, on the disk executor. Rows reach the file in the order in which they were added, those of
// one turn of the loop in one transaction; so a row that is known to be durable vouches for every
// row before it.
#pragma once
#include "core/async.h"
#include "store/database.h"
#include "store/journal.h"
#include "store/lock.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

namespace loopscope {

using SharedText = std::shared_ptr<const std::string>;

struct BlobRow {
    std::string hash;
    SharedText text;
};
struct EntryRow {
    std::string key, stage;
    int version = 1;
    std::string inputs, draw, result;  // inputs and result are hashes of blobs
    std::optional<double> cost;
    Usage usage;
    std::int64_t created_ms = 0;
};
struct CallStart {
    std::int64_t id = 0;
    std::string key, stage;
    std::int64_t started_ms = 0;
    std::string process;
};
struct CallEnd {
    std::int64_t id = 0;
    std::string state;
    std::int64_t ended_ms = 0;
    std::optional<double> cost;
    Usage usage;
    std::string failure;
};
struct SampleRow {
    std::string study, position, document;
};
struct TrajectoryRow {
    std::string id, document;  // the hash of a blob
    std::int64_t created_ms = 0;
};
using Row = std::variant<BlobRow, EntryRow, CallStart, CallEnd, StudyRow, SampleRow, TrajectoryRow>;

// Something that happens once and that any number of coroutines wait for. Cancelling one waiter
// leaves the others.
class Signal {
public:
    explicit Signal(const asio::any_io_executor& executor)
        : timer_(executor, asio::steady_timer::time_point::max()) {}
    void fire();
    bool fired() const { return fired_; }
    static awaitable<void> wait(std::shared_ptr<Signal> signal);

private:
    asio::steady_timer timer_;
    bool fired_ = false;
};

class Writer : public std::enable_shared_from_this<Writer> {
public:
    // `reader` is null where the write connection is also the one to read from (a journal in
    // memory); `writer` is null for a journal that is open for reading only.
    Writer(std::string path, asio::any_io_executor loop, asio::any_io_executor disk,
           std::unique_ptr<Database> writer, std::unique_ptr<Database> reader,
           std::optional<WriterLock> lock);

    // Throws JournalError when a commit has failed: from then on nothing is known of the file's
    // end.
    void check() const;
    // Throws JournalError besides when the journal is open for reading only.
    void check_writable() const;

    // Queues the row and sees to it that a commit follows. Durable some time later, also if nobody
    // waits.
    void add(Row row);
    // Returns when every row added so far is durable; throws JournalError when it cannot be. A
    // journal in memory has nothing to wait for.
    awaitable<void> durable();
    // Waits only while so many rows are queued that memory would grow without bound.
    awaitable<void> room();
    // Makes every queued row durable, here and now. For readers that must see them.
    void settle();
    // settle(), as far as the file still takes it, then closes it. Throws nothing: the fault of a
    // last commit is logged. Nothing may be called afterwards.
    void close();

    // Rows on their way to the file. Valid until the next turn of the loop.
    const EntryRow* queued_entry(const std::string& key) const;
    SharedText queued_text(const std::string& hash) const;

    // The connection to read from. While it lives no commit runs on a journal in memory: keep it
    // short.
    struct Access {
        std::unique_lock<std::mutex> lock;
        Database& database;
    };
    Access read();

    const std::string& path() const { return path_; }
    bool in_memory() const { return path_ == ":memory:"; }

    // The hook of Journal::at; null once the journal is gone.
    const std::function<void(const char*)>* at = nullptr;

private:
    struct Batch {
        explicit Batch(const asio::any_io_executor& executor)
            : done(std::make_shared<Signal>(executor)) {}
        std::vector<Row> rows;
        std::size_t bytes = 0;
        std::unordered_map<std::string, std::size_t> entries;  // key -> index in rows
        std::unordered_map<std::string, SharedText> texts;
        std::shared_ptr<Signal> done;
        // Set by commit(), under the mutex.
        bool tried = false;
        std::string failure;  // "" = committed
    };
    class File;  // the write connection and what a commit needs of it

    static awaitable<void> write(std::shared_ptr<Writer> self);
    bool idle() const { return committing_ == nullptr && open_->rows.empty(); }
    void start();
    std::shared_ptr<Batch> take();
    void finish(const std::shared_ptr<Batch>& batch);
    void call_hook(const char* where);

    std::string path_;
    asio::any_io_executor loop_, disk_;
    std::optional<WriterLock> lock_;  // before the databases, so that it outlives them
    std::shared_ptr<File> file_;
    std::unique_ptr<Database> reader_;
    std::shared_ptr<Batch> open_, committing_;
    bool running_ = false;  // write() is under way
    std::string failure_;   // of the commit that failed; "" = none
};

}  // namespace loopscope
