#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "operator/reconcile/pods/pods.h"

namespace janus::control {

// Which pods of a service have ended their part: they were leaving when they were seen last, and
// are no more. Remembers those that leave, as long as they do. Confined.
class LeavingPods {
 public:
  // `pods`: all of the service. Names of those that have gone since the last call.
  std::vector<std::string> Look(const std::vector<PodSeen>& pods) {
    std::set<std::string> there;
    for (const PodSeen& pod : pods) {
      there.insert(pod.uid);
      if (pod.is_leaving) leaving_.try_emplace(pod.uid, pod.name);
    }
    std::vector<std::string> gone;
    std::erase_if(leaving_, [&](const auto& one) {
      if (there.contains(one.first)) return false;
      gone.push_back(one.second);
      return true;
    });
    return gone;
  }

 private:
  std::map<std::string, std::string> leaving_;  // names by uid
};

}  // namespace janus::control
