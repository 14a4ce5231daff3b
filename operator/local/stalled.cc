#include "operator/local/stalled.h"

#include <cstdio>

namespace janus::control {

std::string FormatSeconds(Seconds seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g s", seconds.count());
  return text;
}

std::string DescribeStalledLoading(std::span<const PendingMember> pending, MonotonicTime now,
                                   Seconds timeout,
                                   const std::function<std::string(const std::string&)>& log_of) {
  std::string out = "loading made no progress for " + FormatSeconds(timeout);
  const char* before = ": ";
  for (const PendingMember& member : pending) {
    out += before + member.name;
    // Before its first word it is known since it was asked.
    out += member.phase.empty() ? " has said nothing since it was asked " : " was last heard of ";
    out += FormatSeconds(std::chrono::round<std::chrono::seconds>(now - member.last_heard)) +
           " ago (" + (member.phase.empty() ? "" : member.phase + "; ") +
           "log: " + log_of(member.name) + ")";
    before = "; ";
  }
  return out;
}

}  // namespace janus::control
