#pragma once

// The unfinished wgmma products of a warpgroup in the host form (wgmma.h). Products come with
// descriptors of matrices in shared memory, which this file decodes as the PTX ISA defines them. A
// product is computed at any time between its commit and the wait for its group. So
//   - the accumulators' registers hold poison until then, and must still hold it when the results
//     are stored;
//   - data that is written into an operand too early, in shared memory or in registers, is
//     multiplied in some orders.
// It ends the process if a fence is missing, threads did anything between the fence and a product,
// a descriptor has another form than declared, a matrix lies beyond the block's shared memory, or a
// kernel ends before its products.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <list>
#include <random>
#include <vector>

#include "common/check.h"
#include "common/dtype.h"
#include "kernels/cuda/host_threads.h"

namespace janus::kernels::cuda {

// How often this thread read a matrix of 8 rows of 16 bytes with rows that share banks: the GPU
// then reads them one after the other.
inline thread_local int64_t host_bank_conflicts = 0;

// A matrix descriptor of wgmma, decoded; bytes.
struct HostMatrix {
  int64_t start = 0;
  int64_t leading = 0;  // from the first to the second 16 bytes of a row; without swizzle alone
  int64_t stride = 0;   // from 8 rows to the next
  int base_offset = 0;
  int swizzle = 0;       // bytes of a row among which chunks of 16 are permuted; 0: none
  uint64_t unnamed = 0;  // bits of which the PTX ISA says nothing

  static HostMatrix Of(uint64_t descriptor) {
    const auto field = [&](int at, int bits) {
      return static_cast<int64_t>(descriptor >> at & ((uint64_t{1} << bits) - 1));
    };
    constexpr int kSwizzles[] = {0, 128, 64, 32};
    return {16 * field(0, 14),       16 * field(16, 14),
            16 * field(32, 14),      static_cast<int>(field(49, 3)),
            kSwizzles[field(62, 2)], descriptor & kUnnamed};
  }
  // Where 8 elements of 16 bits lie, of a row from element 8 * chunk on; K-major.
  int64_t AddressOf(int row, int chunk) const {
    if (swizzle == 0) return start + row / 8 * stride + row % 8 * 16 + chunk * leading;
    const int64_t plain = start + row / 8 * stride + row % 8 * swizzle + chunk * 16;
    return plain ^ (plain >> 7 & (swizzle / 16 - 1)) << 4;
  }
  // The same of a row of the inner axis where the matrix is turned, N-major: columns from
  // 8 * chunk on. Of matrices with a swizzle, and `leading` is from 64 columns (of 128 bytes) to
  // the next.
  int64_t AddressOfTurned(int inner, int chunk) const {
    const int of_row = swizzle / 16;
    const int64_t plain = start + inner / 8 * stride + inner % 8 * swizzle + chunk % of_row * 16 +
                          chunk / of_row * leading;
    return plain ^ (plain >> 7 & (of_row - 1)) << 4;
  }
  // Base offsets other than 0 are of patterns that begin elsewhere: no kernel here has any. Of
  // turned ones none begins within a row, or is without swizzle.
  void CheckTurned() const {
    JANUS_CHECK(unnamed == 0, unnamed);
    JANUS_CHECK(base_offset == 0, base_offset);
    JANUS_CHECK(swizzle != 0, swizzle);
    JANUS_CHECK(start % (8 * swizzle) == 0 && stride % (8 * swizzle) == 0, start, stride);
    JANUS_CHECK(leading % (8 * swizzle) == 0, leading);
  }
  void Check() const {
    JANUS_CHECK(unnamed == 0, unnamed);
    JANUS_CHECK(base_offset == 0, base_offset);
    if (swizzle == 0) return;
    JANUS_CHECK(start % (8 * swizzle) < swizzle && stride % (8 * swizzle) == 0, start, stride);
    JANUS_CHECK(leading == 16, leading);  // "not used, assumed to be 1"
  }

