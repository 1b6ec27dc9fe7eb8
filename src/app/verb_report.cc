#include "app/report_data.h"
#include "app/verbs.h"
#include "core/file.h"
#include "core/log.h"

#include <fmt/format.h>

namespace loopscope {

int verb_report(const Common& common, const ReportOptions& options) {
    return with_journal(common, true, [&](Journal& journal) {
        const Result<ReportData> data = report_data(journal, options.study);
        if (!data)
            return usage_error(data.error());
        if (common.json) {
            fmt::print("{}\n", json_report(*data));
            return static_cast<int>(exit_done);
        }
        const std::string text = options.format == "html"   ? html_report(*data)
                                 : options.format == "json" ? json_report(*data)
                                 : options.format == "csv"  ? csv_report(*data)
                                                            : text_report(*data);
        if (options.output == "-" || (options.output.empty() && options.format == "text")) {
            fmt::print("{}", text);
            return static_cast<int>(exit_done);
        }
        const std::string path =
            options.output.empty() ? data->study + "." + options.format : options.output;
        if (const Result<void> written = write_file(path, text); !written)
            return failure(written.error());
        log_info(fmt::format("the report is in {}", path));
        return static_cast<int>(exit_done);
    });
}

}  // namespace loopscope
