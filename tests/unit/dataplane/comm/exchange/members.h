#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "dataplane/comm/exchange/exchange.h"
#include "tests/support/delivery_reference.h"
#include "tests/support/networks.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {

// All members of an epoch and their exchanges; rounds are driven from the test's thread. Each
// member may have a device, on which it writes and reads what the exchange keeps there.
class Members {
 public:
  // Connected members with devices, by member index; they outlive this.
  Members(ExchangeMode mode, const ExchangeShape& shape, DeviceNetwork connected,
          const std::vector<kernels::Context*>& contexts)
      : shape_(shape),
        mode_(mode),
        network_(std::move(connected.network)),
        slots_(std::move(connected.slots)) {
    for (size_t i = 0; i < contexts.size(); ++i) devices_.push_back({contexts[i], {}});
    Make();
  }
  Members(const NetworkKind& kind, ExchangeMode mode, const ExchangeShape& shape)
      : shape_(shape),
        mode_(mode),
        network_(kind.connect(LayoutFor(mode, shape, PeerId{}), WaitPolicy())) {
    slots_.resize(network_.members.size());
    devices_.resize(network_.members.size());
    Make();
  }
  // Ends the devices' work first, also after a failure.
  ~Members() {
    const MonotonicTime deadline = MonotonicClock::now() + Scaled(std::chrono::seconds(20));
    for (bool ended = false; !ended && MonotonicClock::now() < deadline;) {
      ended = true;
      for (auto& exchange : attention_) ended = exchange->LetGo() && ended;
      for (auto& exchange : experts_) ended = exchange->LetGo() && ended;
    }
  }

  AttentionExchange& attention(int rank) { return *attention_[static_cast<size_t>(rank)]; }
  ExpertExchange& experts(int rank) { return *experts_[static_cast<size_t>(rank)]; }
  Network& network() { return network_; }
  DeviceSlots* slots(int member) { return slots_[static_cast<size_t>(member)].get(); }
  // Large messages move only while their sender is inside Wait too. So each wait lets all other
  // members make progress, because the test's thread drives all of them.
  void LetAllTakeTurns(bool on = true) { pump_ = on; }

  void PostRows(const RoundPlan& plan, int a) {
    const int rows = plan.rows[static_cast<size_t>(a)];
    std::byte* const there = attention(a).DeviceRows(plan.key.micro_batch);
    std::byte* const to = there != nullptr ? there : attention(a).Rows(plan.key.micro_batch).data();
    for (int row = 0; row < rows; ++row) {
      Write(a, to + static_cast<size_t>(row) * shape_.row_bytes(), BytesOfRow(plan, a, row),
            there != nullptr);
    }
    AwaitBeforePost(a, attention(a));
    if (shape_.gate == GateSide::kAttention) {
      const ChosenExperts chosen = attention(a).Choices(plan.key.micro_batch, rows);
      std::ranges::copy(ChosenIn(plan, a), chosen.ids.begin());
      for (size_t cell = 0; cell < chosen.weights.size(); ++cell) {
        chosen.weights[cell] = WeightOf(a, cell);
      }
    }
    const Status posted = attention(a).Post(plan.key, rows, MonotonicTime());
    ASSERT_TRUE(posted.ok()) << posted.ToString();
  }

  // Polls until true or an error, at most 20 s: messages may be in flight.
  Result<bool> AwaitRows(int e, const RoundKey& key, Rank from, ArrivedRows& arrived) {
    return Settled(network_.experts(e), [&] { return experts(e).Poll(key, from, arrived); });
  }
  Result<bool> AwaitAnswers(int a, const RoundKey& key) {
    return Settled(network_.attention(a), [&] { return attention(a).Poll(key); });
  }

