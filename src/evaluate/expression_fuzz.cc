// Any text is an expression or one error; what it computes is finite, and its names are found
// without sizes too.
#include "evaluate/expression.h"

#include "evaluate/task.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const loopscope::Sizes sizes = {{"n", 17}, {"m", 1'000'000'000}};
    const loopscope::Result<double> value = loopscope::evaluate_expression(text, sizes);
    if (value && (!std::isfinite(*value) || !loopscope::names_in(text)))
        std::abort();
    const loopscope::Result<std::int64_t> count = loopscope::evaluate_count(text, sizes);
    if (count && *count < 0)
        std::abort();
    (void)loopscope::parse_call(text);
    return 0;
}
