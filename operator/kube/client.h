#pragma once

#include <memory>
#include <string>

#include "operator/api/json.h"
#include "operator/kube/cluster_config.h"
#include "operator/kube/object_api.h"
#include "operator/kube/timeline.h"
#include "operator/kube/transport.h"

namespace janus::control {

struct KubeClientOptions {
  // Field manager of what we apply, and our name in the audit log as "<name>/<version>".
  std::string name = "janus-operator";
  TransportOptions transport;  // user_agent empty: made from `name`
  // A watch that receives no byte for this long is closed with kSilence, because its connection may
  // be dead. API servers send a bookmark about once a minute. A server without bookmarks has its
  // watches restarted at this interval.
  Seconds watch_silence{90};
};

// Client of an API server, over HTTP with JSON. Thread-safe.
class KubeClient final : public ObjectApi {
 public:
  // `timeline` outlives this. Nothing is sent yet.
  KubeClient(ClusterConfig config, KubeClientOptions options, const Timeline& timeline);

  ApiResult<Node> Get(const Resource& resource, const ObjectKey& key, Subresource subresource,
                      const CallLimits& limits) override;
  ApiResult<ObjectList> List(const Resource& resource, const ListOptions& options,
                             const CallLimits& limits) override;
  ApiResult<Node> Create(const Resource& resource, const Node& object, const WriteOptions& options,
                         const CallLimits& limits) override;
  ApiResult<Node> Update(const Resource& resource, const Node& object, Subresource subresource,
                         const WriteOptions& options, const CallLimits& limits) override;
  ApiResult<Node> Apply(const Resource& resource, const Node& object, Subresource subresource,
                        const ApplyOptions& options, const CallLimits& limits) override;
  ApiResult<Node> Patch(const Resource& resource, const ObjectKey& key, PatchKind kind,
                        const Node& patch, Subresource subresource, const WriteOptions& options,
                        const CallLimits& limits) override;
  ApiResult<Node> Delete(const Resource& resource, const ObjectKey& key,
                         const DeleteOptions& options, const CallLimits& limits) override;
  ApiResult<WatchEnd> Watch(const Resource& resource, const WatchOptions& options,
                            FunctionRef<bool(WatchEvent)> deliver,
                            const std::stop_token& stop) override;

 private:
  ApiResult<HttpReply> Call(HttpRequest request, Repeat repeat, const CallLimits& limits);
  // Reads the reply as one object.
  ApiResult<Node> Send(HttpRequest request, Repeat repeat, const CallLimits& limits);
  std::string WriteQuery(const WriteOptions& options) const;

  const std::string path_prefix_;
  const std::string field_manager_;
  const Seconds watch_silence_;
  HttpTransport transport_;
};

}  // namespace janus::control
