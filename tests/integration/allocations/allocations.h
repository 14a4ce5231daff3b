#pragma once

#include <cstdint>

namespace janus {

// How often the calling thread has asked for heap memory since its start. Memory that a library
// maps for itself (mmap) is not seen.
struct Allocations {
  uint64_t all = 0;   // malloc and its kin, in this program and in every library that it loads
  uint64_t ours = 0;  // operator new: C++, which UCX is not
  friend Allocations operator-(const Allocations& a, const Allocations& b) {
    return {a.all - b.all, a.ours - b.ours};
  }
};
// Without a sanitizer the program defines malloc and its kin itself, over glibc's; a sanitizer has
// its own, which tells of each call through a hook. Operator new is the program's in either case.
Allocations AllocationsOfThisThread();

}  // namespace janus
