// The items of a file's outermost level - functions, declarations, preprocessor lines - so that an
// edit can be held to its part of the file: every other item must survive it.
#pragma once
#include "core/result.h"
#include "program/edit.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace loopscope {

enum class ItemKind {
    function,     // a definition with a body
    declaration,  // anything else: types, variables, prototypes, statements of Python
    directive,    // a preprocessor line, or a whole #if ... #endif group
    open,         // extern "C" { or namespace x {
    close,        // and its brace
};

struct Item {
    ItemKind kind = ItemKind::declaration;
    std::size_t begin =
        0;  // of the comments that stand directly before it, else of its first token
    std::size_t first = 0;  // its first token
    std::size_t body =
        0;  // a function's opening brace (or the end of Python's def line); else `end`
    std::size_t end = 0;  // one past its last token
    int line = 1;         // of `first`
    std::string name;     // what it declares, "" when that is not known; a function's may be "A::f"
    std::string normal;   // tokens joined by single spaces
    bool linkage = false;  // an open or close of extern "C"
};

struct ItemList {
    std::vector<Item> items;
    std::string
        cut;  // not empty: the text ends inside of this ("the body of f, which begins in line 3")
};

// `keep` names functions that are never swallowed by a group: a namespace or #if group without any
// of them is one item.
ItemList items_of(std::string_view source, std::string_view language,
                  const std::vector<std::string>& keep);

// True when `item` is the function `name`, with or without its qualification.
bool is_function(const Item& item, std::string_view name);

// The declaration without body, as signature_of() prints it.
std::string signature_text(std::string_view source, const Item& item, std::string_view language);

// normal_form() for one language.
std::string normal_form_of(std::string_view source, std::string_view language);
// "python" for .py, "text" for what is no source, else "cpp".
std::string_view language_of_file(std::string_view file);

}  // namespace loopscope
