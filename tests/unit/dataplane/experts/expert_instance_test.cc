#include "dataplane/experts/expert_instance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <thread>

#include "common/aligned_buffer.h"
#include "dataplane/comm/transport/loopback.h"
#include "tests/support/contains.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"
#include "tests/support/random.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

// Real expert instances; the test plays the attention side.
class ExpertInstanceTest : public testing::Test {
 protected:
  void Start(int m, const std::vector<int>& slots, ExpertOptions options = {}) {
    options.log = Logger(2, LogLevel::kError);
    topology_ = MakeTopology(m, slots, held_.model.layers, held_.model.moe.experts);
    const ExchangeShape shape =
        ShapeOf(topology_, held_.model.hidden, held_.model.moe.top_k, WireType(held_.model));
    LoopbackNetwork network(LayoutFor(topology_.mode, shape, PeerId{}));
    shares_ = held_.Shares(topology_.placement);
    for (int a = 0; a < m; ++a) {
      attention_transports_.push_back(network.Connect({Role::kAttention, Rank{a}}, {}));
      attention_.push_back(std::move(*MakeAttentionExchange(shape, *attention_transports_.back())));
    }
    ended_.resize(slots.size());
    for (int e = 0; e < topology_.n(); ++e) {
      const auto at = static_cast<size_t>(e);
      transports_.push_back(network.Connect({Role::kExperts, Rank{e}}, {}));
      exchanges_.push_back(std::move(*MakeExpertExchange(shape, *transports_.back())));
      options.routing = routing_.emplace_back(std::make_unique<RoutingRecord>()).get();
      options.metrics = metrics_.emplace_back(std::make_unique<StepMetrics>()).get();
      instances_.push_back(std::make_unique<ExpertInstance>(
          options, held_.model, shares_[at], topology_, Rank{e}, *transports_[at], *exchanges_[at],
          clock_, kernels::Stream{}));
    }
    for (size_t e = 0; e < instances_.size(); ++e) {
      threads_.emplace_back(
          [this, e](std::stop_token stop) { ended_[e] = instances_[e]->Run(stop); });
    }
  }
  // Ends the step loops; ended_ has their results.
  void Stop() {
    for (std::jthread& thread : threads_) thread.request_stop();
    threads_.clear();
  }
  ~ExpertInstanceTest() override { Stop(); }

