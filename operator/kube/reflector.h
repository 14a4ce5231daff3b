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
  int64_t page_size = 500;   // objects a list's page may hold; >= 1
  Seconds page_timeout{60};  // of a page's call, its own attempts included
  // The server is asked to end a watch after this to twice this, so that the watches of a process
  // come apart and spread over the server's replicas.
  Seconds watch_timeout{300};
  // What of each object is read at all, beside its resourceVersion; at least what the store's
  // transform keeps. Nothing: all of it, at the cost of building it for the transform to drop.
  std::optional<FieldFilter> keep;
  // After a failed call; doubled with each further one without anything gained in between, up to
  // the longest. client-go's defaults.
  Seconds first_pause{0.8};
  Seconds longest_pause{30};
  // So many watches in a row that the server answered with an error, or ended at once with nothing
  // told, are taken to mean that their resourceVersion leads nowhere (as after etcd was restored
  // from a backup): list again. >= 1
  int max_fruitless_watches = 5;
  uint32_t seed = 0;                    // of pauses and of watches' times: RandomOf
  ReflectorMetrics* metrics = nullptr;  // outlives the reflector; null: none
  // Called on the thread of Run each time the store has been told all of a list; may be empty.
  std::function<void()> on_listed = {};
};

// For metrics; counts since the beginning.
struct ReflectorStatistics {
  int64_t pages = 0;    // of lists, received
  int64_t lists = 0;    // complete, streamed ones among them
  int64_t streams = 0;  // lists that came as a watch's initial events
  int64_t relists = 0;  // begun although one was complete before
  int64_t watches = 0;  // begun
  int64_t events = 0;   // initial ones and bookmarks among them
  int64_t bookmarks = 0;
  int64_t unchanged = 0;         // events that changed nothing that is kept
  int64_t deltas = 0;            // delivered
  int64_t failures = 0;          // of lists and watches
  Status last_error;             // of the last call; OK: it went well
  std::string resource_version;  // the store's state; empty: none yet
  // When the server last told something, by a list, an event or a bookmark: servers send one about
  // once a minute, so that what is much older speaks of a watch that does not come through.
  std::optional<MonotonicTime> told_at;
};

// Keeps an ObjectStore like the resource of an API: has it listed to it, watches from the list's
// resourceVersion, resumes from the last event's or bookmark's, lists again when that is too old.
//
// A list is asked for as a stream, the initial events of the watch that then goes on: neither the
// server nor we ever hold more of it than an object. Where that does not work, in pages.
//
// What each ending leads to:
//   initial events that are refused      the list in pages, at once; this one and all to come
//     (400, 422), or not told the end of
//     when the server sends a bookmark
//   that end, or fail, in any other way  pause, this list in pages
//   the server's end of a watch, or its  watch on: at once, after a pause when it lasted no second
//     silence after it took the watch,
//     or a break between two events
//   broken, no answer, 5xx, 401, 403, 429 pause (a Retry-After is kept to), watch on; but see
//                                        max_fruitless_watches
//   410, or a delete of what was never   list again: at once if something came since the last
//   told of                              list, else after a pause
//   what is no event, any other error    pause, list again: the same would come again
//   a list's page broken, 5xx, ...       pause, the same page again
//   a page of more bytes than are taken  pause, the same with half as many objects, from now on
//   410, any other error of a page       pause, the list again from its first page
// (Kubernetes API concepts: "Efficient detection of changes", "Retrieving large results sets in
// chunks".) Lists ask for the newest state: one from a server's cache could lead back in time.
//
// Deltas are delivered on the thread of Run, one after the other; while `deliver` works no further
// event is read, so that nothing is queued here: it should hand over a key and return.
// Run is one thread's; the rest is thread-safe.
class Reflector {
 public:
  using Deliver = std::function<void(const Delta&)>;

  // `api`, `store` and `timeline` outlive this. No other writer tells the store, except
  // of other namespaces than the selection's.
  Reflector(ObjectApi& api, Resource resource, ReflectorOptions options, ObjectStore& store,
            Deliver deliver, const Timeline& timeline);

  // Until `stop`.
  void Run(const std::stop_token& stop);

  // The store has held everything once: what it lacks is not there.
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
  // Calls `change` with the statistics, and publishes them.
  void Count(FunctionRef<void(ReflectorStatistics&)> change);
  void DeliverDelta(const Delta& delta);

  ObjectApi& api_;
  const Resource resource_;
  const ReflectorOptions options_;
  const std::optional<FieldFilter> keep_;  // options_'s, with the resourceVersion
  ObjectStore& store_;
  const Deliver deliver_;
  const Timeline& timeline_;

  // The running thread's.
  std::minstd_rand random_;
  bool may_stream_ = true;      // the server has not refused to
  bool is_pages_turn_ = false;  // the last stream broke
  int64_t page_size_;           // what pages may hold in bytes sets it, up to options_'s
  std::string version_;         // where the next watch begins
  int failures_ = 0;            // in a row
  int fruitless_ = 0;           // watches in a row
  bool has_told_since_list_ = false;

  mutable Mutex mu_;
  ReflectorStatistics statistics_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::control
