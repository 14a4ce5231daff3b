#include "kernels/kernels.h"

#include "kernels/backends.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

Status Validate(const KvWriteArgs& args) {
  const int64_t row = int64_t{args.cache.kv_heads} * args.cache.head_dim;
  return std::move(Validator("KvWrite")
                       .InRange(args.num_rows, 0, kMaxExtent, "num_rows")
                       .InRange(args.cache.kv_heads, 1, kMaxExtent, "cache.kv_heads")
                       .InRange(args.cache.head_dim, 1, kMaxHeadDim, "cache.head_dim")
                       .InRange(args.cache.num_pages, 1, kMaxExtent, "cache.num_pages")
                       .OneOf(args.cache.dtype, kRowTypes, "cache.dtype")
                       .True(args.cache.page_stride_bytes == 0 ||
                                 args.cache.page_stride_bytes >= KvPageBytes(args.cache.dtype,
                                                                             args.cache.kv_heads,
                                                                             args.cache.head_dim),
                             "cache.page_stride_bytes is shorter than a page")
                       .NotNull(args.cache.pages, "cache.pages")
                       .True(args.key_stride == 0 || args.key_stride >= row,
                             "key_stride is shorter than a row")
                       .True(args.value_stride == 0 || args.value_stride >= row,
                             "value_stride is shorter than a row")
                       .NotNull(args.rows, "rows")
                       .NotNull(args.keys, "keys")
                       .NotNull(args.values, "values"))
      .Done();
}

}  // namespace

Status KvWrite(const Stream& stream, const KvWriteArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("KvWrite", stream));
  if (args.num_rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  JANUS_RETURN_IF_ERROR(ValidateKvRows("KvWrite", stream, args.rows, args.num_rows));
  switch (stream.device) {
    case Device::kReference:
      KvWriteReference(args);
      return OkStatus();
    case Device::kCpu:
      KvWriteCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return KvWriteCuda(stream, args);
  }
  return InvalidArgument("KvWrite: unknown device");
}

}  // namespace janus::kernels