 private:
  // Bits 14-15, 30-31, 46-48 and 52-61.
  static constexpr uint64_t kUnnamed =
      uint64_t{0x3} << 14 | uint64_t{0x3} << 30 | uint64_t{0x7} << 46 | uint64_t{0x3FF} << 52;
};

class HostProducts {
 public:
  static constexpr int kOutputs = 64;  // rows of the 64-row operand
  static constexpr int kInner = 16;
  static constexpr int kThreads = 128;
  // Where shared memory begins in its window: behind what sm_90 keeps for itself.
  static constexpr uint32_t kWindow = 1024;

  // Of warpgroup `index` of a block.
  HostProducts(const unsigned char* shared, int64_t shared_bytes, int index, HostThreads& seen)
      : shared_(shared), shared_bytes_(shared_bytes), index_(index), seen_(seen) {}

  uint32_t AddressOf(const void* in_shared) const {
    return static_cast<uint32_t>(static_cast<const unsigned char*>(in_shared) - shared_) + kWindow;
  }
  // From here on writes to shared memory are not visible to wgmma.
  void HideShared() {
    sees_shared_ = false;
    Touch();
  }
  // The end of a CopyingGroups: earlier writes are visible now. Operands of awaited products are
  // free for all warps; before, each warp had waited for its own part alone.
  void PassBarrier() {
    sees_shared_ = true;
    Touch();
    for (; freed_ < waited_; ++freed_) seen_.multiplying(index_, freed_).Await();
    for (int i = 0; i < HostThreads::kMultiplying; ++i) seen_.multiplying(index_, i).Tell();
  }
  void Fence() { is_fenced_ = true; }
  // Threads may have written registers, so a fence must follow.
  void Touch() { is_fenced_ = false; }

  // registers(thread) of the group's threads: columns / 2 floats each.
  template <class Registers>
  void Multiply(Registers registers, uint64_t a, uint64_t b, int columns, bool add, bool turned) {
    const HostAside aside;
    HostMatrix::Of(a).Check();
    Product& product = Begin(registers, b, columns, add, turned);
    product.a = HostMatrix::Of(a);
    TellReads(product.a, kOutputs);
  }
  // The 64-row operand from a(thread), four registers, which stay until the wait.
  template <class Registers, class A>
  void MultiplyRegisters(Registers registers, A a, uint64_t b, int columns, bool add) {
    const HostAside aside;
    Product& product = Begin(registers, b, columns, add, false);
    for (int thread = 0; thread < kThreads; ++thread) product.in_registers.push_back(a(thread));
  }
  void Commit(std::minstd_rand& random) {
    const HostAside aside;
    ++committed_;
    groups_.push_back(std::move(open_));
    open_.clear();
    Touch();
    if (random() / 16 % 2 == 0) Do(groups_.size());
  }
  void Wait(size_t pending) {
    const HostAside aside;
    JANUS_CHECK(open_.empty(), open_.size());
    waited_ = std::max(waited_, committed_ - static_cast<int64_t>(pending));
    if (groups_.size() <= pending) return;
    Do(groups_.size() - pending);  // and no others, which may be done as late as at their own
    for (; groups_.size() > pending; groups_.pop_front()) {
      for (const Product& product : groups_.front()) --product.sums->under_way;
    }
    for (auto sums = accumulators_.begin(); sums != accumulators_.end();) {
      if (sums->under_way > 0) {
        ++sums;
        continue;
      }
      Store(*sums);
      sums = accumulators_.erase(sums);
    }
  }
  bool AreDone() const { return open_.empty() && groups_.empty(); }

 private:
  static constexpr uint32_t kPoison = 0xFFFFB0DEu;  // a NaN

