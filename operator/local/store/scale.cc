#include "operator/local/store/scale.h"

#include <string>
#include <string_view>
#include <utility>

#include "operator/kube/object.h"

namespace janus::control {
namespace {

// "a=b,c=d" from matchLabels; a text stays as it is. matchExpressions are left out.
std::string SelectorText(const Node& selector) {
  if (selector.kind == Node::Kind::kString) return selector.text;
  std::string out;
  if (const Node* const labels = selector.Find("matchLabels")) {
    for (const NodeField& label : labels->fields) {
      out += (out.empty() ? "" : ",") + label.name + "=" + label.value.text;
    }
  }
  return out;
}

}  // namespace

Node ScaleOf(const Kind& kind, const Node& object) {
  Node out = Node::Map();
  out.Add("apiVersion", Node::String("autoscaling/v1"));
  out.Add("kind", Node::String("Scale"));
  Node& metadata = out.Add("metadata", Node::Map());
  for (const std::string_view field :
       {"creationTimestamp", "name", "namespace", "resourceVersion", "uid"}) {
    if (const Node* const value = FindAt(object, {"metadata", field})) metadata.Add(field, *value);
  }
  const int64_t wanted = IntegerAt(object, {"spec", "replicas"}).value_or(0);
  const int64_t seen = IntegerAt(object, {"status", "replicas"}).value_or(0);
  Node& spec = out.Add("spec", Node::Map());
  if (wanted != 0) spec.Add("replicas", Node::Integer(wanted));  // the server omits a 0
  SetAt(out, {"status", "replicas"}, Node::Integer(seen));
  const Node* const selector = FindAt(object, {kind.scale_selector_in, "selector"});
  const std::string text = selector == nullptr ? "" : SelectorText(*selector);
  if (!text.empty()) SetAt(out, {"status", "selector"}, Node::String(text));
  return out;
}

int64_t WantedReplicas(const Node& scale) {
  return IntegerAt(scale, {"spec", "replicas"}).value_or(0);
}

void SetReplicas(int64_t replicas, Node& object) {
  SetAt(object, {"spec", "replicas"}, Node::Integer(replicas));
}

}  // namespace janus::control
