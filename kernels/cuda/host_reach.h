#pragma once

// For the host form: whether the data that a kernel was given lies where a GPU could read it. On a
// GPU the tests' heap is managed memory; the stack and the program's own data are not.

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "common/status.h"

// The linker defines these: where the program's image begins and ends.
extern "C" char __executable_start;  // NOLINT(bugprone-reserved-identifier)
extern "C" char end;

namespace janus::kernels::cuda {

inline bool IsOnThisStack(uintptr_t address) {
  struct Stack {
    uintptr_t begin = 0;
    uintptr_t end = 0;
  };
  static const thread_local Stack stack = [] {
    Stack of;
    pthread_attr_t attributes;
    void* begin = nullptr;
    size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return of;
    if (pthread_attr_getstack(&attributes, &begin, &bytes) == 0) {
      of.begin = reinterpret_cast<uintptr_t>(begin);
      of.end = of.begin + bytes;
    }
    pthread_attr_destroy(&attributes);
    return of;
  }();
  return address >= stack.begin && address < stack.end;
}

inline bool IsInTheProgram(uintptr_t address) {
  return address >= reinterpret_cast<uintptr_t>(&__executable_start) &&
         address < reinterpret_cast<uintptr_t>(&end);
}

// InvalidArgument if a word of a kernel's arguments is the address of memory that no GPU reads.
// Each aligned word counts as an address, so the padding between arguments must be cleared.
inline Status RefuseWhatNoGpuReads(std::string_view operation, const void* arguments,
                                   size_t bytes) {
  for (size_t at = 0; at + sizeof(uintptr_t) <= bytes; at += sizeof(uintptr_t)) {
    uintptr_t word;
    std::memcpy(&word, static_cast<const char*>(arguments) + at, sizeof word);
    const bool is_stack = IsOnThisStack(word);
    if (!is_stack && !IsInTheProgram(word)) continue;
    return InvalidArgument(std::string(operation) + ": byte " + std::to_string(at) +
                           " of its arguments is an address " +
                           (is_stack ? "on the stack" : "in the program itself") +
                           ", which no GPU reads; give it memory of the heap");
  }
  return OkStatus();
}

}  // namespace janus::kernels::cuda