  struct Accumulators {
    int columns = 0;
    float* of[kThreads] = {};  // the threads' registers
    std::vector<float> d;      // [kOutputs,columns]
    int under_way = 0;         // products
  };
  struct Product {
    Accumulators* sums;
    HostMatrix b;
    bool add;
    bool turned;                                     // b
    HostMatrix a = {};                               // unless it is
    std::vector<const uint32_t*> in_registers = {};  // of the threads
    bool is_done = false;
  };

  // fn(thread, register, row, column): the PTX ISA's fragment of m64nN.
  template <class Fn>
  static void ForEachElement(int columns, Fn fn) {
    for (int thread = 0; thread < kThreads; ++thread) {
      for (int i = 0; i < columns / 2; ++i) {
        fn(thread, i, thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8,
           i / 4 * 8 + thread % 4 * 2 + i % 2);
      }
    }
  }

  template <class Registers>
  Product& Begin(Registers registers, uint64_t b, int columns, bool add, bool turned) {
    JANUS_CHECK(is_fenced_ && sees_shared_, is_fenced_, sees_shared_);
    JANUS_CHECK(columns % 8 == 0 && columns >= 8 && columns <= 256, columns);
    if (turned) {
      HostMatrix::Of(b).CheckTurned();
    } else {
      HostMatrix::Of(b).Check();
    }
    Accumulators& sums = Find(registers, columns);
    ++sums.under_way;
    open_.push_back({&sums, HostMatrix::Of(b), add, turned});
    if (turned) {
      TellTurnedReads(open_.back().b, columns);
    } else {
      TellReads(open_.back().b, columns);
    }
    return open_.back();
  }
  template <class Registers>
  Accumulators& Find(Registers registers, int columns) {
    for (Accumulators& sums : accumulators_) {
      if (sums.of[0] != registers(0)) continue;
      JANUS_CHECK(sums.columns == columns, sums.columns, columns);  // of the same shape
      return sums;
    }
    Accumulators& sums = accumulators_.emplace_back();
    sums.columns = columns;
    sums.d.resize(static_cast<size_t>(kOutputs) * static_cast<size_t>(columns));
    for (int thread = 0; thread < kThreads; ++thread) sums.of[thread] = registers(thread);
    ForEachElement(columns, [&](int thread, int i, int row, int column) {
      float& word = sums.of[thread][i];
      sums.d[static_cast<size_t>(row * columns + column)] = word;
      word = std::bit_cast<float>(kPoison);
    });
    return sums;
  }
  static void Store(Accumulators& sums) {
    ForEachElement(sums.columns, [&](int thread, int i, int row, int column) {
      float& word = sums.of[thread][i];
      JANUS_CHECK(std::bit_cast<uint32_t>(word) == kPoison, thread, i);  // written meanwhile
      word = sums.d[static_cast<size_t>(row * sums.columns + column)];
    });
  }

