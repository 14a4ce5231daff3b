#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/timed_device.h"
#include "common/topology.h"
#include "operator/api/enums.h"
#include "operator/api/object.h"
#include "operator/api/quantity.h"
#include "operator/api/tree.h"

namespace janus::control {

// The complete MoEService of group serving.janus.dev, version v1alpha1. Plain data; the initial
// values are the schema's defaults. A field is optional if its absence has a separate meaning.
// parse.h reads it; validate.h and supported.h check it.

inline constexpr std::string_view kKind = "MoEService";

struct SecretKeyRef {
  std::string name;
  std::string key;
  bool operator==(const SecretKeyRef&) const = default;
};

struct LocalObjectRef {
  std::string name;
  bool operator==(const LocalObjectRef&) const = default;
};

struct HuggingFaceSource {
  std::string repo;
  std::string revision;  // empty: resolved once and recorded in status.model
  std::optional<SecretKeyRef> token_secret_ref;
  bool operator==(const HuggingFaceSource&) const = default;
};

struct PersistentVolumeClaimSource {
  std::string claim_name;
  std::string path;  // below the volume's root; empty: the root
  bool operator==(const PersistentVolumeClaimSource&) const = default;
};

struct ImageSource {
  std::string path;
  bool operator==(const ImageSource&) const = default;
};

struct HostPathSource {
  std::string path;  // absolute
  bool operator==(const HostPathSource&) const = default;
};

// A union: only the member that `type` names is set.
struct ModelSource {
  SourceType type = SourceType::kHuggingFace;
  std::optional<HuggingFaceSource> hugging_face;
  std::optional<PersistentVolumeClaimSource> persistent_volume_claim;
  std::optional<ImageSource> image;
  std::optional<HostPathSource> host_path;
  bool operator==(const ModelSource&) const = default;
};

struct NodeCache {
  std::string path;
  bool operator==(const NodeCache&) const = default;
};

// A union by `type`; None has no member.
struct ModelCache {
  CacheType type = CacheType::kNone;
  std::optional<PersistentVolumeClaimSource> persistent_volume_claim;
  std::optional<NodeCache> node;
  bool operator==(const ModelCache&) const = default;
};

struct ModelSpec {
  ModelSource source;
  std::string name;                // what clients call it; empty: metadata.name
  std::vector<std::string> names;  // what they may call it too
  Dtype dtype = Dtype::kAuto;
  std::optional<int32_t> max_model_len;  // tokens of prompt and answer; absent: from config.json
  ModelCache cache;
  bool operator==(const ModelSpec&) const = default;
};

struct LatencyTarget {
  int32_t target_milliseconds = 0;
  Percentile percentile = Percentile::kP95;
  bool operator==(const LatencyTarget&) const = default;
};

struct SloSpec {
  std::optional<LatencyTarget> tpot;  // per request: time per output token
  std::optional<LatencyTarget> ttft;
  bool operator==(const SloSpec&) const = default;
};

struct BehaviorPolicy {
  BehaviorPolicyType type = BehaviorPolicyType::kPods;
  int32_t value = 0;
  int32_t period_seconds = 0;
  bool operator==(const BehaviorPolicy&) const = default;
};

struct BehaviorRules {
  std::optional<int32_t> stabilization_window_seconds;
  SelectPolicy select_policy = SelectPolicy::kMax;
  std::vector<BehaviorPolicy> policies;
  bool operator==(const BehaviorRules&) const = default;
};

struct Behavior {  // as autoscaling/v2
  std::optional<BehaviorRules> scale_up;
  std::optional<BehaviorRules> scale_down;
  bool operator==(const Behavior&) const = default;
};

// The most instances of a role.
inline constexpr int32_t kMostAttentionInstances = 256;
inline constexpr int32_t kMostExpertInstances = 1024;

struct RoleScaling {
  ScalingMode mode = ScalingMode::kSlo;
  std::optional<int32_t> min_replicas;
  std::optional<int32_t> max_replicas;
  std::optional<Behavior> behavior;
  bool operator==(const RoleScaling&) const = default;
};

struct Resources {
  std::map<std::string, Quantity> requests;
  std::map<std::string, Quantity> limits;
  bool operator==(const Resources&) const = default;
};

struct Toleration {
  std::string key;
  TolerationOperator op = TolerationOperator::kEqual;
  std::string value;
  std::optional<TaintEffect> effect;
  std::optional<int64_t> toleration_seconds;
  bool operator==(const Toleration&) const = default;
};

// Settings of both roles. Without `replicas` and `scaling` the mode is SLO.
struct RoleSpec {
  std::optional<int32_t> replicas;  // instances; set means Static
  std::optional<RoleScaling> scaling;
  int32_t instances_per_pod = 1;  // a maximum: 1, 2, 4 or 8
  int32_t tensor_parallel = 1;
  std::string hardware_profile;
  Resources resources;
  std::map<std::string, std::string> node_selector;
  std::vector<Toleration> tolerations;
  std::string scheduler_name;
  std::string priority_class_name;
  std::optional<Node> pod_template;  // any fields; the API server validates them

