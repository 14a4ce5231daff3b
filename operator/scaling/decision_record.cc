#include "operator/scaling/decision_record.h"

namespace janus::control {

std::string ToString(const InstanceCounts& counts) {
  return std::to_string(counts.attention) + "A" + std::to_string(counts.experts) + "E" +
         (counts.pools > 1 ? " in " + std::to_string(counts.pools) + " pools" : "");
}

std::string_view NameOf(DecisionRecord::Action action) {
  switch (action) {
    case DecisionRecord::Action::kHold:
      return "Hold";
    case DecisionRecord::Action::kScaleUp:
      return "ScaleUp";
    case DecisionRecord::Action::kScaleDown:
      return "ScaleDown";
    case DecisionRecord::Action::kSplit:
      return "Split";
  }
  return "";
}

}  // namespace janus::control
