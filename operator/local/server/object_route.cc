#include "operator/local/server/object_route.h"

#include <algorithm>
#include <vector>

#include "operator/local/store/errors.h"
#include "operator/local/store/kinds.h"

namespace janus::control {
namespace {

std::vector<std::string> PartsOf(std::string_view path) {
  std::vector<std::string> out;
  while (!path.empty()) {
    path.remove_prefix(path.front() == '/' ? 1 : 0);
    const size_t end = std::min(path.find('/'), path.size());
    out.emplace_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return out;
}

}  // namespace

ApiResult<ObjectRoute> RouteOf(std::string_view path) {
  const std::vector<std::string> parts = PartsOf(path);
  ObjectRoute route;
  size_t at = 0;
  const auto next = [&]() -> std::string { return at < parts.size() ? parts[at++] : ""; };
  const std::string root = next();
  if (root == "apis") {
    route.resource.group = next();
    if (route.resource.group.empty()) return NoSuchResource(route.resource);
  } else if (root != "api") {
    return NoSuchResource(route.resource);
  }
  route.resource.version = next();
  // "namespaces" is a prefix only if more than a name follows.
  if (at < parts.size() && parts[at] == "namespaces" && parts.size() > at + 2) {
    ++at;
    route.key.namespace_ = next();
  }
  route.resource.plural = next();
  const Kind* const kind = FindKind(route.resource);
  if (kind == nullptr || (!kind->resource.is_namespaced && !route.key.namespace_.empty())) {
    return NoSuchResource(route.resource);
  }
  route.resource = kind->resource;
  route.key.name = next();
  const std::string subresource = next();
  if (subresource == "status") {
    route.subresource = Subresource::kStatus;
  } else if (subresource == "scale") {
    route.subresource = Subresource::kScale;
  } else if (!subresource.empty()) {
    return NoSuchSubresource(route.resource, subresource);
  }
  if (at < parts.size()) return NoSuchResource(route.resource);
  return route;
}

}  // namespace janus::control
