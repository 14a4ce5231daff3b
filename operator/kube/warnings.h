#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "common/log.h"
#include "common/mutex.h"

namespace janus::control {

// Extracts the texts of an API server's warnings from headers `Warning: 299 - "text"`, which may
// hold several (RFC 7234, 5.5). Other codes are ignored. After an unreadable part the rest of that
// header is ignored. At most 64. Pure.
std::vector<std::string> WarningTexts(const std::vector<std::string>& headers);

// Logs warnings, each text once, as client-go does: dropped fields, deprecated versions, and what a
// later server will refuse. Thread-safe.
class ServerWarnings {
 public:
  static constexpr size_t kMostRemembered = 256;  // texts; the oldest is dropped first
  static constexpr size_t kMostShown = 1024;      // bytes of a text

  explicit ServerWarnings(Logger log) : log_(std::move(log)) {}

  // `method` and `path`: of the call that got the warning.
  void Tell(std::string_view text, std::string_view method, std::string_view path);

 private:
  const Logger log_;

  Mutex mu_;
  std::deque<std::string> told_ JANUS_GUARDED_BY(mu_);  // as logged, oldest first
};

}  // namespace janus::control
