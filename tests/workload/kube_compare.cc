// kube-compare
//
// Reads every object of the kinds that have protobuf, in JSON and in protobuf, from lists in small
// pages and from streamed ones, whole and through a filter. Ends with 0 when all came out the same.
// $KUBECONFIG is the server's. Prints a line for each kind.

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "operator/api/field_filter.h"
#include "operator/api/json.h"
#include "operator/kube/client.h"
#include "operator/kube/protobuf_object.h"

namespace janus::control {
namespace {

const Resource kResources[] = {
    {"", "v1", "configmaps", "ConfigMap"},
    {"", "v1", "nodes", "Node", false},
    {"", "v1", "pods", "Pod"},
    {"", "v1", "services", "Service"},
    {"", "v1", "serviceaccounts", "ServiceAccount"},
    {"apps", "v1", "deployments", "Deployment"},
    {"networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"},
    {"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"},
};
constexpr int64_t kPage = 7;
constexpr Seconds kDeadline{120};

using Objects = std::map<ObjectKey, Node>;

// As a list and an event put its fields in the same order.
void Put(Node object, Objects& out) {
  Node ordered = Node::Map();
  for (const std::string_view first : {"kind", "apiVersion"}) {
    ordered.Add(first, Node::String(TextAt(object, {first})));
  }
  for (NodeField& field : object.fields) {
    if (field.name != "kind" && field.name != "apiVersion") {
      ordered.fields.push_back(std::move(field));
    }
  }
  ObjectKey key = KeyOf(ordered);
  out.insert_or_assign(std::move(key), std::move(ordered));
}

ApiResult<Objects> InPages(ObjectApi& api, const Resource& resource, const FieldFilter* keep) {
  Objects out;
  ListOptions options;
  options.limit = kPage;
  options.keep = keep;
  do {
    ApiResult<ObjectList> page = api.List(resource, options, {});
    if (!page.ok()) return page.error();
    options.continue_token = page->continue_token;
    for (Node& item : page->items) Put(std::move(item), out);
  } while (!options.continue_token.empty());
  return out;
}

ApiResult<Objects> Streamed(ObjectApi& api, const Resource& resource, const FieldFilter* keep) {
  Objects out;
  WatchOptions options;
  options.initial_events = true;
  options.keep = keep;
  bool is_whole = false;
  const ApiResult<WatchEnd> end = api.Watch(resource, options,
                                            [&](WatchEvent event) {
                                              is_whole = event.ends_initial_events;
                                              if (event.type != WatchEventType::kBookmark)
                                                Put(std::move(event.object), out);
                                              return !is_whole;
                                            },
                                            {});
  if (!end.ok()) return end.error();
  if (!is_whole) return LocalError(Unavailable("the list broke off"));
  return out;
}

bool IsOfOneState(const Objects& a, const Objects& b) {
  if (a.size() != b.size()) return false;
  for (auto i = a.begin(), j = b.begin(); i != a.end(); ++i, ++j) {
    if (i->first != j->first || ResourceVersionOf(i->second) != ResourceVersionOf(j->second)) {
      return false;
    }
  }
  return true;
}

using Read = ApiResult<Objects> (*)(ObjectApi&, const Resource&, const FieldFilter*);

class Comparison {
 public:
  Comparison(ObjectApi& json, ObjectApi& protobuf, const Timeline& timeline)
      : json_(json), protobuf_(protobuf), timeline_(timeline) {}

  bool Run() {
    const FieldFilter few({"metadata.resourceVersion", "metadata.labels", "spec.nodeName",
                           "spec.volumes.emptyDir", "spec.containers.name", "status.phase",
                           "status.conditions"});
    for (const Resource& resource : kResources) {
      size_t objects = 0;
      for (const Read read : {Read(InPages), Read(Streamed)}) {
        for (const FieldFilter* const keep : {static_cast<const FieldFilter*>(nullptr), &few}) {
          if (!IsSame(resource, read, keep, objects)) return false;
        }
      }
      std::printf("%s: %zu\n", resource.ToString().c_str(), objects);
    }
    return true;
  }

 private:
  // Objects change meanwhile: until both have read the same state of all.
  bool IsSame(const Resource& resource, Read read, const FieldFilter* keep, size_t& objects) {
    const MonotonicTime end =
        timeline_.Now() + std::chrono::duration_cast<MonotonicTime::duration>(kDeadline);
    for (;;) {
      const ApiResult<Objects> in_json = read(json_, resource, keep);
      const ApiResult<Objects> in_protobuf = read(protobuf_, resource, keep);
      for (const ApiResult<Objects>* const one : {&in_json, &in_protobuf}) {
        if (one->ok()) continue;
        std::fprintf(stderr, "%s: %s\n", resource.ToString().c_str(),
                     one->status().ToString().c_str());
        return false;
      }
      if (IsOfOneState(*in_json, *in_protobuf)) {
        objects = in_json->size();
        return IsEqual(*in_json, *in_protobuf);
      }
      if (timeline_.Now() >= end) {
        std::fprintf(stderr, "%s: do not come to rest\n", resource.ToString().c_str());
        return false;
      }
    }
  }

  static bool IsEqual(const Objects& a, const Objects& b) {
    for (auto i = a.begin(), j = b.begin(); i != a.end(); ++i, ++j) {
      if (i->second == j->second) continue;
      std::fprintf(stderr, "%s differs\nJSON:     %s\nprotobuf: %s\n", i->first.ToString().c_str(),
                   WriteJson(i->second).c_str(), WriteJson(j->second).c_str());
      return false;
    }
    return true;
  }

  ObjectApi& json_;
  ObjectApi& protobuf_;
  const Timeline& timeline_;
};

int Main() {
  const char* const kubeconfig = std::getenv("KUBECONFIG");
  const Result<ClusterConfig> config = LoadKubeconfig(kubeconfig == nullptr ? "" : kubeconfig, "");
  if (!config.ok()) {
    std::fprintf(stderr, "KUBECONFIG: %s\n", config.status().ToString().c_str());
    return 2;
  }
  const SystemTimeline timeline;
  KubeClientOptions options;
  options.name = "kube-compare";
  options.use_protobuf = false;
  KubeClient json(*config, options, timeline);
  options.use_protobuf = true;
  KubeClient protobuf(*config, options, timeline);
  return Comparison(json, protobuf, timeline).Run() ? 0 : 1;
}

}  // namespace
}  // namespace janus::control

int main() {
  return janus::control::Main();
}
