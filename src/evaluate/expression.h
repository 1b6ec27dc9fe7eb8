// Expressions over a task's sizes: "2.0 * n * n", "max(rows, columns) + 1", "n % 8".
//
//     sum     = product (("+" | "-") product)*
//     product = unary (("*" | "/" | "%") unary)*
//     unary   = ("-" | "+") unary | number | name | ("min" | "max") "(" sum ("," sum)+ ")" | "("
//     sum ")"
//
// A number without point and exponent is an integer, as every size is. Operations on two integers
// are exact 64-bit ones (an overflow is an Error, division truncates towards zero); as soon as one
// side is real, so is the result. evaluate_expression() and evaluate_count() are declared in
// evaluate/task.h.
#pragma once
#include "core/result.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

// The names that an expression reads. Errors: not an expression.
Result<std::set<std::string>> names_in(std::string_view expression);

// Splits "KIND(A, B)" into KIND and its arguments at the commas outside inner parentheses; "KIND"
// alone has none.
struct Call {
    std::string name;
    std::vector<std::string> arguments;
};
Result<Call> parse_call(std::string_view text);

// [A-Za-z_][A-Za-z0-9_]*
bool is_identifier(std::string_view text);

}  // namespace loopscope
