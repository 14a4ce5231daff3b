#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace janus::gateway {

// Finds stop strings in text that arrives in pieces. Text that may begin a stop string is held
// back, so that no byte of a stop string is returned unless it is to be kept. Thread-compatible;
// holds fewer bytes than the longest stop string.
class StopMatcher {
 public:
  // No string may be empty; without strings, all text passes. `keep_stop`: the text ends behind the
  // stop string instead of before it.
  explicit StopMatcher(std::vector<std::string> stops, bool keep_stop = false)
      : stops_(std::move(stops)), keep_stop_(keep_stop) {}

  // Returns the text that is final now. It ends at the stop string that is complete first (the
  // longest, if several end there). Returns nothing after a match.
  std::string Push(std::string_view text);
  // Returns the text held back, at the end of the input.
  std::string Flush();
  bool matched() const { return matched_; }
  // The stop string that matched, or empty.
  const std::string& match() const { return match_; }

 private:
  std::vector<std::string> stops_;  // constant
  bool keep_stop_;                  // constant
  std::string held_;
  bool matched_ = false;
  std::string match_;
};

}  // namespace janus::gateway
