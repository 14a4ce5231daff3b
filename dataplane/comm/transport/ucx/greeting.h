#pragma once

#include <cstddef>
#include <cstdint>

#include "common/exchange_size.h"

namespace janus::dataplane::ucx {

// What the members of a pair send each other over UCX while they connect, once in each phase. The
// key of the shown memory follows it. UCX trusts this key, which is safe here because the sender
// knows the epoch's tag. We trust UCX addresses because they come in a valid HELLO.
struct Greeting {
  uint64_t tag = 0;     // of the epoch (EpochTag)
  uint64_t phase = 0;   // 1: first greeting; 2: the peer's first was received; 3: memory was tried
  uint64_t memory = 0;  // address of the GPU memory that is shown; 0: none
  uint32_t key_bytes = 0;
  uint32_t reads = 0;  // in phase 3: whether the receiver's memory was read, and will be
};
inline constexpr uint64_t kGreetingPhases = 3;
inline constexpr size_t kMostGreetingBytes = exchange_size::kGreeting;
inline constexpr size_t kMostKeyBytes = kMostGreetingBytes - sizeof(Greeting);

}  // namespace janus::dataplane::ucx
