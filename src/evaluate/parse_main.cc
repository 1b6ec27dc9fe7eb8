// loopscope-parse: prints the structure of C-family sources as one JSON document (evaluate/parse.h
// is its form in memory).
//
//     loopscope-parse FILE... [-- COMPILER FLAG...]
//
// Runs inside the sandbox, in the artifact's folder: the text that it reads may be hostile, so
// nothing of ours shares its process. Sources with errors are read as far as libclang recovers.
// Exit: 0 printed, 2 usage, 3 nothing could be read.
//
// Addresses are followed as polynomials in bytes: a loop variable stands for lower + step * t, with
// t the loop's iteration counter, so that a tile loop gets its stride through the lower bound of
// the loop inside it; locals that are set once stand for their value; pointers and indices that one
// statement of a loop advances are induction variables.
#include "evaluate/affine.h"

#include <fmt/format.h>

#include <clang-c/Index.h>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

using loopscope::affine::Polynomial;
using loopscope::affine::Symbol;
using loopscope::affine::Symbols;
using nlohmann::json;

// Limits on what is printed and on recursion: a hostile source must not exhaust the reader.
constexpr std::size_t max_functions = 100, max_loops = 300, max_accesses = 1000, max_text = 160;
constexpr int max_nesting = 1500;

std::string take(CXString text) {
    const char* bytes = clang_getCString(text);
    std::string copy = bytes == nullptr ? "" : bytes;
    clang_disposeString(text);
    return copy;
}

std::vector<CXCursor> children(CXCursor cursor) {
    std::vector<CXCursor> found;
    clang_visitChildren(
        cursor,
        [](CXCursor child, CXCursor, CXClientData data) {
            static_cast<std::vector<CXCursor>*>(data)->push_back(child);
            return CXChildVisit_Continue;
        },
        &found);
    return found;
}

bool is_cast(CXCursorKind kind) {
    return kind == CXCursor_CStyleCastExpr || kind == CXCursor_CXXStaticCastExpr ||
           kind == CXCursor_CXXReinterpretCastExpr || kind == CXCursor_CXXConstCastExpr ||
           kind == CXCursor_CXXFunctionalCastExpr;
}

// The expression below parentheses and conversions that libclang does not name.
CXCursor strip(CXCursor cursor) {
    for (;;) {
        if (cursor.kind != CXCursor_UnexposedExpr && cursor.kind != CXCursor_ParenExpr)
            return cursor;
        const std::vector<CXCursor> inner = children(cursor);
        if (inner.size() != 1 || clang_isExpression(inner[0].kind) == 0)
            return cursor;
        cursor = inner[0];
    }
}

// As strip, explicit casts too.
CXCursor strip_casts(CXCursor cursor) {
    for (;;) {
        cursor = strip(cursor);
        if (!is_cast(cursor.kind))
            return cursor;
        const std::vector<CXCursor> inner = children(cursor);
        if (inner.empty() || clang_isExpression(inner.back().kind) == 0)
            return cursor;
        cursor = inner.back();
    }
}

CXType type_of(CXCursor cursor) { return clang_getCanonicalType(clang_getCursorType(cursor)); }

bool is_array(CXType type) {
    return type.kind == CXType_ConstantArray || type.kind == CXType_IncompleteArray ||
           type.kind == CXType_VariableArray || type.kind == CXType_DependentSizedArray;
}
bool is_pointer(CXType type) { return type.kind == CXType_Pointer; }
bool is_vector(CXType type) { return type.kind == CXType_Vector || type.kind == CXType_ExtVector; }
bool is_floating(CXType type) {
    if (is_vector(type))
        return is_floating(clang_getCanonicalType(clang_getElementType(type)));
    return (type.kind >= CXType_Float && type.kind <= CXType_LongDouble) ||
           type.kind == CXType_Float128 || type.kind == CXType_Half ||
           type.kind == CXType_Float16 || type.kind == CXType_BFloat16;
}
bool is_integer(CXType type) { return type.kind >= CXType_Bool && type.kind <= CXType_Int128; }

CXType pointee_of(CXType type) {
    if (is_array(type))
        return clang_getCanonicalType(clang_getArrayElementType(type));
    return clang_getCanonicalType(clang_getPointeeType(type));
}
long long size_of(CXType type) { return std::max<long long>(0, clang_Type_getSizeOf(type)); }
int lanes_of(CXType type) {
    return is_vector(type) ? static_cast<int>(clang_getNumElements(type)) : 1;
}

struct Place {
    CXFile file = nullptr;
    unsigned line = 0, column = 0, offset = 0;
};
Place place_of(CXSourceLocation location) {
    Place place;
    clang_getExpansionLocation(location, &place.file, &place.line, &place.column, &place.offset);
    return place;
}
Place start_of(CXCursor cursor) {
    return place_of(clang_getRangeStart(clang_getCursorExtent(cursor)));
}
Place end_of(CXCursor cursor) { return place_of(clang_getRangeEnd(clang_getCursorExtent(cursor))); }

// A declaration's name in our tables: two variables of one name differ in their place.
std::string key_of(CXCursor declaration) {
    const Place place = place_of(clang_getCursorLocation(declaration));
    return fmt::format("{}@{}:{}", take(clang_getCursorSpelling(declaration)), place.line,
                       place.offset);
}

struct Operations {
    long long adds = 0, multiplies = 0, divisions = 0, square_roots = 0, calls = 0;
};

struct Loop {
    int id = 0, parent = -1, depth = 1;
    Place start;
    unsigned end_line = 0;
    std::string kind, variable, key, lower_text, comparison, upper_text, step_text, condition;
    std::optional<Polynomial> lower, upper, step;
    std::set<int> bound_varies;  // loops with which its condition changes
    bool innermost = true;
    Operations operations;
    std::vector<int> branch_lines;
    std::vector<std::string> calls;
};

// One place that changes a local variable.
struct Change {
    int loop = -1;          // innermost loop around it
    bool direct = true;     // executed once in every iteration of that loop
    bool header = false;    // in the increment of a for statement
    bool initial = false;   // the first assignment in the header of a for statement
    bool advances = false;  // ++, --, += or -= with a delta
    int sign = 1;
    std::optional<CXCursor> delta;  // absent: 1
};

struct Local {
    int loop = -1;  // innermost loop around its declaration
    std::optional<CXCursor> initialiser;
    std::vector<Change> changes;
    bool parameter = false;
};

struct Address {
    std::string base;
    bool parameter = false;
    Polynomial bytes;
};

enum class Usage { read, write, update, none };

class FunctionReader {
public:
    FunctionReader(CXTranslationUnit unit, CXCursor function) : unit_(unit), function_(function) {}

    json read(bool& cut) {
        CXCursor body = clang_getNullCursor();
        json parameters = json::array();
        for (const CXCursor child : children(function_)) {
            if (child.kind == CXCursor_ParmDecl) {
                locals_[key_of(child)].parameter = true;
                parameters.push_back(take(clang_getCursorSpelling(child)));
            } else if (child.kind == CXCursor_CompoundStmt) {
                body = child;
            }
        }
        survey(body, -1, true, 0);
        statement(body, 0);
        cut = cut || cut_;
        return document(std::move(parameters));
    }

private:
    CXTranslationUnit unit_;
    CXCursor function_;
    Symbols symbols_;
    std::vector<Loop> loops_;
    std::map<unsigned, int> loop_at_;  // offset of the statement -> id
    std::map<std::string, Local> locals_;
    std::map<std::string, Polynomial>
        values_;  // integers that are set once, once their declaration was passed
    std::map<std::string, Address> addresses_;  // the same of pointers
    std::vector<int> around_;  // loops around the current statement, outermost first
    int conditions_ = 0;       // ifs around it within the innermost loop
    std::set<std::string> resolving_;
    std::string disregarded_;  // a variable that dependences() leaves out
    json accesses_ = json::array();
    std::map<std::string, std::size_t> access_at_;
    json reductions_ = json::array();
    Operations outside_;
    bool cut_ = false;

    // --- text

    std::string_view contents(CXFile file) const {
        std::size_t size = 0;
        const char* bytes = clang_getFileContents(unit_, file, &size);
        return bytes == nullptr ? std::string_view() : std::string_view(bytes, size);
    }

    std::string text_of(CXCursor cursor) const {
        const Place from = start_of(cursor), to = end_of(cursor);
        if (from.file == nullptr || to.file == nullptr ||
            clang_File_isEqual(from.file, to.file) == 0)
            return "";
        const std::string_view all = contents(from.file);
        if (from.offset > to.offset || to.offset > all.size())
            return "";
        std::string text;
        for (const char c : all.substr(from.offset, to.offset - from.offset)) {
            const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
            if (!space)
                text += c;
            else if (!text.empty() && text.back() != ' ')
                text += ' ';
            if (text.size() >= max_text)
                return text + "...";
        }
        return text;
    }

