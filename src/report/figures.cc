#include "report/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "report/digest.h"
#include "report/escape.h"
#include "report/numbers.h"

namespace loopscope {

namespace {

using nlohmann::json;

constexpr const char* font =
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', Arial, "
    "sans-serif";

// Okabe and Ito. From fail to fast the luminance of neighbours differs, so that grey prints work.
constexpr const char* vermillion = "#D55E00";
constexpr const char* yellow = "#F0E442";
constexpr const char* sky = "#56B4E9";
constexpr const char* blue = "#0072B2";
constexpr const char* ink = "#1b1f24";
constexpr const char* grey = "#6b7280";
constexpr const char* pale = "#e5e7eb";

constexpr std::array<const char*, 4> status_names = {"fail", "compile", "pass", "fast"};

json field(std::string_view name) { return {{"field", name}}; }
json scaled(std::string_view scale, std::string_view name) {
    return {{"scale", scale}, {"field", name}};
}
json at(std::string_view scale, const json& value) { return {{"scale", scale}, {"value", value}}; }
json value(const json& v) { return {{"value", v}}; }
json signal(std::string_view expression) { return {{"signal", expression}}; }

json scale_of(std::string_view name, std::string_view type, const json& domain, const json& range) {
    return {{"name", name}, {"type", type}, {"domain", domain}, {"range", range}};
}

// Lines of at most `width` characters, broken at spaces: titles do not wrap by themselves, and a
// figure may be as narrow as a telephone.
json lines_of(std::string_view text, std::size_t width) {
    json lines = json::array();
    std::string current;
    std::string word;
    std::size_t columns = 0;  // of `word`
    const auto flush = [&] {
        if (!current.empty() && width_of(current) + 1 + columns > width) {
            lines.push_back(current);
            current.clear();
        }
        current += (current.empty() || word.empty() ? "" : " ") + word;
        word.clear();
        columns = 0;
    };
    const std::string safe = clean(text);
    for (std::size_t i = 0; i < safe.size(); ++i) {
        const bool begins = (static_cast<unsigned char>(safe[i]) & 0xC0U) != 0x80U;
        if (safe[i] == ' ' || safe[i] == '\n' || (begins && columns == width))
            flush();
        if (safe[i] == ' ' || safe[i] == '\n')
            continue;
        word += safe[i];
        columns += begins ? 1U : 0U;
    }
    flush();
    if (!current.empty())
        lines.push_back(current);
    return lines;
}

// The frame that all figures share; `height` without axes and legends.
json frame(const Figure& figure, double height) {
    json spec = {
        {"$schema", "https://vega.github.io/schema/vega/v5.json"},
        {"description", figure.description},
        {"width", 720},
        {"height", height},
        {"padding", 4},
        {"autosize", {{"type", "fit-x"}, {"contains", "padding"}}},
        {"config",
         {{"axis",
           {{"labelFont", font},
            {"labelFontSize", 12},
            {"labelColor", ink},
            {"titleFont", font},
            {"titleFontSize", 12},
            {"titleFontWeight", "normal"},
            {"titleColor", grey},
            {"gridColor", pale},
            {"domainColor", grey},
            {"tickColor", grey}}},
          {"legend",
           {{"labelFont", font}, {"labelFontSize", 12}, {"labelColor", ink}, {"symbolSize", 90}}},
          {"text", {{"font", font}, {"fontSize", 12}, {"fill", ink}}},
          {"title",
           {{"font", font},
            {"fontSize", 13},
            {"fontWeight", 600},
            {"color", ink},
            {"subtitleFont", font},
            {"subtitleFontSize", 12},
            {"subtitleColor", grey},
            {"subtitlePadding", 3},
            {"anchor", "start"},
            {"frame", "bounds"},
            {"offset", 10}}}}},
    };
    spec["title"] = {{"text", lines_of(figure.title, 44)}};
    return spec;
}

// Below the title. A figure that leaves its page keeps what must be known of it.
void set_subtitle(json& spec, const std::string& text, const ReportData& data) {
    spec["title"]["subtitle"] = lines_of(text, 54);
    if (const std::string label = builtin_label(data); !label.empty())
        for (const json& line : lines_of("made with " + label + ", not a language model", 54))
            spec["title"]["subtitle"].push_back(line);
}

// Foreign text anywhere in it made harmless to look at.
void clean_strings(json& node) {
    if (node.is_string())
        node = clean(node.get_ref<const std::string&>());
    else if (node.is_structured())
        for (json& child : node)
            clean_strings(child);
}

std::string finish(json spec) {
    clean_strings(spec);
    return spec.dump(-1, ' ', false, json::error_handler_t::replace);
}

// 1, 2, 5, 10, ... within [low, high].
json log_ticks(double low, double high) {
    json ticks = json::array();
    const int first = static_cast<int>(std::floor(std::log10(low))) - 1;
    const int last = static_cast<int>(std::ceil(std::log10(high))) + 1;
    for (int power = first; power <= last; ++power) {
        for (const double step : {1.0, 2.0, 5.0}) {
            // Division, because 10^-1 is no binary number: 1 / 10 is the nearest to it, 1 * 10^-1
            // need not be.
            const double tick =
                power < 0 ? step / std::pow(10.0, -power) : step * std::pow(10.0, power);
            if (tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9))
                ticks.push_back(tick);
        }
    }
    return ticks;
}

// JSON numbers keep six significant digits: more would only show the machine's last bits.
double rounded(double x) {
    if (!std::isfinite(x) || x == 0)
        return x;
    const double unit = std::pow(10.0, std::floor(std::log10(std::abs(x))) - 5);
    return std::round(x / unit) * unit;
}

std::string short_reason(const Candidate& candidate) {
    const Evaluation& evaluation = candidate.evaluation;
    if (!evaluation.status)
        return "no verdict";
    if (evaluation.reason == Reason::ok)
        return std::string(name_of(*evaluation.status));
    return fmt::format("{} ({})", name_of(*evaluation.status), name_of(evaluation.reason));
}

}  // namespace

