#pragma once

#include <string>
#include <string_view>

#include "operator/kube/error.h"
#include "operator/kube/object.h"
#include "operator/kube/resource.h"

namespace janus::control {

// The object or collection that a URL's path names.
struct ObjectRoute {
  Resource resource;
  ObjectKey key;  // name empty: the collection, in key.namespace_ or, if that is empty, in all
                  // namespaces
  Subresource subresource = Subresource::kNone;
};

// "/apis/apps/v1/namespaces/default/deployments/chat/scale", decoded. For an unknown path or kind
// it returns the 404 error of an API server. Pure.
ApiResult<ObjectRoute> RouteOf(std::string_view path);

}  // namespace janus::control
