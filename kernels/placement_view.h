#pragma once

#include <cstdint>

#include "common/aebs.h"

namespace janus::kernels {

// The arrays of a LayerPlacement, in the device's memory.
struct PlacementView {
  int experts = 0;                        // E
  int instances = 0;                      // n
  int mask_words = 0;                     // ceil(n / 64)
  int multi_first = 0;                    // by_replicas from here on have two replicas or more
  const int32_t* first = nullptr;         // [E+1]
  const Replica* replicas = nullptr;      // [R]
  const uint64_t* hosts = nullptr;        // [E,mask_words]
  const uint16_t* by_replicas = nullptr;  // [E]

  // The placement's arrays must lie where the kernel can read them.
  static PlacementView Of(const LayerPlacement& placement) {
    PlacementView view{placement.experts,      placement.instances,
                       placement.mask_words,   0,
                       placement.first.data(), placement.replicas.data(),
                       placement.hosts.data(), placement.by_replicas.data()};
    for (const uint16_t e : placement.by_replicas) {
      if (placement.first[e + size_t{1}] - placement.first[e] > 1) break;
      ++view.multi_first;
    }
    return view;
  }
};

}  // namespace janus::kernels
