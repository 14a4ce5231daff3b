#include "operator/api/validate.h"

#include <limits>
#include <string>

#include "common/fixed_point.h"
#include "common/pools.h"
#include "operator/api/checks.h"

namespace janus::control {
namespace {

class Validator : private Checks {
 public:
  using Checks::Checks;

  FieldErrors Run(const MoEService& service) {
    Name("metadata.name", service.metadata.name);
    Model(service.spec.model);
    Slo(service.spec.slo);
    Timed(service.spec);
    Range("spec.pools", service.spec.pools, 1, kMostPools);
    Roles(service.spec);
    Exchange(service.spec.exchange);
    Range("spec.pipeline.microBatches", service.spec.pipeline.micro_batches, 0, 4);
    Ratio(service.spec);
    Scaling(service.spec.scaling);
    Range("spec.drain.timeoutSeconds", service.spec.drain.timeout_seconds, 0, 86'400);
    Range("spec.rollout.drainSeconds", service.spec.rollout.drain_seconds, 0, 86'400);
    Gateway(service.spec.gateway);
    const std::vector<LocalObjectRef>& secrets = service.spec.image_pull_secrets;
    Count("spec.imagePullSecrets", secrets.size(), 16);
    for (size_t i = 0; i < secrets.size(); ++i) {
      Filled(Item("spec.imagePullSecrets", i) + ".name", secrets[i].name, 253);
    }
    Length("spec.image", service.spec.image, 1024);
    return TakeErrors();
  }

 private:
  // Of a union, exactly the member that `type` names must be set.
  struct Member {
    std::string_view name;
    std::string_view type;
    bool given;
  };
  void Union(const std::string& path, std::string_view type,
             std::initializer_list<Member> members) {
    for (const Member& member : members) {
      const std::string member_path = path + "." + std::string(member.name);
      if (member.type == type && !member.given) {
        FailRule(member_path, "is required with type " + std::string(type));
      } else if (member.type != type && member.given) {
        FailRule(member_path, "is given, but type is " + std::string(type) +
                                  "; give only the member of that type");
      }
    }
  }

  void Secret(const std::string& path, const std::optional<SecretKeyRef>& secret) {
    if (!secret) return;
    Filled(path + ".name", secret->name, 253);
    Filled(path + ".key", secret->key, 253);
  }

  void Claim(const std::string& path, const std::optional<PersistentVolumeClaimSource>& claim) {
    if (!claim) return;
    Filled(path + ".claimName", claim->claim_name, 253);
    Length(path + ".path", claim->path, 4096);
  }

  void AbsolutePath(std::string_view path, const std::string& value) {
    Filled(path, value, 4096);
    if (!value.empty() && value.front() != '/') {
      Fail(path, "is '" + value.substr(0, 64) + "'; want an absolute path, as /models/demo");
    }
  }

  void Model(const ModelSpec& model) {
    const ModelSource& source = model.source;
    Union("spec.model.source", ToString(source.type),
          {{"huggingFace", "HuggingFace", source.hugging_face.has_value()},
           {"persistentVolumeClaim", "PersistentVolumeClaim",
            source.persistent_volume_claim.has_value()},
           {"image", "Image", source.image.has_value()},
           {"hostPath", "HostPath", source.host_path.has_value()}});
    if (source.hugging_face) {
      const std::string& repo = source.hugging_face->repo;
      const size_t slash = repo.find('/');
      if (slash == 0 || slash == std::string::npos || slash + 1 == repo.size() ||
          repo.find('/', slash + 1) != std::string::npos) {
        Fail("spec.model.source.huggingFace.repo",
             "is '" + repo.substr(0, 64) + "'; want owner/name as on the hub");
      }
      Length("spec.model.source.huggingFace.repo", repo, 200);
      Length("spec.model.source.huggingFace.revision", source.hugging_face->revision, 255);
      Secret("spec.model.source.huggingFace.tokenSecretRef", source.hugging_face->token_secret_ref);
    }
    Claim("spec.model.source.persistentVolumeClaim", source.persistent_volume_claim);
    if (source.image) AbsolutePath("spec.model.source.image.path", source.image->path);
    if (source.host_path) AbsolutePath("spec.model.source.hostPath.path", source.host_path->path);
    Length("spec.model.name", model.name, 253);
    Count("spec.model.names", model.names.size(), 16);
    for (size_t i = 0; i < model.names.size(); ++i) {
      const std::string item = "spec.model.names[" + std::to_string(i) + "]";
      if (model.names[i].empty()) Fail(item, "is empty; want a name");
      Length(item, model.names[i], 253);
    }
    Range("spec.model.maxModelLen", model.max_model_len, 1, 1 << 24);
    Union("spec.model.cache", ToString(model.cache.type),
          {{"persistentVolumeClaim", "PersistentVolumeClaim",
            model.cache.persistent_volume_claim.has_value()},
           {"node", "Node", model.cache.node.has_value()}});
    Claim("spec.model.cache.persistentVolumeClaim", model.cache.persistent_volume_claim);
    if (model.cache.node) AbsolutePath("spec.model.cache.node.path", model.cache.node->path);
  }

  void Slo(const SloSpec& slo) {
    if (slo.tpot)
      Range("spec.slo.tpot.targetMilliseconds", slo.tpot->target_milliseconds, 1, 600'000);
    if (slo.ttft)
      Range("spec.slo.ttft.targetMilliseconds", slo.ttft->target_milliseconds, 1, 3'600'000);
  }

  void Timed(const MoEServiceSpec& spec) {
    const bool is_timed = spec.device == Device::kTimed;
    if (is_timed && !spec.timed) FailRule("spec.timed", "is required with device Timed");
    if (!spec.timed) return;
    if (!is_timed) {
      FailRule("spec.timed", "is given, but device is " + std::string(ToString(spec.device)) +
                                 "; set device to Timed, or leave it out");
    }
    Filled("spec.timed.hardware", spec.timed->hardware, 63);
    Filled("spec.timed.model", spec.timed->model, 63);
    Range("spec.timed.scale", spec.timed->scale, 1, kMostTimedScale);
    Range("spec.timed.timeScale", spec.timed->time_scale, 1, kMostTimeScale);
  }

  void Exchange(const ExchangeSpec& exchange) {
    const bool is_fixed = exchange.sum == SumRule::kFixedPoint;
    const std::string path = "spec.exchange.sumExponents";
    OneOf("spec.exchange.sumBits", exchange.sum_bits, {24, 32});
    Count(path, exchange.sum_exponents.size(), 1024);
    for (size_t i = 0; i < exchange.sum_exponents.size(); ++i) {
      Range(Item(path, i), exchange.sum_exponents[i], FixedPointSums::kLeastExponent,
            FixedPointSums::kMostExponent);
    }
    if (is_fixed && exchange.sum_exponents.empty()) {
      FailRule(path, "is required with sum FixedPoint; janusctl calibrate prints it");
    } else if (!is_fixed && !exchange.sum_exponents.empty()) {
      FailRule(path, "is given, but sum is " + std::string(ToString(exchange.sum)) +
                         "; set sum to FixedPoint, or leave it out");
    }
  }

  void Rules(const std::string& path, const BehaviorRules& rules) {
    Range(path + ".stabilizationWindowSeconds", rules.stabilization_window_seconds, 0, 3600);
    Count(path + ".policies", rules.policies.size(), 20);
    for (size_t i = 0; i < rules.policies.size(); ++i) {
      const std::string policy = Item(path + ".policies", i);
      Range(policy + ".value", rules.policies[i].value, 1, 100'000);
      Range(policy + ".periodSeconds", rules.policies[i].period_seconds, 1, 1800);
    }
  }

  void Role(const std::string& path, const RoleSpec& role, int32_t most) {
    if (role.replicas && role.scaling) {
      FailRule(path, "has replicas and scaling; give one: replicas for a fixed count");
    }
    Range(path + ".replicas", role.replicas, 0, most);
    if (role.scaling) {
      const RoleScaling& scaling = *role.scaling;
      Range(path + ".scaling.minReplicas", scaling.min_replicas, 1, most);
      Range(path + ".scaling.maxReplicas", scaling.max_replicas, 1, most);
      if (scaling.min_replicas && scaling.max_replicas &&
          *scaling.min_replicas > *scaling.max_replicas) {
        FailRule(path + ".scaling.minReplicas",
                 "is " + std::to_string(*scaling.min_replicas) +
                     ", more than maxReplicas = " + std::to_string(*scaling.max_replicas));
      }
      if (scaling.behavior) {
        if (scaling.behavior->scale_up) {
          Rules(path + ".scaling.behavior.scaleUp", *scaling.behavior->scale_up);
        }
        if (scaling.behavior->scale_down) {
          Rules(path + ".scaling.behavior.scaleDown", *scaling.behavior->scale_down);
        }
      }
    }
    OneOf(path + ".instancesPerPod", role.instances_per_pod, {1, 2, 4, 8});
    OneOf(path + ".tensorParallel", role.tensor_parallel, {1, 2, 4, 8});
    Length(path + ".hardwareProfile", role.hardware_profile, 253);
    Length(path + ".schedulerName", role.scheduler_name, 63);
    Length(path + ".priorityClassName", role.priority_class_name, 253);
    Count(path + ".resources.requests", role.resources.requests.size(), 32);
    Count(path + ".resources.limits", role.resources.limits.size(), 32);
    Count(path + ".nodeSelector", role.node_selector.size(), 64);
    for (const auto& [label, value] : role.node_selector) {
      Length(path + ".nodeSelector." + label, value, 63);
    }
    Count(path + ".tolerations", role.tolerations.size(), 64);
    for (size_t i = 0; i < role.tolerations.size(); ++i) {
      const std::string item = Item(path + ".tolerations", i);
      Length(item + ".key", role.tolerations[i].key, 317);
      Length(item + ".value", role.tolerations[i].value, 63);
      if (role.tolerations[i].toleration_seconds) {
        Range(item + ".tolerationSeconds", *role.tolerations[i].toleration_seconds, 0,
              std::numeric_limits<int32_t>::max());
      }
    }
  }

  void Roles(const MoEServiceSpec& spec) {
    const AttentionSpec& attention = spec.roles.attention;
    const ExpertsSpec& experts = spec.roles.experts;
    Role("spec.roles.attention", attention, kMostAttentionInstances);
    Role("spec.roles.experts", experts, kMostExpertInstances);
    if (attention.replicas && experts.replicas &&
        (*attention.replicas == 0) != (*experts.replicas == 0)) {
      FailRule("spec.roles",
               "one role has 0 replicas and the other has more; set both to 0 or neither");
    }
    if ((attention.is_slo() || experts.is_slo()) && !spec.slo.tpot) {
      FailRule("spec.slo.tpot",
               "is required for a role in mode SLO; set a target, or both roles' replicas");
    }
    Range("spec.roles.attention.maxBatchSize", attention.max_batch_size, 1, 65'535);
    const KvCacheSpec& cache = attention.kv_cache;
    OneOf("spec.roles.attention.kvCache.blockSize", cache.block_size, {8, 16, 32, 64, 128, 256});
    Range("spec.roles.attention.kvCache.memoryPercent", cache.memory_percent, 1, 100);
    if (cache.size && cache.memory_percent) {
      FailRule("spec.roles.attention.kvCache", "has size and memoryPercent; give one");
    }
    if (cache.size && cache.size->value < (1 << 16)) {
      Fail("spec.roles.attention.kvCache.size", "is " + cache.size->text + "; want at least 64Ki");
    }
    Range("spec.roles.experts.slotsPerInstance", experts.slots_per_instance, 1, 4096);
    Range("spec.roles.experts.spareSlots", experts.spare_slots, 0, 64);
    Range("spec.roles.experts.placement.rebalanceIntervalSeconds",
          experts.placement.rebalance_interval_seconds, 60, 604'800);
    Range("spec.roles.experts.placement.windowSeconds", experts.placement.window_seconds, 60,
          604'800);
  }

  // The allowed counts of a role.
  struct Bounds {
    int64_t low;
    int64_t high;
  };
  static Bounds CountsOf(const RoleSpec& role, int64_t most) {
    if (role.replicas) return {*role.replicas, *role.replicas};
    if (!role.scaling) return {1, most};
    return {role.scaling->min_replicas.value_or(1), role.scaling->max_replicas.value_or(most)};
  }

  void Ratio(const MoEServiceSpec& spec) {
    const auto sides = [&](const std::string& path, const std::optional<RatioBound>& bound) {
      if (!bound) return true;
      const size_t before = error_count();
      Range(path + ".experts", bound->experts, 1, 1024);
      Range(path + ".attention", bound->attention, 1, 1024);
      return error_count() == before;
    };
    const bool min_ok = sides("spec.ratio.min", spec.ratio.min);
    const bool max_ok = sides("spec.ratio.max", spec.ratio.max);
    if (!min_ok || !max_ok) return;
    const auto& min = spec.ratio.min;
    const auto& max = spec.ratio.max;
    const auto text = [](const RatioBound& bound) {
      return std::to_string(bound.experts) + ":" + std::to_string(bound.attention);
    };
    if (min && max &&
        int64_t{min->experts} * max->attention > int64_t{max->experts} * min->attention) {
      FailRule("spec.ratio.min", "is " + text(*min) + ", more than max = " + text(*max));
      return;
    }
    const Bounds m = CountsOf(spec.roles.attention, kMostAttentionInstances);
    const Bounds n = CountsOf(spec.roles.experts, kMostExpertInstances);
    if (m.high == 0 || n.high == 0) return;
    if (min && n.high * min->attention < m.low * min->experts) {
      FailRule("spec.ratio.min", "is " + text(*min) + ", which " + std::to_string(n.high) +
                                     " experts at most for " + std::to_string(m.low) +
                                     " attention instances at least cannot reach");
    }
    if (max && n.low * max->attention > m.high * max->experts) {
      FailRule("spec.ratio.max", "is " + text(*max) + ", which " + std::to_string(n.low) +
                                     " experts at least for " + std::to_string(m.high) +
                                     " attention instances at most cannot reach");
    }
  }

  void Scaling(const ScalingSpec& scaling) {
    Range("spec.scaling.intervalSeconds", scaling.interval_seconds, 1, 3600);
    Range("spec.scaling.maxGPUs", scaling.max_gpus, 1, 100'000);
    Range("spec.scaling.maxPools", scaling.max_pools, 1, kMostPools);
    Range("spec.scaling.pendingTimeoutSeconds", scaling.pending_timeout_seconds, 1, 86'400);
    Range("spec.scaling.standby", scaling.standby, 0, 64);
  }

  void Gateway(const GatewaySpec& gateway) {
    Range("spec.gateway.replicas", gateway.replicas, 1, 100);
    Range("spec.gateway.service.port", gateway.service.port, 1, 65'535);
    Range("spec.gateway.limits.queuedRequests", gateway.limits.queued_requests, 1, 1'000'000);
    Range("spec.gateway.limits.openStreams", gateway.limits.open_streams, 1, 1'000'000);
    Secret("spec.gateway.apiKeysSecretRef", gateway.api_keys_secret_ref);
    Count("spec.gateway.resources.requests", gateway.resources.requests.size(), 32);
    Count("spec.gateway.resources.limits", gateway.resources.limits.size(), 32);
    Range("spec.gateway.limits.requestSize", gateway.limits.request_size.value, 1024, 1 << 30);
  }
};

}  // namespace

FieldErrors ValidateSchema(const MoEService& service, Scope scope) {
  return Validator(scope).Run(service);
}

FieldErrors ValidateUpdate(const MoEService& before, const MoEService& after) {
  FieldErrors errors;
  const ModelSource& was = before.spec.model.source;
  const ModelSource& is = after.spec.model.source;
  if (was.type != is.type) {
    errors.push_back(
        {"spec.model.source.type",
         "may not change from " + std::string(ToString(was.type)) + "; create another MoEService",
         0});
  } else if (was.hugging_face && is.hugging_face &&
             was.hugging_face->repo != is.hugging_face->repo) {
    errors.push_back(
        {"spec.model.source.huggingFace.repo",
         "may not change from " + was.hugging_face->repo + "; create another MoEService", 0});
  }
  return errors;
}

}  // namespace janus::control
