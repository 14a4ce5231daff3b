#pragma once

#include <algorithm>

namespace janus::controllers {

// Where a condition begins to hold: not at `low`, but at `high`, as far as is known.
struct Bracket {
  double low = 0;
  double high = 0;
};

// The bracket after so many halvings: always as many, so that what is asked for steps in no other
// way than what is found.
template <class Holds>
Bracket Halve(Bracket bracket, int times, const Holds& holds) {
  for (int i = 0; i < times; ++i) {
    const double middle = (bracket.low + bracket.high) / 2;
    (holds(middle) ? bracket.high : bracket.low) = middle;
  }
  return bracket;
}

// The bracket, no wider than `width`, of where a continuous `excess` ceases to be above 0: above it
// at `low`, not at `high`. By false position in the Illinois form: an end that stays twice counts
// half, so that both ends close in; a few steps where the excess is nearly straight.
template <class Excess>
Bracket Narrow(Bracket bracket, double width, const Excess& excess) {
  double above = excess(bracket.low);
  double below = excess(bracket.high);
  int stayed = 0;  // > 0: high, so many times; < 0: low
  while (bracket.high - bracket.low > width) {
    const double share = std::clamp(above / (above - below), 0.01, 0.99);
    const double at = bracket.low + share * (bracket.high - bracket.low);
    if (at <= bracket.low || at >= bracket.high) break;
    const double off = excess(at);
    if (off > 0) {
      bracket.low = at;
      above = off;
      stayed = std::max(stayed, 0) + 1;
      if (stayed > 1) below /= 2;
    } else {
      bracket.high = at;
      below = off;
      stayed = std::min(stayed, 0) - 1;
      if (stayed < -1) above /= 2;
    }
  }
  return bracket;
}

}  // namespace janus::controllers