    int current_loop() const { return around_.empty() ? -1 : around_.back(); }
    Loop* loop_of(int id) { return id < 0 ? nullptr : &loops_[static_cast<std::size_t>(id)]; }
    const Loop* loop_of(int id) const {
        return id < 0 ? nullptr : &loops_[static_cast<std::size_t>(id)];
    }
    // `inner` is `outer` or lies in it.
    bool within(int inner, int outer) const {
        for (int id = inner; id >= 0; id = loop_of(id)->parent) {
            if (id == outer)
                return true;
        }
        return outer < 0;
    }
    Operations& operations() {
        Loop* loop = loop_of(current_loop());
        return loop == nullptr ? outside_ : loop->operations;
    }

    // --- the header of a for statement

    struct ForParts {
        std::optional<CXCursor> init, condition, increment, body;
    };

    // libclang leaves absent parts out of the children: the semicolons tell which are there.
    ForParts parts_of(CXCursor loop) const {
        ForParts parts;
        std::vector<CXCursor> inner = children(loop);
        if (inner.empty())
            return parts;
        parts.body = inner.back();
        inner.pop_back();
        const Place from = start_of(loop), to = start_of(*parts.body);
        const std::string_view all =
            from.file == nullptr ? std::string_view() : contents(from.file);
        std::vector<unsigned> semicolons;
        int depth = 0;
        for (unsigned at = from.offset; at < to.offset && at < all.size(); ++at) {
            const char c = all[at];
            if (c == '"' || c == '\'') {
                for (++at; at < to.offset && all[at] != c; ++at)
                    at += all[at] == '\\' ? 1 : 0;
            } else if (c == '/' && at + 1 < to.offset && all[at + 1] == '*') {
                const std::size_t end = all.find("*/", at + 2);
                at = end == std::string_view::npos ? to.offset : static_cast<unsigned>(end) + 1;
            } else if (c == '/' && at + 1 < to.offset && all[at + 1] == '/') {
                const std::size_t end = all.find('\n', at);
                at = end == std::string_view::npos ? to.offset : static_cast<unsigned>(end);
            } else if (c == '(' || c == '[' || c == '{') {
                ++depth;
            } else if (c == ')' || c == ']' || c == '}') {
                --depth;
            } else if (c == ';' && depth == 1) {
                semicolons.push_back(at);
            }
        }
        if (semicolons.size() < 2)
            return parts;
        for (const CXCursor child : inner) {
            const unsigned offset = start_of(child).offset;
            if (offset < semicolons[0])
                parts.init = child;
            else if (offset < semicolons[1])
                parts.condition = child;
            else
                parts.increment = child;
        }
        return parts;
    }

    // --- first pass: loops, declarations and everything that changes a local

    void survey_expression(CXCursor cursor, int loop, bool direct, bool header, bool initial,
                           int nesting) {
        if (nesting > max_nesting) {
            cut_ = true;
            return;
        }
        const CXCursor expression = strip(cursor);
        const std::vector<CXCursor> inner = children(expression);
        const auto change = [&](CXCursor target, Change what) {
            target = strip_casts(target);
            if (target.kind != CXCursor_DeclRefExpr)
                return;
            what.loop = loop;
            what.direct = direct;
            what.header = header;
            what.initial = initial;
            locals_[key_of(clang_getCursorReferenced(target))].changes.push_back(what);
        };
        bool still_direct = direct;
        if (expression.kind == CXCursor_UnaryOperator && inner.size() == 1) {
            const CXUnaryOperatorKind op = clang_getCursorUnaryOperatorKind(expression);
            if (op >= CXUnaryOperator_PostInc && op <= CXUnaryOperator_PreDec) {
                Change what;
                what.advances = true;
                what.sign = op == CXUnaryOperator_PostInc || op == CXUnaryOperator_PreInc ? 1 : -1;
                change(inner[0], what);
            } else if (op == CXUnaryOperator_AddrOf) {
                change(inner[0], Change{});  // whoever holds the address may write
            }
        } else if (expression.kind == CXCursor_CompoundAssignOperator && inner.size() == 2) {
            const CXBinaryOperatorKind op = clang_getCursorBinaryOperatorKind(expression);
            Change what;
            what.advances = op == CXBinaryOperator_AddAssign || op == CXBinaryOperator_SubAssign;
            what.sign = op == CXBinaryOperator_AddAssign ? 1 : -1;
            what.delta = inner[1];
            change(inner[0], what);
        } else if (expression.kind == CXCursor_BinaryOperator && inner.size() == 2) {
            const CXBinaryOperatorKind op = clang_getCursorBinaryOperatorKind(expression);
            if (op == CXBinaryOperator_Assign) {
                Change what;
                what.delta = inner[1];
                // "i = i + 2" advances as "i += 2" does.
                const CXCursor sum = strip(inner[1]);
                const std::vector<CXCursor> terms = children(sum);
                const CXCursor target = strip_casts(inner[0]);
                const CXBinaryOperatorKind sum_op = clang_getCursorBinaryOperatorKind(sum);
                if (sum.kind == CXCursor_BinaryOperator && terms.size() == 2 &&
                    (sum_op == CXBinaryOperator_Add || sum_op == CXBinaryOperator_Sub)) {
                    const CXCursor first = strip_casts(terms[0]);
                    if (first.kind == CXCursor_DeclRefExpr && target.kind == CXCursor_DeclRefExpr &&
                        clang_equalCursors(clang_getCursorReferenced(first),
                                           clang_getCursorReferenced(target)) != 0) {
                        what.advances = true;
                        what.sign = sum_op == CXBinaryOperator_Add ? 1 : -1;
                        what.delta = terms[1];
                    }
                }
                change(inner[0], what);
            }
            still_direct = direct && op != CXBinaryOperator_LAnd && op != CXBinaryOperator_LOr;
        } else if (expression.kind == CXCursor_CallExpr) {
            for (const CXCursor argument : inner) {
                // An lvalue argument that is not loaded is bound to a reference.
                if (argument.kind == CXCursor_DeclRefExpr && is_integer_or_pointer(argument))
                    change(argument, Change{});
            }
        } else if (expression.kind == CXCursor_ConditionalOperator) {
            still_direct = false;
        }
        for (const CXCursor child : inner) {
            if (child.kind == CXCursor_CompoundStmt)
                survey(child, loop, false, nesting + 1);
            else if (clang_isExpression(child.kind) != 0)
                survey_expression(child, loop, still_direct, header, initial, nesting + 1);
        }
    }

    static bool is_integer_or_pointer(CXCursor cursor) {
        const CXType type = type_of(cursor);
        return is_integer(type) || is_pointer(type);
    }

    static std::optional<CXCursor> initialiser_of(CXCursor variable) {
        const std::vector<CXCursor> inner = children(variable);
        if (inner.empty() || clang_isExpression(inner.back().kind) == 0)
            return std::nullopt;
        if (is_array(type_of(variable)))
            return std::nullopt;  // the last child may be the array's bound
        CXCursor value = inner.back();
        const CXCursor stripped = strip(value);
        if (stripped.kind == CXCursor_InitListExpr) {
            const std::vector<CXCursor> values = children(stripped);
            if (values.size() != 1)
                return std::nullopt;
            value = values[0];
        }
        return value;
    }

    void survey_declaration(CXCursor statement, int loop, bool direct, int nesting) {
        for (const CXCursor variable : children(statement)) {
            if (variable.kind != CXCursor_VarDecl)
                continue;
            Local& local = locals_[key_of(variable)];
            local.loop = loop;
            local.initialiser = initialiser_of(variable);
            for (const CXCursor child : children(variable)) {
                if (clang_isExpression(child.kind) != 0)
                    survey_expression(child, loop, direct, false, false, nesting + 1);
            }
        }
    }

    void survey(CXCursor cursor, int loop, bool direct, int nesting) {
        if (nesting > max_nesting) {
            cut_ = true;
            return;
        }
        switch (cursor.kind) {
            case CXCursor_DeclStmt:
                survey_declaration(cursor, loop, direct, nesting);
                return;
            case CXCursor_ForStmt:
            case CXCursor_WhileStmt:
            case CXCursor_DoStmt:
            case CXCursor_CXXForRangeStmt: {
                const int id = add_loop(cursor, loop);
                if (id < 0)
                    return;
                if (cursor.kind == CXCursor_ForStmt) {
                    const ForParts parts = parts_of(cursor);
                    if (parts.init) {
                        if (clang_isExpression(parts.init->kind) != 0)
                            survey_expression(*parts.init, loop, direct, false, true, nesting + 1);
                        else
                            survey(*parts.init, loop, direct, nesting + 1);
                    }
                    if (parts.condition && clang_isExpression(parts.condition->kind) != 0)
                        survey_expression(*parts.condition, id, true, false, false, nesting + 1);
                    if (parts.increment)
                        survey_expression(*parts.increment, id, true, true, false, nesting + 1);
                    if (parts.body)
                        survey(*parts.body, id, true, nesting + 1);
                    return;
                }
                for (const CXCursor child : children(cursor)) {
                    if (child.kind == CXCursor_VarDecl)
                        locals_[key_of(child)].loop = id;
                    else
                        survey(child, id, true, nesting + 1);
                }
                return;
            }
            case CXCursor_IfStmt:
            case CXCursor_SwitchStmt:
                for (const CXCursor child : children(cursor))
                    survey(child, loop, false, nesting + 1);
                return;
            default:
                break;
        }
        if (clang_isExpression(cursor.kind) != 0) {
            survey_expression(cursor, loop, direct, false, false, nesting);
            return;
        }
        for (const CXCursor child : children(cursor))
            survey(child, loop, direct, nesting + 1);
    }

