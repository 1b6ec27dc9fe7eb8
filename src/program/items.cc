#include "program/items.h"

#include "core/result.h"
#include "program/edit.h"
#include "program/token.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace loopscope {
namespace {

bool is(const Token& token, std::string_view text) {
    return token.text == text && token.kind != TokenKind::string;
}

// The word after the # of a directive.
std::string_view directive_word(const Token& token) {
    std::string_view text = token.text.substr(1);
    const std::size_t begin = text.find_first_not_of(" \t");
    if (begin == std::string_view::npos)
        return {};
    text = text.substr(begin);
    const std::size_t end = text.find_first_of(" \t\r\n\\(<\"/!");
    return text.substr(0, end);
}

// Braces that preprocessor branches repeat count once: at #else the depth of its #if is restored.
class Depth {
public:
    void see(const Token& token) {
        if (token.kind == TokenKind::directive) {
            const std::string_view word = directive_word(token);
            if (word == "if" || word == "ifdef" || word == "ifndef")
                saved_.push_back(depth_);
            else if ((word == "else" || word == "elif") && !saved_.empty())
                depth_ = saved_.back();
            else if (word == "endif" && !saved_.empty())
                saved_.pop_back();
        } else if (is(token, "{") || is(token, "(") || is(token, "[")) {
            ++depth_;
        } else if (is(token, "}") || is(token, ")") || is(token, "]")) {
            --depth_;
        }
    }
    int depth() const { return depth_; }

private:
    int depth_ = 0;
    std::vector<int> saved_;
};

// Index one past the bracket that closes tokens[open], or tokens.size().
std::size_t matching(const std::vector<Token>& tokens, std::size_t open) {
    Depth depth;
    for (std::size_t i = open; i < tokens.size(); ++i) {
        depth.see(tokens[i]);
        if (depth.depth() <= 0 && tokens[i].kind != TokenKind::directive)
            return i + 1;
    }
    return tokens.size() + 1;
}

// Words that look like a call and are no declarator.
bool is_attribute_word(std::string_view text) {
    constexpr std::array<std::string_view, 13> words = {
        "__attribute__", "__declspec", "alignas",         "decltype",          "noexcept",
        "asm",           "__asm__",    "requires",        "__launch_bounds__", "_Alignas",
        "throw",         "explicit",   "__cluster_dims__"};
    return std::find(words.begin(), words.end(), text) != words.end();
}

// The name that tokens[begin, end) - a head that ends before a brace - declares as a function, or
// "".
std::string function_name(const std::vector<Token>& tokens, std::size_t begin, std::size_t end) {
    std::string found;
    for (std::size_t i = begin; i < end; ++i) {
        const Token& token = tokens[i];
        if (token.kind == TokenKind::directive)
            continue;
        if (is(token, "="))
            return {};
        if (is(token, ":") || is(token, "->"))
            break;  // constructor initialisers, trailing return type
        if (token.kind == TokenKind::identifier && is(token, "operator"))
            return "operator";
        if (is(token, "(") || is(token, "[")) {
            i = matching(tokens, i) - 1;
            continue;
        }
        if (token.kind == TokenKind::identifier && i + 1 < end && is(tokens[i + 1], "(") &&
            !is_attribute_word(token.text)) {
            found = std::string(token.text);
            for (std::size_t k = i; k >= begin + 2 && is(tokens[k - 1], "::") &&
                                    tokens[k - 2].kind == TokenKind::identifier;
                 k -= 2)
                found.insert(0, std::string(tokens[k - 2].text) + "::");
        }
    }
    return found;
}

std::string declared_name(const std::vector<Token>& tokens, std::size_t begin, std::size_t end) {
    if (begin >= end)
        return {};
    const Token& head = tokens[begin];
    if (head.kind == TokenKind::directive) {
        if (directive_word(head) != "define")
            return {};
        const std::size_t word = head.text.find("define") + 6;
        const std::size_t first = head.text.find_first_not_of(" \t", word);
        if (first == std::string_view::npos)
            return {};
        const std::size_t last = head.text.find_first_of(" \t(\r\n", first);
        return std::string(head.text.substr(first, last - first));
    }
    std::size_t i = begin;
    if (is(tokens[i], "template") && i + 1 < end && is(tokens[i + 1], "<")) {
        int angle = 0;
        for (++i; i < end; ++i) {
            angle += is(tokens[i], "<") ? 1 : 0;
            angle -= is(tokens[i], ">") ? 1 : is(tokens[i], ">>") ? 2 : 0;
            if (angle <= 0)
                break;
        }
        ++i;
    }
    std::string last;
    for (; i < end; ++i) {
        const Token& token = tokens[i];
        const bool record =
            is(token, "struct") || is(token, "class") || is(token, "union") || is(token, "enum");
        if (record && last.empty()) {
            const std::size_t name = i + 1 < end && is(tokens[i + 1], "class") ? i + 2 : i + 1;
            if (name + 1 < end && tokens[name].kind == TokenKind::identifier &&
                (is(tokens[name + 1], "{") || is(tokens[name + 1], ":")))
                return std::string(tokens[name].text);
        }
        if (is(token, "using") && i + 2 < end && is(tokens[i + 2], "="))
            return std::string(tokens[i + 1].text);
        if (is(token, "using"))
            return {};
        if (is(token, "(") && i > begin && tokens[i - 1].kind == TokenKind::identifier &&
            !is_attribute_word(tokens[i - 1].text))
            return {};  // a prototype may be repeated
        if (is(token, "=") || is(token, "[") || is(token, ";"))
            return last;
        if (is(token, "(") || is(token, "{")) {
            i = matching(tokens, i) - 1;
            continue;
        }
        if (token.kind == TokenKind::identifier && !is_attribute_word(token.text))
            last = std::string(token.text);
    }
    return last;
}

void append_normal(std::string& out, const Token& token) {
    if (token.kind != TokenKind::directive) {
        if (!out.empty() && out.back() != '\n')
            out += ' ';
        out += token.text;
        return;
    }
    if (!out.empty() && out.back() != '\n')
        out += '\n';
    out += '#';
    bool first = true;
    const std::vector<Token> words = code_tokens(token.text.substr(1));
    for (std::size_t i = 0; i < words.size(); ++i) {
        // `#define F(x)` and `#define F (x)` differ, so the gap before a parenthesis is kept.
        const bool joined =
            i > 0 && words[i].offset == words[i - 1].offset + words[i - 1].text.size();
        if (!first && !(joined && words[i].text == "("))
            out += ' ';
        out += words[i].text;
        first = false;
    }
    out += '\n';
}

std::string normal_text(const std::vector<Token>& tokens, std::size_t begin, std::size_t end) {
    std::string out;
    for (std::size_t i = begin; i < end && i < tokens.size(); ++i)
        append_normal(out, tokens[i]);
    while (!out.empty() && out.back() == '\n')
        out.pop_back();
    return out;
}

class ItemScanner {
public:
    ItemScanner(std::string_view source, const std::vector<std::string>& keep)
        : source_(source), keep_(keep), tokens_(code_tokens(source)) {}

