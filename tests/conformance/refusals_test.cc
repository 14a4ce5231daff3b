// What every API must refuse, with which code and cause.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/object_api_case.h"

namespace janus::control {
namespace {

const Resource kServices{"serving.janus.dev", "v1alpha1", "moeservices", "MoEService", true};
const std::string kAnotherUid = "00000000-0000-0000-0000-000000000000";

class RefusalsTest : public ObjectApiTest {
 protected:
  ApiResult<Node> Create(const Resource& resource, const Node& object, bool strict = true) {
    return api().Create(resource, object, {false, strict}, kLimits);
  }
  ApiResult<Node> JsonPatch(const Resource& resource, const ObjectKey& key,
                            const std::string& patch) {
    return api().Patch(resource, key, PatchKind::kJson, *ParseJson(patch, "test"),
                       Subresource::kNone, {}, kLimits);
  }
  // A config map and a scaler: a built-in kind and a custom resource.
  std::vector<std::pair<Resource, Node>> OneOfEach(const std::string& suffix) const {
    return {{kConfigMaps, ConfigMap(Key(suffix))}, {kScalers, Scaler(Key(suffix))}};
  }
  // An object with only these fields, for an apply.
  Node Named(const Resource& resource, const ObjectKey& key, const std::string& metadata) const {
    return *ParseJson(R"({"apiVersion":")" + resource.ApiVersion() + R"(","kind":")" +
                          resource.kind + R"(","metadata":{"name":")" + key.name +
                          R"(","namespace":")" + key.namespace_ + R"(",)" + metadata + "}}",
                      "test");
  }
  Node WithUid(Node object) const {
    SetAt(object, {"metadata", "uid"}, Node::String(kAnotherUid));
    return object;
  }
  Node WithVersion(Node object, const std::string& version) const {
    SetAt(object, {"metadata", "resourceVersion"}, Node::String(version));
    return object;
  }
  // A scaler's status with these conditions.
  static std::string Conditions(const std::vector<std::string>& changes) {
    std::string list;
    for (const std::string& change : changes) {
      Node condition = *ParseJson(R"({"type":"Ready","status":"True","reason":"AsAsked",)"
                                  R"("message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"})",
                                  "test");
      const Node changed = *ParseJson(change, "test");
      for (const NodeField& field : changed.fields) {
        SetAt(condition, {field.name}, field.value);
      }
      list += (list.empty() ? "" : ",") + WriteJson(condition);
    }
    return R"("status":{"conditions":[)" + list + "]}";
  }
  ApiResult<Node> PutStatus(const std::string& fields) {
    return Update(kScalers,
                  WithVersion(Object(kScalers, Key(), fields),
                              std::string(ResourceVersionOf(MustGet(kScalers, Key())))),
                  Subresource::kStatus);
  }
};

TEST_F(RefusalsTest, EntriesOfAKeyedListAreToldApart) {
  MustCreate(kScalers, Scaler(Key()));
  const std::string twice = Conditions({"{}", R"({"status":"False"})"});
  EXPECT_EQ(Verdict(PutStatus(twice)), "422 status.conditions[1]");
  EXPECT_EQ(PutStatus(twice).error().causes[0].reason, "FieldValueDuplicate");
  EXPECT_EQ(Verdict(Merge(kScalers, Key(), "{" + twice + "}", Subresource::kStatus)),
            "422 status.conditions[1]");
  EXPECT_EQ(Verdict(PutStatus(Conditions({"{}", R"({"type":"Fits"})"}))), "ok");
  const ApiResult<Node> applied =
      Apply(kScalers, Object(kScalers, Key(), twice), Subresource::kStatus);
  EXPECT_EQ(Verdict(applied), "500");
  EXPECT_EQ(applied.error().code, StatusCode::kInvalidArgument);
  EXPECT_FALSE(applied.error().outcome_unknown);
  const std::string nameless = R"("status":{"conditions":[{"status":"True"}]})";
  EXPECT_EQ(Verdict(Apply(kScalers, Object(kScalers, Key(), nameless), Subresource::kStatus)),
            "500");
}