  static RoundKey KeyOf(uint64_t step, int layer = 0) {
    RoundKey key;
    key.epoch = 1;
    key.step = step;
    key.layer = static_cast<uint16_t>(layer);
    return key;
  }
  void SendTicket(uint64_t step, const std::vector<bool>& participants) {
    std::vector<TicketShare> shares(participants.size());
    for (size_t a = 0; a < shares.size(); ++a) shares[a].row_limit = participants[a] ? 8 : 0;
    for (int e = 0; e < topology_.n(); ++e) {
      const Status sent = attention_transports_[0]->Send(
          {Role::kExperts, Rank{e}}, MakeHeader(MessageKind::kTicket, KeyOf(step), 0, 1),
          std::as_bytes(std::span(shares)));
      ASSERT_TRUE(sent.ok()) << sent.ToString();
    }
  }
  // Like the coordinator: gives up all steps up to this one.
  void GiveUp(uint64_t step) {
    for (int e = 0; e < topology_.n(); ++e) {
      const Status sent = attention_transports_[0]->Send(
          {Role::kExperts, Rank{e}}, MakeHeader(MessageKind::kAbort, KeyOf(step), 0, 0), {});
      ASSERT_TRUE(sent.ok()) << sent.ToString();
    }
  }
  // The next message of an expert instance to the coordinator, as text.
  std::string Hear(MessageKind kind, uint64_t step, int e = 0, Header* told = nullptr) {
    Header header;
    std::vector<std::byte> payload;
    const Status waited = attention_transports_[0]->Wait(
        MonotonicClock::now() + Scaled(std::chrono::seconds(20)), [&] {
          // Whether it was in a round when the kAbort arrived depends on timing.
          while (attention_transports_[0]->Receive({Role::kExperts, Rank{e}}, header, payload)) {
            if (header.kind != MessageKind::kMiss || kind == MessageKind::kMiss) return true;
          }
          return false;
        });
    EXPECT_TRUE(waited.ok()) << waited.ToString();
    EXPECT_EQ(header.kind, kind);
    EXPECT_EQ(header.step, step);
    if (told != nullptr) *told = header;
    return std::string(reinterpret_cast<const char*>(payload.data()), payload.size());
  }
  std::vector<float> RandomRows(Random& random, int rows) const {
    std::vector<float> x(static_cast<size_t>(rows * held_.model.hidden));
    for (float& value : x) value = random.Signed();
    return x;
  }
  void PostRows(int a, const RoundKey& key, const std::vector<float>& x) {
    AttentionExchange& exchange = *attention_[static_cast<size_t>(a)];
    std::copy(x.begin(), x.end(), reinterpret_cast<float*>(exchange.Rows(key.micro_batch).data()));
    ASSERT_TRUE(
        exchange.Post(key, static_cast<int>(x.size()) / held_.model.hidden, MonotonicTime()).ok());
  }
  // The contributions to a's rows, [rows * K][H].
  std::vector<std::vector<float>> Await(int a, const RoundKey& key) {
    Result<bool> all = false;
    const Status waited = attention_transports_[static_cast<size_t>(a)]->Wait(
        MonotonicClock::now() + Scaled(std::chrono::seconds(20)), [&] {
          all = attention_[static_cast<size_t>(a)]->Poll(key);
          return !all.ok() || *all;
        });
    EXPECT_TRUE(waited.ok()) << waited.ToString();
    EXPECT_TRUE(all.ok()) << all.status().ToString();
    std::vector<std::vector<float>> cells;
    for (const void* c : attention_[static_cast<size_t>(a)]->Contributions(key.micro_batch)) {
      const auto* values = static_cast<const float*>(c);
      cells.emplace_back(values, values + held_.model.hidden);
    }
    return cells;
  }

  // The gate of one row alone.
  struct Gated {
    std::vector<uint16_t> ids;
    std::vector<float> weights;
  };
  Gated Gate(int layer, const std::vector<float>& x, int row) const {
    const ModelDescription& model = held_.model;
    const ExpertLayerWeights& weights = held_.experts.layers[static_cast<size_t>(layer)];
    const auto k = static_cast<size_t>(model.moe.top_k);
    const void* x_row = x.data() + row * model.hidden;
    std::vector<float> logits(static_cast<size_t>(model.moe.experts)), gate_weights(k);
    std::vector<uint16_t> ids(k);
    kernels::GateTopKArgs gate;
    gate.x_rows = &x_row;
    gate.weight = weights.gate.data;
    gate.logits = logits.data();
    gate.ids = ids.data();
    gate.weights = gate_weights.data();
    gate.rows = 1;
    gate.hidden = model.hidden;
    gate.experts = model.moe.experts;
    gate.top_k = model.moe.top_k;
    gate.renormalize = model.moe.renormalize;
    EXPECT_TRUE(kernels::GateTopK({}, gate).ok());
    return {ids, gate_weights};
  }
  // One row through the gate and each of its experts, computed alone.
  std::vector<std::vector<float>> Plain(int layer, const std::vector<float>& x, int row) const {
    const ModelDescription& model = held_.model;
    const ExpertLayerWeights& weights = held_.experts.layers[static_cast<size_t>(layer)];
    const auto k = static_cast<size_t>(model.moe.top_k);
    const float* x_h = x.data() + row * model.hidden;
    const auto [ids, gate_weights] = Gate(layer, x, row);
    std::vector<std::vector<float>> cells;
    for (size_t j = 0; j < k; ++j) {
      const FfnTensors& expert = *weights.slots[ids[j]];
      std::vector<float> y(static_cast<size_t>(model.hidden));
      const kernels::Contribution contribution{x_h, y.data(), gate_weights[j]};
      const kernels::ActiveExpert active{expert.gate.data, expert.up.data, expert.down.data, 0, 1};
      const auto size =
          kernels::GroupedExpertFfnWorkspace::For(1, model.moe.intermediate, DType::kFloat32);
      AlignedBuffer workspace(static_cast<size_t>(size.bytes));
      kernels::GroupedExpertFfnArgs args;
      args.experts = &active;
      args.contributions = &contribution;
      args.num_experts = args.num_contributions = 1;
      args.hidden = model.hidden;
      args.intermediate = model.moe.intermediate;
      args.workspace = workspace.data();
      args.workspace_bytes = size.bytes;
      EXPECT_TRUE(kernels::GroupedExpertFfn({}, args).ok());
      cells.push_back(std::move(y));
    }
    return cells;
  }
  void ExpectPlain(int layer, const std::vector<float>& x,
                   const std::vector<std::vector<float>>& cells) const {
    const auto k = static_cast<size_t>(held_.model.moe.top_k);
    const size_t rows = x.size() / static_cast<size_t>(held_.model.hidden);
    ASSERT_EQ(cells.size(), rows * k);
    for (size_t row = 0; row < rows; ++row) {
      const auto want = Plain(layer, x, static_cast<int>(row));
      for (size_t j = 0; j < k; ++j) EXPECT_EQ(cells[row * k + j], want[j]) << row << " slot " << j;
    }
  }

