#include "operator/program/rights.h"

#include <algorithm>
#include <utility>

#include "operator/kube/object.h"
#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

const Resource kReviews{"authorization.k8s.io", "v1", "selfsubjectaccessreviews",
                        "SelfSubjectAccessReview", false};
constexpr Seconds kCallTimeout{10};
constexpr Seconds kAskAgain{5};

Node ReviewOf(const Right& right) {
  const size_t slash = right.resource.find('/');
  Node asked = Object({{"verb", Text(right.verb)},
                       {"group", Text(right.group)},
                       {"resource", Text(right.resource.substr(0, slash))}});
  if (slash != std::string::npos) {
    asked.Add("subresource", Text(right.resource.substr(slash + 1)));
  }
  if (!right.ns.empty()) asked.Add("namespace", Text(right.ns));
  if (!right.name.empty()) asked.Add("name", Text(right.name));
  return Object({{"apiVersion", Text(kReviews.ApiVersion())},
                 {"kind", Text(kReviews.kind)},
                 {"spec", Object({{"resourceAttributes", std::move(asked)}})}});
}

void Add(const std::vector<RightsOfResource>& rules, const std::string& ns,
         std::vector<Right>& out) {
  for (const RightsOfResource& rule : rules) {
    std::string_view verbs = rule.verbs;
    while (!verbs.empty()) {
      const size_t end = std::min(verbs.find(' '), verbs.size());
      out.push_back({std::string(verbs.substr(0, end)), std::string(rule.group),
                     std::string(rule.resource), ns});
      verbs.remove_prefix(std::min(end + 1, verbs.size()));
    }
  }
}

bool IsOfCluster(const Right& right) {
  const auto is_one_of = [&](const std::vector<RightsOfResource>& rules) {
    return std::any_of(rules.begin(), rules.end(), [&](const RightsOfResource& one) {
      return one.resource == right.resource && one.group == right.group;
    });
  };
  return is_one_of(RightsInCluster()) || is_one_of(RightsToReview());
}

}  // namespace

std::string ToString(const Right& right) {
  std::string out = right.verb + " " + right.resource;
  if (!right.group.empty()) out += "." + right.group;
  if (!right.name.empty()) out += " '" + right.name + "'";
  if (!right.ns.empty()) return out + " in namespace " + right.ns;
  return IsOfCluster(right) ? out : out + " in all namespaces";
}

const std::vector<RightsOfResource>& RightsInNamespace() {
  static const std::vector<RightsOfResource> rules = {
      {"serving.janus.dev", "moeservices", "list watch"},
      {"serving.janus.dev", "moeservices/status", "update"},
      {"serving.janus.dev", "moetopologies", "get list watch create update delete"},
      {"serving.janus.dev", "moetopologies/status", "update"},
      {"serving.janus.dev", "moerolescalers", "get list watch create patch delete"},
      {"serving.janus.dev", "moerolescalers/status", "update"},
      {"", "pods", "get list watch create patch delete"},
      {"", "pods/status", "patch"},
      {"", "services", "get list watch create patch delete"},
      {"", "serviceaccounts", "get list watch create patch"},
      {"", "secrets", "create patch"},
      {"apps", "deployments", "get list watch create patch"},
      {"autoscaling", "horizontalpodautoscalers", "list watch"},
      {"batch", "jobs", "get list watch create delete"},
      {"policy", "poddisruptionbudgets", "get list watch create patch delete"},
      {"networking.k8s.io", "networkpolicies", "get list watch create patch delete"},
      {"events.k8s.io", "events", "create patch"}};
  return rules;
}

const std::vector<RightsOfResource>& RightsInCluster() {
  static const std::vector<RightsOfResource> rules = {
      {"", "nodes", "get list watch"},
      {"", "namespaces/status", "patch"},
      {"serving.janus.dev", "hardwareprofiles", "list watch"}};
  return rules;
}

const std::vector<RightsOfResource>& RightsAtHome() {
  static const std::vector<RightsOfResource> rules = {
      {"", "secrets", "get list create update delete"}};
  return rules;
}

const std::vector<RightsOfResource>& RightsToReview() {
  static const std::vector<RightsOfResource> rules = {
      {"authentication.k8s.io", "tokenreviews", "create"},
      {"authorization.k8s.io", "subjectaccessreviews", "create"}};
  return rules;
}

std::vector<Right> NeededRights(const OperatorOptions& options, const std::string& home) {
  std::vector<Right> out;
  if (options.reads_nodes) Add(RightsInCluster(), "", out);
  if (options.metrics_authentication) Add(RightsToReview(), "", out);
  const std::vector<std::string> everywhere = {""};
  for (const std::string& ns : options.namespaces.empty() ? everywhere : options.namespaces) {
    Add(RightsInNamespace(), ns, out);
  }
  Add(RightsAtHome(), home, out);
  if (!options.leader_election) return out;
  for (const char* verb : {"get", "update"}) {
    out.push_back({verb, "coordination.k8s.io", "leases", home, options.lease_name});
  }
  return out;
}

RightsCheck::RightsCheck(ObjectApi& api, std::vector<Right> needed, const Timeline& timeline,
                         Logger log)
    : api_(api), needed_(std::move(needed)), timeline_(timeline), log_(std::move(log)) {}

void RightsCheck::Start() {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    while (!AskOnce(stop)) {
      const MonotonicTime again =
          timeline_.Now() + std::chrono::duration_cast<MonotonicTime::duration>(kAskAgain);
      if (!timeline_.WaitUntil(again, stop)) return;
    }
  });
}

bool RightsCheck::AskOnce(const std::stop_token& stop) {
  std::vector<Right> missing;
  bool is_sure = true;
  for (const Right& right : needed_) {
    const ApiResult<Node> review = api_.Create(kReviews, ReviewOf(right), {}, {kCallTimeout, stop});
    if (stop.stop_requested()) return true;
    if (!review.ok()) {
      is_sure = false;
      continue;
    }
    const Node* const allowed = FindAt(*review, {"status", "allowed"});
    if (allowed == nullptr || !allowed->boolean) missing.push_back(right);
  }
  std::vector<Right> before;
  {
    const MutexLock lock(mu_);
    before = std::exchange(missing_, missing);
  }
  for (const Right& right : missing) {
    if (std::find(before.begin(), before.end(), right) != before.end()) continue;
    log_.Error(
        "a right is missing: give it to the operator's service account (rbac.create of the "
        "chart does)",
        {{"verb", right.verb},
         {"resource", right.group.empty() ? right.resource : right.resource + "." + right.group},
         {"namespace", right.ns.empty() ? "(all)" : right.ns}});
  }
  if (missing.empty() && !before.empty()) log_.Info("no right is missing any more");
  return missing.empty() && is_sure;
}

Status RightsCheck::Missing() const {
  const MutexLock lock(mu_);
  if (missing_.empty()) return OkStatus();
  std::string all;
  for (const Right& right : missing_) all += (all.empty() ? "" : ", ") + ToString(right);
  return PermissionDenied("the operator's service account has no right to: " + all);
}

}  // namespace janus::control
