#pragma once

#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "operator/kube/object.h"
#include "operator/records/record_book.h"

namespace janus::control {

// How a step of a service went, for people: what AnswerRecords sends, and janusctl trace reads.
struct StepPage {
  ObjectKey service;
  double age_seconds = 0;      // since its members told
  int64_t clock_error_ns = 0;  // AlignClocks
  int pool = 1;
  std::vector<int> pools = {};  // with recorded steps
  // Of one step, attention first, by rank; the earliest span begins at 0.
  std::vector<StepTrace> instances;
};

// `pools`: those with recorded steps. REQUIRES: the record has an instance.
std::string StepJson(const ObjectKey& key, const StepRecord& record, const std::vector<int>& pools,
                     WallTime now);
// InvalidArgument: what is wrong, or missing.
janus::Result<StepPage> ParseStepJson(const std::string& text);

}  // namespace janus::control
