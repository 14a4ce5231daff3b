#include "operator/local/store/write.h"

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/api/rfc3339.h"
#include "operator/local/store/admission.h"
#include "operator/local/store/errors.h"
#include "operator/local/store/garbage_collector.h"
#include "operator/local/store/json_patch.h"
#include "operator/local/store/managed_fields.h"
#include "operator/local/store/merge_patch.h"
#include "operator/local/store/metadata.h"
#include "operator/local/store/scale.h"
#include "operator/local/store/standard_schemas.h"
#include "operator/local/store/tree_edit.h"
#include "operator/local/store/typed_patch.h"

namespace janus::control {
namespace {

using Session = LocalStore::Session;

constexpr size_t kMaxGeneratedPrefix = 58;  // five more characters make the longest label
constexpr int kNameAttempts = 8;

// "3f1c...-....": RFC 9562, version 4.
std::string NewUid(std::mt19937_64& random) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string uid = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx";
  for (char& c : uid) {
    if (c == 'x') c = kHex[random() % 16];
    if (c == 'y') c = kHex[8 + random() % 4];
  }
  return uid;
}

// Five characters that cannot form a word.
std::string NewSuffix(std::mt19937_64& random) {
  constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::string suffix;
  for (int i = 0; i < 5; ++i) suffix += kLetters[random() % kLetters.size()];
  return suffix;
}

// An address of 10.96.0.0/16 that no other Service has.
std::string NewAddress(Session& session, const Kind& services) {
  const Table& table = session.tables.TableOf(services);
  while (true) {
    std::string address = "10.96." + std::to_string(session.random() % 256) + "." +
                          std::to_string(1 + session.random() % 254);
    const bool is_taken = std::any_of(table.begin(), table.end(), [&](const auto& entry) {
      return TextAt(*entry.second, {"spec", "clusterIP"}) == address;
    });
    if (!is_taken) return address;
  }
}

constexpr std::string_view kHasChanged =
    "the object has been modified; read it again and decide again";

// How an object is written.
enum class Verb { kUpdate, kPatch, kApply };

Reading ReadingOf(Verb verb, const WriteOptions& options) {
  return {options.strict, verb == Verb::kPatch};
}

// For an object of a kind, or a Scale.
std::optional<ApiError> CheckType(std::string_view api_version, std::string_view kind,
                                  const Node& object, const Reading& reading) {
  if (object.kind != Node::Kind::kMap) {
    return Unreadable(reading,
                      "the object must be a map, is " + std::string(Describe(object.kind)));
  }
  const Node* const metadata = object.Find("metadata");
  if (metadata != nullptr && metadata->kind != Node::Kind::kMap) {
    return Unreadable(reading,
                      "metadata must be a map, is " + std::string(Describe(metadata->kind)));
  }
  if (TextAt(object, {"apiVersion"}) == api_version && TextAt(object, {"kind"}) == kind) return {};
  return Unreadable(reading, "the object is of " + std::string(TextAt(object, {"apiVersion"})) +
                                 " " + std::string(TextAt(object, {"kind"})) + ", want " +
                                 std::string(api_version) + " " + std::string(kind));
}

std::optional<ApiError> CheckType(const Kind& kind, const Node& object, const Reading& reading) {
  // For a custom resource the server checks these after the patch, so the error differs (422).
  const bool is_other_version = TextAt(object, {"apiVersion"}) != kind.resource.ApiVersion();
  if (kind.schema != nullptr && reading.is_patch &&
      (is_other_version || TextAt(object, {"kind"}) != kind.resource.kind)) {
    const std::string_view field = is_other_version ? "apiVersion" : "kind";
    return InvalidObject(kind.resource, KeyOf(object).name,
                         {{"FieldValueInvalid", std::string(field),
                           "must be " + kind.resource.ApiVersion() + " " + kind.resource.kind}});
  }
  return CheckType(kind.resource.ApiVersion(), kind.resource.kind, object, reading);
}

// The version that the writer expects. Empty: any, as the server treats "0".
ApiResult<std::string> WantedVersion(const Node& object) {
  const std::string version(ResourceVersionOf(object));
  const bool is_number =
      version.size() <= 18 &&
      std::all_of(version.begin(), version.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!is_number) return NoVersion(version);
  const bool is_any = version.find_first_not_of('0') == std::string::npos;
  return is_any ? std::string() : version;
}

// Checks that `next` names the stored object and its version.
std::optional<ApiError> CheckIdentity(const Kind& kind, const Node& live, const Node& next,
                                      Subresource subresource, Verb verb) {
  const std::string name = KeyOf(live).name;
  if (KeyOf(next) != KeyOf(live)) {
    return BadRequest("the object is " + KeyOf(next).ToString() + ", and " +
                      KeyOf(live).ToString() + " is asked for");
  }
  const std::string_view uid = UidOf(next);
  if (!uid.empty() && uid != UidOf(live)) {
    // Metadata in a patch of a custom resource's subresource is ignored.
    const bool is_passed_by =
        verb != Verb::kUpdate && kind.schema != nullptr && subresource != Subresource::kNone;
    if (verb == Verb::kUpdate || (subresource == Subresource::kScale && !is_passed_by)) {
      return VersionConflict(
          kind.resource, name,
          "the uid in the object is another one's: it was deleted and made anew");
    }
    if (!is_passed_by) return UidMayNotChange(kind.resource, name, uid);
  }
  ApiResult<std::string> version = WantedVersion(next);
  if (!version.ok()) return std::move(version).error();
  if (!version->empty() && *version != ResourceVersionOf(live)) {
    return VersionConflict(kind.resource, name, kHasChanged);
  }
  if (kind.needs_version && version->empty() && !ResourceVersionOf(next).empty()) {
    return VersionIsMissing(kind.resource, name);
  }
  if (!IsBeingDeleted(live) && IsBeingDeleted(next)) {
    return InvalidObject(
        kind.resource, name,
        {{"FieldValueInvalid", "metadata.deletionTimestamp", "field is immutable; delete it"}});
  }
  return {};
}

std::optional<ApiError> CheckSubresource(const Kind& kind, Subresource subresource) {
  if (subresource == Subresource::kStatus && !kind.has_status) {
    return NoSuchSubresource(kind.resource, "status");
  }
  if (subresource == Subresource::kScale && kind.scale_selector_in.empty()) {
    return NoSuchSubresource(kind.resource, "scale");
  }
  return {};
}

std::optional<ApiError> CheckRoom(const Session& session, const Node& next, const Node* live) {
  const size_t is = live == nullptr ? 0 : BytesOf(*live);
  const size_t will_be = BytesOf(next);
  if (will_be <= is || session.tables.HasRoom(will_be - is)) return {};
  return StoreIsFull(session.tables.bytes());
}

// Replaces a stored object by `next`, after validation and only if something changed. `next`
// conforms already. `applied`: the ownership after an apply.
ApiResult<Node> Replace(Session& session, const Kind& kind, const Node& live, Node next,
                        const FieldManager& manager, Verb verb, bool is_dry_run,
                        const std::optional<Ownership>& applied) {
  if (std::optional<ApiError> error = CheckIdentity(kind, live, next, manager.subresource, verb)) {
    return *std::move(error);
  }
  Ownership before;
  if (!applied) {
    before = manager.subresource == Subresource::kNone ? GivenManagedFields(next, live)
                                                       : ReadManagedFields(live);
  }
  next = Confine(kind, manager.subresource, live, std::move(next));
  KeepServerFields(live, next);
  ApiResult<Node> admitted = Admit(kind, std::move(next), &live);
  if (!admitted.ok()) return admitted;
  if (!IsSameGeneration(kind, live, *admitted)) {
    if (const auto generation = IntegerAt(live, {"metadata", "generation"})) {
      SetAt(*admitted, {"metadata", "generation"}, Node::Integer(*generation + 1));
    }
  }
  WriteManagedFields(applied ? *applied
                             : AfterUpdate(before, manager, PartsOf(live, kind.types()),
                                           PartsOf(*admitted, kind.types())),
                     live, session.now, *admitted);
  SortFields(*admitted);
  if (*admitted == live) return live;
  if (std::optional<ApiError> error = CheckRoom(session, *admitted, &live)) {
    return *std::move(error);
  }
  if (is_dry_run) return admitted;
  return *GarbageCollector(session.tables, session.now)
              .Write({&kind, KeyOf(live)}, *std::move(admitted));
}

std::optional<ApiError> CheckNamespace(const Session& session, const ObjectKey& key,
                                       const Kind& kind) {
  if (!kind.resource.is_namespaced) return {};
  const Kind& namespaces = *FindKind("v1", "Namespace");
  const SharedObject found = session.tables.Find(namespaces, {"", key.namespace_});
  if (found == nullptr) return NoSuchObject(namespaces.resource, key.namespace_);
  if (!IsBeingDeleted(*found)) return {};
  return IsForbidden(kind.resource, key.name,
                     "namespace " + key.namespace_ + " is being terminated");
}

// Sets the server's fields of a new object.
void Stamp(Session& session, const Kind& kind, Node& next) {
  DropServerFields(next);
  if (kind.has_status) RemoveField(next, "status");
  SetAt(next, {"metadata", "uid"}, Node::String(NewUid(session.random)));
  SetAt(next, {"metadata", "creationTimestamp"}, Node::String(FormatTime(session.now)));
  if (kind.counts_generation) SetAt(next, {"metadata", "generation"}, Node::Integer(1));
  if (kind.first_status.kind == Node::Kind::kMap) PutField(next, "status", kind.first_status);
  if (kind.is_namespace()) {
    const std::string name = KeyOf(next).name;
    SetAt(next, {"metadata", "labels", "kubernetes.io/metadata.name"}, Node::String(name));
  }
  if (kind.has_address && FindAt(next, {"spec", "clusterIP"}) == nullptr &&
      TextAt(next, {"spec", "type"}) != "ExternalName") {
    SetAt(next, {"spec", "clusterIP"}, Node::String(NewAddress(session, kind)));
  }
}

// Sets a name from metadata.generateName that is not taken.
void GenerateName(Session& session, const Kind& kind, Node& next) {
  const std::string prefix(TextAt(next, {"metadata", "generateName"}));
  if (prefix.empty() || !KeyOf(next).name.empty()) return;
  for (int i = 0; i < kNameAttempts; ++i) {
    SetAt(next, {"metadata", "name"},
          Node::String(prefix.substr(0, kMaxGeneratedPrefix) + NewSuffix(session.random)));
    if (session.tables.Find(kind, KeyOf(next)) == nullptr) return;
  }
}

// REQUIRES: `next` conforms.
ApiResult<Node> Insert(Session& session, const Kind& kind, Node next, const FieldManager& manager,
                       bool is_dry_run, const std::optional<Ownership>& applied) {
  if (std::optional<ApiError> error = CheckNamespace(session, KeyOf(next), kind)) {
    return *std::move(error);
  }
  GenerateName(session, kind, next);
  Stamp(session, kind, next);
  const ObjectKey key = KeyOf(next);
  ApiResult<Node> admitted = Admit(kind, std::move(next), nullptr);
  if (!admitted.ok()) return admitted;
  if (session.tables.Find(kind, key) != nullptr) return NameIsTaken(kind.resource, key.name);
  WriteManagedFields(
      applied ? *applied : AfterUpdate({}, manager, {}, PartsOf(*admitted, kind.types())), {},
      session.now, *admitted);
  if (std::optional<ApiError> error = CheckRoom(session, *admitted, nullptr)) {
    return *std::move(error);
  }
  if (is_dry_run) return admitted;
  return *GarbageCollector(session.tables, session.now).Write({&kind, key}, *std::move(admitted));
}

// Replaces a stored object by `next` with that many replicas, and returns the Scale.
ApiResult<Node> Rescale(Session& session, const Kind& kind, const Node& live, Node next,
                        int64_t replicas, const FieldManager& manager, Verb verb, bool is_dry_run,
                        const std::optional<Ownership>& applied) {
  if (replicas < 0) {
    return InvalidObject(kind.resource, KeyOf(live).name,
                         {{"FieldValueInvalid", "spec.replicas",
                           "is " + std::to_string(replicas) + "; want 0 or more"}});
  }
  SetReplicas(replicas, next);
  ApiResult<Node> replaced =
      Replace(session, kind, live, std::move(next), manager, verb, is_dry_run, applied);
  if (!replaced.ok()) return replaced;
  return ScaleOf(kind, *replaced);
}

// Replaces the replica count of an object by that of a Scale.
ApiResult<Node> ReplaceScale(Session& session, const Kind& kind, const Node& live, Node scale,
                             const FieldManager& manager, Verb verb, const WriteOptions& options) {
  const Reading reading = ReadingOf(verb, options);
  if (std::optional<ApiError> error = CheckType("autoscaling/v1", "Scale", scale, reading)) {
    return *std::move(error);
  }
  ApiResult<Node> conforming = ConformScale(std::move(scale), reading);
  if (!conforming.ok()) return conforming;
  if (std::optional<ApiError> error =
          CheckIdentity(kind, live, *conforming, Subresource::kScale, verb)) {
    return *std::move(error);
  }
  return Rescale(session, kind, live, live, WantedReplicas(*conforming), manager, verb,
                 options.dry_run, std::nullopt);
}

// The part of an applied object that the subresource may set.
Node WantedPart(const Kind& kind, Subresource subresource, const Node& object) {
  Node out = object;
  if (subresource == Subresource::kNone && kind.has_status) RemoveField(out, "status");
  if (subresource != Subresource::kStatus) return out;
  std::erase_if(out.fields, [](const NodeField& field) {
    return field.name != "apiVersion" && field.name != "kind" && field.name != "metadata" &&
           field.name != "status";
  });
  Node metadata = Node::Map();
  const auto take = [&](std::string_view field) {
    if (const Node* const value = FindAt(object, {"metadata", field})) metadata.Add(field, *value);
  };
  for (const std::string_view field : {"name", "namespace", "resourceVersion", "uid"}) take(field);
  if (kind.is_labelled_with_status) {
    for (const std::string_view field : {"labels", "annotations"}) take(field);
  }
  PutField(out, "metadata", std::move(metadata));
  return out;
}

// An applied Scale as fields of the object behind it.
Node WantedOfScale(const Kind& kind, const Node& live, const Node& scale) {
  Node out = Node::Map();
  out.Add("apiVersion", Node::String(kind.resource.ApiVersion()));
  out.Add("kind", Node::String(kind.resource.kind));
  SetAt(out, {"metadata", "name"}, Node::String(KeyOf(live).name));
  if (FindAt(scale, {"spec", "replicas"}) != nullptr) SetReplicas(WantedReplicas(scale), out);
  return out;
}

std::vector<ApiCause> CausesOf(const std::vector<FieldConflict>& conflicts) {
  std::vector<ApiCause> causes;
  for (const FieldConflict& conflict : conflicts) {
    causes.push_back({"FieldManagerConflict", ToText(conflict.path),
                      "conflict with \"" + conflict.manager.name + "\""});
  }
  return causes;
}

ApiResult<Node> ApplyScale(Session& session, const Kind& kind, const Node& live, const Node& scale,
                           const FieldManager& manager, const ApplyOptions& options) {
  if (std::optional<ApiError> error = CheckType("autoscaling/v1", "Scale", scale, {})) {
    return *std::move(error);
  }
  if (kind.schema != nullptr) return NoApplyOfScale(kind.resource);
  const std::string name = KeyOf(live).name;
  if (const auto why = WhyNotTyped(scale, TypeCursor(&ScaleSchema()))) {
    return NotTyped({"autoscaling", "v1", "", "Scale", true}, name, *why);
  }
  if (std::optional<ApiError> error =
          CheckIdentity(kind, live, scale, Subresource::kScale, Verb::kApply)) {
    return *std::move(error);
  }
  Applied applied = ApplyFields(live, ReadManagedFields(live), manager,
                                WantedOfScale(kind, live, scale), kind.types());
  if (!applied.conflicts.empty() && !options.force) {
    return FieldConflicts(CausesOf(applied.conflicts));
  }
  // If no manager sets a count any more, it is removed.
  const int64_t replicas = WantedReplicas(applied.object);
  return Rescale(session, kind, live, std::move(applied.object), replicas, manager, Verb::kApply,
                 options.write.dry_run, applied.ownership);
}

}  // namespace

