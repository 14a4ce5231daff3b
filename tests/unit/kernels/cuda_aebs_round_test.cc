// The gate, AEBS and the lists of an instance's work as one operation, against the specifications
// one after the other and lists cut as the host cuts them.

#include "kernels/aebs_round.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "common/aligned_buffer.h"
#include "tests/unit/kernels/cuda_order.h"
#include "tests/unit/kernels/guarded_array.h"
#include "tests/unit/kernels/random_placement.h"

namespace janus::kernels {
namespace {

constexpr Stream kStream{.device = Device::kCuda};
constexpr int64_t kReplyBytes = 48;  // of a contribution
constexpr int kBehind = 2;           // entries behind each list that the kernel must not touch

struct Shape {
  const char* name;
  DType dtype;
  int rows;
  int hidden;
  int experts;
  int top_k;
  int instances;
  bool has_room;  // for all rows in the gate's workspace
  friend void PrintTo(const Shape& s, std::ostream* out) { *out << s.name; }
};

struct Work {
  std::vector<uint16_t> ids;
  std::vector<ActiveExpert> active;
  std::vector<Contribution> contributions;
};

template <class T>
std::vector<T> Filled(size_t count, unsigned char byte) {
  std::vector<T> values(count);
  std::memset(static_cast<void*>(values.data()), byte, count * sizeof(T));
  return values;
}
template <class T>
bool IsFilled(const T& value, unsigned char byte) {
  // Compares bytes, because a comparison of values would leave out padding.
  const auto* bytes = reinterpret_cast<const unsigned char*>(&value);
  return std::all_of(bytes, bytes + sizeof(T), [&](unsigned char b) { return b == byte; });
}

// A layer of `shape` over random rows.
class Layer {
 public:
  Layer(const Shape& shape, std::mt19937_64& random)
      : shape_(shape),
        rows_(shape.dtype, int64_t{shape.rows} * shape.hidden),
        gate_weights_(shape.dtype, int64_t{shape.experts} * shape.hidden),
        placement_(
            cuda::RandomPlacement(shape.experts, shape.instances, shape.experts / 2, random)),
        view_(LayerPlacement::Of(placement_, 0, shape.experts)) {
    rows_.FillNormal(random);
    gate_weights_.FillNormal(random, 0.3f);
    for (int t = 0; t < shape.rows; ++t) {
      pointers_.push_back(static_cast<const std::byte*>(rows_.data()) +
                          int64_t{t} * shape.hidden * SizeOf(shape.dtype));
    }
    Divide(1, random);
    for (int e = 0; e < 3 * shape.experts; ++e) weights_.push_back(static_cast<float>(e));
  }

  int SlotsOf(int rank) const { return placement_.slots_of_instance[static_cast<size_t>(rank)]; }
  // Weights of a slot that differ from all others'; never read.
  std::vector<ActiveExpert> TensorsOf(int rank) const {
    std::vector<ActiveExpert> tensors(static_cast<size_t>(SlotsOf(rank)));
    for (size_t s = 0; s < tensors.size(); ++s) {
      tensors[s] = {&weights_[s], &weights_[s] + 1, &weights_[s] + 2, -7,
                    -7,           &weights_[s] + 3, nullptr,          &weights_[s] + 4};
    }
    return tensors;
  }

  // Divides rows among senders, some of which get none; each sender's replies lie anywhere.
  void Divide(int senders, std::mt19937_64& random) {
    const auto pairs = static_cast<size_t>(shape_.rows) * static_cast<size_t>(shape_.top_k);
    replies_.resize(pairs * static_cast<size_t>(senders) * kReplyBytes);
    sender_of_.clear();
    for (int t = 0; t < shape_.rows; ++t) {
      sender_of_.push_back(static_cast<uint16_t>(random() % static_cast<uint64_t>(senders)));
    }
    std::sort(sender_of_.begin(), sender_of_.end());
    replies_of_.clear();
    for (int s = 0; s < senders; ++s) {
      replies_of_.push_back(replies_.data() + static_cast<size_t>(s) * pairs * kReplyBytes);
    }
    std::shuffle(replies_of_.begin(), replies_of_.end(), random);
  }

