#pragma once

#include <cstdint>

namespace janus {

// What the calling thread has allocated since its start. Does not see memory that a library maps
// for itself (mmap).
struct Allocations {
  uint64_t all = 0;    // calls of malloc and its variants, in this program and all its libraries
  uint64_t ours = 0;   // calls of operator new: C++ code, so not UCX
  uint64_t bytes = 0;  // that C++ code asked operator new and mmap for
  friend Allocations operator-(const Allocations& a, const Allocations& b) {
    return {a.all - b.all, a.ours - b.ours, a.bytes - b.bytes};
  }
};
// Without a sanitizer the program defines malloc and its variants itself, over glibc's. A sanitizer
// has its own, and reports each call through a hook. Operator new is the program's in either case,
// and the linker wraps mmap.
Allocations AllocationsOfThisThread();

}  // namespace janus