// ---- The learning curve ------------------------------------------------------------------------

std::vector<Figure> learning_curve_figure(const ReportData& data) {
    const Pool pool = pool_of(data);
    const std::vector<CurvePoint> curve = learning_curve(pool);
    const bool any_proposal =
        std::ranges::any_of(curve, [](const CurvePoint& p) { return !is_start(*p.candidate); });
    if (!any_proposal)
        return {};
    json points = json::array();
    json steps = json::array();
    json lanes = json::array();
    double low = 1;
    double high = 1;
    int first = 1;
    int last = 0;
    bool without_verdict = false;
    const Candidate* best = nullptr;
    int best_order = 0;
    for (const CurvePoint& point : curve) {
        const Candidate& candidate = *point.candidate;
        first = std::min(first, point.order);
        last = std::max(last, point.order);
        if (point.best_so_far > 0)
            steps.push_back({{"order", point.order}, {"best", rounded(point.best_so_far)}});
        if (has_speedup(candidate)) {
            const Ratio& speedup = *candidate.evaluation.speedup;
            const bool interval =
                speedup.launches >= 2 && speedup.low > 0 && std::isfinite(speedup.high);
            const double bottom = interval ? speedup.low : speedup.estimate;
            const double top = interval ? speedup.high : speedup.estimate;
            low = std::min(low, bottom);
            high = std::max(high, top);
            points.push_back({{"order", point.order},
                              {"status", name_of(*candidate.evaluation.status)},
                              {"speedup", rounded(speedup.estimate)},
                              {"low", rounded(bottom)},
                              {"high", rounded(top)},
                              {"tip", fmt::format("{}: {}, {}", candidate.id, times_text(speedup),
                                                  short_reason(candidate))}});
            if (best == nullptr || speedup.estimate > best->evaluation.speedup->estimate) {
                best = &candidate;
                best_order = point.order;
            }
        } else {
            const bool verdict = candidate.evaluation.status.has_value();
            without_verdict = without_verdict || !verdict;
            lanes.push_back(
                {{"order", point.order},
                 {"lane", verdict ? name_of(*candidate.evaluation.status) : "no verdict"},
                 {"tip", candidate.id + ": " + short_reason(candidate)}});
        }
    }
    // Passing candidates without a time (tasks whose score is none) get a lane as well.
    json lane_names = json::array();
    for (const char* lane : {"fast", "pass", "compile", "fail", "no verdict"})
        if (std::ranges::any_of(lanes, [lane](const json& row) { return row["lane"] == lane; }))
            lane_names.push_back(lane);
    low = std::min(low / 1.1, 0.8);
    high = std::max(high * 1.25, 2.0);

    Figure figure{"learning-curve", "Best speed-up so far", "", ""};
    const std::size_t proposals = static_cast<std::size_t>(
        std::ranges::count_if(curve, [](const CurvePoint& p) { return !is_start(*p.candidate); }));
    figure.description = fmt::format(
        "Learning curve over {} in order: speed-up over the baseline start on a logarithmic scale "
        "with "
        "each candidate's interval; candidates without a speed-up as marks below.{}",
        counted(proposals, "proposal", "proposals"),
        best == nullptr ? std::string(" No candidate has a speed-up.")
                        : fmt::format(" The best is {} with {}.", best->id,
                                      times_text(*best->evaluation.speedup)));

    const double plot = 300;
    const double lane_height = 22;
    const double gap = lane_names.empty() ? 0 : 14;
    const double height = plot + gap + lane_height * static_cast<double>(lane_names.size());
    json spec = frame(figure, height);
    set_subtitle(
        spec,
        fmt::format(
            "over the baseline, by order of proposal; n\u00a0=\u00a0{}; bars: {}\u00a0% intervals",
            count_text(proposals),
            best == nullptr ? 95.0 : 100 * best->evaluation.speedup->confidence),
        data);
    steps.push_back(
        {{"order", last + 0.5}, {"best", steps.empty() ? json(nullptr) : steps.back()["best"]}});
    if (steps.size() == 1)
        steps = json::array();
    spec["data"] = json::array({{{"name", "points"}, {"values", points}},
                                {{"name", "steps"}, {"values", steps}},
                                {{"name", "unplaced"}, {"values", lanes}}});
    const json statuses = json::array({"fast", "pass", "compile", "fail", "no verdict"});
    spec["scales"] = json::array(
        {scale_of("x", "linear", json::array({first - 0.5, last + 0.5}), "width"),
         scale_of("y", "log", json::array({rounded(low), rounded(high)}), json::array({plot, 0})),
         scale_of("lane", "band", lane_names, json::array({plot + gap, height})),
         scale_of("fill", "ordinal", statuses,
                  json::array({blue, sky, yellow, vermillion, "#ffffff"})),
         scale_of("stroke", "ordinal", statuses,
                  json::array({blue, "#1f5f85", "#6b6400", vermillion, grey})),
         scale_of("shape", "ordinal", statuses,
                  json::array({"circle", "diamond", "triangle-up", "cross", "square"}))});
    spec["axes"] = json::array(
        {{{"orient", "bottom"},
          {"scale", "x"},
          {"title", "order of proposal"},
          {"tickMinStep", 1},
          {"tickCount", signal("max(2, ceil(width / 70))")},
          {"format", "d"},
          {"domain", false},
          {"labelOverlap", true},
          {"encode",
           {{"labels",
             {{"update", {{"text", signal("datum.value > 0 ? format(datum.value, 'd') : ''")}}}}},
            {"ticks", {{"update", {{"opacity", signal("datum.value > 0 ? 1 : 0")}}}}}}}},
         {{"orient", "left"},
          {"scale", "y"},
          {"title", "speed-up over the baseline"},
          {"titleAnchor", "end"},
          {"values", log_ticks(low, high)},
          {"grid", true},
          {"domain", false},
          {"encode", {{"labels", {{"update", {{"text", signal("datum.value + '\u00d7'")}}}}}}}}});
    if (!lane_names.empty())
        spec["axes"].push_back({{"orient", "left"},
                                {"scale", "lane"},
                                {"domain", false},
                                {"ticks", false},
                                {"labelPadding", 6}});
    json marks = json::array();
    if (!lane_names.empty())
        marks.push_back({{"type", "rule"},
                         {"encode",
                          {{"update",
                            {{"x", value(0)},
                             {"x2", signal("width")},
                             {"y", value(plot + gap / 2)},
                             {"stroke", value("#c4c9d1")},
                             {"strokeWidth", value(1)}}}}}});
    if (first <= 0) {
        marks.push_back({{"type", "rect"},
                         {"encode",
                          {{"update",
                            {{"x", at("x", first - 0.5)},
                             {"x2", at("x", 0.5)},
                             {"y", value(0)},
                             {"y2", value(height)},
                             {"fill", value("#f3f4f6")}}}}}});
        marks.push_back({{"type", "text"},
                         {"encode",
                          {{"update",
                            {{"x", at("x", (first - 0.5 + 0.5) / 2.0)},
                             {"y", value(height + 14)},
                             {"align", value("center")},
                             {"baseline", value("middle")},
                             {"fill", value(grey)},
                             {"fontSize", value(11)},
                             {"text", value(first == 0 ? "start" : "starts")}}}}}});
    }
    marks.push_back({{"type", "rule"},
                     {"encode",
                      {{"update",
                        {{"x", value(0)},
                         {"x2", signal("width")},
                         {"y", at("y", 1)},
                         {"stroke", value(grey)},
                         {"strokeDash", value(json::array({5, 4}))}}}}}});
    marks.push_back({{"type", "text"},
                     {"encode",
                      {{"update",
                        {{"x", signal("width - 4")},
                         {"y", at("y", 1)},
                         {"dy", value(11)},
                         {"align", value("right")},
                         {"baseline", value("middle")},
                         {"fill", value(grey)},
                         {"fontSize", value(11)},
                         {"text", value("baseline start")}}}}}});
    marks.push_back({{"type", "line"},
                     {"from", {{"data", "steps"}}},
                     {"encode",
                      {{"update",
                        {{"x", scaled("x", "order")},
                         {"y", scaled("y", "best")},
                         {"interpolate", value("step-after")},
                         {"stroke", value(ink)},
                         {"strokeWidth", value(1.75)}}}}}});
    marks.push_back({{"type", "rule"},
                     {"from", {{"data", "points"}}},
                     {"encode",
                      {{"update",
                        {{"x", scaled("x", "order")},
                         {"y", scaled("y", "low")},
                         {"y2", scaled("y", "high")},
                         {"stroke", scaled("stroke", "status")},
                         {"strokeWidth", value(1.5)}}}}}});
    const auto symbols = [](std::string_view from, const json& y, std::string_view status) {
        return json{{"type", "symbol"},
                    {"from", {{"data", from}}},
                    {"encode",
                     {{"update",
                       {{"x", scaled("x", "order")},
                        {"y", y},
                        {"shape", scaled("shape", status)},
                        {"size", value(58)},
                        {"fill", scaled("fill", status)},
                        {"stroke", scaled("stroke", status)},
                        {"strokeWidth", value(1.2)},
                        {"tooltip", field("tip")}}}}}};
    };
    marks.push_back(symbols("points", scaled("y", "speedup"), "status"));
    if (!lane_names.empty())
        marks.push_back(
            symbols("unplaced", {{"scale", "lane"}, {"field", "lane"}, {"band", 0.5}}, "lane"));
    if (best != nullptr) {
        const bool right_half = 2 * best_order > first + last;
        marks.push_back(
            {{"type", "text"},
             {"encode",
              {{"update",
                {{"x", at("x", best_order)},
                 {"y", at("y", rounded(best->evaluation.speedup->launches >= 2
                                           ? best->evaluation.speedup->high
                                           : best->evaluation.speedup->estimate))},
                 {"dx", value(right_half ? 6 : -6)},
                 {"dy", value(-9)},
                 {"align", value(right_half ? "right" : "left")},
                 {"fontWeight", value(600)},
                 {"text", value(fmt::format("{}: {}", clip(best->id, 20),
                                            times_text(best->evaluation.speedup->estimate)))}}}}}});
    }
    spec["marks"] = marks;
    // The lanes name their marks themselves; the legend explains what is in the plot.
    spec["legends"] = json::array({{{"fill", "fill"},
                                    {"stroke", "stroke"},
                                    {"shape", "shape"},
                                    {"orient", "top"},
                                    {"direction", "horizontal"},
                                    {"values", json::array({"fast", "pass"})},
                                    {"padding", 0},
                                    {"offset", 6}}});
    figure.spec = finish(spec);
    return {figure};
}