TEST_F(RefusalsTest, ContainersAndPortsAreToldApart) {
  const std::string twice = R"([{"name":"a","image":"x"},{"name":"a","image":"y"}])";
  EXPECT_EQ(Verdict(Create(kDeployments, Deployment(Key(), twice))),
            "422 spec.template.spec.containers[1].name");
  EXPECT_EQ(Verdict(Apply(kDeployments, Deployment(Key(), twice))), "500");
  const std::string in_both =
      R"([{"name":"a","image":"x"}],"initContainers":[{"name":"a","image":"x"}])";
  EXPECT_EQ(Verdict(Create(kDeployments, Deployment(Key(), in_both))),
            "422 spec.template.spec.initContainers[0].name");
  const std::string mounts =
      R"([{"name":"a","image":"x","volumeMounts":[{"name":"v","mountPath":"/v"},)"
      R"({"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","emptyDir":{}}])";
  EXPECT_EQ(Verdict(Create(kDeployments, Deployment(Key(), mounts))),
            "422 spec.template.spec.containers[0].volumeMounts[1].mountPath");
  const std::string volumes = R"([{"name":"a","image":"x"}],"volumes":[{"name":"v","emptyDir":{}},)"
                              R"({"name":"v","emptyDir":{}}])";
  EXPECT_EQ(Verdict(Create(kDeployments, Deployment(Key(), volumes))),
            "422 spec.template.spec.volumes[1].name");
  const Resource services{"", "v1", "services", "Service", true};
  const Node ports = Object(services, Key(),
                            R"("spec":{"ports":[{"name":"a","port":80},{"name":"b","port":80}]})");
  EXPECT_EQ(Verdict(Create(services, ports)), "422 spec.ports[1]");
  EXPECT_EQ(Verdict(Apply(services, ports)), "500");
}

// A create accepts duplicate names that an apply refuses. An apply then replaces all of them by
// one.
TEST_F(RefusalsTest, VariablesOfOneNameAreTakenUnlessApplied) {
  const auto with = [&](const std::string& variables) {
    return Deployment(Key(), R"([{"name":"a","image":"x","env":[)" + variables + "]}]");
  };
  const std::string twice = R"({"name":"E","value":"1"},{"name":"F","value":"f"},)"
                            R"({"name":"E","value":"2"})";
  ASSERT_EQ(Verdict(Create(kDeployments, with(twice))), "ok");
  EXPECT_EQ(Verdict(Apply(kDeployments, with(twice))), "500");
  const ApiResult<Node> once = Apply(kDeployments, with(R"({"name":"E","value":"3"})"));
  ASSERT_TRUE(once.ok()) << once.status().ToString();
  const Node& container = FindAt(*once, {"spec", "template", "spec", "containers"})->items.at(0);
  EXPECT_EQ(WriteJson(*container.Find("env")),
            R"([{"name":"E","value":"3"},{"name":"F","value":"f"}])");
  EXPECT_TRUE(api().Delete(kDeployments, Key(), {}, kLimits).ok());
}

TEST_F(RefusalsTest, AnOwnerThatIsNamedTwiceIsNamedOnce) {
  const Node owner = MustCreate(kConfigMaps, ConfigMap(Key("-owner")));
  for (auto& [resource, object] : OneOfEach("-owned")) {
    Node twice = Owned(object, owner);
    Node* const list = const_cast<Node*>(FindAt(twice, {"metadata", "ownerReferences"}));
    list->items.push_back(list->items.at(0));
    const Node made = MustCreate(resource, twice);
    ASSERT_NE(FindAt(made, {"metadata", "ownerReferences"}), nullptr);
    EXPECT_EQ(FindAt(made, {"metadata", "ownerReferences"})->items.size(), 1U);
    EXPECT_EQ(Verdict(Apply(resource, twice)), "500");
    // Two references that differ both stay.
    SetAt(list->items.at(1), {"controller"}, Node::Bool(true));
    const ApiResult<Node> both = Merge(
        resource, KeyOf(object), R"({"metadata":{"ownerReferences":)" + WriteJson(*list) + "}}");
    ASSERT_TRUE(both.ok()) << both.status().ToString();
    EXPECT_EQ(FindAt(*both, {"metadata", "ownerReferences"})->items.size(), 2U);
  }
}

TEST_F(RefusalsTest, AFinalizerIsTakenTwiceUnlessApplied) {
  for (auto& [resource, object] : OneOfEach("")) {
    Node twice = Finalized(object);
    Node* const list = const_cast<Node*>(FindAt(twice, {"metadata", "finalizers"}));
    list->items.push_back(list->items.at(0));
    EXPECT_EQ(Verdict(Apply(resource, twice)), "500");
    const Node made = MustCreate(resource, twice);
    EXPECT_EQ(FindAt(made, {"metadata", "finalizers"})->items.size(), 2U);
    EXPECT_EQ(Verdict(Merge(resource, Key(), R"({"metadata":{"finalizers":null}})")), "ok");
  }
}