  // To the sanitizer an operand is read from here until the wait and the barrier behind it.
  void TellReads(const HostMatrix& matrix, int rows) {
    constexpr int kChunks = kInner / 8;
    seen_.multiplying(index_, committed_).Reads(kChunks * rows, 16, [&](int i) {
      return shared_ + matrix.AddressOf(i / kChunks, i % kChunks) - kWindow;
    });
  }
  void TellTurnedReads(const HostMatrix& matrix, int columns) {
    seen_.multiplying(index_, committed_).Reads(kInner * columns / 8, 16, [&](int i) {
      return shared_ + matrix.AddressOfTurned(i % kInner, i / kInner) - kWindow;
    });
  }
  // The oldest `groups`.
  void Do(size_t groups) {
    for (size_t i = 0; i < groups; ++i) {
      for (Product& product : groups_[i]) {
        if (!product.is_done) Do(product);
        product.is_done = true;
      }
    }
  }
  void Do(const Product& product) {
    const int columns = product.sums->columns;
    float a[kOutputs][kInner];
    const auto take = [&](int row, int k, float value) { a[row][k] = value; };
    if (product.in_registers.empty()) {
      Read(product.a, kOutputs, take);
    } else {
      ReadRegisters(product.in_registers, take);
    }
    float b[256 / 8][kInner][8];
    const auto take_b = [&](int row, int k, float value) { b[row / 8][k][row % 8] = value; };
    if (product.turned) {
      ReadTurned(product.b, columns, take_b);
    } else {
      Read(product.b, columns, take_b);
    }
    for (int n = 0; n < columns / 8; ++n) {
      for (int m = 0; m < kOutputs; ++m) {
        float* const d = &product.sums->d[static_cast<size_t>(m * columns + 8 * n)];
        float sum[8] = {};
        if (product.add) std::memcpy(sum, d, sizeof sum);
        for (int k = 0; k < kInner; ++k) {
          for (int i = 0; i < 8; ++i) sum[i] = __builtin_fmaf(a[m][k], b[n][k][i], sum[i]);
        }
        std::memcpy(d, sum, sizeof sum);
      }
    }
  }
  // The PTX ISA's fragment of the 64-row operand.
  template <class Take>
  static void ReadRegisters(const std::vector<const uint32_t*>& registers, Take take) {
    for (int thread = 0; thread < kThreads; ++thread) {
      for (int i = 0; i < 8; ++i) {
        const uint32_t pair = registers[static_cast<size_t>(thread)][i / 2];
        take(thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8, thread % 4 * 2 + i % 2 + i / 4 * 8,
             FromBFloat16(static_cast<uint16_t>(pair >> (16 * (i % 2)))));
      }
    }
  }
  // take(row, k, value) of each element.
  template <class Take>
  void Read(const HostMatrix& matrix, int rows, Take take) const {
    for (int first = 0; first < rows; first += 8) {
      for (int chunk = 0; chunk < kInner / 8; ++chunk) {
        uint32_t banks = 0;
        for (int row = first; row < first + 8; ++row) {
          const auto eight = ReadEight(matrix.AddressOf(row, chunk) - kWindow, banks);
          for (int i = 0; i < 8; ++i) take(row, 8 * chunk + i, FromBFloat16(eight[i]));
        }
        if (std::popcount(banks) != 8) Count(host_bank_conflicts);
      }
    }
  }
  template <class Take>
  void ReadTurned(const HostMatrix& matrix, int columns, Take take) const {
    for (int first = 0; first < kInner; first += 8) {
      for (int chunk = 0; chunk < columns / 8; ++chunk) {
        uint32_t banks = 0;
        for (int k = first; k < first + 8; ++k) {
          const auto eight = ReadEight(matrix.AddressOfTurned(k, chunk) - kWindow, banks);
          for (int i = 0; i < 8; ++i) take(8 * chunk + i, k, FromBFloat16(eight[i]));
        }
        if (std::popcount(banks) != 8) Count(host_bank_conflicts);
      }
    }
  }
  // The elements at `at`, which must be in shared memory, and in `banks` which eighth of the banks
  // they are in.
  std::array<uint16_t, 8> ReadEight(int64_t at, uint32_t& banks) const {
    JANUS_CHECK(at >= 0 && at + 16 <= shared_bytes_, at, shared_bytes_);
    banks |= 1u << (at / 16 % 8);
    std::array<uint16_t, 8> eight;
    std::memcpy(eight.data(), shared_ + at, sizeof eight);
    return eight;
  }

  const unsigned char* shared_;
  int64_t shared_bytes_;
  int index_;
  HostThreads& seen_;
  int64_t committed_ = 0;  // groups; those before waited_ are done, before freed_ overwritten too
  int64_t waited_ = 0;
  int64_t freed_ = 0;
  bool sees_shared_ = false;
  bool is_fenced_ = false;
  std::vector<Product> open_;                // since the last commit
  std::deque<std::vector<Product>> groups_;  // oldest first
  std::list<Accumulators> accumulators_;     // with products under way
};

}  // namespace janus::kernels::cuda
