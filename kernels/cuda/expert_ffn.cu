// The grouped expert FFN: its forms, and which of them runs.

#include "kernels/cuda/expert_ffn.h"

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

template <int kGroups>
Status RunWgmma(const Stream& stream, const GroupedExpertFfnArgs& args, int64_t h_row_bytes,
                int64_t most_blocks) {
  JANUS_RETURN_IF_ERROR(Start(kName, stream,
                              WgmmaExpertUpKernel<kGroups>{{{{}, args, h_row_bytes}}},
                              PlanWgmmaExpertUp<kGroups>(args, most_blocks)));
  return Start(kName, stream, WgmmaExpertDownKernel<kGroups>{{{{}, args, h_row_bytes}}},
               PlanWgmmaExpertDown<kGroups>(args, most_blocks));
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
    return wide ? RunWgmma<2>(stream, args, h_row_bytes, most_blocks)
                : RunWgmma<1>(stream, args, h_row_bytes, most_blocks);
  }
  if (args.weight_dtype == DType::kMxfp4) return RunFast<4>(stream, args, h_row_bytes);
  return args.weight_dtype == DType::kBFloat16 ? RunFast<16>(stream, args, h_row_bytes)
                                               : RunFast<8>(stream, args, h_row_bytes);
}

}  // namespace cuda

Status GroupedExpertFfnCuda(const Stream& stream, const GroupedExpertFfnArgs& args) {
  return cuda::RunGroupedExpertFfn(stream, args, cuda::ExpertFormFor(args, cuda::DeviceHasWgmma()));
}

}  // namespace janus::kernels
