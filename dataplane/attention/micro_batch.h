#pragma once

namespace janus::dataplane {

// Part i of `rows` rows cut into b micro-batches. Rows that are left over go to parts in turn, from
// 0 to b - 1: instances with different turns give them to different parts. Otherwise, with one
// sequence on each instance, one micro-batch would have all rows, and nothing would overlap.
struct Part {
  int first = 0;
  int rows = 0;
};
constexpr Part MicroBatch(int rows, int i, int b, int turn) {
  const int first = (rows * i + turn) / b;
  return {first, (rows * (i + 1) + turn) / b - first};
}

}  // namespace janus::dataplane
