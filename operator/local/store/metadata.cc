#include "operator/local/store/metadata.h"

#include <algorithm>
#include <array>
#include <utility>

#include "operator/api/metadata_rules.h"
#include "operator/kube/object.h"
#include "operator/local/store/tree_edit.h"

namespace janus::control {
namespace {

constexpr std::array<std::string_view, 7> kServerFields = {
    "uid",        "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
    "generation", "resourceVersion",   "managedFields"};
class MetadataJudge {
 public:
  explicit MetadataJudge(const Node& object) : object_(object) {}

  void Name(NameRule rule) {
    const std::string_view name = TextAt(object_, {"metadata", "name"});
    if (name.empty()) return Fail("FieldValueRequired", "name", "name or generateName is required");
    NameAt("name", name, rule);
  }

  // Checks a generateName as if completed to a name.
  void GeneratedName(NameRule rule) {
    std::string prefix(TextAt(object_, {"metadata", "generateName"}));
    if (prefix.empty()) return;
    if (prefix.size() > 1 && prefix.ends_with('-')) prefix.back() = 'a';
    NameAt("generateName", prefix, rule);
  }

  // Rules that do not depend on the kind.
  void Itself() {
    for (FieldError& error : ValidateMetadata(object_)) {
      causes.push_back({"FieldValueInvalid", std::move(error.path), std::move(error.message)});
    }
  }

  void Owners() {
    const Node* const owners = FindAt(object_, {"metadata", "ownerReferences"});
    if (owners == nullptr) return;
    int controllers = 0;
    for (size_t i = 0; i < owners->items.size(); ++i) {
      const std::string path = "ownerReferences[" + std::to_string(i) + "]";
      for (const std::string_view field : {"apiVersion", "kind", "name", "uid"}) {
        if (!TextAt(owners->items[i], {field}).empty()) continue;
        Fail("FieldValueRequired", path + "." + std::string(field), "is required");
      }
      const Node* const controller = owners->items[i].Find("controller");
      if (controller != nullptr && controller->boolean) ++controllers;
    }
    if (controllers > 1) {
      Fail("FieldValueInvalid", "ownerReferences", "only one owner can be the controller");
    }
  }

  void Finalizers(const Node* before) {
    const Node* const finalizers = FindAt(object_, {"metadata", "finalizers"});
    if (finalizers == nullptr) return;
    for (const Node& finalizer : finalizers->items) {
      if (before != nullptr && IsBeingDeleted(*before) && !HasFinalizer(*before, finalizer.text)) {
        Fail("FieldValueForbidden", "finalizers",
             "'" + finalizer.text.substr(0, 64) + "' comes too late: the object is being deleted");
      }
    }
  }

  std::vector<ApiCause> causes;

 private:
  void NameAt(const std::string& field, std::string_view name, NameRule rule) {
    const bool is_good = rule == NameRule::kLabel ? IsDnsLabel(name) : IsDnsSubdomain(name);
    if (is_good) return;
    Fail("FieldValueInvalid", field,
         "is '" + std::string(TextAt(object_, {"metadata", field}).substr(0, 64)) +
             "'; want small letters, digits and '-'" +
             (rule == NameRule::kLabel ? ", at most 63" : " or '.', at most 253"));
  }
  void Fail(std::string reason, const std::string& field, std::string message) {
    causes.push_back({std::move(reason), "metadata." + field, std::move(message)});
  }

  const Node& object_;
};

Node* Metadata(Node& object) {
  return FindMutable(object, "metadata");
}

}  // namespace

std::vector<OwnerReference> OwnersOf(const Node& object) {
  std::vector<OwnerReference> out;
  const Node* const owners = FindAt(object, {"metadata", "ownerReferences"});
  if (owners == nullptr) return out;
  for (const Node& owner : owners->items) {
    const Node* const blocks = owner.Find("blockOwnerDeletion");
    out.push_back({std::string(TextAt(owner, {"apiVersion"})), std::string(TextAt(owner, {"kind"})),
                   std::string(TextAt(owner, {"name"})), std::string(TextAt(owner, {"uid"})),
                   blocks != nullptr && blocks->boolean});
  }
  return out;
}

void DropOwners(Node& object, const std::vector<std::string>& uids) {
  Node* const owners = FindMutable(*Metadata(object), "ownerReferences");
  if (owners == nullptr) return;
  std::erase_if(owners->items, [&](const Node& owner) {
    return std::find(uids.begin(), uids.end(), TextAt(owner, {"uid"})) != uids.end();
  });
  if (owners->items.empty()) RemoveField(*Metadata(object), "ownerReferences");
}

void DropRepeatedOwners(Node& object) {
  Node* const metadata = Metadata(object);
  Node* const owners = metadata == nullptr ? nullptr : FindMutable(*metadata, "ownerReferences");
  if (owners == nullptr) return;
  std::vector<Node> kept;
  for (Node& owner : owners->items) {
    if (std::find(kept.begin(), kept.end(), owner) == kept.end()) kept.push_back(std::move(owner));
  }
  owners->items = std::move(kept);
}

bool HasFinalizer(const Node& object, std::string_view name) {
  const Node* const finalizers = FindAt(object, {"metadata", "finalizers"});
  return finalizers != nullptr &&
         std::any_of(finalizers->items.begin(), finalizers->items.end(),
                     [&](const Node& finalizer) { return finalizer.text == name; });
}

bool HasFinalizers(const Node& object) {
  const Node* const finalizers = FindAt(object, {"metadata", "finalizers"});
  return finalizers != nullptr && !finalizers->items.empty();
}

void AddFinalizer(Node& object, std::string_view name) {
  if (HasFinalizer(object, name)) return;
  Node& metadata = *Metadata(object);
  Node* list = FindMutable(metadata, "finalizers");
  if (list == nullptr) list = &metadata.Add("finalizers", Node::List());
  list->items.push_back(Node::String(name));
}

void RemoveFinalizer(Node& object, std::string_view name) {
  Node* const list = FindMutable(*Metadata(object), "finalizers");
  if (list == nullptr) return;
  std::erase_if(list->items, [&](const Node& finalizer) { return finalizer.text == name; });
  if (list->items.empty()) RemoveField(*Metadata(object), "finalizers");
}

bool IsBeingDeleted(const Node& object) {
  return FindAt(object, {"metadata", "deletionTimestamp"}) != nullptr;
}

void KeepServerFields(const Node& live, Node& next) {
  DropServerFields(next);
  for (const std::string_view field : kServerFields) {
    if (const Node* const value = FindAt(live, {"metadata", field})) {
      SetAt(next, {"metadata", field}, *value);
    }
  }
}

void DropServerFields(Node& object) {
  Node* const metadata = Metadata(object);
  if (metadata == nullptr) return;
  for (const std::string_view field : kServerFields) RemoveField(*metadata, field);
  RemoveField(*metadata, "selfLink");
}

std::vector<ApiCause> JudgeMetadata(const Kind& kind, const Node& object, const Node* before) {
  MetadataJudge judge(object);
  if (before == nullptr) judge.GeneratedName(kind.name_rule);
  judge.Name(kind.name_rule);
  judge.Itself();
  judge.Owners();
  judge.Finalizers(before);
  return std::move(judge.causes);
}

}  // namespace janus::control
