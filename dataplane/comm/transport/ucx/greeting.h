#pragma once

#include <cstddef>
#include <cstdint>

#include "common/exchange_size.h"

namespace janus::dataplane::ucx {

// What the members of a pair tell each other over UCX while they connect, once in each phase;
// behind it the key of the memory shown, which UCX trusts: of who knows the epoch's tag, as of who
// had its HELLO believed the address.
struct Greeting {
  uint64_t tag = 0;     // of the epoch (EpochTag)
  uint64_t phase = 0;   // 1: for the first time; 2: the first has come; 3: what was shown was tried
  uint64_t memory = 0;  // address of what is shown of a GPU; 0: nothing
  uint32_t key_bytes = 0;
  uint32_t reads = 0;  // in phase 3: whether the receiver's memory was read, and will be
};
inline constexpr uint64_t kGreetingPhases = 3;
inline constexpr size_t kMostGreetingBytes = exchange_size::kGreeting;
inline constexpr size_t kMostKeyBytes = kMostGreetingBytes - sizeof(Greeting);

}  // namespace janus::dataplane::ucx
