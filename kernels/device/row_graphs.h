#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "common/function_ref.h"
#include "common/status.h"
#include "kernels/device/context.h"

namespace janus::kernels {

// Pieces of a step, each recorded for numbers of rows (row_buckets.h). Arguments and launch plans
// are of that many rows; which rows these are, and how many of them count, is read from the
// device's memory. Nothing of a peer is in them. So one recording serves every step, with any
// participants.
//
// Confined to one thread at a time.
class RowGraphs {
 public:
  // None: every piece is started launch by launch.
  RowGraphs() = default;
  // For 1..most_rows rows, of which there is room for no more than `room`.
  RowGraphs(size_t pieces, int most_rows, int room);

  // How many rows a recording for so many computes; 0: there is none.
  int RowsFor(int rows) const;

  // Records a piece: `start` queues it for so many rows.
  using Start = FunctionRef<Status(const Stream& on, int rows)>;
  Status Record(Context& context, size_t piece, Start start);

  // What was recorded; `rows` as RowsFor gives it.
  Status Replay(Context& context, size_t piece, int rows) const;

 private:
  std::vector<int> buckets_;
  std::vector<std::unique_ptr<Graph>> graphs_;  // [pieces, buckets]
};

}  // namespace janus::kernels
