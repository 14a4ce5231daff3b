#pragma once

#include <cstdint>

#include "operator/api/tree.h"
#include "operator/local/store/kinds.h"

namespace janus::control {

// The scale subresource: a small object of autoscaling/v1 with the replica counts of a larger one.
// Pure. REQUIRES: the kind has it

Node ScaleOf(const Kind& kind, const Node& object);

// The replicas that a Scale asks for; 0 if absent.
int64_t WantedReplicas(const Node& scale);
void SetReplicas(int64_t replicas, Node& object);

}  // namespace janus::control
