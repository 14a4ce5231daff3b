#pragma once

// Kernels are written against this file: one block of threads runs a sequence of phases with a
// barrier after each. A kernel is a struct with its arguments and
//
//   static constexpr int kThreads = 128;                        // of a block
//   template <class Block> JANUS_DEVICE void operator()(Block& block) const;
//
// It is compiled twice: by nvcc over DeviceBlock, and by the host's compiler over HostBlock, which
// runs the threads of a phase one after the other in an order drawn from a seed. If two threads of
// a phase touch the same word and one of them writes, some orders give other results, and the
// thread sanitizer reports it in every order (host_threads.h). The address sanitizer finds wrong
// indices. So kernels are compared with the specification, and searched for races, on machines
// without a GPU.
//
// The rules that make the two forms one:
//   1. What a thread keeps from one phase to the next lies in a PerThread.
//   2. Code between phases is the same for all threads of a block. It reads arguments and memory
//      that the block does not write, or takes words of shared memory through block.Uniform.
//   3. Threads of a phase share words only by Block::Add and Block::Or on integers, where the order
//      does not change the result.
//   4. Blocks run in any order and know nothing of each other. Only the block for which IsLast
//      returns true may read what the others wrote, and only after that call.
//   5. The data of a CopyAsync can be read after the wait of CopyingWarps for its group, not
//      before. Its source must not change until then.
//   6. Warpgroups of 128 threads multiply by wgmma (wgmma.h) in their own parts of a block,
//      CopyingGroups. What a thread writes to shared memory is visible to wgmma only after the end
//      of a CopyingGroups.

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define JANUS_DEVICE __device__
#define JANUS_UNROLL _Pragma("unroll")
#define JANUS_KEEP_LOOP _Pragma("unroll 1")
#else
#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <random>
#include <type_traits>
#include <vector>

#include "common/check.h"
#include "kernels/cuda/host_products.h"
#include "kernels/cuda/host_threads.h"
#define JANUS_DEVICE
#define JANUS_UNROLL
#define JANUS_KEEP_LOOP
#endif

namespace janus::kernels::cuda {

// The most bytes of shared memory that a block has without asking for more, on every architecture;
// and the most that it may ask for (start.h) on sm_80 and later, where sm_86 has the least.
inline constexpr int64_t kMaxSharedBytes = 48 << 10;
inline constexpr int64_t kMaxAskedSharedBytes = 99 << 10;
// The most that it may ask for on sm_90 and sm_100. If a kernel needs more than
// kMaxAskedSharedBytes, another kernel replaces it on other architectures.
inline constexpr int64_t kMostSharedBytes = 227 << 10;

inline constexpr int kCopyBytes = 16;  // of one CopyAsync
inline constexpr int kWordBytes = 4;   // of one CopyWordAsync

inline constexpr int kLanes = 32;          // of a warp
inline constexpr int kGroupThreads = 128;  // of a warpgroup

// The alignment of shared memory; the swizzled matrices of wgmma need it.
inline constexpr int kSharedAlignment = 1024;

#ifdef __CUDACC__

// A word for each thread, which it keeps over the phases of its block.
template <class T, int kThreads>
class PerThread {
 public:
  __device__ T& operator[](int) { return value_; }