  // A whole step of two rows, both from attention instance a.
  void ExpectStep(uint64_t step, const std::vector<bool>& participants, int a, Random& random) {
    SendTicket(step, participants);
    for (int layer = 0; layer < held_.model.layers; ++layer) {
      const std::vector<float> x = RandomRows(random, 2);
      PostRows(a, KeyOf(step, layer), x);
      ExpectPlain(layer, x, Await(a, KeyOf(step, layer)));
    }
  }

  const HeldModel held_ = SmallRandomModel(DType::kFloat32, 9);
  const SystemClock clock_;
  Topology topology_;
  std::vector<ExpertWeights> shares_;
  std::vector<std::unique_ptr<Transport>> attention_transports_, transports_;
  std::vector<std::unique_ptr<AttentionExchange>> attention_;
  std::vector<std::unique_ptr<ExpertExchange>> exchanges_;
  std::vector<std::unique_ptr<RoutingRecord>> routing_;
  std::vector<std::unique_ptr<StepMetrics>> metrics_;
  std::vector<std::unique_ptr<ExpertInstance>> instances_;
  std::vector<Status> ended_;
  std::vector<std::jthread> threads_;
};

TEST_F(ExpertInstanceTest, SendsEveryParticipantItsWeightedExpertsBySlot) {
  Start(2, {4, 5, 3});  // with replicas
  Random random(MixSeed(TestSeed(), 1));
  for (uint64_t step = 1; step <= 5; ++step) {
    SendTicket(step, {true, true});
    for (int layer = 0; layer < held_.model.layers; ++layer) {
      const std::vector<float> x0 = RandomRows(random, 3), x1 = RandomRows(random, 5);
      PostRows(1, KeyOf(step, layer), x1);
      PostRows(0, KeyOf(step, layer), x0);
      ExpectPlain(layer, x0, Await(0, KeyOf(step, layer)));
      ExpectPlain(layer, x1, Await(1, KeyOf(step, layer)));
    }
  }
  Stop();
  for (const Status& status : ended_) EXPECT_TRUE(status.ok()) << status.ToString();
  uint64_t activated = 0;
  const auto count = [](const Histogram& histogram) {
    uint64_t sum = 0;
    for (const uint64_t some : histogram.Sample().counts) sum += some;
    return sum;
  };
  for (size_t i = 0; i < instances_.size(); ++i) {
    const InstanceStatistics statistics = instances_[i]->statistics();
    const StepMetrics& metrics = *metrics_[i];
    EXPECT_EQ(count(metrics.step), statistics.steps);
    EXPECT_EQ(count(metrics.wait_peer), statistics.steps);
    for (const Histogram* const each :
         {&metrics.aebs, &metrics.gate, &metrics.experts,
          &metrics.exchange[static_cast<size_t>(topology_.mode)].send,
          &metrics.exchange[static_cast<size_t>(topology_.mode)].receive}) {
      EXPECT_EQ(count(*each), statistics.rounds);
    }
    EXPECT_NEAR(metrics.wait_peer.Sample().sum, statistics.wait_seconds, 1e-9);
    EXPECT_GT(metrics.aebs.Sample().sum, 0);
    EXPECT_LE(metrics.aebs.Sample().sum + metrics.gate.Sample().sum + metrics.experts.Sample().sum,
              statistics.compute_seconds);
    EXPECT_NEAR(statistics.load->gate_seconds, metrics.gate.Sample().sum, 1e-9);
    EXPECT_NEAR(statistics.load->aebs_seconds, metrics.aebs.Sample().sum, 1e-9);
    EXPECT_NEAR(statistics.load->expert_seconds, metrics.experts.Sample().sum, 1e-9);
  }
  for (const auto& instance : instances_) {
    EXPECT_EQ(instance->statistics().steps, 5u);
    EXPECT_EQ(instance->statistics().rounds, 10u);
    EXPECT_EQ(instance->statistics().rows, 80u);
    activated += instance->statistics().activated_experts;
  }
  EXPECT_GE(activated, 10u * 3u);
  EXPECT_LE(activated, 10u * 7u) << "no expert is read by two instances in a round";
}

