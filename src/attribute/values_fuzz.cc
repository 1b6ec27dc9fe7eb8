// Any bytes: parse_value_table refuses them with a place and a mend, or gives a table that the
// indices accept.
#include "attribute/attribution.h"
#include "core/check.h"

#include <cmath>
#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto table = loopscope::parse_value_table(text);
    if (!table) {
        CHECK(!table.error().what.empty());
        return 0;
    }
    CHECK(table->values.size() == (std::size_t{1} << table->players.size()));
    for (const double value : table->values)
        CHECK(std::isfinite(value));
    if (table->players.size() <= 6)
        CHECK(!loopscope::indices_of(*table, 2).empty());
    return 0;
}
