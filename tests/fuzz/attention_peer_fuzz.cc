// An attention instance, coordinator (rank 0) or not, with lying peers: it ends with an error that
// names the peer, and touches only its own memory.

#include <cstdint>

#include "dataplane/attention/attention_instance.h"
#include "tests/fuzz/hostile_peer.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"
#include "tests/support/schedule.h"

namespace {
class NoSink final : public janus::dataplane::TokenSink {
  void Push(janus::dataplane::StepOutput&&) override {}
};
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace janus;             // NOLINT
  using namespace janus::dataplane;  // NOLINT
  static const HeldModel held = SmallRandomModel(DType::kFloat32, 1);
  static const Topology direct = [] {
    const int experts = held.model.moe.experts;
    Topology made = MakeTopology(2, {experts, experts}, held.model.layers, experts, 1, 4);
    GroupIntoNodes(made, 2, 2);
    return made;
  }();
  FuzzedDataProvider input(data, size);
  Topology topology = direct;
  const int way = input.ConsumeIntegralInRange<int>(0, 17);
  topology.mode = static_cast<ExchangeMode>(way % 3);
  const Compression compression = way / 3 % 3 == 1 ? Compression::kFp8 : Compression::kNone;
  const FixedPointSums sums = TestSums(held.model, way / 3 % 3 == 2 ? 24 : 0);
  topology.gate = way < 9 ? GateSide::kExperts : GateSide::kAttention;
  const Rank rank{input.ConsumeBool() ? 1 : 0};
  const ExchangeShape shape = ShapeOf(topology, held.model.hidden, held.model.moe.top_k,
                                      DType::kFloat32, compression, sums);
  const TransportLayout layout = LayoutFor(topology.mode, shape, {Role::kAttention, rank});
  const auto transport =
      RelayOver(topology.mode, shape, std::make_unique<HostileTransport>(layout, input));
  auto exchange = *MakeAttentionExchange(shape, *transport);
  NoSink sink;
  const SystemClock clock;
  AttentionOptions options;
  options.max_batch = 4;
  options.kv_bytes = 1 << 16;
  options.swap_bytes = 0;
  options.log = Logger(2, LogLevel::kError);
  AttentionPace pace;
  pace.deadlines = {Seconds(0.002), Seconds(0.004)};  // no peer answers here
  auto instance = *AttentionInstance::Create(options, held.model, held.attention, sink, clock);
  const auto epoch =
      *instance->Enter(topology, rank, *transport, *exchange, kernels::Stream{}, pace);
  for (uint64_t id = 0; id < 2; ++id) {
    Request request;
    request.key = {1, id, 1};
    request.prompt = {1, 2, 3};
    request.max_tokens = 4;
    JANUS_CHECK(instance->Submit(std::move(request)).ok());
  }
  const Status ended = instance->Run(*epoch, {});
  JANUS_CHECK(!ended.ok() && !ended.message().empty());
  return 0;
}
