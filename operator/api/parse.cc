#include "operator/api/parse.h"

#include "operator/api/read_object.h"

namespace janus::control {

// One Read per object of the schema, in the schema's order. The templates of fields.h find them by
// argument-dependent lookup, so they must be in the namespace of the types.

static void Read(const At& at, SecretKeyRef& out) {
  Fields(at)
      .Require("name", out.name, "the Secret's name")
      .Require("key", out.key, "the key inside the Secret")
      .RefuseOthers();
}

static void Read(const At& at, LocalObjectRef& out) {
  Fields(at).Require("name", out.name, "the object's name").RefuseOthers();
}

static void Read(const At& at, HuggingFaceSource& out) {
  Fields(at)
      .Require("repo", out.repo, "owner/name on the hub")
      .Take("revision", out.revision)
      .Take("tokenSecretRef", out.token_secret_ref)
      .RefuseOthers();
}

static void Read(const At& at, PersistentVolumeClaimSource& out) {
  Fields(at)
      .Require("claimName", out.claim_name, "the claim's name")
      .Take("path", out.path)
      .RefuseOthers();
}

static void Read(const At& at, ImageSource& out) {
  Fields(at).Require("path", out.path, "the model's folder in the worker image").RefuseOthers();
}

static void Read(const At& at, HostPathSource& out) {
  Fields(at).Require("path", out.path, "the model's folder on the machine").RefuseOthers();
}

static void Read(const At& at, ModelSource& out) {
  Fields(at)
      .Require("type", out.type, "where the model comes from")
      .Take("huggingFace", out.hugging_face)
      .Take("persistentVolumeClaim", out.persistent_volume_claim)
      .Take("image", out.image)
      .Take("hostPath", out.host_path)
      .RefuseOthers();
}

static void Read(const At& at, NodeCache& out) {
  Fields(at).Require("path", out.path, "the cache's folder on the node").RefuseOthers();
}

static void Read(const At& at, ModelCache& out) {
  Fields(at)
      .Require("type", out.type, "the kind of cache")
      .Take("persistentVolumeClaim", out.persistent_volume_claim)
      .Take("node", out.node)
      .RefuseOthers();
}

static void Read(const At& at, ModelSpec& out) {
  Fields(at)
      .Require("source", out.source, "where the model comes from")
      .Take("name", out.name)
      .Take("names", out.names)
      .Take("dtype", out.dtype)
      .Take("maxModelLen", out.max_model_len)
      .Take("cache", out.cache)
      .RefuseOthers();
}

static void Read(const At& at, LatencyTarget& out) {
  Fields(at)
      .Require("targetMilliseconds", out.target_milliseconds, "the target")
      .Take("percentile", out.percentile)
      .RefuseOthers();
}

static void Read(const At& at, SloSpec& out) {
  Fields(at).Take("tpot", out.tpot).Take("ttft", out.ttft).RefuseOthers();
}

static void Read(const At& at, BehaviorPolicy& out) {
  Fields(at)
      .Require("type", out.type, "what `value` counts")
      .Require("value", out.value, "how many, or how many percent")
      .Require("periodSeconds", out.period_seconds, "in how much time")
      .RefuseOthers();
}

static void Read(const At& at, BehaviorRules& out) {
  Fields(at)
      .Take("stabilizationWindowSeconds", out.stabilization_window_seconds)
      .Take("selectPolicy", out.select_policy)
      .Take("policies", out.policies)
      .RefuseOthers();
}

static void Read(const At& at, Behavior& out) {
  Fields(at).Take("scaleUp", out.scale_up).Take("scaleDown", out.scale_down).RefuseOthers();
}

static void Read(const At& at, RoleScaling& out) {
  Fields(at)
      .Take("mode", out.mode)
      .Take("minReplicas", out.min_replicas)
      .Take("maxReplicas", out.max_replicas)
      .Take("behavior", out.behavior)
      .RefuseOthers();
}

static void Read(const At& at, Resources& out) {
  Fields(at).Take("requests", out.requests).Take("limits", out.limits).RefuseOthers();
}

static void Read(const At& at, Toleration& out) {
  Fields(at)
      .Take("key", out.key)
      .Take("operator", out.op)
      .Take("value", out.value)
      .Take("effect", out.effect)
      .Take("tolerationSeconds", out.toleration_seconds)
      .RefuseOthers();
}

static Fields& TakeRole(Fields& fields, RoleSpec& out) {
  return fields.Take("replicas", out.replicas)
      .Take("scaling", out.scaling)
      .Take("instancesPerPod", out.instances_per_pod)
      .Take("tensorParallel", out.tensor_parallel)
      .Take("hardwareProfile", out.hardware_profile)
      .Take("resources", out.resources)
      .Take("nodeSelector", out.node_selector)
      .Take("tolerations", out.tolerations)
      .Take("schedulerName", out.scheduler_name)
      .Take("priorityClassName", out.priority_class_name)
      .Take("podTemplate", out.pod_template);
}

static void Read(const At& at, KvCacheSpec& out) {
  Fields(at)
      .Take("blockSize", out.block_size)
      .Take("memoryPercent", out.memory_percent)
      .Take("size", out.size)
      .Take("dtype", out.dtype)
      .Take("prefixCache", out.prefix_cache)
      .Take("prefixHostMemory", out.prefix_host_memory)
      .RefuseOthers();
}

static void Read(const At& at, AttentionSpec& out) {
  Fields fields(at);
  TakeRole(fields, out)
      .Take("maxBatchSize", out.max_batch_size)
      .Take("kvCache", out.kv_cache)
      .RefuseOthers();
}

static void Read(const At& at, PlacementSpec& out) {
  Fields(at)
      .Take("policy", out.policy)
      .Take("survivable", out.survivable)
      .Take("rebalanceIntervalSeconds", out.rebalance_interval_seconds)
      .Take("windowSeconds", out.window_seconds)
      .RefuseOthers();
}

static void Read(const At& at, ExpertsSpec& out) {
  Fields fields(at);
  TakeRole(fields, out)
      .Take("slotsPerInstance", out.slots_per_instance)
      .Take("spareSlots", out.spare_slots)
      .Take("placement", out.placement)
      .Take("scheduling", out.scheduling)
      .RefuseOthers();
}

static void Read(const At& at, RolesSpec& out) {
  Fields(at).Take("attention", out.attention).Take("experts", out.experts).RefuseOthers();
}

static void Read(const At& at, ExchangeSpec& out) {
  Fields(at)
      .Take("mode", out.mode)
      .Take("transport", out.transport)
      .Take("compression", out.compression)
      .Take("gate", out.gate)
      .Take("sum", out.sum)
      .Take("sumBits", out.sum_bits)
      .Take("sumExponents", out.sum_exponents)
      .Take("hostShared", out.host_shared)
      .RefuseOthers();
}

static void Read(const At& at, PipelineSpec& out) {
  Fields(at).Take("microBatches", out.micro_batches).RefuseOthers();
}

static void Read(const At& at, RatioBound& out) {
  Fields(at)
      .Require("experts", out.experts, "expert instances")
      .Require("attention", out.attention, "for so many attention instances")
      .RefuseOthers();
}

static void Read(const At& at, RatioSpec& out) {
  Fields(at).Take("min", out.min).Take("max", out.max).RefuseOthers();
}

static void Read(const At& at, ScalingSpec& out) {
  Fields(at)
      .Take("intervalSeconds", out.interval_seconds)
      .Take("predictor", out.predictor)
      .Take("maxGPUs", out.max_gpus)
      .Take("maxPools", out.max_pools)
      .Take("advisory", out.advisory)
      .Take("pendingTimeoutSeconds", out.pending_timeout_seconds)
      .Take("standby", out.standby)
      .RefuseOthers();
}

static void Read(const At& at, DrainSpec& out) {
  Fields(at)
      .Take("timeoutSeconds", out.timeout_seconds)
      .Take("withoutCapacity", out.without_capacity)
      .RefuseOthers();
}

static void Read(const At& at, RolloutSpec& out) {
  Fields(at).Take("type", out.type).Take("drainSeconds", out.drain_seconds).RefuseOthers();
}

static void Read(const At& at, GatewayServiceSpec& out) {
  Fields(at).Take("type", out.type).Take("port", out.port).RefuseOthers();
}

static void Read(const At& at, GatewayLimits& out) {
  Fields(at)
      .Take("queuedRequests", out.queued_requests)
      .Take("requestSize", out.request_size)
      .Take("openStreams", out.open_streams)
      .RefuseOthers();
}

static void Read(const At& at, GatewaySpec& out) {
  Fields(at)
      .Take("replicas", out.replicas)
      .Take("service", out.service)
      .Take("apiKeysSecretRef", out.api_keys_secret_ref)
      .Take("limits", out.limits)
      .Take("resources", out.resources)
      .Take("podTemplate", out.pod_template)
      .RefuseOthers();
}

static void Read(const At& at, SecuritySpec& out) {
  Fields(at).Take("tls", out.tls).Take("networkPolicy", out.network_policy).RefuseOthers();
}

static void Read(const At& at, TimedSpec& out) {
  Fields(at)
      .Require("hardware", out.hardware, "the hardware whose times are kept")
      .Require("model", out.model, "the model whose times are kept")
      .Take("scale", out.scale)
      .Take("timeScale", out.time_scale)
      .RefuseOthers();
}

static void Read(const At& at, MoEServiceSpec& out) {
  Fields(at)
      .Require("model", out.model, "the model to serve")
      .Take("slo", out.slo)
      .Take("image", out.image)
      .Take("imagePullSecrets", out.image_pull_secrets)
      .Take("device", out.device)
      .Take("timed", out.timed)
      .Take("pools", out.pools)
      .Take("roles", out.roles)
      .Take("exchange", out.exchange)
      .Take("pipeline", out.pipeline)
      .Take("ratio", out.ratio)
      .Take("scaling", out.scaling)
      .Take("drain", out.drain)
      .Take("rollout", out.rollout)
      .Take("gateway", out.gateway)
      .Take("security", out.security)
      .Take("paused", out.paused)
      .Take("suspend", out.suspend)
      .RefuseOthers();
}

ParsedService ParseMoEService(const Node& root) {
  return ReadObject<MoEService>(root, kKind, "what to serve");
}

}  // namespace janus::control
