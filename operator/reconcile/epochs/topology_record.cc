#include "operator/reconcile/epochs/topology_record.h"

#include <openssl/evp.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "common/base64.h"
#include "common/check.h"
#include "common/fingerprint.h"
#include "operator/api/topology_enums.h"
#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

// Increase it when workers of two builds can no longer be members of one epoch
// (dataplane/comm/wire/wire.h).
constexpr uint64_t kWireVersion = 1;

std::string LittleEndian(const Placement& placement) {
  std::string out;
  out.reserve(placement.expert_of.size() * 2);
  for (const uint16_t expert : placement.expert_of) {
    out += static_cast<char>(expert & 0xff);
    out += static_cast<char>(expert >> 8);
  }
  return out;
}

// All low bytes, then all high bytes. A model's few hundred experts share the high bytes, so zlib
// output is a quarter smaller.
std::string InPlanes(const std::string& little_endian) {
  std::string out;
  out.reserve(little_endian.size());
  for (const size_t plane : {0, 1}) {
    for (size_t i = plane; i < little_endian.size(); i += 2) out += little_endian[i];
  }
  return out;
}

std::string FromPlanes(const std::string& planes) {
  const size_t cells = planes.size() / 2;
  std::string out;
  out.reserve(planes.size());
  for (size_t i = 0; i < cells; ++i) {
    out += planes[i];
    out += planes[cells + i];
  }
  return out;
}

