#pragma once

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

}  // namespace janus::controllers
