#include "operator/reconcile/trouble.h"

#include <gtest/gtest.h>

namespace janus::control {
namespace {

ApiError Error(int http_status, const std::string& message) {
  return ErrorOfReply(http_status, R"({"kind":"Status","message":")" + message + R"("})", {});
}

// Texts as API servers of v1.35 give them, but for their quotes.
TEST(TroubleOf, TellsWhatHelps) {
  const std::tuple<int, const char*, TroubleKind, const char*> cases[] = {
      {422, "Pod is invalid: spec.containers[0].image: Required value", TroubleKind::kInvalid,
       "InvalidSpec"},
      {403,
       "pods is forbidden: exceeded quota: small, requested: pods=1, used: pods=4, limited: "
       "pods=4",
       TroubleKind::kCapacity, "QuotaExceeded"},
      {403, "pods is forbidden: violates PodSecurity restricted: hostPath volumes",
       TroubleKind::kInvalid, "InvalidSpec"},
      {403, "admission webhook 'validation.gatekeeper.sh' denied the request: [owners] no owner",
       TroubleKind::kInvalid, "InvalidSpec"},
      {500, "Internal error occurred: failed calling webhook: connection refused",
       TroubleKind::kRetry, ""},
      {403, "pods is forbidden: User system:x cannot create resource pods in API group",
       TroubleKind::kRetry, ""},
      {409, "the object has been modified", TroubleKind::kRetry, ""},
      {429, "too many requests", TroubleKind::kRetry, ""},
      {500, "etcdserver: request timed out", TroubleKind::kRetry, ""},
      {503, "apiserver is shutting down", TroubleKind::kRetry, ""},
      {401, "Unauthorized", TroubleKind::kRetry, ""},
  };
  for (const auto& [status, message, kind, reason] : cases) {
    SCOPED_TRACE(message);
    const Trouble trouble = TroubleOf(Error(status, message), "create pod a");
    EXPECT_EQ(trouble.kind, kind);
    EXPECT_EQ(trouble.reason, reason);
    EXPECT_EQ(trouble.message, std::string("create pod a: ") + message);
  }
  EXPECT_EQ(TroubleOf(LocalError(Cancelled("ending")), "x").kind, TroubleKind::kStop);
}

TEST(TroubleOf, KeepsToWhenTheServerWantsToBeAskedAgain) {
  const ApiError error = ErrorOfReply(429, "{}", Seconds(7));
  EXPECT_EQ(TroubleOf(error, "x").retry_after, Seconds(7));
}

}  // namespace
}  // namespace janus::control
