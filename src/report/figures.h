// The figures of a report as Vega specifications: data and marks in one JSON value, drawn by the
// browser (and by any other Vega), so that a golden file can hold a figure.
//
// Colours are from Okabe and Ito's palette; whatever a colour says, a shape, a dash or a word says
// as well. Foreign text enters as data only, never as an expression.
#pragma once
#include "report/report.h"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace loopscope {

struct Figure {
    std::string name;  // "learning-curve", "attribution-pass", ...: unique in a report
    std::string title;
    std::string description;  // what a reader who cannot see it is told
    std::string spec;         // Vega 5 JSON, one line
};

// Empty when there is nothing to draw.
std::vector<Figure> learning_curve_figure(const ReportData& data);  // at most one
std::vector<Figure> outcome_figure(const ReportData& data);         // at most one
std::vector<Figure> attribution_figures(const ReportData& data);    // one a metric
std::vector<Figure> interaction_figures(const ReportData& data);    // one a metric
std::vector<Figure> comparison_figures(const ReportData& data);     // one a metric

}  // namespace loopscope
