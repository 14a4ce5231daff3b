#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace janus::gateway {

// Finds markers in text that comes in pieces, and holds back what may become one.
// Thread-compatible.
class MarkerFinder {
 public:
  explicit MarkerFinder(std::vector<std::string> markers) : markers_(std::move(markers)) {}

  struct Found {
    std::string before;  // settled text
    int marker = -1;     // which one stands behind it; -1: none yet
  };
  // Takes more text, up to the first marker; what stands behind it waits for the next call.
  Found Push(std::string_view text);
  // The text that waits, when no more comes.
  std::string Flush();

 private:
  const std::vector<std::string> markers_;
  std::string waiting_;
};

}  // namespace janus::gateway
