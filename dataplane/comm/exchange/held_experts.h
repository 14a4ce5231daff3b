#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/topology.h"

namespace janus::dataplane {

// With the gate on attention, an instance or node gets only the rows of which it holds a chosen
// expert. Sender and receiver both know the placement, so a message names the chosen experts and
// not its rows. Which replica computes an expert is decided afterwards (AEBS), from all rows of the
// round; so a row also goes to holders of replicas that are not used.
//
// Immutable.
class HeldExperts {
 public:
  // Those of some expert instances together.
  HeldExperts(const Placement& placement, std::span<const int> ranks);

  size_t experts() const { return experts_; }  // of a layer

  // Of rows with the experts `ids` [rows, K], those that choose one of the held experts of the
  // layer, in ascending order: places[row] is the row's place among them, or -1. Returns their
  // number. Ids without a replica are held nowhere.
  int Select(int layer, std::span<const uint16_t> ids, int top_k, std::span<int32_t> places) const;

 private:
  size_t experts_ = 0;
  std::vector<uint8_t> held_;  // [layers, experts]
};

}  // namespace janus::dataplane
