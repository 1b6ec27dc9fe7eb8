// An artifact's source text: what a model edits, and what is built.
#pragma once
#include <map>
#include <string>

namespace loopscope {

// Path relative to the artifact's folder -> text. Ordered, so that its hash does not depend on
// insertion.
struct Program {
    std::map<std::string, std::string> files;
    friend bool operator==(const Program&, const Program&) = default;
};

}  // namespace loopscope
