// For tests only: golden vectors from the folder LOOPSCOPE_GOLDEN, else ../shared/golden beside a
// folder above the working directory. A test that does not find its file skips with a message; each
// keeps a few exact vectors inline.
#pragma once
#include "core/file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace loopscope {

inline constexpr const char* no_golden = "no golden vectors: set LOOPSCOPE_GOLDEN to their folder";

inline std::optional<nlohmann::json> golden(const std::string& name) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    std::optional<fs::path> folder;
    if (const char* given = std::getenv("LOOPSCOPE_GOLDEN")) {  // NOLINT(concurrency-mt-unsafe)
        folder = given;
    } else {
        for (fs::path at = fs::current_path(ignored); !folder; at = at.parent_path()) {
            if (fs::exists(at / ".." / "shared" / "golden" / name, ignored))
                folder = at / ".." / "shared" / "golden";
            if (at == at.parent_path())
                break;
        }
    }
    if (!folder || !fs::exists(*folder / name, ignored))
        return std::nullopt;
    const auto text = read_file(*folder / name);
    if (!text) {
        ADD_FAILURE() << to_text(text.error());
        return std::nullopt;
    }
    return nlohmann::json::parse(*text);
}

}  // namespace loopscope
