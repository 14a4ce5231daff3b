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

// From the MoEService as the API server has it to one that can be decided on. All pure.

struct SpecRead {
  MoEService service;
  Cause invalid;  // InvalidSpec: a field cannot be read
};
SpecRead ReadSpec(const Node& tree);

// Why the service can never be carried out by this operator: InvalidSpec or NotSupported, with the
// fields. Empty: it can, as far as its spec tells.
Cause CheckSpec(const MoEService& service, const ReconcilerOptions& options);

// The image that the status has pinned; another one where the spec asks for it.
PinnedImage PinImage(const Node& tree, const MoEService& service, const ReconcilerOptions& options);

// The image of pods that are made for `service`. While an older spec is kept that computes on
// another device than the newest one asks for, the pinned image is of the other device's workers.
std::string ImageOfPods(const MoEService& service, const PinnedImage& pinned,
                        const ReconcilerOptions& options);

// The service under the last spec by which all of it served, as the record notes it; nothing: none
// is noted. `tree` gives the metadata.
std::optional<MoEService> LastServiceOf(const Node& tree, const TopologySeen* topology);

// Whether the newest spec is that one.
bool IsLastSpec(const Node& tree, const TopologySeen* topology);

// Why the service has no workers on purpose; empty: it shall serve.
std::string WhyAsleep(const MoEService& service);

}  // namespace janus::control