    int add_loop(CXCursor cursor, int parent) {
        if (loops_.size() >= max_loops) {
            cut_ = true;
            return -1;
        }
        Loop loop;
        loop.id = static_cast<int>(loops_.size());
        loop.parent = parent;
        if (Loop* outer = loop_of(parent)) {
            loop.depth = outer->depth + 1;
            outer->innermost = false;
        }
        loop.start = start_of(cursor);
        loop.end_line = end_of(cursor).line;
        loop.kind = cursor.kind == CXCursor_ForStmt     ? "for"
                    : cursor.kind == CXCursor_WhileStmt ? "while"
                    : cursor.kind == CXCursor_DoStmt    ? "do"
                                                        : "range";
        loop_at_[loop.start.offset] = loop.id;
        loops_.push_back(loop);
        return loops_.back().id;
    }

    // --- values

    Polynomial opaque(CXCursor cursor, const std::string& name, std::set<int> varies_with,
                      bool loaded) {
        Symbol symbol;
        symbol.name = name.empty() ? text_of(cursor) : name;
        symbol.varies_with = std::move(varies_with);
        symbol.loaded = loaded;
        return Polynomial::symbol(symbols_.intern(std::move(symbol)));
    }

    Polynomial counter_of(const Loop& loop) {
        Symbol symbol;
        symbol.name = loop.variable.empty() ? fmt::format("iteration of line {}", loop.start.line)
                                            : loop.variable;
        symbol.counter_of = loop.id;
        return Polynomial::symbol(symbols_.intern(std::move(symbol)));
    }

    // The loops with which the variables in the expression change; `loaded` when it reads an array.
    std::set<int> dependences(CXCursor cursor, bool& loaded, int nesting) {
        std::set<int> loops;
        if (nesting > max_nesting)
            return loops;
        if (cursor.kind == CXCursor_ArraySubscriptExpr ||
            (cursor.kind == CXCursor_UnaryOperator &&
             clang_getCursorUnaryOperatorKind(cursor) == CXUnaryOperator_Deref))
            loaded = true;
        if (cursor.kind == CXCursor_DeclRefExpr) {
            const CXCursor declaration = clang_getCursorReferenced(cursor);
            const CXType type = type_of(cursor);
            if (!disregarded_.empty() && key_of(declaration) == disregarded_)
                return loops;
            if (is_integer(type)) {
                loops.merge(loops_of(value_of_variable(cursor, declaration), symbols_));
            } else if (is_pointer(type)) {
                loops.merge(loops_of(address_of_variable(cursor, declaration).bytes, symbols_));
            } else {
                loops.merge(changing_loops(key_of(declaration)));
            }
            return loops;
        }
        for (const CXCursor child : children(cursor))
            loops.merge(dependences(child, loaded, nesting + 1));
        return loops;
    }

    // The loops around the current statement that change the variable (or declare it anew).
    std::set<int> changing_loops(const std::string& key) const {
        std::set<int> loops;
        const auto found = locals_.find(key);
        if (found == locals_.end())
            return loops;
        for (const int loop : around_) {
            bool changes = false;
            for (const Change& change : found->second.changes)
                changes = changes || within(change.loop, loop);
            if (changes || (found->second.loop >= 0 && within(found->second.loop, loop)))
                loops.insert(loop);
        }
        return loops;
    }

    // The loop around the current statement whose variable this is, if only its own header moves
    // it.
    const Loop* counting_loop(const std::string& key) const {
        for (std::size_t i = around_.size(); i-- > 0;) {
            const Loop* loop = loop_of(around_[i]);
            if (loop->key != key)
                continue;
            const auto found = locals_.find(key);
            if (found == locals_.end())
                return loop;
            for (const Change& change : found->second.changes) {
                const bool own = change.loop == loop->id &&
                                 (change.header || loop->kind != "for") && change.advances;
                if (within(change.loop, loop->id) && !own)
                    return nullptr;
            }
            return loop;
        }
        return nullptr;
    }

    // The loops around `loop` with which the first value of its variable changes.
    std::set<int> start_varies(const std::string& key, const Loop& loop) const {
        std::set<int> loops;
        const auto found = locals_.find(key);
        for (const int around : around_) {
            if (around == loop.id || within(around, loop.id))
                continue;
            // Declared afresh in `around`: it changes only with its initialiser and with the bounds
            // of the loops that moved it.
            bool varies = found == locals_.end() || found->second.loop < 0 ||
                          !within(found->second.loop, around);
            if (!varies) {
                const auto value = values_.find(key);
                varies =
                    value == values_.end() || loops_of(value->second, symbols_).contains(around);
                for (const Change& change : found->second.changes) {
                    const Loop* mover = loop_of(change.loop);
                    varies = varies || !change.header || !change.advances || mover == nullptr ||
                             mover->bound_varies.contains(around);
                }
            }
            if (varies)
                loops.insert(around);
        }
        return loops;
    }

    // How far the statements that advance the variable have taken it: nullopt when it is not of
    // that form. The variable must be declared with a value outside of the loop that advances it.
    std::optional<Polynomial> advance_of(const Local& local) {
        if (local.changes.empty())
            return std::nullopt;
        const Change& change = local.changes[0];
        for (const Change& other : local.changes) {
            if (!other.advances || !other.direct || other.loop != change.loop)
                return std::nullopt;
        }
        if (change.loop < 0 || change.loop == local.loop || !within(change.loop, local.loop))
            return std::nullopt;
        bool inside = false;
        for (const int loop : around_)
            inside = inside || loop == change.loop;
        if (!inside)
            return std::nullopt;
        Polynomial delta;
        for (const Change& each : local.changes) {
            const Polynomial step = each.delta ? value_of(*each.delta, 0) : Polynomial::constant(1);
            delta = each.sign < 0 ? delta - step : delta + step;
        }
        if (loops_of(delta, symbols_).contains(change.loop))
            return std::nullopt;
        // Around the loop that advances it the variable goes on from where the last round left it.
        Polynomial rounds = counter_of(*loop_of(change.loop));
        Polynomial trips = trip_count(*loop_of(change.loop));
        for (int loop = loop_of(change.loop)->parent; loop >= 0 && loop != local.loop;
             loop = loop_of(loop)->parent) {
            if (!trips.known || loops_of(trips, symbols_).contains(loop)) {
                // The rounds differ, so only this loop's stride cannot be told.
                Symbol rest;
                rest.name = "rounds";
                for (; loop >= 0 && loop != local.loop; loop = loop_of(loop)->parent)
                    rest.varies_with.insert(loop);
                rounds = rounds + Polynomial::symbol(symbols_.intern(std::move(rest)));
                break;
            }
            rounds = rounds + trips * counter_of(*loop_of(loop));
            trips = trips * trip_count(*loop_of(loop));
        }
        return delta * rounds;
    }

    static Polynomial trip_count(const Loop& loop) {
        if (!loop.lower || !loop.upper || !loop.step)
            return Polynomial::unknown();
        if (loop.step->value() == 1 && (loop.comparison == "<" || loop.comparison == "!="))
            return *loop.upper - *loop.lower;
        if (loop.step->value() == 1 && loop.comparison == "<=")
            return *loop.upper - *loop.lower + Polynomial::constant(1);
        if (loop.step->value() == -1 && (loop.comparison == ">" || loop.comparison == "!="))
            return *loop.lower - *loop.upper;
        if (loop.step->value() == -1 && loop.comparison == ">=")
            return *loop.lower - *loop.upper + Polynomial::constant(1);
        return Polynomial::unknown();
    }

    Polynomial value_of_variable(CXCursor use, CXCursor declaration) {
        const std::string name = take(clang_getCursorSpelling(declaration));
        if (declaration.kind == CXCursor_EnumConstantDecl)
            return Polynomial::constant(clang_getEnumConstantDeclValue(declaration));
        const std::string key = key_of(declaration);
        if (const Loop* loop = counting_loop(key)) {
            if (loop->lower && loop->step && !loops_of(*loop->step, symbols_).contains(loop->id))
                return *loop->lower + *loop->step * counter_of(*loop);
            if (loop->step && !loops_of(*loop->step, symbols_).contains(loop->id)) {
                // Where it starts is not known, but how it goes on is.
                Symbol start;
                start.name = name + " at line " + std::to_string(loop->start.line);
                start.varies_with = start_varies(key, *loop);
                return Polynomial::symbol(symbols_.intern(std::move(start))) +
                       *loop->step * counter_of(*loop);
            }
            std::set<int> loops{loop->id};
            return opaque(use, name, std::move(loops), false);
        }
        const auto found = locals_.find(key);
        if (found == locals_.end() || (found->second.parameter && found->second.changes.empty())) {
            if (found == locals_.end() &&
                clang_isConstQualifiedType(clang_getCursorType(declaration)) != 0) {
                if (const std::optional<long long> known = evaluated(use))
                    return Polynomial::constant(*known);
            }
            return opaque(use, name, {}, false);
        }
        const Local& local = found->second;
        if (local.initialiser && resolving_.insert(key).second) {
            std::optional<Polynomial> value;
            const auto passed = values_.find(key);
            if (passed != values_.end() && local.changes.empty())
                value = passed->second;
            else if (passed != values_.end()) {
                if (const std::optional<Polynomial> advance = advance_of(local))
                    value = passed->second + *advance;
            }
            resolving_.erase(key);
            if (value && value->known)
                return *value;
        }
        return opaque(use, name, changing_loops(key), false);
    }