// ---- Outcomes per generation -------------------------------------------------------------------

std::vector<Figure> outcome_figure(const ReportData& data) {
    const std::vector<Outcomes> rows = outcomes_by_generation(pool_of(data));
    std::size_t total = 0;
    for (const Outcomes& row : rows)
        total += row.with_verdict;
    if (total == 0)
        return {};
    json areas = json::array();
    json bounds = json::array();
    json generations = json::array();
    json sizes = json::object();
    for (const Outcomes& row : rows) {
        if (row.with_verdict == 0)
            continue;
        const std::string generation = std::to_string(row.generation);
        generations.push_back(generation);
        sizes[generation] = fmt::format("n = {}", row.with_verdict);
        double below = 0;
        for (int status = 3; status >= 0; --status) {
            const std::size_t count = row.exactly[static_cast<std::size_t>(status)];
            const double share = static_cast<double>(count) / static_cast<double>(row.with_verdict);
            areas.push_back({{"generation", generation},
                             {"status", status_names[static_cast<std::size_t>(status)]},
                             {"from", rounded(below)},
                             {"to", rounded(status == 0 ? 1.0 : below + share)},
                             {"tip", fmt::format("generation {}: {} of {} ended at {}", generation,
                                                 count, row.with_verdict,
                                                 status_names[static_cast<std::size_t>(status)])}});
            below += share;
        }
        for (const Status status : {Status::pass, Status::fast}) {
            const stats::Estimate reached = row.reaches(status);
            bounds.push_back({{"generation", generation},
                              {"status", name_of(status)},
                              {"share", rounded(reached.value)},
                              {"low", rounded(reached.low)},
                              {"high", rounded(reached.high)},
                              {"shift", status == Status::pass ? -4 : 4}});
        }
    }
    Figure figure{"outcomes", "What became of the proposals", "", ""};
    const Outcomes all = outcomes_in_all(pool_of(data));
    figure.description = fmt::format(
        "Shares of proposals per generation that ended at fail, compile, pass and fast, stacked; "
        "over all "
        "{} of {} reached pass and {} reached fast.",
        all.exactly[2] + all.exactly[3],
        counted(all.with_verdict, "judged proposal", "judged proposals"), all.exactly[3]);
    json spec = frame(figure, 260);
    set_subtitle(spec,
                 "share of judged proposals; bars: 95\u00a0% Wilson intervals of \u201creaches "
                 "fast\u201d (right) and "
                 "\u201creaches pass\u201d (left)",
                 data);
    spec["data"] = json::array(
        {{{"name", "areas"}, {"values", areas}}, {{"name", "bounds"}, {"values", bounds}}});
    spec["signals"] = json::array({{{"name", "sizes"}, {"value", sizes}}});
    const json statuses = json::array({"fail", "compile", "pass", "fast"});
    const bool bars = generations.size() == 1;
    json x = scale_of("x", bars ? "band" : "point", generations, "width");
    x["padding"] = bars ? 0.35 : 0.12;
    spec["scales"] = json::array(
        {x, scale_of("y", "linear", json::array({0, 1}), "height"),
         scale_of("fill", "ordinal", statuses, json::array({vermillion, yellow, sky, blue}))});
    spec["axes"] = json::array(
        {{{"orient", "bottom"},
          {"scale", "x"},
          {"title", "generation, and its number of judged proposals"},
          {"labelOverlap", true},
          {"domain", false},
          {"encode",
           {{"labels", {{"update", {{"text", signal("[datum.value, sizes[datum.value]]")}}}}}}}},
         {{"orient", "left"},
          {"scale", "y"},
          {"format", "%"},
          {"grid", true},
          {"domain", false},
          {"tickCount", 5},
          {"title", "share of proposals"}}});
    const json look = {{"fill", scaled("fill", "status")},
                       {"stroke", value("#ffffff")},
                       {"strokeWidth", value(1.5)},
                       {"tooltip", field("tip")}};
    json update = look;
    update["x"] = scaled("x", "generation");
    update["y"] = scaled("y", "to");
    update["y2"] = scaled("y", "from");
    json marks = json::array();
    if (bars) {
        update["width"] = {{"scale", "x"}, {"band", 1}};
        marks.push_back(
            {{"type", "rect"}, {"from", {{"data", "areas"}}}, {"encode", {{"update", update}}}});
    } else {
        marks.push_back(
            {{"type", "group"},
             {"from", {{"facet", {{"name", "area"}, {"data", "areas"}, {"groupby", "status"}}}}},
             {"marks", json::array({{{"type", "area"},
                                     {"from", {{"data", "area"}}},
                                     {"encode", {{"update", update}}}}})}});
    }
    const json centre =
        bars ? json{{"scale", "x"},
                    {"field", "generation"},
                    {"band", 0.5},
                    {"offset", field("shift")}}
             : json{{"scale", "x"}, {"field", "generation"}, {"offset", field("shift")}};
    // White under black, so that the bars are seen on every area.
    for (const auto& [colour, width] : {std::pair{"#ffffff", 3.5}, std::pair{ink, 1.3}})
        marks.push_back({{"type", "rule"},
                         {"from", {{"data", "bounds"}}},
                         {"encode",
                          {{"update",
                            {{"x", centre},
                             {"y", scaled("y", "low")},
                             {"y2", scaled("y", "high")},
                             {"stroke", value(colour)},
                             {"strokeWidth", value(width)}}}}}});
    marks.push_back({{"type", "symbol"},
                     {"from", {{"data", "bounds"}}},
                     {"encode",
                      {{"update",
                        {{"x", centre},
                         {"y", scaled("y", "share")},
                         {"size", value(26)},
                         {"shape", {{"signal", "datum.status == 'fast' ? 'circle' : 'diamond'"}}},
                         {"fill", value("#ffffff")},
                         {"stroke", value(ink)},
                         {"strokeWidth", value(1.2)}}}}}});
    spec["marks"] = marks;
    spec["legends"] = json::array({{{"fill", "fill"},
                                    {"orient", "top"},
                                    {"direction", "horizontal"},
                                    {"symbolType", "square"},
                                    {"symbolStrokeColor", grey},
                                    {"padding", 0},
                                    {"offset", 6},
                                    {"values", statuses}}});
    figure.spec = finish(spec);
    return {figure};
}

