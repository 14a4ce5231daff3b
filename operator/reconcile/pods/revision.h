#pragma once

#include <string>

#include "common/topology.h"
#include "operator/api/moeservice.h"

namespace janus::control {

// The revision of a role's pods: ten letters and digits that tell what the user set of them and the
// worker image. A field that is left at its default counts as not set, so that a newer operator,
// with fields and defaults of its own, finds the revisions of the older one. Of what reaches
// workers in Prepare it holds what they keep for life (SequenceRoom); the rest (slots, scheduling,
// targets, exchange) changes from one epoch to the next, without new pods. Pure.
std::string RevisionOf(const MoEService& service, Role role, const std::string& worker_image);

// Which model a service's pods are made for, as far as its spec tells: ten letters and digits of
// source and dtype. Pods with the same label are of the same model; those with another one may be.
std::string ModelLabelOf(const MoEService& service);

}  // namespace janus::control
