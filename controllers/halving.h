#pragma once

#include <algorithm>

namespace janus::controllers {

// Where a condition begins to hold: it does not hold at `low`, and holds at `high` as far as known.
struct Bracket {
  double low = 0;
  double high = 0;
};

// The bracket after `times` halvings. The number is fixed, so that results for different inputs lie
// on the same grid.
template <class Holds>
Bracket Halve(Bracket bracket, int times, const Holds& holds) {
  for (int i = 0; i < times; ++i) {
    const double middle = (bracket.low + bracket.high) / 2;
    (holds(middle) ? bracket.high : bracket.low) = middle;
  }
  return bracket;
}

// Narrows the bracket in which a continuous `excess` falls to 0 until it is no wider than `width`;
// excess is above 0 at `low` but not at `high`. Uses false position in the Illinois form: if one
// end stays twice, its excess is halved, so that both ends move. Takes a few steps if excess is
// nearly straight.
template <class Excess>
Bracket Narrow(Bracket bracket, double width, const Excess& excess) {
  double above = excess(bracket.low);
  double below = excess(bracket.high);
  int stayed = 0;  // > 0: `high` stayed this often; < 0: `low` did
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
