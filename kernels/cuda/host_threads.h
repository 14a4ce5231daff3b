#pragma once

// The threads of the host form as the thread sanitizer sees them. They run one after the other
// (block.h). Under -fsanitize=thread each of them is still a separate thread for the sanitizer (a
// fiber, in its words), and only barriers order the accesses of one before those of another. If two
// threads touch a word without a barrier between, and one of them writes, the sanitizer reports it,
// whatever the result. In any other build all of this is empty.
//
//   HostFork fork;                   // a phase's threads see everything that was done before
//   fork.Run(threads.of(i), fn, i);  // fn(i)
//   fork.Join();                     // the code that follows sees what they did
//
// The block's first thread runs the code between phases, and a warp's first lane the code between
// its steps. Copies and wgmma read and write from when they are issued until they are waited for:
// the sanitizer sees each group of them as a separate thread.
//
// The sanitizer tells some 250 threads apart. One launch uses them in turns: as the threads of a
// block (above 240 threads, neighbours count as one), then as the warps of up to 16 unordered
// blocks.
//
// The sanitizer does not see
//   - accesses of single lanes in operations of the warp (Ballot, Exchange, ldmatrix), which count
//     as accesses of the warp's first lane;
//   - a word that code between phases reads without Uniform;
//   - that Threads of a warpgroup orders no two warps;
//   - registers that wgmma writes, which host_products.h watches.

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_THREAD__)
#define JANUS_TELLS_THREADS_APART
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define JANUS_TELLS_THREADS_APART
#endif
#endif

#ifdef JANUS_TELLS_THREADS_APART
#include <sanitizer/tsan_interface.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "common/check.h"

// Functions of the sanitizer's runtime that compilers call; no header declares them.
extern "C" {
void __tsan_read_range(void* address, unsigned long bytes);
void __tsan_write_range(void* address, unsigned long bytes);
void __tsan_ignore_thread_begin();
void __tsan_ignore_thread_end();
}
// A function with accesses that the sanitizer does not see.
#define JANUS_UNSEEN __attribute__((no_sanitize("thread"), noinline))
// The part of such a function that switches threads. It is inlined: if one thread entered a
// function and another left it, the call stacks of both would be wrong.
#define JANUS_SWITCHES __attribute__((no_sanitize("thread"), always_inline))
#else
#define JANUS_UNSEEN
#endif

namespace janus::kernels::cuda {

// How often something happened, counted by any thread.
JANUS_UNSEEN inline void Count(int64_t& counter) {
  ++counter;
}

#ifdef JANUS_TELLS_THREADS_APART

// What was done before Give is visible after Take. Each signal has a separate address, which the
// sanitizer forgets when it is freed.
class HostSignal {
 public:
  HostSignal() : word_(new char(0)) {}
  ~HostSignal() { delete word_; }
  HostSignal(const HostSignal&) = delete;
  HostSignal& operator=(const HostSignal&) = delete;
  JANUS_UNSEEN void Give() { __tsan_release(word_); }
  JANUS_UNSEEN void Take() { __tsan_acquire(word_); }

 private:
  char* word_;
};
// The same by a word of the kernel's, of which both name the address.
inline void GiveBy(void* word) {
  __tsan_release(word);
}
inline void TakeBy(void* word) {
  __tsan_acquire(word);
}

// While one exists the sanitizer sees no accesses: they touch the host form's own data, or belong
// to an engine, which reports them itself.
class HostAside {
 public:
  HostAside() { __tsan_ignore_thread_begin(); }
  ~HostAside() { __tsan_ignore_thread_end(); }
  HostAside(const HostAside&) = delete;
  HostAside& operator=(const HostAside&) = delete;
};

class HostThread {
 public:
  using Call = void (*)(void* step, void* fn, int64_t i);

  HostThread() : fiber_(__tsan_create_fiber(0)) {
    void* const memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    JANUS_CHECK(memory != MAP_FAILED, kBytes);
    stack_ = static_cast<unsigned char*>(memory);
    JANUS_CHECK(mprotect(stack_, kGuardBytes, PROT_NONE) == 0, kGuardBytes);
  }
  ~HostThread() {
    munmap(stack_, kBytes);
    __tsan_destroy_fiber(fiber_);
  }
  HostThread(const HostThread&) = delete;
  HostThread& operator=(const HostThread&) = delete;

  // call(step, fn, i) as this thread; all three in registers, since its caller wrote them after
  // what the thread may know of.
  JANUS_UNSEEN void Run(Call call, void* step, void* fn, int64_t i) {
    void* const caller = __tsan_get_current_fiber();
    if (caller == fiber_) {
      call(step, fn, i);
      return;
    }
    __tsan_switch_to_fiber(fiber_, __tsan_switch_to_fiber_no_sync);
    CallOnStack(stack_ + kBytes, call, step, fn, i);
    __tsan_switch_to_fiber(caller, __tsan_switch_to_fiber_no_sync);
  }