 private:
  T value_{};
};

// A word for each lane, which it keeps over the steps of its warp.
template <class T>
using PerLane = PerThread<T, kLanes>;

// See warp.h. Each phase reads the thread's number again. So values that depend on it, mainly
// addresses, are computed where they are used and take no registers over loops of phases.
class DeviceWarp {
 public:
  __device__ DeviceWarp() { asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread_)); }
  // Among the block's warps.
  __device__ int index() const { return thread_ / kLanes; }
  // For what all lanes do together (tensor.h).
  __device__ int lane() const { return thread_ % kLanes; }

  // fn(lane) on every lane. The barrier behind it orders what the step wrote before what later
  // steps of the warp read.
  template <class Fn>
  __device__ void Lanes(Fn fn) {
    fn(lane());
    __syncwarp();
  }
  template <class T>
  __device__ T Uniform(const T& word) {
    const T value = word;
    __syncwarp();
    return value;
  }
  template <class Fn>
  __device__ uint32_t Ballot(Fn fn) {
    return __ballot_sync(kAll, fn(lane()));
  }
  template <class Fn>
  __device__ uint32_t Min(Fn fn) {
    return __reduce_min_sync(kAll, fn(lane()));
  }
  template <class Fn>
  __device__ uint32_t Max(Fn fn) {
    return __reduce_max_sync(kAll, fn(lane()));
  }
  // fn(from), as that lane has it.
  template <class Fn>
  __device__ uint32_t Shuffle(int from, Fn fn) {
    return __shfl_sync(kAll, fn(lane()), from);
  }
  // to(lane, peers) with the lanes on which fn is what it is here.
  template <class Fn, class To>
  __device__ void Match(Fn fn, To to) {
    const uint32_t peers = __match_any_sync(kAll, static_cast<uint32_t>(fn(lane())));
    to(lane(), peers);
  }
  // to(lane, x) with x what fn(lane ^ mask) is there.
  template <class Fn, class To>
  __device__ void Exchange(int mask, Fn fn, To to) {
    const auto theirs = __shfl_xor_sync(kAll, fn(lane()), mask);
    to(lane(), theirs);
  }

 private:
  static constexpr unsigned kAll = 0xFFFFFFFFu;
  int thread_;
};

// Four warps that multiply together. Code that each thread runs alone stands in Threads.
class DeviceGroup {
 public:
  __device__ DeviceGroup() {
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread_));
    index_ =
        __shfl_sync(0xFFFFFFFFu, thread_ / kGroupThreads, 0);  // alike, as the compiler sees it
  }
  // Among the block's warpgroups.
  __device__ int index() const { return index_; }
  __device__ int thread() const { return thread_; }

  // fn(thread) on every thread of it, by its number in the block; no barrier of the block.
  template <class Fn>
  __device__ void Threads(Fn fn) {
    fn(thread_);
    __syncwarp();  // warp-wide operations that follow need all lanes here
  }
  // to(thread, x): x is the value of fn on the thread with lane number lane ^ mask.
  template <class Fn, class To>
  __device__ void Exchange(int mask, Fn fn, To to) {
    const auto theirs = __shfl_xor_sync(0xFFFFFFFFu, fn(thread_), mask);
    to(thread_, theirs);
  }
  __device__ uint32_t SharedAddress(const void* in_shared) const {
    return static_cast<uint32_t>(__cvta_generic_to_shared(in_shared));
  }

 private:
  int thread_;
  int index_;
};

extern __shared__ __align__(kSharedAlignment) unsigned char janus_shared_memory[];

class DeviceBlock {
 public:
  __device__ explicit DeviceBlock(int64_t blocks) : blocks_(blocks) {}
  __device__ int64_t index() const { return blockIdx.x; }
  __device__ int64_t blocks() const { return blocks_; }
  // Begins at a multiple of kSharedAlignment; as large as the plan said, its content unknown.
  __device__ unsigned char* shared() const { return janus_shared_memory; }

