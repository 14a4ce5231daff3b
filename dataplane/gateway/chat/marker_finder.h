#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace janus::gateway {

// Finds markers in text that arrives in pieces, and holds back text that may become one.
// Thread-compatible.
class MarkerFinder {
 public:
  explicit MarkerFinder(std::vector<std::string> markers) : markers_(std::move(markers)) {}

  struct Found {
    std::string before;  // final text
    int marker = -1;     // the marker behind it; -1: none yet
  };
  // Takes more text, up to the first marker; the rest waits for the next call.
  Found Push(std::string_view text);
  // Returns the waiting text, at the end of the input.
  std::string Flush();

 private:
  const std::vector<std::string> markers_;
  std::string waiting_;
};

}  // namespace janus::gateway
