#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "controllers/simulate/recorder.h"
#include "controllers/simulate/shapes.h"
#include "controllers/simulate/wish.h"

namespace janus::controllers {

// Units with their starts, stops and work: the pools of a separated service, or copies of the whole
// model. Confined to one thread.
//
// A change of a separated service is committed when all its instances are ready. A second change
// may be requested meanwhile; it is committed when its own instances are ready. Attention instances
// that move from one pool to another keep their sequences. Those that leave hand their sequences
// over, to any pool, within the pause of the change. A copy of the whole model that leaves finishes
// its sequences.
class Fleet {
 public:
  // `first` is ready at once.
  Fleet(ShapeBook* book, const Machinery& machinery, Recorder* recorder, const Wish& first);

  void Arrive(const SimulatedRequest& request);
  // Simulates work, starts and stops before `until`.
  void AdvanceTo(double until);
  // Starts a change to `wish`. It follows the pending wishes to which it adds, and replaces the
  // others.
  void Apply(const Wish& wish, double now);
  bool IsEmpty() const;

  int CountStarting() const;  // copies
  int Gpus() const;           // that cost money now
  const Wish& committed() const { return committed_; }
  struct Pending {
    Wish wish;
    double since = 0;
    double ready_at = 0;
  };
  const std::vector<Pending>& pending() const { return pending_; }  // of a separated service
  double changed_at() const { return changed_at_; }  // the last commit of a separated service
  double last_start_seconds() const { return last_start_; }  // time from request to that commit

  struct Member {
    int id = 0;  // unique
    std::unique_ptr<Unit> unit;
    int gpus = 0;  // in addition to those of the committed topology
    WholeConfiguration whole;
    double ready_at = 0;
    bool is_draining = false;
    double drained_at = 0;  // since when it is drained
  };
  const std::vector<Member>& members() const { return members_; }
  int64_t preempted() const;

 private:
  struct Leaving {  // GPUs that still cost
    double until = 0;
    int gpus = 0;
  };

  void AdvanceUnits(double until);
  void LetGo(double until);
  void Commit(const Wish& wish, double now);
  void ApplyWhole(const Wish& wish, double now);
  void Add(const UnitShape& shape, int gpus, const WholeConfiguration& whole, double ready_at);
  void Drain(Member& member, double now, std::vector<SimulatedRequest>& orphans);
  Member& LeastLoaded(double now);
  double NextEvent() const;
  void HandleEvents(double now);
  void Bill(double now);

  ShapeBook* book_;
  const Machinery machinery_;
  Recorder* recorder_;
  std::vector<Member> members_;
  Wish committed_;
  std::vector<Pending> pending_;
  double changed_at_ = 0;
  double last_start_ = 0;
  std::vector<Leaving> leaving_;
  double now_ = 0;
  int next_id_ = 0;
  int64_t preempted_before_ = 0;  // by members that have left
};

}  // namespace janus::controllers