  // Checks once what expert instance e sees of attention instance a.
  void ExpectRows(const RoundPlan& plan, int e, int a) {
    ArrivedRows arrived;
    const Result<bool> here = AwaitRows(e, plan.key, Rank{a}, arrived);
    ASSERT_TRUE(here.ok()) << here.status().ToString();
    ASSERT_TRUE(*here);
    const std::vector<std::byte> want = Deliver(plan).rows[static_cast<size_t>(a)];
    ASSERT_EQ(arrived.count, plan.rows[static_cast<size_t>(a)]);
    if (shape_.gate == GateSide::kAttention) return ExpectNeeded(plan, e, a, arrived, want);
    EXPECT_EQ(arrived.came, arrived.count);
    ASSERT_TRUE(experts(e).StreamWait().ok());
    in_gpus_ += arrived.on_device ? 1 : 0;
    EXPECT_EQ(Read(shape_.m + e, arrived.rows, want.size(), arrived.on_device), want)
        << e << " of " << a;
  }
  // Messages with rows, and cells with contributions, that were read in GPU memory.
  int in_gpus() const { return in_gpus_; }
  // With the gate on attention: all choices, and the rows that e or a mate in its node computes.
  void ExpectNeeded(const RoundPlan& plan, int e, int a, const ArrivedRows& arrived,
                    const std::vector<std::byte>& want) {
    ASSERT_TRUE(arrived.choices.has_value());
    EXPECT_TRUE(std::ranges::equal(arrived.choices->ids, ChosenIn(plan, a)));
    for (size_t cell = 0; cell < arrived.choices->weights.size(); ++cell) {
      EXPECT_EQ(arrived.choices->weights[cell], WeightOf(a, cell));
    }
    ASSERT_EQ(arrived.choices->place_of.size(), static_cast<size_t>(arrived.count));
    const bool all_come = mode_ == ExchangeMode::kDirect && shape_.ShareMemory(a, e);
    int next = 0;
    for (int row = 0; row < arrived.count; ++row) {
      const bool comes = all_come || IsNeeded(plan, e, a, row);
      const int32_t place = arrived.choices->place_of[static_cast<size_t>(row)];
      ASSERT_EQ(place, comes ? next : -1) << "row " << row << " of " << a << " at " << e;
      if (!comes) continue;
      ++next;
      const std::byte* const from = want.data() + static_cast<size_t>(row) * shape_.row_bytes();
      EXPECT_TRUE(std::equal(from, from + shape_.row_bytes(),
                             arrived.rows + static_cast<size_t>(place) * shape_.row_bytes()))
          << "row " << row << " of " << a << " at " << e;
    }
    EXPECT_EQ(arrived.came, next);
  }

  // Sends the contributions of expert instance e to attention instance a, in random order.
  void PostContributions(const RoundPlan& plan, int e, int a, Random& random) {
    std::vector<int> cells;
    const std::vector<int>& owners = plan.owner_of[static_cast<size_t>(a)];
    for (size_t cell = 0; cell < owners.size(); ++cell) {
      if (owners[cell] == e) cells.push_back(static_cast<int>(cell));
    }
    for (size_t i = cells.size(); i > 1; --i) {
      std::swap(cells[i - 1],
                cells[static_cast<size_t>(random.Between(0, static_cast<int>(i) - 1))]);
    }
    if (shape_.sums.on()) {
      std::ranges::stable_sort(cells, {}, [&](int cell) { return cell / shape_.top_k; });
    }
    PostCells(plan, e, a, cells);
  }
  // One sum for each run of cells of one row.
  void WriteSums(const RoundPlan& plan, int a, const std::vector<int>& cells, std::byte* to) {
    const int bits = shape_.sums.bits;
    for (size_t first = 0, end = 0; first < cells.size(); first = end) {
      const int row = cells[first] / shape_.top_k;
      std::vector<int32_t> sum(static_cast<size_t>(shape_.hidden));
      for (; end < cells.size() && cells[end] / shape_.top_k == row; ++end) {
        const std::vector<int32_t> terms = TermsOf(plan, a, row, cells[end] % shape_.top_k);
        for (size_t h = 0; h < sum.size(); ++h) sum[h] = AddFixed(sum[h], terms[h], bits);
      }
      for (const int32_t element : sum) {
        StoreFixed(reinterpret_cast<unsigned char*>(to), element, bits);
        to += bits / 8;
      }
    }
  }
  void PostCells(const RoundPlan& plan, int e, int a, const std::vector<int>& cells) {
    const ExpertExchange::Outgoing out =
        experts(e).Begin(plan.key.micro_batch, Rank{a}, static_cast<int>(cells.size()));
    ASSERT_EQ(out.refs.size(), cells.size());
    std::byte* const there = experts(e).DeviceReplies(plan.key.micro_batch, Rank{a});
    std::byte* const to = there != nullptr ? there : out.rows;
    if (shape_.sums.on()) WriteSums(plan, a, cells, out.rows);
    for (size_t i = 0; i < cells.size(); ++i) {
      const int row = cells[i] / shape_.top_k, slot = cells[i] % shape_.top_k;
      out.refs[i] = {static_cast<uint16_t>(row), static_cast<uint16_t>(slot),
                     ExpertOf(plan, a, cells[i])};
      if (shape_.sums.on()) continue;
      Write(shape_.m + e, to + i * shape_.row_bytes(), BytesOfContribution(plan, a, row, slot),
            there != nullptr);
    }
    AwaitBeforePost(shape_.m + e, experts(e));
    const Status posted = experts(e).Post(plan.key, Rank{a}, MonotonicTime());
    ASSERT_TRUE(posted.ok()) << posted.ToString();
  }

