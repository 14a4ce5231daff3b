#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "common/log.h"
#include "common/mutex.h"

namespace janus::control {

// Texts of an API server's warnings: what its headers `Warning: 299 - "text"` say, several in one
// or not (RFC 7234, 5.5). Other codes are not the API's; what cannot be read, or holds what is no
// text, is left out with all that follows it in its header. At most 64. Pure.
std::vector<std::string> WarningTexts(const std::vector<std::string>& headers);

// Logs warnings, each text once, as client-go does: fields that are dropped, versions that go, what
// a later server will refuse. Thread-safe.
class ServerWarnings {
 public:
  static constexpr size_t kMostRemembered = 256;  // texts; the oldest one is forgotten first
  static constexpr size_t kMostShown = 1024;      // bytes of a text

  explicit ServerWarnings(Logger log) : log_(std::move(log)) {}

  // `method` and `path`: of the call that was answered so.
  void Tell(std::string_view text, std::string_view method, std::string_view path);

 private:
  const Logger log_;

  Mutex mu_;
  std::deque<std::string> told_ JANUS_GUARDED_BY(mu_);  // as they are shown, oldest first
};

}  // namespace janus::control
