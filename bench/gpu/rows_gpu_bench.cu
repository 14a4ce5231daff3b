// Operations that pass over rows once, on a GPU: each over 64 MiB or more and over 64 rows, at
// shapes of DeepSeek-V3. Beside them are the machine's copy rate and the time of an empty kernel.
// It adds one JSON line per case to the file that --results names, flushed when the case ends. A
// case that is in the file is not run again.
//
// Bytes are those of the launch plan, read and written. `share_of_copy` is their rate over that of
// the copy, after the time of the empty kernel is subtracted from both. Rows rotate through 4 GiB:
// one half is read, the other written. No call uses the rows of an earlier call before a whole half
// was used. Times are medians of 30 calls (bench/gpu/stream_times.h).

#include <cmath>
#include <random>

#include "bench/gpu/gpu_bench.h"
#include "kernels/cuda/norm_fast.h"
#include "kernels/cuda/pack_fp8.h"
#include "kernels/cuda/permute_rows.h"
#include "kernels/cuda/rope_fast.h"
#include "kernels/cuda/row_forms.h"
#include "kernels/cuda/rows_fast.h"

namespace janus::kernels::cuda {
namespace {

constexpr DType kB16 = DType::kBFloat16;
constexpr int64_t kHidden = 7168;
constexpr int64_t kManyRows = 4096;  // 56 MiB in bfloat16 and 112 MiB in fp32, on one side
constexpr int64_t kFewRows = 64;
constexpr int kTopK = 8;

// The arena in two halves: one is read, one is written.
class RowsBench {
 public:
  RowsBench(GpuBench& bench, Results& results)
      : bench_(bench),
        results_(results),
        read_(const_cast<char*>(reinterpret_cast<const char*>(bench.arena()))),
        written_(read_ + kArenaBytes / 2) {}

  // Copies of as many bytes as most operations move.
  void Limits() {
    empty_ = bench_.empty();
    copied_ = TimeCopies("copy 256 MiB");
  }
  // Measures the copies again, like GpuBench::CloseLimits.
  void CloseLimits() {
    const double end = TimeCopies("copy 256 MiB at the end");
    results_.Write("limits of copies",
                   "\"copy_bytes_per_us_begin\": " + std::to_string(copied_) +
                       ", \"copy_bytes_per_us_end\": " + std::to_string(end) +
                       ", \"copy_bytes_per_us_end_over_begin\": " + std::to_string(end / copied_) +
                       ", \"copy_bytes_per_us_shares_times\": " +
                       std::to_string(copied_ / std::max(copied_, end)));
  }

  template <class Call>
  void Time(const std::string& name, int64_t bytes, Call call) {
    const double time = bench_.TimeOf(name, bytes, call);
    const std::string share = name + ", share";
    if (results_.Find(share, "share_of_copy") >= 0.0) return;
    const double rate = static_cast<double>(bytes) / std::max(time - empty_, 1e-3);
    results_.Write(share, "\"share_of_copy\": " + std::to_string(rate / copied_) +
                              ", \"us_beside_empty\": " + std::to_string(time - empty_));
  }

  // The next bytes, behind those of all calls before, round the half.
  template <class T = char>
  T* Read(int64_t bytes) {
    return reinterpret_cast<T*>(read_ + of_read_.Next(bytes));
  }
  template <class T = char>
  T* Written(int64_t bytes) {
    return reinterpret_cast<T*>(written_ + of_written_.Next(bytes));
  }
  // Memory that all calls read.
  const char* shared() const { return read_; }
  Stream stream() const { return {.device = Device::kCuda, .native = bench_.stream()}; }

 private:
  // Bytes per microsecond, read and written.
  double TimeCopies(const std::string& name) {
    const int64_t bytes = int64_t{256} << 20;
    const double time = bench_.TimeAnew(name, 2 * bytes, [&](int) {
      Check(cudaMemcpyAsync(Written(bytes), Read(bytes), static_cast<size_t>(bytes),
                            cudaMemcpyDeviceToDevice, bench_.stream()),
            "copy");
    });
    return static_cast<double>(2 * bytes) / (time - empty_);
  }