TEST_F(ExpertInstanceTest, RowsOfOneExpertThatAreSplitOverItsReplicasComeOutTheSame) {
  ExpertOptions options;
  options.crossover_rows = 1;
  Start(2, {7, 7, 7}, options);
  Random random(4);
  SendTicket(1, {true, true});
  for (int layer = 0; layer < held_.model.layers; ++layer) {
    const std::vector<float> x0 = RandomRows(random, 8), x1 = RandomRows(random, 7);
    PostRows(1, KeyOf(1, layer), x1);
    PostRows(0, KeyOf(1, layer), x0);
    ExpectPlain(layer, x0, Await(0, KeyOf(1, layer)));
    ExpectPlain(layer, x1, Await(1, KeyOf(1, layer)));
  }
  Stop();
  uint64_t activated = 0;
  for (const auto& instance : instances_) activated += instance->statistics().activated_experts;
  EXPECT_GT(activated, 7u * static_cast<uint64_t>(held_.model.layers)) << "of 7, none was split";
}

TEST_F(ExpertInstanceTest, TogetherTheyTellOfTheRoutingThatTheGateGivesAndOfNoStepGivenUp) {
  Start(2, {4, 5, 3});
  Random random(9);
  const auto k = static_cast<size_t>(held_.model.moe.top_k);
  RoutingStatistics want;
  std::map<std::pair<uint64_t, int>, std::vector<uint16_t>> ids_of;
  for (int layer = 0; layer < held_.model.layers; ++layer) {
    want.popularity.push_back(
        {layer, 0, std::vector<uint64_t>(static_cast<size_t>(held_.model.moe.experts))});
  }
  for (uint64_t step = 1; step <= 9; ++step) {
    SendTicket(step, {true, true});
    const bool is_given_up = step % 4 == 0;
    for (int layer = 0; layer < held_.model.layers; ++layer) {
      const std::vector<float> x0 = RandomRows(random, 3), x1 = RandomRows(random, 2);
      PostRows(1, KeyOf(step, layer), x1);
      PostRows(0, KeyOf(step, layer), x0);
      Await(0, KeyOf(step, layer));
      Await(1, KeyOf(step, layer));
      if (is_given_up) break;
      LayerPopularity& popularity = want.popularity[static_cast<size_t>(layer)];
      popularity.rows += 5;
      for (int row = 0; row < 5; ++row) {
        const auto gated = row < 3 ? Gate(layer, x0, row) : Gate(layer, x1, row - 3);
        for (const uint16_t id : gated.ids) {
          ++popularity.tokens[id];
          ids_of[{step, layer}].push_back(id);
        }
      }
    }
    if (!is_given_up) continue;
    GiveUp(step);
    for (int e = 0; e < 3; ++e) Hear(MessageKind::kLeft, step, e);
    for (auto& exchange : attention_) ASSERT_TRUE(exchange->Abandon());
  }
  Stop();
  RoutingStatistics told;
  for (const auto& one : routing_) ASSERT_TRUE(JoinRouting(one->Read(true, 100), told));
  EXPECT_EQ(told.popularity, want.popularity);
  // The instance that reports a layer has sampled a round of it.
  EXPECT_EQ(told.rounds.size(), static_cast<size_t>(std::min(held_.model.layers, 3)));
  for (const RoutedRound& round : told.rounds) {
    EXPECT_EQ(round.experts, (ids_of[{round.step, round.layer}]));
    EXPECT_EQ(round.experts.size(), 5 * k);
  }
}

