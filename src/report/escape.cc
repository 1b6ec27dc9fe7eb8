#include "report/escape.h"

#include <fmt/format.h>

#include <cstdint>

namespace loopscope {

namespace {

// Length of the UTF-8 sequence at `at`, its code point in `point`; 0 when it is not one (overlong
// forms, surrogates and what lies beyond U+10FFFF are none).
std::size_t decode(std::string_view text, std::size_t at, std::uint32_t& point) {
    const auto byte = [&](std::size_t i) {
        return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
    };
    const std::uint32_t lead = byte(at);
    if (lead < 0x80U) {
        point = lead;
        return 1;
    }
    std::size_t length = 0;
    std::uint32_t least = 0;
    if ((lead & 0xE0U) == 0xC0U) {
        length = 2;
        least = 0x80U;
        point = lead & 0x1FU;
    } else if ((lead & 0xF0U) == 0xE0U) {
        length = 3;
        least = 0x800U;
        point = lead & 0x0FU;
    } else if ((lead & 0xF8U) == 0xF0U) {
        length = 4;
        least = 0x10000U;
        point = lead & 0x07U;
    } else {
        return 0;
    }
    if (at + length > text.size())
        return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(at + i) & 0xC0U) != 0x80U)
            return 0;
        point = point << 6U | (byte(at + i) & 0x3FU);
    }
    if (point < least || point > 0x10FFFFU || (point >= 0xD800U && point <= 0xDFFFU))
        return 0;
    return length;
}

}  // namespace

std::string clean(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        std::uint32_t point = 0;
        const std::size_t length = decode(text, at, point);
        if (text[at] == '\r' && at + 1 < text.size() && text[at + 1] == '\n') {
            ++at;  // a line end of another system
            continue;
        }
        const bool control =
            (point < 0x20U && point != '\n' && point != '\t') || (point >= 0x7FU && point < 0xA0U);
        const bool direction = (point >= 0x202AU && point <= 0x202EU) ||
                               (point >= 0x2066U && point <= 0x2069U) || point == 0x200EU ||
                               point == 0x200FU || point == 0x061CU;
        if (length == 0 || control)
            out += "\ufffd";
        else if (direction)
            out += fmt::format("[U+{:04X}]", point);
        else
            out += text.substr(at, length);
        at += length == 0 ? 1 : length;
    }
    return out;
}

std::string html_escape(std::string_view text) {
    std::string out;
    for (const char c : clean(text)) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            case '\'':
                out += "&#39;";
                break;
            default:
                out += c;
        }
    }
    return out;
}

std::string json_for_script(std::string_view json) {
    // In a JSON document these characters stand only inside strings, where an escape means the
    // same.
    std::string out;
    out.reserve(json.size());
    for (std::size_t at = 0; at < json.size(); ++at) {
        const std::string_view rest = json.substr(at);
        if (json[at] == '<' || json[at] == '>' || json[at] == '&') {
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(json[at]));
        } else if (rest.starts_with("\u2028") || rest.starts_with("\u2029")) {
            out += rest.starts_with("\u2028") ? "\\u2028" : "\\u2029";
            at += 2;
        } else {
            out += json[at];
        }
    }
    return out;
}

std::string base64_of_hex(std::string_view hex) {
    static constexpr std::string_view alphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const auto digit = [](char c) {
        return static_cast<std::uint32_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    };
    std::string out;
    for (std::size_t at = 0; at < hex.size(); at += 6) {
        std::uint32_t bits = 0;
        std::size_t bytes = 0;
        for (std::size_t i = at; i < at + 6; i += 2) {
            bits <<= 8U;
            if (i + 1 < hex.size()) {
                bits |= digit(hex[i]) << 4U | digit(hex[i + 1]);
                ++bytes;
            }
        }
        for (std::size_t i = 0; i < 4; ++i)
            out += i <= bytes ? alphabet[bits >> (18U - 6U * i) & 0x3FU] : '=';
    }
    return out;
}

std::string csv_field(std::string_view text) {
    std::string value = clean(text);
    const bool number =
        !value.empty() && value.find_first_not_of("0123456789+-.eE") == std::string::npos;
    if (!number && !value.empty() &&
        std::string_view("=+-@\t").find(value.front()) != std::string_view::npos)
        value.insert(value.begin(), '\'');
    if (value.find_first_of(",\"\n") == std::string::npos)
        return value;
    std::string quoted = "\"";
    for (const char c : value) {
        if (c == '"')
            quoted += '"';
        quoted += c;
    }
    return quoted + "\"";
}

}  // namespace loopscope
