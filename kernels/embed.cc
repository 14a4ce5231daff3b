#include "kernels/kernels.h"

#include <string>

#include "kernels/backends.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

Status Validate(const EmbedArgs& args) {
  return std::move(Validator("Embed")
                       .InRange(args.rows, 0, kMaxExtent, "rows")
                       .InRange(args.vocab, 1, kMaxExtent, "vocab")
                       .InRange(args.hidden, 1, kMaxExtent, "hidden")
                       .OneOf(args.table_dtype, kWeightTypes, "table_dtype")
                       .NotNull(args.table, "table")
                       .NotNull(args.tokens, "tokens")
                       .NotNull(args.y, "y"))
      .Done();
}

}  // namespace

Status Embed(const Stream& stream, const EmbedArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("Embed", stream));
  if (args.rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  if (stream.device != Device::kCuda) {
    for (int64_t t = 0; t < args.rows; ++t) {
      if (args.tokens[t] < 0 || args.tokens[t] >= args.vocab) {
        return InvalidArgument("Embed: token " + std::to_string(args.tokens[t]) + " of row " +
                               std::to_string(t) + " is outside the vocabulary of " +
                               std::to_string(args.vocab));
      }
    }
  }
  switch (stream.device) {
    case Device::kReference:
      EmbedReference(args);
      return OkStatus();
    case Device::kCpu:
      EmbedCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return EmbedCuda(stream, args);
  }
  return InvalidArgument("Embed: unknown device");
}

}  // namespace janus::kernels
