// The tables of a report in plain text cells; page.cc makes HTML of them and text.cc lines for a
// terminal, each escaping for its own medium.
#pragma once
#include "report/digest.h"
#include "report/report.h"

#include <string>
#include <vector>

namespace loopscope {

struct Column {
    std::string title;
    bool number = false;  // right-aligned
};

struct Cell {
    std::string text;
    std::string tone;  // "", a status name, "clear" (interval excludes 0), "muted", "strong"
};

struct Table {
    std::string name;  // "outcomes", "indices", ...: unique in a report
    std::string caption;
    std::vector<Column> columns;
    std::vector<std::vector<Cell>> rows;  // the first cell of a row is its heading
    std::string note;                     // below the table, or ""
    bool empty() const { return rows.empty(); }
};

Table candidates_table(const ReportData& data);
Table outcomes_table(const ReportData& data);
Table ancestry_table(const ReportData& data);      // how the best came about
Table sessions_table(const Candidate& candidate);  // one line a timing session
Table timing_table(const ReportData& data,
                   const Candidate& candidate);  // one line a size and session
Table checks_table(const Candidate& candidate);  // verified cases
Table peers_table(const ReportData& data);
Table values_table(const ReportData& data);   // v(S), pooled
Table indices_table(const ReportData& data);  // Shapley and Banzhaf, pooled
Table interactions_table(const ReportData& data);
Table strata_table(const ReportData& data);       // exploratory
Table generations_table(const ReportData& data);  // exploratory
// All metrics, or one.
Table comparisons_table(const ReportData& data, std::optional<Metric> only = std::nullopt);
Table arms_table(const ReportData& data);
Table costs_table(const ReportData& data);

}  // namespace loopscope
