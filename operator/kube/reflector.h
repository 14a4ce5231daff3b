#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <stop_token>
#include <string>

#include "common/clock.h"
#include "common/function_ref.h"
#include "common/mutex.h"
#include "common/status.h"
#include "operator/kube/metrics.h"
#include "operator/kube/object_api.h"
#include "operator/kube/object_store.h"
#include "operator/kube/timeline.h"

namespace janus::control {

struct ReflectorOptions {
  Selection selection;
  int64_t page_size = 500;   // most objects in a page of a list; >= 1
  Seconds page_timeout{60};  // of a page's call, including retries
  // Requested length of a watch: a random time from this to twice this. It spreads the watches of a
  // process over time and over the server's replicas.
  Seconds watch_timeout{300};
  // Fields of each object that are parsed, besides its resourceVersion; at least those that the
  // store's transform keeps. Nothing: all, which costs time for fields that the transform drops.
  std::optional<FieldFilter> keep;
  // Pause after a failed call, doubled after each further failure without progress, up to the
  // longest. client-go's defaults.
  Seconds first_pause{0.8};
  Seconds longest_pause{30};
  // After this many watches in a row that failed, or ended at once without an event, list again:
  // their resourceVersion may no longer exist (as after etcd was restored from a backup). >= 1
  int max_fruitless_watches = 5;
  uint32_t seed = 0;                    // of pauses and watch lengths (RandomOf)
  ReflectorMetrics* metrics = nullptr;  // outlives the reflector; null: none
  // Called on the thread of Run after each complete list; may be empty.
  std::function<void()> on_listed = {};
};

// For metrics; totals since the start.
struct ReflectorStatistics {
  int64_t pages = 0;    // of lists, received
  int64_t lists = 0;    // complete, including streamed ones
  int64_t streams = 0;  // lists received as a watch's initial events
  int64_t relists = 0;  // started after an earlier complete one
  int64_t watches = 0;  // started
  int64_t events = 0;   // including initial ones and bookmarks
  int64_t bookmarks = 0;
  int64_t unchanged = 0;         // changed nothing that is kept
  int64_t deltas = 0;            // delivered
  int64_t failures = 0;          // of lists and watches
  Status last_error;             // of the last call; OK: it succeeded
  std::string resource_version;  // of the store's state; empty: none yet
  // When the server last sent a page, event or bookmark. Servers send a bookmark about once a
  // minute, so a much older time means that the watch does not work.
  std::optional<MonotonicTime> told_at;
};

// Keeps an ObjectStore up to date with a resource of an API. It lists the objects and watches from
// the list's resourceVersion. It resumes from the last event or bookmark, and lists again when that
// version is too old.
//
// It requests a list as a stream: the initial events of the watch that then continues. So neither
// the server nor we hold more than one object at a time. If streaming does not work, it lists in
// pages.
//
// How each ending is handled:
//   initial events refused (400, 422),   list in pages, at once; from now on
//     or not marked as complete when
//     the server sends a bookmark
//   initial events that end or fail in   pause, this list in pages
//     any other way
//   a watch ended by the server, silent  watch again: at once, or after a pause if it lasted
//     after it was accepted, or broken   less than a second
//     between two events
//   broken, no reply, 5xx, 401, 403, 429 pause (at least Retry-After), watch again; but see
//                                        max_fruitless_watches
//   410, or a delete of an object that   list again: at once if something was received since
//     is not in the store                the last list, otherwise after a pause
//   an invalid event, any other error    pause, list again: a new watch would get the same
//   a page of a list broken, 5xx, ...    pause, the same page again
//   a page above the size limit          pause, the same page with half as many objects; pages
//                                        keep this size
//   410, any other error of a page       pause, the list again from its first page
// (Kubernetes API concepts: "Efficient detection of changes", "Retrieving large results sets in
// chunks".) Lists request the newest state: a server's cache could hold an older state than ours.
//
// Deltas are delivered on the thread of Run, one after the other. While `deliver` works, no further
// event is read and nothing is queued here. So it should only pass on a key. Run is confined to one
// thread; the rest is thread-safe.
class Reflector {
 public:
  using Deliver = std::function<void(const Delta&)>;

  // `api`, `store` and `timeline` outlive this. Other writers of the store must use other
  // namespaces.
  Reflector(ObjectApi& api, Resource resource, ReflectorOptions options, ObjectStore& store,
            Deliver deliver, const Timeline& timeline);

  // Until `stop`.
  void Run(const std::stop_token& stop);

  // The store has been complete at least once: an object that is not in it does not exist.
  bool HasSynced() const;
  ReflectorStatistics statistics() const;

 private:
  enum class Next { kList, kWatch };
  enum class Begin { kInitialEvents, kVersion };

  Next List(const std::stop_token& stop);
  Next ListInPages(const std::stop_token& stop);
  void Listed(std::string version, bool is_stream);
  Next Watch(Begin begin, const std::stop_token& stop);
  Next AfterBrokenStream(const ApiError& error, const std::stop_token& stop);
  Next AfterError(const ApiError& error, bool has_told, const std::stop_token& stop);
  Next AfterFruitlessWatch(const ApiError* error, const std::stop_token& stop);
  ObjectStore::Verdict TakeEvent(WatchEvent event, Begin when);
  void Pause(const ApiError* error, const std::stop_token& stop);
  void Failed(Status error);
  // Calls `change` with the statistics, then publishes them.
  void Count(FunctionRef<void(ReflectorStatistics&)> change);
  void DeliverDelta(const Delta& delta);

  ObjectApi& api_;
  const Resource resource_;
  const ReflectorOptions options_;
  const std::optional<FieldFilter> keep_;  // options_'s, with the resourceVersion
  ObjectStore& store_;
  const Deliver deliver_;
  const Timeline& timeline_;

  // Used by the thread of Run only.
  std::minstd_rand random_;
  bool may_stream_ = true;      // the server has not refused streaming
  bool is_pages_turn_ = false;  // the last stream broke
  int64_t page_size_;           // reduced when pages exceed the size limit
  std::string version_;         // where the next watch starts
  int failures_ = 0;            // in a row
  int fruitless_ = 0;           // watches in a row
  bool has_told_since_list_ = false;

  mutable Mutex mu_;
  ReflectorStatistics statistics_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::control
