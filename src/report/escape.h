// Foreign text (what models and users wrote) made harmless for the medium that shows it.
#pragma once
#include <string>
#include <string_view>

namespace loopscope {

// Valid UTF-8 without control characters: bad bytes become U+FFFD, control characters but line end
// and tab too, and the characters that reverse the reading direction (with which code can be made
// to look like other code) are spelled out as "[U+202E]".
std::string clean(std::string_view text);

// clean(), with & < > " ' as entities: for element content and quoted attributes.
std::string html_escape(std::string_view text);

// A JSON document for the inside of a script element: no character of it can end the element or
// begin a comment, and it is still the same document.
std::string json_for_script(std::string_view json);

// RFC 4648, of the bytes that `hex` spells.
std::string base64_of_hex(std::string_view hex);

// A field of a CSV line (RFC 4180): quoted where it must be. A text that a spreadsheet would take
// for a formula gets a leading apostrophe.
std::string csv_field(std::string_view text);

}  // namespace loopscope