  // The work of `rank` in the first `live` rows. Negative: in all rows, without a `live_rows` word.
  Work ByKernel(SchedulingPolicy policy, int rank, int live,
                const std::vector<ActiveExpert>& tensors) {
    NextOrder();
    const auto ids_count = static_cast<size_t>(shape_.rows * shape_.top_k);
    const auto listed = static_cast<size_t>(
        RoutedExperts(shape_.rows, shape_.top_k, static_cast<int>(tensors.size())));
    Work work;
    work.ids.assign(ids_count, 0);
    work.active = Filled<ActiveExpert>(listed + kBehind, 0xA5);
    work.contributions = Filled<Contribution>(ids_count + kBehind, 0xA5);
    RouteRoundArgs args;
    args.gate = Gate(work.ids.data());
    const std::vector<int32_t> word = {live};
    args.live_rows = live < 0 ? nullptr : word.data();
    args.policy = policy;
    args.placement = PlacementView::Of(view_);
    args.rank = rank;
    args.slots = static_cast<int>(tensors.size());
    args.tensors = tensors.data();
    std::vector<int32_t> first_rows;
    for (size_t s = 0; s < replies_of_.size(); ++s) {
      const auto first = std::lower_bound(sender_of_.begin(), sender_of_.end(), s);
      first_rows.push_back(static_cast<int32_t>(first - sender_of_.begin()));
    }
    args.first_rows = first_rows.data();
    args.senders = static_cast<int>(replies_of_.size());
    args.y = replies_of_.data();
    args.y_row_bytes = kReplyBytes;
    args.active = work.active.data();
    args.contributions = work.contributions.data();
    const int64_t bytes =
        RouteRoundScratchBytes(shape_.rows, shape_.top_k, shape_.experts, shape_.instances);
    AlignedBuffer scratch(static_cast<size_t>(bytes));
    args.scratch = scratch.data();
    args.scratch_bytes = bytes;
    const Status status = RouteRound(kStream, args);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return work;
  }

  // Scalar loops over what the specifications give for the same ids.
  void Check(const Work& got, SchedulingPolicy policy, int rank, int rows,
             const std::vector<ActiveExpert>& tensors) {
    std::vector<uint16_t> routed(got.ids.size());
    EXPECT_TRUE(GateTopK(kStream, Gate(routed.data())).ok());
    ASSERT_EQ(got.ids, routed);
    const std::span<const uint16_t> ids =
        std::span(got.ids).first(static_cast<size_t>(rows * shape_.top_k));
    AebsWorkspace aebs(shape_.experts, shape_.instances);
    std::vector<Replica> replicas(ids.size());
    ScheduleActivatedExperts(policy, view_, ids, aebs, replicas);
    size_t at = 0, active = 0;
    for (size_t s = 0; s < tensors.size(); ++s) {
      const size_t first = at;
      std::vector<int64_t> replies(replies_of_.size(), 0);
      for (size_t i = 0; i < replicas.size(); ++i) {
        if (replicas[i].instance != rank) continue;
        const auto k = static_cast<size_t>(shape_.top_k);
        const size_t sender = sender_of_[i / k];
        if (replicas[i].slot == s) {
          const Contribution& c = got.contributions[at++];
          ASSERT_EQ(c.x, pointers_[i / k]) << i;
          ASSERT_EQ(c.y, replies_of_[sender] + replies[sender] * kReplyBytes) << i;
          ASSERT_EQ(c.weight, weights_of_[i]) << i;
        }
        ++replies[sender];
      }
      if (at == first) continue;
      const ActiveExpert& listed = got.active[active++];
      EXPECT_EQ(listed.gate, tensors[s].gate);
      EXPECT_EQ(listed.down, tensors[s].down);
      EXPECT_EQ(listed.gate_scales, tensors[s].gate_scales);
      EXPECT_EQ(listed.down_scales, tensors[s].down_scales);
      EXPECT_EQ(listed.first, static_cast<int32_t>(first));
      EXPECT_EQ(listed.count, tensors[s].gate == nullptr ? 0 : static_cast<int32_t>(at - first));
    }
    listed_ += at;
    for (; at < got.contributions.size(); ++at) {
      ASSERT_TRUE(IsFilled(got.contributions[at], 0xA5)) << at;
    }
    for (; active + kBehind < got.active.size(); ++active) {
      EXPECT_EQ(got.active[active].count, 0);
      EXPECT_EQ(got.active[active].gate, nullptr);
    }
    for (; active < got.active.size(); ++active) {
      ASSERT_TRUE(IsFilled(got.active[active], 0xA5)) << active;
    }
  }