  bool is_static() const { return replicas.has_value(); }
  bool is_slo() const { return !replicas && (!scaling || scaling->mode == ScalingMode::kSlo); }
  bool operator==(const RoleSpec&) const = default;
};

struct KvCacheSpec {
  int32_t block_size = 16;                // tokens per block
  std::optional<int32_t> memory_percent;  // of what weights leave free; absent with no size: 90
  std::optional<Quantity> size;           // bytes per instance
  KvDtype dtype = KvDtype::kAuto;
  PrefixCache prefix_cache = PrefixCache::kAuto;
  std::optional<Quantity> prefix_host_memory;  // bytes per instance; absent: none
  bool operator==(const KvCacheSpec&) const = default;
};

struct AttentionSpec : RoleSpec {
  int32_t max_batch_size = 256;  // sequences per instance that run at once
  KvCacheSpec kv_cache;
  bool operator==(const AttentionSpec&) const = default;
};

struct PlacementSpec {
  PlacementPolicy policy = PlacementPolicy::kAuto;
  bool survivable = false;
  int32_t rebalance_interval_seconds = 3600;
  std::optional<int32_t> window_seconds;
  bool operator==(const PlacementSpec&) const = default;
};

struct ExpertsSpec : RoleSpec {
  std::optional<int32_t> slots_per_instance;  // per layer, without spare ones
  int32_t spare_slots = 2;                    // per instance, of any layer
  PlacementSpec placement;
  Scheduling scheduling = Scheduling::kAebs;
  bool operator==(const ExpertsSpec&) const = default;
};

struct RolesSpec {
  AttentionSpec attention;
  ExpertsSpec experts;
  bool operator==(const RolesSpec&) const = default;
};

struct ExchangeSpec {
  ExchangeMode mode = ExchangeMode::kAuto;
  Transport transport = Transport::kAuto;
  Compression compression = Compression::kNone;
  GateSide gate = GateSide::kAuto;
  SumRule sum = SumRule::kAuto;
  int32_t sum_bits = 32;               // with FixedPoint: of an element of a sum in the exchange
  std::vector<int32_t> sum_exponents;  // with FixedPoint: by MoE layer
  bool host_shared = false;
  bool operator==(const ExchangeSpec&) const = default;
};

struct PipelineSpec {
  int32_t micro_batches = 0;  // 0: chosen with the counts; of fixed counts 1
  bool operator==(const PipelineSpec&) const = default;
};

struct RatioBound {
  int32_t experts = 0;
  int32_t attention = 0;
  bool operator==(const RatioBound&) const = default;
};

struct RatioSpec {
  std::optional<RatioBound> min;
  std::optional<RatioBound> max;
  bool operator==(const RatioSpec&) const = default;
};

struct ScalingSpec {
  int32_t interval_seconds = 15;
  Predictor predictor = Predictor::kNone;
  std::optional<int32_t> max_gpus;
  std::optional<int32_t> max_pools;
  bool advisory = false;
  int32_t pending_timeout_seconds = 1200;
  int32_t standby = 0;
  bool operator==(const ScalingSpec&) const = default;
};

struct DrainSpec {
  int32_t timeout_seconds = 300;
  WithoutCapacity without_capacity = WithoutCapacity::kBlock;
  bool operator==(const DrainSpec&) const = default;
};

struct RolloutSpec {
  RolloutType type = RolloutType::kAuto;
  int32_t drain_seconds = 300;
  bool operator==(const RolloutSpec&) const = default;
};

struct GatewayServiceSpec {
  ServiceType type = ServiceType::kClusterIp;
  int32_t port = 80;
  bool operator==(const GatewayServiceSpec&) const = default;
};

struct GatewayLimits {
  int32_t queued_requests = 4096;
  Quantity request_size{4 << 20, int64_t{4 << 20} * 1000, "4Mi"};  // bytes
  int32_t open_streams = 4096;
  bool operator==(const GatewayLimits&) const = default;
};

struct GatewaySpec {
  std::optional<int32_t> replicas;  // absent: 2 on Kubernetes, 1 in the embedded cluster
  GatewayServiceSpec service;
  std::optional<SecretKeyRef> api_keys_secret_ref;
  GatewayLimits limits;
  Resources resources;
  std::optional<Node> pod_template;
  bool operator==(const GatewaySpec&) const = default;
};

struct SecuritySpec {
  Tls tls = Tls::kAuto;
  bool network_policy = false;
  bool operator==(const SecuritySpec&) const = default;
};

// Workers compute on CPUs and show their results when the named hardware would have them for the
// named model (docs/timed-devices.md).
struct TimedSpec {
  std::string hardware;  // a preset of common/hardware.h
  std::string model;     // a preset of controllers/plan/model_shape.h
  int32_t scale = 1;
  int32_t time_scale = 1;
  bool operator==(const TimedSpec&) const = default;