// ---- Effects with intervals: attribution and comparisons ----------------------------------------

namespace {

// A row of a chart of effects: one line, one mark, one interval, and the numbers in words at the
// right.
struct Effect {
    std::string group;  // rows of one group stand together, its name is the axis label
    std::string kind;   // "Shapley", "Banzhaf", or ""
    double value = 0, low = 0, high = 0;
    bool interval = false;
    bool clear = false;  // the interval excludes 0
    std::string text;
};

// The x domain that holds all effects, 0 among them.
std::pair<double, double> domain_of(const std::vector<Effect>& effects) {
    double low = 0;
    double high = 0;
    for (const Effect& effect : effects) {
        low = std::min({low, effect.value, effect.interval ? effect.low : effect.value});
        high = std::max({high, effect.value, effect.interval ? effect.high : effect.value});
    }
    const double span = high - low;
    if (span == 0)
        return {-1, 1};
    return {rounded(low - 0.04 * span), rounded(high + 0.04 * span)};
}

Effect effect_of(Metric metric, const stats::Estimate& estimate, std::string group,
                 std::string kind) {
    const double scale = is_share(metric) ? 100 : 1;
    Effect effect{std::move(group),
                  std::move(kind),
                  scale * estimate.value,
                  0,
                  0,
                  has_interval(estimate),
                  false,
                  ""};
    if (effect.interval) {
        effect.low = scale * estimate.low;
        effect.high = scale * estimate.high;
        effect.clear = estimate.low > 0 || estimate.high < 0;
    }
    effect.text = effect_text(metric, estimate);
    return effect;
}

json values_of(const std::vector<Effect>& effects) {
    json values = json::array();
    for (const Effect& effect : effects) {
        json row = {{"group", effect.group},
                    {"kind", effect.kind},
                    {"value", rounded(effect.value)},
                    {"clear", effect.clear},
                    {"text", effect.text}};
        if (effect.interval) {
            row["low"] = rounded(effect.low);
            row["high"] = rounded(effect.high);
        }
        values.push_back(std::move(row));
    }
    return values;
}

json unique_groups(const std::vector<Effect>& effects) {
    json groups = json::array();
    for (const Effect& effect : effects)
        if (std::ranges::find(groups, json(effect.group)) == groups.end())
            groups.push_back(effect.group);
    return groups;
}

// Space for the numbers at the right: 7 px a character of the longest.
double margin_for(const std::vector<Effect>& effects) {
    std::size_t longest = 0;
    for (const Effect& effect : effects)
        longest = std::max(longest, width_of(effect.text));
    return 10 + 6.6 * static_cast<double>(longest);
}

json zero_rule() {
    return {{"type", "rule"},
            {"encode",
             {{"update",
               {{"x", at("x", 0)},
                {"y", value(0)},
                {"y2", signal("height")},
                {"stroke", value(ink)},
                {"strokeWidth", value(1)}}}}}};
}

// The numbers stand in a column of their own, beyond the plot; the plot is what the column leaves.
json number_column(const json& y) {
    return {{"type", "text"},
            {"from", {{"data", "effects"}}},
            {"encode",
             {{"update",
               {{"x", signal("width")},
                {"y", y},
                {"align", value("right")},
                {"baseline", value("middle")},
                {"fontSize", value(11)},
                {"fontWeight", {{"signal", "datum.clear ? 600 : 400"}}},
                {"text", field("text")}}}}}};
}

json interval_rule(const json& y, std::string_view colour, double width) {
    return {{"type", "rule"},
            {"from", {{"data", "effects"}}},
            {"encode",
             {{"update",
               {{"x", scaled("x", "low")},
                {"x2", scaled("x", "high")},
                {"y", y},
                {"opacity", {{"signal", "isValid(datum.low) ? 1 : 0"}}},
                {"stroke", value(colour)},
                {"strokeWidth", value(width)}}}}}};
}

json effect_axes(const std::string& title) {
    return json::array({{{"orient", "bottom"},
                         {"scale", "x"},
                         {"title", title},
                         {"grid", true},
                         {"domain", false},
                         {"tickCount", signal("max(3, ceil(plot / 70))")},
                         {"labelOverlap", true}},
                        {{"orient", "left"},
                         {"scale", "y"},
                         {"domain", false},
                         {"ticks", false},
                         {"labelPadding", 8},
                         {"labelLimit", 110}}});
}

json plot_signals(double margin) {
    return json::array(
        {{{"name", "plot"}, {"update", fmt::format("max(40, width - {})", rounded(margin))}}});
}

json effect_x(std::pair<double, double> domain) {
    return {{"name", "x"},
            {"type", "linear"},
            {"domain", json::array({domain.first, domain.second})},
            {"range", json::array({0, signal("plot")})},
            {"zero", false}};
}

std::string spoken(const std::vector<Effect>& effects) {
    std::string text;
    for (const Effect& effect : effects)
        text += fmt::format("{}{}{}{}: {}", text.empty() ? "" : "; ", effect.group,
                            effect.kind.empty() ? "" : ", ", effect.kind, effect.text);
    return text;
}

std::vector<Effect> index_effects(const ReportData& data, const GameEstimate& game) {
    std::vector<Effect> effects;
    const auto player_of = [&](const IndexEstimate& index) {
        const std::string name = coalition_name(data.attribution->players, index.subset);
        return name.substr(1, name.size() - 2);
    };
    for (std::size_t i = 0; i < game.shapley.size(); ++i) {
        effects.push_back(effect_of(game.metric, game.shapley[i].estimate,
                                    player_of(game.shapley[i]), "Shapley"));
        if (i < game.banzhaf.size())
            effects.push_back(effect_of(game.metric, game.banzhaf[i].estimate,
                                        player_of(game.banzhaf[i]), "Banzhaf"));
    }
    return effects;
}

}  // namespace

