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
  // The owner of the fields that we apply, and our name in the audit log: "<name>/<version>".
  std::string name = "janus-operator";
  TransportOptions transport;  // user_agent empty: made of `name`
  // A watch on which nothing came for so long is cut, and ends with kSilence. API servers send a
  // bookmark about once a minute, so that a connection that died without a word does not stay
  // unnoticed; where none come, a watch is begun anew so often.
  Seconds watch_silence{90};
};

// The API of a real API server, over HTTP and in JSON. Thread-safe.
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
