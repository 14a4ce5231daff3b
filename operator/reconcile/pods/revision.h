#pragma once

#include <string>

#include "common/topology.h"
#include "operator/api/moeservice.h"

namespace janus::control {

// The revision of a role's pods: ten letters and digits, hashed from the fields that the user set
// and the worker image. A field with its default value counts as not set, so a newer operator with
// more fields computes the same revisions. Of the settings sent in Prepare it includes only those
// fixed for a worker's lifetime (SequenceRoom). The others (slots, scheduling, targets, exchange)
// can change between epochs without new pods. Pure.
std::string RevisionOf(const MoEService& service, Role role, const std::string& worker_image);

// The model that a service's pods are created for, as far as the spec tells: ten letters and digits
// from source and dtype. Equal labels mean the same model; different labels may also mean the same
// model.
std::string ModelLabelOf(const MoEService& service);

// A key of source and cache: ten letters and digits.
std::string SourceKeyOf(const MoEService& service);

}  // namespace janus::control
