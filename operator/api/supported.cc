#include "operator/api/supported.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "common/hardware.h"
#include "controllers/plan/model_shape.h"
#include "operator/api/device.h"

namespace janus::control {
namespace {

using Asked = std::optional<std::string>;
using Spec = MoEServiceSpec;

template <class E>
Asked Unless(E value, std::initializer_list<E> built) {
  for (const E one : built) {
    if (value == one) return std::nullopt;
  }
  return std::string(ToString(value));
}

Asked Unless(int64_t value, int64_t built) {
  if (value == built) return std::nullopt;
  return std::to_string(value);
}

Asked If(bool given, std::string_view what) {
  if (!given) return std::nullopt;
  return std::string(what);
}

Asked ExternalBehavior(const RoleSpec& role) {
  const auto& scaling = role.scaling;
  return If(scaling && scaling->mode == ScalingMode::kExternal && scaling->behavior, "this");
}

bool AsksForGpusAtMost(const Resources& resources) {
  return resources.requests.empty() && std::ranges::all_of(resources.limits, [](const auto& limit) {
           return limit.first == "nvidia.com/gpu";
         });
}

bool IsExternal(const RoleSpec& role) {
  return !role.replicas && role.scaling && role.scaling->mode == ScalingMode::kExternal;
}

template <class T>
Asked Text(const T& text) {
  return If(!text.empty(), text);
}

// The table has the same lines for both roles; `get` picks the role.
constexpr const RoleSpec& Attention(const Spec& s) {
  return s.roles.attention;
}
constexpr const RoleSpec& Experts(const Spec& s) {
  return s.roles.experts;
}

#define JANUS_ROLE_LIMITS(role, get)                                                              \
  Limit{"roles." role ".scaling.behavior", "",                                                    \
        "in mode External the writer of the MoERoleScaler decides how fast",                      \
        [](const Spec& s) { return ExternalBehavior(get(s)); }},                                  \
      Limit{"roles." role ".instancesPerPod", "1", "--nodes plays nodes of several instances",    \
            [](const Spec& s) { return Unless(get(s).instances_per_pod, 1); }, Ground::kMachine}, \
      Limit{"roles." role ".tensorParallel", "1", "",                                             \
            [](const Spec& s) { return Unless(get(s).tensor_parallel, 1); }},                     \
      Limit{"roles." role ".resources", "limits of nvidia.com/gpu",                               \
            "workers are processes of this machine",                                              \
            [](const Spec& s) { return If(!AsksForGpusAtMost(get(s).resources), "this"); },       \
            Ground::kMachine},                                                                    \
      Limit{"roles." role ".nodeSelector", "", "workers are processes of this machine",           \
            [](const Spec& s) { return If(!get(s).node_selector.empty(), "this"); },              \
            Ground::kMachine},                                                                    \
      Limit{"roles." role ".tolerations", "", "workers are processes of this machine",            \
            [](const Spec& s) { return If(!get(s).tolerations.empty(), "this"); },                \
            Ground::kMachine},                                                                    \
      Limit{"roles." role ".schedulerName", "", "workers are processes of this machine",          \
            [](const Spec& s) { return Text(get(s).scheduler_name); }, Ground::kMachine},         \
      Limit{"roles." role ".priorityClassName", "", "workers are processes of this machine",      \
            [](const Spec& s) { return Text(get(s).priority_class_name); }, Ground::kMachine},    \
      Limit {                                                                                     \
    "roles." role ".podTemplate", "", "workers are processes of this machine",                    \
        [](const Spec& s) { return If(get(s).pod_template.has_value(), "this"); },                \
        Ground::kMachine                                                                          \
  }

constexpr std::array kLimits = {
    Limit{"model.source.type", "HuggingFace or HostPath", "",
          [](const Spec& s) {
            return Unless(s.model.source.type, {SourceType::kHuggingFace, SourceType::kHostPath});
          },
          Ground::kMachine},
    Limit{"model.source.huggingFace.tokenSecretRef", "",
          "set HF_TOKEN; there are no Secrets on this machine",
          [](const Spec& s) {
            const auto& source = s.model.source.hugging_face;
            return If(source && source->token_secret_ref, "this");
          },
          Ground::kMachine},
    Limit{"model.cache.type", "None", "models are in the cache of Hugging Face's programs",
          [](const Spec& s) { return Unless(s.model.cache.type, {CacheType::kNone}); },
          Ground::kMachine},
    Limit{"model.cache.type", "None, except with a source HuggingFace", "",
          [](const Spec& s) {
            if (s.model.source.type == SourceType::kHuggingFace) return Asked();
            return Unless(s.model.cache.type, {CacheType::kNone});
          },
          Ground::kCluster},
    Limit{"image", "", "workers are processes of this machine",
          [](const Spec& s) { return Text(s.image); }, Ground::kMachine},
    Limit{"imagePullSecrets", "", "workers are processes of this machine",
          [](const Spec& s) { return If(!s.image_pull_secrets.empty(), "this"); },
          Ground::kMachine},
    Limit{"timed.hardware", "L20, H800, A800, H20, L40S, A100, H100 or H200", "",
          [](const Spec& s) {
            return If(s.timed && !FindHardware(s.timed->hardware).ok(), s.timed->hardware);
          }},
    Limit{"timed.model", "deepseek-v2, deepseek-v3, mixtral-8x22b, dbrx or scaled-moe", "",
          [](const Spec& s) {
            return If(s.timed && !controllers::FindModel(s.timed->model).ok(), s.timed->model);
          }},
    JANUS_ROLE_LIMITS("attention", Attention),
    JANUS_ROLE_LIMITS("experts", Experts),
    Limit{"roles.attention.replicas", "1 or more", "",
          [](const Spec& s) { return If(s.roles.attention.replicas == 0, "0"); }, Ground::kMachine},
    Limit{"roles.experts.replicas", "1 or more", "",
          [](const Spec& s) { return If(s.roles.experts.replicas == 0, "0"); }, Ground::kMachine},
    Limit{"roles.attention.kvCache.blockSize", "16", "",
          [](const Spec& s) { return Unless(s.roles.attention.kv_cache.block_size, 16); }},
    Limit{"roles.attention.kvCache.prefixHostMemory", "",
          "except on GPUs; on CPUs all blocks are in host memory",
          [](const Spec& s) {
            const auto& asked = s.roles.attention.kv_cache.prefix_host_memory;
            if (!asked || asked->value == 0 || DeviceOf(s) == Device::kCuda) return Asked();
            return Asked(asked->text);
          }},
    Limit{"pools", "1 beside a role in mode External",
          "a MoERoleScaler counts the pods of one exchange",
          [](const Spec& s) {
            const bool is_external = IsExternal(s.roles.attention) || IsExternal(s.roles.experts);
            return If(is_external && MostPools(s) > 1, std::to_string(MostPools(s)));
          }},
    Limit{"scaling.maxPools", "pools or more, with both roles in mode SLO",
          "decisions on the counts of both add pools",
          [](const Spec& s) {
            if (!s.scaling.max_pools) return Asked();
            const bool is_decided = s.roles.attention.is_slo() && s.roles.experts.is_slo();
            return If(!is_decided || *s.scaling.max_pools < LeastPools(s),
                      std::to_string(*s.scaling.max_pools));
          }},
    Limit{"exchange.gate", "Auto or Experts",
          "GPUs compute the gate only with the experts; on CPUs also Attention",
          [](const Spec& s) {
            if (DeviceOf(s) != Device::kCuda) return Asked();
            return Unless(s.exchange.gate, {GateSide::kAuto, GateSide::kExperts});
          },
          Ground::kCluster},
    Limit{"exchange.hostShared", "false", "workers of this machine share memory already",
          [](const Spec& s) { return If(s.exchange.host_shared, "true"); }, Ground::kMachine},
    Limit{"scaling.standby", "0", "a worker of this machine starts at once",
          [](const Spec& s) { return Unless(s.scaling.standby, 0); }, Ground::kMachine},
    Limit{"drain", "", "workers of this machine leave as soon as others serve",
          [](const Spec& s) { return If(s.drain != DrainSpec{}, "this"); }, Ground::kMachine},
    Limit{"exchange.mode", "Auto or Direct",
          "other modes need instancesPerPod above 1, or hostShared",
          [](const Spec& s) {
            if (Attention(s).instances_per_pod > 1 || Experts(s).instances_per_pod > 1 ||
                s.exchange.host_shared) {
              return Asked();
            }
            return Unless(s.exchange.mode, {ExchangeMode::kAuto, ExchangeMode::kDirect});
          },
          Ground::kCluster},
    Limit{"rollout.type", "Auto or Recreate", "a service keeps its revision",
          [](const Spec& s) {
            return Unless(s.rollout.type, {RolloutType::kAuto, RolloutType::kRecreate});
          },
          Ground::kMachine},
    Limit{"gateway.replicas", "1", "",
          [](const Spec& s) { return Unless(s.gateway.replicas.value_or(1), 1); },
          Ground::kMachine},
    Limit{"gateway.service", "", "use --host and --port",
          [](const Spec& s) { return If(s.gateway.service != GatewayServiceSpec{}, "this"); },
          Ground::kMachine},
    Limit{"gateway.apiKeysSecretRef", "",
          "use --api-keys-file; there are no Secrets on this machine",
          [](const Spec& s) { return If(s.gateway.api_keys_secret_ref.has_value(), "this"); },
          Ground::kMachine},
    Limit{"gateway.resources", "", "the gateway is a process of this machine; use --memory-bytes",
          [](const Spec& s) { return If(s.gateway.resources != Resources{}, "this"); },
          Ground::kMachine},
    Limit{"gateway.podTemplate", "", "the gateway is a process of this machine",
          [](const Spec& s) { return If(s.gateway.pod_template.has_value(), "this"); },
          Ground::kMachine},
    Limit{"security.networkPolicy", "false",
          "its processes meet at sockets that only their user can open",
          [](const Spec& s) { return If(s.security.network_policy, "true"); }, Ground::kMachine},
    Limit{"suspend", "false", "", [](const Spec& s) { return If(s.suspend, "true"); },
          Ground::kMachine},
};

#undef JANUS_ROLE_LIMITS

}  // namespace

std::span<const Limit> Limits() {
  return kLimits;
}

namespace {

// One row of the page: fields and their allowed values.
struct Allowed {
  std::string fields;
  std::string what;
};

std::string WhatIsAllowed(const Limit& limit) {
  std::string out = limit.use.empty() ? "leave it out" : std::string(limit.use);
  if (!limit.because.empty()) out += " (" + std::string(limit.because) + ")";
  return out;
}

// A limit of both roles appears once, as `roles.*`.
std::string NameOnPage(const Limit& limit, std::span<const Limit> limits) {
  constexpr std::string_view kAttention = "roles.attention.";
  constexpr std::string_view kExperts = "roles.experts.";
  const bool is_experts = limit.field.starts_with(kExperts);
  if (!is_experts && !limit.field.starts_with(kAttention)) return std::string(limit.field);
  const std::string below(limit.field.substr((is_experts ? kExperts : kAttention).size()));
  const std::string other = std::string(is_experts ? kAttention : kExperts) + below;
  for (const Limit& twin : limits) {
    if (twin.field == other && twin.only_on == limit.only_on &&
        WhatIsAllowed(twin) == WhatIsAllowed(limit)) {
      return "roles.*." + below;
    }
  }
  return std::string(limit.field);
}

// Fields with the same allowed values share a row.
std::string Table(std::optional<Ground> only_on) {
  std::vector<Allowed> rows;
  std::set<std::string> told;
  for (const Limit& limit : Limits()) {
    if (limit.only_on != only_on) continue;
    const std::string name = "`" + NameOnPage(limit, Limits()) + "`";
    if (!told.insert(name).second) continue;
    const std::string what = WhatIsAllowed(limit);
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const Allowed& one) { return one.what == what; });
    if (row == rows.end()) {
      rows.push_back({name, what});
    } else {
      row->fields += ", " + name;
    }
  }
  std::string out = "| field of spec | allowed |\n|---|---|\n";
  for (const Allowed& row : rows) out += "| " + row.fields + " | " + row.what + " |\n";
  return out;
}

}  // namespace

