#pragma once

#include <string_view>

#include "operator/api/tree.h"

namespace janus::control {

// The API server's metadata rules for objects of any kind that need no other object (apimachinery:
// ValidateObjectMeta, IsQualifiedName, IsValidLabelValue; RFC 1123). Pure.

bool IsDnsLabel(std::string_view text);      // at most 63: letters, digits, '-'
bool IsDnsSubdomain(std::string_view text);  // labels with '.' between, at most 253
// "name", or "prefix.of.dns/name".
bool IsQualifiedName(std::string_view text);
// Empty, or at most 63 of: letters, digits, '-', '_', '.'.
bool IsLabelValue(std::string_view text);

// Checks labels, annotations and finalizers; paths are the server's: "metadata.labels". Not the
// name, since each kind has its rule for names.
FieldErrors ValidateMetadata(const Node& object);

}  // namespace janus::control
