#pragma once

#include <cstdint>

namespace janus {

// How often the calling thread has allocated heap memory since its start. Does not see memory that
// a library maps for itself (mmap).
struct Allocations {
  uint64_t all = 0;   // malloc and its variants, in this program and all its libraries
  uint64_t ours = 0;  // operator new: C++ code, so not UCX
  friend Allocations operator-(const Allocations& a, const Allocations& b) {
    return {a.all - b.all, a.ours - b.ours};
  }
};
// Without a sanitizer the program defines malloc and its variants itself, over glibc's. A sanitizer
// has its own, and reports each call through a hook. Operator new is the program's in either case.
Allocations AllocationsOfThisThread();

}  // namespace janus
