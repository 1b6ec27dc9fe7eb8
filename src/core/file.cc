#include "core/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace loopscope {

namespace {

std::string reason() {
    return std::strerror(errno);
}  // NOLINT(concurrency-mt-unsafe): glibc's is per thread

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path) {
    std::error_code failed;
    if (std::filesystem::is_directory(path, failed))
        return fail(path.string(), "is a folder, not a file");
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return fail(path.string(), "cannot read it: " + reason());
    std::string text;
    char piece[1U << 16U];
    for (;;) {
        const ssize_t count = ::read(descriptor, piece, sizeof piece);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0) {
            const std::string why = reason();
            ::close(descriptor);
            return fail(path.string(), "cannot read it: " + why);
        }
        if (count == 0)
            break;
        text.append(piece, static_cast<std::size_t>(count));
    }
    ::close(descriptor);
    return text;
}

Result<void> write_file(const std::filesystem::path& path, std::string_view text) {
    const std::string beside = fmt::format("{}.{}.part", path.string(), ::getpid());
    const int descriptor = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return fail(path.string(), "cannot write it: " + reason());
    std::string why;
    for (std::size_t done = 0; done < text.size() && why.empty();) {
        const ssize_t count = ::write(descriptor, text.data() + done, text.size() - done);
        if (count >= 0)
            done += static_cast<std::size_t>(count);
        else if (errno != EINTR)
            why = reason();
    }
    if (::close(descriptor) != 0 && why.empty())
        why = reason();
    if (why.empty() && ::rename(beside.c_str(), path.c_str()) != 0)
        why = reason();
    if (why.empty())
        return {};
    ::unlink(beside.c_str());
    return fail(path.string(), "cannot write it: " + why);
}

std::filesystem::path program_directory() {
    if (const char* named =
            std::getenv("LOOPSCOPE_LIBEXEC"))  // NOLINT(concurrency-mt-unsafe): nobody sets it here
        return named;
    std::error_code failed;
    return std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
}

}  // namespace loopscope
