#pragma once

#include "operator/api/tree.h"

namespace janus::control {

// Schemas shared by all kinds, in the form of a CustomResourceDefinition (Kubernetes API reference
// v1.35). They live as long as the program. Thread-safe.

const Node& MetadataSchema();  // of ObjectMeta
const Node& ScaleSchema();     // of autoscaling/v1, without metadata

}  // namespace janus::control
