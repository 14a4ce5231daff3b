#include "operator/program/metrics_access.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "operator/kube/object.h"
#include "operator/reconcile/objects/trees.h"
#include "tests/support/contains.h"
#include "tests/support/kube/simulated_timeline.h"
#include "tests/support/kube/unimplemented_api.h"

namespace janus::control {
namespace {

// An API server that knows the token "good" of user "prometheus", and lets it get what `allows`
// names.
class Reviewer final : public UnimplementedApi {
 public:
  ApiResult<Node> Create(const Resource& resource, const Node& object, const WriteOptions&,
                         const CallLimits&) override {
    ++calls;
    if (!error.ok()) return LocalError(error);
    Node out = object;
    if (resource.ToString() == "tokenreviews.authentication.k8s.io") {
      const bool is_good = TextAt(object, {"spec", "token"}) == "good";
      SetAt(out, {"status", "authenticated"}, Node::Bool(is_good));
      if (is_good) {
        SetAt(out, {"status", "user"},
              Object({{"username", Text("prometheus")},
                      {"uid", Text("u1")},
                      {"groups", ListOf({Text("system:serviceaccounts")})},
                      {"extra", Object({{"key", ListOf({Text("value")})}})}}));
      }
      return out;
    }
    EXPECT_EQ(resource.ToString(), "subjectaccessreviews.authorization.k8s.io");
    asked = *FindAt(object, {"spec"});
    SetAt(out, {"status", "allowed"},
          Node::Bool(TextAt(asked, {"nonResourceAttributes", "path"}) == allows));
    return out;
  }

  std::string allows = "/metrics";
  Status error;
  Node asked;
  int calls = 0;
};

class MetricsAccessTest : public testing::Test {
 protected:
  // 200: not refused.
  int StatusFor(const std::string& authorization) {
    const std::optional<Page> page = access_.Refuse(authorization, "/metrics");
    text_ = page ? page->text : "";
    return page ? page->status : 200;
  }
  Reviewer api_;
  SimulatedTimeline timeline_;
  MetricsAccess access_{api_, timeline_, Logger(2, LogLevel::kError)};
  std::string text_;
};

TEST_F(MetricsAccessTest, AUserWithTheRightReadsAndIsReviewedWithAllThatIsKnownOfIt) {
  EXPECT_EQ(StatusFor("Bearer good"), 200);
  EXPECT_EQ(TextAt(api_.asked, {"user"}), "prometheus");
  EXPECT_EQ(TextAt(api_.asked, {"uid"}), "u1");
  EXPECT_EQ(TextAt(api_.asked, {"nonResourceAttributes", "verb"}), "get");
  EXPECT_EQ(FindAt(api_.asked, {"groups"})->items.front().text, "system:serviceaccounts");
  EXPECT_EQ(FindAt(api_.asked, {"extra", "key"})->items.front().text, "value");
  EXPECT_EQ(StatusFor("bearer good"), 200) << "the scheme has no case";
}

TEST_F(MetricsAccessTest, WithoutATokenNoReviewIsMade) {
  for (const char* header : {"", "Bearer", "Bearer ", "Basic Z29vZA=="}) {
    EXPECT_EQ(StatusFor(header), 401) << header;
    EXPECT_TRUE(Contains(text_, "bearer token")) << text_;
  }
  EXPECT_EQ(api_.calls, 0);
}

TEST_F(MetricsAccessTest, AnUnknownTokenAndAUserWithoutTheRightAreRefused) {
  EXPECT_EQ(StatusFor("Bearer bad"), 401);
  api_.allows = "/else";
  EXPECT_EQ(StatusFor("Bearer good"), 403);
  EXPECT_TRUE(Contains(text_, "user 'prometheus' may not get /metrics")) << text_;
}

TEST_F(MetricsAccessTest, AVerdictCountsForAMinute) {
  EXPECT_EQ(StatusFor("Bearer good"), 200);
  const int calls = api_.calls;
  api_.allows = "";
  timeline_.Pass(Seconds(59));
  EXPECT_EQ(StatusFor("Bearer good"), 200);
  EXPECT_EQ(api_.calls, calls);
  timeline_.Pass(Seconds(1));
  EXPECT_EQ(StatusFor("Bearer good"), 403);
}

TEST_F(MetricsAccessTest, WhileTheApiServerIsSilentOnlyTheAllowedGoOn) {
  EXPECT_EQ(StatusFor("Bearer good"), 200);
  api_.error = Unavailable("connection refused");
  timeline_.Pass(Seconds(300));
  EXPECT_EQ(StatusFor("Bearer good"), 200);
  EXPECT_EQ(StatusFor("Bearer other"), 503);
  EXPECT_TRUE(Contains(text_, "connection refused")) << text_;
  timeline_.Pass(Seconds(300));
  EXPECT_EQ(StatusFor("Bearer good"), 503);
}

TEST_F(MetricsAccessTest, StrangersDoNotDisplaceAScraper) {
  EXPECT_EQ(StatusFor("Bearer good"), 200);
  for (size_t i = 0; i < 2 * MetricsAccess::kMostTokens; ++i) {
    EXPECT_EQ(StatusFor("Bearer " + std::to_string(i)), 401);
  }
  const int calls = api_.calls;
  EXPECT_EQ(StatusFor("Bearer good"), 200);
  EXPECT_EQ(api_.calls, calls);
}

}  // namespace
}  // namespace janus::control
