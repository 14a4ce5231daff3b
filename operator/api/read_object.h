#pragma once

#include <string_view>

#include "operator/api/fields.h"
#include "operator/api/object.h"

namespace janus::control {

// For the kinds' own readers: what stands around a spec.

void Read(const At& at, ObjectMeta& out);

// After the fields were read: another apiVersion or kind, lines, the order of the document.
void FinishReading(const Node& root, std::string_view kind, FieldErrors& errors);

// Reads apiVersion, kind, metadata and spec; allows a status. `what` says what the spec holds.
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