namespace {

// "attribution-pass", and "attribution-pass-2" for the same metric in another setting.
std::string name_in(const std::vector<Figure>& figures, std::string_view kind, Metric metric) {
    const std::string name = fmt::format("{}-{}", kind, name_of(metric));
    const auto same = std::ranges::count_if(figures, [&name](const Figure& figure) {
        return figure.name == name || figure.name.starts_with(name + "-");
    });
    return same == 0 ? name : fmt::format("{}-{}", name, same + 1);
}

}  // namespace

std::vector<Figure> attribution_figures(const ReportData& data) {
    std::vector<Figure> figures;
    if (!data.attribution)
        return figures;
    // One domain for the three shares, so that bars in neighbouring figures compare.
    std::vector<Effect> shares;
    for (const GameEstimate* game : pooled_games(*data.attribution)) {
        if (!is_share(game->metric))
            continue;
        const std::vector<Effect> effects = index_effects(data, *game);
        shares.insert(shares.end(), effects.begin(), effects.end());
    }
    for (const GameEstimate* pooled : pooled_games(*data.attribution)) {
        const GameEstimate& game = *pooled;
        const Metric metric = game.metric;
        const std::vector<Effect> effects = index_effects(data, game);
        if (effects.empty())
            continue;
        Figure figure{name_in(figures, "attribution", metric),
                      fmt::format("Worth of a component: {}", game_title(game)), "", ""};
        figure.description =
            fmt::format("Shapley and Banzhaf values with intervals for {}, in {}, over {}. {}.",
                        game_title(game), metric_unit(metric), game_n(game), spoken(effects));
        const json groups = unique_groups(effects);
        json spec = frame(figure, 48.0 * static_cast<double>(groups.size()));
        set_subtitle(spec, fmt::format("n\u00a0=\u00a0{}; 95\u00a0%\u00a0intervals", game_n(game)),
                     data);
        spec["data"] = json::array({{{"name", "effects"}, {"values", values_of(effects)}}});
        spec["signals"] = plot_signals(margin_for(effects));
        json y = scale_of("y", "band", groups, "height");
        y["paddingInner"] = 0.2;
        y["paddingOuter"] = 0.1;
        spec["scales"] =
            json::array({effect_x(domain_of(is_share(metric) ? shares : effects)),
                         y,
                         {{"name", "row"},
                          {"type", "band"},
                          {"domain", json::array({"Shapley", "Banzhaf"})},
                          {"range", json::array({0, signal("bandwidth('y')")})},
                          {"paddingInner", 0.15}},
                         scale_of("fill", "ordinal", json::array({"Shapley", "Banzhaf"}),
                                  json::array({blue, "#ffffff"})),
                         scale_of("dash", "ordinal", json::array({"Shapley", "Banzhaf"}),
                                  json::array({json::array({1, 0}), json::array({3, 2})}))});
        spec["axes"] = effect_axes(metric_unit(metric));
        const json top = {
            {"scale", "y"}, {"field", "group"}, {"offset", {{"scale", "row"}, {"field", "kind"}}}};
        const json middle = {{"scale", "y"},
                             {"field", "group"},
                             {"offset", {{"scale", "row"}, {"field", "kind"}, {"band", 0.5}}}};
        const json bar = {{"type", "rect"},
                          {"from", {{"data", "effects"}}},
                          {"encode",
                           {{"update",
                             {{"x", at("x", 0)},
                              {"x2", scaled("x", "value")},
                              {"y", top},
                              {"height", {{"scale", "row"}, {"band", 1}}},
                              {"fill", scaled("fill", "kind")},
                              {"stroke", value(blue)},
                              {"strokeDash", scaled("dash", "kind")},
                              {"tooltip", field("text")}}}}}};
        spec["marks"] =
            json::array({bar, interval_rule(middle, "#ffffff", 4), interval_rule(middle, ink, 1.6),
                         zero_rule(), number_column(middle)});
        spec["legends"] = json::array({{{"fill", "fill"},
                                        {"strokeDash", "dash"},
                                        {"orient", "top"},
                                        {"direction", "horizontal"},
                                        {"symbolType", "square"},
                                        {"symbolStrokeColor", blue},
                                        {"padding", 0},
                                        {"offset", 6}}});
        figure.spec = finish(spec);
        figures.push_back(std::move(figure));
    }
    return figures;
}

