#pragma once

#include <bit>
#include <cstdint>

#include "dataplane/comm/wire/wire.h"

namespace janus::dataplane {

// Reads the reference exactly once, because another process may be writing that memory.
inline ContributionRef LoadRef(const ContributionRef* at) {
  static_assert(sizeof(ContributionRef) == sizeof(uint32_t));
  return std::bit_cast<ContributionRef>(
      __atomic_load_n(reinterpret_cast<const uint32_t*>(at), __ATOMIC_RELAXED));
}

}  // namespace janus::dataplane
