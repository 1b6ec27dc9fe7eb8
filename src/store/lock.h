// One writer a journal: an advisory lock on PATH-lock, held as long as the file is open for
// writing.
//
// Not on the database file itself: closing any descriptor of that would drop the locks that SQLite
// holds on it.
#pragma once
#include "core/result.h"

#include <optional>
#include <string>

namespace loopscope {

class WriterLock {
public:
    // `owner` is written into the file, for lock_holder() and for whoever is turned away. Errors:
    // another process (or another journal of this one) holds it; the folder does not exist or may
    // only be read; the disk is full.
    static Result<WriterLock> take(const std::string& path, const std::string& owner);
    // Removes the file and lets go. The database must be closed by then.
    ~WriterLock();
    WriterLock(WriterLock&& other) noexcept;
    WriterLock& operator=(WriterLock&&) = delete;
    WriterLock(const WriterLock&) = delete;
    WriterLock& operator=(const WriterLock&) = delete;

private:
    WriterLock(std::string file, int descriptor);
    std::string file_;
    int descriptor_;
};

// What the present writer of `path` called itself, or nullopt when nobody writes.
std::optional<std::string> lock_holder(const std::string& path);

}  // namespace loopscope
