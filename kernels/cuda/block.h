#pragma once

// What a plain kernel is written against: one block of threads, seen as a sequence of phases with a
// barrier after each. A kernel is a struct with its arguments and
//
//   static constexpr int kThreads = 128;                        // of a block
//   template <class Block> JANUS_DEVICE void operator()(Block& block) const;
//
// compiled twice: by nvcc over DeviceBlock, and by the host's compiler over HostBlock, which runs
// the threads of a phase one after the other in an order drawn from a seed. Two threads of a phase
// that touch the same word, one of them writing, give other results in some of these orders; a
// wrong index is found by the address sanitizer. So kernels are held to the specification, and
// searched for races, on machines without a GPU.
//
// The rules that make the two forms one:
//   1. What a thread keeps from one phase to the next lies in a PerThread.
//   2. Code between phases is the same for all threads of a block. It reads arguments and memory
//      that the block does not write, or takes words of shared memory through block.Uniform.
//   3. Threads of a phase share words only by Block::Add and Block::Or on integers, whose order
//      does not show.
//   4. Nothing is known of other blocks: they run in any order.

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define JANUS_DEVICE __device__
#define JANUS_UNROLL _Pragma("unroll")
#else
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>
#define JANUS_DEVICE
#define JANUS_UNROLL
#endif

namespace janus::kernels::cuda {

// Most bytes of shared memory that a block has without asking for more, on every architecture.
inline constexpr int64_t kMaxSharedBytes = 48 << 10;

#ifdef __CUDACC__

// One word of a thread's own, over the phases of its block.
template <class T, int kThreads>
class PerThread {
 public:
  __device__ T& operator[](int) { return value_; }

 private:
  T value_{};
};

extern __shared__ __align__(16) unsigned char janus_shared_memory[];

class DeviceBlock {
 public:
  __device__ explicit DeviceBlock(int64_t blocks) : blocks_(blocks) {}
  __device__ int64_t index() const { return blockIdx.x; }
  __device__ int64_t blocks() const { return blocks_; }
  // 16-byte aligned; as large as the plan said, its content unknown.
  __device__ unsigned char* shared() const { return janus_shared_memory; }

  // fn(thread) on every thread. The barrier behind it orders what the phase wrote, to shared and to
  // global memory, before what later phases of the block read.
  template <class Fn>
  __device__ void Phase(Fn fn) {
    fn(static_cast<int>(threadIdx.x));
    __syncthreads();
  }
  // A word of shared memory for code between phases. The barrier keeps a fast thread from changing
  // it, in the next phase, before a slow one has read it.
  template <class T>
  __device__ T Uniform(const T& word) {
    const T value = word;
    __syncthreads();
    return value;
  }
  __device__ static void Add(uint32_t& word, uint32_t value) { atomicAdd(&word, value); }
  __device__ static void Add(unsigned long long& word, unsigned long long value) {
    atomicAdd(&word, value);
  }
  __device__ static void Or(uint32_t& word, uint32_t value) { atomicOr(&word, value); }

 private:
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

class HostBlock {
 public:
  HostBlock(int64_t index, int64_t blocks, int threads, unsigned char* shared, uint64_t seed)
      : index_(index), blocks_(blocks), shared_(shared), random_(seed) {
    order_.resize(static_cast<size_t>(threads));
    std::iota(order_.begin(), order_.end(), 0);
  }
  int64_t index() const { return index_; }
  int64_t blocks() const { return blocks_; }
  unsigned char* shared() const { return shared_; }

  // A rotation and a direction: cheap, and for any two threads either comes first in some order.
  template <class Fn>
  void Phase(Fn fn) {
    const size_t count = order_.size();
    const uint64_t draw = random_();
    const size_t first = draw / 2 % count;
    const bool backwards = draw % 2 != 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t at = (first + i) % count;
      fn(order_[backwards ? count - 1 - at : at]);
    }
  }
  template <class T>
  T Uniform(const T& word) {
    return word;
  }
  template <class T>
  static void Add(T& word, T value) {
    word += value;
  }
  static void Or(uint32_t& word, uint32_t value) { word |= value; }

 private:
  int64_t index_;
  int64_t blocks_;
  unsigned char* shared_;
  std::minstd_rand random_;
  std::vector<int> order_;
};

#endif

}  // namespace janus::kernels::cuda