std::vector<Figure> comparison_figures(const ReportData& data) {
    std::vector<Figure> figures;
    if (!data.attribution)
        return figures;
    const auto rows_of = [&data](Metric metric) {
        std::vector<std::pair<const ArmComparison*, Effect>> rows;
        for (const ArmComparison& comparison : data.attribution->comparisons) {
            if (comparison.metric != metric)
                continue;
            rows.emplace_back(
                &comparison, effect_of(metric, comparison.difference,
                                       fmt::format("{} \u2212 {}", arm_name(data, comparison.arm_a),
                                                   arm_name(data, comparison.arm_b)),
                                       ""));
        }
        return rows;
    };
    std::vector<Effect> shares;
    for (const Metric metric : {Metric::compile, Metric::pass, Metric::fast})
        for (const auto& [comparison, effect] : rows_of(metric))
            shares.push_back(effect);
    for (const Metric metric : {Metric::compile, Metric::pass, Metric::fast, Metric::gain}) {
        const auto rows = rows_of(metric);
        if (rows.empty())
            continue;
        std::vector<Effect> effects;
        json values = json::array();
        json order = json::array();
        std::size_t contexts = 0;
        for (const auto& [comparison, effect] : rows) {
            effects.push_back(effect);
            if (comparison->structurally_zero > 0 &&
                comparison->structurally_zero >= comparison->contexts)
                effects.back().text = "structurally zero";
            contexts =
                std::max(contexts, static_cast<std::size_t>(std::max(comparison->contexts, 0)));
        }
        values = values_of(effects);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            values[i]["row"] = i;
            order.push_back(i);
            values[i]["clear"] = rows[i].first->adjusted_p < 0.05;
            values[i]["tip"] = fmt::format("{}: {}, adjusted p {}", rows[i].second.group,
                                           rows[i].second.text, p_text(rows[i].first->adjusted_p));
        }
        Figure figure{fmt::format("comparison-{}", name_of(metric)),
                      fmt::format("Arms compared: {}", metric_title(metric)), "", ""};
        figure.description = fmt::format(
            "Paired differences between arms with intervals for {}, in {}, over {}. {}.",
            metric_title(metric), metric_unit(metric), counted(contexts, "context", "contexts"),
            spoken(effects));

        const double row_height = 38;
        json spec = frame(figure, row_height * static_cast<double>(rows.size()));
        set_subtitle(
            spec,
            fmt::format(
                "n\u00a0=\u00a0{}; 95\u00a0%\u00a0intervals; filled: adjusted p\u00a0<\u00a00.05",
                counted(contexts, "context", "contexts")),
            data);
        spec["data"] = json::array({{{"name", "effects"}, {"values", values}}});
        spec["signals"] = plot_signals(margin_for(effects));
        spec["scales"] = json::array({effect_x(domain_of(is_share(metric) ? shares : effects)),
                                      scale_of("y", "band", order, "height")});
        // The names of two arms are long: they stand in a line of their own above what they name.
        spec["axes"] = json::array({effect_axes(metric_unit(metric))[0]});
        const json label = {{"type", "text"},
                            {"from", {{"data", "effects"}}},
                            {"encode",
                             {{"update",
                               {{"x", value(0)},
                                {"y", {{"scale", "y"}, {"field", "row"}, {"band", 0.26}}},
                                {"baseline", value("middle")},
                                {"fontSize", value(11)},
                                {"limit", signal("width")},
                                {"text", field("group")}}}}}};
        const json middle = {{"scale", "y"}, {"field", "row"}, {"band", 0.7}};
        const json mark = {
            {"type", "symbol"},
            {"from", {{"data", "effects"}}},
            {"encode",
             {{"update",
               {{"x", scaled("x", "value")},
                {"y", middle},
                {"shape", value("square")},
                {"size", value(52)},
                {"fill", {{"signal", fmt::format("datum.clear ? '{}' : '#ffffff'", blue)}}},
                {"stroke", value(blue)},
                {"strokeWidth", value(1.5)},
                {"tooltip", field("tip")}}}}}};
        // Keeps the grid and the zero line out of the names.
        const json strip = {{"type", "rect"},
                            {"from", {{"data", "effects"}}},
                            {"encode",
                             {{"update",
                               {{"x", value(-1)},
                                {"width", signal("width + 1")},
                                {"y", scaled("y", "row")},
                                {"height", value(0.48 * row_height)},
                                {"fill", value("#ffffff")}}}}}};
        spec["marks"] = json::array({zero_rule(), strip, interval_rule(middle, blue, 1.8), mark,
                                     number_column(middle), label});
        figure.spec = finish(spec);
        figures.push_back(std::move(figure));
    }
    return figures;
}

