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

// Time limit of a call, including its retries and pauses, and a token that stops it earlier. The
// call then fails with DeadlineExceeded or Cancelled. For a write, `outcome_unknown` says whether
// the server may have executed it.
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
  int64_t limit = 500;         // most objects in a reply; 0: no limit
  std::string continue_token;  // from the previous reply; empty: from the start
  // Empty: the newest state, read through etcd. "0": the state of the server's cache, which may be
  // older than what was seen before. Otherwise: a state at least as new as this version.
  std::string resource_version;
  // Fields of the items that the caller uses; others may be left out. Outlives the call.
  const FieldFilter* keep = nullptr;
};

struct ObjectList {
  std::vector<Node> items;       // each with apiVersion and kind, which the server omits
  std::string resource_version;  // of the whole list; a watch starts here
  std::string continue_token;    // empty: the list is complete; otherwise there may be more
};

struct WriteOptions {
  bool dry_run = false;  // validate and default, do not store
  bool strict = true;    // refuse unknown fields instead of dropping them
};

struct ApplyOptions {
  WriteOptions write;
  bool force = true;  // take fields over from other managers; false: a conflict is an error
};

enum class PatchKind {
  kMerge,  // RFC 7386
  kJson,   // RFC 6902
};

enum class Propagation { kBackground, kForeground, kOrphan };

struct DeleteOptions {
  // Deletes only this object: if the object of that name has another UID or a newer version, the
  // call fails with Aborted.
  std::optional<std::string> uid;
  std::optional<std::string> resource_version;
  std::optional<int64_t> grace_period_seconds;
  Propagation propagation = Propagation::kBackground;
  bool dry_run = false;
};

enum class WatchEventType { kAdded, kModified, kDeleted, kBookmark };

struct WatchEvent {
  WatchEventType type = WatchEventType::kAdded;
  // kDeleted: its last state. kBookmark: only kind and metadata.resourceVersion.
  Node object;
  // Of a kBookmark: all initial events have been sent (WatchOptions::initial_events).
  bool ends_initial_events = false;
};

struct WatchOptions {
  Selection selection;
  // From the list or the last event. Must not be empty, except with initial_events: there empty
  // means the newest state, and a version means a state at least as new.
  std::string resource_version;
  // Replaces the list. The watch first sends every existing object as kAdded, in any order, with
  // the changes meanwhile. Then it sends a bookmark that marks the end, and continues from its
  // version. Do not resume from an event before that bookmark. InvalidArgument: the server does not
  // support this (Kubernetes API concepts, "Streaming lists").
  bool initial_events = false;
  // After this time the server ends the watch. This spreads watches over its replicas.
  Seconds timeout{300};
  // As in ListOptions; includes metadata.resourceVersion.
  const FieldFilter* keep = nullptr;
};

enum class WatchEnd { kServer, kConsumer, kSilence };

// Access to the objects of a cluster, as JSON trees. Implemented by a client of a real API server
// (kube/client.h) and by anything with the same behavior. Thread-safe; calls block.
//
// Errors are the server's (error.h). Trees are passed on without checks: `object` must carry
// apiVersion, kind and metadata.name, and a namespace if its resource is namespaced.
class ObjectApi {
 public:
  virtual ~ObjectApi() = default;

  virtual ApiResult<Node> Get(const Resource& resource, const ObjectKey& key,
                              Subresource subresource, const CallLimits& limits) = 0;

  // Reads one page. For the next, pass its continue_token and the same selection. OutOfRange: the
  // token is too old, list again from the start.
  virtual ApiResult<ObjectList> List(const Resource& resource, const ListOptions& options,
                                     const CallLimits& limits) = 0;

  // AlreadyExists: an object of that name exists. metadata.generateName may replace the name.
  virtual ApiResult<Node> Create(const Resource& resource, const Node& object,
                                 const WriteOptions& options, const CallLimits& limits) = 0;

  // Replaces the object (or its status, or scale). With metadata.resourceVersion: Aborted if the
  // object has changed since.
  virtual ApiResult<Node> Update(const Resource& resource, const Node& object,
                                 Subresource subresource, const WriteOptions& options,
                                 const CallLimits& limits) = 0;

  // Server-side apply as our field manager: removes what we applied before and leave out now.
  virtual ApiResult<Node> Apply(const Resource& resource, const Node& object,
                                Subresource subresource, const ApplyOptions& options,
                                const CallLimits& limits) = 0;

  virtual ApiResult<Node> Patch(const Resource& resource, const ObjectKey& key, PatchKind kind,
                                const Node& patch, Subresource subresource,
                                const WriteOptions& options, const CallLimits& limits) = 0;

  // Returns the object if it stays for a while (finalizers, grace period), or a v1 Status if it is
  // gone.
  virtual ApiResult<Node> Delete(const Resource& resource, const ObjectKey& key,
                                 const DeleteOptions& options, const CallLimits& limits) = 0;

  // Delivers changes after `resource_version` in order, with bookmarks, on the caller's thread.
  // Ends:
  // - kConsumer: `deliver` returned false.
  // - kServer: the server ended the watch, as it does after a while, or the connection broke
  //   between two events, as idle proxies do. Watch again from the last resourceVersion.
  // - kSilence: an open watch received nothing for so long that its connection may be dead.
  //   Continue as after kServer. Servers without bookmarks cause this too.
  // - an error: OutOfRange (list again), Cancelled by `stop`, Unavailable etc. (watch again later).
  virtual ApiResult<WatchEnd> Watch(const Resource& resource, const WatchOptions& options,
                                    FunctionRef<bool(WatchEvent)> deliver,
                                    const std::stop_token& stop) = 0;
};

}  // namespace janus::control
