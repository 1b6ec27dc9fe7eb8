#include "app/verbs.h"
#include "core/file.h"
#include "core/log.h"
#include "evaluate/task.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

namespace loopscope {

int verb_init(const Common& common, const InitOptions& options) {
    const Result<NewTask> made = new_task(options.file, options.function);
    if (!made)
        return usage_error(made.error());
    const std::filesystem::path folder = options.output.empty() ? options.function : options.output;
    std::error_code failed;
    if (std::filesystem::exists(folder, failed))
        return usage_error(
            Error{folder.string(), "exists already; choose another folder with --output"});
    // Written beside and renamed: an init that fails half-way leaves nothing.
    const std::filesystem::path beside = folder.string() + ".part";
    std::filesystem::remove_all(beside, failed);
    for (const auto& [name, text] : made->files) {
        std::filesystem::create_directories((beside / name).parent_path(), failed);
        if (failed)
            return failure(
                Error{(beside / name).string(), "cannot make its folder: " + failed.message()});
        if (const Result<void> written = write_file(beside / name, text); !written) {
            std::filesystem::remove_all(beside, failed);
            return failure(written.error());
        }
    }
    std::filesystem::rename(beside, folder, failed);
    if (failed)
        return failure(Error{folder.string(), failed.message()});
    if (common.json) {
        nlohmann::json files = nlohmann::json::array();
        for (const auto& [name, text] : made->files)
            files.push_back((folder / name).string());
        fmt::print("{}\n", nlohmann::json{{"task", folder.string()},
                                          {"files", files},
                                          {"to_fill_in", made->to_fill_in}}
                               .dump(2));
        return exit_done;
    }
    fmt::print("{} is a task now:\n", folder.string());
    for (const auto& [name, text] : made->files)
        fmt::print("  {}\n", name);
    fmt::print("To fill in or check:\n");
    for (const std::string& line : made->to_fill_in)
        fmt::print("  - {}\n", line);
    fmt::print("Then: loopscope eval {0}    and: loopscope run {0}\n", folder.string());
    return exit_done;
}

}  // namespace loopscope
