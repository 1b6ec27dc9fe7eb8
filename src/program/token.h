// Tokens of C-family sources, for everything that reads a program without compiling it. Never
// fails: what it does not know becomes a one-character token, and what ends too early is marked as
// cut.
#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

namespace loopscope {

enum class TokenKind { identifier, number, string, character, punctuator, comment, directive };

struct Token {
    TokenKind kind = TokenKind::punctuator;
    std::string_view
        text;  // into the source; a directive is its whole logical line without the line end
    std::size_t offset = 0;  // of its first byte
    int line = 1;            // of its first byte, from 1
    bool cut = false;        // a string, character or block comment that is not closed
};

// White space and line splices are dropped, comments and preprocessor lines are kept. The tokens
// refer to `source`, which must outlive them.
std::vector<Token> tokenize(std::string_view source);
// The same without comments.
std::vector<Token> code_tokens(std::string_view source);

}  // namespace loopscope