  GpuBench& bench_;
  Results& results_;
  char* read_;
  char* written_;
  bench::Rotation of_read_{kArenaBytes / 2};
  bench::Rotation of_written_{kArenaBytes / 2};
  double empty_ = 0.0;
  double copied_ = 0.0;
};

std::string RowsOf(int64_t rows) {
  return ", " + std::to_string(rows) + " rows";
}

const char* NameOf(RowForm form) {
  return form == RowForm::kFast ? "" : " plain";
}

void Norm(RowsBench& bench, int64_t rows, int64_t groups, int64_t hidden, RowForm form) {
  const int64_t count = rows * groups * hidden;
  RmsNormArgs args{
      .weight_dtype = kB16, .y_dtype = kB16, .rows = rows, .groups = groups, .hidden = hidden};
  args.weight = bench.shared();
  bench.Time("norm of " + std::to_string(groups) + " x " + std::to_string(hidden) + NameOf(form) +
                 RowsOf(rows),
             PlanRmsNorm(args).bytes, [&](int) {
               args.x = bench.Read<float>(4 * count);
               args.y = bench.Written(2 * count);
               Check(RunRmsNorm(bench.stream(), args, form));
             });
}

void Rotate(RowsBench& bench, int64_t rows, int heads, int head_dim, int rotary,
            RopePairing pairing, RowForm form) {
  std::mt19937 random(1);
  std::vector<int32_t> positions(static_cast<size_t>(rows));
  for (int32_t& position : positions) position = static_cast<int32_t>(random() % 65536);
  std::vector<float> frequencies;
  for (int i = 0; i < rotary / 2; ++i) {
    frequencies.push_back(std::pow(10000.0f, -2.0f * static_cast<float>(i) / rotary));
  }
  RopeArgs args{
      .rows = rows, .heads = heads, .head_dim = head_dim, .rotary_dim = rotary, .pairing = pairing};
  args.positions = CopyIn(positions);
  args.inv_freq = CopyIn(frequencies);
  bench.Time("rope of " + std::to_string(heads) + " x " + std::to_string(rotary) +
                 (pairing == RopePairing::kHalves ? ", halves" : ", interleaved") + NameOf(form) +
                 RowsOf(rows),
             PlanRope(args).bytes, [&](int) {
               args.x = bench.Written<float>(4 * rows * heads * head_dim);
               Check(RunRope(bench.stream(), args, form));
             });
}

void Embedding(RowsBench& bench, int64_t rows, RowForm form) {
  constexpr int64_t kVocab = 129280;
  // The tokens of a call follow those of the call before and wrap round. They are in random order.
  std::vector<int32_t> tokens(static_cast<size_t>(kVocab));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i);
  std::shuffle(tokens.begin(), tokens.end(), std::mt19937(2));
  const int32_t* const all = CopyIn(tokens);
  const int64_t calls = kVocab / rows;
  bench::CheckRotates(calls * rows * 2 * kHidden);
  EmbedArgs args{.table_dtype = kB16, .rows = rows, .vocab = kVocab, .hidden = kHidden};
  args.table = bench.shared();
  bench.Time(std::string("embedding") + NameOf(form) + RowsOf(rows), PlanEmbed(args).bytes,
             [&](int i) {
               args.tokens = all + i % calls * rows;
               args.y = bench.Written<float>(4 * rows * kHidden);
               Check(RunEmbed(bench.stream(), args, form));
             });
}

void Combine(RowsBench& bench, int64_t rows, RowForm form) {
  const int64_t slots = rows * kTopK;
  std::vector<const void*> pointers;
  const int64_t calls = CallsOfATurn(2 * slots * kHidden);
  for (int64_t i = 0; i < calls; ++i) {
    const char* const first = bench.Read(2 * slots * kHidden);
    for (int64_t j = 0; j < slots; ++j) pointers.push_back(first + 2 * j * kHidden);
  }
  const void* const* const lists = CopyIn(pointers);
  CombineSlotsArgs args{.dtype = kB16, .rows = rows, .hidden = kHidden, .top_k = kTopK};
  bench.Time(std::string("combine of 8") + NameOf(form) + RowsOf(rows),
             PlanCombineSlots(args).bytes, [&](int i) {
               args.contributions = lists + i % calls * slots;
               args.y = bench.Written<float>(4 * rows * kHidden);
               args.residual = args.y;
               Check(RunCombineSlots(bench.stream(), args, form));
             });
}

void Permute(RowsBench& bench, int64_t rows) {
  std::vector<int32_t> map(static_cast<size_t>(rows));
  for (size_t i = 0; i < map.size(); ++i) map[i] = static_cast<int32_t>(i);
  std::shuffle(map.begin(), map.end(), std::mt19937(3));
  PermuteRowsArgs args{.rows = rows, .x_rows = rows, .y_rows = rows, .row_bytes = 2 * kHidden};
  args.x_map = CopyIn(map);
  bench.Time("permute" + RowsOf(rows), PlanPermuteRows(args).bytes, [&](int) {
    args.x = bench.Read(rows * args.row_bytes);
    args.y = bench.Written(rows * args.row_bytes);
    Check(PermuteRows(bench.stream(), args));
  });
}

void Pack(RowsBench& bench, int64_t rows) {
  const int64_t count = rows * kHidden;
  auto* const scales = Allocate<float>(rows * ScaleBlocks(kHidden));
  PackFp8Args pack{.x_dtype = kB16, .scales = scales, .rows = rows, .hidden = kHidden};
  bench.Time("pack in fp8" + RowsOf(rows), PlanPackFp8(pack).bytes, [&](int) {
    pack.x = bench.Read(2 * count);
    pack.packed = bench.Written<uint8_t>(count);
    Check(PackFp8(bench.stream(), pack));
  });
  UnpackFp8Args unpack{.scales = scales, .y_dtype = kB16, .rows = rows, .hidden = kHidden};
  bench.Time("unpack from fp8" + RowsOf(rows), PlanUnpackFp8(unpack).bytes, [&](int) {
    unpack.packed = bench.Read<uint8_t>(count);
    unpack.y = bench.Written(2 * count);
    Check(UnpackFp8(bench.stream(), unpack));
  });
  cudaFree(scales);
}

void RunAll(GpuBench& gpu, Results& results) {
  RowsBench bench(gpu, results);
  bench.Limits();
  for (const int64_t rows : {kManyRows, kFewRows}) {
    const RowForm fast = RowForm::kFast;
    Norm(bench, rows, 1, kHidden, fast);
    Combine(bench, rows, fast);
    Permute(bench, 2 * rows);
    Pack(bench, 2 * rows);
    Rotate(bench, rows, 128, 192, 64, RopePairing::kInterleaved, fast);
    Rotate(bench, rows, 68, 128, 128, RopePairing::kHalves, fast);
    Norm(bench, rows, 68, 128, fast);
    Norm(bench, 8 * rows, 1, 512, fast);
    Embedding(bench, rows, fast);
  }
  for (const int64_t rows : {kManyRows, kFewRows}) {
    const RowForm plain = RowForm::kPlain;
    Norm(bench, rows, 1, kHidden, plain);
    Combine(bench, rows, plain);
    Rotate(bench, rows, 68, 128, 128, RopePairing::kHalves, plain);
    Embedding(bench, rows, plain);
  }
  bench.CloseLimits();
}

}  // namespace
}  // namespace janus::kernels::cuda

int main(int argc, char** argv) {
  return janus::kernels::cuda::BenchMain(argc, argv, janus::kernels::cuda::RunAll);
}
