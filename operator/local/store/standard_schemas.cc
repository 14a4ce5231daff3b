#include "operator/local/store/standard_schemas.h"

#include <string_view>
#include <utility>

#include "common/check.h"
#include "operator/api/yaml.h"

namespace janus::control {
namespace {

constexpr std::string_view kSchemas = R"(
metadata:
  type: object
  properties:
    annotations: {type: object, additionalProperties: {type: string}}
    creationTimestamp: {type: string}
    deletionGracePeriodSeconds: {type: integer}
    deletionTimestamp: {type: string}
    finalizers: {type: array, x-kubernetes-list-type: set, items: {type: string}}
    generateName: {type: string}
    generation: {type: integer}
    labels: {type: object, additionalProperties: {type: string}}
    managedFields:
      type: array
      items:
        type: object
        properties:
          apiVersion: {type: string}
          fieldsType: {type: string}
          fieldsV1: {type: object, x-kubernetes-preserve-unknown-fields: true}
          manager: {type: string}
          operation: {type: string}
          subresource: {type: string}
          time: {type: string}
    name: {type: string}
    namespace: {type: string}
    ownerReferences:
      type: array
      x-kubernetes-list-type: map
      x-kubernetes-list-map-keys: [uid]
      items:
        type: object
        x-kubernetes-map-type: atomic
        properties:
          apiVersion: {type: string}
          blockOwnerDeletion: {type: boolean}
          controller: {type: boolean}
          kind: {type: string}
          name: {type: string}
          uid: {type: string}
    resourceVersion: {type: string}
    selfLink: {type: string}
    uid: {type: string}
scale:
  type: object
  properties:
    apiVersion: {type: string}
    kind: {type: string}
    spec:
      type: object
      properties:
        replicas: {type: integer, minimum: -2147483648, maximum: 2147483647}
    status:
      type: object
      properties:
        replicas: {type: integer, minimum: -2147483648, maximum: 2147483647}
        selector: {type: string}
)";

const Node& Named(std::string_view name) {
  static const Node& all = *new Node([] {
    Result<Node> read = ParseYaml(kSchemas, "schemas");
    JANUS_CHECK(read.ok(), read.status().ToString());
    return *std::move(read);
  }());
  return *all.Find(name);
}

}  // namespace

const Node& MetadataSchema() {
  return Named("metadata");
}

const Node& ScaleSchema() {
  return Named("scale");
}

}  // namespace janus::control