    ItemList scan() {
        std::size_t i = 0;
        while (i < tokens_.size() && list_.cut.empty())
            i = next(i);
        if (list_.cut.empty() && !scopes_.empty())
            list_.cut = fmt::format("the block that begins in line {}", scopes_.back().line);
        attach_comments();
        group_conditionals();
        group_namespaces();
        return std::move(list_);
    }

private:
    struct Scope {
        bool linkage = false;
        int line = 0;
    };

    std::size_t push(ItemKind kind, std::size_t begin, std::size_t end, std::string name = {}) {
        Item item;
        item.kind = kind;
        item.first = item.begin = tokens_[begin].offset;
        const Token& last = tokens_[end - 1];
        item.body = item.end = last.offset + last.text.size();
        item.line = tokens_[begin].line;
        item.name = std::move(name);
        item.normal = normal_text(tokens_, begin, end);
        list_.items.push_back(std::move(item));
        return end;
    }

    std::size_t next(std::size_t begin) {
        const Token& head = tokens_[begin];
        if (head.kind == TokenKind::directive)
            return push(ItemKind::directive, begin, begin + 1,
                        declared_name(tokens_, begin, begin + 1));
        if (is(head, "}")) {
            push(ItemKind::close, begin, begin + 1);
            if (!scopes_.empty()) {
                list_.items.back().linkage = scopes_.back().linkage;
                scopes_.pop_back();
            }
            return begin + 1;
        }
        const bool inline_namespace =
            is(head, "inline") && begin + 1 < tokens_.size() && is(tokens_[begin + 1], "namespace");
        const bool space = is(head, "namespace") || inline_namespace;
        const bool linkage = is(head, "extern") && begin + 2 < tokens_.size() &&
                             tokens_[begin + 1].kind == TokenKind::string &&
                             is(tokens_[begin + 2], "{");
        for (std::size_t i = begin; i < tokens_.size(); ++i) {
            const Token& token = tokens_[i];
            if (is(token, ";"))
                return push(ItemKind::declaration, begin, i + 1,
                            declared_name(tokens_, begin, i + 1));
            if (is(token, "{") && (linkage || space)) {
                scopes_.push_back({linkage, token.line});
                push(ItemKind::open, begin, i + 1);
                list_.items.back().linkage = linkage;
                return i + 1;
            }
            if (is(token, "}"))  // a stray brace ends what came before it
                return push(ItemKind::declaration, begin, i);
            if (is(token, "(") || is(token, "[") || is(token, "{")) {
                const std::string name = is(token, "{") ? function_name(tokens_, begin, i) : "";
                const std::size_t close = matching(tokens_, i);
                if (close > tokens_.size()) {
                    list_.cut =
                        name.empty()
                            ? fmt::format("the bracket \"{}\" of line {}", token.text, token.line)
                            : fmt::format("the body of {}, which begins in line {}", name,
                                          token.line);
                    push(name.empty() ? ItemKind::declaration : ItemKind::function, begin,
                         tokens_.size(), name);
                    list_.items.back().body = token.offset;
                    return tokens_.size();
                }
                if (!name.empty()) {
                    push(ItemKind::function, begin, close, name);
                    list_.items.back().body = token.offset;
                    return close;
                }
                i = close - 1;
            }
        }
        return push(ItemKind::declaration, begin, tokens_.size(),
                    declared_name(tokens_, begin, tokens_.size()));
    }

