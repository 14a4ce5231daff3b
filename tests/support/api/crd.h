#pragma once

#include <string>
#include <string_view>

#include "operator/api/tree.h"

namespace janus::test {

// A file of crds/ as a tree: "moeservices". Ends the program when it cannot be read.
control::Node ReadCrd(std::string_view plural);

// Its schema: spec.versions[0].schema.openAPIV3Schema.
const control::Node& SchemaOf(const control::Node& crd);

// A member of a schema by name: properties, or the values of a map. Null: there is none.
const control::Node* PropertyOf(const control::Node& schema, std::string_view name);

// The text of a schema's keyword, empty where it is not written.
std::string Keyword(const control::Node& schema, std::string_view name);

// `object` with the schema's defaults filled in, as the API server does before it judges.
void ApplyDefaults(const control::Node& schema, control::Node& object);

// As the API server takes it.
std::string ToJson(const control::Node& node);

}  // namespace janus::test
