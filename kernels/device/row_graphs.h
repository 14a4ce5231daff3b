#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "common/function_ref.h"
#include "common/status.h"
#include "kernels/device/context.h"

namespace janus::kernels {

// Pieces of a step, each recorded for several numbers of rows (row_buckets.h). Arguments and launch
// plans are for that many rows. Kernels read from the device's memory which rows these are and how
// many count. A recording depends on no peer, so it serves every step, with any participants.
//
// Confined to one thread at a time.
class RowGraphs {
 public:
  // Without recordings: every piece is started launch by launch.
  RowGraphs() = default;
  // For steps of 1..most_rows rows; no recording is for more than `room`.
  RowGraphs(size_t pieces, int most_rows, int room);

  // For how many rows the recording is that serves `rows` rows; 0: no recording does.
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