  // fn(thread) on every thread. The barrier behind it orders what the phase wrote, to shared and to
  // global memory, before what later phases of the block read.
  template <class Fn>
  __device__ void Phase(Fn fn) {
    fn(static_cast<int>(threadIdx.x));
    __syncthreads();
  }
  // fn(warp) on every warp (warp.h), and the same barrier.
  template <class Fn>
  __device__ void Warps(Fn fn) {
    DeviceWarp warp;
    fn(warp);
    __syncthreads();
  }
  // As Warps. The copies that fn starts are one group. Before the barrier every thread waits until
  // at most the kPending newest groups are in flight. The data of the others is visible to all.
  template <int kPending, class Fn>
  __device__ void CopyingWarps(Fn fn) {
    DeviceWarp warp;
    fn(warp);
    asm volatile("cp.async.commit_group;\ncp.async.wait_group %0;" ::"n"(kPending) : "memory");
    __syncthreads();
  }
  // As CopyingWarps, on every warpgroup. In the next CopyingGroups wgmma sees what threads wrote,
  // and the data of the copies that were waited for.
  template <int kPending, class Fn>
  __device__ void CopyingGroups(Fn fn) {
    DeviceGroup group;
    fn(group);
    AwaitCopies<kPending>();
    __syncthreads();
  }
  // Runs `steps` + kLag CopyingGroups. Each warpgroup calls work(group, step, state) in `steps`
  // consecutive ones, kLag later than the warpgroup before it, and idle(group, turn, state) in the
  // others. If kLag is not 0 there are two warpgroups. Each has its own copy of `state`.
  //
  // The loop exists once, without a branch around products: with a branch the compiler would lose
  // track of their registers. So warpgroups meet at barriers that stand at different places of the
  // code. bar.sync allows this as long as all lanes of a warp are at the same place.
  template <int kPending, int kLag, class State, class Work, class Idle>
  __device__ void LaggingGroups(int steps, State state, Work work, Idle idle) {
    const int behind = kLag == 0 ? 0 : kLag * DeviceGroup().index();
    JANUS_KEEP_LOOP
    for (int turn = 0; turn < behind; ++turn) IdleTurn<kPending>(turn, state, idle);
    JANUS_KEEP_LOOP
    for (int step = 0; step < steps; ++step) {
      DeviceGroup group;
      work(group, step, state);
      AwaitCopies<kPending>();
      asm volatile("bar.sync 0;" ::: "memory");
    }
    JANUS_KEEP_LOOP
    for (int turn = steps + behind; turn < steps + kLag; ++turn) {
      IdleTurn<kPending>(turn, state, idle);
    }
  }
  // Inside CopyingWarps and CopyingGroups: copies kCopyBytes from global to shared memory, past the
  // registers. Both addresses are multiples of kCopyBytes. Unless `read`, it writes zeros and does
  // not touch `from`.
  __device__ static void CopyAsync(void* to, const void* from, bool read) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(
                     static_cast<uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(from), "r"(read ? kCopyBytes : 0)
                 : "memory");
  }
  // The same of kWordBytes.
  __device__ static void CopyWordAsync(void* to, const void* from, bool read) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
                     static_cast<uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(from), "r"(read ? kWordBytes : 0)
                 : "memory");
  }
  // A word of shared memory for code between phases. The barrier keeps a fast thread from changing
  // it, in the next phase, before a slow one has read it.
  template <class T>
  __device__ T Uniform(const T& word) {
    const T value = word;
    __syncthreads();
    return value;
  }
  // Between phases, once a launch: whether all other blocks have called it already. Later phases of
  // this block then see what theirs wrote. *arrived is 0 when the launch begins.
  __device__ bool IsLast(uint32_t* arrived) const {
    int is_last = 0;
    if (threadIdx.x == 0) {
      // The fences are cumulative: with the barriers round them they are those of the whole block.
      __threadfence();
      is_last = atomicAdd(arrived, 1u) == static_cast<uint32_t>(blocks_ - 1) ? 1 : 0;
      __threadfence();
    }
    return __syncthreads_or(is_last) != 0;
  }
  __device__ static void Add(uint32_t& word, uint32_t value) { atomicAdd(&word, value); }
  __device__ static void Add(unsigned long long& word, unsigned long long value) {
    atomicAdd(&word, value);
  }
  __device__ static void Or(uint32_t& word, uint32_t value) { atomicOr(&word, value); }
  // As Or, for words where most bits are set already: then it is a read, not an atomic operation
  // that waits for others.
  __device__ static void OrOnce(uint32_t& word, uint32_t value) {
    if ((*static_cast<volatile uint32_t*>(&word) & value) != value) atomicOr(&word, value);
  }

 private:
  // Waits for the thread's own copies. wgmma sees their data after the next barrier.
  template <int kPending>
  __device__ static void AwaitCopies() {
    asm volatile("cp.async.commit_group;\ncp.async.wait_group %0;" ::"n"(kPending) : "memory");
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
  }
  template <int kPending, class State, class Idle>
  __device__ static void IdleTurn(int turn, State& state, Idle idle) {
    DeviceGroup group;
    idle(group, turn, state);
    AwaitCopies<kPending>();
    asm volatile("bar.sync 0;" ::: "memory");
  }

  int64_t blocks_;
};

