#include "store/compress.h"

#include <zstd.h>

#include <new>

namespace loopscope {

void Compressor::Free::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }

Compressor::Compressor() : context_(ZSTD_createCCtx()) {
    if (context_ == nullptr)
        throw std::bad_alloc();
}

std::optional<std::string> Compressor::compress(std::string_view raw) {
    if (raw.size() <= compress_above_bytes)
        return std::nullopt;
    std::string frame(ZSTD_compressBound(raw.size()), '\0');
    const std::size_t size = ZSTD_compressCCtx(context_.get(), frame.data(), frame.size(),
                                               raw.data(), raw.size(), ZSTD_CLEVEL_DEFAULT);
    if (ZSTD_isError(size) != 0U || size >= raw.size())
        return std::nullopt;
    frame.resize(size);
    return frame;
}

std::optional<std::string> decompress(std::string_view frame, std::size_t raw_size) {
    // The frame says its size too. Comparing first keeps a damaged number from asking for that much
    // memory.
    if (ZSTD_getFrameContentSize(frame.data(), frame.size()) != raw_size)
        return std::nullopt;
    std::string raw(raw_size, '\0');
    const std::size_t size = ZSTD_decompress(raw.data(), raw.size(), frame.data(), frame.size());
    if (ZSTD_isError(size) != 0U || size != raw_size)
        return std::nullopt;
    return raw;
}

}  // namespace loopscope
