#include "operator/scaling/decision_record.h"

namespace janus::control {

std::string ToString(const InstanceCounts& counts) {
  return std::to_string(counts.attention) + "A" + std::to_string(counts.experts) + "E";
}

}  // namespace janus::control