    static std::optional<long long> evaluated(CXCursor cursor) {
        CXEvalResult result = clang_Cursor_Evaluate(cursor);
        if (result == nullptr)
            return std::nullopt;
        std::optional<long long> value;
        if (clang_EvalResult_getKind(result) == CXEval_Int)
            value = clang_EvalResult_getAsLongLong(result);
        clang_EvalResult_dispose(result);
        return value;
    }

    Polynomial value_of(CXCursor cursor, int nesting) {
        const CXCursor expression = strip_casts(cursor);
        if (nesting > max_nesting)
            return Polynomial::unknown();
        const std::vector<CXCursor> inner = children(expression);
        const auto unknown_value = [&] {
            bool loaded = false;
            std::set<int> loops = dependences(expression, loaded, nesting + 1);
            return opaque(expression, "", std::move(loops), loaded);
        };
        switch (expression.kind) {
            case CXCursor_IntegerLiteral:
            case CXCursor_UnaryExpr:  // sizeof, alignof
                if (const std::optional<long long> value = evaluated(expression))
                    return Polynomial::constant(*value);
                return unknown_value();
            case CXCursor_DeclRefExpr:
                return value_of_variable(expression, clang_getCursorReferenced(expression));
            case CXCursor_UnaryOperator: {
                const CXUnaryOperatorKind op = clang_getCursorUnaryOperatorKind(expression);
                if (inner.size() == 1 && op == CXUnaryOperator_Minus)
                    return -value_of(inner[0], nesting + 1);
                if (inner.size() == 1 &&
                    (op == CXUnaryOperator_Plus ||
                     (op >= CXUnaryOperator_PostInc && op <= CXUnaryOperator_PreDec)))
                    return value_of(
                        inner[0],
                        nesting + 1);  // the constant offset of ++ does not change a stride
                return unknown_value();
            }
            case CXCursor_BinaryOperator: {
                if (inner.size() != 2)
                    return unknown_value();
                const CXBinaryOperatorKind op = clang_getCursorBinaryOperatorKind(expression);
                if (op != CXBinaryOperator_Add && op != CXBinaryOperator_Sub &&
                    op != CXBinaryOperator_Mul && op != CXBinaryOperator_Shl)
                    return unknown_value();
                const Polynomial left = value_of(inner[0], nesting + 1),
                                 right = value_of(inner[1], nesting + 1);
                if (op == CXBinaryOperator_Add)
                    return left + right;
                if (op == CXBinaryOperator_Sub)
                    return left - right;
                if (op == CXBinaryOperator_Mul)
                    return left * right;
                const std::optional<long long> bits = right.value();
                if (bits && *bits >= 0 && *bits < 62)
                    return left * Polynomial::constant(1LL << *bits);
                return unknown_value();
            }
            default:
                return unknown_value();
        }
    }

    // --- addresses

    Address named(CXCursor cursor, bool parameter) {
        Address address;
        address.base = text_of(cursor);
        address.parameter = parameter;
        return address;
    }

    Address address_of_variable(CXCursor use, CXCursor declaration) {
        const std::string key = key_of(declaration);
        const auto found = locals_.find(key);
        Address plain;
        plain.base = take(clang_getCursorSpelling(declaration));
        plain.parameter = found != locals_.end() && found->second.parameter;
        if (found == locals_.end() || is_array(type_of(declaration)))
            return plain;
        const Local& local = found->second;
        const long long element = size_of(pointee_of(type_of(declaration)));
        if (local.changes.empty() && local.parameter)
            return plain;
        const auto passed = addresses_.find(key);
        if (passed != addresses_.end() && resolving_.insert(key).second) {
            std::optional<Address> value;
            if (local.changes.empty()) {
                value = passed->second;
            } else if (const std::optional<Polynomial> advance = advance_of(local)) {
                value = passed->second;
                value->bytes = value->bytes + *advance * Polynomial::constant(element);
            }
            resolving_.erase(key);
            if (value && value->bytes.known)
                return *value;
        }
        if (local.parameter) {
            if (const std::optional<Polynomial> advance = advance_of(local)) {
                plain.bytes = *advance * Polynomial::constant(element);
                if (plain.bytes.known)
                    return plain;
            }
        }
        std::set<int> loops = changing_loops(key);
        if (passed != addresses_.end()) {
            plain.base = passed->second.base;
            plain.parameter = passed->second.parameter;
        }
        if (!loops.empty())
            plain.bytes = opaque(use, "", std::move(loops), false);
        return plain;
    }

    // Of a pointer-valued or array-valued expression.
    Address address_of_pointer(CXCursor cursor, int nesting) {
        const CXCursor expression = strip_casts(cursor);
        const std::vector<CXCursor> inner = children(expression);
        if (nesting > max_nesting) {
            Address lost;
            lost.bytes = Polynomial::unknown();
            return lost;
        }
        if (expression.kind == CXCursor_DeclRefExpr)
            return address_of_variable(expression, clang_getCursorReferenced(expression));
        if (expression.kind == CXCursor_BinaryOperator && inner.size() == 2) {
            const CXBinaryOperatorKind op = clang_getCursorBinaryOperatorKind(expression);
            if (op == CXBinaryOperator_Add || op == CXBinaryOperator_Sub) {
                const bool swapped = is_integer(type_of(strip(inner[0])));
                const CXCursor pointer = swapped ? inner[1] : inner[0],
                               index = swapped ? inner[0] : inner[1];
                Address address = address_of_pointer(pointer, nesting + 1);
                Polynomial bytes = value_of(index, nesting + 1) *
                                   Polynomial::constant(size_of(pointee_of(type_of(expression))));
                address.bytes = address.bytes + (op == CXBinaryOperator_Add ? bytes : -bytes);
                return address;
            }
        }
        if (expression.kind == CXCursor_UnaryOperator && inner.size() == 1) {
            const CXUnaryOperatorKind op = clang_getCursorUnaryOperatorKind(expression);
            if (op == CXUnaryOperator_AddrOf)
                return address_of_lvalue(inner[0], nesting + 1);
            if (op >= CXUnaryOperator_PostInc && op <= CXUnaryOperator_PreDec)
                return address_of_pointer(inner[0], nesting + 1);
        }
        if (is_array(type_of(expression)))
            return address_of_lvalue(expression, nesting + 1);
        if (expression.kind == CXCursor_CallExpr) {
            const std::string name = take(clang_getCursorSpelling(expression));
            if ((name == "__builtin_assume_aligned" || name == "assume_aligned") &&
                clang_Cursor_getNumArguments(expression) > 0)
                return address_of_pointer(clang_Cursor_getArgument(expression, 0), nesting + 1);
        }
        // A pointer that we cannot look into: it may change with whatever the expression reads.
        Address address = named(expression, false);
        bool loaded = false;
        std::set<int> loops = dependences(expression, loaded, nesting + 1);
        if (!loops.empty())
            address.bytes = opaque(expression, "", std::move(loops), loaded);
        return address;
    }

    static bool is_subscript_call(CXCursor expression) {
        return expression.kind == CXCursor_CallExpr &&
               clang_Cursor_getNumArguments(expression) == 2 &&
               take(clang_getCursorSpelling(expression)) == "operator[]";
    }

    // Of an expression that names an object in memory.
    Address address_of_lvalue(CXCursor cursor, int nesting) {
        const CXCursor expression = strip(cursor);
        const std::vector<CXCursor> inner = children(expression);
        if (expression.kind == CXCursor_ArraySubscriptExpr && inner.size() == 2) {
            Address address = address_of_pointer(inner[0], nesting + 1);
            address.bytes = address.bytes + value_of(inner[1], nesting + 1) *
                                                Polynomial::constant(size_of(type_of(expression)));
            return address;
        }
        if (is_subscript_call(expression)) {
            Address address = named(strip(clang_Cursor_getArgument(expression, 0)), false);
            address.bytes = value_of(clang_Cursor_getArgument(expression, 1), nesting + 1) *
                            Polynomial::constant(size_of(type_of(expression)));
            return address;
        }
        if (expression.kind == CXCursor_UnaryOperator && inner.size() == 1 &&
            clang_getCursorUnaryOperatorKind(expression) == CXUnaryOperator_Deref)
            return address_of_pointer(inner[0], nesting + 1);
        if (expression.kind == CXCursor_MemberRefExpr && !inner.empty() &&
            clang_isExpression(inner[0].kind) != 0) {
            const CXCursor object = inner[0];
            Address address = is_pointer(type_of(object)) ? address_of_pointer(object, nesting + 1)
                                                          : address_of_lvalue(object, nesting + 1);
            const long long bits =
                clang_Cursor_getOffsetOfField(clang_getCursorReferenced(expression));
            address.bytes = address.bytes + Polynomial::constant(bits > 0 ? bits / 8 : 0);
            return address;
        }
        if (expression.kind == CXCursor_DeclRefExpr) {
            const CXCursor declaration = clang_getCursorReferenced(expression);
            const auto found = locals_.find(key_of(declaration));
            return named(expression, found != locals_.end() && found->second.parameter);
        }
        Address address = named(expression, false);
        bool loaded = false;
        std::set<int> loops = dependences(expression, loaded, nesting + 1);
        if (!loops.empty())
            address.bytes = opaque(expression, "", std::move(loops), loaded);
        return address;
    }

