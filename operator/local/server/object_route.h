#pragma once

#include <string>
#include <string_view>

#include "operator/kube/error.h"
#include "operator/kube/object.h"
#include "operator/kube/resource.h"

namespace janus::control {

// What a URL's path names.
struct ObjectRoute {
  Resource resource;
  ObjectKey key;  // name empty: the collection, in key.namespace_ or in all
  Subresource subresource = Subresource::kNone;
};

// "/apis/apps/v1/namespaces/default/deployments/chat/scale", decoded. An error is the answer: 404
// as an API server's, for a path or a kind that there is not. Pure.
ApiResult<ObjectRoute> RouteOf(std::string_view path);

}  // namespace janus::control