TEST_F(RefusalsTest, FieldsThatMetadataDoesNotHaveAreRefusedOrDropped) {
  const Node owner = MustCreate(kConfigMaps, ConfigMap(Key("-owner")));
  for (auto& [resource, object] : OneOfEach("")) {
    Node odd = Owned(object, owner);
    Node* const list = const_cast<Node*>(FindAt(odd, {"metadata", "ownerReferences"}));
    list->items.at(0).Add("nosuchfield", Node::Integer(1));
    const std::string patch = R"({"metadata":{"ownerReferences":)" + WriteJson(*list) + "}}";
    EXPECT_EQ(Verdict(Create(resource, odd)), "400");
    EXPECT_EQ(Verdict(Create(resource, odd, false)), "ok");
    EXPECT_EQ(WriteJson(MustGet(resource, Key())).find("nosuchfield"), std::string::npos);
    EXPECT_EQ(
        Verdict(Update(resource,
                       WithVersion(odd, std::string(ResourceVersionOf(MustGet(resource, Key())))))),
        "400");
    EXPECT_EQ(Verdict(Merge(resource, Key(), patch)), "422 patch");
    EXPECT_EQ(Verdict(Merge(resource, Key(), R"({"metadata":{"nosuchfield":1}})")), "422 patch");
    EXPECT_EQ(Verdict(JsonPatch(resource, Key(),
                                R"([{"op":"add","path":"/metadata/nosuchfield","value":1}])")),
              "422 patch");
    EXPECT_EQ(Verdict(api().Patch(resource, Key(), PatchKind::kMerge, *ParseJson(patch, "test"),
                                  Subresource::kNone, {false, false}, kLimits)),
              "ok");
    EXPECT_EQ(Verdict(Apply(resource, odd)), "500");
    EXPECT_EQ(Verdict(Apply(resource, odd, Subresource::kNone, {{false, false}, true})), "500");
  }
}

TEST_F(RefusalsTest, APatchOfAFieldThatIsNotThereIsRefused) {
  MustCreate(kScalers, Scaler(Key()));
  EXPECT_EQ(Verdict(Merge(kScalers, Key(), R"({"spec":{"nosuchfield":1}})")), "422 patch");
  EXPECT_EQ(
      Verdict(JsonPatch(kScalers, Key(), R"([{"op":"add","path":"/spec/nosuchfield","value":1}])")),
      "422 patch");
  Node odd = Scaler(Key());
  SetAt(odd, {"spec", "nosuchfield"}, Node::Integer(1));
  EXPECT_EQ(Verdict(Apply(kScalers, odd)), "500");
  EXPECT_EQ(Verdict(Apply(kScalers, odd, Subresource::kNone, {{false, false}, true})), "500");
}

TEST_F(RefusalsTest, AnotherTypeIsToldByHowItCame) {
  for (auto& [resource, object] : OneOfEach("")) {
    MustCreate(resource, object);
    Node odd = object;
    SetAt(odd, {"metadata", "labels", "a"}, Node::Integer(1));
    EXPECT_EQ(Verdict(Create(resource, odd)), "400");
    EXPECT_EQ(Verdict(Merge(resource, Key(), R"({"metadata":{"labels":{"a":1}}})")), "422 patch");
    EXPECT_EQ(Verdict(Apply(resource, odd)), "500");
  }
  Node odd = Scaler(Key());
  SetAt(odd, {"spec", "replicas"}, Node::String("two"));
  EXPECT_EQ(Verdict(Create(kScalers, odd)), "422 spec.replicas");
  EXPECT_EQ(Verdict(Merge(kScalers, Key(), R"({"spec":{"replicas":"two"}})")), "422 spec.replicas");
  EXPECT_EQ(Verdict(Apply(kScalers, odd)), "500");
  EXPECT_EQ(Verdict(Apply(kScalers, Scaler(Key(), -1))), "422 spec.replicas");
}

