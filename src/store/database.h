// SQLite behind two small classes. Faults are thrown as DatabaseError; who opens a file turns them
// into one Error.
//
// A Database and its statements belong to one thread at a time; who shares one between threads
// holds a mutex.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace loopscope {

struct DatabaseError : std::runtime_error {
    DatabaseError(const std::string& message, int sqlite_code, int number)
        : std::runtime_error(message), code(sqlite_code), system_error(number) {}
    int code;          // SQLite's extended result code
    int system_error;  // errno of the system call that failed, 0 when there was none
};

// What happened to the file at `path`, and the mend, in one line for the person.
std::string explain(const DatabaseError& error, const std::string& path);

// One run of a prepared statement. Columns count from 0, parameters from 1. Texts are valid until
// the next step. Its end resets the statement, which also ends the read transaction: a reader that
// forgot would see old rows.
class Query {
public:
    explicit Query(sqlite3_stmt* statement) : statement_(statement) {}
    ~Query();
    Query(const Query&) = delete;
    Query& operator=(const Query&) = delete;

    // The bound bytes must live until the last step.
    Query& bind(int parameter, std::string_view text);
    Query& bind(int parameter, std::int64_t value);
    Query& bind_real(int parameter, std::optional<double> value);  // nullopt: NULL
    Query& bind_null(int parameter);
    Query& bind_bytes(int parameter, std::string_view bytes);

    bool step();                              // true: there is a row
    std::string_view text(int column) const;  // text or bytes; "" for NULL
    std::int64_t integer(int column) const;
    std::optional<double> real(int column) const;  // nullopt for NULL
    bool is_null(int column) const;

private:
    sqlite3_stmt* statement_;
};

class Database {
public:
    // flags: those of sqlite3_open_v2. `name` is a path, ":memory:" or, with SQLITE_OPEN_URI, a
    // URI.
    Database(const std::string& name, int flags);
    ~Database();
    Database(const Database&) = delete;
    Database& operator=(const Database&) = delete;

    // Prepared at the first use of this text, which must be a literal: it is remembered by its
    // address.
    Query query(const char* sql);
    void execute(const char* sql);
    std::int64_t integer(const char* sql);  // the first column of the first row; 0 without a row
    bool read_only() const;                 // the file could be opened for reading only

private:
    struct Finalize {
        void operator()(sqlite3_stmt* statement) const;
    };
    sqlite3* handle_ = nullptr;
    std::map<const char*, std::unique_ptr<sqlite3_stmt, Finalize>> statements_;
};

// BEGIN IMMEDIATE ... COMMIT; rolled back when commit() was not reached.
class Transaction {
public:
    explicit Transaction(Database& database);
    ~Transaction();
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;
    void commit();

private:
    Database& database_;
    bool open_ = true;
};

}  // namespace loopscope