ApiResult<Node> CreateObject(Session& session, const Kind& kind, const Node& object,
                             const FieldManager& manager, const WriteOptions& options) {
  const Reading reading{options.strict, false};
  if (std::optional<ApiError> error = CheckType(kind, object, reading)) return *std::move(error);
  ApiResult<Node> next = Conform(kind, object, reading);
  if (!next.ok()) return next;
  const ApiResult<std::string> version = WantedVersion(*next);
  if (!version.ok()) return version.error();
  if (!version->empty()) return HasVersionAlready();
  return Insert(session, kind, *std::move(next), manager, options.dry_run, std::nullopt);
}

ApiResult<Node> UpdateObject(Session& session, const Kind& kind, const Node& object,
                             const FieldManager& manager, const WriteOptions& options) {
  if (std::optional<ApiError> error = CheckSubresource(kind, manager.subresource)) {
    return *std::move(error);
  }
  const ObjectKey key = KeyOf(object);
  const SharedObject live = session.tables.Find(kind, key);
  if (live == nullptr) return NoSuchObject(kind.resource, key.name);
  if (manager.subresource == Subresource::kScale) {
    return ReplaceScale(session, kind, *live, object, manager, Verb::kUpdate, options);
  }
  const Reading reading = ReadingOf(Verb::kUpdate, options);
  if (std::optional<ApiError> error = CheckType(kind, object, reading)) return *std::move(error);
  ApiResult<Node> next = Conform(kind, object, reading);
  if (!next.ok()) return next;
  const ApiResult<std::string> version = WantedVersion(*next);
  if (!version.ok()) return version.error();
  if (kind.needs_version && version->empty()) {
    return VersionIsMissing(kind.resource, key.name);
  }
  return Replace(session, kind, *live, *std::move(next), manager, Verb::kUpdate, options.dry_run,
                 std::nullopt);
}

