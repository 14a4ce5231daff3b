#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "common/clock.h"
#include "common/status.h"
#include "operator/api/tree.h"
#include "operator/kube/error.h"
#include "operator/kube/object.h"
#include "operator/kube/rate_limit.h"
#include "operator/kube/resource.h"

namespace janus::control {

// What an Event is about.
struct ObjectReference {
  std::string api_version;
  std::string kind;
  ObjectKey key;
  std::string uid;

  friend auto operator<=>(const ObjectReference&, const ObjectReference&) = default;
};
ObjectReference ReferenceTo(const Node& object);

const Resource& EventResource();

enum class EventType { kNormal, kWarning };

// Something that a reader of an object should know. The same fields again count as a repeat, so put
// numbers that change each time into status or a metric.
struct Happening {
  ObjectReference regarding;
  EventType type = EventType::kNormal;
  std::string reason;  // why, for programs: "ScaledUp"; 1 to 128 bytes
  std::string action;  // what was done or tried, for programs: "Scale"; 1 to 128 bytes
  std::string note;    // for people; cut to 1,024 bytes, bad UTF-8 replaced

  friend auto operator<=>(const Happening&, const Happening&) = default;
};

struct EventBookOptions {
  std::string controller;  // a qualified name: "serving.janus.dev/operator"
  std::string instance;    // this process: the pod's name; 1 to 128 bytes
  size_t capacity = 1000;  // series remembered, including unwritten ones; >= 1
  // Rate limit for new Events (not repeats) of one object: a burst, then this many per second, as
  // in client-go.
  double object_burst = 25;
  double object_per_second = 1.0 / 300;
  // Rate limit for all writes together.
  double burst = 20;
  double per_second = 5;
  // Shortest time between two writes of one series; a write includes all repeats since the last.
  Seconds series_period{60};
  // A repeat after more than this time starts a new Event.
  Seconds series_end{360};
  // Retry of a failed write: pause, doubled up to the longest, at most max_attempts times.
  Seconds first_pause{1};
  Seconds longest_pause{60};
  int max_attempts = 8;
  uint32_t seed = 0;  // seed for pauses (RandomOf)
};

// Totals since the start.
struct EventStatistics {
  int64_t recorded = 0;         // calls of Record
  int64_t repeats = 0;          // those counted into an existing series
  int64_t created = 0;          // Events created
  int64_t patched = 0;          // series updated
  int64_t dropped_limited = 0;  // dropped: too many about one object
  int64_t dropped_full = 0;     // dropped: too many unwritten
  int64_t dropped_failed = 0;   // Events or repeats dropped after failures
  Status last_error;            // of the last write; OK: it succeeded
};

// Decides which Events (events.k8s.io/v1) to write, and when. The caller passes the time; no I/O.
//
// The first occurrence creates an Event. A repeat within series_end patches series.count and
// series.lastObservedTime of that Event. (Kubernetes enhancement 383, "Redesign Event API"; bounds:
// the API server's validation of events.)
//
// Invariants:
// (1) A series has at most one write in progress. The next write includes the repeats meanwhile.
// (2) The name of an Event is the object's name and a hash of the occurrence, the reporting
//     controller and the first time. If a create succeeded but its reply was lost, the retry gets
//     AlreadyExists.
// (3) At most `capacity` series and as many objects' limits are remembered. A fully written series
//     makes room for a new one. If all have unwritten parts, the new one is dropped.
// (4) A fully written series keeps only its numbers until it ends. A service creates about twenty
//     Events, and nearly none of them repeats.
// Thread-compatible.
class EventBook {
 public:
  EventBook(EventBookOptions options, MonotonicTime now);

  void Record(Happening happening, MonotonicTime now, WallTime wall);

  // A write that is due. Call Finish when it ends.
  struct Write {
    uint64_t series = 0;  // of that series
    ObjectKey event;
    bool is_create = true;
    Node body;          // the Event, or the merge patch
    int64_t count = 0;  // the series' count that it writes
  };
  std::optional<Write> TakeWrite(MonotonicTime now);
  // `error`: null on success.
  void Finish(const Write& write, const ApiError* error, MonotonicTime now);

  // Makes all unwritten Events due now, before shutdown.
  void Hasten(MonotonicTime now);

  // When TakeWrite may have a write; nothing: only after another Record or Finish.
  std::optional<MonotonicTime> NextDeadline() const;
  // Series with an unwritten part.
  size_t depth() const;
  const EventStatistics& statistics() const { return statistics_; }

 private:
  struct Series {
    std::unique_ptr<Happening> happening;  // null: fully written
    WallTime first;
    WallTime last;
    MonotonicTime last_at;
    int64_t count = 1;
    int64_t written = 0;  // the count the server knows; 0: no Event yet
    MonotonicTime written_at;
    std::optional<MonotonicTime> due;  // nothing: fully written, or a write is in progress
    bool is_writing = false;
    int attempts = 0;  // failed in a row

    bool IsWritten() const { return happening == nullptr; }
  };
  struct ObjectLimit {
    RateLimit limit;
    MonotonicTime last_used;
  };
  using SeriesMap = std::map<uint64_t, Series>;  // by a hash of the occurrence

  bool HasEnded(const Series& series, MonotonicTime now) const;
  bool MakeRoom();
  bool IsWithinLimit(const ObjectReference& object, MonotonicTime now);
  ObjectKey NameOf(const Happening& happening, WallTime first) const;
  Node EventOf(const ObjectKey& event, const Series& series) const;
  SeriesMap::iterator NextDue();

  const EventBookOptions options_;
  std::minstd_rand random_;
  SeriesMap series_;
  std::map<uint64_t, ObjectLimit> limits_;  // by a hash of the object
  RateLimit limit_;
  MonotonicTime turn_;  // of the next write
  EventStatistics statistics_;
};

}  // namespace janus::control
