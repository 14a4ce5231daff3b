#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "operator/kube/object_api.h"
#include "operator/reconcile/observe/caches.h"
#include "operator/reconcile/pass/memory.h"
#include "operator/reconcile/pass/observed.h"
#include "operator/reconcile/pass/settings.h"
#include "operator/reconcile/pods/nodes.h"
#include "operator/reconcile/status/service_event.h"

namespace janus::control {

// Shared by the steps of one pass over one service. All references outlive the pass.
struct Pass {
  const ReconcilerOptions& options;
  ObjectApi& api;
  const Caches& caches;
  Memory& memory;
  ObjectKey key;
  MonotonicTime now;  // one time for the whole pass
  WallTime wall;
  CallLimits limits;  // of each call
  TellEvent tell;
  std::function<void()> wake;

  std::vector<RefusedCall> refused;                      // in this pass
  std::map<std::string, std::optional<NodeSeen>> nodes;  // read from the server in this pass
  bool certificates_are_kept = false;
  bool is_first_round = true;
  std::optional<MonotonicTime> again;  // from what was read and started in this round

  // Stop: this process ends, or no longer leads.
  bool is_stopped() const {
    return std::any_of(refused.begin(), refused.end(), [](const RefusedCall& one) {
      return one.refusal.kind == RefusalKind::kStop;
    });
  }
  void Refuse(std::string call, Refusal refusal, bool is_silent = false) {
    refused.push_back({std::move(call), std::move(refusal), true, is_silent});
  }
};

}  // namespace janus::control