    // Comments above an item, with no empty line between, go with it.
    void attach_comments() {
        const std::vector<Token> all = tokenize(source_);
        std::size_t t = 0;
        std::size_t floor = 0;
        for (Item& item : list_.items) {
            while (t < all.size() && all[t].offset < item.first)
                ++t;
            for (std::size_t k = t; k > 0; --k) {
                const Token& comment = all[k - 1];
                if (comment.kind != TokenKind::comment || comment.offset < floor)
                    break;
                const std::string_view gap =
                    source_.substr(comment.offset + comment.text.size(),
                                   item.begin - comment.offset - comment.text.size());
                if (std::count(gap.begin(), gap.end(), '\n') > 1)
                    break;
                // A comment behind other code on its line belongs to that code.
                std::size_t start = comment.offset;
                while (start > 0 && (source_[start - 1] == ' ' || source_[start - 1] == '\t'))
                    --start;
                if (start > 0 && source_[start - 1] != '\n')
                    break;
                item.begin = comment.offset;
            }
            floor = item.end;
        }
    }

    bool holds_kept(std::size_t begin, std::size_t end) const {
        for (std::size_t i = begin; i < end; ++i)
            for (const std::string& name : keep_)
                if (is_function(list_.items[i], name))
                    return true;
        return false;
    }

    void collapse(std::size_t begin, std::size_t end, ItemKind kind) {
        Item group = list_.items[begin];
        group.kind = kind;
        group.body = group.end = list_.items[end - 1].end;
        for (std::size_t i = begin + 1; i < end; ++i)
            group.normal += "\n" + list_.items[i].normal;
        for (std::size_t i = begin; i < end; ++i)
            group.linkage = group.linkage || list_.items[i].linkage;
        const auto at = list_.items.begin();
        list_.items.erase(at + static_cast<std::ptrdiff_t>(begin) + 1,
                          at + static_cast<std::ptrdiff_t>(end));
        list_.items[begin] = std::move(group);
    }

