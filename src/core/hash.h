// SHA-256: the name of every stored text and the key of every stage.
#pragma once
#include <string>
#include <string_view>

namespace loopscope {

// 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace loopscope