  size_t listed() const { return listed_; }

 private:
  GateTopKArgs Gate(uint16_t* ids) {
    const auto count = static_cast<size_t>(shape_.rows * shape_.top_k);
    logits_.resize(static_cast<size_t>(shape_.rows * shape_.experts));
    weights_of_.assign(count, 0.0f);
    const int64_t bytes =
        GateTopKWorkspaceBytes(shape_.has_room ? shape_.rows : 1, shape_.hidden, shape_.experts);
    workspace_ = AlignedBuffer(static_cast<size_t>(bytes));
    GateTopKArgs a;
    a.x_rows = pointers_.data();
    a.x_dtype = a.weight_dtype = shape_.dtype;
    a.weight = gate_weights_.data();
    a.logits = logits_.data();
    a.ids = ids;
    a.weights = weights_of_.data();
    a.rows = shape_.rows;
    a.hidden = shape_.hidden;
    a.experts = shape_.experts;
    a.top_k = shape_.top_k;
    a.workspace = workspace_.data();
    a.workspace_bytes = bytes;
    return a;
  }

  const Shape shape_;
  GuardedArray rows_;
  GuardedArray gate_weights_;
  const Placement placement_;
  const LayerPlacement view_;
  std::vector<const void*> pointers_;
  std::vector<float> weights_;  // that tensors point to
  std::vector<float> logits_;
  std::vector<float> weights_of_;
  AlignedBuffer workspace_;
  std::vector<std::byte> replies_;  // never written
  std::vector<uint16_t> sender_of_;
  std::vector<std::byte*> replies_of_;  // of each sender, its first
  size_t listed_ = 0;
};

class RouteRoundTest : public testing::TestWithParam<Shape> {};

TEST_P(RouteRoundTest, ListsWhatTheHostWould) {
  const Shape& shape = GetParam();
  std::mt19937_64 random(31);
  for (int round = 0; round < 4; ++round) {
    Layer layer(shape, random);
    if (round > 0) layer.Divide(1 << (2 * round), random);  // more than rows at last
    const auto policy = round % 2 == 0 ? SchedulingPolicy::kAebs : SchedulingPolicy::kAebsGreedy;
    const int live = round < 2 ? -1 : round == 2 ? (shape.rows + 1) / 2 : 0;
    for (int rank = 0; rank < shape.instances; ++rank) {
      const std::vector<ActiveExpert> tensors = layer.TensorsOf(rank);
      if (tensors.empty()) continue;
      const Work work = layer.ByKernel(policy, rank, live, tensors);
      layer.Check(work, policy, rank, live < 0 ? shape.rows : live, tensors);
    }
    // One instance lists each (row, top-k slot), once.
    const int rows = live < 0 ? shape.rows : live;
    EXPECT_EQ(layer.listed(), static_cast<size_t>(rows * shape.top_k));
  }
}

constexpr DType kF32 = DType::kFloat32;
constexpr DType kB16 = DType::kBFloat16;
INSTANTIATE_TEST_SUITE_P(Shapes, RouteRoundTest,
                         testing::Values(Shape{"OneRow", kB16, 1, 8, 5, 2, 3, true},
                                         Shape{"OneInstance", kB16, 33, 16, 100, 4, 1, true},
                                         Shape{"Rows", kB16, 64, 264, 256, 8, 16, true},
                                         Shape{"OddRows", kB16, 67, 40, 72, 6, 5, true},
                                         Shape{"ManyRows", kB16, 521, 8, 64, 8, 4, true},
                                         Shape{"LittleWorkspace", kB16, 70, 264, 64, 4, 9, false},
                                         Shape{"Plain", kF32, 20, 24, 64, 4, 9, true},
                                         Shape{"ManyInstances", kB16, 9, 40, 64, 4, 129, true}),
                         [](const auto& info) { return info.param.name; });

// The host finds the same error and ends the step. The device must not fault before.
TEST(RouteRound, AnEmptySlotThatIsGivenWorkComputesNothing) {
  std::mt19937_64 random(32);
  Layer layer({"", kB16, 16, 8, 6, 3, 1, true}, random);
  std::vector<ActiveExpert> tensors = layer.TensorsOf(0);
  for (ActiveExpert& slot : tensors) slot.gate = nullptr;
  const Work work = layer.ByKernel(SchedulingPolicy::kAebs, 0, -1, tensors);
  layer.Check(work, SchedulingPolicy::kAebs, 0, 16, tensors);
}

TEST(RouteRound, SaysWhatIsWrong) {
  RouteRoundArgs a;
  const Stream reference;
  EXPECT_EQ(RouteRound(reference, a).code(), StatusCode::kUnimplemented);
  EXPECT_TRUE(RouteRound(kStream, a).ok()) << "no rows";
  alignas(64) static float floats[1024] = {};
  static const void* const pointers[1] = {floats};
  static uint16_t ids[4];
  a.gate.x_rows = pointers;
  a.gate.weight = a.gate.logits = a.gate.weights = floats;
  a.gate.ids = ids;
  a.gate.rows = 1;
  a.gate.hidden = 4;
  a.gate.experts = 4;
  a.gate.top_k = 2;
  const auto says = [&] { return RouteRound(kStream, a).message(); };
  EXPECT_EQ(says(), "RouteRound: the gate has not as many experts as the placement");
  a.placement.experts = 4;
  a.placement.instances = 2;
  a.rank = 2;
  EXPECT_EQ(says(), "RouteRound: rank is 2, wanted 0..1");
  a.rank = 1;
  EXPECT_EQ(says(), "RouteRound: slots is 0, wanted 1..1024");
  a.slots = 3;
  static ActiveExpert active[3];
  static Contribution contributions[2];
  a.tensors = active;
  a.active = active;
  a.contributions = contributions;
  a.scratch = floats;
  EXPECT_EQ(says(), "RouteRound: first_rows is null");
  static int32_t first_rows[1] = {};
  a.first_rows = first_rows;
  EXPECT_EQ(says(), "RouteRound: senders is 0, wanted 1..1024");
  a.senders = 1;
  EXPECT_EQ(says(), "RouteRound: y is null");
  static std::byte* replies[1] = {};
  a.y = replies;
  EXPECT_EQ(says(), "RouteRound: y_row_bytes is 0, wanted 1..2147483648");
  a.y_row_bytes = 8;
  a.scratch_bytes = 63;
  EXPECT_EQ(says(), "RouteRound: scratch_bytes is 63, wanted 64..9223372036854775807");
  a.scratch_bytes = 64;
  a.gate.top_k = 5;
  EXPECT_EQ(says(), "GateTopK: top_k is 5, wanted 1..4");
  a.gate.top_k = 2;
  a.gate.rows = kMostRoutedIds;
  EXPECT_EQ(says(), "RouteRound: rows * top_k is 65536, wanted 1..32768");
}

}  // namespace
}  // namespace janus::kernels
