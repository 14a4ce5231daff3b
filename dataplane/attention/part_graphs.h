#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "common/function_ref.h"
#include "common/status.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// What a device computes of one layer for one part of a batch.
enum class PartWork : unsigned char {
  kLayer = 0,  // attention up to the rows for the experts, or all of a dense layer
  kLocal = 1,  // the shared experts
};
inline constexpr int kPartWorks = 2;

// The launches of a batch's parts, recorded for numbers of rows (row_buckets.h). Arguments and
// launch plans are of that many rows and of the part's place among the buffers; which sequences the
// rows are of, at which positions and on which pages, and how many of them count, is read from the
// device's memory. Nothing of a peer is in them. So one recording serves every step, and whoever
// else takes part.
//
// Confined to one thread at a time.
class PartGraphs {
 public:
  // None: every part is started launch by launch.
  PartGraphs() = default;
  // For parts of 1..most_rows rows, of which a part has room for no more than `room`.
  PartGraphs(int layers, int parts, int most_rows, int room);

  // How many rows a recorded part of so many rows computes; 0: none is recorded for it.
  int RowsFor(int rows) const;

  // Records what layers have of `work`: `start` queues it for a part and so many rows.
  using HasWork = FunctionRef<bool(int layer)>;
  using StartPart = FunctionRef<Status(const kernels::Stream& on, int layer, int part, int rows)>;
  Status Record(kernels::Context& context, PartWork work, HasWork has, StartPart start);

  // What was recorded; `rows` as RowsFor gives it.
  Status Replay(kernels::Context& context, PartWork work, int layer, int part, int rows) const;

 private:
  size_t IndexOf(PartWork work, int layer, int part, size_t bucket) const;

  int layers_ = 0;
  int parts_ = 0;
  std::vector<int> buckets_;
  std::vector<std::unique_ptr<kernels::Graph>> graphs_;  // [kPartWorks, layers, parts, buckets]
};

}  // namespace janus::dataplane
