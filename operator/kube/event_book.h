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

// Something that a reader of an object should know of. An Event with the same fields is the same
// thing happening again: put numbers that always differ into status or a metric, not here.
struct Happening {
  ObjectReference regarding;
  EventType type = EventType::kNormal;
  std::string reason;  // why, for machines: "ScaledUp"; 1 to 128 bytes
  std::string action;  // what was done or tried, for machines: "Scale"; 1 to 128 bytes
  std::string note;    // for people; of more than 1,024 bytes the rest is cut, bad UTF-8 replaced

  friend auto operator<=>(const Happening&, const Happening&) = default;
};

struct EventBookOptions {
  std::string controller;  // a qualified name: "serving.janus.dev/operator"
  std::string instance;    // this process: the pod's name; 1 to 128 bytes
  size_t capacity = 1000;  // series known at a time, those not written yet among them; >= 1
  // Events of one object that are no repeats: a burst, then so many a second. client-go's figures.
  double object_burst = 25;
  double object_per_second = 1.0 / 300;
  // Writes of all together.
  double burst = 20;
  double per_second = 5;
  // Repeats are written no more often than this, all that came meanwhile at once.
  Seconds series_period{60};
  // What happens again after more than this is a new Event.
  Seconds series_end{360};
  // A write that failed is tried again after this, doubled up to the longest, so often.
  Seconds first_pause{1};
  Seconds longest_pause{60};
  int max_attempts = 8;
  uint32_t seed = 0;  // of pauses: RandomOf
};

// Counts since the beginning.
struct EventStatistics {
  int64_t recorded = 0;         // calls of Record
  int64_t repeats = 0;          // of them, those counted into a series
  int64_t created = 0;          // Events made
  int64_t patched = 0;          // series written on
  int64_t dropped_limited = 0;  // recorded but not taken: too many about one object
  int64_t dropped_full = 0;     // recorded but not taken: too many that are not written yet
  int64_t dropped_failed = 0;   // Events or repeats given up after failures
  Status last_error;            // of the last write; OK: it went well
};

// Which Events (events.k8s.io/v1) are to be written, and when. Told the time; no I/O.
//
// The first time something happens an Event is created; when the same happens again within
// series_end, series.count and series.lastObservedTime of that Event are patched. (Kubernetes
// enhancement 383, "Redesign Event API"; bounds: the API server's validation of events.)
//
// Invariants:
// (1) Of a series one write at most is under way, and its repeats are written with the next.
// (2) An Event's name is the object's and a hash of what happened, the controller that reports it,
//     and its first time: a create that was done though its reply was lost meets its own name,
//     AlreadyExists.
// (3) No more than `capacity` series, and as many objects' limits, are remembered. A series that is
//     wholly written makes room for a new one; one that is not stays, and the new one is dropped.
// (4) Of a series that is wholly written only its numbers are remembered, until it ends: services
//     come with a score of Events each, nearly all of which never repeat.
// Thread-compatible.
class EventBook {
 public:
  EventBook(EventBookOptions options, MonotonicTime now);

  void Record(Happening happening, MonotonicTime now, WallTime wall);

  // A write that is due; Finish is owed for it.
  struct Write {
    uint64_t series = 0;  // whose
    ObjectKey event;
    bool is_create = true;
    Node body;          // the Event, or the merge patch
    int64_t count = 0;  // what it says of the series
  };
  std::optional<Write> TakeWrite(MonotonicTime now);
  // `error`: null when it was done.
  void Finish(const Write& write, const ApiError* error, MonotonicTime now);

  // Makes everything that is not written yet due now, before the end.
  void Hasten(MonotonicTime now);

  // When TakeWrite may have something; nothing: when Record or Finish is called next.
  std::optional<MonotonicTime> NextDeadline() const;
  // Series with something not written yet.
  size_t depth() const;
  const EventStatistics& statistics() const { return statistics_; }

 private:
  struct Series {
    std::unique_ptr<Happening> happening;  // null: wholly written
    WallTime first;
    WallTime last;
    MonotonicTime last_at;
    int64_t count = 1;
    int64_t written = 0;  // the count the server knows; 0: no Event yet
    MonotonicTime written_at;
    std::optional<MonotonicTime> due;  // nothing: wholly written, or a write is under way
    bool is_writing = false;
    int attempts = 0;  // failed in a row

    bool IsWritten() const { return happening == nullptr; }
  };
  struct ObjectLimit {
    RateLimit limit;
    MonotonicTime last_used;
  };
  using SeriesMap = std::map<uint64_t, Series>;  // by a hash of what happened

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
  MonotonicTime turn_;  // the next write's
  EventStatistics statistics_;
};

}  // namespace janus::control
