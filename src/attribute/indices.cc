// Indices of one game: each a weighted sum of derivatives (index_weights.h) taken from one pass
// over the table.
#include "attribute/attribution.h"
#include "attribute/derivative_tensor.h"
#include "attribute/index_weights.h"
#include "core/check.h"
#include "core/text.h"

#include <array>
#include <bit>
#include <utility>

namespace loopscope {

namespace {

constexpr std::array<std::pair<IndexKind, std::string_view>, 11> kind_names = {{
    {IndexKind::shapley, "shapley"},
    {IndexKind::banzhaf, "banzhaf"},
    {IndexKind::sii, "sii"},
    {IndexKind::bii, "bii"},
    {IndexKind::moebius, "moebius"},
    {IndexKind::co_moebius, "co_moebius"},
    {IndexKind::chaining, "chaining"},
    {IndexKind::stii, "stii"},
    {IndexKind::ksii, "ksii"},
    {IndexKind::fsii, "fsii"},
    {IndexKind::fbii, "fbii"},
}};

// The table minus v(none): derivatives do not change, and a large offset would cost their last
// digits.
std::vector<double> centred(std::span<const double> value) {
    CHECK(std::has_single_bit(value.size()) && value.size() <= (std::size_t{1} << 24U));
    std::vector<double> shifted(value.begin(), value.end());
    for (double& v : shifted)
        v -= value[0];
    return shifted;
}

}  // namespace

std::string_view name_of(IndexKind kind) {
    for (const auto& [value, name] : kind_names)
        if (value == kind)
            return name;
    CHECK(false);
}

Result<IndexKind> index_named(std::string_view name) {
    std::vector<std::string> known;
    for (const auto& [value, text] : kind_names) {
        if (text == name)
            return value;
        known.emplace_back(text);
    }
    const std::string near = nearest(name, known);
    std::string all;
    for (const std::string& text : known)
        all += (all.empty() ? "" : ", ") + text;
    return fail("index", "'" + std::string(name) + "' is not an index" +
                             (near.empty() ? "" : "; did you mean '" + near + "'?") +
                             " Known: " + all);
}

DerivativeTensor derivative_tensor(std::span<const double> value, int order) {
    const std::vector<double> shifted = centred(value);
    DerivativeTensor tensor;
    tensor.players = std::countr_zero(value.size());
    tensor.order = order;
    CHECK(order >= 0 && order <= tensor.players);
    tensor.rows.resize(value.size());
    const auto keep = [&](std::uint32_t subset, std::span<const double> row) {
        tensor.rows[subset].assign(row.begin(), row.end());
    };
    for_each_derivative(std::span<const double>(shifted), order, keep);
    double choices = 1;  // C(n, t): how often v(none) was taken off the sums of values themselves
    for (int t = 0; t <= tensor.players; ++t) {
        tensor.rows[0][static_cast<std::size_t>(t)] += choices * value[0];
        choices = choices * (tensor.players - t) / (t + 1);
    }
    return tensor;
}

std::vector<double> index_values(std::span<const double> value, IndexKind kind, int order) {
    const std::vector<double> shifted = centred(value);
    const int players = std::countr_zero(value.size());
    CHECK(order >= 1 && order <= players);
    std::vector<std::vector<double>> weights(1);
    for (int size = 1; size <= order; ++size)
        weights.push_back(index_weights(kind, players, order, size));
    std::vector<double> result(value.size(), 0.0);
    const auto add = [&](std::uint32_t subset, std::span<const double> row) {
        if (subset == 0)
            return;
        const std::vector<double>& w = weights[static_cast<std::size_t>(std::popcount(subset))];
        double sum = 0;
        for (std::size_t t = 0; t < row.size(); ++t)
            sum += w[t] * row[t];
        result[subset] = sum;
    };
    for_each_derivative(std::span<const double>(shifted), order, add);
    return result;
}

std::vector<double> contrast(IndexKind kind, int players, int order, std::uint32_t subset) {
    const int size = std::popcount(subset);
    CHECK(players >= 1 && players <= 24 && subset < (1U << static_cast<unsigned>(players)));
    const std::vector<double> w = index_weights(kind, players, order, size);
    std::vector<double> weights(std::size_t{1} << static_cast<unsigned>(players));
    for (std::uint32_t coalition = 0; coalition < weights.size(); ++coalition) {
        const int inside = std::popcount(coalition & subset);
        const double weight = w[static_cast<std::size_t>(std::popcount(coalition & ~subset))];
        weights[coalition] = (size - inside) % 2 == 0 ? weight : -weight;
    }
    return weights;
}

}  // namespace loopscope