#else

template <class T, int kThreads>
class PerThread {
 public:
  PerThread() : values_(kThreads) {}
  T& operator[](int thread) { return values_[static_cast<size_t>(thread)]; }

 private:
  std::vector<T> values_;
};

template <class T>
using PerLane = PerThread<T, kLanes>;

// fn(i) for i below `count` in a rotation and a direction that `random` draws. This is cheap, and
// of any two calls, each comes first in some order.
template <class Fn>
void InAnyOrder(std::minstd_rand& random, int count, Fn fn) {
  const uint64_t draw = random();
  const int first = static_cast<int>(draw / 2 % static_cast<uint64_t>(count));
  const bool backwards = draw % 2 != 0;
  for (int i = 0; i < count; ++i) {
    const int at = (first + i) % count;
    fn(backwards ? count - 1 - at : at);
  }
}

class HostWarp {
 public:
  HostWarp(int index, uint64_t seed, const HostThreads& seen)
      : index_(index), random_(seed), seen_(seen) {}
  int index() const { return index_; }

  template <class Fn>
  void Lanes(Fn fn) {
    Together();
    inside_ = true;
    HostFork fork;
    InAnyOrder(random_, kLanes,
               [&](int lane) { fork.Run(seen_.of(index_ * kLanes + lane), fn, lane); });
    fork.Join();
    inside_ = false;
  }
  template <class T>
  T Uniform(const T& word) {
    Together();
    return word;
  }
  template <class Fn>
  uint32_t Ballot(Fn fn) {
    uint32_t word = 0;
    Each(fn, [&](int lane, bool value) { word |= static_cast<uint32_t>(value) << lane; });
    return word;
  }
  template <class Fn>
  uint32_t Min(Fn fn) {
    uint32_t least = ~0u;
    Each(fn, [&](int, uint32_t value) { least = std::min(least, value); });
    return least;
  }
  template <class Fn>
  uint32_t Max(Fn fn) {
    uint32_t most = 0;
    Each(fn, [&](int, uint32_t value) { most = std::max(most, value); });
    return most;
  }
  // A single lane cannot run an operation of the warp: the GPU would wait for the others.
  void Together() const { JANUS_CHECK(!inside_, index_); }
  // The other lanes run fn too, as they do on the device.
  template <class Fn>
  uint32_t Shuffle(int from, Fn fn) {
    JANUS_CHECK(from >= 0 && from < kLanes, from);
    uint32_t taken = 0;
    Each(fn, [&](int lane, uint32_t value) { taken = lane == from ? value : taken; });
    return taken;
  }
  template <class Fn, class To>
  void Match(Fn fn, To to) {
    uint32_t of[kLanes];
    Each(fn, [&](int lane, uint32_t value) { of[lane] = value; });
    for (int lane = 0; lane < kLanes; ++lane) {
      uint32_t peers = 0;
      for (int other = 0; other < kLanes; ++other) {
        peers |= static_cast<uint32_t>(of[other] == of[lane]) << other;
      }
      to(lane, peers);
    }
  }
  template <class Fn, class To>
  void Exchange(int mask, Fn fn, To to) {
    JANUS_CHECK(mask > 0 && mask < kLanes, mask);
    std::remove_cvref_t<decltype(fn(0))> of[kLanes];
    Each(fn, [&](int lane, auto value) { of[lane] = value; });
    for (int lane = 0; lane < kLanes; ++lane) to(lane, of[lane ^ mask]);
  }

 private:
  template <class Fn, class Take>
  void Each(Fn fn, Take take) {
    Together();
    inside_ = true;
    InAnyOrder(random_, kLanes, [&](int lane) { take(lane, fn(lane)); });
    inside_ = false;
  }

  int index_;
  std::minstd_rand random_;
  const HostThreads& seen_;
  bool inside_ = false;
};

class HostGroup {
 public:
  HostGroup(int index, uint64_t seed, HostProducts& products, const HostThreads& seen)
      : index_(index), random_(seed), products_(products), seen_(seen) {}
  int index() const { return index_; }