  // All members give up their rounds; afterwards nothing is in flight.
  void AbandonAll() {
    const MonotonicTime deadline = MonotonicClock::now() + Scaled(std::chrono::seconds(20));
    for (bool settled = false; !settled;) {
      ASSERT_LT(MonotonicClock::now(), deadline);
      settled = true;
      for (auto& exchange : attention_) settled = exchange->Abandon() && settled;
      for (auto& exchange : experts_) settled = exchange->Abandon() && settled;
    }
  }

  void ExpectContributions(const RoundPlan& plan, int a) {
    const Result<bool> all = AwaitAnswers(a, plan.key);
    ASSERT_TRUE(all.ok()) << all.status().ToString();
    ASSERT_TRUE(*all);
    const auto want = Deliver(plan).contributions[static_cast<size_t>(a)];
    const std::span<const void* const> table = attention(a).Contributions(plan.key.micro_batch);
    ASSERT_EQ(table.size(), want.size());
    ASSERT_TRUE(attention(a).StreamWait(plan.key).ok());
    const std::span<const uint8_t> on_device = attention(a).OnDevice(plan.key.micro_batch);
    if (shape_.sums.on()) ExpectSums(plan, a, table);
    for (size_t cell = 0; cell < want.size() && !shape_.sums.on(); ++cell) {
      const bool is_there = !on_device.empty() && on_device[cell] != 0;
      in_gpus_ += is_there ? 1 : 0;
      EXPECT_EQ(Read(a, table[cell], want[cell].size(), is_there), want[cell])
          << "attention " << a << " row " << cell / static_cast<size_t>(shape_.top_k) << " slot "
          << cell % static_cast<size_t>(shape_.top_k);
    }
    const std::span<const uint16_t> experts = attention(a).Experts(plan.key.micro_batch);
    ASSERT_EQ(experts.size(), want.size());
    for (size_t cell = 0; cell < want.size(); ++cell) {
      EXPECT_EQ(experts[cell], ExpertOf(plan, a, static_cast<int>(cell)));
    }
  }
  void ExpectSums(const RoundPlan& plan, int a, std::span<const void* const> table) {
    const int bits = shape_.sums.bits, k = shape_.top_k;
    for (int row = 0; row < plan.rows[static_cast<size_t>(a)]; ++row) {
      std::vector<int32_t> sum(static_cast<size_t>(shape_.hidden));
      std::set<int> senders;
      size_t parts = 0;
      for (int slot = 0; slot < k; ++slot) {
        const auto cell = static_cast<size_t>(row * k + slot);
        const int owner = plan.owner_of[static_cast<size_t>(a)][cell];
        senders.insert((mode_ == ExchangeMode::kDirect)
                           ? owner
                           : shape_.node_of[static_cast<size_t>(shape_.m + owner)]);
        if (table[cell] == nullptr) continue;
        ++parts;
        const auto* at = static_cast<const unsigned char*>(table[cell]);
        for (int32_t& element : sum) {
          element = AddFixed(element, LoadFixed(at, bits), bits);
          at += bits / 8;
        }
      }
      EXPECT_EQ(parts, senders.size()) << "attention " << a << " row " << row;
      EXPECT_EQ(sum, SumOfRow(plan, a, row)) << "attention " << a << " row " << row;
    }
  }
  // Some number that differs between cells, up to the largest.
  static uint16_t ExpertOf(const RoundPlan& plan, int a, int cell) {
    const auto mixed = plan.key.step * 31 + plan.key.layer * 7 + static_cast<uint64_t>(a) * 613 +
                       static_cast<uint64_t>(cell) * 997;
    return static_cast<uint16_t>(mixed % ContributionRef::kMostExperts);
  }

