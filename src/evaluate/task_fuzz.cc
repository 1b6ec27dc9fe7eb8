// Whatever a task.toml says, reading it ends in a task or in one error. Every file it names exists
// and holds a kernel.
#include "evaluate/task.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const loopscope::TaskFiles read =
        [](const std::string& path) -> loopscope::Result<std::string> {
        if (path == "reference.cc")
            return std::string(
                "extern \"C\" void f_reference(int n, const double* a, double* c) {}\n");
        return std::string("extern \"C\" void f(int n, const float* a, float* c) {}\n");
    };
    const loopscope::Result<loopscope::Task> task = loopscope::parse_task(text, "task.toml", read);
    if (task) {
        if (!task->starts.contains(task->baseline) || loopscope::canonical(*task).empty())
            std::abort();
    } else if (task.error().what.empty()) {
        std::abort();
    }
    return 0;
}
