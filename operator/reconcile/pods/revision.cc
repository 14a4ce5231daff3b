#include "operator/reconcile/pods/revision.h"

#include <algorithm>

#include "common/fingerprint.h"
#include "operator/api/device.h"
#include "operator/api/enums.h"
#include "operator/reconcile/objects/names.h"

namespace janus::control {
namespace {

// Hashes fields by name, only those that differ from their default.
class SetFields {
 public:
  void Add(std::string_view name, std::string_view value, std::string_view unset = "") {
    if (value == unset) return;
    hash_.Mix(name.size()).Mix(name).Mix(value.size()).Mix(value);
  }
  void Add(std::string_view name, int64_t value, int64_t unset) {
    Add(name, std::to_string(value), std::to_string(unset));
  }
  uint64_t value() const { return hash_.value(); }

 private:
  Fingerprint hash_;
};

// The same text for equal trees, whatever the order of their fields.
std::string Canonical(const Node& node) {
  std::string out;
  switch (node.kind) {
    case Node::Kind::kList:
      for (const Node& item : node.items) out += Canonical(item) + ",";
      return "[" + out + "]";
    case Node::Kind::kMap: {
      std::vector<const NodeField*> fields;
      for (const NodeField& field : node.fields) fields.push_back(&field);
      std::sort(fields.begin(), fields.end(),
                [](const NodeField* a, const NodeField* b) { return a->name < b->name; });
      for (const NodeField* field : fields) {
        out += std::to_string(field->name.size()) + field->name + Canonical(field->value) + ",";
      }
      return "{" + out + "}";
    }
    default:
      return std::to_string(static_cast<int>(node.kind)) + ":" + std::to_string(node.text.size()) +
             node.text + (node.boolean ? "t" : "") + std::to_string(node.integer);
  }
}

void AddSource(const ModelSpec& model, SetFields& set) {
  const ModelSource& source = model.source;
  set.Add("source", ToString(source.type));
  if (source.hugging_face) {
    set.Add("repo", source.hugging_face->repo);
    set.Add("modelRevision", source.hugging_face->revision);
    if (source.hugging_face->token_secret_ref) {
      set.Add("token", source.hugging_face->token_secret_ref->name);
      set.Add("tokenKey", source.hugging_face->token_secret_ref->key);
    }
  }
  if (source.persistent_volume_claim) {
    set.Add("claim", source.persistent_volume_claim->claim_name);
    set.Add("claimPath", source.persistent_volume_claim->path);
  }
  if (source.image) set.Add("imagePath", source.image->path);
  if (source.host_path) set.Add("hostPath", source.host_path->path);
  if (model.cache.type != CacheType::kNone) {
    set.Add("cache", ToString(model.cache.type));
    if (model.cache.persistent_volume_claim) {
      set.Add("cacheClaim", model.cache.persistent_volume_claim->claim_name);
      set.Add("cacheClaimPath", model.cache.persistent_volume_claim->path);
    }
    if (model.cache.node) set.Add("cacheNode", model.cache.node->path);
  }
}

void AddQuantities(std::string_view name, const std::map<std::string, Quantity>& quantities,
                   SetFields& set) {
  for (const auto& [resource, quantity] : quantities) {
    set.Add(std::string(name) + "/" + resource, std::to_string(quantity.milli));
  }
}

// What members add contributions by; empty: one by one.
std::string SumsOf(const ExchangeSpec& exchange) {
  if (exchange.sum != SumRule::kFixedPoint) return "";
  std::string out = std::to_string(exchange.sum_bits);
  for (const int32_t exponent : exchange.sum_exponents) out += "," + std::to_string(exponent);
  return out;
}

void AddRole(const RoleSpec& role, SetFields& set) {
  const RoleSpec unset;
  set.Add("instancesPerPod", role.instances_per_pod, unset.instances_per_pod);
  set.Add("tensorParallel", role.tensor_parallel, unset.tensor_parallel);
  set.Add("hardwareProfile", role.hardware_profile);
  AddQuantities("requests", role.resources.requests, set);
  AddQuantities("limits", role.resources.limits, set);
  for (const auto& [label, value] : role.node_selector) {
    set.Add("nodeSelector/" + label, value, "\n");  // an empty value selects too
  }
  for (const Toleration& one : role.tolerations) {
    set.Add("toleration", one.key, "\n");
    set.Add("operator", ToString(one.op), ToString(Toleration{}.op));
    set.Add("tolerated", one.value);
    if (one.effect) set.Add("effect", ToString(*one.effect));
    if (one.toleration_seconds) set.Add("tolerationSeconds", *one.toleration_seconds, -1);
  }
  set.Add("schedulerName", role.scheduler_name);
  set.Add("priorityClassName", role.priority_class_name);
  if (role.pod_template) set.Add("podTemplate", Canonical(*role.pod_template));
}

// The settings that decide the size, not the size itself, which also depends on free memory.
void AddSequenceRoom(const MoEServiceSpec& spec, SetFields& set) {
  const AttentionSpec unset;
  const AttentionSpec& attention = spec.roles.attention;
  set.Add("maxBatchSize", attention.max_batch_size, unset.max_batch_size);
  set.Add("kvBlockSize", attention.kv_cache.block_size, unset.kv_cache.block_size);
  if (spec.model.max_model_len) set.Add("maxModelLen", std::to_string(*spec.model.max_model_len));
  if (attention.kv_cache.size) set.Add("kvSize", std::to_string(attention.kv_cache.size->value));
  if (attention.kv_cache.prefix_host_memory) {
    set.Add("prefixHostMemory", attention.kv_cache.prefix_host_memory->value, 0);
  }
  if (attention.kv_cache.memory_percent) {
    set.Add("kvMemoryPercent", std::to_string(*attention.kv_cache.memory_percent));
  }
}

// Without vowels and similar letters, like Kubernetes' suffixes, so that no words appear.
std::string Letters(uint64_t value) {
  constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  constexpr int kLength = 10;
  std::string out;
  for (int i = 0; i < kLength; ++i) {
    out += kLetters[value % kLetters.size()];
    value /= kLetters.size();
  }
  return out;
}

}  // namespace

std::string RevisionOf(const MoEService& service, Role role, const std::string& worker_image) {
  const MoEServiceSpec& spec = service.spec;
  SetFields set;
  set.Add("workerImage", worker_image);
  AddSource(spec.model, set);
  set.Add("device", ToString(spec.device), ToString(Device::kAuto));
  if (spec.timed) set.Add("timed", janus::ToString(spec.timed->device()));
  for (const LocalObjectRef& secret : spec.image_pull_secrets) set.Add("pullSecret", secret.name);
  set.Add("drain", spec.drain.timeout_seconds, DrainSpec{}.timeout_seconds);
  set.Add("hostShared", spec.exchange.host_shared ? "true" : "");
  set.Add("tls", ToString(spec.security.tls), ToString(Tls::kAuto));
  if (role == Role::kAttention) {
    AddRole(spec.roles.attention, set);
    AddSequenceRoom(spec, set);
  } else {
    AddRole(spec.roles.experts, set);
  }
  const auto restarted = service.metadata.annotations.find(std::string(kRestartedAtAnnotation));
  if (restarted != service.metadata.annotations.end()) set.Add("restartedAt", restarted->second);
  return Letters(set.value());
}

std::string ModelLabelOf(const MoEService& service) {
  SetFields set;
  AddSource(service.spec.model, set);
  set.Add("dtype", ToString(service.spec.model.dtype), ToString(Dtype::kAuto));
  set.Add("kvDtype", ToString(service.spec.roles.attention.kv_cache.dtype),
          ToString(KvDtype::kAuto));
  set.Add("compression", ToString(service.spec.exchange.compression), ToString(Compression::kNone));
  set.Add("sums", SumsOf(service.spec.exchange));
  if (DeviceOf(service) == Device::kCuda) set.Add("computesOn", ToString(Device::kCuda));
  return Letters(set.value());
}

std::string SourceKeyOf(const MoEService& service) {
  SetFields set;
  AddSource(service.spec.model, set);
  return Letters(set.value());
}

}  // namespace janus::control