  // Every expert instance holds one expert, of its own rank.
  static std::vector<uint16_t> ChosenIn(const RoundPlan& plan, int a) {
    const std::vector<int>& owners = plan.owner_of[static_cast<size_t>(a)];
    return {owners.begin(), owners.end()};
  }
  static float WeightOf(int a, size_t cell) {
    return static_cast<float>(a) + static_cast<float>(cell) / 64;
  }

 private:
  struct Device {
    kernels::Context* context = nullptr;         // null: the host
    std::vector<std::vector<std::byte>> copied;  // sources of copies that may not have run
  };

  void Make() {
    for (size_t i = 0; i < network_.members.size(); ++i) {
      network_.members[i] =
          RelayOver(mode_, shape_, std::move(network_.members[i]), slots_[i].get());
    }
    for (int a = 0; a < shape_.m; ++a) {
      attention_.push_back(
          std::move(*MakeAttentionExchange(shape_, network_.attention(a), slots(a))));
    }
    for (int e = 0; e < shape_.n; ++e) {
      experts_.push_back(
          std::move(*MakeExpertExchange(shape_, network_.experts(e), slots(shape_.m + e))));
    }
  }

  // Writes once earlier work of the device has run, if `to` is there.
  void Write(int member, std::byte* to, std::vector<std::byte> bytes, bool on_device) {
    if (!on_device) {
      std::ranges::copy(bytes, to);
      return;
    }
    Device& device = devices_[static_cast<size_t>(member)];
    device.copied.push_back(std::move(bytes));
    const Status copied =
        device.context->CopyIn(to, device.copied.back().data(), device.copied.back().size());
    ASSERT_TRUE(copied.ok()) << copied.ToString();
  }
  std::vector<std::byte> Read(int member, const void* from, size_t bytes, bool on_device) {
    std::vector<std::byte> out(bytes);
    if (!on_device) {
      if (bytes > 0) std::memcpy(out.data(), from, bytes);
      return out;
    }
    Device& device = devices_[static_cast<size_t>(member)];
    const Status copied = device.context->CopyOut(out.data(), from, bytes);
    EXPECT_TRUE(copied.ok()) << copied.ToString();
    AwaitDevice(device);
    return out;
  }
  static void AwaitDevice(Device& device) {
    const Status waited = device.context->Wait();
    EXPECT_TRUE(waited.ok()) << waited.ToString();
    device.copied.clear();
  }
  void AwaitBeforePost(int member, const Exchange& exchange) {
    Device& device = devices_[static_cast<size_t>(member)];
    if (device.context != nullptr && exchange.PostsBehindGpu()) AwaitDevice(device);
  }

