#include "operator/scaling/late_results.h"

namespace janus::control {

std::string RemedyOfLateResults(const TimedDevice& timed) {
  std::string out;
  if (timed.time_scale > 1) {
    out += "lower spec.timed.timeScale (now " + std::to_string(timed.time_scale) + "), ";
  }
  if (timed.scale < kMostTimedScale) {
    out += "raise spec.timed.scale (now " + std::to_string(timed.scale) +
           ") and send fewer requests, ";
  }
  if (timed.time_scale <= 1) {
    out +=
        "name slower hardware or a larger model in spec.timed, allow fewer instances "
        "(scaling.maxReplicas of the roles), ";
  }
  return out + "or use more cores";
}

}  // namespace janus::control
