#include "operator/program/rights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>
#include <tuple>

#include "common/read_file.h"
#include "operator/api/yaml.h"
#include "operator/kube/object.h"
#include "operator/reconcile/objects/trees.h"
#include "tests/support/contains.h"
#include "tests/support/kube/simulated_timeline.h"
#include "tests/support/kube/unimplemented_api.h"
#include "tests/support/paths.h"

namespace janus::control {
namespace {

// An API server that allows what `allows` says, and remembers what it was asked.
class Reviewer final : public UnimplementedApi {
 public:
  ApiResult<Node> Create(const Resource& resource, const Node& object, const WriteOptions&,
                         const CallLimits&) override {
    EXPECT_EQ(resource.ToString(), "selfsubjectaccessreviews.authorization.k8s.io");
    if (!error.ok()) return LocalError(error);
    const Node& spec = *FindAt(object, {"spec", "resourceAttributes"});
    const auto text = [&](std::string_view field) { return std::string(TextAt(spec, {field})); };
    Right asked{text("verb"), text("group"), text("resource"), text("namespace"), text("name")};
    if (!text("subresource").empty()) asked.resource += "/" + text("subresource");
    this->asked.push_back(asked);
    Node out = object;
    SetAt(out, {"status", "allowed"}, Node::Bool(allows(asked)));
    return out;
  }

  std::function<bool(const Right&)> allows = [](const Right&) { return true; };
  Status error;
  std::vector<Right> asked;
};

OperatorOptions Watching(std::vector<std::string> namespaces) {
  OperatorOptions out;
  out.namespaces = std::move(namespaces);
  return out;
}

using Rule = std::tuple<std::string, std::string, std::string>;  // group, resource, verb

std::set<Rule> RulesOf(const std::vector<RightsOfResource>& rights) {
  std::set<Rule> out;
  for (const RightsOfResource& one : rights) {
    std::istringstream verbs{std::string(one.verbs)};
    for (std::string verb; verbs >> verb;) out.emplace(one.group, one.resource, verb);
  }
  return out;
}

// The rules between `begin` and the next template action of a file of the chart.
std::set<Rule> RulesOfChart(const std::string& file, const std::string& begin) {
  const std::string path = test::SourceDir() + "/charts/janus-operator/templates/" + file;
  std::string text = *ReadFile(path);
  const size_t at = text.find(begin);
  EXPECT_NE(at, std::string::npos) << path;
  text = text.substr(at + begin.size());
  text = text.substr(0, text.find("{{"));
  text = text.substr(0, text.find("---"));
  const Result<Node> rules = ParseYaml(text, path);
  EXPECT_TRUE(rules.ok()) << rules.status().message();
  std::set<Rule> out;
  if (!rules.ok()) return out;
  for (const Node& rule : rules->items) {
    for (const Node& resource : rule.Find("resources")->items) {
      for (const Node& verb : rule.Find("verbs")->items) {
        out.emplace(rule.Find("apiGroups")->items.front().text, resource.text, verb.text);
      }
    }
  }
  return out;
}

TEST(Rights, AreThoseThatTheChartGives) {
  EXPECT_EQ(RulesOfChart("_rules.tpl", "{{- define \"janus.rules\" -}}\n"),
            RulesOf(RightsInNamespace()));
  EXPECT_EQ(RulesOfChart("_rules.tpl", "{{- define \"janus.noderules\" -}}\n"),
            RulesOf(RightsInCluster()));
  EXPECT_EQ(RulesOfChart("_rules.tpl", "{{- define \"janus.reviewrules\" -}}\n"),
            RulesOf(RightsToReview()));
  EXPECT_EQ(RulesOfChart("rbac.yaml",
                         "name: {{ include \"janus.fullname\" . }}-certificates\n"
                         "  namespace: {{ .Release.Namespace }}\n"
                         "  labels: {{- include \"janus.labels\" . | nindent 4 }}\nrules:\n"),
            RulesOf(RightsAtHome()));
}

TEST(Rights, AreAskedForWhereTheyAreNeeded) {
  const auto has = [](const std::vector<Right>& all, const Right& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  const std::vector<Right> everywhere = NeededRights(Watching({}), "home");
  EXPECT_TRUE(has(everywhere, {"create", "", "pods", ""}));
  EXPECT_TRUE(has(everywhere, {"list", "", "nodes", ""}));
  EXPECT_TRUE(has(everywhere, {"get", "", "secrets", "home"}));
  EXPECT_TRUE(
      has(everywhere, {"update", "coordination.k8s.io", "leases", "home", "janus-operator"}));
  EXPECT_FALSE(has(everywhere, {"create", "authentication.k8s.io", "tokenreviews", ""}));
  OperatorOptions options = Watching({"a", "b"});
  options.metrics_authentication = true;
  EXPECT_TRUE(
      has(NeededRights(options, "home"), {"create", "authentication.k8s.io", "tokenreviews", ""}));
  options.metrics_authentication = false;
  options.reads_nodes = false;
  options.leader_election = false;
  const std::vector<Right> some = NeededRights(options, "home");
  EXPECT_TRUE(has(some, {"create", "", "pods", "a"}));
  EXPECT_TRUE(has(some, {"patch", "", "pods/status", "b"}));
  EXPECT_TRUE(std::all_of(some.begin(), some.end(), [](const Right& one) {
    return !one.ns.empty() && one.resource != "leases";
  }));
}

TEST(Rights, AreNamedByVerbResourceAndPlace) {
  EXPECT_EQ(ToString(Right{"patch", "", "pods/status", "chat"}),
            "patch pods/status in namespace chat");
  EXPECT_EQ(ToString(Right{"create", "apps", "deployments", ""}),
            "create deployments.apps in all namespaces");
  EXPECT_EQ(ToString(Right{"list", "", "nodes", ""}), "list nodes");
  EXPECT_EQ(ToString(Right{"get", "coordination.k8s.io", "leases", "home", "demo"}),
            "get leases.coordination.k8s.io 'demo' in namespace home");
}

TEST(RightsCheck, NamesWhatIsMissingUntilItIsThere) {
  Reviewer api;
  SimulatedTimeline timeline;
  const std::vector<Right> needed = NeededRights(Watching({"chat"}), "chat");
  RightsCheck check(api, needed, timeline, Logger());
  EXPECT_TRUE(check.Missing().ok()) << "not asked yet";
  api.allows = [](const Right& one) {
    return one.resource != "pods/status" && one.resource != "nodes";
  };
  EXPECT_FALSE(check.AskOnce({}));
  EXPECT_EQ(api.asked, needed);
  EXPECT_EQ(check.Missing(),
            PermissionDenied("the operator's service account has no right to: get nodes, list "
                             "nodes, watch nodes, patch pods/status in namespace chat"));
  api.allows = [](const Right&) { return true; };
  EXPECT_TRUE(check.AskOnce({}));
  EXPECT_TRUE(check.Missing().ok());
}

TEST(RightsCheck, AServerThatDoesNotAnswerTakesNoRightAway) {
  Reviewer api;
  SimulatedTimeline timeline;
  RightsCheck check(api, NeededRights(Watching({}), "home"), timeline, Logger());
  api.error = Unavailable("no connection");
  EXPECT_FALSE(check.AskOnce({}));
  EXPECT_TRUE(check.Missing().ok());
}

}  // namespace
}  // namespace janus::control
