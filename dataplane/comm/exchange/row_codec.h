#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/row_format.h"
#include "common/status.h"
#include "kernels/stream.h"

// Packs activations into rows of the wire, and unpacks them, on the device of the stream. Each row
// is packed by itself, so its bits do not depend on the mode, the batch or the members. Only for
// formats that are packed: in the others, rows are computed and read in place.
//
// NaN stays NaN and infinity becomes NaN. So a request whose numbers overflow ends as it does
// without compression: its logits are NaN, which sampling reports.
//
// Thread-compatible. Errors are those of the kernels: a launch on a GPU may fail.
namespace janus::dataplane {

// rows: [count, H] of format.type; packed: [count] in the format, at a multiple of 4.
Status PackRows(const kernels::Stream& on, const RowFormat& format, const std::byte* rows,
                int64_t count, std::byte* packed);
Status UnpackRows(const kernels::Stream& on, const RowFormat& format, const std::byte* packed,
                  int64_t count, std::byte* rows);
// Of packed rows that lie apart. The list lies where the stream's device reads it.
Status UnpackRows(const kernels::Stream& on, const RowFormat& format,
                  std::span<const void* const> packed, std::byte* rows);

}  // namespace janus::dataplane