    static std::string_view word_of(const Item& item) {
        if (item.kind != ItemKind::directive || item.normal.size() < 2)
            return {};
        const std::string_view text = std::string_view(item.normal).substr(1);
        return text.substr(0, text.find_first_of(" \n("));
    }

    // Each outermost #if ... #endif without a kept function becomes one item: its lines only make
    // sense together.
    void group_conditionals() {
        for (std::size_t i = 0; i < list_.items.size(); ++i) {
            const std::string_view word = word_of(list_.items[i]);
            if (word != "if" && word != "ifdef" && word != "ifndef")
                continue;
            int depth = 0;
            int balance = 0;
            std::size_t end = i;
            for (; end < list_.items.size(); ++end) {
                const std::string_view inner = word_of(list_.items[end]);
                depth += inner == "if" || inner == "ifdef" || inner == "ifndef" ? 1 : 0;
                depth -= inner == "endif" ? 1 : 0;
                balance += list_.items[end].kind == ItemKind::open ? 1 : 0;
                balance -= list_.items[end].kind == ItemKind::close ? 1 : 0;
                if (depth == 0)
                    break;
            }
            if (end == list_.items.size() || holds_kept(i, end + 1))
                continue;
            collapse(i, end + 1,
                     balance > 0   ? ItemKind::open
                     : balance < 0 ? ItemKind::close
                                   : ItemKind::directive);
        }
    }

    void group_namespaces() {
        for (std::size_t i = 0; i < list_.items.size(); ++i) {
            if (list_.items[i].kind != ItemKind::open || list_.items[i].linkage)
                continue;
            int depth = 0;
            for (std::size_t end = i; end < list_.items.size(); ++end) {
                depth += list_.items[end].kind == ItemKind::open ? 1 : 0;
                depth -= list_.items[end].kind == ItemKind::close ? 1 : 0;
                if (depth > 0)
                    continue;
                if (!holds_kept(i, end + 1))
                    collapse(i, end + 1, ItemKind::declaration);
                break;
            }
        }
    }

