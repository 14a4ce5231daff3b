#include "dataplane/comm/exchange/row_codec.h"

#include "kernels/kernels.h"

namespace janus::dataplane {
namespace {

// Scales are within their row, so their stride is that of a row.
int64_t ScaleStride(const RowFormat& format) {
  static_assert(sizeof(float) == 4);
  return static_cast<int64_t>(format.bytes() / sizeof(float));
}

kernels::UnpackFp8Args UnpackArgs(const RowFormat& format, std::byte* rows, size_t count) {
  kernels::UnpackFp8Args args;
  args.y = rows;
  args.y_dtype = format.type;
  args.rows = static_cast<int64_t>(count);
  args.hidden = format.hidden;
  return args;
}

}  // namespace

Status PackRows(const kernels::Stream& on, const RowFormat& format, const std::byte* rows,
                int64_t count, std::byte* packed) {
  JANUS_CHECK(format.compression == Compression::kFp8, ToString(format.compression));
  kernels::PackFp8Args args;
  args.x = rows;
  args.x_dtype = format.type;
  args.packed = reinterpret_cast<uint8_t*>(packed);
  args.scales = reinterpret_cast<float*>(packed + format.scales_at());
  args.rows = count;
  args.hidden = format.hidden;
  args.packed_stride = static_cast<int64_t>(format.bytes());
  args.scale_stride = ScaleStride(format);
  return kernels::PackFp8(on, args);
}

Status UnpackRows(const kernels::Stream& on, const RowFormat& format, const std::byte* packed,
                  int64_t count, std::byte* rows) {
  JANUS_CHECK(format.compression == Compression::kFp8, ToString(format.compression));
  kernels::UnpackFp8Args args = UnpackArgs(format, rows, static_cast<size_t>(count));
  args.packed = reinterpret_cast<const uint8_t*>(packed);
  args.scales = reinterpret_cast<const float*>(packed + format.scales_at());
  args.packed_stride = static_cast<int64_t>(format.bytes());
  args.scale_stride = ScaleStride(format);
  return kernels::UnpackFp8(on, args);
}

Status UnpackRows(const kernels::Stream& on, const RowFormat& format,
                  std::span<const void* const> packed, std::byte* rows) {
  JANUS_CHECK(format.compression == Compression::kFp8, ToString(format.compression));
  kernels::UnpackFp8Args args = UnpackArgs(format, rows, packed.size());
  args.packed_list = packed.data();
  args.list_scales_at = static_cast<int64_t>(format.scales_at());
  return kernels::UnpackFp8(on, args);
}

}  // namespace janus::dataplane
