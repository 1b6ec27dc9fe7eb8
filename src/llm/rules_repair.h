// Repairs of broken programs, as transformations of the source: what a compiler's diagnostic asks
// for, and the usual slips behind memory errors and wrong results.
#pragma once
#include "llm/rules_facts.h"
#include "llm/rules_transform.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope::rules {

// The bound of a loop from <= to <.
Outcome strict_bound(const Function& original, const LoopName& wanted);
// The bound of a loop one further (by < to <=, or by dropping "- 1") or one less far.
Outcome longer_loop(const Function& original, const LoopName& wanted);
Outcome shorter_loop(const Function& original, const LoopName& wanted);
// The loop starts one iteration later.
Outcome later_start(const Function& original, const LoopName& wanted);
// Sets what `array` accumulates to zero before; of a scalar, its declaration.
Outcome initialise(const Function& original, const std::string& variable);
// Arrays and scalars that are accumulated and never set.
std::set<std::string> never_set(const Function& f);
// a[x * n + y] becomes a[y * n + x].
Outcome transpose_subscript(const Function& original, const std::string& array);
std::set<std::string> transposable(const Function& f);
// Every difference x[i] - x[j] in the loop becomes x[j] - x[i].
Outcome swap_differences(const Function& original, const LoopName& wanted);
// The remaining iterations of a loop that was unrolled without them.
Outcome add_tail(const Function& original, const LoopName& wanted);

// The identifier `wrong` of the function's text becomes `right`.
std::string rename_in(std::string_view source, const std::string& function,
                      const std::string& wrong, const std::string& right);
// Names of integers that the function's text declares: parameters, variables.
std::vector<std::string> names_declared(std::string_view source, const std::string& function);
// `text` put behind the last code before line:column (1-based), where the compiler expects it.
std::string insert_at(std::string_view source, int line, int column, std::string_view text);
// The header that declares a standard name ("sqrt", "std::min"), or "".
std::string header_of(std::string_view wanted);

}  // namespace loopscope::rules
