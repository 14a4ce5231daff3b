#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "operator/api/tree.h"
#include "operator/kube/resource.h"
#include "operator/local/store/built_in.h"
#include "operator/local/store/list_types.h"
#include "operator/local/store/structural_schema.h"

namespace janus::control {

enum class NameRule { kSubdomain, kLabel };  // RFC 1123

// What the store knows of a kind. Immutable.
struct Kind {
  Resource resource;
  bool has_status = false;               // as a subresource, written separately
  bool counts_generation = false;        // metadata.generation counts changes outside of status
  bool needs_version = false;            // an update needs a resourceVersion
  bool goes_gracefully = false;          // deletion waits for the kubelet, as for pods
  bool is_labelled_with_status = false;  // a write of the status may also change labels
  // Location of the selector in the scale subresource: below spec it is a LabelSelector, below
  // status its text. Empty: the kind has no scale.
  std::string_view scale_selector_in;
  NameRule name_rule = NameRule::kSubdomain;
  std::optional<Seconds> time_to_live;  // removed after this time, as Events are
  std::vector<std::string_view> selectable_fields;
  Node first_status;                         // of a new object; null: empty
  bool has_address = false;                  // a Service's spec.clusterIP
  const StructuralSchema* schema = nullptr;  // null: fields are not checked
  KindRules rules;                           // in addition to those of schema and metadata

  TypeCursor types() const { return TypeCursor(schema == nullptr ? nullptr : &schema->root()); }
  bool is_namespace() const { return resource.kind == "Namespace"; }
};

// All kinds: ours from crds/ and operator/api, and the built-in ones that the operator reads or
// writes (built_in.h). Lives as long as the program. Thread-safe.
std::span<const Kind> Kinds();

// By group, version and plural; null: unknown.
const Kind* FindKind(const Resource& resource);
// By the fields of an owner reference; null: unknown.
const Kind* FindKind(std::string_view api_version, std::string_view kind);

}  // namespace janus::control
