// Checks each rule that keeps a request's bits independent. Each check passes without faults, fails
// with its fault planted, and passes with every other fault.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>

#include "common/aligned_buffer.h"
#include "dataplane/attention/layers.h"
#include "dataplane/comm/transport/loopback.h"
#include "kernels/kernels.h"
#include "tests/integration/bits/planted_faults.h"
#include "tests/support/random.h"
#include "tests/support/schedule.h"

namespace janus::dataplane {
namespace {

// A stream with its team.
struct Runner {
  explicit Runner(KernelChoice choice) : stream{choice.device, &team, choice.isa, nullptr} {}
  kernels::Team team{1};
  kernels::Stream stream;
};

std::vector<float> RandomFloats(Random& random, size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = random.Signed();
  return values;
}

bool SameBits(const float* a, const float* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

// Each check returns "" or a description of the difference.
std::string ProjectionIgnoresOtherRows(KernelChoice choice) {
  constexpr int64_t kRows = 9, kOutputs = 33, kInputs = 70;
  Random random(1);
  Runner run(choice);
  const std::vector<float> x = RandomFloats(random, kRows * kInputs);
  const std::vector<float> weight = RandomFloats(random, kOutputs * kInputs);
  const auto project = [&](int64_t first, int64_t rows) {
    std::vector<float> y(static_cast<size_t>(rows * kOutputs));
    kernels::LinearArgs args;
    args.x = x.data() + first * kInputs;
    args.weight = weight.data();
    args.y = y.data();
    args.rows = rows;
    args.outputs = kOutputs;
    args.inputs = kInputs;
    EXPECT_TRUE(kernels::Linear(run.stream, args).ok());
    return y;
  };
  const std::vector<float> together = project(0, kRows);
  for (int64_t rows = 1; rows < kRows; ++rows) {
    for (int64_t first = 0; first + rows <= kRows; ++first) {
      const std::vector<float> y = project(first, rows);
      if (!SameBits(y.data(), together.data() + first * kOutputs, y.size())) {
        return "rows " + std::to_string(first) + "+" + std::to_string(rows) + " of a projection";
      }
    }
  }
  return "";
}

// Sequences of 80 keys in a separate cache.
class Attending {
 public:
  static constexpr int kSequences = 5, kKeys = 80, kHeads = 4, kKvHeads = 2, kDim = 8;
  static constexpr int kPages = (kKeys + kernels::kPageTokens - 1) / kernels::kPageTokens;
  static constexpr size_t kWidth = kHeads * kDim;

  explicit Attending(KernelChoice choice) : run_(choice) {
    Random random(2);
    const auto page_bytes = kernels::KvPageBytes(DType::kFloat32, kKvHeads, kDim);
    pages_ = AlignedBuffer(static_cast<size_t>(page_bytes) * kPages * kSequences);
    cache_.pages = pages_.data();
    cache_.num_pages = kPages * kSequences;
    cache_.kv_heads = kKvHeads;
    cache_.head_dim = kDim;
    std::vector<int32_t> order(kPages * kSequences);
    std::iota(order.begin(), order.end(), 0);
    std::reverse(order.begin(), order.end());
    for (int s = 0; s < kSequences; ++s) {
      tables_[s].assign(order.begin() + s * kPages, order.begin() + (s + 1) * kPages);
      queries_[s] = RandomFloats(random, kKeys * kWidth);
      const std::vector<float> keys = RandomFloats(random, size_t{kKeys} * kKvHeads * kDim);
      const std::vector<float> values = RandomFloats(random, size_t{kKeys} * kKvHeads * kDim);
      std::vector<kernels::KvRow> rows;
      for (int p = 0; p < kKeys; ++p) rows.push_back({tables_[s].data(), p});
      kernels::KvWriteArgs write;
      write.cache = cache_;
      write.rows = rows.data();
      write.keys = keys.data();
      write.values = values.data();
      write.num_rows = kKeys;
      EXPECT_TRUE(kernels::KvWrite(run_.stream, write).ok());
    }
  }

  // The outputs of these (sequence, position) pairs, in one call.
  std::vector<float> Of(const std::vector<std::pair<int, int>>& wanted) {
    std::vector<kernels::KvRow> rows;
    std::vector<float> queries;
    for (const auto& [s, p] : wanted) {
      rows.push_back({tables_[s].data(), p});
      const float* q = queries_[s].data() + static_cast<size_t>(p) * kWidth;
      queries.insert(queries.end(), q, q + kWidth);
    }
    std::vector<float> y(wanted.size() * kWidth);
    kernels::PagedAttentionArgs args;
    args.cache = cache_;
    args.rows = rows.data();
    args.queries = queries.data();
    args.y = y.data();
    args.num_rows = static_cast<int64_t>(rows.size());
    args.heads = kHeads;
    args.scale = 0.7f;
    EXPECT_TRUE(kernels::PagedAttention(run_.stream, args).ok());
    return y;
  }

 private:
  Runner run_;
  AlignedBuffer pages_;
  kernels::KvCache cache_;
  std::vector<int32_t> tables_[kSequences];
  std::vector<float> queries_[kSequences];
};

std::string AttentionIgnoresOtherSequences(KernelChoice choice) {
  Attending attending(choice);
  std::vector<std::pair<int, int>> all;
  for (int s = 0; s < Attending::kSequences; ++s) all.emplace_back(s, Attending::kKeys - 1 - s);
  const std::vector<float> together = attending.Of(all);
  for (size_t s = 0; s < all.size(); ++s) {
    const std::vector<float> alone = attending.Of({all[s]});
    if (!SameBits(alone.data(), together.data() + s * Attending::kWidth, alone.size())) {
      return "sequence " + std::to_string(s) + " beside others";
    }
  }
  return "";
}

std::string AttentionIgnoresChunkBorders(KernelChoice choice) {
  Attending attending(choice);
  const auto in_chunks = [&](int chunk) {
    std::vector<float> y;
    for (int first = 0; first < Attending::kKeys; first += chunk) {
      std::vector<std::pair<int, int>> rows;
      for (int p = first; p < std::min(first + chunk, Attending::kKeys); ++p)
        rows.emplace_back(1, p);
      const std::vector<float> part = attending.Of(rows);
      y.insert(y.end(), part.begin(), part.end());
    }
    return y;
  };
  const std::vector<float> whole = in_chunks(Attending::kKeys);
  for (const int chunk : {1, 3, 16, 17, 64}) {
    const std::vector<float> y = in_chunks(chunk);
    if (!SameBits(y.data(), whole.data(), y.size())) return "chunks of " + std::to_string(chunk);
  }
  return "";
}

// One row of three contributions with a sum that depends on their order, for every choice of
// senders.
std::string ContributionsAreAddedInSlotOrder(KernelChoice choice) {
  constexpr int kHidden = 16, kTopK = 3, kExperts = 3;
  constexpr float kValues[kTopK] = {1e8f, 3.0f, -1e8f};
  ExchangeShape shape;
  shape.hidden = kHidden;
  shape.top_k = kTopK;
  shape.max_rows = 4;
  shape.m = 1;
  shape.n = kExperts;
  Runner run(choice);
  for (int owners = 0; owners < 27; ++owners) {
    const int owner[kTopK] = {owners % 3, owners / 3 % 3, owners / 9};
    LoopbackNetwork network(LayoutFor(ExchangeMode::kDirect, shape, PeerId{}));
    const auto transport = network.Connect({Role::kAttention, Rank{0}}, {});
    const auto attention = WithPlantedFault(std::move(*MakeAttentionExchange(shape, *transport)));
    RoundKey key;
    key.epoch = key.step = 1;
    EXPECT_TRUE(attention->Post(key, 1, {}).ok());
    std::vector<std::unique_ptr<Transport>> transports;
    for (int e = kExperts - 1; e >= 0; --e) {  // the last one sends first
      transports.push_back(network.Connect({Role::kExperts, Rank{e}}, {}));
      const auto expert = std::move(*MakeExpertExchange(shape, *transports.back()));
      ArrivedRows arrived;
      EXPECT_TRUE(*expert->Poll(key, Rank{0}, arrived));
      const auto count = static_cast<int>(std::count(owner, owner + kTopK, e));
      const ExpertExchange::Outgoing out = expert->Begin(0, Rank{0}, count);
      size_t at = 0;
      for (int slot = kTopK - 1; slot >= 0; --slot) {  // and its contributions are not sorted
        if (owner[slot] != e) continue;
        out.refs[at] = {0, static_cast<uint8_t>(slot), 0};
        std::fill_n(reinterpret_cast<float*>(out.rows) + at * kHidden, kHidden, kValues[slot]);
        ++at;
      }
      EXPECT_TRUE(expert->Post(key, Rank{0}, {}).ok());
    }
    EXPECT_TRUE(*attention->Poll(key));
    const std::vector<float> residual(kHidden, 0.5f);
    std::vector<float> y(kHidden);
    kernels::CombineSlotsArgs args;
    args.contributions = attention->Contributions(0).data();
    args.residual = residual.data();
    args.y = y.data();
    args.rows = 1;
    args.hidden = kHidden;
    args.top_k = kTopK;
    EXPECT_TRUE(kernels::CombineSlots(run.stream, args).ok());
    const float want = 0.5f + ((kValues[0] + kValues[1]) + kValues[2]);
    if (y[0] != want || y[kHidden - 1] != want) {
      return "slots from instances " + std::to_string(owner[0]) + " " + std::to_string(owner[1]) +
             " " + std::to_string(owner[2]);
    }
  }
  return "";
}

std::string TiesGoToTheLowerId(KernelChoice choice) {
  constexpr int kRows = 6, kHidden = 24, kExperts = 8, kTopK = 3;
  Random random(3);
  Runner run(choice);
  const std::vector<float> x = RandomFloats(random, kRows * kHidden);
  std::vector<float> weight = RandomFloats(random, kExperts * kHidden);
  for (int e = 1; e < kExperts; e += 2) {  // experts 2i and 2i+1 always tie
    std::copy_n(weight.begin() + (e - 1) * kHidden, kHidden, weight.begin() + e * kHidden);
  }
  std::vector<const void*> rows;
  for (int t = 0; t < kRows; ++t) rows.push_back(x.data() + t * kHidden);
  const auto gate = [&](int first, int count) {
    std::vector<float> logits(static_cast<size_t>(count) * kExperts);
    std::vector<float> weights(static_cast<size_t>(count) * kTopK);
    std::vector<uint16_t> ids(static_cast<size_t>(count) * kTopK);
    kernels::GateTopKArgs args;
    args.x_rows = rows.data() + first;
    args.weight = weight.data();
    args.logits = logits.data();
    args.ids = ids.data();
    args.weights = weights.data();
    args.rows = count;
    args.hidden = kHidden;
    args.experts = kExperts;
    args.top_k = kTopK;
    EXPECT_TRUE(kernels::GateTopK(run.stream, args).ok());
    return ids;
  };
  const std::vector<uint16_t> together = gate(0, kRows);
  for (int t = 0; t < kRows; ++t) {
    const std::vector<uint16_t> alone = gate(t, 1);
    const auto* beside = together.data() + t * kTopK;
    if (!std::equal(alone.begin(), alone.end(), beside))
      return "row " + std::to_string(t) + " beside others";
    if (beside[0] % 2 != 0 || beside[1] != beside[0] + 1 || beside[2] % 2 != 0) {
      return "row " + std::to_string(t) + " takes the higher of two equal experts first";
    }
  }
  return "";
}

std::string DrawsBelongToSeedAndPosition(KernelChoice choice) {
  constexpr int kVocab = 50, kDraws = 24;
  Random random(4);
  Runner run(choice);
  const std::vector<float> logits = RandomFloats(random, kVocab);
  AlignedBuffer workspace(static_cast<size_t>(kernels::SampleWorkspaceBytes(kVocab, 1)));
  const auto draw = [&](int position) {
    kernels::SamplingParams params;
    params.seed = 99;
    params.position = position;
    kernels::SampledToken token;
    kernels::SampleArgs args;
    args.logits = logits.data();
    args.params = &params;
    args.tokens = &token;
    args.rows = 1;
    args.vocab = kVocab;
    args.workspace = workspace.data();
    args.workspace_bytes = static_cast<int64_t>(workspace.size());
    EXPECT_TRUE(kernels::Sample(run.stream, args).ok());
    return token.token;
  };
  std::vector<int32_t> first, again;
  for (int i = 0; i < kDraws; ++i) first.push_back(draw(i));
  for (int i = kDraws - 1; i >= 0; --i) again.insert(again.begin(), draw(i));
  return first == again ? "" : "the same seed and positions in another order";
}

// The attention side of a model with latent attention; its routed experts contribute nothing.
class LatentSide {
 public:
  explicit LatentSide(KernelChoice choice)
      : held_(SmallLatentModel(DType::kFloat32, 5)), run_(choice) {
    KvPagePoolOptions options;
    options.layers = held_.model.layers;
    options.dtype = WireType(held_.model);
    options.page_bytes = CachePageBytes(held_.model, options.dtype);
    options.bytes = options.page_bytes * options.layers * 4;
    cache_ = std::move(*KvPagePool::Create(options));
    layers_.emplace(held_.model, held_.attention, *cache_, run_.stream,
                    AttentionLayers::Room{.max_rows = kMostRows});
    nothing_.resize(static_cast<size_t>(held_.model.hidden));
    contributions_.assign(static_cast<size_t>(kMostRows * held_.model.moe.top_k), nothing_.data());
    rows_ = AlignedBuffer(static_cast<size_t>(kMostRows * held_.model.hidden) * sizeof(float));
  }

  // Logits of all rows, [rows, V].
  std::vector<float> Compute(const Batch& batch) {
    EXPECT_TRUE(layers_->Begin(batch).ok());
    for (int layer = 0; layer < held_.model.layers; ++layer) {
      if (held_.model.IsDense(layer)) {
        EXPECT_TRUE(layers_->DenseLayer(layer, 0).ok());
        continue;
      }
      EXPECT_TRUE(layers_->Attend(layer, 0, rows_.data()).ok());
      EXPECT_TRUE(layers_->SharedExperts(layer, 0, rows_.data()).ok());
      EXPECT_TRUE(layers_->TakeExperts(0, contributions_).ok());
      EXPECT_TRUE(layers_->AddExperts(0).ok());
    }
    std::vector<int32_t> wanted(batch.rows.size());
    std::iota(wanted.begin(), wanted.end(), 0);
    const std::span<const float> logits = *layers_->Logits(wanted);
    return {logits.begin(), logits.end()};
  }
  KvPagePool& cache() { return *cache_; }
  size_t vocab() const { return static_cast<size_t>(held_.model.vocab); }

 private:
  static constexpr int kMostRows = 8;
  const HeldModel held_;
  Runner run_;
  std::unique_ptr<KvPagePool> cache_;
  std::optional<AttentionLayers> layers_;
  std::vector<float> nothing_;
  std::vector<const void*> contributions_;
  AlignedBuffer rows_;
};

// Each call has two generated positions: of two sequences at first, and of one when they are
// computed again. Effects of other rows on a projection are not checked here.
std::string GeneratedPositionsKeepTheirForm(KernelChoice choice) {
  constexpr int kPrompt = 6, kEnd = 12;
  LatentSide side(choice);
  Request request;
  for (int i = 0; i < kPrompt; ++i) request.prompt.push_back(7 * i + 1);
  Sequence first(request), other(request), again(request);
  for (Sequence* s : {&first, &other, &again}) {
    for (int i = kPrompt; i < kEnd; ++i) s->tokens.push_back(5 * i + 2);
    EXPECT_TRUE(side.cache().Grow(s->pages, 1));
    Batch prompt;
    for (int p = 0; p < kPrompt; ++p) {
      prompt.rows.push_back({s, p, s->tokens[static_cast<size_t>(p)], false, s->ClassOf(p)});
    }
    side.Compute(prompt);
  }
  const auto row = [](Sequence& s, int p, bool last) {
    return BatchRow{&s, p, s.tokens[static_cast<size_t>(p)], last, s.ClassOf(p)};
  };
  std::vector<float> wanted;
  for (int p = kPrompt; p < kEnd; ++p) {
    Batch batch;
    batch.rows = {row(first, p, true), row(other, p, true)};
    const std::vector<float> logits = side.Compute(batch);
    wanted.insert(wanted.end(), logits.begin(),
                  logits.begin() + static_cast<ptrdiff_t>(side.vocab()));
  }
  for (int p = kPrompt; p < kEnd; p += 2) {
    Batch batch;
    batch.rows = {row(again, p, false), row(again, p + 1, p + 2 == kEnd)};
    const std::vector<float> logits = side.Compute(batch);
    if (!SameBits(logits.data(), wanted.data() + static_cast<size_t>(p - kPrompt) * side.vocab(),
                  logits.size())) {
      return "position " + std::to_string(p) + " or the next, computed again";
    }
  }
  return "";
}

struct Rule {
  const char* name;
  Fault fault;
  std::string (*check)(KernelChoice);
};
constexpr Rule kRules[] = {
    {"ProjectionIgnoresOtherRows", Fault::kLoopByRows, ProjectionIgnoresOtherRows},
    {"AttentionIgnoresOtherSequences", Fault::kSplitsByBatch, AttentionIgnoresOtherSequences},
    {"ContributionsAreAddedInSlotOrder", Fault::kArrivalOrderSum, ContributionsAreAddedInSlotOrder},
    {"AttentionIgnoresChunkBorders", Fault::kChunkAlignedBlocks, AttentionIgnoresChunkBorders},
    {"TiesGoToTheLowerId", Fault::kTieByArrival, TiesGoToTheLowerId},
    {"DrawsBelongToSeedAndPosition", Fault::kSeedByStream, DrawsBelongToSeedAndPosition},
    {"GeneratedPositionsKeepTheirForm", Fault::kPromptFormOnReplay,
     GeneratedPositionsKeepTheirForm},
};
void PrintTo(const Rule& rule, std::ostream* out) {
  *out << rule.name;
}

class RuleTest : public testing::TestWithParam<Rule> {};

TEST_P(RuleTest, HoldsOnEveryDevice) {
  EXPECT_EQ(GetParam().check(KernelChoice()), "");
  EXPECT_EQ(GetParam().check(BestCpu()), "");
}

TEST_P(RuleTest, ItsFaultTurnsExactlyItRed) {
  const Planted planted(GetParam().fault);
  for (const Rule& rule : kRules) {
    if (rule.fault == GetParam().fault) {
      EXPECT_NE(rule.check(KernelChoice()), "") << rule.name << " did not see its fault";
    } else {
      EXPECT_EQ(rule.check(KernelChoice()), "") << rule.name << " is red for another rule's fault";
    }
  }
}

// The random schedules of bits_test find each fault too, from outside. Returns where the first of
// 40 schedules from `seed` differs from its requests alone.
std::string FirstDifference(Fault fault, uint64_t seed) {
  // Only latent attention has two forms, and two faults are planted in code that only the other
  // kind uses.
  HeldModel held = fault == Fault::kPromptFormOnReplay
                       ? SmallLatentModel(DType::kFloat32, MixSeed(seed, 1))
                       : SmallRandomModel(DType::kFloat32, MixSeed(seed, 1));
  // The gate's experts tie in pairs; only then the rule of ties matters.
  const int h = held.model.hidden;
  std::vector<std::vector<float>> gates;
  for (ExpertLayerWeights& layer : held.experts.layers) {
    const auto* gate = static_cast<const float*>(layer.gate.data);
    auto& tied = gates.emplace_back(gate, gate + held.model.moe.experts * h);
    for (int e = 1; e < held.model.moe.experts; e += 2) {
      std::copy_n(tied.begin() + (e - 1) * h, h, tied.begin() + e * h);
    }
    layer.gate.data = tied.data();
  }
  for (int l = 0, moe = 0; l < held.model.layers; ++l) {
    if (held.model.IsDense(l)) continue;
    held.attention.layers[static_cast<size_t>(l)].moe_gate =
        held.experts.layers[static_cast<size_t>(moe++)].gate;
  }
  const RequestPool pool = MakeRequestPool(held, KernelChoice(), 12, MixSeed(seed, 2));
  for (uint64_t i = 0; i < 40; ++i) {
    Random random(MixSeed(seed, 3, i));
    const Schedule schedule = RandomSchedule(random, 2, 3, held.model, pool);
    const ScheduleRun run = RunSchedule(schedule, held, pool, KernelChoice(), WithPlantedFault);
    if (std::string differs = Differences(schedule, run, pool); !differs.empty()) return differs;
  }
  return "";
}

TEST_P(RuleTest, ItsFaultShowsInRandomSchedules) {
  const uint64_t seed = TestSeed();
  const Fault fault = GetParam().fault;
  EXPECT_EQ(FirstDifference(fault, seed), "") << "without a fault, JANUS_SEED=" << seed;
  const Planted planted(fault);
  // One schedule can miss the fault by chance, so others follow.
  constexpr uint64_t kMostDraws = 20;
  bool has_shown = false;
  for (uint64_t draw = 0; !has_shown && draw < kMostDraws; ++draw) {
    has_shown = !FirstDifference(fault, draw == 0 ? seed : MixSeed(seed, 4, draw)).empty();
  }
  EXPECT_TRUE(has_shown) << "JANUS_SEED=" << seed;
}

INSTANTIATE_TEST_SUITE_P(Bits, RuleTest, testing::ValuesIn(kRules),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace janus::dataplane
