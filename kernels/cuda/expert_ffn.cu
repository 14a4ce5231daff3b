// The grouped expert FFN: its forms, and which of them runs.

#include "kernels/cuda/expert_ffn.h"

#include <type_traits>

#include "kernels/backends.h"
#include "kernels/cuda/expert_ffn_fast.h"
#include "kernels/cuda/expert_ffn_wgmma.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/start.h"

namespace janus::kernels {
namespace cuda {
namespace {

constexpr std::string_view kName = "GroupedExpertFfn";

template <int kWeightBits>
Status RunFast(const Stream& stream, const GroupedExpertFfnArgs& args, int64_t h_row_bytes) {
  JANUS_RETURN_IF_ERROR(Start(kName, stream, FastExpertUpKernel<kWeightBits>{{args, h_row_bytes}},
                              PlanFastExpertUp<kWeightBits>(args)));
  return Start(kName, stream, FastExpertDownKernel<kWeightBits>{{args, h_row_bytes}},
               PlanFastExpertDown<kWeightBits>(args));
}

template <int kGroups, int kWeightBits>
Status RunWgmma(const Stream& stream, const GroupedExpertFfnArgs& args, int64_t h_row_bytes,
                int64_t most_blocks) {
  JANUS_RETURN_IF_ERROR(Start(kName, stream,
                              WgmmaExpertUpKernel<kGroups, kWeightBits>{{{{}, args, h_row_bytes}}},
                              PlanWgmmaExpertUp<kGroups, kWeightBits>(args, most_blocks)));
  return Start(kName, stream,
               WgmmaExpertDownKernel<kGroups, kWeightBits>{{{{}, args, h_row_bytes}}},
               PlanWgmmaExpertDown<kGroups, kWeightBits>(args, most_blocks));
}

// fn(bits) with how many the weights have.
template <class Fn>
Status WithWeightBits(DType weight_dtype, Fn fn) {
  if (weight_dtype == DType::kMxfp4) return fn(std::integral_constant<int, 4>{});
  if (weight_dtype == DType::kBFloat16) return fn(std::integral_constant<int, 16>{});
  return fn(std::integral_constant<int, 8>{});
}

}  // namespace

Status RunGroupedExpertFfn(const Stream& stream, const GroupedExpertFfnArgs& args, ExpertForm form,
                           WgmmaTiles tiles, int64_t wide_blocks) {
  const int64_t h_row_bytes =
      GroupedExpertFfnWorkspace::For(args.num_contributions, args.intermediate, args.row_dtype)
          .h_row_bytes;
  if (form == ExpertForm::kPlain) {
    JANUS_RETURN_IF_ERROR(
        Start(kName, stream, ExpertUpKernel{args, h_row_bytes}, PlanExpertUp(args)));
    return Start(kName, stream, ExpertDownKernel{args, h_row_bytes}, PlanExpertDown(args));
  }
  if (form == ExpertForm::kWgmma) {
    const bool wide =
        tiles == WgmmaTiles::kWide || (tiles == WgmmaTiles::kByRows && TakesWideTiles(args));
    const int64_t most_blocks = wide_blocks > 0 ? wide_blocks : DeviceMultiprocessors();
    return WithWeightBits(args.weight_dtype, [&](auto bits) {
      constexpr int kBits = decltype(bits)::value;
      return wide ? RunWgmma<2, kBits>(stream, args, h_row_bytes, most_blocks)
                  : RunWgmma<1, kBits>(stream, args, h_row_bytes, most_blocks);
    });
  }
  return WithWeightBits(args.weight_dtype, [&](auto bits) {
    return RunFast<decltype(bits)::value>(stream, args, h_row_bytes);
  });
}

}  // namespace cuda

Status GroupedExpertFfnCuda(const Stream& stream, const GroupedExpertFfnArgs& args) {
  return cuda::RunGroupedExpertFfn(stream, args, cuda::ExpertFormFor(args, cuda::DeviceHasWgmma()));
}

}  // namespace janus::kernels
