#include "store/schema.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace loopscope {

namespace {

// A rowid table each, so that the indices stay small and rows lie in the order in which they were
// acknowledged.
constexpr const char* tables = R"(
CREATE TABLE blob(
    hash TEXT NOT NULL PRIMARY KEY,
    size INTEGER NOT NULL,
    coding TEXT NOT NULL CHECK(coding IN ('raw', 'zstd')),
    bytes BLOB NOT NULL
) STRICT;
CREATE TABLE entry(
    key TEXT NOT NULL PRIMARY KEY,
    stage TEXT NOT NULL,
    version INTEGER NOT NULL,
    inputs TEXT NOT NULL REFERENCES blob(hash),
    draw TEXT NOT NULL,
    result TEXT NOT NULL REFERENCES blob(hash),
    cost REAL,
    input_tokens INTEGER,
    cached_tokens INTEGER,
    output_tokens INTEGER,
    reasoning_tokens INTEGER,
    created_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX entry_stage ON entry(stage);
CREATE TABLE call(
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    stage TEXT NOT NULL,
    state TEXT NOT NULL CHECK(state IN ('in_flight', 'answered', 'failed')),
    started_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    cost REAL,
    input_tokens INTEGER,
    cached_tokens INTEGER,
    output_tokens INTEGER,
    reasoning_tokens INTEGER,
    process TEXT NOT NULL,
    failure TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX call_state ON call(state, process, cost);
CREATE TABLE study(
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    config TEXT NOT NULL,
    state TEXT NOT NULL,
    note TEXT NOT NULL,
    created_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE sample(
    study TEXT NOT NULL REFERENCES study(id),
    position TEXT NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY(study, position)
) STRICT;
CREATE TABLE trajectory(
    id TEXT NOT NULL PRIMARY KEY,
    document TEXT NOT NULL REFERENCES blob(hash),
    created_ms INTEGER NOT NULL
) STRICT;
)";

// An Error unless the open database is a journal that this program understands.
Result<void> check_version(Database& database, const std::string& path) {
    const std::int64_t application = database.integer("PRAGMA application_id");
    const std::int64_t version = database.integer("PRAGMA user_version");
    if (application != journal_application_id)
        return fail(path,
                    "not a journal (an SQLite database of another program); name another file with "
                    "--journal");
    if (version > schema_version)
        return fail(path,
                    fmt::format("written by a newer loopscope: its schema is {}, this program "
                                "knows schemas up to {}; update loopscope",
                                version, schema_version));
    if (version < 1)
        return fail(path, "a journal without a schema version: the file is damaged");
    return {};
}

bool is_empty(Database& database) {
    return database.integer("PRAGMA application_id") == 0 &&
           database.integer("SELECT COUNT(*) FROM sqlite_master") == 0;
}

void create_tables(Database& database) {
    Transaction transaction(database);
    database.execute(tables);
    database.execute(fmt::format("PRAGMA application_id = {}", journal_application_id).c_str());
    database.execute(fmt::format("PRAGMA user_version = {}", schema_version).c_str());
    transaction.commit();
}

// The file is not opened here: closing it again would drop the locks that SQLite holds on it for
// another connection of this process.
Result<void> check_file(const std::string& path, bool must_exist) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (error && status.type() != std::filesystem::file_type::not_found)
        return fail(path, error.message());
    if (!std::filesystem::exists(status)) {
        if (must_exist)
            return fail(path,
                        "there is no such journal; run a study first, or name the file with "
                        "--journal");
        return {};
    }
    if (!std::filesystem::is_regular_file(status))
        return fail(path, "not a file; name a file with --journal");
    if (faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) != 0)
        return fail(path, "the file may not be read; mend its permissions");
    return {};
}

// For a file on a read-only disk, where SQLite cannot make the shared memory of the WAL. Only
// without a -wal file: else its rows would be passed over.
std::string immutable_uri(const std::string& path) {
    std::string uri = "file:";
    for (const char c : path) {
        if (c == '%' || c == '?' || c == '#')
            uri += fmt::format("%{:02x}", static_cast<unsigned char>(c));
        else
            uri += c;
    }
    return uri + "?immutable=1";
}

tl::unexpected<Error> as_error(const DatabaseError& error, const std::string& path) {
    return tl::unexpected<Error>(Error{"", explain(error, path)});
}

}  // namespace

Result<std::unique_ptr<Database>> open_for_writing(const std::string& path, bool power_safe) {
    const bool in_memory = path == ":memory:";
    if (!in_memory) {
        if (const auto checked = check_file(path, false); !checked)
            return tl::unexpected<Error>(checked.error());
    }
    try {
        auto database = std::make_unique<Database>(
            path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX);
        if (database->read_only())
            return fail(path,
                        "the file may only be read; mend its permissions or name another file with "
                        "--journal");
        // The tables are made before the switch to WAL, so that the version stands in the file's
        // own header.
        if (is_empty(*database))
            create_tables(*database);
        if (auto checked = check_version(*database, path); !checked)
            return tl::unexpected<Error>(checked.error());
        if (!in_memory) {
            Query mode = database->query("PRAGMA journal_mode = WAL");
            if (!mode.step() || mode.text(0) != "wal")
                return fail(path,
                            "this file system does not carry SQLite's write-ahead log; name a file "
                            "on a local disk with --journal");
        }
        // Keys are hashes, so rows land all over the indices: keep those in memory (64 MB at most),
        // and write the log back less often than every 4 MB.
        database->execute("PRAGMA cache_size = -65536");
        database->execute("PRAGMA wal_autocheckpoint = 8000");
        database->execute(power_safe ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
        return database;
    } catch (const DatabaseError& error) {
        return as_error(error, path);
    }
}

Result<std::unique_ptr<Database>> open_for_reading(const std::string& path) {
    if (path == ":memory:")
        return fail(path, "a journal in memory cannot be opened for reading only");
    if (const auto checked = check_file(path, true); !checked)
        return tl::unexpected<Error>(checked.error());
    constexpr int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
    try {
        std::unique_ptr<Database> database;
        try {
            database = std::make_unique<Database>(path, flags);
            database->integer("PRAGMA application_id");
        } catch (const DatabaseError& error) {
            const int code = error.code & 0xff;
            if (code != SQLITE_CANTOPEN && code != SQLITE_READONLY)
                throw;
            if (std::filesystem::exists(path + "-wal"))
                return fail(
                    path,
                    "its folder may only be read, and a writer that was killed left rows in " +
                        path + "-wal; copy both files to a folder of yours");
            database = std::make_unique<Database>(immutable_uri(path), flags | SQLITE_OPEN_URI);
        }
        if (auto checked = check_version(*database, path); !checked)
            return tl::unexpected<Error>(checked.error());
        return database;
    } catch (const DatabaseError& error) {
        return as_error(error, path);
    }
}

}  // namespace loopscope
