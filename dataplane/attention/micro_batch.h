#pragma once

namespace janus::dataplane {

// Part i of `rows` rows cut into b micro-batches.
struct Part {
  int first = 0;
  int rows = 0;
};
constexpr Part MicroBatch(int rows, int i, int b) {
  const int first = rows * i / b;
  return {first, rows * (i + 1) / b - first};
}

}  // namespace janus::dataplane
