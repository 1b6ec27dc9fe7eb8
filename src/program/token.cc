#include "program/token.h"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {
namespace {

// Not <cctype>: its answers depend on the locale, and bytes above 127 belong to identifiers here.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_identifier(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
           static_cast<unsigned char>(c) >= 0x80;
}
bool continues_identifier(char c) { return starts_identifier(c) || is_digit(c); }

// Longest first, so that the first match is the right one.
constexpr std::array<std::string_view, 26> punctuators = {
    "<<=", ">>=", "...", "->*", "<=>", "::", "->", "++", "--", "<<", ">>", "<=", ">=",
    "==",  "!=",  "&&",  "||",  "+=",  "-=", "*=", "/=", "%=", "&=", "|=", "^=", "##"};

class Scanner {
public:
    explicit Scanner(std::string_view source) : source_(source) {}

    std::vector<Token> scan() {
        while (skip_white_space())
            next_token();
        return std::move(tokens_);
    }

private:
    char at(std::size_t i) const { return i < source_.size() ? source_[i] : '\0'; }

    // Length of a line splice (backslash, line end) at i, or 0.
    std::size_t splice(std::size_t i) const {
        if (at(i) != '\\')
            return 0;
        if (at(i + 1) == '\n')
            return 2;
        return at(i + 1) == '\r' && at(i + 2) == '\n' ? 3 : 0;
    }

    // False at the end of the source.
    bool skip_white_space() {
        while (position_ < source_.size()) {
            const char c = source_[position_];
            if (const std::size_t length = splice(position_); length > 0) {
                position_ += length;
                ++line_;
            } else if (c == '\n') {
                ++position_;
                ++line_;
                line_start_ = true;
            } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v' || c == '\0') {
                ++position_;
            } else {
                return true;
            }
        }
        return false;
    }

    void emit(TokenKind kind, std::size_t end, bool cut = false) {
        Token token;
        token.kind = kind;
        token.offset = position_;
        token.text = source_.substr(position_, end - position_);
        token.line = line_;
        token.cut = cut;
        for (const char c : token.text)
            line_ += c == '\n' ? 1 : 0;
        tokens_.push_back(token);
        position_ = position_ + token.text.size();
        if (kind != TokenKind::comment)
            line_start_ = false;
    }

    void next_token() {
        const char c = source_[position_];
        if (c == '/' && at(position_ + 1) == '/')
            return emit(TokenKind::comment, line_end(position_));
        if (c == '/' && at(position_ + 1) == '*') {
            const std::size_t close = source_.find("*/", position_ + 2);
            const bool cut = close == std::string_view::npos;
            return emit(TokenKind::comment, cut ? source_.size() : close + 2, cut);
        }
        if (c == '#' && line_start_)
            return directive();
        if (starts_identifier(c)) {
            std::size_t end = position_ + 1;
            while (continues_identifier(at(end)) && end < source_.size())
                ++end;
            return word(end);
        }
        if (is_digit(c) || (c == '.' && is_digit(at(position_ + 1))))
            return number();
        if (c == '"')
            return quoted(position_, '"', TokenKind::string);
        if (c == '\'')
            return quoted(position_, '\'', TokenKind::character);
        for (const std::string_view p : punctuators)
            if (source_.substr(position_, p.size()) == p)
                return emit(TokenKind::punctuator, position_ + p.size());
        emit(TokenKind::punctuator, position_ + 1);
    }

    // An identifier, or the prefix of a literal.
    void word(std::size_t end) {
        const std::string_view prefix = source_.substr(position_, end - position_);
        const char next = at(end);
        const bool raw =
            prefix == "R" || prefix == "LR" || prefix == "uR" || prefix == "UR" || prefix == "u8R";
        const bool wide = prefix == "L" || prefix == "u" || prefix == "U" || prefix == "u8";
        if (next == '"' && raw)
            return raw_string(end);
        if (next == '"' && wide)
            return quoted(end, '"', TokenKind::string);
        if (next == '\'' && wide)
            return quoted(end, '\'', TokenKind::character);
        emit(TokenKind::identifier, end);
    }

    void number() {
        std::size_t end = position_ + 1;
        while (end < source_.size()) {
            const char c = source_[end];
            const char before = source_[end - 1];
            const bool exponent = before == 'e' || before == 'E' || before == 'p' || before == 'P';
            if (continues_identifier(c) || c == '.' || ((c == '+' || c == '-') && exponent) ||
                (c == '\'' && continues_identifier(at(end + 1))))
                ++end;
            else
                break;
        }
        emit(TokenKind::number, end);
    }

    void quoted(std::size_t open, char quote, TokenKind kind) {
        std::size_t end = open + 1;
        while (end < source_.size() && source_[end] != quote && source_[end] != '\n') {
            if (const std::size_t length = splice(end); length > 0)
                end += length;
            else
                end += source_[end] == '\\' && at(end + 1) != '\n' ? 2 : 1;
        }
        if (end < source_.size() && source_[end] == quote)
            return emit(kind, end + 1);
        emit(kind, end < source_.size() ? end : source_.size(), true);
    }

    void raw_string(std::size_t open) {
        const std::size_t paren = source_.find('(', open);
        // The delimiter has at most 16 characters; anything else is an ordinary string that happens
        // to follow an R.
        if (paren == std::string_view::npos || paren - open > 17)
            return quoted(open, '"', TokenKind::string);
        const std::string close =
            ")" + std::string(source_.substr(open + 1, paren - open - 1)) + "\"";
        const std::size_t end = source_.find(close, paren);
        const bool cut = end == std::string_view::npos;
        emit(TokenKind::string, cut ? source_.size() : end + close.size(), cut);
    }

    std::size_t line_end(std::size_t i) const {
        while (i < source_.size() && source_[i] != '\n') {
            const std::size_t length = splice(i);
            i += length > 0 ? length : 1;
        }
        if (i > source_.size())
            i = source_.size();
        return i > 0 && i < source_.size() && source_[i - 1] == '\r' ? i - 1 : i;
    }

    // A comment at the end of a directive is a token of its own; a block comment inside it belongs
    // to it.
    void directive() {
        std::size_t end = position_;
        while (end < source_.size() && source_[end] != '\n') {
            if (const std::size_t length = splice(end); length > 0) {
                end += length;
            } else if (source_[end] == '"') {  // "//" inside a string is no comment
                const std::size_t close = source_.find_first_of("\"\n", end + 1);
                if (close == std::string_view::npos)
                    end = source_.size();
                else
                    end = source_[close] == '"' ? close + 1 : close;
            } else if (source_[end] == '/' && at(end + 1) == '/') {
                break;
            } else if (source_[end] == '/' && at(end + 1) == '*') {
                const std::size_t close = source_.find("*/", end + 2);
                end = close == std::string_view::npos ? source_.size() : close + 2;
            } else {
                ++end;
            }
        }
        if (end > source_.size())
            end = source_.size();
        while (end > position_ + 1 &&
               (source_[end - 1] == ' ' || source_[end - 1] == '\t' || source_[end - 1] == '\r'))
            --end;
        emit(TokenKind::directive, end);
    }

    std::string_view source_;
    std::size_t position_ = 0;
    int line_ = 1;
    bool line_start_ = true;  // nothing but white space and comments before, on this line
    std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Scanner(source).scan(); }

std::vector<Token> code_tokens(std::string_view source) {
    std::vector<Token> tokens = tokenize(source);
    std::erase_if(tokens, [](const Token& token) { return token.kind == TokenKind::comment; });
    return tokens;
}

}  // namespace loopscope
