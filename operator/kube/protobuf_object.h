#pragma once

#include <string_view>

#include "common/status.h"
#include "operator/api/field_filter.h"
#include "operator/api/tree.h"
#include "operator/kube/resource.h"

namespace janus::control {

// Objects as the API server sends them in protobuf: "k8s\0" and a runtime.Unknown, which says the
// kind and holds the object's message (Kubernetes API concepts, "Alternate representations").

inline constexpr std::string_view kProtobufMediaType = "application/vnd.kubernetes.protobuf";

// Whether a Content-Type is that, whatever parameters it has.
bool IsProtobufMediaType(std::string_view content_type);

// Whether objects of that kind can be read. Others, as all custom resources, the server has as JSON
// only.
bool HasProtobuf(const Resource& resource);

// Whether an object in protobuf begins here; JSON cannot begin so.
bool IsProtobufObject(std::string_view bytes);

// The tree that ParseJson makes of the server's JSON for the same object, list or v1 Status.
// `keep`: what of the object, or of each item of a list; null: all.
// InvalidArgument: no such object, or of a kind without a table. `what` names the bytes in
// messages.
Result<Node> ReadProtobufObject(std::string_view bytes, std::string_view what,
                                const FieldFilter* keep);

// An event of a watch: a metav1.WatchEvent without an envelope of its own.
struct ProtobufWatchEvent {
  std::string_view type;
  std::string_view object;  // in its envelope
};
Result<ProtobufWatchEvent> ReadProtobufWatchEvent(std::string_view message);

}  // namespace janus::control
