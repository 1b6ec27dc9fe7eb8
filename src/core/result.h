// How bad input is told apart from outcomes (which are data) and from what ends the run (which
// throws).
#pragma once
#include <string>
#include <tl/expected.hpp>

namespace loopscope {

// One clear message. `where` names the place (file:line, field, option, URL); `what` the fault and
// the mend.
struct Error {
    std::string where;
    std::string what;
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(std::string where, std::string what) {
    return tl::unexpected<Error>(Error{std::move(where), std::move(what)});
}

// "where: what", or just `what` when there is no place to name.
inline std::string to_text(const Error& error) {
    return error.where.empty() ? error.what : error.where + ": " + error.what;
}

}  // namespace loopscope
