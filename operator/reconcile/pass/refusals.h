#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "operator/reconcile/pass/refusal.h"

namespace janus::control {

// Longest pause before a refused call is retried. No event reports that a quota was raised, a
// policy fixed, or a name became free.
inline constexpr std::chrono::seconds kLongestRefusal{300};

// Writes that the API server refused for a reason that only people or other programs can fix. A
// running service has a pass every few seconds; without this class each would repeat the write. The
// pauses grow. Thread-compatible.
class Refusals {
 public:
  // `world`: a hash of what may have fixed the reason, such as an edit or a deleted pod. If it
  // changes, everything is retried at once.
  void See(uint64_t world) {
    if (world != world_) refused_.clear();
    world_ = world;
  }
  // `what`: the call and the object's name. Nothing: it may be tried.
  std::optional<Refusal> Standing(const std::string& what, MonotonicTime now) const {
    const auto found = refused_.find(what);
    if (found == refused_.end() || found->second.again <= now) return std::nullopt;
    return found->second.refusal;
  }
  // `longest`: a shorter limit of the pause, for urgent calls. Returns the refusal with the time of
  // the first one of the same kind.
  Refusal Refused(const std::string& what, Refusal refusal, MonotonicTime now,
                  std::chrono::seconds longest = kLongestRefusal) {
    constexpr std::chrono::seconds kFirst{2};
    Entry& entry = refused_[what];
    if (entry.pause.count() > 0 && entry.refusal.cause.reason == refusal.cause.reason) {
      refusal.since = entry.refusal.since;
    }
    entry.pause = std::min(entry.pause.count() == 0 ? kFirst : 2 * entry.pause, longest);
    entry.again = now + entry.pause;
    entry.refusal = std::move(refusal);
    return entry.refusal;
  }
  // Refusals with a pause that is not over.
  std::vector<RefusedCall> All(MonotonicTime now) const {
    std::vector<RefusedCall> out;
    for (const auto& [what, entry] : refused_) {
      if (entry.again > now) out.push_back({what, entry.refusal, false, false});
    }
    return out;
  }
  void Done(const std::string& what) { refused_.erase(what); }
  // Call at the end of a pass. When the first may be retried. Those that could have been retried in
  // this pass, but were not, are no longer wanted.
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
