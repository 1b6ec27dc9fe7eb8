// What a report is made from, read from the journal.
#pragma once
#include "core/result.h"
#include "report/report.h"
#include "store/journal.h"

#include <string>

namespace loopscope {

// Of a run or of an intervention (with its source run as far as the journal has it).
Result<ReportData> report_data(Journal& journal, const std::string& study);

}  // namespace loopscope