    std::string_view source_;
    const std::vector<std::string>& keep_;
    std::vector<Token> tokens_;
    std::vector<Scope> scopes_;
    ItemList list_;
};

// A logical line of Python: brackets and triple-quoted strings may carry it over line ends.
struct PythonLine {
    std::size_t begin = 0, end = 0;  // without the line end
    int line = 1;
    std::size_t indent = 0;
    std::string code;  // comments removed, white space at the end removed
    bool cut = false;  // a bracket or triple-quoted string is open at the end of the text
};

std::vector<PythonLine> python_lines(std::string_view source) {
    std::vector<PythonLine> lines;
    PythonLine current;
    int line = 1;
    int depth = 0;
    std::size_t i = 0;
    auto finish = [&](std::size_t end) {
        while (!current.code.empty() &&
               (current.code.back() == ' ' || current.code.back() == '\t' ||
                current.code.back() == '\r'))
            current.code.pop_back();
        current.end = end;
        const std::size_t first = current.code.find_first_not_of(" \t");
        if (first != std::string::npos) {
            current.indent = first;
            lines.push_back(current);
        }
    };
    while (i < source.size()) {
        const char c = source[i];
        if (c == '#') {
            while (i < source.size() && source[i] != '\n')
                ++i;
        } else if (c == '"' || c == '\'') {
            const bool triple = source.substr(i, 3) == std::string(3, c);
            const std::size_t start = i;
            i += triple ? 3 : 1;
            bool closed = false;
            while (i < source.size() && !closed) {
                if (source[i] == '\\') {
                    i += 2;
                } else if (triple ? source.substr(i, 3) == std::string(3, c) : source[i] == c) {
                    i += triple ? 3 : 1;
                    closed = true;
                } else if (!triple && source[i] == '\n') {
                    closed = true;
                } else {
                    ++i;
                }
            }
            i = std::min(i, source.size());
            current.cut = !closed;
            const std::string_view text = source.substr(start, i - start);
            line += static_cast<int>(std::count(text.begin(), text.end(), '\n'));
            current.code += text;
        } else if (c == '\n') {
            const bool continues = depth > 0 || (i > 0 && source[i - 1] == '\\');
            ++line;
            if (continues) {
                current.code += ' ';
            } else {
                finish(i);
                current = PythonLine();
                current.begin = i + 1;
                current.line = line;
            }
            ++i;
        } else {
            depth += c == '(' || c == '[' || c == '{' ? 1 : 0;
            depth -= c == ')' || c == ']' || c == '}' ? 1 : 0;
            depth = std::max(depth, 0);
            current.code += c;
            ++i;
        }
    }
    current.cut = current.cut || depth > 0;
    finish(source.size());
    return lines;
}

bool starts_with(std::string_view text, std::string_view word) {
    return text.substr(0, word.size()) == word;
}

std::string python_name(std::string_view code) {
    for (const std::string_view word : {"def ", "async def ", "class "})
        if (starts_with(code, word)) {
            const std::string_view rest = code.substr(word.size());
            return std::string(rest.substr(0, rest.find_first_of(" (:[")));
        }
    return {};
}

ItemList python_items(std::string_view source) {
    ItemList list;
    const std::vector<PythonLine> lines = python_lines(source);
    bool decorated = false;
    for (const PythonLine& line : lines) {
        bool joins = line.indent > 0 || decorated;
        for (const std::string_view word : {"else:", "elif ", "except", "finally:", ")"})
            joins = joins || starts_with(line.code, word);
        if (!joins || list.items.empty()) {
            Item item;
            item.begin = item.first = line.begin;
            item.line = line.line;
            list.items.push_back(item);
        }
        Item& item = list.items.back();
        item.normal += line.code + "\n";
        item.end = line.end;
        if (line.indent == 0 && item.name.empty()) {
            item.name = python_name(line.code);
            if (!item.name.empty()) {
                item.kind = ItemKind::function;
                item.body = line.end;
            } else if (!starts_with(line.code, "@")) {
                const std::size_t assign = line.code.find('=');
                const std::size_t word = line.code.find_first_of(" =(.[:");
                if (assign != std::string::npos && word != std::string::npos &&
                    line.code.find_first_not_of(' ', word) == assign)
                    item.name = line.code.substr(0, word);
            }
        }
        if (item.kind != ItemKind::function)
            item.body = item.end;
        decorated = line.indent == 0 && starts_with(line.code, "@");
        if (line.cut)
            list.cut = fmt::format("the statement that begins in line {}", line.line);
    }
    if (list.cut.empty() && !lines.empty() && list.items.back().kind == ItemKind::function &&
        lines.back().code.back() == ':')
        list.cut = fmt::format("the block that begins in line {}", lines.back().line);
    // Comments above an item, with no empty line between, go with it.
    std::size_t floor = 0;
    for (Item& item : list.items) {
        while (item.begin > floor) {
            const std::size_t previous =
                item.begin >= 2 ? source.rfind('\n', item.begin - 2) : std::string_view::npos;
            const std::size_t start = previous == std::string_view::npos ? 0 : previous + 1;
            if (start < floor || start >= item.begin || source[start] != '#')
                break;
            item.begin = start;
        }
        floor = item.end;
    }
    return list;
}

}  // namespace

ItemList items_of(std::string_view source, std::string_view language,
                  const std::vector<std::string>& keep) {
    return language == "python" ? python_items(source) : ItemScanner(source, keep).scan();
}

bool is_function(const Item& item, std::string_view name) {
    if (item.kind != ItemKind::function)
        return false;
    if (item.name == name)
        return true;
    const std::string suffix = "::" + std::string(name);
    return item.name.size() > suffix.size() &&
           item.name.compare(item.name.size() - suffix.size(), suffix.size(), suffix) == 0;
}

