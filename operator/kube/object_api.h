#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/function_ref.h"
#include "operator/api/field_filter.h"
#include "operator/api/tree.h"
#include "operator/kube/error.h"
#include "operator/kube/object.h"
#include "operator/kube/resource.h"

namespace janus::control {

// How long a call may take in all, attempts and pauses between them included, and what may end it
// sooner. A call that is ended sooner fails with Cancelled; late, with DeadlineExceeded; for a
// write `outcome_unknown` says whether it may have been done nevertheless.
struct CallLimits {
  Seconds timeout{30};
  std::stop_token stop = {};
};

// Which objects of a resource.
struct Selection {
  std::string namespace_;      // empty: all namespaces
  std::string label_selector;  // as kubectl's -l; empty: all
  std::string field_selector;
};

struct ListOptions {
  Selection selection;
  int64_t limit = 500;         // objects a reply may hold; 0: no limit
  std::string continue_token;  // of the reply before; empty: from the start
  // Empty: the newest state, read through etcd. "0": whatever the server's cache holds, which may
  // be older than what was seen before. Anything else: not older than that.
  std::string resource_version;
  // The caller uses no other fields of the items: the rest may be left out. It outlives the call.
  const FieldFilter* keep = nullptr;
};

struct ObjectList {
  std::vector<Node> items;       // with apiVersion and kind, which the server leaves out
  std::string resource_version;  // of the whole list: where a watch begins
  std::string continue_token;    // empty: that was all; else there may be more, or nothing
};

struct WriteOptions {
  bool dry_run = false;  // judged and defaulted, not stored
  bool strict = true;    // fields the kind does not have are refused, not dropped
};

struct ApplyOptions {
  WriteOptions write;
  bool force = true;  // take fields over from other managers; else a conflict is an error
};

enum class PatchKind {
  kMerge,  // RFC 7386
  kJson,   // RFC 6902
};

enum class Propagation { kBackground, kForeground, kOrphan };

struct DeleteOptions {
  // The object that was meant: another one of the same name, or a newer version, is a conflict
  // (Aborted) and stays.
  std::optional<std::string> uid;
  std::optional<std::string> resource_version;
  std::optional<int64_t> grace_period_seconds;
  Propagation propagation = Propagation::kBackground;
  bool dry_run = false;
};

enum class WatchEventType { kAdded, kModified, kDeleted, kBookmark };

struct WatchEvent {
  WatchEventType type = WatchEventType::kAdded;
  // kDeleted: its last state. kBookmark: nothing but kind and metadata.resourceVersion.
  Node object;
  // Of a kBookmark: what WatchOptions::initial_events asked for has all been told.
  bool ends_initial_events = false;
};

struct WatchOptions {
  Selection selection;
  // What the list or the last event said; not empty but with initial_events, where it means the
  // newest state, and any other one that is not older than that.
  std::string resource_version;
  // Instead of a list: first every object that is there comes as kAdded, in no order, and what
  // happens meanwhile; then a bookmark that says so; then the watch goes on from its version.
  // Before that bookmark no version of an event is one to resume from. InvalidArgument: the server
  // does not do that (Kubernetes API concepts, "Streaming lists").
  bool initial_events = false;
  // After this the server ends the watch, so that watches spread over its replicas.
  Seconds timeout{300};
  // As ListOptions has it, with metadata.resourceVersion in it.
  const FieldFilter* keep = nullptr;
};

enum class WatchEnd { kServer, kConsumer, kSilence };

// Objects of a cluster, as trees of JSON: what a real API server does over HTTP (kube/client.h),
// and whatever else keeps to its rules. Thread-safe; calls block.
//
// Errors are the server's (error.h). Trees are handed over whole and unjudged: `object` must carry
// apiVersion, kind and metadata.name, and a namespace if its resource has them.
class ObjectApi {
 public:
  virtual ~ObjectApi() = default;

  virtual ApiResult<Node> Get(const Resource& resource, const ObjectKey& key,
                              Subresource subresource, const CallLimits& limits) = 0;

  // One chunk; ask on with its continue_token and the same selection. OutOfRange: the token is too
  // old, begin again.
  virtual ApiResult<ObjectList> List(const Resource& resource, const ListOptions& options,
                                     const CallLimits& limits) = 0;

  // AlreadyExists: one of that name is there. metadata.generateName may stand for a name.
  virtual ApiResult<Node> Create(const Resource& resource, const Node& object,
                                 const WriteOptions& options, const CallLimits& limits) = 0;

  // Replaces the object (or its status, or scale). With metadata.resourceVersion: Aborted when it
  // has changed since.
  virtual ApiResult<Node> Update(const Resource& resource, const Node& object,
                                 Subresource subresource, const WriteOptions& options,
                                 const CallLimits& limits) = 0;

  // Server-side apply under our field manager: what we applied before and leave out now is removed.
  virtual ApiResult<Node> Apply(const Resource& resource, const Node& object,
                                Subresource subresource, const ApplyOptions& options,
                                const CallLimits& limits) = 0;

  virtual ApiResult<Node> Patch(const Resource& resource, const ObjectKey& key, PatchKind kind,
                                const Node& patch, Subresource subresource,
                                const WriteOptions& options, const CallLimits& limits) = 0;

  // The object as it is while it goes (finalizers, grace), or a v1 Status when it has gone.
  virtual ApiResult<Node> Delete(const Resource& resource, const ObjectKey& key,
                                 const DeleteOptions& options, const CallLimits& limits) = 0;

  // Hands over what happens after `resource_version`, in order, bookmarks included, on the caller's
  // thread. Returns when `deliver` says false (kConsumer), when the server ends the watch as it
  // does after a while (kServer: watch on from the last resourceVersion; so ends one, too, whose
  // connection breaks between two events, as proxies do with what is idle for them), when one that
  // the server had taken told nothing for so long that the connection may be dead (kSilence: the
  // same; where nothing happens and no bookmarks come, it is none), or with an error:
  // OutOfRange (list anew), Cancelled by `stop`, Unavailable and the like (watch on after a pause).
  virtual ApiResult<WatchEnd> Watch(const Resource& resource, const WatchOptions& options,
                                    FunctionRef<bool(WatchEvent)> deliver,
                                    const std::stop_token& stop) = 0;
};

}  // namespace janus::control