TEST_F(RefusalsTest, APatchMakesNothingOfAnotherKind) {
  MustCreate(kConfigMaps, ConfigMap(Key()));
  MustCreate(kScalers, Scaler(Key()));
  EXPECT_EQ(Verdict(Merge(kConfigMaps, Key(), R"({"kind":"Other"})")), "422 patch");
  EXPECT_EQ(Verdict(Merge(kConfigMaps, Key(), R"({"apiVersion":"other/v1"})")), "422 patch");
  EXPECT_EQ(Verdict(Merge(kScalers, Key(), R"({"kind":"Other"})")), "422 kind");
  EXPECT_EQ(Verdict(Merge(kScalers, Key(), R"({"apiVersion":"other/v1"})")), "422 apiVersion");
  for (const Resource& resource : {kConfigMaps, kScalers}) {
    EXPECT_EQ(Verdict(Merge(resource, Key(), R"({"metadata":{"name":"other"}})")), "400");
    EXPECT_EQ(Verdict(Merge(resource, Key(), R"({"metadata":{"namespace":"other"}})")), "400");
    EXPECT_EQ(Verdict(Merge(resource, Key(),
                            R"({"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}})")),
              "422 metadata.deletionTimestamp");
  }
}

TEST_F(RefusalsTest, AnothersUidIsAConflictOrCannotBe) {
  std::vector<std::pair<Resource, Node>> all = OneOfEach("");
  all.emplace_back(kDeployments, Deployment(Key()));
  for (auto& [resource, object] : all) {
    SCOPED_TRACE(resource.kind);
    const Node made = MustCreate(resource, object);
    EXPECT_EQ(Verdict(Update(resource, WithUid(made))), "409");
    const std::string patch = R"({"metadata":{"uid":")" + kAnotherUid + R"("}})";
    for (const ApiResult<Node>& result :
         {Merge(resource, Key(), patch),
          JsonPatch(
              resource, Key(),
              R"([{"op":"replace","path":"/metadata/uid","value":")" + kAnotherUid + R"("}])"),
          Apply(resource, WithUid(object))}) {
      EXPECT_EQ(Verdict(result), "422 metadata.uid");
      EXPECT_EQ(result.error().code, StatusCode::kAborted);
    }
    EXPECT_EQ(Verdict(Merge(resource, Key(), R"({"metadata":{"uid":null}})")), "ok");
    Node own = object;
    SetAt(own, {"metadata", "uid"}, Node::String(UidOf(made)));
    EXPECT_EQ(Verdict(Apply(resource, own)), "ok");
  }
}

// For a custom resource's status the server drops the metadata before it checks.
TEST_F(RefusalsTest, AnothersUidWithAStatusCountsByTheKind) {
  const std::string patch =
      R"({"metadata":{"uid":")" + kAnotherUid + R"("},"status":{"replicas":1}})";
  const std::vector<std::pair<std::pair<Resource, Node>, std::string>> all = {
      {{kScalers, Scaler(Key())}, "ok"}, {{kDeployments, Deployment(Key())}, "422 metadata.uid"}};
  for (const auto& [one, patched] : all) {
    const auto& [resource, object] = one;
    SCOPED_TRACE(resource.kind);
    Node made = MustCreate(resource, object);
    SetAt(made, {"status", "replicas"}, Node::Integer(1));
    EXPECT_EQ(Verdict(Update(resource, WithUid(made), Subresource::kStatus)), "409");
    EXPECT_EQ(Verdict(Merge(resource, Key(), patch, Subresource::kStatus)), patched);
    const Node status = Object(resource, Key(), R"("status":{"replicas":1})");
    EXPECT_EQ(Verdict(Apply(resource, WithUid(status), Subresource::kStatus)), patched);
  }
}

TEST_F(RefusalsTest, AnApplyOfWhatIsGoneMindsTheUidAlone) {
  for (auto& [resource, object] : OneOfEach("")) {
    const ApiResult<Node> meant = Apply(resource, WithUid(object));
    EXPECT_EQ(Verdict(meant), "409");
    EXPECT_EQ(meant.error().code, StatusCode::kAborted);
    EXPECT_EQ(Find(resource, Key()), StatusCode::kNotFound);
    const ApiResult<Node> made = Apply(resource, WithVersion(object, "5"));
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    EXPECT_NE(ResourceVersionOf(*made), "5");
  }
}