std::string signature_text(std::string_view source, const Item& item, std::string_view language) {
    const std::string_view head = source.substr(item.first, item.body - item.first);
    if (language == "python") {
        std::string out;
        for (const PythonLine& line : python_lines(head))
            if (!starts_with(line.code, "@"))
                out += line.code;
        return out;
    }
    std::string out;
    std::string_view before;
    bool word_before = false;
    const std::vector<Token> tokens = code_tokens(head);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        const Token& token = tokens[i];
        if (is(token, "extern") && i + 1 < tokens.size() &&
            tokens[i + 1].kind == TokenKind::string) {
            ++i;
            continue;
        }
        const bool word = token.kind != TokenKind::punctuator;
        const bool after_pointer = before == "*" || before == "&" || before == "&&" ||
                                   before == "]" || before == ">" || before == ")";
        const bool operator_space =
            token.text == "=" || before == "=" || token.text == "->" || before == "->";
        if (!out.empty() &&
            ((word && (word_before || after_pointer)) || before == "," || operator_space))
            out += ' ';
        out += token.text;
        before = token.text;
        word_before = word;
    }
    return out;
}

std::string normal_form_of(std::string_view source, std::string_view language) {
    std::string out;
    if (language == "python") {
        for (const PythonLine& line : python_lines(source))
            out += line.code + "\n";
        return out;
    }
    if (language == "text") {
        std::size_t begin = 0;
        while (begin < source.size()) {
            const std::size_t end = std::min(source.find('\n', begin), source.size());
            std::string_view line = source.substr(begin, end - begin);
            line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
            out += line;
            out += '\n';
            begin = end + 1;
        }
        while (!out.empty() && out.back() == '\n')
            out.pop_back();
        return out;
    }
    for (const Token& token : code_tokens(source))
        append_normal(out, token);
    return out;
}

std::string_view language_of_file(std::string_view file) {
    const std::size_t dot = file.rfind('.');
    const std::string_view extension = dot == std::string_view::npos ? "" : file.substr(dot + 1);
    if (extension == "py")
        return "python";
    constexpr std::array<std::string_view, 15> sources = {"c",  "cc",  "cpp", "cxx", "h",
                                                          "hh", "hpp", "hxx", "cu",  "cuh",
                                                          "cl", "inl", "hip", "ipp", "inc"};
    return std::find(sources.begin(), sources.end(), extension) != sources.end() ? "cpp" : "text";
}

// --- the public functions of edit.h that read one source

namespace {

Result<Item> the_function(std::string_view source, std::string_view name, ItemList& list) {
    list = items_of(source, "cpp", {std::string(name)});
    const Item* found = nullptr;
    std::string others;
    for (const Item& item : list.items) {
        if (item.kind == ItemKind::function && !is_function(item, name))
            others += (others.empty() ? "" : ", ") + item.name;
        if (!is_function(item, name))
            continue;
        if (found != nullptr)
            return fail(
                "", fmt::format("`{}` is defined twice, in lines {} and {}; leave one definition",
                                name, found->line, item.line));
        found = &item;
    }
    if (found == nullptr)
        return fail("", fmt::format("no definition of the function `{}`{}", name,
                                    others.empty() ? std::string("; there is no function at all")
                                                   : "; defined are: " + others));
    if (!list.cut.empty() && found == &list.items.back())
        return fail("", fmt::format("{} is not closed", list.cut));
    return *found;
}

}  // namespace

Result<FunctionSpan> find_function(std::string_view source, std::string_view name) {
    ItemList list;
    const Result<Item> item = the_function(source, name, list);
    if (!item)
        return tl::unexpected<Error>(item.error());
    FunctionSpan span;
    span.begin = item->first;
    span.body_begin = item->body;
    span.end = item->end;
    return span;
}

Result<std::string> signature_of(std::string_view source, std::string_view name) {
    ItemList list;
    const Result<Item> item = the_function(source, name, list);
    if (!item)
        return tl::unexpected<Error>(item.error());
    return signature_text(source, *item, "cpp");
}

std::string normal_form(std::string_view source) { return normal_form_of(source, "cpp"); }

std::string normal_form(const Program& program) {
    std::string out;
    for (const auto& [file, text] : program.files) {
        const std::string normal = normal_form_of(text, language_of_file(file));
        // Lengths, so that no text can imitate a boundary between files.
        out += fmt::format("{} {}\n{}\n", file, normal.size(), normal);
    }
    return out;
}

}  // namespace loopscope