    // --- second pass: accesses, arithmetic, branches

    void record_access(CXCursor whole, const Address& address, long long element, int lanes,
                       Usage usage) {
        if (usage == Usage::none)
            return;
        const std::string text = text_of(whole);
        const int loop = current_loop();
        const bool reads = usage == Usage::read || usage == Usage::update;
        const bool writes = usage == Usage::write || usage == Usage::update;
        const Place place = start_of(whole);
        const std::string key = fmt::format("{}|{}|{}", loop, text, address.base);
        const auto known = access_at_.find(key);
        if (known != access_at_.end()) {
            json& access = accesses_[known->second];
            access["read"] = access["read"].get<bool>() || reads;
            access["written"] = access["written"].get<bool>() || writes;
            access["conditional"] = access["conditional"].get<bool>() && conditions_ > 0;
            return;
        }
        if (accesses_.size() >= max_accesses) {
            cut_ = true;
            return;
        }
        json strides = json::array();
        for (std::size_t i = around_.size(); i-- > 0;) {
            const Loop& around = *loop_of(around_[i]);
            json stride = {{"loop", around.id}, {"variable", around.variable}};
            bool indirect = false;
            const std::optional<Polynomial> bytes =
                loopscope::affine::stride_in(address.bytes, around.id, symbols_, indirect);
            std::optional<Polynomial> elements =
                bytes ? loopscope::affine::divided(*bytes, element) : std::nullopt;
            stride["affine"] = bytes.has_value();
            stride["indirect"] = indirect;
            if (elements) {
                stride["elements"] = loopscope::affine::to_text(*elements, symbols_);
                if (const std::optional<long long> value = elements->value())
                    stride["constant"] = *value;
            } else {
                stride["elements"] =
                    bytes ? "(" + loopscope::affine::to_text(*bytes, symbols_) + ") bytes"
                          : std::string("not affine");
            }
            strides.push_back(std::move(stride));
        }
        access_at_[key] = accesses_.size();
        accesses_.push_back({{"base", address.base},
                             {"parameter", address.parameter},
                             {"text", text},
                             {"line", place.line},
                             {"column", place.column},
                             {"read", reads},
                             {"written", writes},
                             {"conditional", conditions_ > 0},
                             {"element_bytes", element},
                             {"lanes", lanes},
                             {"loop", loop},
                             {"strides", std::move(strides)}});
    }

    // Records the access that `lvalue` makes and reads what its address needs. `whole` is the text
    // shown.
    void access(CXCursor whole, CXCursor lvalue, Usage usage, int nesting) {
        const CXType type = type_of(whole);
        const CXType unit = type_of(lvalue);
        const int lanes = lanes_of(type);
        const long long element = size_of(unit) / std::max(1, lanes_of(unit));
        record_access(whole, address_of_lvalue(whole, 0), std::max(1LL, element), lanes, usage);
        address_parts(lvalue, nesting);
    }

    // What is evaluated to form the address of an lvalue: indices, and pointers that are themselves
    // in memory.
    void address_parts(CXCursor cursor, int nesting) {
        const CXCursor expression = strip(cursor);
        const std::vector<CXCursor> inner = children(expression);
        if (expression.kind == CXCursor_ArraySubscriptExpr && inner.size() == 2) {
            const CXCursor base = strip(inner[0]);
            if (is_array(type_of(base)))
                address_parts(base, nesting + 1);
            else
                visit_expression(inner[0], Usage::read, nesting + 1);
            visit_expression(inner[1], Usage::read, nesting + 1);
        } else if (is_subscript_call(expression)) {
            visit_expression(clang_Cursor_getArgument(expression, 0), Usage::none, nesting + 1);
            visit_expression(clang_Cursor_getArgument(expression, 1), Usage::read, nesting + 1);
        } else if (expression.kind == CXCursor_MemberRefExpr && !inner.empty() &&
                   clang_isExpression(inner[0].kind) != 0 && !is_pointer(type_of(inner[0]))) {
            address_parts(inner[0], nesting + 1);
        } else {
            for (const CXCursor child : inner) {
                if (clang_isExpression(child.kind) != 0)
                    visit_expression(child, Usage::read, nesting + 1);
            }
        }
    }

    void count_operator(CXBinaryOperatorKind op, CXType type) {
        if (!is_floating(type))
            return;
        const int lanes = lanes_of(type);
        Operations& count = operations();
        if (op == CXBinaryOperator_Add || op == CXBinaryOperator_Sub ||
            op == CXBinaryOperator_AddAssign || op == CXBinaryOperator_SubAssign)
            count.adds += lanes;
        else if (op == CXBinaryOperator_Mul || op == CXBinaryOperator_MulAssign)
            count.multiplies += lanes;
        else if (op == CXBinaryOperator_Div || op == CXBinaryOperator_DivAssign)
            count.divisions += lanes;
    }

    void record_reduction(CXCursor target, const std::string& operation, bool constant_delta) {
        const CXCursor variable = strip_casts(target);
        if (variable.kind != CXCursor_DeclRefExpr || current_loop() < 0)
            return;
        const CXType type = type_of(variable);
        if (!is_floating(type) && (!is_integer(type) || constant_delta))
            return;
        const CXCursor declaration = clang_getCursorReferenced(variable);
        const std::string key = key_of(declaration);
        for (const int loop : around_) {
            if (loop_of(loop)->key == key)
                return;
        }
        const auto found = locals_.find(key);
        if (found != locals_.end() && !found->second.parameter &&
            within(found->second.loop, current_loop()))
            return;  // declared in the loop's body: nothing is carried from one iteration to the
                     // next
        json entry = {{"variable", take(clang_getCursorSpelling(declaration))},
                      {"operation", operation},
                      {"line", start_of(variable).line},
                      {"loop", current_loop()},
                      {"floating", is_floating(type)}};
        reductions_.push_back(std::move(entry));
    }

    // The same integer in every iteration: what is advanced by it is an index, not a sum.
    bool moves_evenly(CXCursor delta) {
        return is_integer(type_of(delta)) &&
               !loops_of(value_of(delta, 0), symbols_).contains(current_loop());
    }

    static std::string reduction_operator(CXBinaryOperatorKind op) {
        switch (op) {
            case CXBinaryOperator_Add:
            case CXBinaryOperator_AddAssign:
                return "+";
            case CXBinaryOperator_Sub:
            case CXBinaryOperator_SubAssign:
                return "-";
            case CXBinaryOperator_Mul:
            case CXBinaryOperator_MulAssign:
                return "*";
            case CXBinaryOperator_Or:
            case CXBinaryOperator_OrAssign:
                return "|";
            case CXBinaryOperator_And:
            case CXBinaryOperator_AndAssign:
                return "&";
            case CXBinaryOperator_Xor:
            case CXBinaryOperator_XorAssign:
                return "^";
            default:
                return "";
        }
    }

    static bool same_variable(CXCursor a, CXCursor b) {
        a = strip_casts(a);
        b = strip_casts(b);
        return a.kind == CXCursor_DeclRefExpr && b.kind == CXCursor_DeclRefExpr &&
               clang_equalCursors(clang_getCursorReferenced(a), clang_getCursorReferenced(b)) != 0;
    }

