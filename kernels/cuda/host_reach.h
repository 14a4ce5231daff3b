#pragma once

// Of the host form: whether what a kernel was given lies where a GPU could read it. On a GPU the
// heap of the tests is managed memory; the stack and what the program was linked with are not.

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "common/status.h"

// Of the linker: where the program's image begins and ends.
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

// InvalidArgument where a word of a kernel's arguments, what lies between them cleared, is the
// address of such memory. Each aligned word is taken for an address.
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
