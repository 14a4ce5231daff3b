// How close do the CPU kernels come to the machine's limits? Weights rotate through far more memory
// than the last-level cache holds. The limits are measured in the same run: read bandwidth by
// summing a large buffer, arithmetic by fma chains on registers.
//
// kernels_bench [--threads N] [--isa avx2|avx512|avx512bf16] [--only linear|ffn|attention|sample]

#include <immintrin.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/flags.h"
#include "bench/measure.h"
#include "bench/read_bandwidth.h"
#include "bench/sections.h"
#include "common/check.h"
#include "kernels/kernels.h"

namespace janus::bench {
namespace {

using namespace janus::kernels;  // NOLINT: this program is about them

constexpr double kLeastSeconds = 0.4;

struct Bench {
  const Arena& arena;
  Team& team;
  Stream stream;
  double read_gbps = 0.0;

  // Repeated before every group: on a shared machine the limit itself changes.
  void MeasureLimit() {
    read_gbps = ReadBandwidth(team, arena);
    JsonLine("read_bandwidth").Int("threads", team.size()).Number("gbps", read_gbps);
  }

  JsonLine& Report(JsonLine& line, const Spread& spread, double bytes, double flops) const {
    return line.Text("isa", ToString(stream.isa))
        .Int("threads", team.size())
        .Microseconds(spread)
        .Number("gbps", bytes / spread.median / 1e9)
        .Number("share_of_read", bytes / spread.median / 1e9 / read_gbps)
        .Number("gflops", flops / spread.median / 1e9);
  }
};

void BenchLinear(const Bench& b, DType x_type, DType w_type, int64_t rows, int64_t n, int64_t k) {
  std::vector<float> x(static_cast<size_t>(rows * k));
  std::memcpy(x.data(), b.arena.data(), x.size() * static_cast<size_t>(SizeOf(x_type)));
  std::vector<float> y(static_cast<size_t>(rows * n));
  const int64_t bytes = n * k * SizeOf(w_type);
  const Spread spread = Measure(7, kLeastSeconds, [&](int64_t i) {
    const Status status = Linear(b.stream, {.x = x.data(),
                                            .x_dtype = x_type,
                                            .weight = b.arena.Piece(i, bytes),
                                            .weight_dtype = w_type,
                                            .y = y.data(),
                                            .rows = rows,
                                            .outputs = n,
                                            .inputs = k});
    JANUS_CHECK(status.ok(), status.ToString());
  });
  JsonLine line("linear");
  line.Text("x", ToString(x_type)).Text("weight", ToString(w_type));
  line.Int("rows", rows).Int("outputs", n).Int("inputs", k);
  b.Report(line, spread, static_cast<double>(bytes), 2.0 * static_cast<double>(rows * n * k));
}

// Weights have `weight_type`, rows have `type`.
void BenchFfn(const Bench& b, DType type, DType weight_type, int64_t experts, int64_t rows_each,
              int64_t hidden, int64_t intermediate) {
  const int64_t rows = experts * rows_each;
  const int64_t row_bytes = hidden * SizeOf(type);
  std::vector<unsigned char> x(static_cast<size_t>(rows * row_bytes));
  std::memcpy(x.data(), b.arena.data(), x.size());
  std::vector<unsigned char> y(x.size());
  const auto needs = GroupedExpertFfnWorkspace::For(rows, intermediate, type);
  std::unique_ptr<void, decltype(&std::free)> workspace(
      std::aligned_alloc(64, static_cast<size_t>(needs.bytes)), &std::free);
  std::vector<Contribution> contributions;
  for (int64_t c = 0; c < rows; ++c) {
    contributions.push_back({x.data() + c * row_bytes, y.data() + c * row_bytes, 0.5f});
  }
  const int64_t matrix = BytesOf(weight_type, hidden * intermediate);
  // One scale for each block of weights. They stay in the cache, as they are a 512th of the
  // weights.
  const std::vector<float> scale_of_blocks(
      static_cast<size_t>(ScaleBlocks(hidden) * ScaleBlocks(intermediate)), 0.01f);
  // For mxfp4: 1 in 17 bytes.
  const std::vector<uint8_t> scale_of_rows(static_cast<size_t>(hidden * intermediate / kMxBlock),
                                           119);
  const void* scales = nullptr;
  if (weight_type == DType::kFloat8E4M3) scales = scale_of_blocks.data();
  if (weight_type == DType::kMxfp4) scales = scale_of_rows.data();
  std::vector<ActiveExpert> active(static_cast<size_t>(experts));
  const Spread spread = Measure(7, kLeastSeconds, [&](int64_t i) {
    for (int64_t e = 0; e < experts; ++e) {
      const int64_t piece = (i * experts + e) * 3;
      active[static_cast<size_t>(e)] = {b.arena.Piece(piece, matrix),
                                        b.arena.Piece(piece + 1, matrix),
                                        b.arena.Piece(piece + 2, matrix),
                                        static_cast<int32_t>(e * rows_each),
                                        static_cast<int32_t>(rows_each),
                                        scales,
                                        scales,
                                        scales};
    }
    const Status status = GroupedExpertFfn(b.stream, {.experts = active.data(),
                                                      .contributions = contributions.data(),
                                                      .num_experts = experts,
                                                      .num_contributions = rows,
                                                      .hidden = hidden,
                                                      .intermediate = intermediate,
                                                      .weight_dtype = weight_type,
                                                      .row_dtype = type,
                                                      .y_dtype = type,
                                                      .workspace = workspace.get(),
                                                      .workspace_bytes = needs.bytes});
    JANUS_CHECK(status.ok(), status.ToString());
  });
  JsonLine line("grouped_expert_ffn");
  line.Text("dtype", ToString(type)).Text("weight", ToString(weight_type));
  line.Int("experts", experts).Int("rows_each", rows_each);
  line.Int("hidden", hidden).Int("intermediate", intermediate);
  b.Report(line, spread, 3.0 * static_cast<double>(experts * matrix),
           6.0 * static_cast<double>(rows * hidden * intermediate));
}

void BenchAttention(const Bench& b, DType type, int64_t sequences, int64_t rows_each,
                    int64_t context, int heads, int kv_heads, int head_dim) {
  const int64_t page = KvPageBytes(type, kv_heads, head_dim);
  const auto pages = static_cast<int32_t>(kRotation / page);
  const int64_t per_sequence = (context + kPageTokens - 1) / kPageTokens;
  const int64_t rows = sequences * rows_each;
  std::vector<float> q(static_cast<size_t>(rows * heads * head_dim), 0.01f);
  std::vector<float> y(q.size());
  std::vector<std::vector<int32_t>> tables(static_cast<size_t>(sequences));
  std::vector<KvRow> kv_rows;
  std::unique_ptr<void, decltype(&std::free)> workspace(std::aligned_alloc(64, 8 << 20),
                                                        &std::free);
  const Spread spread = Measure(7, kLeastSeconds, [&](int64_t i) {
    kv_rows.clear();
    int64_t next = i * sequences * per_sequence;
    for (auto& table : tables) {
      table.clear();
      for (int64_t p = 0; p < per_sequence; ++p) {
        table.push_back(static_cast<int32_t>(next++ * 7919 % pages));
      }
      for (int64_t r = 0; r < rows_each; ++r) {
        kv_rows.push_back({table.data(), static_cast<int32_t>(context - rows_each + r)});
      }
    }
    const Status status =
        PagedAttention(b.stream, {.cache = {.pages = const_cast<unsigned char*>(b.arena.data()),
                                            .num_pages = pages,
                                            .dtype = type,
                                            .kv_heads = kv_heads,
                                            .head_dim = head_dim},
                                  .rows = kv_rows.data(),
                                  .queries = q.data(),
                                  .y = y.data(),
                                  .num_rows = rows,
                                  .heads = heads,
                                  .scale = 0.1f,
                                  .workspace = workspace.get(),
                                  .workspace_bytes = 8 << 20});
    JANUS_CHECK(status.ok(), status.ToString());
  });
  JsonLine line("paged_attention");
  line.Text("dtype", ToString(type)).Int("sequences", sequences).Int("rows_each", rows_each);
  line.Int("context", context).Int("heads", heads).Int("kv_heads", kv_heads);
  b.Report(line, spread, static_cast<double>(sequences * per_sequence * page),
           4.0 * static_cast<double>(rows * heads * context * head_dim));
}

// Generated rows in the latent space. Bytes: the cache, read once per row. Flops: the scores and
// sums of every head.
void BenchAbsorbed(const Bench& b, DType type, int64_t sequences, int64_t context, int heads) {
  constexpr int kRank = 512, kRope = 64;
  const int64_t page = LatentPageBytes(type, kRank, kRope);
  const auto pages = static_cast<int32_t>(kRotation / page);
  const int64_t per_sequence = (context + kPageTokens - 1) / kPageTokens;
  std::vector<float> q(static_cast<size_t>(sequences * heads * kRank), 0.01f);
  std::vector<float> rope(static_cast<size_t>(sequences * heads * kRope), 0.01f);
  std::vector<float> y(q.size());
  std::vector<std::vector<int32_t>> tables(static_cast<size_t>(sequences));
  std::vector<KvRow> rows;
  const Spread spread = Measure(7, kLeastSeconds, [&](int64_t i) {
    rows.clear();
    int64_t next = i * sequences * per_sequence;
    for (auto& table : tables) {
      table.clear();
      for (int64_t p = 0; p < per_sequence; ++p) {
        table.push_back(static_cast<int32_t>(next++ * 7919 % pages));
      }
      rows.push_back({table.data(), static_cast<int32_t>(context - 1)});
    }
    const Status status =
        AbsorbedAttention(b.stream, {.cache = {.pages = const_cast<unsigned char*>(b.arena.data()),
                                               .num_pages = pages,
                                               .dtype = type,
                                               .rank = kRank,
                                               .rope = kRope},
                                     .rows = rows.data(),
                                     .latent_queries = q.data(),
                                     .rope_queries = rope.data(),
                                     .y = y.data(),
                                     .num_rows = sequences,
                                     .heads = heads,
                                     .scale = 0.1f});
    JANUS_CHECK(status.ok(), status.ToString());
  });
  JsonLine line("absorbed_attention");
  line.Text("dtype", ToString(type)).Int("sequences", sequences).Int("context", context);
  line.Int("heads", heads);
  b.Report(line, spread, static_cast<double>(sequences * per_sequence * page),
           2.0 * static_cast<double>(sequences * heads * context * (2 * kRank + kRope)));
}

void BenchSample(const Bench& b, int64_t rows, int64_t vocab, const SamplingParams& params,
                 const char* name) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<float> logits(static_cast<size_t>(rows * vocab));
  for (float& x : logits) x = normal(random);
  std::vector<SamplingParams> all(static_cast<size_t>(rows), params);
  std::vector<SampledToken> tokens(static_cast<size_t>(rows));
  const int64_t bytes = SampleWorkspaceBytes(vocab, b.team.size());
  std::unique_ptr<void, decltype(&std::free)> workspace(
      std::aligned_alloc(64, static_cast<size_t>(bytes)), &std::free);
  const Spread spread = Measure(7, kLeastSeconds, [&](int64_t i) {
    for (auto& p : all) p.position = i;
    const Status status = Sample(b.stream, {.logits = logits.data(),
                                            .params = all.data(),
                                            .tokens = tokens.data(),
                                            .rows = rows,
                                            .vocab = vocab,
                                            .workspace = workspace.get(),
                                            .workspace_bytes = bytes});
    JANUS_CHECK(status.ok(), status.ToString());
  });
  JsonLine line("sample");
  line.Text("case", name).Int("rows", rows).Int("vocab", vocab);
  b.Report(line, spread, static_cast<double>(rows * vocab * 4), 0.0);
}

// Returns the exit status.
int RunAll(const Arena& arena, Isa isa, int threads, const std::vector<std::string>& only) {
  Team team(threads);
  Bench b{arena, team, {Device::kCpu, &team, isa, nullptr}};
  constexpr DType kF32 = DType::kFloat32;
  constexpr DType kB16 = DType::kBFloat16;
  constexpr DType kF8 = DType::kFloat8E4M3;
  const auto group = [&b](const char* name, const std::function<void()>& cases) {
    return Sound(name, [&b, cases] {
      b.MeasureLimit();
      cases();
    });
  };
  return PrintSections(
      "kernels_bench", only,
      {group("linear",
             [&] {
               for (const int64_t rows : {1, 2, 4, 8, 16, 64, 512})
                 BenchLinear(b, kB16, kB16, rows, 4096, 4096);
               for (const int64_t rows : {1, 16, 64}) BenchLinear(b, kF32, kF32, rows, 4096, 4096);
               for (const int64_t rows : {1, 16}) BenchLinear(b, kF32, kB16, rows, 4096, 4096);
               BenchLinear(b, kB16, kB16, 1, 32000, 4096);
             }),
       group("ffn",
             [&] {
               for (const DType weight : {kB16, DType::kFloat8E4M3, DType::kMxfp4}) {
                 for (const int64_t rows : {1, 2, 4, 8, 16, 64})
                   BenchFfn(b, kB16, weight, 4, rows, 2048, 1408);
                 BenchFfn(b, kB16, weight, 2, 4, 4096, 14336);
               }
               BenchFfn(b, kF32, kF32, 4, 4, 1024, 1408);
             }),
       group("attention",
             [&] {
               BenchAttention(b, kB16, 8, 1, 2048, 32, 8, 128);
               BenchAttention(b, kB16, 1, 1, 32768, 32, 8, 128);
               BenchAttention(b, kF8, 8, 1, 2048, 32, 8, 128);
               BenchAttention(b, kF32, 8, 1, 2048, 32, 8, 128);
               BenchAttention(b, kB16, 1, 256, 2048, 32, 8, 128);
               BenchAbsorbed(b, kB16, 8, 2048, 16);
               BenchAbsorbed(b, kB16, 1, 32768, 16);
               BenchAbsorbed(b, kB16, 4, 2048, 128);
               BenchAbsorbed(b, kF8, 8, 2048, 16);
             }),
       group("sample", [&] {
         BenchSample(b, 8, 32000, {.temperature = 0.0f}, "greedy");
         BenchSample(b, 8, 32000, {.temperature = 0.8f}, "temperature");
         BenchSample(b, 8, 32000, {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f},
                     "top_k, top_p");
         BenchSample(b, 8, 32000, {.temperature = 0.8f, .top_p = 0.95f, .logprobs = 20},
                     "top_p, top 20");
       })});
}

}  // namespace
}  // namespace janus::bench

