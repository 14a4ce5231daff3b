#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace janus::gateway {

// Finds stop strings in text that comes in pieces. Text that may be the beginning of a stop string
// is held back, so that no byte of one gets out unless it is to be kept. Thread-compatible; holds
// fewer bytes than the longest stop string.
class StopMatcher {
 public:
  // No string may be empty; without any, everything passes. `keep_stop`: the text ends behind the
  // stop string, not before it.
  explicit StopMatcher(std::vector<std::string> stops, bool keep_stop = false)
      : stops_(std::move(stops)), keep_stop_(keep_stop) {}

  // Text that is settled now. It ends at the stop string that is complete first (of several that
  // end there, the longest). Nothing after a match.
  std::string Push(std::string_view text);
  // What was held back, when no more text comes.
  std::string Flush();
  bool matched() const { return matched_; }

 private:
  std::vector<std::string> stops_;  // constant
  bool keep_stop_;                  // constant
  std::string held_;
  bool matched_ = false;
};

}  // namespace janus::gateway
