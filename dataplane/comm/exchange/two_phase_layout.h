#pragma once

#include <algorithm>

#include "dataplane/comm/exchange/lanes.h"

namespace janus::dataplane {

// The numbers of a member's slots in the two-phase modes. Its lanes are numbered in the order of
// Lanes::EndingAt... The first slots are those of mode Direct.
//
// An attention instance: rows by micro-batch; then, if it is an end, a bundle for each micro-batch,
// read by the other ends of all its lanes (with the gate on attention: a bundle for each lane and
// micro-batch); then, for each lane, micro-batch and rank that the lane carries, that rank's
// contributions.
struct AttentionSlots {
  int micro_batches = 1;
  int bundles = 1;  // for each micro-batch (BundlesOf)
  int Rows(int micro_batch) const { return micro_batch; }
  int Bundle(int lane, int micro_batch) const {
    return micro_batches * (1 + std::min(lane, bundles - 1)) + micro_batch;
  }
  // `place`: of the rank within Lane::attention.
  int Spread(const Lane& of, int lane, int micro_batch, int place) const {
    const int carried = static_cast<int>(of.attention.size());
    return micro_batches * (1 + bundles) + (lane * micro_batches + micro_batch) * carried + place;
  }
};
// Of an attention instance at which so many lanes end.
inline int BundlesOf(const ExchangeShape& shape, size_t lanes) {
  return shape.gate == GateSide::kExperts ? 1 : static_cast<int>(lanes);
}

// An expert instance: contributions by micro-batch and attention rank; then, for each of its lanes
// and micro-batch, a bundle of contributions; then, for the same, rows for its node.
struct ExpertSlots {
  int micro_batches = 1;
  int m = 1;
  int lanes = 0;
  int Contributions(int micro_batch, int attention) const { return micro_batch * m + attention; }
  int Bundle(int lane, int micro_batch) const {
    return micro_batches * m + lane * micro_batches + micro_batch;
  }
  int Spread(int lane, int micro_batch) const { return Bundle(lanes + lane, micro_batch); }
};

// A lane that ends alone has no mates to spread to, and reads bundles where they land.
inline bool SpreadsContributions(const Lane& lane) {
  return lane.attention.size() > 1;
}
inline bool SpreadsRows(const Lane& lane) {
  return lane.experts.size() > 1;
}

// Room of a bundle of the lane.
inline size_t RowBundleBytes(const ExchangeSize& size, const Lane& lane) {
  return lane.attention.size() * SectionBytes(RowSlotBytes(size));
}
// Of all contributions of the lane to one attention instance.
inline size_t SpreadBytes(const ExchangeSize& size, const Lane& lane) {
  return BundledContributionBytes(size, static_cast<int>(lane.experts.size()));
}
inline size_t ContributionBundleBytes(const ExchangeSize& size, const Lane& lane) {
  return lane.attention.size() * SpreadBytes(size, lane);
}

}  // namespace janus::dataplane
