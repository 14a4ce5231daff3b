#pragma once

#include <string>

#include "common/status.h"
#include "operator/kube/object.h"

namespace janus::control {

// A kind of object, with its names in API URLs.
struct Resource {
  std::string group;  // empty: the core group
  std::string version;
  std::string plural;
  std::string kind;
  bool is_namespaced = true;

  // "apps/v1", "v1".
  std::string ApiVersion() const;
  // "deployments.apps", "pods": the name in messages.
  std::string ToString() const;
};

enum class Subresource { kNone, kStatus, kScale };

// "/apis/apps/v1/namespaces/prod/deployments"; all namespaces when `in_namespace` is empty.
// InvalidArgument: a namespace given for a cluster-scoped resource.
Result<std::string> CollectionPath(const Resource& resource, const std::string& in_namespace);

// "/apis/apps/v1/namespaces/prod/deployments/chat/scale".
// InvalidArgument: the name is empty, "." or "..", or the namespace is missing or not allowed.
Result<std::string> ObjectPath(const Resource& resource, const ObjectKey& key,
                               Subresource subresource);

// Percent-encodes all but unreserved characters (RFC 3986), for a path's segment or a query's
// value.
std::string PercentEncode(std::string_view text);

}  // namespace janus::control
