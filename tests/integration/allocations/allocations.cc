#include "tests/integration/allocations/allocations.h"

#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define JANUS_HOOKED_MALLOC 1
#endif
#endif

namespace {

constinit thread_local janus::Allocations count;

void Note(size_t bytes) {
  ++count.ours;
  count.bytes += bytes;
}

void* New(size_t bytes) {
  Note(bytes);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void* New(size_t bytes, std::align_val_t alignment) {
  Note(bytes);
  void* memory = nullptr;
  const size_t at_least = std::max(static_cast<size_t>(alignment), sizeof(void*));
  if (posix_memalign(&memory, at_least, bytes) == 0) return memory;
  throw std::bad_alloc();
}

}  // namespace

janus::Allocations janus::AllocationsOfThisThread() {
  return count;
}

extern "C" {

void* RealMmap(void* at, size_t bytes, int protection, int flags, int fd,
               off_t offset) asm("__real_mmap");
void* WrappedMmap(void* at, size_t bytes, int protection, int flags, int fd,
                  off_t offset) asm("__wrap_mmap");

void* WrappedMmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  count.bytes += bytes;
  return RealMmap(at, bytes, protection, flags, fd, offset);
}

}  // extern "C"

void* operator new(size_t bytes) {
  return New(bytes);
}
void* operator new[](size_t bytes) {
  return New(bytes);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return New(bytes, alignment);
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return New(bytes, alignment);
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  Note(bytes);
  return std::malloc(bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  Note(bytes);
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

#ifdef JANUS_HOOKED_MALLOC

#include <sanitizer/allocator_interface.h>

namespace {

[[maybe_unused]] const int installed = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, size_t) { ++count.all; }, [](const volatile void*) {});

}  // namespace

#else

extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  ++count.all;
  return __libc_malloc(bytes);
}
void* calloc(size_t number, size_t bytes) {
  ++count.all;
  return __libc_calloc(number, bytes);
}
void* realloc(void* memory, size_t bytes) {
  ++count.all;
  return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  ++count.all;
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  ++count.all;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  ++count.all;
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

}  // extern "C"

#endif
