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

// All that the store knows of a kind. Immutable.
struct Kind {
  Resource resource;
  bool has_status = false;               // as a subresource: written apart from the rest
  bool counts_generation = false;        // metadata.generation, raised by what is not status
  bool needs_version = false;            // an update without a resourceVersion is refused
  bool goes_gracefully = false;          // a deletion waits for the kubelet, as pods' do
  bool is_labelled_with_status = false;  // who writes the status may write labels with it
  // The scale subresource: where `selector` stands, below spec a LabelSelector, below status its
  // text. Empty: the kind has none.
  std::string_view scale_selector_in;
  NameRule name_rule = NameRule::kSubdomain;
  std::optional<Seconds> time_to_live;  // removed after that, as events are
  std::vector<std::string_view> selectable_fields;
  Node first_status;                         // of a new object; null: none
  bool has_address = false;                  // a Service's spec.clusterIP
  const StructuralSchema* schema = nullptr;  // null: any fields are taken as they are
  KindRules rules;                           // besides the schema's and those of metadata

  TypeCursor types() const { return TypeCursor(schema == nullptr ? nullptr : &schema->root()); }
  bool is_namespace() const { return resource.kind == "Namespace"; }
};

// The kinds there are: ours by crds/ and operator/api, and those built-in ones that the operator
// reads or writes, by built_in.h. Lives as long as the program. Thread-safe.
std::span<const Kind> Kinds();

// By group, version and plural; null: there is none.
const Kind* FindKind(const Resource& resource);
// As an owner reference names it; null: there is none.
const Kind* FindKind(std::string_view api_version, std::string_view kind);

}  // namespace janus::control
