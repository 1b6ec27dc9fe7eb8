#include "store/database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace loopscope {

namespace {

[[noreturn]] void raise(sqlite3* handle) {
    throw DatabaseError(sqlite3_errmsg(handle), sqlite3_extended_errcode(handle),
                        sqlite3_system_errno(handle));
}

// Only these codes come from a system call; for the others sqlite3_system_errno() keeps an older
// one.
bool has_system_error(int code) {
    const int primary = code & 0xff;
    return primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN || primary == SQLITE_FULL;
}

}  // namespace

std::string explain(const DatabaseError& error, const std::string& path) {
    const int code = error.code & 0xff;
    const int number = has_system_error(error.code) ? error.system_error : 0;
    if (code == SQLITE_FULL || number == ENOSPC || number == EDQUOT)
        return fmt::format(
            "{}: the disk is full; free some space and run the same command again (what was "
            "acknowledged is safe)",
            path);
    switch (code) {
        case SQLITE_NOTADB:
            return fmt::format(
                "{}: not a journal (not an SQLite database); name another file with --journal",
                path);
        case SQLITE_CORRUPT:
            return fmt::format(
                "{}: the file is damaged ({}); restore a copy, or save what is left with "
                "sqlite3 {} .recover",
                path, error.what(), path);
        case SQLITE_READONLY:
            return fmt::format(
                "{}: the file or its folder may only be read; mend its permissions or name another "
                "file with --journal",
                path);
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
            return fmt::format(
                "{}: locked by another program (an open transaction of a sqlite3 shell?); close it "
                "and run the same command again",
                path);
        default:
            break;
    }
    const std::string detail =
        number == 0 ? std::string() : ": " + std::system_category().message(number);
    return fmt::format("{}: {}{}", path, error.what(), detail);
}

Query::~Query() {
    if (statement_ == nullptr)
        return;
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
}

Query& Query::bind(int parameter, std::string_view text) {
    // A null pointer would bind NULL: an empty view may have one.
    const char* data = text.data() == nullptr ? "" : text.data();
    if (sqlite3_bind_text64(statement_, parameter, data, text.size(), SQLITE_STATIC, SQLITE_UTF8) !=
        SQLITE_OK)
        raise(sqlite3_db_handle(statement_));
    return *this;
}

Query& Query::bind(int parameter, std::int64_t value) {
    if (sqlite3_bind_int64(statement_, parameter, value) != SQLITE_OK)
        raise(sqlite3_db_handle(statement_));
    return *this;
}

Query& Query::bind_real(int parameter, std::optional<double> value) {
    if (!value)
        return bind_null(parameter);
    if (sqlite3_bind_double(statement_, parameter, *value) != SQLITE_OK)
        raise(sqlite3_db_handle(statement_));
    return *this;
}

Query& Query::bind_null(int parameter) {
    if (sqlite3_bind_null(statement_, parameter) != SQLITE_OK)
        raise(sqlite3_db_handle(statement_));
    return *this;
}

Query& Query::bind_bytes(int parameter, std::string_view bytes) {
    const char* data = bytes.data() == nullptr ? "" : bytes.data();
    if (sqlite3_bind_blob64(statement_, parameter, data, bytes.size(), SQLITE_STATIC) != SQLITE_OK)
        raise(sqlite3_db_handle(statement_));
    return *this;
}

bool Query::step() {
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW)
        return true;
    if (code != SQLITE_DONE)
        raise(sqlite3_db_handle(statement_));
    return false;
}

std::string_view Query::text(int column) const {
    const void* bytes = sqlite3_column_blob(statement_, column);
    const int size = sqlite3_column_bytes(statement_, column);
    return bytes == nullptr
               ? std::string_view()
               : std::string_view(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

std::int64_t Query::integer(int column) const { return sqlite3_column_int64(statement_, column); }

std::optional<double> Query::real(int column) const {
    if (is_null(column))
        return std::nullopt;
    return sqlite3_column_double(statement_, column);
}

bool Query::is_null(int column) const {
    return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

void Database::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Database::Database(const std::string& name, int flags) {
    const int code = sqlite3_open_v2(name.c_str(), &handle_, flags, nullptr);
    if (code != SQLITE_OK) {
        const DatabaseError error(handle_ == nullptr ? "out of memory" : sqlite3_errmsg(handle_),
                                  code, handle_ == nullptr ? 0 : sqlite3_system_errno(handle_));
        sqlite3_close(handle_);
        throw DatabaseError(error);
    }
    sqlite3_extended_result_codes(handle_, 1);
    // Only a foreign program can hold a lock (WriterLock keeps a second Loopscope out): wait for it
    // a while.
    sqlite3_busy_timeout(handle_, 3000);
}

Database::~Database() {
    statements_.clear();
    sqlite3_close(handle_);
}

Query Database::query(const char* sql) {
    auto& statement = statements_[sql];
    if (statement == nullptr) {
        sqlite3_stmt* made = nullptr;
        if (sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &made, nullptr) !=
            SQLITE_OK) {
            statements_.erase(sql);
            raise(handle_);
        }
        statement.reset(made);
    }
    return Query(statement.get());
}

void Database::execute(const char* sql) {
    if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) != SQLITE_OK)
        raise(handle_);
}

std::int64_t Database::integer(const char* sql) {
    Query first = query(sql);
    return first.step() ? first.integer(0) : 0;
}

bool Database::read_only() const { return sqlite3_db_readonly(handle_, "main") == 1; }

Transaction::Transaction(Database& database) : database_(database) {
    database_.execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
    if (!open_)
        return;
    try {
        database_.execute("ROLLBACK");
    } catch (const DatabaseError&) {
        // SQLite has rolled back by itself (disk full, input/output error): there is nothing left
        // to undo.
        return;
    }
}

void Transaction::commit() {
    database_.execute("COMMIT");
    open_ = false;
}

}  // namespace loopscope
