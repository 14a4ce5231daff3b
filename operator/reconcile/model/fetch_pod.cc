#include "operator/reconcile/model/fetch_pod.h"

#include <set>
#include <utility>

#include "operator/kube/object.h"
#include "operator/kube/server_url.h"
#include "operator/reconcile/children/network_policies.h"
#include "operator/reconcile/model/fetched_model.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

constexpr int kHubPort = 443;
// Services for DNS listen on 53; the pods behind them may listen on 5353, and some network plugins
// compare a policy with the pod's port.
constexpr int kDnsPorts[] = {53, 5353};
// Failed attempts until a Job ends: more than there will be, so that it goes on as long as the
// service wants the model.
constexpr int kAttempts = 1'000'000;
// The user of the images: volumes that support it become writable for this group.
constexpr int kGroup = 65532;

Node Port(int port, std::string_view protocol) {
  return Object({{"port", Node::Integer(port)}, {"protocol", Text(protocol)}});
}

Node Variable(std::string_view name, std::string_view field, Node value) {
  return Object({{"name", Text(name)}, {field, std::move(value)}});
}

bool HasClaim(const MoEService& service) {
  return service.spec.model.cache.persistent_volume_claim.has_value();
}

}  // namespace

Node FetchContainer(const MoEService& service, const OperatorDefaults& defaults,
                    std::string_view image, std::string_view reader, const std::string& revision,
                    bool is_on_node) {
  const HuggingFaceSource& source = *service.spec.model.source.hugging_face;
  Node env = Node::List();
  if (!defaults.hub_endpoint.empty()) {
    env.items.push_back(Variable("HF_ENDPOINT", "value", Text(defaults.hub_endpoint)));
  }
  if (source.token_secret_ref) {
    env.items.push_back(Variable(
        "HF_TOKEN", "valueFrom",
        Object({{"secretKeyRef", Object({{"name", Text(source.token_secret_ref->name)},
                                         {"key", Text(source.token_secret_ref->key)}})}})));
  }
  Node security = Object({{"allowPrivilegeEscalation", Node::Bool(false)},
                          {"readOnlyRootFilesystem", Node::Bool(true)},
                          {"capabilities", Object({{"drop", ListOf({Text("ALL")})}})}});
  if (is_on_node) {
    // The kubelet makes the folder for root.
    security.Add("runAsUser", Node::Integer(0));
    security.Add("runAsNonRoot", Node::Bool(false));
  }
  Node out = Object(
      {{"name", Text(kFetch)},
       {"image", Text(image)},
       {"imagePullPolicy", Text(defaults.image_pull_policy)},
       {"args",
        ListOf({Text("fetch"), Text("--repo=" + source.repo), Text("--revision=" + revision),
                Text("--into=" + CacheFolder(service, kModelMount)),
                Text("--for=" + std::string(reader)), Text("--report=/dev/termination-log")})},
       {"volumeMounts",
        ListOf({Object({{"mountPath", Text(kModelMount)}, {"name", Text("model")}})})},
       {"resources",
        Object({{"requests", Object({{"cpu", Text("100m")}, {"memory", Text("128Mi")}})}})},
       {"securityContext", std::move(security)}});
  if (!env.items.empty()) out.Add("env", std::move(env));
  return out;
}

Node FetchJob(const MoEService& service, const OperatorDefaults& defaults,
              const std::string& commit) {
  const Labels labels = LabelsOf(service, kFetch);
  const std::string& asked = service.spec.model.source.hugging_face->revision;
  const std::string revision = !commit.empty() ? commit : asked.empty() ? "main" : asked;
  Node security = Object({{"runAsNonRoot", Node::Bool(true)},
                          {"seccompProfile", Object({{"type", Text("RuntimeDefault")}})}});
  Node volume = Object({{"name", Text("model")}});
  if (HasClaim(service)) {
    security.Add("fsGroup", Node::Integer(kGroup));
    security.Add("fsGroupChangePolicy", Text("OnRootMismatch"));
    volume.Add("persistentVolumeClaim",
               Object({{"claimName",
                        Text(service.spec.model.cache.persistent_volume_claim->claim_name)}}));
  } else {
    volume.Add("emptyDir", Node::Map());
  }
  Node container = FetchContainer(service, defaults, defaults.fetch_image,
                                  HasClaim(service) ? "all" : "gateway", revision, false);
  Node args = *container.Find("args");
  args.items.push_back(Text("--progress-port=" + std::to_string(kFetchPort)));
  SetAt(container, {"args"}, std::move(args));
  container.Add("ports", ListOf({Object({{"containerPort", Node::Integer(kFetchPort)},
                                         {"name", Text("progress")},
                                         {"protocol", Text("TCP")}})}));
  Node pod = Object({{"restartPolicy", Text("OnFailure")},
                     {"automountServiceAccountToken", Node::Bool(false)},
                     {"enableServiceLinks", Node::Bool(false)},
                     {"securityContext", std::move(security)},
                     {"volumes", ListOf({std::move(volume)})},
                     {"containers", ListOf({std::move(container)})}});
  if (!service.spec.image_pull_secrets.empty()) {
    Node secrets = Node::List();
    for (const LocalObjectRef& one : service.spec.image_pull_secrets) {
      secrets.items.push_back(Object({{"name", Text(one.name)}}));
    }
    pod.Add("imagePullSecrets", std::move(secrets));
  }
  Node out = Object(
      {{"apiVersion", Text(kJobs.ApiVersion())},
       {"kind", Text(kJobs.kind)},
       {"spec", Object({{"backoffLimit", Node::Integer(kAttempts)},
                        {"template", Object({{"metadata", Object({{"labels", TextMap(labels)}})},
                                             {"spec", std::move(pod)}})}})}});
  MakeOwned(service, FetchJobName(service), labels, out);
  return out;
}

Child FetchPolicy(const MoEService& service, const OperatorDefaults& defaults) {
  std::set<int> hub = {kHubPort};
  if (const Result<ServerUrl> url = ParseServerUrl(defaults.hub_endpoint); url.ok()) {
    hub.insert(url->port);
  }
  Node ports = Node::List();
  for (const int port : kDnsPorts) {
    ports.items.push_back(Port(port, "UDP"));
    ports.items.push_back(Port(port, "TCP"));
  }
  for (const int port : hub) ports.items.push_back(Port(port, "TCP"));
  Node out = Object(
      {{"apiVersion", Text(kNetworkPolicies.ApiVersion())},
       {"kind", Text(kNetworkPolicies.kind)},
       {"spec",
        Object(
            {{"podSelector",
              Object({{"matchLabels", Object({{kServiceLabel, Text(service.metadata.name)},
                                              {"app.kubernetes.io/component", Text(kFetch)}})}})},
             {"policyTypes", ListOf({Text("Ingress"), Text("Egress")})},
             {"ingress", ListOf({Object({{"from", ListOf({OperatorPeer(defaults)})},
                                         {"ports", ListOf({Port(kFetchPort, "TCP")})}})})},
             {"egress", ListOf({Object({{"ports", std::move(ports)}})})}})}});
  MakeOwned(service, FetchPolicyName(service.metadata.name), LabelsOf(service, kFetch), out);
  return {&kNetworkPolicies, std::move(out)};
}

}  // namespace janus::control
