#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/log.h"
#include "operator/kube/object_api.h"
#include "operator/kube/timeline.h"
#include "rpc/page_server.h"

namespace janus::control {

// Decides which users may read /metrics, as controller-runtime's WithAuthenticationAndAuthorization
// does: a TokenReview names the user of the bearer token, and a SubjectAccessReview says whether
// this user may `get` the path (nonResourceURLs of a ClusterRole).
//
// A verdict counts for kRemembered. If the API server does not answer, a user that was allowed
// stays so for kOutage, because an outage is when metrics matter. Tokens are remembered as digests.
//
// Confined to the thread of its PageServer, which waits for the reviews: that server must serve
// nothing but metrics.
class MetricsAccess {
 public:
  static constexpr std::chrono::seconds kRemembered{60};
  static constexpr std::chrono::minutes kOutage{10};
  static constexpr size_t kMostTokens = 256;

  // `api` and `timeline` outlive this.
  MetricsAccess(ObjectApi& api, const Timeline& timeline, Logger log)
      : api_(api), timeline_(timeline), log_(log) {}

  // `authorization`: that header. Nothing: the page may be read. 401: no token, or one that the API
  // server does not know. 403: the user lacks the right. 503: the API server gives no verdict.
  std::optional<Page> Refuse(const std::string& authorization, const std::string& path);

 private:
  struct Verdict {
    MonotonicTime when;
    int status = 200;  // 200: allowed
    std::string text;  // why not
  };
  using Digest = std::array<uint8_t, 32>;

  // The error: no verdict.
  Result<Verdict> Review(const std::string& token, const std::string& path);
  void Remember(const Digest& digest, Verdict verdict);

  ObjectApi& api_;
  const Timeline& timeline_;
  const Logger log_;
  std::map<Digest, Verdict> verdicts_;  // by digest of path and token
};

}  // namespace janus::control
