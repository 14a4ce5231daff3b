#pragma once

#include <string_view>

#include "operator/api/fields.h"
#include "operator/api/object.h"

namespace janus::control {

// Reads the parts common to all kinds, for each kind's reader.

void Read(const At& at, ObjectMeta& out);

// Call after reading the fields: checks apiVersion and kind, adds lines, sorts errors in document
// order.
void FinishReading(const Node& root, std::string_view kind, FieldErrors& errors);

// Reads apiVersion, kind, metadata and spec; allows a status. `what` describes the spec.
template <class Object>
Parsed<Object> ReadObject(const Node& root, std::string_view kind, std::string_view what) {
  Parsed<Object> out;
  const std::string path;
  const At at{root, path, out.errors};
  std::string ignored;
  Fields(at)
      .Require("apiVersion", ignored, kApiVersion)
      .Require("kind", ignored, kind)
      .Require("metadata", out.object.metadata, "the object's name")
      .Require("spec", out.object.spec, what)
      .Skip("status")
      .RefuseOthers();
  FinishReading(root, kind, out.errors);
  return out;
}

}  // namespace janus::control