    // "s = s + x", "s = x + s", "s = max(s, x)", "s = fma(a, b, s)", "s = a > s ? a : s".
    void assigned_reduction(CXCursor target, CXCursor value) {
        const CXCursor expression = strip_casts(value);
        const std::vector<CXCursor> inner = children(expression);
        if (expression.kind == CXCursor_BinaryOperator && inner.size() == 2) {
            const std::string op =
                reduction_operator(clang_getCursorBinaryOperatorKind(expression));
            const bool first = same_variable(target, inner[0]),
                       second = same_variable(target, inner[1]);
            if (!op.empty() && (first || (second && op != "-")))
                record_reduction(target, op, moves_evenly(first ? inner[1] : inner[0]));
        } else if (expression.kind == CXCursor_CallExpr) {
            const std::string name = take(clang_getCursorSpelling(expression));
            bool contains = false;
            for (int i = 0; i < clang_Cursor_getNumArguments(expression); ++i)
                contains = contains ||
                           same_variable(target, clang_Cursor_getArgument(expression, unsigned(i)));
            if (!contains)
                return;
            if (name.find("max") != std::string::npos)
                record_reduction(target, "max", false);
            else if (name.find("min") != std::string::npos)
                record_reduction(target, "min", false);
            else if (name.find("fma") != std::string::npos ||
                     name.find("add") != std::string::npos ||
                     name.find("fmadd") != std::string::npos)
                record_reduction(target, "+", false);
        } else if (expression.kind == CXCursor_ConditionalOperator && inner.size() == 3) {
            if (same_variable(target, inner[1]) || same_variable(target, inner[2])) {
                const CXCursor condition = strip(inner[0]);
                const CXBinaryOperatorKind op = clang_getCursorBinaryOperatorKind(condition);
                const std::vector<CXCursor> sides = children(condition);
                if (sides.size() != 2)
                    return;
                const bool greater = op == CXBinaryOperator_GT || op == CXBinaryOperator_GE;
                const bool less = op == CXBinaryOperator_LT || op == CXBinaryOperator_LE;
                if (!greater && !less)
                    return;
                // (x > s ? x : s) keeps the larger one; each exchange of sides turns it round.
                const bool kept_first = same_variable(target, inner[1]);
                const bool compared_first = same_variable(target, sides[0]);
                record_reduction(target, greater == (kept_first == compared_first) ? "max" : "min",
                                 false);
            }
        }
    }

    // x86 vector intrinsics: their arithmetic by lanes and their memory operand. Returns false when
    // it is none.
    bool intrinsic(CXCursor call, const std::string& name, int nesting) {
        int width = 0;
        std::string_view rest = name;
        if (rest.starts_with("_mm512_"))
            width = 64, rest.remove_prefix(7);
        else if (rest.starts_with("_mm256_"))
            width = 32, rest.remove_prefix(7);
        else if (rest.starts_with("_mm_"))
            width = 16, rest.remove_prefix(4);
        else
            return false;
        const bool single = rest.ends_with("_ps"), real = rest.ends_with("_pd");
        const bool scalar_single = rest.ends_with("_ss"), scalar_real = rest.ends_with("_sd");
        const int element = single || scalar_single ? 4 : real || scalar_real ? 8 : 0;
        const int lanes = element == 0 ? 1 : scalar_single || scalar_real ? 1 : width / element;
        const std::string_view op = rest.substr(0, rest.rfind('_'));
        if (element > 0) {
            Operations& count = operations();
            if (op == "add" || op == "sub" || op == "hadd" || op == "addsub")
                count.adds += lanes;
            else if (op == "mul")
                count.multiplies += lanes;
            else if (op == "div")
                count.divisions += lanes;
            else if (op == "sqrt")
                count.square_roots += lanes;
            else if (op == "reduce_add")
                count.adds += lanes - 1;
            else if (op.starts_with("fmadd") || op.starts_with("fmsub") ||
                     op.starts_with("fnmadd") || op.starts_with("fnmsub"))
                count.adds += lanes, count.multiplies += lanes;
        }
        const bool loads = op.starts_with("load") || op.starts_with("broadcast") ||
                           op == "maskload" || op == "lddqu";
        const bool stores =
            op.starts_with("store") || op.starts_with("stream") || op == "maskstore";
        const int arguments = clang_Cursor_getNumArguments(call);
        for (int i = 0; i < arguments; ++i) {
            const CXCursor argument = clang_Cursor_getArgument(call, static_cast<unsigned>(i));
            const CXCursor pointer = strip_casts(argument);
            const bool first_pointer = i == 0 && (loads || stores) && is_pointer(type_of(argument));
            if (!first_pointer) {
                visit_expression(argument, Usage::read, nesting + 1);
                continue;
            }
            CXType unit = pointee_of(type_of(pointer));
            if (!is_floating(unit) && !is_integer(unit))
                unit = pointee_of(type_of(argument));
            const long long unit_bytes = std::max(1LL, size_of(unit) / std::max(1, lanes_of(unit)));
            const int moved = op.starts_with("broadcast") && !op.starts_with("broadcast_") ? 1
                              : element > 0                                                ? lanes
                                            : std::max(1, static_cast<int>(width / unit_bytes));
            const std::vector<CXCursor> inner = children(pointer);
            const bool takes_address =
                pointer.kind == CXCursor_UnaryOperator && inner.size() == 1 &&
                clang_getCursorUnaryOperatorKind(pointer) == CXUnaryOperator_AddrOf;
            record_access(takes_address ? inner[0] : pointer, address_of_pointer(argument, 0),
                          unit_bytes, moved, loads ? Usage::read : Usage::write);
            if (takes_address)
                address_parts(inner[0], nesting + 1);
            else
                visit_expression(argument, Usage::read, nesting + 1);
        }
        return true;
    }

    void call(CXCursor expression, int nesting) {
        const std::string name = take(clang_getCursorSpelling(expression));
        if (intrinsic(expression, name, nesting))
            return;
        const bool operator_call = name.starts_with("operator");
        const CXType type = type_of(expression);
        const bool constructs = clang_getCursorReferenced(expression).kind == CXCursor_Constructor;
        if (!operator_call && !constructs && !name.empty()) {
            std::string plain = name.starts_with("__builtin_") ? name.substr(10) : name;
            const bool floating = is_floating(type);
            const std::string root =
                !plain.empty() && (plain.back() == 'f' || plain.back() == 'l') && plain != "erf"
                    ? plain.substr(0, plain.size() - 1)
                    : plain;
            static const std::set<std::string> mathematical = {
                "exp",  "exp2",  "expm1", "log",  "log2",   "log10",  "log1p", "pow",  "sin",
                "cos",  "tan",   "asin",  "acos", "atan",   "atan2",  "sinh",  "cosh", "tanh",
                "cbrt", "hypot", "erf",   "erfc", "tgamma", "lgamma", "fmod"};
            static const std::set<std::string> free_of_arithmetic = {
                "abs",      "fabs",   "min",    "max",  "fmin",     "fmax",  "assume_aligned",
                "prefetch", "expect", "assume", "move", "copysign", "floor", "ceil",
                "trunc",    "round"};
            if (floating && root == "sqrt")
                ++operations().square_roots;
            else if (floating && root == "fma")
                ++operations().adds, ++operations().multiplies;
            else if (floating && mathematical.contains(root))
                ++operations().calls;
            if (!free_of_arithmetic.contains(root) && root != "fma" && root != "sqrt") {
                if (Loop* loop = loop_of(current_loop()))
                    loop->calls.push_back(plain);
            }
        }
        for (const CXCursor child : children(expression)) {
            if (clang_isExpression(child.kind) != 0)
                visit_expression(child, Usage::read, nesting + 1);
        }
    }

    void branch(CXCursor cursor) {
        if (Loop* loop = loop_of(current_loop()))
            loop->branch_lines.push_back(static_cast<int>(start_of(cursor).line));
    }

