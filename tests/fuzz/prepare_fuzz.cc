// A PrepareRequest from gRPC: stamp, topology and configuration are accepted, or refused by name.

#include <cstdint>

#include "common/check.h"
#include "dataplane/comm/handshake/exchange_address.h"
#include "dataplane/worker/settings.h"
#include "proto/control.pb.h"
#include "proto/convert.h"

namespace janus::dataplane {
namespace {

// The addresses of an accepted text have no other text between them, and are accepted alone.
void CheckAddresses(const std::string& text) {
  const Result<ExchangeAddresses> both = ParseExchangeAddresses(text);
  if (!both.ok()) return;
  JANUS_CHECK(ParseExchangeAddress(both->network).ok(), text);
  JANUS_CHECK(ParseExchangeAddress(both->memory).ok(), text);
  const bool is_one = both->network == both->memory;
  JANUS_CHECK((is_one ? both->network : both->network + "," + both->memory) == text, text);
  JANUS_CHECK(is_one || ParseExchangeAddress(both->memory)->is_unix(), text);
}

}  // namespace
}  // namespace janus::dataplane

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace janus;  // NOLINT
  v1::PrepareRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return 0;
  (void)FromProto(request.stamp());
  const Result<Topology> topology = FromProto(request.topology());
  if (topology.ok() && Validate(*topology, 2, 7).ok()) {
    for (int layer = 0; layer < 2; ++layer) {
      for (int slot = 0; slot < topology->placement.total_slots(); ++slot) {
        const uint16_t expert = topology->placement.at(layer, slot);
        JANUS_CHECK(expert < 7 || expert == Placement::kEmpty, expert);
      }
    }
    JANUS_CHECK(FromProto(ToProto(*topology)).ok());
    for (const std::vector<Instance>* role : {&topology->attention, &topology->experts}) {
      for (const Instance& instance : *role) dataplane::CheckAddresses(instance.exchange_address);
    }
  }
  ModelDescription model;
  model.layers = 2;
  model.moe.experts = 7;
  model.max_positions = 128;
  const SequenceRoom room = topology.ok() && !topology->attention.empty()
                                ? topology->attention.front().sequences
                                : SequenceRoom();
  const auto state =
      dataplane::ResolveInstanceSettings(request.config(), room, model, kernels::HostContext(),
                                         kernels::DetectCpu(), int64_t{1} << 34);
  if (!state.ok()) JANUS_CHECK(!state.status().message().empty());
  const auto epoch = dataplane::ResolveEpoch(request.config());
  if (!epoch.ok()) JANUS_CHECK(!epoch.status().message().empty());
  return 0;
}
