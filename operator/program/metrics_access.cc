#include "operator/program/metrics_access.h"

#include <openssl/evp.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "operator/kube/object.h"
#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

const Resource kTokenReviews{"authentication.k8s.io", "v1", "tokenreviews", "TokenReview", false};
const Resource kAccessReviews{"authorization.k8s.io", "v1", "subjectaccessreviews",
                              "SubjectAccessReview", false};
// Shorter than a scraper waits.
constexpr Seconds kCallTimeout{2};
constexpr std::string_view kBearer = "bearer ";

// The token of the header; empty: none.
std::string TokenOf(const std::string& authorization) {
  const bool is_bearer =
      authorization.size() > kBearer.size() &&
      std::equal(kBearer.begin(), kBearer.end(), authorization.begin(), [](char want, char has) {
        return want == (has >= 'A' && has <= 'Z' ? static_cast<char>(has - 'A' + 'a') : has);
      });
  return is_bearer ? authorization.substr(kBearer.size()) : "";
}

Node ReviewObject(const Resource& resource, Node spec) {
  return Object({{"apiVersion", Text(resource.ApiVersion())},
                 {"kind", Text(resource.kind)},
                 {"spec", std::move(spec)}});
}

bool IsTrueAt(const Node& object, std::string_view field) {
  const Node* const found = FindAt(object, {"status", field});
  return found != nullptr && found->boolean;
}

}  // namespace

std::optional<Page> MetricsAccess::Refuse(const std::string& authorization,
                                          const std::string& path) {
  const std::string token = TokenOf(authorization);
  if (token.empty()) {
    return Page{401, "send the bearer token of a user who may get " + path + "\n"};
  }
  const std::string named = path + "\n" + token;
  Digest digest{};
  if (EVP_Digest(named.data(), named.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1) {
    return Page{503, "OpenSSL has no SHA-256\n"};
  }
  const MonotonicTime now = timeline_.Now();
  const auto known = verdicts_.find(digest);
  Verdict verdict;
  if (known != verdicts_.end() && now < known->second.when + kRemembered) {
    verdict = known->second;
  } else if (Result<Verdict> reviewed = Review(token, path); reviewed.ok()) {
    verdict = *std::move(reviewed);
    Remember(digest, verdict);
  } else {
    const std::string why(reviewed.status().message());
    log_.Warning("no verdict on a reader of metrics", {{"path", path}, {"reason", why}});
    const bool was_allowed = known != verdicts_.end() && known->second.status == 200 &&
                             now < known->second.when + kOutage;
    if (!was_allowed) return Page{503, "the API server gave no verdict: " + why + "\n"};
    verdict = known->second;
  }
  if (verdict.status == 200) return std::nullopt;
  return Page{verdict.status, verdict.text + "\n"};
}

Result<MetricsAccess::Verdict> MetricsAccess::Review(const std::string& token,
                                                     const std::string& path) {
  Verdict out;
  out.when = timeline_.Now();
  const ApiResult<Node> known =
      api_.Create(kTokenReviews, ReviewObject(kTokenReviews, Object({{"token", Text(token)}})), {},
                  {kCallTimeout});
  if (!known.ok()) return known.error().ToStatus();
  const Node* const user = FindAt(*known, {"status", "user"});
  if (!IsTrueAt(*known, "authenticated") || user == nullptr) {
    out.status = 401;
    out.text = "the API server does not know this token";
    return out;
  }
  const std::string name(TextAt(*user, {"username"}));
  Node spec =
      Object({{"user", Text(name)},
              {"nonResourceAttributes", Object({{"path", Text(path)}, {"verb", Text("get")}})}});
  for (const char* field : {"uid", "groups", "extra"}) {
    if (const Node* const found = user->Find(field)) spec.Add(field, *found);
  }
  const ApiResult<Node> access = api_.Create(
      kAccessReviews, ReviewObject(kAccessReviews, std::move(spec)), {}, {kCallTimeout});
  if (!access.ok()) return access.error().ToStatus();
  if (IsTrueAt(*access, "allowed")) return out;
  out.status = 403;
  out.text = "user '" + name + "' may not get " + path +
             "; bind a ClusterRole with this path in nonResourceURLs to it";
  return out;
}

void MetricsAccess::Remember(const Digest& digest, Verdict verdict) {
  if (verdicts_.size() >= kMostTokens && !verdicts_.contains(digest)) {
    // Refused ones first, so that strangers cannot displace a scraper; then the oldest.
    verdicts_.erase(std::ranges::min_element(verdicts_, {}, [](const auto& one) {
      return std::pair(one.second.status == 200, one.second.when);
    }));
  }
  verdicts_[digest] = std::move(verdict);
}

}  // namespace janus::control
