#include "attribute/truth_values.h"

#include "core/check.h"

#include <cmath>

namespace loopscope {

std::vector<double> true_index(const Truth& truth, Metric metric, IndexKind kind, int order) {
    CHECK(metric == Metric::pass || metric == Metric::gain);
    const std::vector<double> values =
        metric == Metric::pass ? true_values(truth) : true_gains(truth);
    return index_values(values, kind, order);
}

double true_contrast_variance(const Truth& truth, std::span<const double> weights, int rollouts,
                              int trials) {
    CHECK(weights.size() == truth.pass.size() && rollouts >= 1 && trials >= 1);
    double mean = 0;
    double square = 0;
    double noise = 0;
    for (std::size_t i = 0; i < truth.support.size(); ++i) {
        const double u = truth.support[i];
        double z = 0;
        for (std::uint32_t s = 0; s < weights.size(); ++s) {
            const double p = success_probability(truth, s, u);
            const double shift = success_probability(truth, s, u, true) - p;
            const double plan = shift * shift;
            z += weights[s] * p;
            noise += truth.weights[i] * weights[s] * weights[s] *
                     (plan + (((p * (1 - p)) - plan) / trials)) / rollouts;
        }
        mean += truth.weights[i] * z;
        square += truth.weights[i] * z * z;
    }
    return std::max(0.0, square - (mean * mean)) + noise;
}

double oracle_half_width(const Truth& truth, std::span<const double> weights, int contexts,
                         int rollouts, int trials, double confidence) {
    CHECK(contexts >= 1 && confidence > 0 && confidence < 1);
    return stats::normal_quantile(0.5 + (confidence / 2)) *
           std::sqrt(true_contrast_variance(truth, weights, rollouts, trials) / contexts);
}

}  // namespace loopscope