TEST_F(ExpertInstanceTest, AwaitsOnlyTheParticipantsOfTheTicket) {
  Start(3, {7});
  Random random(2);
  ExpectStep(4, {false, true, false}, 1, random);
}

TEST_F(ExpertInstanceTest, WhoHasNoRowsInTheFirstLayerIsNotAwaitedInTheOthers) {
  Start(2, {4, 3});
  Random random(3);
  SendTicket(1, {true, true});
  const std::vector<float> x = RandomRows(random, 2);
  PostRows(0, KeyOf(1, 0), {});
  PostRows(1, KeyOf(1, 0), x);
  EXPECT_TRUE(Await(0, KeyOf(1, 0)).empty());
  ExpectPlain(0, x, Await(1, KeyOf(1, 0)));
  PostRows(1, KeyOf(1, 1), x);
  ExpectPlain(1, x, Await(1, KeyOf(1, 1)));
  // A step without rows, and the next one.
  SendTicket(2, {true, true});
  for (int a = 0; a < 2; ++a) PostRows(a, KeyOf(2, 0), {});
  for (int a = 0; a < 2; ++a) EXPECT_TRUE(Await(a, KeyOf(2, 0)).empty());
  SendTicket(3, {true, false});
  PostRows(0, KeyOf(3, 0), x);
  ExpectPlain(0, x, Await(0, KeyOf(3, 0)));
}

TEST_F(ExpertInstanceTest, NamesWhoDidNotSendAndWhere) {
  ExpertOptions options;
  options.deadlines = {Seconds(0.05), Seconds(0.2)};
  Start(3, {7}, options);
  Random random(4);
  // Rows before the ticket; its deadline begins with the ticket.
  PostRows(1, KeyOf(6), RandomRows(random, 1));
  SendTicket(6, {true, true, true});
  threads_.front().join();  // it ends with an error
  EXPECT_EQ(ended_[0].code(), StatusCode::kDeadlineExceeded);
  for (const char* part : {"step 6", "layer 0", "attention 0 2"}) {
    EXPECT_TRUE(Contains(ended_[0].message(), part));
  }
}

TEST_F(ExpertInstanceTest, OtherControlMessagesAreNoTickets) {
  Start(1, {7});
  Random random(5);
  const std::byte bytes[3] = {};
  const Header demand = MakeHeader(MessageKind::kDemand, KeyOf(1), 0, 1);
  ASSERT_TRUE(attention_transports_[0]->Send({Role::kExperts, Rank{0}}, demand, bytes).ok());
  SendTicket(2, {true});
  const std::vector<float> x = RandomRows(random, 1);
  PostRows(0, KeyOf(2), x);
  ExpectPlain(0, x, Await(0, KeyOf(2)));
}

TEST_F(ExpertInstanceTest, ATicketThatCannotBeIsRefusedAndItsStepGivenUp) {
  Start(1, {7});
  Random random(6);
  const std::byte bytes[3] = {};
  const Header ticket = MakeHeader(MessageKind::kTicket, KeyOf(8), 0, 1);
  ASSERT_TRUE(attention_transports_[0]->Send({Role::kExperts, Rank{0}}, ticket, bytes).ok());
  EXPECT_EQ(Hear(MessageKind::kMiss, 8),
            "attention 0: a ticket of 3 bytes for 1 attention instances");
  GiveUp(8);
  EXPECT_EQ(Hear(MessageKind::kLeft, 8).size(), sizeof(Left));
  ExpectStep(9, {true}, 0, random);
  EXPECT_EQ(instances_[0]->statistics().rounds_missed, 1u);
}

