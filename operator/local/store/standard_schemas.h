#pragma once

#include "operator/api/tree.h"

namespace janus::control {

// Schemas that are every kind's, written as a CustomResourceDefinition has them (Kubernetes API
// reference v1.35). They live as long as the program. Thread-safe.

const Node& MetadataSchema();  // of ObjectMeta
const Node& ScaleSchema();     // of autoscaling/v1, metadata left out

}  // namespace janus::control
