#include "operator/reconcile/pass/refusal.h"

#include <gtest/gtest.h>

namespace janus::control {
namespace {

ApiError Error(int http_status, const std::string& message) {
  return ErrorOfReply(http_status, R"({"kind":"Status","message":")" + message + R"("})", {});
}

// Texts of API servers v1.35, except for their quotes.
TEST(RefusalOf, TellsWhatHelps) {
  const std::tuple<int, const char*, RefusalKind, const char*> cases[] = {
      {422, "Pod is invalid: spec.containers[0].image: Required value", RefusalKind::kInvalid,
       "InvalidSpec"},
      {403,
       "pods is forbidden: exceeded quota: small, requested: pods=1, used: pods=4, limited: "
       "pods=4",
       RefusalKind::kCapacity, "QuotaExceeded"},
      {403, "pods is forbidden: violates PodSecurity restricted: hostPath volumes",
       RefusalKind::kCapacity, "AdmissionDenied"},
      {403, "pods is forbidden: maximum cpu usage per Container is 1, but limit is 2",
       RefusalKind::kCapacity, "AdmissionDenied"},
      {403, "admission webhook 'validation.gatekeeper.sh' denied the request: [owners] no owner",
       RefusalKind::kCapacity, "AdmissionDenied"},
      {500, "Internal error occurred: failed calling webhook: connection refused",
       RefusalKind::kRetry, ""},
      {403, "pods is forbidden: User system:x cannot create resource pods in API group",
       RefusalKind::kRetry, ""},
      {409, "the object has been modified", RefusalKind::kRetry, ""},
      {429, "too many requests", RefusalKind::kRetry, ""},
      {500, "etcdserver: request timed out", RefusalKind::kRetry, ""},
      {503, "apiserver is shutting down", RefusalKind::kRetry, ""},
      {401, "Unauthorized", RefusalKind::kRetry, ""},
  };
  for (const auto& [status, message, kind, reason] : cases) {
    SCOPED_TRACE(message);
    const Refusal refusal = RefusalOf(Error(status, message), "create pod a");
    EXPECT_EQ(refusal.kind, kind);
    EXPECT_EQ(refusal.cause.reason, reason);
    EXPECT_EQ(refusal.cause.message, std::string("create pod a: ") + message);
  }
  EXPECT_EQ(RefusalOf(LocalError(Cancelled("ending")), "x").kind, RefusalKind::kStop);
}

TEST(RefusalOf, KnowsANamespaceThatIsBeingDeleted) {
  const auto ends = [](const std::string& cause) {
    return RefusalOf(ErrorOfReply(403,
                                  R"({"kind": "Status", "message": "pods is forbidden: unable to )"
                                  R"(create new content", "details": {"causes": [{"reason": ")" +
                                      cause + R"("}]}})",
                                  {}),
                     "create pod a")
        .namespace_ends;
  };
  EXPECT_TRUE(ends("NamespaceTerminating"));
  EXPECT_FALSE(ends("Other"));
}

TEST(RefusalOf, KeepsToWhenTheServerWantsToBeAskedAgain) {
  const ApiError error = ErrorOfReply(429, "{}", Seconds(7));
  EXPECT_EQ(RefusalOf(error, "x").retry_after, Seconds(7));
}

}  // namespace
}  // namespace janus::control