  bool IsNeeded(const RoundPlan& plan, int e, int a, int row) const {
    const auto node = [&](int rank) {
      return mode_ == ExchangeMode::kDirect ? rank
                                            : shape_.node_of[static_cast<size_t>(shape_.m + rank)];
    };
    for (int slot = 0; slot < shape_.top_k; ++slot) {
      const auto cell = static_cast<size_t>(row * shape_.top_k + slot);
      if (node(plan.owner_of[static_cast<size_t>(a)][cell]) == node(e)) return true;
    }
    return false;
  }

  template <class Poll>
  Result<bool> Settled(Transport& transport, Poll&& poll) {
    const MonotonicTime deadline = MonotonicClock::now() + Scaled(std::chrono::seconds(20));
    for (;;) {
      Result<bool> polled = false;
      const MonotonicTime slice = MonotonicClock::now() + std::chrono::milliseconds(1);
      const Status waited = transport.Wait(pump_ ? slice : deadline, [&] {
        polled = poll();
        return !polled.ok() || *polled;
      });
      if (waited.ok()) return polled;
      if (MonotonicClock::now() >= deadline) return waited;
      for (auto& member : network_.members) {
        static_cast<void>(member->Wait(MonotonicTime::min(), [] { return false; }));
      }
    }
  }

  const ExchangeShape shape_;
  const ExchangeMode mode_;
  Network network_;
  std::vector<std::unique_ptr<DeviceSlots>> slots_;
  std::vector<Device> devices_;  // by member
  std::atomic<int> in_gpus_{0};
  bool pump_ = false;
  std::vector<std::unique_ptr<AttentionExchange>> attention_;
  std::vector<std::unique_ptr<ExpertExchange>> experts_;
};

// Every third run compresses.
inline Compression CompressionOf(uint64_t run) {
  return run % 3 == 1 ? Compression::kFp8 : Compression::kNone;
}

// With the gate on attention: expert instance e holds expert e of each of four layers. Members are
// dealt over `domains`; 0: no two share memory.
inline ExchangeShape WithGate(ExchangeShape shape, int domains = 0) {
  shape.gate = GateSide::kAttention;
  Placement placement;
  placement.layers = 4;
  placement.slots_of_instance.assign(static_cast<size_t>(shape.n), 1);
  for (int layer = 0; layer < placement.layers; ++layer) {
    for (int e = 0; e < shape.n; ++e) placement.expert_of.push_back(static_cast<uint16_t>(e));
  }
  shape.placement = std::make_shared<const Placement>(std::move(placement));
  for (int member = 0; member < shape.m + shape.n && domains > 0; ++member) {
    shape.domain_of.push_back(member % domains);
  }
  return shape;
}
// Every second run has the gate on attention.
inline ExchangeShape GatedByRun(const ExchangeShape& shape, uint64_t run) {
  return run % 2 == 0 ? shape : WithGate(shape, run % 8 < 4 ? 0 : 2);
}

// Half of all runs have sums, of either width.
inline FixedPointSums SumsOf(uint64_t run) {
  if (run % 4 < 2) return {};
  return {run % 4 == 2 ? 32 : 24, {}};
}

inline ExchangeShape ShapeFor(int m, int n, int micro_batches = 1, int max_rows = 8,
                              Compression compression = Compression::kNone,
                              FixedPointSums sums = {}) {
  ExchangeShape shape;
  shape.hidden = 12;
  shape.top_k = 2;
  shape.wire = DType::kBFloat16;
  shape.micro_batches = micro_batches;
  shape.max_rows = max_rows;
  shape.m = m;
  shape.n = n;
  shape.compression = compression;
  shape.sums = std::move(sums);
  return shape;
}

inline RoundKey KeyOf(uint64_t step, int layer = 0, int micro_batch = 0) {
  RoundKey key;
  key.epoch = 1;
  key.step = step;
  key.layer = static_cast<uint16_t>(layer);
  key.micro_batch = static_cast<uint8_t>(micro_batch);
  return key;
}

}  // namespace janus::dataplane
