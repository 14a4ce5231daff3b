// Makes running workers, on any machines, serve one epoch, then prints how each reaches its peers:
// commit-epoch --service-uid UID --layers L --per-layer E --attention ADDRESS@EXCHANGE@DOMAIN ...
// --experts ADDRESS@EXCHANGE@DOMAIN ... [--transport RDMA] [--epoch N]

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "common/topology.h"
#include "proto/control.grpc.pb.h"
#include "proto/convert.h"
#include "rpc/channel.h"

namespace janus {
namespace {

constexpr std::chrono::seconds kLongest{300};

struct Asked {
  std::string service_uid;
  std::vector<std::string> attention, experts;
  std::string transport = "Auto";
  int layers = 0;
  int per_layer = 0;
  uint64_t epoch = 1;
};

Result<std::vector<Instance>> ReadMembers(Role role, const std::vector<std::string>& texts) {
  std::vector<Instance> members;
  for (const std::string& text : texts) {
    const size_t first = text.find('@');
    const size_t second = first == text.npos ? first : text.find('@', first + 1);
    if (second == text.npos) {
      return InvalidArgument("'" + text + "'; want ADDRESS@EXCHANGE@DOMAIN");
    }
    Instance instance;
    instance.role = role;
    instance.index = static_cast<int>(members.size());
    instance.address = text.substr(0, first);
    instance.exchange_address = text.substr(first + 1, second - first - 1);
    instance.domain = text.substr(second + 1);
    members.push_back(std::move(instance));
  }
  return members;
}

Result<Topology> Compose(const Asked& asked) {
  Topology topology;
  topology.epoch = asked.epoch;
  topology.micro_batches = 1;
  topology.max_rows_per_round = 64;
  for (const ExchangeTransport transport :
       {ExchangeTransport::kSharedMemory, ExchangeTransport::kTcp, ExchangeTransport::kRdma}) {
    if (ToString(transport) == asked.transport) topology.transport = transport;
  }
  JANUS_ASSIGN_OR_RETURN(topology.attention, ReadMembers(Role::kAttention, asked.attention));
  JANUS_ASSIGN_OR_RETURN(topology.experts, ReadMembers(Role::kExperts, asked.experts));
  for (Instance& instance : topology.attention) {
    instance.sequences = {.max_batch_size = 8, .kv_bytes = 16 << 20};
  }
  // One copy of each expert, in blocks.
  const int members = topology.n();
  const int each = (asked.per_layer + members - 1) / members;
  topology.placement.layers = asked.layers;
  for (Instance& instance : topology.experts) {
    instance.slots = each;
    topology.placement.slots_of_instance.push_back(each);
  }
  for (int layer = 0; layer < asked.layers; ++layer) {
    for (int slot = 0; slot < each * members; ++slot) {
      topology.placement.expert_of.push_back(slot < asked.per_layer ? static_cast<uint16_t>(slot)
                                                                    : Placement::kEmpty);
    }
  }
  JANUS_RETURN_IF_ERROR(Validate(topology, asked.layers, asked.per_layer));
  return topology;
}

template <class Request>
void AddRelay(const Topology& topology, Request& request) {
  for (const auto* role : {&topology.attention, &topology.experts}) {
    for (size_t rank = 0; rank < role->size(); ++rank) {
      const Instance& instance = (*role)[rank];
      v1::RelayTarget& target = *request.add_relay();
      target.set_name(std::string(ToString(instance.role)) + "-" + std::to_string(rank));
      target.set_role(instance.role == Role::kAttention ? v1::ROLE_ATTENTION : v1::ROLE_EXPERTS);
      target.set_address(instance.address);
    }
  }
}

template <class Failures>
Status ResultOf(const grpc::Status& status, const Failures& failures) {
  if (!status.ok()) return FromGrpc(status);
  if (failures.empty()) return OkStatus();
  return FromGrpc(failures[0].code(), failures[0].name() + ": " + failures[0].message());
}

Status Commit(const Asked& asked) {
  JANUS_ASSIGN_OR_RETURN(const Topology topology, Compose(asked));
  const auto relay = v1::Control::NewStub(DialInstance(topology.attention[0].address));
  const v1::Stamp stamp = ToProto(Stamp{asked.service_uid, 1, asked.epoch});
  const auto limit = [](grpc::ClientContext& context) {
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + kLongest);
  };
  v1::PrepareRequest prepare;
  *prepare.mutable_stamp() = stamp;
  *prepare.mutable_topology() = ToProto(topology);
  prepare.mutable_config()->set_debug_logits_hash(true);
  AddRelay(topology, prepare);
  grpc::ClientContext preparing;
  limit(preparing);
  const auto stream = relay->Prepare(&preparing, prepare);
  v1::PrepareProgress progress;
  while (stream->Read(&progress)) continue;
  JANUS_RETURN_IF_ERROR(ResultOf(stream->Finish(), progress.failures()).Annotate("Prepare"));

  v1::CommitRequest commit;
  *commit.mutable_stamp() = stamp;
  AddRelay(topology, commit);
  grpc::ClientContext committing;
  limit(committing);
  v1::CommitReply committed;
  const grpc::Status status = relay->Commit(&committing, commit, &committed);
  JANUS_RETURN_IF_ERROR(ResultOf(status, committed.failures()).Annotate("Commit"));

  v1::GetStatisticsRequest ask;
  ask.set_service_uid(asked.service_uid);
  AddRelay(topology, ask);
  grpc::ClientContext asking;
  limit(asking);
  v1::Statistics statistics;
  if (const grpc::Status told = relay->GetStatistics(&asking, ask, &statistics); !told.ok()) {
    return FromGrpc(told).Annotate("GetStatistics");
  }
  constexpr std::array<const char*, 3> kRoles = {"?", "attention", "experts"};
  const auto role = [&](v1::Role of) { return kRoles.at(static_cast<size_t>(of)); };
  for (const v1::InstanceStatistics& one : statistics.instances()) {
    for (const v1::PeerLink& link : one.links()) {
      std::printf("%s %u to %s %u: %s\n", role(one.role()), one.rank(), role(link.role()),
                  link.rank(), link.transport().c_str());
    }
  }
  return OkStatus();
}

}  // namespace
}  // namespace janus

int main(int argc, char** argv) {
  janus::Asked asked;
  CLI::App app{"commit-epoch makes running workers serve one epoch."};
  app.add_option("--service-uid", asked.service_uid)->required();
  app.add_option("--attention", asked.attention, "ADDRESS@EXCHANGE@DOMAIN of each")->required();
  app.add_option("--experts", asked.experts, "ADDRESS@EXCHANGE@DOMAIN of each")->required();
  app.add_option("--transport", asked.transport)
      ->check(CLI::IsMember({"Auto", "SharedMemory", "TCP", "RDMA"}));
  app.add_option("--layers", asked.layers, "MoE layers of the model")->required();
  app.add_option("--per-layer", asked.per_layer, "experts of a layer")->required();
  app.add_option("--epoch", asked.epoch);
  CLI11_PARSE(app, argc, argv);
  const janus::Status status = janus::Commit(asked);
  if (!status.ok()) std::fprintf(stderr, "commit-epoch: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