ApiResult<Node> PatchObject(Session& session, const Kind& kind, const ObjectKey& key,
                            PatchKind patch_kind, const Node& patch, const FieldManager& manager,
                            const WriteOptions& options) {
  if (std::optional<ApiError> error = CheckSubresource(kind, manager.subresource)) {
    return *std::move(error);
  }
  const SharedObject live = session.tables.Find(kind, key);
  if (live == nullptr) return NoSuchObject(kind.resource, key.name);
  const bool is_scale = manager.subresource == Subresource::kScale;
  Node next = is_scale ? ScaleOf(kind, *live) : *live;
  if (patch_kind == PatchKind::kMerge) {
    next = MergePatch(std::move(next), patch);
  } else {
    Result<Node> patched = JsonPatch(std::move(next), patch);
    if (!patched.ok() && patched.status().code() == StatusCode::kInvalidArgument) {
      return BadRequest(patched.status().message());
    }
    if (!patched.ok()) {
      return InvalidObject(kind.resource, key.name,
                           {{"FieldValueInvalid", "patch", patched.status().message()}});
    }
    next = *std::move(patched);
  }
  if (is_scale) {
    return ReplaceScale(session, kind, *live, std::move(next), manager, Verb::kPatch, options);
  }
  const Reading reading = ReadingOf(Verb::kPatch, options);
  if (std::optional<ApiError> error = CheckType(kind, next, reading)) return *std::move(error);
  ApiResult<Node> conforming = Conform(kind, std::move(next), reading);
  if (!conforming.ok()) return conforming;
  return Replace(session, kind, *live, *std::move(conforming), manager, Verb::kPatch,
                 options.dry_run, std::nullopt);
}