// ---- Interactions
// --------------------------------------------------------------------------------

std::vector<Figure> interaction_figures(const ReportData& data) {
    std::vector<Figure> figures;
    if (!data.attribution || data.attribution->players.size() < 2)
        return figures;
    const std::vector<std::string>& players = data.attribution->players;
    const std::size_t n = players.size();
    for (const GameEstimate* pooled : pooled_games(*data.attribution)) {
        const GameEstimate& game = *pooled;
        const Metric metric = game.metric;
        json cells = json::array();
        json higher = json::array();
        double largest = 0;
        std::string told;
        for (const IndexEstimate& index : game.interactions) {
            std::vector<std::size_t> members;
            for (std::size_t i = 0; i < n; ++i)
                if ((index.subset >> i & 1U) != 0)
                    members.push_back(i);
            const bool zero =
                index.structurally_zero > 0 && index.structurally_zero >= game.contexts;
            const Effect effect = effect_of(metric, index.estimate, "", "");
            const std::size_t space = effect.text.find(' ');
            json row = {{"value", zero ? 0 : rounded(effect.value)},
                        {"clear", effect.clear && !zero},
                        {"zero", zero},
                        {"first", zero ? "structurally" : effect.text.substr(0, space)},
                        {"second", zero ? "zero" : effect.text.substr(space + 1)}};
            largest = std::max(largest, zero ? 0 : std::abs(effect.value));
            told += fmt::format("{}{}: {}", told.empty() ? "" : "; ",
                                coalition_name(players, index.subset),
                                zero ? "structurally zero" : effect.text);
            if (members.size() == 2) {
                row["column"] = players[members[0]];
                row["row"] = players[members[1]];
                cells.push_back(std::move(row));
            } else {
                row["name"] = members.size() == n && n == 3 ? std::string("all three")
                                                            : coalition_name(players, index.subset);
                higher.push_back(std::move(row));
            }
        }
        if (cells.empty())
            continue;
        Figure figure{name_in(figures, "interactions", metric),
                      fmt::format("Interactions: {}", game_title(game)), "", ""};
        figure.description =
            fmt::format("Shapley interaction indices with intervals for {}, in {}, over {}. {}.",
                        game_title(game), metric_unit(metric), game_n(game), told);
        const double cell = 54;
        const double matrix = cell * static_cast<double>(n - 1);
        const double gap = higher.empty() ? 0 : 10;
        const double height = matrix + gap + cell * static_cast<double>(higher.size());
        json spec = frame(figure, height);
        set_subtitle(spec,
                     fmt::format("{}; n\u00a0=\u00a0{}; 95\u00a0%\u00a0intervals",
                                 metric_unit(metric), game_n(game)),
                     data);
        spec["data"] = json::array(
            {{{"name", "cells"}, {"values", cells}}, {{"name", "higher"}, {"values", higher}}});
        json columns = json::array();
        json rows = json::array();
        for (std::size_t i = 0; i + 1 < n; ++i) {
            columns.push_back(players[i]);
            rows.push_back(players[i + 1]);
        }
        json higher_names = json::array();
        for (const json& row : higher)
            higher_names.push_back(row["name"]);
        const double reach = largest > 0 ? rounded(largest) : 1;
        json colour = scale_of("colour", "linear", json::array({-reach, 0, reach}),
                               json::array({"#E8935A", "#ffffff", "#6FA8CF"}));
        colour["interpolate"] = "rgb";
        spec["scales"] = json::array(
            {scale_of("column", "band", columns, "width"),
             scale_of("row", "band", rows, json::array({0, matrix})),
             scale_of("higher", "band", higher_names, json::array({matrix + gap, height})),
             colour});
        const json bare = {
            {"domain", false}, {"ticks", false}, {"labelPadding", 6}, {"labelLimit", 110}};
        json top_axis = bare;
        top_axis["orient"] = "top";
        top_axis["scale"] = "column";
        json left_axis = bare;
        left_axis["orient"] = "left";
        left_axis["scale"] = "row";
        spec["axes"] = json::array({top_axis, left_axis});
        if (!higher.empty()) {
            json higher_axis = bare;
            higher_axis["orient"] = "left";
            higher_axis["scale"] = "higher";
            spec["axes"].push_back(higher_axis);
        }
        const auto tiles = [](std::string_view from, json x, json y, const json& width,
                              const json& middle_x, const json& middle_y, json tile_height) {
            json update = {
                {"x", std::move(x)},
                {"y", std::move(y)},
                {"width", width},
                {"height", std::move(tile_height)},
                {"fill", scaled("colour", "value")},
                {"stroke", {{"signal", fmt::format("datum.clear ? '{}' : '#ffffff'", ink)}}},
                {"strokeWidth", value(2)},
                {"zindex", {{"signal", "datum.clear ? 1 : 0"}}}};
            update["fill"] = json::array(
                {{{"test", "datum.zero"}, {"value", "#eef0f2"}}, scaled("colour", "value")});
            json marks = json::array(
                {{{"type", "rect"}, {"from", {{"data", from}}}, {"encode", {{"update", update}}}}});
            for (const auto& [line, shift] : {std::pair{"first", -8}, std::pair{"second", 8}}) {
                marks.push_back({{"type", "text"},
                                 {"from", {{"data", from}}},
                                 {"encode",
                                  {{"update",
                                    {{"x", middle_x},
                                     {"y", middle_y},
                                     {"dy", value(shift)},
                                     {"align", value("center")},
                                     {"baseline", value("middle")},
                                     {"fontSize", value(shift < 0 ? 13 : 11)},
                                     {"fontWeight", {{"signal", "datum.clear ? 700 : 400"}}},
                                     {"text", field(line)}}}}}});
            }
            return marks;
        };
        json marks = tiles("cells", scaled("column", "column"), scaled("row", "row"),
                           {{"scale", "column"}, {"band", 1}},
                           {{"scale", "column"}, {"field", "column"}, {"band", 0.5}},
                           {{"scale", "row"}, {"field", "row"}, {"band", 0.5}},
                           {{"scale", "row"}, {"band", 1}});
        if (!higher.empty())
            for (const json& mark :
                 tiles("higher", value(0), scaled("higher", "name"), signal("width"),
                       signal("width / 2"), {{"scale", "higher"}, {"field", "name"}, {"band", 0.5}},
                       {{"scale", "higher"}, {"band", 1}}))
                marks.push_back(mark);
        spec["marks"] = marks;
        figure.spec = finish(spec);
        figures.push_back(std::move(figure));
    }
    return figures;
}

}  // namespace loopscope
