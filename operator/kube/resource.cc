#include "operator/kube/resource.h"

#include <string_view>

namespace janus::control {

std::string Resource::ApiVersion() const {
  return group.empty() ? version : group + "/" + version;
}

std::string Resource::ToString() const {
  return group.empty() ? plural : plural + "." + group;
}

Result<std::string> CollectionPath(const Resource& resource, const std::string& in_namespace) {
  std::string path = resource.group.empty() ? "/api/" : "/apis/" + resource.group + "/";
  path += resource.version;
  if (!in_namespace.empty()) {
    if (!resource.is_namespaced) {
      return InvalidArgument(resource.ToString() + " are of the whole cluster, not of namespace '" +
                             in_namespace + "'");
    }
    path += "/namespaces/" + PercentEncode(in_namespace);
  }
  return path + "/" + resource.plural;
}

Result<std::string> ObjectPath(const Resource& resource, const ObjectKey& key,
                               Subresource subresource) {
  if (key.name.empty() || key.name == "." || key.name == "..") {
    return InvalidArgument("'" + key.name + "' names none of " + resource.ToString());
  }
  if (resource.is_namespaced && key.namespace_.empty()) {
    return InvalidArgument(resource.ToString() + " '" + key.name + "': which namespace?");
  }
  JANUS_ASSIGN_OR_RETURN(std::string path, CollectionPath(resource, key.namespace_));
  path += "/" + PercentEncode(key.name);
  if (subresource == Subresource::kStatus) path += "/status";
  if (subresource == Subresource::kScale) path += "/scale";
  return path;
}

std::string PercentEncode(std::string_view text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  constexpr std::string_view kMarks = "-._~";
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || kMarks.find(c) != kMarks.npos;
    if (is_plain) {
      out += c;
    } else {
      out += '%';
      out += kHex[static_cast<unsigned char>(c) >> 4];
      out += kHex[static_cast<unsigned char>(c) & 15];
    }
  }
  return out;
}

}  // namespace janus::control