ApiResult<Node> ApplyObject(Session& session, const Kind& kind, const Node& object,
                            const FieldManager& manager, const ApplyOptions& options) {
  if (std::optional<ApiError> error = CheckSubresource(kind, manager.subresource)) {
    return *std::move(error);
  }
  const ObjectKey key = KeyOf(object);
  const SharedObject live = session.tables.Find(kind, key);
  if (live == nullptr && manager.subresource != Subresource::kNone) {
    return NoSuchObject(kind.resource, key.name);
  }
  if (FindAt(object, {"metadata", "managedFields"}) != nullptr) {
    return BadRequest("metadata.managedFields must not be set in what is applied");
  }
  if (manager.subresource == Subresource::kScale) {
    return ApplyScale(session, kind, *live, object, manager, options);
  }
  if (std::optional<ApiError> error = CheckType(kind, object, {})) return *std::move(error);
  if (const auto why = WhyNotTyped(object, kind.types())) {
    return NotTyped(kind.resource, key.name, *why);
  }
  const Node before = live != nullptr ? *live : Node::Map();
  ApiResult<Node> wanted = Conform(kind, WantedPart(kind, manager.subresource, object),
                                   ReadingOf(Verb::kApply, options.write));
  if (!wanted.ok()) return wanted;

  Applied applied = ApplyFields(before, ReadManagedFields(before), manager, *wanted, kind.types());
  if (!applied.conflicts.empty() && !options.force) {
    return FieldConflicts(CausesOf(applied.conflicts));
  }
  if (live != nullptr) {
    return Replace(session, kind, *live, std::move(applied.object), manager, Verb::kApply,
                   options.write.dry_run, applied.ownership);
  }
  if (!UidOf(object).empty()) {
    return VersionConflict(kind.resource, key.name,
                           "uid mismatch: the object that was meant is not there");
  }
  // The value of the version does not matter here, but it must be valid.
  if (ApiResult<std::string> version = WantedVersion(object); !version.ok()) {
    return std::move(version).error();
  }
  return Insert(session, kind, std::move(applied.object), manager, options.write.dry_run,
                applied.ownership);
}

ApiResult<Node> DeleteObject(Session& session, const Kind& kind, const ObjectKey& key,
                             const DeleteOptions& options) {
  const SharedObject live = session.tables.Find(kind, key);
  if (live == nullptr) return NoSuchObject(kind.resource, key.name);
  if (options.uid && *options.uid != UidOf(*live)) {
    return VersionConflict(kind.resource, key.name,
                           "precondition failed: its uid is " + std::string(UidOf(*live)));
  }
  if (options.resource_version && *options.resource_version != ResourceVersionOf(*live)) {
    return VersionConflict(
        kind.resource, key.name,
        "precondition failed: its resourceVersion is " + std::string(ResourceVersionOf(*live)));
  }
  const Node gone = DeletedStatus(kind.resource, key.name, UidOf(*live));
  if (options.dry_run) return gone;
  const SharedObject marked =
      GarbageCollector(session.tables, session.now)
          .Delete({&kind, key}, options.propagation, options.grace_period_seconds);
  if (marked == nullptr) return gone;
  return *marked;
}

}  // namespace janus::control
