// The scale subresource of a built-in kind and of a custom resource.

#include <gtest/gtest.h>

#include <string>

#include "tests/conformance/object_api_case.h"

namespace janus::control {
namespace {

struct Scaled {
  const char* name;
  const Resource& resource;
};
void PrintTo(const Scaled& one, std::ostream* out) {
  *out << one.name;
}

class ScaleTest : public ObjectApiTest, public testing::WithParamInterface<Scaled> {
 protected:
  const Resource& resource() const { return GetParam().resource; }
  bool is_custom() const { return &resource() == &kScalers; }
  Node MustMake() {
    return MustCreate(resource(), is_custom() ? Scaler(Key()) : Deployment(Key()));
  }
  Node Scale(const std::string& fields) const {
    return Object({"autoscaling", "v1", "scales", "Scale", true}, Key(), fields);
  }
  ApiResult<Node> Put(const std::string& fields, bool strict = true) {
    return Update(resource(), Scale(fields), Subresource::kScale, {false, strict});
  }
  ApiResult<Node> Patch(const std::string& patch) {
    return Merge(resource(), Key(), patch, Subresource::kScale);
  }
  ApiResult<Node> ApplyTo(const std::string& fields, bool force = true) {
    return Apply(resource(), Scale(fields), Subresource::kScale, {{}, force});
  }
  int64_t Replicas() {
    return IntegerAt(MustGet(resource(), Key()), {"spec", "replicas"}).value_or(-1);
  }
};

TEST_P(ScaleTest, KnowsItsFields) {
  MustMake();
  for (const char* const odd :
       {R"("spec":{"replicas":3},"nosuchfield":1)", R"("spec":{"replicas":3,"nosuchfield":1})",
        R"("spec":{"replicas":3},"status":{"nosuchfield":1})"}) {
    EXPECT_EQ(Verdict(Put(odd)), "400") << odd;
    EXPECT_EQ(Verdict(Put(odd, false)), "ok") << odd;
    EXPECT_EQ(Verdict(Patch("{" + std::string(odd) + "}")), "422 patch") << odd;
  }
  EXPECT_EQ(Replicas(), 3);
  EXPECT_EQ(Verdict(Patch(R"({"metadata":{"nosuchfield":1}})")), "422 patch");
  EXPECT_EQ(Verdict(Put(R"("spec":{"replicas":"2"})")), "400");
  EXPECT_EQ(Verdict(Put(R"("spec":{"replicas":1.5})")), "400");
  EXPECT_EQ(Verdict(Put(R"("spec":{"replicas":3000000000})")), "400");
  EXPECT_EQ(Verdict(Patch(R"({"spec":{"replicas":"2"}})")), "422 patch");
  EXPECT_EQ(Verdict(Put(R"("spec":{"replicas":-1})")), "422 spec.replicas");
  EXPECT_EQ(Verdict(Patch(R"({"spec":{"replicas":-1}})")), "422 spec.replicas");
  EXPECT_EQ(Replicas(), 3);
}

TEST_P(ScaleTest, WithoutACountAsksForNone) {
  MustMake();
  for (const char* const none :
       {"", R"("spec":{})", R"("spec":{"replicas":null})", R"("spec":{"replicas":0})"}) {
    ASSERT_EQ(Verdict(Put(R"("spec":{"replicas":2})")), "ok");
    const ApiResult<Node> put = Put(std::string(none).empty() ? R"("status":{})" : none);
    ASSERT_TRUE(put.ok()) << put.status().ToString();
    EXPECT_EQ(Replicas(), 0) << none;
    ASSERT_NE(put->Find("spec"), nullptr);
    EXPECT_EQ(WriteJson(*put->Find("spec")), "{}");
  }
  ASSERT_EQ(Verdict(Patch(R"({"spec":{"replicas":2}})")), "ok");
  ASSERT_EQ(Verdict(Patch(R"({"spec":{"replicas":null}})")), "ok");
  EXPECT_EQ(Replicas(), 0);
  const ApiResult<Node> read = api().Get(resource(), Key(), Subresource::kScale, kLimits);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(WriteJson(*read->Find("spec")), "{}");
}

TEST_P(ScaleTest, IsOfTheObjectThatIsMeant) {
  const Node made = MustMake();
  const auto put = [&](const char* field, const std::string& value) {
    Node scale = Scale(R"("spec":{"replicas":1})");
    SetAt(scale, {"metadata", field}, Node::String(value));
    return Verdict(Update(resource(), scale, Subresource::kScale));
  };
  EXPECT_EQ(put("uid", std::string(UidOf(made))), "ok");
  EXPECT_EQ(put("uid", "00000000-0000-0000-0000-000000000000"), "409");
  EXPECT_EQ(put("resourceVersion", "1"), "409");
  EXPECT_EQ(put("resourceVersion", "0"), is_custom() ? "422 metadata.resourceVersion" : "ok");
  EXPECT_EQ(Verdict(Patch(R"({"metadata":{"uid":"another"}})")), is_custom() ? "ok" : "409");
  Node other = Scale(R"("spec":{"replicas":1})");
  SetAt(other, {"kind"}, Node::String("Other"));
  EXPECT_EQ(Verdict(Update(resource(), other, Subresource::kScale)), "400");
  EXPECT_EQ(Verdict(Patch(R"({"kind":"Other"})")), "422 patch");
  EXPECT_EQ(Verdict(Update(resource(), made, Subresource::kScale)), "400");
}

TEST_P(ScaleTest, IsAppliedToABuiltInKindAlone) {
  const ApiResult<Node> nowhere = ApplyTo(R"("spec":{"replicas":5})");
  EXPECT_EQ(Verdict(nowhere), "404");
  MustMake();
  const ApiResult<Node> applied = ApplyTo(R"("spec":{"replicas":5})");
  Node other = Scale(R"("spec":{"replicas":1})");
  SetAt(other, {"kind"}, Node::String("Other"));
  EXPECT_EQ(Verdict(Apply(resource(), other, Subresource::kScale)), "400");
  if (is_custom()) {
    EXPECT_EQ(Verdict(applied), "500");
    EXPECT_EQ(applied.error().code, StatusCode::kInvalidArgument);
    EXPECT_FALSE(applied.error().outcome_unknown);
    EXPECT_EQ(Replicas(), 2);
    return;
  }
  ASSERT_TRUE(applied.ok()) << applied.status().ToString();
  EXPECT_EQ(IntegerAt(*applied, {"spec", "replicas"}), 5);
  EXPECT_EQ(Replicas(), 5);
  const ApiResult<Node> taken = other_api().Apply(resource(), Scale(R"("spec":{"replicas":6})"),
                                                  Subresource::kScale, {{}, false}, kLimits);
  EXPECT_EQ(Verdict(taken), "409 .spec.replicas");
  EXPECT_EQ(Verdict(ApplyTo(R"("spec":{"replicas":5,"nosuchfield":1})")), "500");
  EXPECT_EQ(Verdict(ApplyTo(R"("spec":{"replicas":-1})")), "422 spec.replicas");
  EXPECT_EQ(Replicas(), 5);
  EXPECT_EQ(Verdict(ApplyTo(R"("spec":{})")), "ok");
  EXPECT_EQ(Replicas(), 0);
}

INSTANTIATE_TEST_SUITE_P(Of, ScaleTest,
                         testing::Values(Scaled{"Deployment", kDeployments},
                                         Scaled{"MoERoleScaler", kScalers}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace janus::control