int main(int argc, char** argv) {
  using namespace janus::kernels;  // NOLINT
  int threads = 0;
  std::optional<Isa> wanted;
  std::vector<std::string> only;
  const std::map<std::string_view, Isa> isas = {
      {"avx2", Isa::kAvx2}, {"avx512", Isa::kAvx512}, {"avx512bf16", Isa::kAvx512Bf16}};
  if (!janus::bench::TakeFlags(
          "kernels_bench", {argv + 1, argv + argc},
          {janus::bench::NumberFlag("--threads", 1, &threads),
           {"--only", "a kernel",
            [&](std::string_view value) {
              only = {std::string(value)};
              return true;
            }},
           {"--isa", "avx2, avx512 or avx512bf16", [&](std::string_view value) {
              const auto found = isas.find(value);
              if (found != isas.end()) wanted = found->second;
              return found != isas.end();
            }}})) {
    return 2;
  }
  const janus::Result<Isa> isa = SelectIsa(DetectCpu(), wanted);
  if (!isa.ok()) {
    std::fprintf(stderr, "%s\n", isa.status().ToString().c_str());
    return 1;
  }
  if (threads == 0) threads = static_cast<int>(std::thread::hardware_concurrency());
  const janus::bench::Arena arena;
  return janus::bench::RunAll(arena, *isa, threads, only);
}