std::string LimitsAsMarkdown() {
  return "# What this version does not support\n"
         "\n"
         "Check here which fields and values of a MoEService this version refuses. It ignores "
         "none:\n"
         "`janusctl validate` and `janusctl serve` name the field, and on a cluster "
         "the condition\n"
         "Stalled has the reason NotSupported. `roles.*` means both roles.\n"
         "\n"
         "## Everywhere\n"
         "\n" +
         Table(std::nullopt) +
         "\n"
         "## On one machine (`janusctl serve`)\n"
         "\n" +
         Table(Ground::kMachine) +
         "\n"
         "## On a cluster\n"
         "\n" +
         Table(Ground::kCluster);
}

FieldErrors ValidateSupported(const MoEService& service, Ground ground) {
  FieldErrors errors;
  for (const Limit& limit : Limits()) {
    if (limit.only_on && limit.only_on != ground) continue;
    const std::optional<std::string> asked = limit.refused(service.spec);
    if (!asked) continue;
    std::string message = *asked + " is not supported by this version";
    if (!limit.because.empty()) message += " (" + std::string(limit.because) + ")";
    message += limit.use.empty() ? "; leave the field out" : "; use " + std::string(limit.use);
    errors.push_back({"spec." + std::string(limit.field), std::move(message), 0});
  }
  return errors;
}

}  // namespace janus::control
