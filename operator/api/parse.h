#pragma once

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"

namespace janus::control {

using ParsedService = Parsed<MoEService>;

// Reads the typed object out of a tree. Refused by path: a field that does not exist (with the
// nearest one that does), a value of the wrong type, an integer beyond its range, a name that is
// none of its enumeration (with the names), a missing required field, another apiVersion or kind.
// `status` and what the API server adds to `metadata` are allowed and not read. Pure.
ParsedService ParseMoEService(const Node& root);

}  // namespace janus::control
