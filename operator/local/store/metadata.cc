#include "operator/local/store/metadata.h"

#include <algorithm>
#include <array>
#include <utility>

#include "operator/kube/object.h"
#include "operator/local/store/tree_edit.h"

namespace janus::control {
namespace {

constexpr std::array<std::string_view, 7> kServerFields = {
    "uid",        "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
    "generation", "resourceVersion",   "managedFields"};
constexpr size_t kMaxAnnotationBytes = 256 << 10;

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Begins and ends with a letter or digit, `inner` may stand between.
bool IsWord(std::string_view text, size_t most, std::string_view inner, bool may_be_upper) {
  if (text.empty() || text.size() > most) return false;
  const auto is_outer = [&](char c) {
    return IsAlphanumeric(c) && (may_be_upper || c < 'A' || c > 'Z');
  };
  return is_outer(text.front()) && is_outer(text.back()) &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return is_outer(c) || inner.find(c) != std::string_view::npos;
         });
}

bool IsSubdomain(std::string_view text) {
  if (text.size() > 253) return false;
  while (true) {
    const size_t dot = std::min(text.find('.'), text.size());
    if (!IsWord(text.substr(0, dot), 253, "-", false)) return false;
    if (dot == text.size()) return true;
    text.remove_prefix(dot + 1);
  }
}

// "name", or "prefix.of.dns/name".
bool IsQualifiedName(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash != text.npos) {
    if (!IsSubdomain(text.substr(0, slash))) return false;
    text.remove_prefix(slash + 1);
  }
  return IsWord(text, 63, "-_.", true);
}

class MetadataJudge {
 public:
  explicit MetadataJudge(const Node& object) : object_(object) {}

  void Name(NameRule rule) {
    const std::string_view name = TextAt(object_, {"metadata", "name"});
    if (name.empty()) return Fail("FieldValueRequired", "name", "name or generateName is required");
    const bool is_good =
        rule == NameRule::kLabel ? IsWord(name, 63, "-", false) : IsSubdomain(name);
    if (is_good) return;
    Fail("FieldValueInvalid", "name",
         "is '" + std::string(name.substr(0, 64)) + "'; want small letters, digits and '-'" +
             (rule == NameRule::kLabel ? ", at most 63" : " or '.', at most 253"));
  }

  void Labels() {
    for (const NodeField& label : FieldsOf("labels")) {
      if (!IsQualifiedName(label.name)) {
        Fail("FieldValueInvalid", "labels", "'" + label.name.substr(0, 64) + "' is no label's key");
      }
      const std::string& value = label.value.text;
      if (!value.empty() && !IsWord(value, 63, "-_.", true)) {
        Fail("FieldValueInvalid", "labels",
             "'" + value.substr(0, 64) +
                 "' is no label's value; want letters, digits, '-', '_', "
                 "'.', at most 63");
      }
    }
  }

  void Annotations() {
    size_t bytes = 0;
    for (const NodeField& annotation : FieldsOf("annotations")) {
      bytes += annotation.name.size() + annotation.value.text.size();
    }
    if (bytes > kMaxAnnotationBytes) {
      Fail("FieldValueTooLong", "annotations", "have more than 262144 bytes");
    }
  }

  // With a string for every value.
  void Texts(std::string_view field) {
    for (const NodeField& one : FieldsOf(field)) {
      if (one.value.kind == Node::Kind::kString) continue;
      Fail("FieldValueTypeInvalid", std::string(field) + "." + one.name,
           "must be a string, is " + std::string(Describe(one.value.kind)));
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
      if (!IsQualifiedName(finalizer.text)) {
        Fail("FieldValueInvalid", "finalizers",
             "'" + finalizer.text.substr(0, 64) + "' is no finalizer's name");
      }
      if (before != nullptr && IsBeingDeleted(*before) && !HasFinalizer(*before, finalizer.text)) {
        Fail("FieldValueForbidden", "finalizers",
             "'" + finalizer.text.substr(0, 64) + "' comes too late: the object is being deleted");
      }
    }
  }

  std::vector<ApiCause> causes;

 private:
  std::vector<NodeField> FieldsOf(std::string_view name) const {
    const Node* const map = FindAt(object_, {"metadata", name});
    return map == nullptr ? std::vector<NodeField>() : map->fields;
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
  judge.Name(kind.name_rule);
  judge.Texts("labels");
  judge.Texts("annotations");
  judge.Labels();
  judge.Annotations();
  judge.Owners();
  judge.Finalizers(before);
  return std::move(judge.causes);
}

}  // namespace janus::control
