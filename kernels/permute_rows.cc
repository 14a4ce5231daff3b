#include <string>

#include "kernels/backends.h"
#include "kernels/kernels.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

Status Validate(const PermuteRowsArgs& args) {
  return std::move(
             Validator("PermuteRows")
                 .InRange(args.rows, 0, kMaxExtent, "rows")
                 .InRange(args.row_bytes, 1, kMaxExtent, "row_bytes")
                 .InRange(args.x_rows, args.x_map == nullptr ? args.rows : 0, kMaxExtent, "x_rows")
                 .InRange(args.y_rows, args.y_map == nullptr ? args.rows : 0, kMaxExtent, "y_rows")
                 .True((args.x != nullptr) != (args.x_list != nullptr),
                       "of x and x_list one must be null")
                 .True((args.y != nullptr) != (args.y_list != nullptr),
                       "of y and y_list one must be null")
                 .True(args.x_stride_bytes == 0 || args.x_stride_bytes >= args.row_bytes,
                       "x_stride_bytes is shorter than a row")
                 .True(args.y_stride_bytes == 0 || args.y_stride_bytes >= args.row_bytes,
                       "y_stride_bytes is shorter than a row"))
      .Done();
}

// Checks `number`, the row of entry i, against `count`.
Status ValidatePlace(const char* side, int64_t i, int64_t number, int64_t count, bool is_null) {
  if (number >= count) {
    return InvalidArgument("PermuteRows: entry " + std::to_string(i) + " is row " +
                           std::to_string(number) + " of " + side + ", which has " +
                           std::to_string(count));
  }
  if (is_null) {
    return InvalidArgument("PermuteRows: row " + std::to_string(number) + " of " + side +
                           " is null");
  }
  return OkStatus();
}

// A device's own memory is not looked into.
Status ValidatePlaces(const PermuteRowsArgs& args) {
  for (int64_t i = 0; i < args.rows; ++i) {
    const int64_t from = args.x_map != nullptr ? args.x_map[i] : i;
    const int64_t to = args.y_map != nullptr ? args.y_map[i] : i;
    if (from < 0 || to < 0) continue;
    const auto is_null = [](const auto* list, int64_t row, int64_t rows) {
      return list != nullptr && row < rows && list[row] == nullptr;
    };
    JANUS_RETURN_IF_ERROR(
        ValidatePlace("x", i, from, args.x_rows, is_null(args.x_list, from, args.x_rows)));
    JANUS_RETURN_IF_ERROR(
        ValidatePlace("y", i, to, args.y_rows, is_null(args.y_list, to, args.y_rows)));
  }
  return OkStatus();
}

}  // namespace

Status PermuteRows(const Stream& stream, const PermuteRowsArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("PermuteRows", stream));
  if (args.rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  if (stream.device != Device::kCuda) JANUS_RETURN_IF_ERROR(ValidatePlaces(args));
  switch (stream.device) {
    case Device::kReference:
      PermuteRowsReference(args);
      return OkStatus();
    case Device::kCpu:
      PermuteRowsCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return PermuteRowsCuda(stream, args);
  }
  return InvalidArgument("PermuteRows: unknown device");
}

}  // namespace janus::kernels