    void visit_expression(CXCursor cursor, Usage usage, int nesting) {
        if (nesting > max_nesting) {
            cut_ = true;
            return;
        }
        const std::vector<CXCursor> inner = children(cursor);
        switch (cursor.kind) {
            case CXCursor_UnexposedExpr:
            case CXCursor_ParenExpr:
                for (const CXCursor child : inner)
                    visit_expression(child, usage, nesting + 1);
                return;
            case CXCursor_ArraySubscriptExpr:
                if (is_array(type_of(cursor)))
                    address_parts(cursor, nesting + 1);
                else
                    access(cursor, cursor, usage, nesting + 1);
                return;
            case CXCursor_MemberRefExpr: {
                if (inner.empty() || clang_isExpression(inner[0].kind) == 0)
                    return;
                CXCursor object = strip(inner[0]);
                while (object.kind == CXCursor_MemberRefExpr) {
                    const std::vector<CXCursor> deeper = children(object);
                    if (deeper.empty() || clang_isExpression(deeper[0].kind) == 0)
                        break;
                    object = strip(deeper[0]);
                }
                const bool element =
                    object.kind == CXCursor_ArraySubscriptExpr || is_subscript_call(object) ||
                    (object.kind == CXCursor_UnaryOperator &&
                     clang_getCursorUnaryOperatorKind(object) == CXUnaryOperator_Deref);
                const CXType type = type_of(cursor);
                const bool scalar = is_floating(type) || is_integer(type);
                const bool arrow =
                    is_pointer(type_of(object)) && object.kind != CXCursor_CXXThisExpr;
                if (scalar && element && !is_pointer(type_of(object))) {
                    access(cursor, object, usage, nesting + 1);
                } else if (scalar && arrow && object.kind != CXCursor_MemberRefExpr) {
                    record_access(cursor, address_of_lvalue(cursor, 0),
                                  std::max(1LL, size_of(pointee_of(type_of(object)))), 1, usage);
                    visit_expression(object, Usage::read, nesting + 1);
                } else
                    visit_expression(inner[0],
                                     is_pointer(type_of(inner[0])) ? Usage::read : Usage::none,
                                     nesting + 1);
                return;
            }
            case CXCursor_UnaryOperator: {
                if (inner.size() != 1)
                    break;
                const CXUnaryOperatorKind op = clang_getCursorUnaryOperatorKind(cursor);
                if (op == CXUnaryOperator_Deref) {
                    if (is_array(type_of(cursor)))
                        address_parts(cursor, nesting + 1);
                    else
                        access(cursor, cursor, usage, nesting + 1);
                } else if (op == CXUnaryOperator_AddrOf) {
                    const CXCursor target = strip(inner[0]);
                    if (target.kind == CXCursor_DeclRefExpr)
                        return;
                    address_parts(target, nesting + 1);
                } else if (op >= CXUnaryOperator_PostInc && op <= CXUnaryOperator_PreDec) {
                    if (is_floating(type_of(cursor)))
                        ++operations().adds;
                    visit_expression(inner[0], Usage::update, nesting + 1);
                } else {
                    visit_expression(inner[0], Usage::read, nesting + 1);
                }
                return;
            }
            case CXCursor_CompoundAssignOperator: {
                if (inner.size() != 2)
                    break;
                const CXBinaryOperatorKind op = clang_getCursorBinaryOperatorKind(cursor);
                count_operator(op, type_of(cursor));
                const std::string operation = reduction_operator(op);
                if (!operation.empty())
                    record_reduction(inner[0], operation, moves_evenly(inner[1]));
                visit_expression(inner[1], Usage::read, nesting + 1);
                visit_expression(inner[0], Usage::update, nesting + 1);
                return;
            }
            case CXCursor_BinaryOperator: {
                if (inner.size() != 2)
                    break;
                const CXBinaryOperatorKind op = clang_getCursorBinaryOperatorKind(cursor);
                if (op == CXBinaryOperator_Assign) {
                    assigned_reduction(inner[0], inner[1]);
                    visit_expression(inner[1], Usage::read, nesting + 1);
                    visit_expression(inner[0], Usage::write, nesting + 1);
                    return;
                }
                count_operator(op, type_of(cursor));
                visit_expression(inner[0], Usage::read, nesting + 1);
                visit_expression(inner[1], Usage::read, nesting + 1);
                return;
            }
            case CXCursor_ConditionalOperator:
                branch(cursor);
                for (const CXCursor child : inner)
                    visit_expression(child, Usage::read, nesting + 1);
                return;
            case CXCursor_CallExpr:
                if (is_subscript_call(cursor) && !is_array(type_of(cursor))) {
                    const CXType type = type_of(cursor);
                    if (is_floating(type) || is_integer(type) || is_pointer(type)) {
                        access(cursor, cursor, usage, nesting + 1);
                        return;
                    }
                }
                call(cursor, nesting);
                return;
            case CXCursor_LambdaExpr:
                for (const CXCursor child : inner) {
                    if (child.kind == CXCursor_CompoundStmt)
                        statement(child, nesting + 1);
                }
                return;
            default:
                break;
        }
        for (const CXCursor child : inner) {
            if (clang_isExpression(child.kind) != 0)
                visit_expression(child, Usage::read, nesting + 1);
            else if (clang_isStatement(child.kind) != 0)
                statement(child, nesting + 1);
        }
    }

    void declaration(CXCursor statement_cursor, int nesting) {
        for (const CXCursor variable : children(statement_cursor)) {
            if (variable.kind != CXCursor_VarDecl)
                continue;
            for (const CXCursor child : children(variable)) {
                if (clang_isExpression(child.kind) != 0)
                    visit_expression(child, Usage::read, nesting + 1);
            }
            const std::string key = key_of(variable);
            const auto found = locals_.find(key);
            if (found == locals_.end())
                continue;
            const std::optional<CXCursor> initialiser = found->second.initialiser;
            if (!initialiser)
                continue;
            const CXType type = type_of(variable);
            if (is_integer(type))
                values_[key] = value_of(*initialiser, 0);
            else if (is_pointer(type))
                addresses_[key] = address_of_pointer(*initialiser, 0);
        }
    }

    // The variable, its first value, its bound and its step, before the loop's body is read.
    void read_header(Loop& loop, const ForParts& parts) {
        std::optional<CXCursor> first;
        std::string key, name;
        if (parts.increment) {
            // Of "++k, p += n" the part that moves the compared variable is looked for below.
            std::vector<CXCursor> steps;
            flatten_commas(*parts.increment, steps);
            std::string compared = parts.condition ? compared_variable(*parts.condition) : "";
            for (const CXCursor step : steps) {
                const CXCursor expression = strip(step);
                const std::vector<CXCursor> inner = children(expression);
                if (inner.empty())
                    continue;
                const CXCursor target = strip_casts(inner[0]);
                if (target.kind != CXCursor_DeclRefExpr)
                    continue;
                const CXCursor declaration = clang_getCursorReferenced(target);
                if (!compared.empty() && key_of(declaration) != compared)
                    continue;
                key = key_of(declaration);
                name = take(clang_getCursorSpelling(declaration));
                break;
            }
        }
        if (key.empty())
            return;
        loop.key = key;
        loop.variable = name;
        if (parts.init)
            first = first_value(*parts.init, key);
        else if (const auto found = locals_.find(key);
                 found != locals_.end() && found->second.loop == loop.parent &&
                 !found->second.changes.empty() && found->second.changes.front().loop == loop.id &&
                 found->second.changes.front().header)
            first = found->second.initialiser;  // nothing has changed it since its declaration
        if (first) {
            loop.lower_text = text_of(*first);
            loop.lower = value_of(*first, 0);
        }
        for (const Change& change : locals_[key].changes) {
            if (change.loop != loop.id || !change.header || !change.advances)
                continue;
            const Polynomial step =
                change.delta ? value_of(*change.delta, 0) : Polynomial::constant(1);
            loop.step = change.sign < 0 ? -step : step;
            const std::string text = change.delta ? text_of(*change.delta) : "1";
            loop.step_text = change.sign < 0 ? "-" + text : text;
        }
        if (parts.condition)
            read_condition(loop, *parts.condition);
    }

    static void flatten_commas(CXCursor cursor, std::vector<CXCursor>& into) {
        const CXCursor expression = strip(cursor);
        if (expression.kind == CXCursor_BinaryOperator &&
            clang_getCursorBinaryOperatorKind(expression) == CXBinaryOperator_Comma) {
            for (const CXCursor child : children(expression))
                flatten_commas(child, into);
            return;
        }
        into.push_back(expression);
    }

    static std::string compared_variable(CXCursor condition) {
        const CXCursor expression = strip(condition);
        const std::vector<CXCursor> sides = children(expression);
        if (expression.kind != CXCursor_BinaryOperator || sides.size() != 2)
            return "";
        const CXCursor left = strip_casts(sides[0]);
        return left.kind == CXCursor_DeclRefExpr ? key_of(clang_getCursorReferenced(left)) : "";
    }

    static std::optional<CXCursor> first_value(CXCursor init, const std::string& key) {
        if (init.kind == CXCursor_DeclStmt) {
            for (const CXCursor variable : children(init)) {
                if (variable.kind == CXCursor_VarDecl && key_of(variable) == key)
                    return initialiser_of(variable);
            }
            return std::nullopt;
        }
        std::vector<CXCursor> parts;
        flatten_commas(init, parts);
        for (const CXCursor part : parts) {
            const std::vector<CXCursor> sides = children(part);
            if (part.kind != CXCursor_BinaryOperator || sides.size() != 2 ||
                clang_getCursorBinaryOperatorKind(part) != CXBinaryOperator_Assign)
                continue;
            const CXCursor target = strip_casts(sides[0]);
            if (target.kind == CXCursor_DeclRefExpr &&
                key_of(clang_getCursorReferenced(target)) == key)
                return sides[1];
        }
        return std::nullopt;
    }

    void read_condition(Loop& loop, CXCursor condition) {
        const CXCursor expression = strip(condition);
        loop.condition = text_of(expression);
        bool loaded = false;
        disregarded_ = loop.key;
        loop.bound_varies = dependences(expression, loaded, 0);
        disregarded_.clear();
        const std::vector<CXCursor> sides = children(expression);
        if (expression.kind != CXCursor_BinaryOperator || sides.size() != 2)
            return;
        const auto names_it = [&](CXCursor side) {
            const CXCursor variable = strip_casts(side);
            return variable.kind == CXCursor_DeclRefExpr &&
                   key_of(clang_getCursorReferenced(variable)) == loop.key;
        };
        const bool left = names_it(sides[0]), right = names_it(sides[1]);
        if (left == right)
            return;
        static const std::array<std::pair<CXBinaryOperatorKind, std::array<const char*, 2>>, 5>
            comparisons = {{
                {CXBinaryOperator_LT, {"<", ">"}},
                {CXBinaryOperator_LE, {"<=", ">="}},
                {CXBinaryOperator_GT, {">", "<"}},
                {CXBinaryOperator_GE, {">=", "<="}},
                {CXBinaryOperator_NE, {"!=", "!="}},
            }};
        for (const auto& [op, texts] : comparisons) {
            if (op == clang_getCursorBinaryOperatorKind(expression)) {
                loop.comparison = texts[right ? 1 : 0];
                const CXCursor bound = left ? sides[1] : sides[0];
                loop.upper_text = text_of(bound);
                loop.upper = value_of(bound, 0);
                loop.condition.clear();
            }
        }
    }

