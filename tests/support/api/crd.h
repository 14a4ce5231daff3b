#pragma once

#include <string>
#include <string_view>

#include "operator/api/tree.h"

namespace janus::test {

// Reads a file of crds/ as a tree: "moeservices". Ends the program if it cannot be read.
control::Node ReadCrd(std::string_view plural);

// The schema of the file: spec.versions[0].schema.openAPIV3Schema.
const control::Node& SchemaOf(const control::Node& crd);

// A member of a schema by name: properties, or the values of a map. Null: no such member.
const control::Node* PropertyOf(const control::Node& schema, std::string_view name);

// The text of a schema's keyword; empty: it is absent.
std::string Keyword(const control::Node& schema, std::string_view name);

// `object` with the schema's defaults filled in, as the API server does before it judges.
void ApplyDefaults(const control::Node& schema, control::Node& object);

// In the form that the API server accepts.
std::string ToJson(const control::Node& node);

}  // namespace janus::test
