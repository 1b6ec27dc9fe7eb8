// Whole files, read and written with one clear error.
#pragma once
#include "core/result.h"

#include <filesystem>
#include <string>
#include <string_view>

namespace loopscope {

Result<std::string> read_file(const std::filesystem::path& path);

// Writes beside the target and renames, so that a full disk or a kill leaves the old file or the
// new, never half.
Result<void> write_file(const std::filesystem::path& path, std::string_view text);

// The folder of the running program (for loopscope-runner and loopscope-parse, which lie beside
// it). LOOPSCOPE_LIBEXEC overrides it.
std::filesystem::path program_directory();

}  // namespace loopscope