TEST_F(RefusalsTest, AVersionIsANumberAndZeroIsAny) {
  for (auto& [resource, object] : OneOfEach("")) {
    SCOPED_TRACE(resource.kind);
    for (const ApiResult<Node>& result : {Create(resource, WithVersion(object, "5")),
                                          Apply(resource, WithVersion(object, "abc"))}) {
      EXPECT_EQ(Verdict(result), "500");
      EXPECT_EQ(result.error().code, StatusCode::kInvalidArgument);
      EXPECT_FALSE(result.error().outcome_unknown);
    }
    const Node made = MustCreate(resource, WithVersion(object, "0"));
    EXPECT_EQ(Verdict(Update(resource, WithVersion(made, "abc"))), "500");
    EXPECT_EQ(Verdict(Merge(resource, Key(), R"({"metadata":{"resourceVersion":"-1"}})")), "500");
    EXPECT_EQ(Verdict(Apply(resource, WithVersion(object, "abc"))), "500");
    EXPECT_EQ(Verdict(Apply(resource, WithVersion(object, "1"))), "409");
    EXPECT_EQ(Verdict(Merge(resource, Key(), R"({"metadata":{"resourceVersion":"1"}})")), "409");
    // For a custom resource, no update is valid with this version.
    EXPECT_EQ(Verdict(Merge(resource, Key(), R"({"metadata":{"resourceVersion":"0"}})")),
              resource.kind == "ConfigMap" ? "ok" : "422 metadata.resourceVersion");
  }
  EXPECT_EQ(Verdict(Update(kConfigMaps, WithVersion(ConfigMap(Key()), "0"))), "ok");
  EXPECT_EQ(Verdict(Update(kScalers, WithVersion(Scaler(Key()), "0"))),
            "422 metadata.resourceVersion");
}

TEST_F(RefusalsTest, AGeneratedNameIsJudgedAsAName) {
  for (auto& [resource, object] : OneOfEach("")) {
    SCOPED_TRACE(resource.kind);
    Node nameless = object;
    SetAt(nameless, {"metadata", "name"}, Node::String(""));
    EXPECT_EQ(Verdict(Create(resource, nameless)), "422 metadata.name");
    const auto with = [&](const std::string& prefix) {
      Node out = nameless;
      SetAt(out, {"metadata", "generateName"}, Node::String(prefix));
      return out;
    };
    const Node made = MustCreate(resource, with("a.worker-"));
    EXPECT_TRUE(KeyOf(made).name.starts_with("a.worker-"));
    EXPECT_EQ(KeyOf(made).name.size(), 14U);
    EXPECT_EQ(TextAt(made, {"metadata", "generateName"}), "a.worker-");
    EXPECT_EQ(KeyOf(MustCreate(resource, with(std::string(100, 'w')))).name.size(), 63U);
    EXPECT_EQ(Verdict(Create(resource, with("Not_A_Name"))), "422 metadata.generateName");
    const ApiResult<Node> dry = api().Create(resource, with("dry-"), {true, true}, kLimits);
    ASSERT_TRUE(dry.ok()) << dry.status().ToString();
    EXPECT_TRUE(KeyOf(*dry).name.starts_with("dry-"));
    EXPECT_EQ(Find(resource, KeyOf(*dry)), StatusCode::kNotFound);
    // A given name overrides it.
    Node both = object;
    SetAt(both, {"metadata", "generateName"}, Node::String("other-"));
    EXPECT_EQ(KeyOf(MustCreate(resource, both)), Key());
    EXPECT_EQ(Verdict(Merge(resource, Key(), R"({"metadata":{"generateName":"third-"}})")), "ok");
  }
}

// A kind with names that are limited to less than the longest generated name.
TEST_F(RefusalsTest, AGeneratedNameThatIsTooLongIsRefused) {
  Node service = Object(kServices, Key(),
                        R"("spec":{"model":{"source":{"type":"HuggingFace","huggingFace":)"
                        R"({"repo":"a/b"}}},"slo":{"tpot":{"targetMilliseconds":60}}})");
  SetAt(service, {"metadata", "name"}, Node::String(""));
  SetAt(service, {"metadata", "generateName"}, Node::String(std::string(35, 'w')));
  const Node made = MustCreate(kServices, service);
  EXPECT_EQ(KeyOf(made).name.size(), 40U);
  SetAt(service, {"metadata", "generateName"}, Node::String(std::string(36, 'w')));
  EXPECT_EQ(Verdict(Create(kServices, service)), "422 metadata.name");
  EXPECT_TRUE(api().Delete(kServices, KeyOf(made), {}, kLimits).ok());
}