std::string Compressed(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  const int code = compress(reinterpret_cast<Bytef*>(out.data()), &size,
                            reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  JANUS_CHECK(code == Z_OK, "zlib refuses to compress a placement: " + std::to_string(code));
  out.resize(size);
  return out;
}

// Placements are bounded (ValidateSchema), so a larger one is invalid.
constexpr size_t kMostPlacementBytes = size_t{2} * 196'608;

janus::Result<std::string> Decompressed(const std::string& bytes) {
  std::string out(kMostPlacementBytes, '\0');
  uLongf size = out.size();
  const int code = uncompress(reinterpret_cast<Bytef*>(out.data()), &size,
                              reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (code != Z_OK) return InvalidArgument("placement: zlib: " + std::to_string(code));
  out.resize(size);
  return out;
}

std::string Sha256(const std::string& bytes) {
  std::array<unsigned char, 32> digest{};
  const bool done =
      EVP_Q_digest(nullptr, "SHA256", nullptr, bytes.data(), bytes.size(), digest.data(), nullptr);
  JANUS_CHECK(done, "OpenSSL has no SHA-256");
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const unsigned char byte : digest) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

Node RoomTree(const SequenceRoom& room) {
  Node out = Object({{"maxBatchSize", Node::Integer(room.max_batch_size)},
                     {"maxModelLen", Node::Integer(room.max_model_len)},
                     {"kvBytes", Node::Integer(room.kv_bytes)},
                     {"swapBytes", Node::Integer(room.swap_bytes)}});
  if (room.prefix_host_bytes > 0) {
    out.Add("prefixHostBytes", Node::Integer(room.prefix_host_bytes));
  }
  return out;
}

// `shared`: the room that the record states for all of them.
Node InstanceTree(const Instance& one, const std::optional<SequenceRoom>& shared) {
  Node out = Object({{"role", Text(ToString(one.role))},
                     {"podUID", Text(one.pod_uid)},
                     {"index", Node::Integer(one.index)},
                     {"node", Text(one.node)},
                     {"address", Text(one.address)}});
  if (one.incarnation != 0) out.Add("incarnation", Node::Integer(one.incarnation));
  if (one.domain != one.node) out.Add("domain", Text(one.domain));
  if (one.role == Role::kExperts) {
    out.Add("slots", Node::Integer(one.slots));
  } else if (one.sequences != shared) {
    out.Add("sequences", RoomTree(one.sequences));
  }
  return out;
}

RecordedEpoch Recorded(const TopologyRecord& record) {
  return {record.epoch, ContentOf(record)};
}

}  // namespace

InstanceId IdOf(const TopologyInstance& one) {
  return {one.role, one.pod_uid, one.index, one.incarnation};
}

std::string ModelOf(const PlannedService& planned) {
  Fingerprint hash;
  hash.Mix(planned.model_digest).Mix(static_cast<uint64_t>(planned.plan.dtype)).Mix(kWireVersion);
  // Another numerics class: members of a role refuse each other if it differs.
  if (planned.plan.effective.device == Device::kCuda) hash.Mix("cuda");
  if (planned.plan.effective.fp8_kv_cache) hash.Mix("kv fp8");
  if (planned.plan.effective.compression == Compression::kFp8) hash.Mix("exchange fp8");
  if (planned.plan.effective.sums.on()) hash.Mix(HashOf(planned.plan.effective.sums));
  return hash.Hex().substr(0, 10);
}

std::string ModelOf(const TopologyRecord& record, const std::string& object_name) {
  if (!record.model.empty()) return record.model;
  return object_name.substr(object_name.rfind('-') + 1);
}

std::string TopologyName(const std::string& service, const PlannedService& planned) {
  return service + "-" + ModelOf(planned);
}

std::optional<TopologyRecord> TakeEnded(MoETopology& topology) {
  std::optional<TopologyRecord>& committed = topology.spec.committed;
  if (!committed || committed->epoch > topology.spec.ended_epoch) return std::nullopt;
  return std::exchange(committed, std::nullopt);
}

std::optional<SequenceRoom> RoomOf(const TopologyRecord& record, const InstanceId& instance) {
  for (const TopologyInstance& one : record.instances) {
    if (IdOf(one) == instance) return RoomAt(record, one);
  }
  return std::nullopt;
}

std::optional<SequenceRoom> RoomAt(const TopologyRecord& record, const TopologyInstance& one) {
  if (one.role != Role::kAttention) return std::nullopt;
  return one.sequences ? one.sequences : record.sequences;
}

Node RecordTree(const Topology& topology) {
  std::optional<SequenceRoom> shared;
  if (!topology.attention.empty()) shared = topology.attention.front().sequences;
  Node instances = Node::List();
  for (const std::vector<Instance>* role : {&topology.attention, &topology.experts}) {
    for (const Instance& one : *role) instances.items.push_back(InstanceTree(one, shared));
  }
  const std::string placement = LittleEndian(topology.placement);
  Node out = Object({{"epoch", Node::Integer(static_cast<int64_t>(topology.epoch))},
                     {"configHash", Text(topology.config_hash)},
                     {"instances", std::move(instances)},
                     {"mode", Text(ToString<janus::ExchangeMode>(topology.mode))},
                     {"gate", Text(ToString<janus::GateSide>(topology.gate))},
                     {"sum", Text(ToString<janus::SumRule>(topology.sum))},
                     {"microBatches", Node::Integer(topology.micro_batches)},
                     {"maxRowsPerRound", Node::Integer(topology.max_rows_per_round)},
                     {"placement", Text(EncodeBase64(Compressed(InPlanes(placement))))},
                     {"sha256", Text(Sha256(placement))}});
  if (shared) out.Add("sequences", RoomTree(*shared));
  return out;
}

janus::Result<Placement> PlacementOf(const TopologyRecord& record) {
  Placement out;
  for (const TopologyInstance& one : record.instances) {
    if (one.role == Role::kExperts) out.slots_of_instance.push_back(one.slots);
  }
  JANUS_ASSIGN_OR_RETURN(const std::string packed, DecodeBase64(record.placement));
  JANUS_ASSIGN_OR_RETURN(const std::string planes, Decompressed(packed));
  const auto slots = static_cast<size_t>(out.total_slots());
  if (slots == 0 || planes.size() % (2 * slots) != 0) {
    return InvalidArgument("placement: " + std::to_string(planes.size()) + " bytes for " +
                           std::to_string(slots) + " slots a layer");
  }
  const std::string bytes = FromPlanes(planes);
  if (record.sha256 && *record.sha256 != Sha256(bytes)) {
    return InvalidArgument("placement: sha256 is " + Sha256(bytes) + ", the record says " +
                           *record.sha256);
  }
  out.layers = static_cast<int>(bytes.size() / (2 * slots));
  for (size_t i = 0; i < bytes.size(); i += 2) {
    out.expert_of.push_back(static_cast<uint16_t>(static_cast<unsigned char>(bytes[i]) |
                                                  static_cast<unsigned char>(bytes[i + 1]) << 8));
  }
  return out;
}

namespace {

std::map<InstanceId, controllers::HeldExperts> HeldIn(const TopologyRecord& record,
                                                      const Placement& placement) {
  std::map<InstanceId, controllers::HeldExperts> out;
  int rank = 0;
  for (const TopologyInstance& one : record.instances) {
    if (one.role != Role::kExperts) continue;
    controllers::HeldExperts& held = out[IdOf(one)];
    const int first = placement.first_slot(Rank{rank++});
    for (int layer = 0; layer < placement.layers; ++layer) {
      std::vector<uint16_t>& experts = held.emplace_back();
      for (int slot = first; slot < first + one.slots; ++slot) {
        const uint16_t expert = placement.at(layer, slot);
        if (expert != Placement::kEmpty) experts.push_back(expert);
      }
    }
  }
  return out;
}

}  // namespace

std::map<InstanceId, controllers::HeldExperts> ExpertsOf(const TopologyRecord& record) {
  const janus::Result<Placement> placement = PlacementOf(record);
  return placement.ok() ? HeldIn(record, *placement)
                        : std::map<InstanceId, controllers::HeldExperts>();
}

int64_t CopiesMoved(const TopologyRecord& before, const Placement& was, const TopologyRecord& after,
                    const Placement& is) {
  const auto old = HeldIn(before, was);
  int64_t moved = 0;
  for (const auto& [id, layers] : HeldIn(after, is)) {
    const auto there = old.find(id);
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      moved += std::ranges::count_if(layers[layer], [&](uint16_t expert) {
        return there == old.end() || layer >= there->second.size() ||
               std::ranges::count(there->second[layer], expert) == 0;
      });
    }
  }
  return moved;
}

