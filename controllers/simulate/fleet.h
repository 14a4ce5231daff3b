#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "controllers/simulate/recorder.h"
#include "controllers/simulate/shapes.h"
#include "controllers/simulate/wish.h"

namespace janus::controllers {

// Instances with their starts, ends and work. All of one kind: separated, or whole-model. Confined
// to one thread.
class Fleet {
 public:
  // `first` is ready at once.
  Fleet(ShapeBook* book, const Machinery& machinery, Recorder* recorder, const Wish& first);

  void Arrive(const SimulatedRequest& request);
  // Work, starts and ends before `until`.
  void AdvanceTo(double until);
  // Goes towards `wish`, in place of any wish before that has not been fulfilled.
  void Apply(const Wish& wish, double now);
  bool IsEmpty() const;

  int CountStarting() const;  // whole-model instances
  int Gpus() const;           // that cost money now
  const Wish& committed() const { return committed_; }
  const std::optional<Wish>& pending() const { return pending_; }
  double pending_since() const { return pending_since_; }
  double changed_at() const { return changed_at_; }  // the last commit of a separated service
  double last_start_seconds() const { return last_start_; }  // asked for to committed, then

  struct Member {
    int id = 0;  // never used twice
    std::unique_ptr<Unit> unit;
    int gpus = 0;
    double ready_at = 0;
    bool is_draining = false;
    double drained_at = 0;  // since when
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
  void Add(const UnitShape& shape, int gpus, double ready_at);
  Member& LeastLoaded(double now);
  double NextEvent() const;
  void HandleEvents(double now);
  void Bill(double now);

  ShapeBook* book_;
  const Machinery machinery_;
  Recorder* recorder_;
  std::vector<Member> members_;  // a separated service: one
  Wish committed_;
  std::optional<Wish> pending_;
  double pending_since_ = 0;
  double pending_ready_ = 0;
  double changed_at_ = 0;
  double last_start_ = 0;
  std::vector<Leaving> leaving_;
  double now_ = 0;
  int next_id_ = 0;
  int64_t preempted_before_ = 0;  // by members that are gone
};

}  // namespace janus::controllers