// All errors are reported at once; rules between fields only if no field is missing, has another
// type or exceeds a list's limit.
TEST_F(RefusalsTest, WhatIsMissingHidesNoBound) {
  const auto fields = [&](const std::string& spec, const std::string& label = "a") {
    Node service = Object(kServices, {ns(), "told-at-once"}, R"("spec":)" + spec);
    SetAt(service, {"metadata", "labels", "test"}, Node::String(label));
    const ApiResult<Node> made = Create(kServices, service);
    EXPECT_FALSE(made.ok());
    std::set<std::string> out;
    if (made.ok()) return out;
    EXPECT_EQ(made.error().http_status, 422);
    // A server reports rules that it did not check as a cause without a field.
    for (const ApiCause& cause : made.error().causes) {
      if (cause.field.find('.') != std::string::npos) out.insert(cause.field);
    }
    return out;
  };
  using Paths = std::set<std::string>;
  EXPECT_EQ(fields(R"({"model":{"source":{"type":"HuggingFace","huggingFace":{}},"maxModelLen":0},)"
                   R"("device":"GPU","slo":{"tpot":{"targetMilliseconds":"soon"},)"
                   R"("ttft":{"targetMilliseconds":0}}})"),
            (Paths{"spec.model.source.huggingFace.repo", "spec.model.maxModelLen", "spec.device",
                   "spec.slo.tpot.targetMilliseconds", "spec.slo.ttft.targetMilliseconds"}));
  const std::string union_of_two =
      R"("model":{"source":{"type":"HostPath","huggingFace":{"repo":"a/b"}}},"slo":{"tpot":)";
  EXPECT_EQ(fields("{" + union_of_two + R"({"targetMilliseconds":0}}})"),
            (Paths{"spec.slo.tpot.targetMilliseconds", "spec.model.source.huggingFace",
                   "spec.model.source.hostPath"}));
  EXPECT_EQ(fields("{" + union_of_two + R"({"targetMilliseconds":0}}})", "no label"),
            (Paths{"metadata.labels", "spec.slo.tpot.targetMilliseconds",
                   "spec.model.source.huggingFace", "spec.model.source.hostPath"}));
  EXPECT_EQ(fields("{" + union_of_two + "{}}}"), Paths{"spec.slo.tpot.targetMilliseconds"});
}

struct StatusValue {
  const char* change;  // for the condition's fields
  const char* verdict;
};
void PrintTo(const StatusValue& value, std::ostream* out) {
  *out << value.change;
}
class StatusValueTest : public RefusalsTest, public testing::WithParamInterface<StatusValue> {};

TEST_P(StatusValueTest, IsJudgedByPatternAndFormat) {
  MustCreate(kScalers, Scaler(Key()));
  EXPECT_EQ(Verdict(PutStatus(Conditions({GetParam().change}))), GetParam().verdict);
  EXPECT_TRUE(api().Delete(kScalers, Key(), {}, kLimits).ok());
}

constexpr const char* kBadType = "422 status.conditions[0].type";
constexpr const char* kBadReason = "422 status.conditions[0].reason";
constexpr const char* kBadTime = "422 status.conditions[0].lastTransitionTime";
INSTANTIATE_TEST_SUITE_P(
    All, StatusValueTest,
    testing::Values(StatusValue{"{}", "ok"}, StatusValue{R"({"type":"Not so"})", kBadType},
                    StatusValue{R"({"type":""})", kBadType},
                    StatusValue{R"({"type":"Ready\n"})", kBadType},
                    StatusValue{R"({"reason":"1a"})", kBadReason},
                    StatusValue{R"({"reason":"a:"})", kBadReason},
                    StatusValue{R"({"reason":"a\nb"})", kBadReason},
                    StatusValue{R"({"reason":"a:b,c_d"})", "ok"},
                    StatusValue{R"({"lastTransitionTime":"yesterday"})", kBadTime},
                    StatusValue{R"({"lastTransitionTime":""})", kBadTime},
                    StatusValue{R"({"lastTransitionTime":"2026-01-01"})", kBadTime},
                    StatusValue{R"({"lastTransitionTime":"2026-01-01T00:00:00"})", kBadTime},
                    StatusValue{R"({"lastTransitionTime":"2026-01-01 00:00:00Z"})", kBadTime},
                    StatusValue{R"({"lastTransitionTime":"2026-02-30T00:00:00Z"})", kBadTime},
                    StatusValue{R"({"lastTransitionTime":"2026-01-01T24:00:00Z"})", kBadTime},
                    StatusValue{R"({"lastTransitionTime":"2026-01-01T00:00:60Z"})", kBadTime},
                    StatusValue{R"({"lastTransitionTime":"2026-01-01t00:00:00z"})", "ok"},
                    StatusValue{R"({"lastTransitionTime":"2026-01-01T00:00:00.5+02:00"})", "ok"}));

}  // namespace
}  // namespace janus::control
