#include "operator/api/moe_topology.h"

#include <algorithm>
#include <limits>

#include "operator/api/checks.h"
#include "operator/api/read_object.h"
#include "operator/api/topology_enums.h"

namespace janus::control {

static void Read(const At& at, SequenceRoom& out) {
  Fields(at)
      .Require("maxBatchSize", out.max_batch_size, "sequences that run at once")
      .Require("maxModelLen", out.max_model_len, "tokens of one")
      .Require("kvBytes", out.kv_bytes, "memory for keys and values")
      .Require("swapBytes", out.swap_bytes, "memory for those that gave way")
      .Take("prefixHostBytes", out.prefix_host_bytes)
      .RefuseOthers();
}

static void Read(const At& at, TopologyInstance& out) {
  Fields(at)
      .Require("role", out.role, "what it computes")
      .Require("podUID", out.pod_uid, "its pod")
      .Require("index", out.index, "which instance of the pod")
      .Take("incarnation", out.incarnation)
      .Take("node", out.node)
      .Take("domain", out.domain)
      .Require("address", out.address, "where it listens")
      .Take("slots", out.slots)
      .Take("sequences", out.sequences)
      .RefuseOthers();
}

static void Read(const At& at, TopologyRecord& out) {
  Fields(at)
      .Require("epoch", out.epoch, "its number")
      .Take("configHash", out.config_hash)
      .Require("instances", out.instances, "the members")
      .Require("mode", out.mode, "how rows are exchanged")
      .Require("gate", out.gate, "who computes the gate")
      .Require("sum", out.sum, "how contributions are added")
      .Require("microBatches", out.micro_batches, "parts of a step")
      .Require("maxRowsPerRound", out.max_rows_per_round, "rows of one sender in one round")
      .Take("placement", out.placement)
      .Take("sha256", out.sha256)
      .Take("sequences", out.sequences)
      .Take("model", out.model)
      .RefuseOthers();
}

static void Read(const At& at, MoETopologySpec& out) {
  Fields(at)
      .Require("fence", out.fence, "the leader's term")
      .Require("lastEpoch", out.last_epoch, "the highest epoch that was proposed")
      .Take("endedEpoch", out.ended_epoch)
      .Take("endedAt", out.ended_at)
      .Take("committed", out.committed)
      .Take("proposed", out.proposed)
      .RefuseOthers();
}

namespace {

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

class Validator : public Checks {
 public:
  using Checks::Checks;

  void Record(const std::string& path, const TopologyRecord& record) {
    Range(path + ".epoch", record.epoch, 1, kAny);
    Length(path + ".configHash", record.config_hash, 128);
    Count(path + ".instances", record.instances.size(), 1280);
    for (size_t i = 0; i < record.instances.size(); ++i) {
      Instance(Item(path + ".instances", i), record.instances[i]);
    }
    Range(path + ".microBatches", record.micro_batches, 1, kMaxMicroBatches);
    Range(path + ".maxRowsPerRound", record.max_rows_per_round, 1, 1 << 20);
    Length(path + ".placement", record.placement, 525'000);
    Length(path + ".model", record.model, 64);
    Room(path + ".sequences", record.sequences);
    if (record.sha256) {
      const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
      if (record.sha256->size() != 64 || !std::ranges::all_of(*record.sha256, is_hex)) {
        Fail(path + ".sha256",
             "is '" + record.sha256->substr(0, 64) + "'; want 64 digits, 0 to 9 and a to f");
      }
    }
  }

 private:
  void Instance(const std::string& path, const TopologyInstance& instance) {
    Filled(path + ".podUID", instance.pod_uid, 64);
    Range(path + ".index", instance.index, 0, 7);
    Range(path + ".incarnation", instance.incarnation, 0, std::numeric_limits<int32_t>::max());
    Length(path + ".node", instance.node, 253);
    Length(path + ".domain", instance.domain, 253);
    Filled(path + ".address", instance.address, 300);
    Range(path + ".slots", instance.slots, 0, 4096);
    Room(path + ".sequences", instance.sequences);
  }

  void Room(const std::string& path, const std::optional<SequenceRoom>& room) {
    if (!room) return;
    Range(path + ".maxBatchSize", room->max_batch_size, 1, 65'535);
    Range(path + ".maxModelLen", room->max_model_len, 1, 1 << 24);
    Range(path + ".kvBytes", room->kv_bytes, 1, kAny);
    Range(path + ".swapBytes", room->swap_bytes, 0, kAny);
    Range(path + ".prefixHostBytes", room->prefix_host_bytes, 0, kAny);
  }
};

}  // namespace

Parsed<MoETopology> ParseMoETopology(const Node& root) {
  return ReadObject<MoETopology>(root, "MoETopology", "what is committed and proposed");
}

FieldErrors ValidateSchema(const MoETopology& topology, Scope scope) {
  const MoETopologySpec& spec = topology.spec;
  Validator checks(scope);
  checks.Range("spec.fence", spec.fence, 0, kAny);
  checks.Range("spec.lastEpoch", spec.last_epoch, 0, kAny);
  checks.Range("spec.endedEpoch", spec.ended_epoch, 0, kAny);
  checks.Length("spec.endedAt", spec.ended_at, 64);
  checks.Time("spec.endedAt", spec.ended_at);
  if (spec.committed) checks.Record("spec.committed", *spec.committed);
  if (spec.proposed) checks.Record("spec.proposed", *spec.proposed);
  const auto is_new = [&](const std::string& path, const std::optional<TopologyRecord>& record) {
    if (!record || record->epoch <= spec.last_epoch) return;
    checks.FailRule(path, "is " + std::to_string(record->epoch) +
                              ", more than lastEpoch = " + std::to_string(spec.last_epoch));
  };
  if (spec.ended_epoch > spec.last_epoch) {
    checks.FailRule("spec.endedEpoch",
                    "is " + std::to_string(spec.ended_epoch) +
                        ", more than lastEpoch = " + std::to_string(spec.last_epoch));
  }
  is_new("spec.committed.epoch", spec.committed);
  is_new("spec.proposed.epoch", spec.proposed);
  if (spec.committed && spec.proposed && spec.committed->epoch >= spec.proposed->epoch) {
    checks.FailRule("spec.proposed.epoch", "is " + std::to_string(spec.proposed->epoch) +
                                               ", not above the committed " +
                                               std::to_string(spec.committed->epoch));
  }
  return checks.TakeErrors();
}

FieldErrors ValidateUpdate(const MoETopology& before, const MoETopology& after) {
  Checks checks;
  const auto grows = [&](std::string_view path, int64_t was, int64_t is) {
    if (is >= was) return;
    checks.Fail(path, "is " + std::to_string(is) + ", less than " + std::to_string(was));
  };
  grows("spec.fence", before.spec.fence, after.spec.fence);
  grows("spec.lastEpoch", before.spec.last_epoch, after.spec.last_epoch);
  grows("spec.endedEpoch", before.spec.ended_epoch, after.spec.ended_epoch);
  if (before.spec.committed &&
      (!after.spec.committed || after.spec.committed->epoch < before.spec.committed->epoch)) {
    checks.Fail("spec.committed.epoch", "may not go back to an older epoch");
  }
  return checks.TakeErrors();
}

}  // namespace janus::control