 private:
  static constexpr size_t kBytes = 256 << 10;
  static constexpr size_t kGuardBytes = 4 << 10;

  // Returns before another thread runs on it, so another stack pointer is enough.
  JANUS_UNSEEN static void CallOnStack(unsigned char* top, Call call, void* step, void* fn,
                                       int64_t i) {
    asm volatile(
        "movq %%rsp, %%rbx\n"
        "movq %[top], %%rsp\n"
        "callq *%[call]\n"
        "movq %%rbx, %%rsp\n"
        : "+D"(step), "+S"(fn), "+d"(i), [top] "+r"(top), [call] "+r"(call)
        :
        : "rax", "rbx", "rcx", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",
          "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
          "xmm15", "memory", "cc");
  }

  void* fiber_;
  unsigned char* stack_ = nullptr;
};

// A phase or a step, which threads take side by side.
class HostFork {
 public:
  HostFork() { begin_.Give(); }

  // fn(i) on a thread; fn was made before the fork.
  template <class Fn>
  JANUS_UNSEEN void Run(HostThread& thread, Fn& fn, int64_t i) {
    thread.Run(&Step<Fn>, this, const_cast<void*>(static_cast<const void*>(&fn)), i);
  }
  void Join() { end_.Take(); }

 private:
  template <class Fn>
  JANUS_UNSEEN static void Step(void* fork, void* fn, int64_t i) {
    auto* const self = static_cast<HostFork*>(fork);
    self->begin_.Take();
    (*static_cast<Fn*>(fn))(static_cast<int>(i));
    self->end_.Give();
  }

  HostSignal begin_;
  HostSignal end_;
};

// An engine reads and writes beside the threads: a copy, or wgmma. It sees what was done before it
// was issued. A thread that has waited for it sees what it did.
class HostEngine {
 public:
  HostEngine() : fiber_(__tsan_create_fiber(0)) {
    __tsan_set_fiber_name(fiber_, "asynchronous copy or product");
  }
  ~HostEngine() { __tsan_destroy_fiber(fiber_); }
  HostEngine(const HostEngine&) = delete;
  HostEngine& operator=(const HostEngine&) = delete;

  void Tell() { told_.Give(); }
  JANUS_UNSEEN void Copies(void* to, const void* from, bool read, size_t bytes) {
    void* const caller = Begin();
    __tsan_write_range(to, bytes);
    if (read) __tsan_read_range(const_cast<void*>(from), bytes);
    End(caller);
  }
  // piece(i) for i below `count`, of as many bytes.
  template <class Piece>
  void Reads(int count, size_t bytes, Piece piece) {
    const HostAside aside;
    std::vector<const unsigned char*> pieces;
    for (int i = 0; i < count; ++i) pieces.push_back(piece(i));
    ReadAll(pieces.data(), count, bytes);
  }
  JANUS_UNSEEN void Await() {
    void* const caller = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber_, __tsan_switch_to_fiber_no_sync);
    done_.Give();
    End(caller);
    done_.Take();
  }

 private:
  JANUS_UNSEEN void ReadAll(const unsigned char* const* pieces, int count, size_t bytes) {
    void* const caller = Begin();
    for (int i = 0; i < count; ++i) {
      __tsan_read_range(const_cast<unsigned char*>(pieces[i]), bytes);
    }
    End(caller);
  }
  JANUS_SWITCHES void* Begin() {
    void* const caller = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber_, __tsan_switch_to_fiber_no_sync);
    told_.Take();
    return caller;
  }
  JANUS_SWITCHES static void End(void* caller) {
    __tsan_switch_to_fiber(caller, __tsan_switch_to_fiber_no_sync);
  }

  void* fiber_;
  HostSignal told_;
  HostSignal done_;
};

// The sanitizer has 255 places for threads and engines. If there are more, it drops the oldest.
inline constexpr int kMostFibers = 250;

// Of a host thread, for blocks that take them as they first use them: most kernels need none, and
// places are few.
class HostEngines {
 public:
  int taken() const { return taken_; }
  void TakeBack() { taken_ = 0; }
  // The first of `count`.
  const std::unique_ptr<HostEngine>* Take(int count) {
    const HostAside aside;
    JANUS_CHECK(taken_ + count <= kMostFibers, taken_, count);
    auto* const first = &all_[static_cast<size_t>(taken_)];
    taken_ += count;
    for (int i = 0; i < count; ++i) {
      if (first[i] == nullptr) first[i] = std::make_unique<HostEngine>();
    }
    return first;
  }

 private:
  std::array<std::unique_ptr<HostEngine>, kMostFibers> all_;
  int taken_ = 0;
};

