// The cost of one exchange round, beside the least that the same bytes cost in the same run. That
// floor is a bare two-process ping-pong for shared memory, and tag_lat of ucx_perftest for UCX
// (TCP, loopback device).
//
// A round of 1A1E over shared memory: one copy puts the rows into the slot; the expert process
// copies them into its contributions (top_k per row); another copy puts those into the caller's
// buffer. The bare form makes the same three copies and sets two flags in one shared page range:
// this is the floor of this machine. Both use the same waiting policy, alternate in blocks within
// one run, and pin no thread. Over UCX neither side copies: it sends rows and contributions from
// where they are written, and reads them where they arrive. The floor is then the sum of
// ucx_perftest's one-way times for both messages.
//
//   build/dev/bin/exchange_bench [rounds]        one JSON line per case

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/exchange_rounds.h"
#include "bench/flags.h"
#include "common/aligned_buffer.h"
#include "dataplane/comm/exchange/row_codec.h"
#include "dataplane/comm/transport/shared_memory.h"
#include "dataplane/comm/transport/ucx/transport.h"
#include "kernels/cpu/isa.h"
#include "kernels/kernels.h"
#include "kernels/team.h"
#include "tests/support/temp_folder.h"

namespace janus::dataplane {
namespace {

constexpr int kHidden = 4096;
constexpr int kMaxRows = 512;

struct Bare {
  Doorbell to_child;
  Doorbell to_parent;
  alignas(64) std::atomic<uint64_t> request{0};
  alignas(64) std::atomic<uint64_t> reply{0};
  alignas(64) std::byte out[kMaxRows * kHidden * 2];
  alignas(64) std::byte back[kMaxRows * kHidden * 2];
};

void BareChild(Bare& shared, const WaitPolicy& policy, int rounds, size_t bytes) {
  for (int i = 1; i <= rounds; ++i) {
    const auto round = static_cast<uint64_t>(i);
    if (!WaitFor(shared.to_child, policy, Soon(),
                 [&] { return shared.request.load(std::memory_order_acquire) == round; }))
      _exit(1);
    std::memcpy(shared.back, shared.out, bytes);
    shared.reply.store(round, std::memory_order_release);
    shared.to_parent.Ring();
  }
}

void BareParent(Bare& shared, const WaitPolicy& policy, int rounds, size_t bytes,
                const std::byte* from, std::byte* to, std::vector<double>& micros) {
  for (int i = 1; i <= rounds; ++i) {
    const auto round = static_cast<uint64_t>(i);
    const MonotonicTime start = MonotonicClock::now();
    std::memcpy(shared.out, from, bytes);
    shared.request.store(round, std::memory_order_release);
    shared.to_child.Ring();
    if (!WaitFor(shared.to_parent, policy, Soon(),
                 [&] { return shared.reply.load(std::memory_order_acquire) == round; }))
      std::exit(1);
    std::memcpy(to, shared.back, bytes);
    micros.push_back(Seconds(MonotonicClock::now() - start).count() * 1e6);
  }
}

ExchangeShape ShapeOfOne(int top_k) {
  ExchangeShape shape;
  shape.hidden = kHidden;
  shape.top_k = top_k;
  shape.wire = DType::kBFloat16;
  shape.max_rows = kMaxRows;
  shape.m = shape.n = 1;
  return shape;
}

// Rounds of 1A1E over shared memory in two processes. A tenth more rounds warm up; they are not in
// `micros`.
void SharedMemoryRounds(const std::string& folder, const ExchangeShape& shape, int rows, int rounds,
                        const std::byte* from, std::byte* to, std::vector<double>& micros) {
  ConnectOptions options;
  options.addresses = {"unix:" + folder + "/attention-0.x"};
  options.policy = WaitPolicy::ForThreads(2);
  options.deadline = Soon();
  const auto connect = [&](PeerId self, const std::string& path) {
    auto listener = *ExchangeListener::Create("unix:" + path);
    return *ConnectSharedMemory(LayoutFor(ExchangeMode::kDirect, shape, self), options, *listener,
                                {});
  };
  const int warm = rounds / 10;
  InTwoProcesses(
      [&] {
        auto transport = connect({Role::kExperts, Rank{0}}, folder + "/experts-0.x");
        ExpertSide(*transport, shape, rounds + warm, true);
      },
      [&] {
        auto transport = connect({Role::kAttention, Rank{0}}, folder + "/attention-0.x");
        std::vector<double> all;
        AttentionSide(*transport, shape, rounds + warm, rows, from, to, all);
        micros.insert(micros.end(), all.begin() + warm, all.end());
      });
}

void Case(const std::string& folder, int rows, int rounds) {
  const ExchangeShape shape = ShapeOfOne(1);
  const size_t bytes = static_cast<size_t>(rows) * shape.row_bytes();
  const WaitPolicy policy = WaitPolicy::ForThreads(2);
  AlignedBuffer from(bytes), to(bytes);
  std::memset(from.data(), 1, bytes);

  std::vector<double> bare, exchange;
  constexpr int kBlocks = 10;
  for (int block = 0; block < kBlocks; ++block) {
    void* memory =
        mmap(nullptr, sizeof(Bare), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    JANUS_CHECK(memory != MAP_FAILED);
    auto* shared = new (memory) Bare;
    const int warm = rounds / 10;
    InTwoProcesses([&] { BareChild(*shared, policy, rounds + warm, bytes); },
                   [&] {
                     std::vector<double> all;
                     BareParent(*shared, policy, rounds + warm, bytes, from.data(), to.data(), all);
                     bare.insert(bare.end(), all.begin() + warm, all.end());
                   });
    munmap(memory, sizeof(Bare));

    SharedMemoryRounds(folder, shape, rows, rounds, from.data(), to.data(), exchange);
    JANUS_CHECK(std::memcmp(from.data(), to.data(), bytes) == 0, "the rows came back changed");
  }
  std::sort(bare.begin(), bare.end());
  std::sort(exchange.begin(), exchange.end());
  std::printf(
      "{\"bench\":\"exchange\",\"rows\":%d,\"hidden\":%d,\"dtype\":\"bf16\",\"bytes_each_way\":%zu,"
      "\"bare_us\":{\"p10\":%.2f,\"p50\":%.2f,\"p99\":%.2f},\"exchange_us\":{\"p10\":%.2f,\"p50\":%"
      ".2f,\"p99\":%.2f},"
      "\"p50_ratio\":%.3f,\"p50_difference_us\":%.2f,\"rounds\":%zu}\n",
      rows, kHidden, bytes, At(bare, .1), At(bare, .5), At(bare, .99), At(exchange, .1),
      At(exchange, .5), At(exchange, .99), At(exchange, .5) / At(bare, .5),
      At(exchange, .5) - At(bare, .5), exchange.size());
  std::fflush(stdout);
}

// The cost of Contributions if one expert instance has all experts of a row, beside one sum of
// integers for each row, and one vector of the wire's type, whose bits would follow the placement.
void SumCase(const std::string& folder, int rows, int top_k, int rounds) {
  struct Way {
    const char* name;
    int top_k;
    int sum_bits;
    std::vector<double> micros = {};
    size_t bytes_back = 0;
  };
  Way ways[] = {{"contributions", top_k, 0},
                {"sums_32", top_k, 32},
                {"sums_24", top_k, 24},
                {"partial_sums", 1, 0}};
  for (int block = 0; block < 10; ++block) {
    for (Way& way : ways) {
      ExchangeShape shape = ShapeOfOne(way.top_k);
      shape.sums.bits = way.sum_bits;
      const auto all_rows = static_cast<size_t>(rows);
      const size_t out = all_rows * shape.row_bytes();
      way.bytes_back =
          all_rows * shape.reply_bytes() * (shape.sums.on() ? 1 : static_cast<size_t>(shape.top_k));
      AlignedBuffer from(out), to(way.bytes_back);
      std::memset(from.data(), 1, out);
      SharedMemoryRounds(folder, shape, rows, rounds, from.data(), to.data(), way.micros);
    }
  }
  std::printf("{\"bench\":\"sum_rule\",\"rows\":%d,\"hidden\":%d,\"top_k\":%d,\"dtype\":\"bf16\"",
              rows, kHidden, top_k);
  for (Way& way : ways) {
    std::sort(way.micros.begin(), way.micros.end());
    std::printf(",\"%s\":{\"bytes_back\":%zu,\"p50_us\":%.2f}", way.name, way.bytes_back,
                At(way.micros, .5));
  }
  std::printf("}\n");
  std::fflush(stdout);
}

// What it takes one thread to add the contributions of rows to sums, and sums to rows, for each
// element of a row, beside what a link saves.
void SumsCodecCase(int rows, int top_k, int rounds) {
  const Result<kernels::Isa> isa = kernels::SelectIsa(kernels::DetectCpu());
  kernels::Team team(1);
  kernels::Stream on;
  if (isa.ok()) on = {kernels::Device::kCpu, &team, *isa, nullptr};
  constexpr int kElements = 7168;
  const auto count = static_cast<size_t>(rows) * kElements;
  AlignedBuffer terms(count * static_cast<size_t>(top_k) * 4), sums(count * 4), y(count * 4);
  auto* const values = reinterpret_cast<float*>(terms.data());
  uint32_t draw = 1;
  for (size_t i = 0; i < count * static_cast<size_t>(top_k); ++i) {
    draw = draw * 1664525u + 1013904223u;
    values[i] = static_cast<float>(static_cast<int32_t>(draw)) * 0x1p-31f;
  }
  std::memset(y.data(), 0, count * 4);
  std::vector<int32_t> ends;
  for (int row = 0; row < rows; ++row) ends.push_back((row + 1) * top_k);
  for (const int bits : {32, 24}) {
    std::vector<const void*> parts;
    for (int row = 0; row < rows; ++row) {
      parts.push_back(sums.data() + static_cast<size_t>(row) * SumBytes(bits, kElements));
    }
    std::vector<double> add, combine;
    const auto timed = [](std::vector<double>& micros, auto&& work) {
      const MonotonicTime begin = MonotonicClock::now();
      JANUS_CHECK(work().ok());
      micros.push_back(Seconds(MonotonicClock::now() - begin).count() * 1e6);
    };
    for (int i = 0; i < rounds; ++i) {
      timed(add, [&] {
        return kernels::AddTerms(on, {.terms = values,
                                      .ends = ends.data(),
                                      .sums = sums.data(),
                                      .bits = bits,
                                      .exponent = -16,
                                      .limit = FixedLimit(bits, top_k),
                                      .rows = rows,
                                      .hidden = kElements});
      });
      timed(combine, [&] {
        return kernels::CombineSums(on, {.sums = parts.data(),
                                         .bits = bits,
                                         .exponent = -16,
                                         .residual = reinterpret_cast<float*>(y.data()),
                                         .y = reinterpret_cast<float*>(y.data()),
                                         .rows = rows,
                                         .hidden = kElements,
                                         .top_k = 1});
      });
    }
    std::sort(add.begin(), add.end());
    std::sort(combine.begin(), combine.end());
    const double elements = static_cast<double>(count);
    std::printf(
        "{\"bench\":\"exact_sums\",\"rows\":%d,\"hidden\":%d,\"top_k\":%d,\"bits\":%d,"
        "\"add_ns\":%.3f,\"combine_ns\":%.3f}\n",
        rows, kElements, top_k, bits, At(add, .5) * 1e3 / elements,
        At(combine, .5) * 1e3 / elements);
  }
  std::fflush(stdout);
}

// What packing rows in fp8 and unpacking them takes on one thread, beside what a link saves by it.
void CodecCase(int rows, int rounds) {
  const Result<kernels::Isa> isa = kernels::SelectIsa(kernels::DetectCpu());
  kernels::Team team(1);
  kernels::Stream on;
  if (isa.ok()) on = {kernels::Device::kCpu, &team, *isa, nullptr};
  const RowFormat format{7168, DType::kBFloat16, Compression::kFp8};
  const size_t exact = static_cast<size_t>(rows) * format.exact_bytes();
  const size_t packed = static_cast<size_t>(rows) * format.bytes();
  constexpr size_t kBuffers = 8;  // so that small cases do not stay in the nearest cache
  AlignedBuffer from(kBuffers * exact), wire(kBuffers * packed), to(kBuffers * exact);
  uint32_t draw = 1;
  for (size_t i = 0; i < kBuffers * exact / 2; ++i) {
    draw = draw * 1664525u + 1013904223u;
    const uint16_t value =
        ToBFloat16(static_cast<float>(static_cast<int32_t>(draw)) / static_cast<float>(1 << 30));
    std::memcpy(from.data() + 2 * i, &value, sizeof value);
  }
  std::vector<double> pack, unpack;
  const auto timed = [](std::vector<double>& micros, auto&& work) {
    const MonotonicTime begin = MonotonicClock::now();
    JANUS_CHECK(work().ok());
    micros.push_back(Seconds(MonotonicClock::now() - begin).count() * 1e6);
  };
  std::vector<const void*> list(static_cast<size_t>(rows));
  for (int i = 0; i < rounds; ++i) {
    const size_t at = static_cast<size_t>(i) % kBuffers;
    std::byte* const bytes = wire.data() + at * packed;
    timed(pack, [&] { return PackRows(on, format, from.data() + at * exact, rows, bytes); });
    for (size_t r = 0; r < list.size(); ++r) list[r] = bytes + r * format.bytes();
    timed(unpack, [&] { return UnpackRows(on, format, list, to.data() + at * exact); });
  }
  std::sort(pack.begin(), pack.end());
  std::sort(unpack.begin(), unpack.end());
  const auto rate = [&](std::vector<double>& micros) {
    return static_cast<double>(exact) / At(micros, .5) / 1e3;
  };
  constexpr double kLinkBytesPerMicro = 25e9 / 8 / 1e6;
  std::printf(
      "{\"bench\":\"row_codec\",\"rows\":%d,\"hidden\":%d,\"exact_bytes\":%zu,\"packed_bytes\":%zu,"
      "\"pack_us\":%.2f,\"unpack_us\":%.2f,\"pack_gb_per_s_of_bf16\":%.2f,"
      "\"unpack_gb_per_s_of_bf16\":%.2f,\"saved_us_at_25_gbit_per_s\":%.2f}\n",
      rows, format.hidden, exact, packed, At(pack, .5), At(unpack, .5), rate(pack), rate(unpack),
      static_cast<double>(exact - packed) / kLinkBytesPerMicro);
  std::fflush(stdout);
}

void UcxCase(const std::string& folder, int rows, int rounds) {
  const ExchangeShape shape = ShapeOfOne(1);
  const auto count = static_cast<size_t>(rows);
  const size_t out = sizeof(Header) + count * shape.row_bytes();
  const size_t back = sizeof(Header) + ContributionBytes(count, shape.row_bytes());
  NetworkOptions options;
  options.connect.addresses = {"unix:" + folder + "/attention-0.x"};
  options.connect.policy = WaitPolicy::ForThreads(2);
  options.shares_memory = [](PeerId) { return false; };
  options.devices = "lo";
  const auto connect = [&](PeerId self, const std::string& path) {
    options.connect.deadline = Soon();
    auto listener = *ExchangeListener::Create("unix:" + path);
    return *ConnectNetwork(LayoutFor(ExchangeMode::kDirect, shape, self), options, *listener, {});
  };
  std::vector<double> floors, exchange;
  const int warm = rounds / 10;
  constexpr int kBlocks = 5;
  for (int block = 0; block < kBlocks; ++block) {
    const int port = 20000 + static_cast<int>(getpid()) % 20000 + 2 * block;
    floors.push_back(PerftestMicros("", "127.0.0.1", out, rounds, port) +
                     PerftestMicros("", "127.0.0.1", back, rounds, port + 1));
    InTwoProcesses(
        [&] {
          auto transport = connect({Role::kExperts, Rank{0}}, folder + "/experts-0.x");
          ExpertSide(*transport, shape, rounds + warm, false);
          // The last message must still be sent.
          (void)transport->Wait(MonotonicClock::now() + std::chrono::milliseconds(200),
                                [] { return false; });
        },
        [&] {
          auto transport = connect({Role::kAttention, Rank{0}}, folder + "/attention-0.x");
          std::vector<double> all;
          AttentionSide(*transport, shape, rounds + warm, rows, nullptr, nullptr, all);
          exchange.insert(exchange.end(), all.begin() + warm, all.end());
        });
  }
  std::sort(floors.begin(), floors.end());
  std::sort(exchange.begin(), exchange.end());
  const double floor = At(floors, .5);
  std::printf(
      "{\"bench\":\"exchange_ucx\",\"rows\":%d,\"hidden\":%d,\"dtype\":\"bf16\",\"bytes_out\":%zu,"
      "\"bytes_back\":%zu,\"ucx_perftest_us\":{\"least\":%.2f,\"p50\":%.2f,\"most\":%.2f},"
      "\"exchange_us\":{\"p10\":%.2f,\"p50\":%.2f,\"p99\":%.2f},\"p50_ratio\":%.3f,"
      "\"rounds\":%zu}\n",
      rows, kHidden, out, back, floors.front(), floor, floors.back(), At(exchange, .1),
      At(exchange, .5), At(exchange, .99), floor > 0 ? At(exchange, .5) / floor : 0.0,
      exchange.size());
  std::fflush(stdout);
}

}  // namespace
}  // namespace janus::dataplane

int main(int argc, char** argv) {
  int rounds = 2000;
  if (!janus::bench::TakeRounds("exchange_bench", {argv + 1, argv + argc}, &rounds)) return 2;
  const janus::TempFolder folder;
  for (const int rows : {1, 16, 128})
    janus::dataplane::Case(folder.path(), rows, std::max(10, rounds));
  for (const int rows : {1, 16, 64})
    janus::dataplane::SumCase(folder.path(), rows, 8, std::max(10, rounds / 2));
  for (const int rows : {1, 16, 128, 1024})
    janus::dataplane::CodecCase(rows, std::max(10, rounds / 10));
  for (const int rows : {1, 16, 128})
    janus::dataplane::SumsCodecCase(rows, 8, std::max(10, rounds / 10));
  // For ucx_perftest and for us; ConnectNetwork asks for the same.
  setenv("UCX_TLS", "tcp", 1);
  setenv("UCX_NET_DEVICES", "lo", 1);
  for (const int rows : {1, 16, 128}) {
    janus::dataplane::UcxCase(folder.path(), rows, std::max(10, rounds / 2));
  }
  return 0;
}
