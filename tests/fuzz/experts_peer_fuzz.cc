// An expert instance with lying attention instances: it ends with an error that names the peer, and
// touches only its own memory.

#include <cstdint>

#include "dataplane/experts/expert_instance.h"
#include "tests/fuzz/hostile_peer.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"
#include "tests/support/schedule.h"

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
  static const std::vector<ExpertWeights> shares = held.Shares(direct.placement);
  FuzzedDataProvider input(data, size);
  Topology topology = direct;
  const int way = input.ConsumeIntegralInRange<int>(0, 17);
  topology.mode = static_cast<ExchangeMode>(way % 3);
  const Compression compression = way / 3 % 3 == 1 ? Compression::kFp8 : Compression::kNone;
  const FixedPointSums sums = TestSums(held.model, way / 3 % 3 == 2 ? 24 : 0);
  topology.gate = way < 9 ? GateSide::kExperts : GateSide::kAttention;
  const ExchangeShape shape = ShapeOf(topology, held.model.hidden, held.model.moe.top_k,
                                      DType::kFloat32, compression, sums);
  const TransportLayout layout = LayoutFor(topology.mode, shape, {Role::kExperts, Rank{0}});
  const auto transport =
      RelayOver(topology.mode, shape, std::make_unique<HostileTransport>(layout, input));
  auto exchange = *MakeExpertExchange(shape, *transport);
  const SystemClock clock;
  ExpertOptions options;
  options.log = Logger(2, LogLevel::kError);
  options.deadlines = {Seconds(0.002), Seconds(0.004)};  // no peer answers here
  ExpertInstance instance(options, held.model, shares[0], topology, Rank{0}, *transport, *exchange,
                          clock, kernels::Stream{});
  const Status ended = instance.Run({});
  JANUS_CHECK(!ended.ok() && !ended.message().empty());
  return 0;
}
