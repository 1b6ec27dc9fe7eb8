// The tables of a journal, and the opening of a file that must be one (docs/journal.md is the
// user's copy).
#pragma once
#include "core/result.h"
#include "store/database.h"

#include <cstdint>
#include <memory>
#include <string>

namespace loopscope {

// Raised with every change of the tables. A file of a newer one is refused, with both numbers
// named.
constexpr int schema_version = 1;
// In the header of every journal (PRAGMA application_id): the bytes "Loop".
constexpr std::int32_t journal_application_id = 0x4C6F6F70;

// Opens the file for writing, making it and its tables when it does not exist or is empty. WAL;
// `power_safe` chooses synchronous=FULL, else NORMAL. `path` may be ":memory:". Whoever calls holds
// the WriterLock.
Result<std::unique_ptr<Database>> open_for_writing(const std::string& path, bool power_safe);

// Opens an existing journal for reading, beside a writer or from a read-only disk.
Result<std::unique_ptr<Database>> open_for_reading(const std::string& path);

}  // namespace loopscope
