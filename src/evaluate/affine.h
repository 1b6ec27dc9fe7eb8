// Integer polynomials over named symbols: the linear form of an array index in the loops around it.
//
// Header-only on purpose: loopscope-parse shares nothing with the program but this file.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace loopscope::affine {

// What a symbol stands for: the counter of a loop (0, 1, 2, ... by iteration), a value that no loop
// changes, or a value that we cannot look into and that changes with the loops in `varies_with`.
struct Symbol {
    std::string name;
    int counter_of = -1;  // loop id, or -1
    std::set<int> varies_with;
    bool loaded = false;  // read from an array: an indirect index
    friend auto operator<=>(const Symbol&, const Symbol&) = default;
};

class Symbols {
public:
    int intern(Symbol symbol) {
        const auto found = ids_.find(symbol);
        if (found != ids_.end())
            return found->second;
        const int id = static_cast<int>(all_.size());
        all_.push_back(symbol);
        ids_.emplace(std::move(symbol), id);
        return id;
    }
    const Symbol& at(int id) const { return all_[static_cast<std::size_t>(id)]; }

private:
    std::vector<Symbol> all_;
    std::map<Symbol, int> ids_;
};

// Sum of coefficient * product of symbols. `known` is false once arithmetic overflowed or the form
// grew too large: then nothing can be said.
struct Polynomial {
    std::map<std::vector<int>, long long> terms;  // sorted symbol ids -> coefficient, never 0
    bool known = true;

    static Polynomial constant(long long value) {
        Polynomial p;
        if (value != 0)
            p.terms[{}] = value;
        return p;
    }
    static Polynomial symbol(int id) {
        Polynomial p;
        p.terms[{id}] = 1;
        return p;
    }
    static Polynomial unknown() {
        Polynomial p;
        p.known = false;
        return p;
    }
    std::optional<long long> value() const {
        if (!known || terms.size() > 1)
            return std::nullopt;
        if (terms.empty())
            return 0;
        return terms.begin()->first.empty() ? std::optional(terms.begin()->second) : std::nullopt;
    }
    friend bool operator==(const Polynomial&, const Polynomial&) = default;
};

inline constexpr std::size_t max_terms = 64;
inline constexpr std::size_t max_degree = 8;

inline void add_term(Polynomial& p, const std::vector<int>& monomial, long long coefficient) {
    if (!p.known)
        return;
    long long& slot = p.terms[monomial];
    if (__builtin_add_overflow(slot, coefficient, &slot)) {
        p = Polynomial::unknown();
        return;
    }
    if (slot == 0)
        p.terms.erase(monomial);
    if (p.terms.size() > max_terms || monomial.size() > max_degree)
        p = Polynomial::unknown();
}

inline Polynomial operator+(Polynomial a, const Polynomial& b) {
    if (!b.known)
        return b;
    for (const auto& [monomial, coefficient] : b.terms)
        add_term(a, monomial, coefficient);
    return a;
}

inline Polynomial operator*(const Polynomial& a, const Polynomial& b) {
    if (!a.known || !b.known)
        return Polynomial::unknown();
    Polynomial product;
    for (const auto& [ma, ca] : a.terms) {
        for (const auto& [mb, cb] : b.terms) {
            std::vector<int> monomial;
            std::merge(ma.begin(), ma.end(), mb.begin(), mb.end(), std::back_inserter(monomial));
            long long coefficient = 0;
            if (__builtin_mul_overflow(ca, cb, &coefficient))
                return Polynomial::unknown();
            add_term(product, monomial, coefficient);
        }
    }
    return product;
}

inline Polynomial operator-(const Polynomial& a) { return Polynomial::constant(-1) * a; }
inline Polynomial operator-(const Polynomial& a, const Polynomial& b) { return a + -b; }

// The loops on which the value depends.
inline std::set<int> loops_of(const Polynomial& p, const Symbols& symbols) {
    std::set<int> loops;
    for (const auto& [monomial, coefficient] : p.terms) {
        for (const int id : monomial) {
            const Symbol& symbol = symbols.at(id);
            if (symbol.counter_of >= 0)
                loops.insert(symbol.counter_of);
            loops.insert(symbol.varies_with.begin(), symbol.varies_with.end());
        }
    }
    return loops;
}

// How far the value moves from one iteration of `loop` to the next; nullopt when that is not the
// same in every iteration (not affine). `indirect` tells that a loaded value is the cause.
inline std::optional<Polynomial> stride_in(const Polynomial& p, int loop, const Symbols& symbols,
                                           bool& indirect) {
    indirect = false;
    if (!p.known)
        return std::nullopt;
    Polynomial stride;
    bool affine = true;
    for (const auto& [monomial, coefficient] : p.terms) {
        std::vector<int> rest;
        int counters = 0;
        bool others = false;
        for (const int id : monomial) {
            const Symbol& symbol = symbols.at(id);
            if (symbol.counter_of == loop) {
                ++counters;
                continue;
            }
            if (symbol.varies_with.contains(loop)) {
                affine = false;
                indirect = indirect || symbol.loaded;
            }
            others = others || symbol.counter_of >= 0 || !symbol.varies_with.empty();
            rest.push_back(id);
        }
        if (counters == 0)
            continue;
        if (counters > 1 || others)
            affine = false;
        add_term(stride, rest, coefficient);
    }
    if (!affine || !stride.known)
        return std::nullopt;
    return stride;
}

// p / divisor when every coefficient divides, else nullopt.
inline std::optional<Polynomial> divided(const Polynomial& p, long long divisor) {
    if (!p.known || divisor <= 0)
        return std::nullopt;
    Polynomial quotient;
    for (const auto& [monomial, coefficient] : p.terms) {
        if (coefficient % divisor != 0)
            return std::nullopt;
        quotient.terms[monomial] = coefficient / divisor;
    }
    return quotient;
}

// "64 * n + 2", "-n", "0": higher degrees first, then by name.
inline std::string to_text(const Polynomial& p, const Symbols& symbols) {
    if (!p.known)
        return "unknown";
    std::vector<std::pair<std::vector<std::string>, long long>> terms;
    for (const auto& [monomial, coefficient] : p.terms) {
        std::vector<std::string> names;
        names.reserve(monomial.size());
        for (const int id : monomial)
            names.push_back(symbols.at(id).name);
        std::sort(names.begin(), names.end());
        terms.emplace_back(std::move(names), coefficient);
    }
    std::sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) {
        return a.first.size() != b.first.size() ? a.first.size() > b.first.size()
                                                : a.first < b.first;
    });
    std::string text;
    for (const auto& [names, coefficient] : terms) {
        const bool negative = coefficient < 0;
        if (text.empty())
            text += negative ? "-" : "";
        else
            text += negative ? " - " : " + ";
        const std::string magnitude = std::to_string(coefficient);
        const std::string digits = negative ? magnitude.substr(1) : magnitude;
        std::string product = names.empty() || digits != "1" ? digits : "";
        for (const std::string& name : names)
            product += (product.empty() ? "" : " * ") + name;
        text += product;
    }
    return text.empty() ? "0" : text;
}

}  // namespace loopscope::affine