  template <class Fn>
  void Threads(Fn fn) {
    Together();
    products_.Touch();
    inside_ = true;
    HostFork fork;
    InAnyOrder(random_, kGroupThreads, [&](int at) {
      const int thread = index_ * kGroupThreads + at;
      fork.Run(seen_.of(thread), fn, thread);
    });
    fork.Join();
    inside_ = false;
  }
  template <class Fn, class To>
  void Exchange(int mask, Fn fn, To to) {
    Together();
    products_.Touch();
    JANUS_CHECK(mask > 0 && mask < kLanes, mask);
    const int first = index_ * kGroupThreads;
    std::remove_cvref_t<decltype(fn(0))> of[kGroupThreads];
    inside_ = true;
    for (int at = 0; at < kGroupThreads; ++at) of[at] = fn(first + at);
    for (int at = 0; at < kGroupThreads; ++at) to(first + at, of[at ^ mask]);
    inside_ = false;
  }
  uint32_t SharedAddress(const void* in_shared) const { return products_.AddressOf(in_shared); }
  void Together() const { JANUS_CHECK(!inside_, index_); }
  // For wgmma.h.
  HostProducts& products() { return products_; }
  std::minstd_rand& random() { return random_; }

 private:
  int index_;
  std::minstd_rand random_;
  HostProducts& products_;
  const HostThreads& seen_;
  bool inside_ = false;
};

// How many copies of CopyAsync in this thread read something.
inline thread_local int64_t host_copies = 0;
inline thread_local int64_t host_word_copies = 0;  // of CopyWordAsync

class HostBlock {
 public:
  HostBlock(int64_t index, int64_t blocks, int threads, unsigned char* shared, int64_t shared_bytes,
            uint64_t seed, const HostThreads& seen)
      : index_(index),
        blocks_(blocks),
        threads_(threads),
        shared_(shared),
        shared_bytes_(shared_bytes),
        random_(seed),
        seen_(seen) {
    for (int i = 0; i < threads / kGroupThreads; ++i) {
      products_.emplace_back(shared, shared_bytes, i, seen_);
    }
  }
  ~HostBlock() {
    for (const HostProducts& of_group : products_) JANUS_CHECK(of_group.AreDone(), index_);
  }
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;
  int64_t index() const { return index_; }
  int64_t blocks() const { return blocks_; }
  unsigned char* shared() const { return shared_; }

  template <class Fn>
  void Phase(Fn fn) {
    Begin();
    HostFork fork;
    InAnyOrder(random_, threads_, [&](int thread) { fork.Run(seen_.of(thread), fn, thread); });
    fork.Join();
    inside_ = false;
  }
  template <class Fn>
  void Warps(Fn fn) {
    Begin();
    const uint64_t seed = random_();
    const auto of_warp = [&](int index) {
      HostWarp warp(index, seed + static_cast<uint64_t>(index), seen_);
      fn(warp);
    };
    InAnyOrderOf(kLanes, of_warp);
    inside_ = false;
  }
  // A copy writes its data when it is waited for. Until then its place holds NaN.
  template <int kPending, class Fn>
  void CopyingWarps(Fn fn) {
    Warps(fn);
    WaitForCopies(kPending);
  }
  template <int kPending, class Fn>
  void CopyingGroups(Fn fn) {
    Together();
    JANUS_CHECK(threads_ % kGroupThreads == 0, threads_);
    inside_ = true;
    const uint64_t seed = random_();
    const auto of_group = [&](int index) {
      HostGroup group(index, seed + static_cast<uint64_t>(index),
                      products_[static_cast<size_t>(index)], seen_);
      fn(group);
    };
    InAnyOrderOf(kGroupThreads, of_group);
    inside_ = false;
    WaitForCopies(kPending);
    for (HostProducts& products : products_) products.PassBarrier();
  }
  template <int kPending, int kLag, class State, class Work, class Idle>
  void LaggingGroups(int steps, State state, Work work, Idle idle) {
    const auto groups = static_cast<size_t>(threads_ / kGroupThreads);
    JANUS_CHECK(kLag == 0 || groups == 2, groups);
    std::vector<State> states(groups, state);
    for (int turn = 0; turn < steps + kLag; ++turn) {
      CopyingGroups<kPending>([&](HostGroup& group) {
        const int step = turn - kLag * group.index();
        State& own = states[static_cast<size_t>(group.index())];
        if (step >= 0 && step < steps) {
          work(group, step, own);
        } else {
          idle(group, turn, own);
        }
      });
    }
  }
  void CopyAsync(void* to, const void* from, bool read) {
    StartCopy<kCopyBytes>(to, from, read);
    if (read) Count(host_copies);
  }
  void CopyWordAsync(void* to, const void* from, bool read) {
    StartCopy<kWordBytes>(to, from, read);
    if (read) Count(host_word_copies);
  }
  template <class T>
  T Uniform(const T& word) {
    Together();
    return word;
  }
  bool IsLast(uint32_t* arrived) const {
    Together();
    GiveBy(arrived);
    const uint32_t before = std::atomic_ref(*arrived).fetch_add(1, std::memory_order_relaxed);
    const bool is_last = before == static_cast<uint32_t>(blocks_ - 1);
    if (is_last) TakeBy(arrived);
    return is_last;
  }
  template <class T>
  static void Add(T& word, T value) {
    std::atomic_ref(word).fetch_add(value, std::memory_order_relaxed);
  }
  static void Or(uint32_t& word, uint32_t value) {
    std::atomic_ref(word).fetch_or(value, std::memory_order_relaxed);
  }
  static void OrOnce(uint32_t& word, uint32_t value) { Or(word, value); }