EpochContent ContentOf(const TopologyRecord& record) {
  EpochContent out;
  out.config_hash = record.config_hash;
  for (const TopologyInstance& one : record.instances) out.members.insert(IdOf(one));
  return out;
}

EpochContent ContentOf(const Topology& topology) {
  EpochContent out;
  out.config_hash = topology.config_hash;
  for (const std::vector<Instance>* role : {&topology.attention, &topology.experts}) {
    for (const Instance& one : *role) {
      out.members.insert({one.role, one.pod_uid, one.index, one.incarnation});
    }
  }
  return out;
}

EpochRecord EpochRecordOf(const MoETopology& topology) {
  EpochRecord out;
  out.fence = topology.spec.fence;
  out.last_epoch = topology.spec.last_epoch;
  if (topology.spec.committed) out.committed = Recorded(*topology.spec.committed);
  if (topology.spec.proposed) out.proposed = Recorded(*topology.spec.proposed);
  return out;
}

std::vector<TopologyInstance> AliveOf(const TopologyRecord& record,
                                      const std::set<InstanceId>& alive) {
  std::vector<TopologyInstance> out;
  for (const TopologyInstance& one : record.instances) {
    if (alive.contains(IdOf(one))) out.push_back(one);
  }
  return out;
}

std::vector<TopologyInstance> Without(const TopologyRecord& record, const TopologyRecord& other) {
  std::set<std::string> reached;
  for (const TopologyInstance& one : other.instances) reached.insert(one.address);
  std::vector<TopologyInstance> out;
  for (const TopologyInstance& one : record.instances) {
    if (!reached.contains(one.address)) out.push_back(one);
  }
  return out;
}

std::set<std::string> PodsOf(const TopologyRecord& record) {
  std::set<std::string> out;
  for (const TopologyInstance& one : record.instances) out.insert(one.pod_uid);
  return out;
}

}  // namespace janus::control
