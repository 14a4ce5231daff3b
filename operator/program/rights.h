#pragma once

#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/log.h"
#include "common/mutex.h"
#include "operator/kube/object_api.h"
#include "operator/kube/timeline.h"
#include "operator/program/options.h"

namespace janus::control {

// A right that the operator needs. An empty namespace: everywhere, or the resource has none.
struct Right {
  std::string verb;
  std::string group;
  std::string resource;  // with its subresource: "pods/status"
  std::string ns;
  std::string name = {};  // of the only object; empty: all
  friend bool operator==(const Right&, const Right&) = default;
};
// "create pods in namespace chat", "list nodes", "get leases.coordination.k8s.io in all
// namespaces".
std::string ToString(const Right& right);

// The rights of one kind of place, as the chart's _rules.tpl has them.
struct RightsOfResource {
  std::string_view group;
  std::string_view resource;
  std::string_view verbs;  // with spaces between them
};
// In every watched namespace; of the whole cluster; in the operator's own namespace.
const std::vector<RightsOfResource>& RightsInNamespace();
const std::vector<RightsOfResource>& RightsInCluster();
const std::vector<RightsOfResource>& RightsAtHome();
// For --metrics-authentication, of the whole cluster.
const std::vector<RightsOfResource>& RightsToReview();

// All that an operator with these options needs. `home`: its own namespace. Pure.
std::vector<Right> NeededRights(const OperatorOptions& options, const std::string& home);

// Asks the API server, once or until nothing is missing, which of the needed rights this account
// has (SelfSubjectAccessReview, which every account may create). A missing right would otherwise
// show only when the operator first needs it. Logs each missing right once. Thread-safe.
class RightsCheck {
 public:
  // `api` and `timeline` outlive this.
  RightsCheck(ObjectApi& api, std::vector<Right> needed, const Timeline& timeline, Logger log);

  // Starts the thread, which ends with this object, or when all rights are there.
  void Start();
  // Asks once for every right. True: all are there. A review that fails counts as "unknown": it is
  // no missing right, but it is asked again.
  bool AskOnce(const std::stop_token& stop);
  // PermissionDenied: names every missing right, as far as they are known.
  Status Missing() const;

 private:
  ObjectApi& api_;
  const std::vector<Right> needed_;
  const Timeline& timeline_;
  const Logger log_;
  mutable Mutex mu_;
  std::vector<Right> missing_ JANUS_GUARDED_BY(mu_);
  std::jthread thread_;  // last: ends first
};

}  // namespace janus::control
