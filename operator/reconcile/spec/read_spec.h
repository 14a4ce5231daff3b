#pragma once

#include <optional>
#include <string>

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"
#include "operator/reconcile/pass/observed.h"
#include "operator/reconcile/pass/settings.h"
#include "operator/reconcile/status/cause.h"
#include "operator/reconcile/status/status.h"

namespace janus::control {

// Converts the API server's MoEService into one for decisions. All pure.

struct SpecRead {
  MoEService service;
  Cause invalid;  // InvalidSpec: a field is unreadable
};
SpecRead ReadSpec(const Node& tree);

// Why this operator can never run the service: InvalidSpec or NotSupported, with the fields. Empty:
// it can, as far as the spec tells.
Cause CheckSpec(const MoEService& service, const ReconcilerOptions& options);

// The image pinned in the status, or a new one if the spec asks for it.
PinnedImage PinImage(const Node& tree, const MoEService& service, const ReconcilerOptions& options);

// The image of pods created for `service`. If an older spec for another device is in force, this is
// the operator's newest image for that device instead of the pinned one.
std::string ImageOfPods(const MoEService& service, const PinnedImage& pinned,
                        const ReconcilerOptions& options);

// The service under the last spec with which all of it served, from the record; nothing: none
// recorded. The metadata comes from `tree`.
std::optional<MoEService> LastServiceOf(const Node& tree, const TopologySeen* topology);

// True if the newest spec equals that one.
bool IsLastSpec(const Node& tree, const TopologySeen* topology);

// Why the service has no workers on purpose; empty: it should serve.
std::string WhyAsleep(const MoEService& service);

}  // namespace janus::control
