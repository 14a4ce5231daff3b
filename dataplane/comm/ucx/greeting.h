#pragma once

#include <cstddef>
#include <cstdint>

namespace janus::dataplane::ucx {

// What the members of a pair tell each other over UCX while they connect, once in each phase;
// behind it the key of the memory shown. As it came from outside: UCX trusts the key, as it does
// the address that came with HELLO.
struct Greeting {
  uint64_t phase = 0;   // 1: for the first time; 2: the first has come; 3: what was shown was tried
  uint64_t memory = 0;  // address of what is shown of a GPU; 0: nothing
  uint32_t key_bytes = 0;
  uint32_t reads = 0;  // in phase 3: whether the receiver's memory was read, and will be
};
inline constexpr uint64_t kGreetingPhases = 3;
inline constexpr size_t kMostGreetingBytes = 1024;
inline constexpr size_t kMostKeyBytes = kMostGreetingBytes - sizeof(Greeting);

}  // namespace janus::dataplane::ucx
