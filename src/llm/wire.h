// Requests in the providers' own forms.
#pragma once
#include "llm/answer.h"
#include "llm/model.h"

#include <set>
#include <string>

namespace loopscope {

// What a server has taught us about the parameters it takes, on top of what the format allows.
struct Dialect {
    bool completion_tokens = false;  // the limit is called max_completion_tokens
    bool stream = true;
    std::set<std::string> refused;  // names on the wire that are left out from now on
};

// The body of a request: JSON in UTF-8; bytes that are not are replaced by U+FFFD.
std::string request_body(WireFormat format, const std::string& model, const ModelRequest& request,
                         const Dialect& dialect);

// Whether this request would send that parameter.
bool sends(WireFormat format, const ModelRequest& request, const Dialect& dialect,
           std::string_view parameter);

// The seed that is sent: the option's own for an empty draw, else a hash of both, so that two draws
// of one prompt differ and each can be repeated. 0 .. 2^31 - 1 for a hashed one.
std::int64_t seed_for(std::int64_t seed, std::string_view draw);

}  // namespace loopscope
