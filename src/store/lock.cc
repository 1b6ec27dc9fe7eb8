#include "store/lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace loopscope {

namespace {

std::string read_owner(int descriptor) {
    std::array<char, 256> text{};
    const ssize_t size = pread(descriptor, text.data(), text.size(), 0);
    return size <= 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(size));
}

// The file may have been removed by its last holder between our open and our lock: then the lock is
// worth nothing.
bool still_named(int descriptor, const std::string& file) {
    struct stat ours{};
    struct stat named{};
    return fstat(descriptor, &ours) == 0 && stat(file.c_str(), &named) == 0 &&
           ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

tl::unexpected<Error> cannot_create(const std::string& path, const std::string& file, int number) {
    switch (number) {
        case ENOENT:
            return fail(path, "its folder does not exist; create it first");
        case ENOTDIR:
            return fail(path, "its folder is not a folder");
        case EACCES:
        case EPERM:
        case EROFS:
            return fail(path,
                        "its folder may only be read; mend its permissions or name another file "
                        "with --journal");
        case ENOSPC:
        case EDQUOT:
            return fail(path, "the disk is full; free some space and run the same command again");
        default:
            return fail(path, fmt::format("cannot create {}: {}", file,
                                          std::system_category().message(number)));
    }
}

}  // namespace

WriterLock::WriterLock(std::string file, int descriptor)
    : file_(std::move(file)), descriptor_(descriptor) {}

WriterLock::WriterLock(WriterLock&& other) noexcept
    : file_(std::move(other.file_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

WriterLock::~WriterLock() {
    if (descriptor_ < 0)
        return;
    unlink(file_.c_str());
    close(descriptor_);
}

Result<WriterLock> WriterLock::take(const std::string& path, const std::string& owner) {
    const std::string file = path + "-lock";
    // lock_holder() takes the lock for an instant to see whether it is free: a few tries outlast
    // that.
    constexpr int tries = 10;
    for (int attempt = 1;; ++attempt) {
        const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (descriptor < 0)
            return cannot_create(path, file, errno);
        if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
            WriterLock lock(file, descriptor);
            if (!still_named(descriptor, file)) {
                lock.descriptor_ = -1;  // that name is another's by now: do not remove it
                close(descriptor);
                continue;
            }
            if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, owner.data(), owner.size(),
                                                        0) != static_cast<ssize_t>(owner.size()))
                return cannot_create(path, file, errno);
            return lock;
        }
        const int number = errno;
        const std::string other = read_owner(descriptor);
        close(descriptor);
        if (number != EWOULDBLOCK)
            return fail(path, fmt::format("cannot lock {}: {}", file,
                                          std::system_category().message(number)));
        if (attempt == tries)
            return fail(path,
                        fmt::format("another loopscope is writing to it (process {}); wait for "
                                    "it or stop it, or name another file with --journal",
                                    other.substr(0, other.find('-'))));
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

std::optional<std::string> lock_holder(const std::string& path) {
    const int descriptor = open((path + "-lock").c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return std::nullopt;
    std::optional<std::string> holder;
    if (flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        holder = read_owner(descriptor);
    close(descriptor);
    return holder;
}

}  // namespace loopscope
