// How work is dealt over the parts of a team. It never enters the bits of a result.

#pragma once

#include <cstdint>

#include "kernels/cpu/lanes.h"

namespace janus::kernels::JANUS_ISA {
namespace {

struct Span {
  int64_t begin;
  int64_t end;
};

JANUS_INLINE int64_t Smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
JANUS_INLINE int64_t Larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}
JANUS_INLINE int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

JANUS_INLINE Span Share(int64_t count, int part, int parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

// Deals runs of units of equal cost, one run after the other: Take returns this part's share of the
// next run. Each part has an equal share of the total cost, and a unit belongs to the part in which
// it begins.
class CostShare {
 public:
  CostShare(int64_t total_cost, int part, int parts)
      : begin_(Share(total_cost, part, parts).begin), end_(Share(total_cost, part, parts).end) {}

  Span Take(int64_t units, int64_t unit_cost) {
    const Span span = {Index(begin_ - passed_, units, unit_cost),
                       Index(end_ - passed_, units, unit_cost)};
    passed_ += units * unit_cost;
    return span;
  }

 private:
  static int64_t Index(int64_t cost, int64_t units, int64_t unit_cost) {
    return cost <= 0 ? 0 : Smaller(units, CeilDiv(cost, unit_cost));
  }

  int64_t begin_;
  int64_t end_;
  int64_t passed_ = 0;
};

}  // namespace
}  // namespace janus::kernels::JANUS_ISA
