#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "operator/reconcile/pass/refusal.h"

namespace janus::control {

// The longest pause before what was refused is asked for again. Nothing tells when a quota is
// raised, a policy is mended or a name is free.
inline constexpr std::chrono::seconds kLongestRefusal{300};

// Writes of a service that the API server refused for a reason that only people, or other programs,
// can mend. A service that serves has a pass every few seconds, and each would repeat the write: it
// waits, with pauses that grow. Thread-compatible.
class Refusals {
 public:
  // `world`: of what else may have mended it, as an edit or a pod that has gone. With another one
  // everything is asked for at once.
  void See(uint64_t world) {
    if (world != world_) refused_.clear();
    world_ = world;
  }
  // `what`: the call, and the object's name. Nothing: it may be tried.
  std::optional<Refusal> Standing(const std::string& what, MonotonicTime now) const {
    const auto found = refused_.find(what);
    if (found == refused_.end() || found->second.again <= now) return std::nullopt;
    return found->second.refusal;
  }
  // `longest`: of what must not wait as long as others.
  void Refused(const std::string& what, const Refusal& refusal, MonotonicTime now,
               std::chrono::seconds longest = kLongestRefusal) {
    constexpr std::chrono::seconds kFirst{2};
    Entry& entry = refused_[what];
    entry.pause = std::min(entry.pause.count() == 0 ? kFirst : 2 * entry.pause, longest);
    entry.again = now + entry.pause;
    entry.refusal = refusal;
  }
  // Those whose pauses are not over.
  std::vector<RefusedCall> All(MonotonicTime now) const {
    std::vector<RefusedCall> out;
    for (const auto& [what, entry] : refused_) {
      if (entry.again > now) out.push_back({what, entry.refusal, false, false});
    }
    return out;
  }
  void Done(const std::string& what) { refused_.erase(what); }
  // At the end of a pass: when the first of them may be tried again. What could have been, and was
  // not, is wanted no more.
  std::optional<MonotonicTime> Next(MonotonicTime now) {
    std::erase_if(refused_, [&](const auto& one) { return one.second.again <= now; });
    std::optional<MonotonicTime> next;
    for (const auto& [what, entry] : refused_) {
      if (!next || entry.again < *next) next = entry.again;
    }
    return next;
  }

 private:
  struct Entry {
    Refusal refusal;
    std::chrono::seconds pause{0};
    MonotonicTime again;
  };
  uint64_t world_ = 0;
  std::map<std::string, Entry> refused_;
};

}  // namespace janus::control