 private:
  struct Copy {
    unsigned char* to;
    const void* from;
    bool read;
    size_t bytes;
  };
  using Group = std::vector<Copy>;
  template <int kBytes>
  void StartCopy(void* to, const void* from, bool read) {
    auto* const bytes = static_cast<unsigned char*>(to);
    JANUS_CHECK(inside_, index_);
    JANUS_CHECK(bytes >= shared_ && bytes + kBytes <= shared_ + shared_bytes_, index_);
    JANUS_CHECK((bytes - shared_) % kBytes == 0, index_);
    JANUS_CHECK(reinterpret_cast<uintptr_t>(from) % kBytes == 0, index_);
    std::memset(to, 0xFF, kBytes);
    auto&& engine = seen_.copying(waits_);
    engine.Tell();
    engine.Copies(to, from, read, kBytes);
    const HostAside aside;
    group_.push_back({bytes, from, read, kBytes});
  }
  // The code that begins here may write to shared memory, which wgmma does not see yet.
  void Begin() {
    Together();
    inside_ = true;
    for (HostProducts& of_group : products_) of_group.HideShared();
  }
  // fn(i) on the first of every `threads` threads, for what these do together.
  template <class Fn>
  void InAnyOrderOf(int threads, const Fn& fn) {
    HostFork fork;
    InAnyOrder(random_, threads_ / threads, [&](int i) { fork.Run(seen_.of(i * threads), fn, i); });
    fork.Join();
  }
  void WaitForCopies(size_t pending) {
    ++waits_;
    const HostAside aside;
    under_way_.push_back(std::move(group_));
    group_.clear();
    for (; under_way_.size() > pending; under_way_.pop_front()) {
      if (under_way_.front().empty()) continue;
      seen_.copying(waits_ - static_cast<int64_t>(under_way_.size())).Await();
      for (const Copy& copy : under_way_.front()) {
        if (copy.read) {
          std::memcpy(copy.to, copy.from, copy.bytes);
        } else {
          std::memset(copy.to, 0, copy.bytes);
        }
      }
    }
  }
  // A thread alone cannot pass the block's barriers.
  void Together() const { JANUS_CHECK(!inside_, index_); }

  int64_t index_;
  int64_t blocks_;
  int threads_;
  unsigned char* shared_;
  int64_t shared_bytes_;
  std::minstd_rand random_;
  HostThreads seen_;  // the block's threads, as the thread sanitizer sees them
  int64_t waits_ = 0;
  Group group_;                         // started since the last wait
  std::deque<Group> under_way_;         // oldest first
  std::vector<HostProducts> products_;  // of each warpgroup
  bool inside_ = false;
};

#endif

}  // namespace janus::kernels::cuda
