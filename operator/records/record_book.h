#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/mutex.h"
#include "common/statistics.h"
#include "operator/kube/object.h"
#include "operator/records/tick_record.h"

namespace janus::control {

// What is remembered of one service.
struct ServiceRecords {
  std::string uid;
  std::string emulated;  // of timed devices, for people; empty: real ones
  std::deque<std::shared_ptr<const TickRecord>> ticks;  // oldest first
  std::shared_ptr<const PlacementRecord> placement;     // null: none yet
  // Why nothing can be decided now. Nothing: the newest decision had a world, or none is due.
  std::optional<DecisionRecord> held;
  // Decisions since this process has records of it, by action and reason.
  std::map<std::pair<std::string, std::string>, uint64_t> decided;
};

// What metrics show of a service.
struct RecordedFigures {
  ObjectKey key;
  std::map<std::pair<std::string, std::string>, uint64_t> decided;  // by action and reason
  std::optional<double> model_error;                                // of predicted steps, median
  // Experts that the busiest instance reads by the last search, before and after it.
  std::optional<std::pair<double, double>> busiest;
};

// How a step of a service's pool went, as its members have told.
struct StepRecord {
  WallTime time;                                 // of the first answer with this step
  std::shared_ptr<const Statistics> statistics;  // Statistics::traces has at least one instance
  int pool = 1;
};

// The decisions of this process, of the last kKept and at most kMost of each service. Candidates
// are kept of changes and of the newest decision only. In memory: a new leader begins with an empty
// book. Thread-safe.
class RecordBook {
 public:
  static constexpr std::chrono::hours kKept{24};
  static constexpr size_t kMost = 8640;  // a day of decisions every ten seconds

  // A service with another uid is another service of that name: its records begin anew.
  void Add(const ObjectKey& key, const std::string& uid, TickRecord record,
           const std::string& emulated);
  void Add(const ObjectKey& key, const std::string& uid, PlacementRecord record);
  // A decision without a world: a hold for lack of counters. It stands until the next Add or
  // EndHold. `emulated`: as above.
  void AddHold(const ObjectKey& key, const std::string& uid, DecisionRecord hold,
               const std::string& emulated);
  // Nothing is decided now, on purpose: the spec has the counts, or the service sleeps.
  void EndHold(const ObjectKey& key);
  // Of any service, whether decisions are made for it or not. Takes the place of the pool's earlier
  // one.
  void Add(const ObjectKey& key, StepRecord record);
  void Forget(const ObjectKey& key);
  void ForgetAll();

  std::vector<RecordedFigures> Figures() const;
  // With decisions.
  std::vector<ObjectKey> Services() const;
  std::vector<ObjectKey> ServicesWithSteps() const;
  // Nothing: no such service has records.
  std::optional<ServiceRecords> Of(const ObjectKey& key) const;
  // Of that pool; 0: of the lowest that told of one. Nothing: no step of it was told.
  std::optional<StepRecord> StepOf(const ObjectKey& key, int pool = 0) const;
  // Those with a step, ascending.
  std::vector<int> PoolsWithSteps(const ObjectKey& key) const;

 private:
  ServiceRecords& RecordsOf(const ObjectKey& key, const std::string& uid) JANUS_REQUIRES(mu_);

  mutable Mutex mu_;
  std::map<ObjectKey, ServiceRecords> services_ JANUS_GUARDED_BY(mu_);
  std::map<ObjectKey, std::map<int, StepRecord>> steps_ JANUS_GUARDED_BY(mu_);  // by pool
};

}  // namespace janus::control
