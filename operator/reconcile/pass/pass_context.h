#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "operator/api/moeservice.h"
#include "operator/kube/object_api.h"
#include "operator/reconcile/epochs/epoch_driver.h"
#include "operator/reconcile/observe/caches.h"
#include "operator/reconcile/observe/own_writes.h"
#include "operator/reconcile/pass/refusal.h"
#include "operator/reconcile/pass/refusals.h"

namespace janus::control {

// The version of a child that our last mending has led to, by resource and name: what differs there
// from what we wrote is the server's way of writing it.
using MendedVersions = std::map<std::pair<std::string, std::string>, std::string>;

// What the parts of one pass over one service share. Lives as long as the pass.
struct PassContext {
  ObjectApi& api;
  const Caches& caches;
  const MoEService& service;
  OwnWrites& writes;
  Refusals& refusals;
  MonotonicTime now;
  CallLimits limits;  // of each call
  const TellEvent& tell;
  std::vector<Refusal>& refused;  // what was refused; the parts go on without it

  // True when the pass should do nothing more: we are ending, or lead no more.
  bool is_stopped() const { return !refused.empty() && refused.back().kind == RefusalKind::kStop; }
};

}  // namespace janus::control
