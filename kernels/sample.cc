#include <cmath>
#include <string>

#include "kernels/backends.h"
#include "kernels/kernels.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

Status Validate(const Stream& stream, const SampleArgs& args) {
  const int threads = stream.device == Device::kCpu ? stream.team->size() : 1;
  return std::move(Validator("Sample")
                       .InRange(args.rows, 0, kMaxExtent, "rows")
                       .InRange(args.vocab, 1, kMaxExtent - 1, "vocab")
                       .True(args.logits_stride == 0 || args.logits_stride >= args.vocab,
                             "logits_stride is shorter than a row")
                       .NotNull(args.logits, "logits")
                       .NotNull(args.params, "params")
                       .NotNull(args.tokens, "tokens")
                       .True(args.given == nullptr || stream.device != Device::kCuda,
                             "given tokens are taken on the host only")
                       .NotNull(args.workspace, "workspace")
                       .True(reinterpret_cast<uintptr_t>(args.workspace) % 64 == 0,
                             "workspace is not 64-byte aligned")
                       .InRange(args.workspace_bytes, SampleWorkspaceBytes(args.vocab, threads),
                                INT64_MAX, "workspace_bytes"))
      .Done();
}

Status Validate(const SamplingParams& params, int64_t row) {
  const bool valid_temperature = std::isfinite(params.temperature) && params.temperature >= 0.0f;
  Status status =
      std::move(Validator("Sample")
                    .True(valid_temperature, "temperature is negative or not finite")
                    .InRange(params.top_k, 0, kMaxExtent, "top_k")
                    .True(params.top_p > 0.0f && params.top_p <= 1.0f, "top_p is outside (0,1]")
                    .InRange(params.position, 0, INT64_MAX, "position")
                    .InRange(params.logprobs, -1, kMaxLogprobs, "logprobs"))
          .Done();
  return status.ok() ? status : std::move(status).Annotate("row " + std::to_string(row));
}

}  // namespace

Status Sample(const Stream& stream, const SampleArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("Sample", stream));
  if (args.rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(stream, args));
  if (stream.device == Device::kCuda) return SampleCuda(stream, args);
  for (int64_t t = 0; t < args.rows; ++t) {
    JANUS_RETURN_IF_ERROR(Validate(args.params[t], t));
    if (args.given != nullptr && (args.given[t] < -1 || args.given[t] >= args.vocab)) {
      return InvalidArgument("Sample: row " + std::to_string(t) + ": given token " +
                             std::to_string(args.given[t]) + " is outside the vocabulary of " +
                             std::to_string(args.vocab));
    }
  }
  const int64_t failed =
      stream.device == Device::kReference ? SampleReference(args) : SampleCpu(stream, args);
  if (failed < 0) return OkStatus();
  return DataLoss("Sample: the logits of row " + std::to_string(failed) +
                  " hold a NaN or nothing finite; are the weights sound?");
}

}  // namespace janus::kernels
