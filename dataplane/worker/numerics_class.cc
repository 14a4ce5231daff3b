#include "dataplane/worker/numerics_class.h"

#include "common/fingerprint.h"
#include "kernels/kernels.h"

namespace janus::dataplane {

std::string DeviceClass(const kernels::Context& context, kernels::Isa isa) {
  return context.is_host() ? "cpu " + std::string(kernels::ToString(isa)) : context.numerics();
}

std::string NumericsClass(const ModelDescription& model, bool fp8_cache, Compression compression,
                          const FixedPointSums& sums, const kernels::Context& context,
                          kernels::Isa isa) {
  const bool is_fp8 = compression == Compression::kFp8;
  const int version = context.is_host() ? kernels::kBitsVersion : kernels::kCudaBitsVersion;
  return DeviceClass(context, isa) + " kernels" + std::to_string(version) + " " +
         std::string(ToString(model.dtype)) + (fp8_cache ? " kv fp8" : "") + " tp1 " +
         (sums.on() ? "sum" + std::to_string(sums.bits) + "-" +
                          Fingerprint::Hex(HashOf(sums)).substr(0, 6) + (is_fp8 ? "+8" : "")
          : is_fp8 ? "exchange fp8"
                   : "uncompressed");
}

}  // namespace janus::dataplane