  TimedDevice device() const { return {hardware, model, scale, time_scale}; }
};

struct MoEServiceSpec {
  ModelSpec model;
  SloSpec slo;
  std::string image;
  std::vector<LocalObjectRef> image_pull_secrets;
  Device device = Device::kAuto;
  std::optional<TimedSpec> timed;  // with device Timed
  std::optional<int32_t> pools;    // absent: 1
  RolesSpec roles;
  ExchangeSpec exchange;
  PipelineSpec pipeline;
  RatioSpec ratio;
  ScalingSpec scaling;
  DrainSpec drain;
  RolloutSpec rollout;
  GatewaySpec gateway;
  SecuritySpec security;
  bool paused = false;
  bool suspend = false;
  bool operator==(const MoEServiceSpec&) const = default;
};

// Whether the service may have more than one pool, now or later. Its objects then name their pool.
inline bool UsesPools(const MoEServiceSpec& spec) {
  return spec.pools.has_value() || spec.scaling.max_pools.has_value();
}
inline int LeastPools(const MoEServiceSpec& spec) {
  return spec.pools.value_or(1);
}
inline int MostPools(const MoEServiceSpec& spec) {
  return spec.scaling.max_pools.value_or(LeastPools(spec));
}

struct MoEService {
  ObjectMeta metadata;
  MoEServiceSpec spec;
  // Of a model that was fetched from a hub: the commit of its revision, from status.model. Empty:
  // it is not fetched yet, or comes from elsewhere.
  std::string commit = {};

  // What clients call the model.
  const std::string& model_name() const {
    return spec.model.name.empty() ? metadata.name : spec.model.name;
  }
};

inline const RoleSpec& SpecOf(const MoEService& service, Role role) {
  if (role == Role::kAttention) return service.spec.roles.attention;
  return service.spec.roles.experts;
}
inline RoleSpec& SpecOf(MoEService& service, Role role) {
  if (role == Role::kAttention) return service.spec.roles.attention;
  return service.spec.roles.experts;
}

}  // namespace janus::control
