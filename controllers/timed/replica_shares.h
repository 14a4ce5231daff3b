#pragma once

#include <span>
#include <vector>

#include "common/aebs.h"

namespace janus::controllers {

// How AEBS would share out the named experts that served ones stand for (timed_model.h). AEBS
// assigns a served expert as a whole. The named experts that it stands for have replicas on the
// same instances, and each of them may go to another one. So loads are even where replicas allow
// it. For one layer, on one instance. Confined to one thread; no allocation after the constructor.
class ReplicaShares {
 public:
  // Every served expert has a replica. `instance`: whose part Of returns.
  ReplicaShares(const LayerPlacement& placement, int instance);

  // `activated`: by served expert, the named experts that a round activates of it. Returns how many
  // of them the instance computes, likewise; fractions. Valid until the next call.
  std::span<const double> Of(std::span<const double> activated);

  int experts() const { return static_cast<int>(mine_.size()); }
  int held() const { return held_; }  // served experts of the instance

 private:
  // Makes the instances that hold an expert as even as `amount` of it can.
  void Pour(int expert, double amount);

  LayerPlacement placement_;
  int instance_;
  int held_ = 0;
  std::vector<double> load_;    // by instance
  std::vector<double> given_;   // by replica, as in placement_.replicas
  std::vector<double> mine_;    // by expert
  std::vector<double> levels_;  // of the instances of one expert, ascending
};

}  // namespace janus::controllers