TEST_F(ExpertInstanceTest, LeavesAStepWhenToldAndServesTheNext) {
  Start(2, {4, 3});
  Random random(7);
  const std::vector<float> x = RandomRows(random, 2);
  for (uint64_t step = 1; step <= 12; step += 2) {
    SendTicket(step, {true, true});
    SendTicket(step + 1, {true, false});  // the ticket ahead becomes void too
    // Rows of this step, or late ones of the step before. A slot is written again only after the
    // step is left, because its reader has dropped the old message by then.
    if (step > 2) PostRows(0, step % 4 == 1 ? KeyOf(step) : KeyOf(step - 2, 1), x);
    if (step > 6) PostRows(1, KeyOf(step), x);
    GiveUp(step + 1);
    for (int e = 0; e < 2; ++e) Hear(MessageKind::kLeft, step + 1, e);
    GiveUp(step + 1);  // its kLeft may have been lost
    for (int e = 0; e < 2; ++e) Hear(MessageKind::kLeft, step + 1, e);
    for (auto& exchange : attention_) ASSERT_TRUE(exchange->Abandon());
  }
  ExpectStep(13, {true, false}, 0, random);
  Stop();
  for (const auto& instance : instances_) {
    EXPECT_EQ(instance->statistics().steps, 1u);
    EXPECT_EQ(instance->statistics().steps_aborted, 6u);
    EXPECT_EQ(instance->statistics().rounds_missed, 0u);
    EXPECT_GT(instance->statistics().messages_dropped, 0u);
  }
}

TEST_F(ExpertInstanceTest, SaysWhatItWaitedForAsItsStepIsGivenUp) {
  Start(2, {7});
  Random random(9);
  const std::vector<float> x = RandomRows(random, 1);
  SendTicket(1, {true, true});
  for (int a = 0; a < 2; ++a) PostRows(a, KeyOf(1, 0), x);
  for (int a = 0; a < 2; ++a) ExpectPlain(0, x, Await(a, KeyOf(1, 0)));
  PostRows(1, KeyOf(1, 1), x);  // its next round has begun, without the rows of attention 0
  GiveUp(1);
  Header header;
  EXPECT_TRUE(Contains(Hear(MessageKind::kMiss, 1, 0, &header), "the rows of attention 0"));
  EXPECT_EQ(header.layer, 1);
  EXPECT_EQ(header.count, static_cast<uint32_t>(RoundTrouble::kAwaited));
  Hear(MessageKind::kLeft, 1);
  Stop();
  EXPECT_EQ(instances_[0]->statistics().rounds_missed, 0u);  // a different member missed one
}

TEST_F(ExpertInstanceTest, AsksForAMissedStepToBeGivenUpUntilItIs) {
  ExpertOptions options;
  options.deadlines = {Seconds(0.05), Scaled(Seconds(30))};
  Start(2, {7}, options);
  SendTicket(3, {true, true});
  for (int again = 0; again < 3; ++again) {
    const std::string why = Hear(MessageKind::kMiss, 3);
    EXPECT_TRUE(Contains(why, "attention 0 1")) << why;
  }
  SendTicket(4, {true, true});  // sent before the coordinator knew of the miss: void
  GiveUp(4);
  Hear(MessageKind::kLeft, 4);
  EXPECT_EQ(instances_[0]->statistics().rounds_missed, 1u);
}

TEST_F(ExpertInstanceTest, ATicketSentTwiceIsServedOnce) {
  Start(1, {7});
  Random random(8);
  for (uint64_t step = 1; step <= 2; ++step) {
    SendTicket(step, {true});
    ExpectStep(step, {true}, 0, random);
  }
}

TEST_F(ExpertInstanceTest, StopsInTheMiddleOfAStep) {
  Start(2, {7});
  SendTicket(1, {true, true});
  PostRows(0, KeyOf(1), {});
  Stop();
  EXPECT_TRUE(ended_[0].ok()) << ended_[0].ToString();
}

}  // namespace
}  // namespace janus::dataplane
