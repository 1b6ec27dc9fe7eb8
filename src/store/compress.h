// How the bytes of a blob lie in the file: as they are, or zstd-compressed when that is worth it.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct ZSTD_CCtx_s;

namespace loopscope {

// Below this many bytes the frame's header eats what the compression saves.
constexpr std::size_t compress_above_bytes = 1024;

class Compressor {
public:
    Compressor();
    // The zstd frame, or nullopt where it would not be smaller (short texts, objects that are
    // packed already).
    std::optional<std::string> compress(std::string_view raw);

private:
    struct Free {
        void operator()(ZSTD_CCtx_s* context) const;
    };
    std::unique_ptr<ZSTD_CCtx_s, Free> context_;  // kept: making one costs more than a short text
};

// nullopt: not a whole zstd frame of exactly `raw_size` bytes.
std::optional<std::string> decompress(std::string_view frame, std::size_t raw_size);

}  // namespace loopscope
