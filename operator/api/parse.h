#pragma once

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"

namespace janus::control {

using ParsedService = Parsed<MoEService>;

// Reads the typed object from a tree. Errors with path: an unknown field (with the nearest known
// one), a wrong type, an integer out of range, an unknown enum name (with the allowed ones), a
// missing required field, another apiVersion or kind. `status` and the server's fields of
// `metadata` are allowed and not read. Pure.
ParsedService ParseMoEService(const Node& root);

}  // namespace janus::control
