// Operations whose vectorised form is not written yet run the reference.

#include "kernels/backends.h"

namespace janus::kernels {

int64_t SampleCpu(const Stream&, const SampleArgs& args) {
  return SampleReference(args);
}

}  // namespace janus::kernels