    // A while loop that compares a variable which it advances counts as one over that variable.
    void read_while(Loop& loop, CXCursor condition) {
        loop.condition = text_of(condition);
        const std::string key = compared_variable(condition);
        const auto found = locals_.find(key);
        if (key.empty() || found == locals_.end() || found->second.changes.size() != 1)
            return;
        const Change& change = found->second.changes[0];
        if (change.loop != loop.id || !change.direct || !change.advances)
            return;
        loop.key = key;
        loop.variable = key.substr(0, key.find('@'));
        const Polynomial step = change.delta ? value_of(*change.delta, 0) : Polynomial::constant(1);
        loop.step = change.sign < 0 ? -step : step;
        const std::string text = change.delta ? text_of(*change.delta) : "1";
        loop.step_text = change.sign < 0 ? "-" + text : text;
        const std::optional<CXCursor> initialiser = found->second.initialiser;
        if (initialiser && values_.contains(key)) {
            loop.lower_text = text_of(*initialiser);
            loop.lower = values_[key];
        }
        read_condition(loop, condition);
    }

    void loop_statement(CXCursor cursor, int nesting) {
        const auto found = loop_at_.find(start_of(cursor).offset);
        if (found == loop_at_.end())
            return;
        const int id = found->second;
        const int outer_conditions = conditions_;
        const std::vector<CXCursor> inner = children(cursor);
        if (cursor.kind == CXCursor_ForStmt) {
            const ForParts parts = parts_of(cursor);
            if (parts.init)
                statement(*parts.init, nesting + 1);
            read_header(loops_[static_cast<std::size_t>(id)], parts);
            conditions_ = 0;
            around_.push_back(id);
            if (parts.condition)
                statement(*parts.condition, nesting + 1);
            if (parts.body)
                statement(*parts.body, nesting + 1);
            if (parts.increment)
                statement(*parts.increment, nesting + 1);
        } else {
            Loop& loop = loops_[static_cast<std::size_t>(id)];
            if (cursor.kind == CXCursor_CXXForRangeStmt) {
                for (const CXCursor child : inner) {
                    if (child.kind == CXCursor_VarDecl)
                        loop.variable = take(clang_getCursorSpelling(child));
                    else if (clang_isExpression(child.kind) != 0 && loop.condition.empty())
                        loop.condition = text_of(child);
                }
            } else if (cursor.kind == CXCursor_WhileStmt && !inner.empty()) {
                read_while(loop, inner.front());
            } else if (cursor.kind == CXCursor_DoStmt && inner.size() == 2) {
                read_while(loop, inner.back());
            }
            conditions_ = 0;
            around_.push_back(id);
            for (const CXCursor child : inner)
                statement(child, nesting + 1);
        }
        around_.pop_back();
        conditions_ = outer_conditions;
    }

    void statement(CXCursor cursor, int nesting) {
        if (nesting > max_nesting) {
            cut_ = true;
            return;
        }
        switch (cursor.kind) {
            case CXCursor_DeclStmt:
                declaration(cursor, nesting);
                return;
            case CXCursor_ForStmt:
            case CXCursor_WhileStmt:
            case CXCursor_DoStmt:
            case CXCursor_CXXForRangeStmt:
                loop_statement(cursor, nesting);
                return;
            case CXCursor_IfStmt:
            case CXCursor_SwitchStmt: {
                branch(cursor);
                const std::vector<CXCursor> inner = children(cursor);
                for (std::size_t i = 0; i < inner.size(); ++i) {
                    conditions_ += i > 0 ? 1 : 0;
                    statement(inner[i], nesting + 1);
                    conditions_ -= i > 0 ? 1 : 0;
                }
                return;
            }
            default:
                break;
        }
        if (clang_isExpression(cursor.kind) != 0) {
            visit_expression(cursor, Usage::read, nesting + 1);
            return;
        }
        for (const CXCursor child : children(cursor))
            statement(child, nesting + 1);
    }

    // --- the document

    static json to_json(const Operations& operations) {
        return {{"adds", operations.adds},
                {"multiplies", operations.multiplies},
                {"divisions", operations.divisions},
                {"square_roots", operations.square_roots},
                {"calls", operations.calls}};
    }

    json document(json parameters) {
        json loops = json::array();
        for (const Loop& loop : loops_) {
            loops.push_back({{"id", loop.id},
                             {"parent", loop.parent},
                             {"depth", loop.depth},
                             {"line", loop.start.line},
                             {"column", loop.start.column},
                             {"end_line", loop.end_line},
                             {"kind", loop.kind},
                             {"variable", loop.variable},
                             {"lower", loop.lower_text},
                             {"comparison", loop.comparison},
                             {"upper", loop.upper_text},
                             {"step", loop.step_text},
                             {"condition", loop.condition},
                             {"innermost", loop.innermost},
                             {"operations", to_json(loop.operations)},
                             {"branch_lines", loop.branch_lines},
                             {"calls", loop.calls}});
        }
        const Place start = start_of(function_);
        return {{"name", take(clang_getCursorSpelling(function_))},
                {"file", start.file == nullptr ? "" : take(clang_getFileName(start.file))},
                {"line", start.line},
                {"end_line", end_of(function_).line},
                {"parameters", std::move(parameters)},
                {"loops", std::move(loops)},
                {"accesses", accesses_},
                {"reductions", reductions_},
                {"operations", to_json(outside_)}};
    }
};

struct Collector {
    CXTranslationUnit unit = nullptr;
    std::set<std::string> seen;  // "file:offset" of functions already read through another file
    json functions = json::array();
    bool cut = false;
};

// Headers of the system are named by absolute paths, the artifact's own files are not.
bool is_own(const Place& place) {
    if (place.file == nullptr)
        return false;
    const std::string name = take(clang_getFileName(place.file));
    return !name.empty() && name.front() != '/';
}

CXChildVisitResult visit_declaration(CXCursor cursor, CXCursor, CXClientData data) {
    Collector& collector = *static_cast<Collector*>(data);
    const Place place = start_of(cursor);
    switch (cursor.kind) {
        case CXCursor_FunctionDecl:
        case CXCursor_CXXMethod:
        case CXCursor_FunctionTemplate:
        case CXCursor_Constructor:
        case CXCursor_ConversionFunction: {
            if (clang_isCursorDefinition(cursor) == 0 || !is_own(place))
                return CXChildVisit_Continue;
            if (collector.functions.size() >= max_functions) {
                collector.cut = true;
                return CXChildVisit_Break;
            }
            if (!collector.seen
                     .insert(
                         fmt::format("{}:{}", take(clang_getFileName(place.file)), place.offset))
                     .second)
                return CXChildVisit_Continue;
            FunctionReader reader(collector.unit, cursor);
            collector.functions.push_back(reader.read(collector.cut));
            return CXChildVisit_Continue;
        }
        case CXCursor_Namespace:
        case CXCursor_LinkageSpec:
        case CXCursor_UnexposedDecl:
        case CXCursor_ClassDecl:
        case CXCursor_StructDecl:
        case CXCursor_ClassTemplate:
            return is_own(place) ? CXChildVisit_Recurse : CXChildVisit_Continue;
        default:
            return CXChildVisit_Continue;
    }
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::string> files;
    std::vector<const char*> flags;
    bool after = false;
    for (int i = 1; i < argc; ++i) {
        if (!after && std::strcmp(argv[i], "--") == 0)
            after = true;
        else if (after)
            flags.push_back(argv[i]);
        else
            files.emplace_back(argv[i]);
    }
    if (files.empty()) {
        std::fputs("usage: loopscope-parse FILE... [-- COMPILER FLAG...]\n", stderr);
        return 2;
    }
    CXIndex index = clang_createIndex(0, 0);
    Collector collector;
    json errors = json::array();
    int error_count = 0, read = 0;
    for (const std::string& file : files) {
        CXTranslationUnit unit = nullptr;
        const CXErrorCode code = clang_parseTranslationUnit2(
            index, file.c_str(), flags.data(), static_cast<int>(flags.size()), nullptr, 0,
            CXTranslationUnit_KeepGoing, &unit);
        if (code != CXError_Success || unit == nullptr) {
            errors.push_back(file + ": cannot be parsed");
            continue;
        }
        ++read;
        for (unsigned i = 0; i < clang_getNumDiagnostics(unit); ++i) {
            CXDiagnostic diagnostic = clang_getDiagnostic(unit, i);
            if (clang_getDiagnosticSeverity(diagnostic) >= CXDiagnostic_Error)
                ++error_count;
            clang_disposeDiagnostic(diagnostic);
        }
        collector.unit = unit;
        clang_visitChildren(clang_getTranslationUnitCursor(unit), visit_declaration, &collector);
        clang_disposeTranslationUnit(unit);
    }
    clang_disposeIndex(index);
    const json document = {{"version", 1},
                           {"functions", std::move(collector.functions)},
                           {"errors", error_count},
                           {"unreadable", std::move(errors)},
                           {"cut", collector.cut}};
    const std::string text = document.dump(-1, ' ', false, json::error_handler_t::replace);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fputc('\n', stdout);
    return read > 0 ? 0 : 3;
}