// Those of one block.
class HostThreads {
 public:
  // More groups of copies, or of a warpgroup's products, that are under way share an engine.
  static constexpr int kCopying = 8;
  static constexpr int kMultiplying = 8;
  static constexpr int kMostWarpgroups = 1024 / 128;
  static constexpr int MostEngines(int threads) { return kCopying + threads / 128 * kMultiplying; }

  // Of `at_once` neighbours, which are one thread to the sanitizer.
  HostThreads(const std::unique_ptr<HostThread>* threads, int at_once, HostEngines* engines)
      : threads_(threads), at_once_(at_once), engines_(engines) {}
  HostThread& of(int thread) const { return *threads_[thread / at_once_]; }
  // Of a group, by how many came before it.
  HostEngine& copying(int64_t group) { return *Of(copying_, kCopying)[group % kCopying]; }
  HostEngine& multiplying(int warpgroup, int64_t group) {
    return *Of(multiplying_[warpgroup], kMultiplying)[group % kMultiplying];
  }

 private:
  using Engines = const std::unique_ptr<HostEngine>*;
  JANUS_UNSEEN Engines Of(Engines& of_kind, int count) {
    if (of_kind == nullptr) of_kind = engines_->Take(count);
    return of_kind;
  }

  const std::unique_ptr<HostThread>* threads_;
  int at_once_;
  HostEngines* engines_;
  Engines copying_ = nullptr;
  Engines multiplying_[kMostWarpgroups] = {};
};

// fn(i, threads) for i below `blocks`, each a block that no order ties to the others.
class HostBlocks {
 public:
  // `seed`: of the order in which it is done.
  template <class Fn>
  static void Run(int64_t blocks, int threads, uint64_t seed, Fn fn) {
    static thread_local HostBlocks of_this_thread;
    of_this_thread.RunAll(blocks, threads, blocks == 1 || seed % 2 == 0, fn);
  }

 private:
  static constexpr int kMostThreads = 240;
  static constexpr int kWarp = 32;
  static constexpr int64_t kMostBlocks = 16;  // side by side

  template <class Fn>
  void RunAll(int64_t blocks, int threads, bool by_lanes, Fn& fn) {
    for (int64_t first = 0; first < blocks; by_lanes = !by_lanes) {
      int at_once = by_lanes ? 1 : kWarp;
      while (threads / at_once > kMostThreads) at_once *= 2;
      const int of_block = threads / at_once;
      const int64_t most =
          std::clamp<int64_t>(kMostFibers / of_block, 1, std::min(kMostBlocks, blocks - first));
      Make(most * of_block);
      engines_.TakeBack();
      std::vector<HostThreads> side_by_side;
      for (int64_t i = 0; i < most; ++i) {
        side_by_side.emplace_back(&threads_[static_cast<size_t>(i * of_block)], at_once, &engines_);
      }
      const auto run = [&](int64_t i) { fn(first + i, side_by_side[static_cast<size_t>(i)]); };
      const auto fits = [&](int64_t count) {
        return count * of_block + engines_.taken() + HostThreads::MostEngines(threads) <=
               kMostFibers;
      };
      HostFork fork;
      int64_t count = 0;
      do {
        fork.Run(side_by_side[static_cast<size_t>(count)].of(0), run, count);
        ++count;
      } while (count < most && fits(count + 1));
      fork.Join();
      first += count;
    }
  }

  // The first `count`. Fibers are expensive to make, so they are kept.
  void Make(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      auto& one = threads_[static_cast<size_t>(i)];
      if (one == nullptr) one = std::make_unique<HostThread>();
    }
  }

  std::array<std::unique_ptr<HostThread>, kMostFibers> threads_;
  HostEngines engines_;
};

#else

class HostAside {
 public:
  HostAside() {}  // with a body: not an unused variable
};
inline void GiveBy(void*) {}
inline void TakeBy(void*) {}

class HostThread {};
class HostFork {
 public:
  template <class Fn>
  void Run(HostThread, Fn& fn, int64_t i) {
    fn(static_cast<int>(i));
  }
  void Join() {}
};
class HostEngine {
 public:
  void Tell() {}
  void Copies(void*, const void*, bool, size_t) {}
  template <class Piece>
  void Reads(int, size_t, Piece) {}
  void Await() {}
};
class HostThreads {
 public:
  static constexpr int kMultiplying = 0;
  HostThread of(int) const { return {}; }
  HostEngine copying(int64_t) { return {}; }
  HostEngine multiplying(int, int64_t) { return {}; }
};
class HostBlocks {
 public:
  template <class Fn>
  static void Run(int64_t blocks, int, uint64_t, Fn fn) {
    for (int64_t i = 0; i < blocks; ++i) fn(i, HostThreads());
  }
};

#endif

}  // namespace janus::kernels::cuda
