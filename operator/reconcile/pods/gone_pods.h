#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "operator/reconcile/pods/pods.h"

namespace janus::control {

// Returns the names of pods that were being deleted and are now gone. `pods` are all pods of the
// service. `leaving` remembers pods while they are being deleted: names by uid.
inline std::vector<std::string> TakeGonePods(const std::vector<PodSeen>& pods,
                                             std::map<std::string, std::string>& leaving) {
  std::set<std::string> there;
  for (const PodSeen& pod : pods) {
    there.insert(pod.uid);
    if (pod.is_leaving) leaving.try_emplace(pod.uid, pod.name);
  }
  std::vector<std::string> gone;
  std::erase_if(leaving, [&](const auto& one) {
    if (there.contains(one.first)) return false;
    gone.push_back(one.second);
    return true;
  });
  return gone;
}

}  // namespace janus::control
