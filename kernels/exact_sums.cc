#include "common/fixed_point.h"
#include "kernels/backends.h"
#include "kernels/kernels.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

// Checks that both sides share.
template <class Args>
Validator ValidateSums(const char* operation, const Args& args) {
  return Validator(operation)
      .InRange(args.rows, 0, kMaxExtent, "rows")
      .InRange(args.hidden, 1, kMaxExtent, "hidden")
      .True(args.bits == 32 || args.bits == 24, "bits is neither 32 nor 24")
      .InRange(args.exponent, FixedPointSums::kLeastExponent, FixedPointSums::kMostExponent,
               "exponent");
}

Status Validate(const AddTermsArgs& args) {
  return std::move(ValidateSums("AddTerms", args)
                       .InRange(args.limit, 1, FixedLimit(args.bits, 1), "limit")
                       .NotNull(args.terms, "terms")
                       .NotNull(args.ends, "ends")
                       .NotNull(args.sums, "sums"))
      .Done();
}

Status Validate(const CombineSumsArgs& args) {
  return std::move(ValidateSums("CombineSums", args)
                       .InRange(args.top_k, 1, FixedPointSums::kMostTerms, "top_k")
                       .NotNull(args.sums, "sums")
                       .NotNull(args.residual, "residual")
                       .NotNull(args.y, "y"))
      .Done();
}

}  // namespace

Status AddTerms(const Stream& stream, const AddTermsArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("AddTerms", stream));
  if (args.rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  switch (stream.device) {
    case Device::kReference:
      AddTermsReference(args);
      return OkStatus();
    case Device::kCpu:
      AddTermsCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return AddTermsCuda(stream, args);
  }
  return InvalidArgument("AddTerms: unknown device");
}

Status CombineSums(const Stream& stream, const CombineSumsArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("CombineSums", stream));
  if (args.rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  switch (stream.device) {
    case Device::kReference:
      CombineSumsReference(args);
      return OkStatus();
    case Device::kCpu:
      CombineSumsCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return CombineSumsCuda(stream, args);
  }
  return InvalidArgument("CombineSums: unknown device");
}

}  // namespace janus::kernels
