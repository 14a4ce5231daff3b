#include "tests/support/api/bad_objects.h"

#include <algorithm>
#include <cstdint>

#include "common/check.h"
#include "operator/api/parse.h"
#include "operator/api/validate.h"
#include "operator/api/yaml.h"
#include "tests/support/api/crd.h"

namespace janus::test {
namespace {

using control::Node;
using control::NodeField;

Node Parse(const std::string& text) {
  Result<Node> node = control::ParseYaml(text, "good.yaml");
  JANUS_CHECK(node.ok(), node.status().ToString());
  return *std::move(node);
}

bool IsQuantity(const Node& schema) {
  return Keyword(schema, "x-kubernetes-int-or-string") == "true";
}

// A field of the object under change, its schema, and what both are called.
struct Place {
  const Node& schema;
  Node* value;
  std::string path;         // with indices
  std::string schema_path;  // without
};

class Maker {
 public:
  explicit Maker(const Node& schema) : schema_(schema) {
    Leaves(*PropertyOf(schema, "spec"), "spec");
  }

  void Use(const Node& good) {
    object_ = good;
    for (NodeField& field : object_.fields) {
      if (field.name == "spec") {
        Visit({*PropertyOf(schema_, "spec"), &field.value, "spec", "spec"});
      }
    }
  }

  BadObjects Take() { return std::move(out_); }

 private:
  void Leaves(const Node& schema, const std::string& path) {
    if (const Node* properties = schema.Find("properties")) {
      for (const NodeField& property : properties->fields) {
        Leaves(property.value, path + "." + property.name);
      }
    } else if (const Node* items = schema.Find("items")) {
      Leaves(*items, path + "[]");
    } else if (const Node* values = schema.Find("additionalProperties")) {
      Leaves(*values, path + ".*");
    } else {
      out_.leaves.insert(path);
    }
  }

  void Add(const Place& place, const std::string& what, const std::string& path) {
    out_.objects.push_back({place.path + ": " + what, object_, path, false});
  }
  // The object with another value in that place.
  void With(const Place& place, const std::string& what, Node value) {
    std::swap(*place.value, value);
    Add(place, what, place.path);
    std::swap(*place.value, value);
  }

  void AtBorder(const Place& place, Node value) {
    std::swap(*place.value, value);
    out_.at_borders.push_back(
        {place.path + " = " + place.value->text.substr(0, 20), object_, place.path, false});
    std::swap(*place.value, value);
  }

  void Border(const Place& place) {
    if (const Node* values = place.schema.Find("enum")) {
      for (const Node& value : values->items) AtBorder(place, value);
    }
    if (IsQuantity(place.schema)) return;
    if (const Node* least = place.schema.Find("minimum")) AtBorder(place, *least);
    if (const Node* most = place.schema.Find("maximum")) AtBorder(place, *most);
    if (const Node* most = place.schema.Find("maxLength")) {
      std::string text = place.value->text;
      text.resize(static_cast<size_t>(most->integer), 'a');
      AtBorder(place, Node::String(text));
    }
    if (const Node* most = place.schema.Find("maxItems")) {
      Node many = Node::List();
      many.items.assign(static_cast<size_t>(most->integer), place.value->items.at(0));
      AtBorder(place, many);
    }
  }

  void Visit(const Place& place) {
    const bool is_new = seen_.insert(place.schema_path).second;
    if (is_new) {
      Break(place);
      Border(place);
    }
    if (const Node* items = place.schema.Find("items")) {
      for (size_t i = 0; i < place.value->items.size(); ++i) {
        Visit({*items, &place.value->items[i], place.path + "[" + std::to_string(i) + "]",
               place.schema_path + "[]"});
      }
    }
    const bool is_map = place.schema.Find("additionalProperties") != nullptr;
    for (size_t i = 0; i < place.value->fields.size(); ++i) {
      NodeField& field = place.value->fields[i];
      const Node* property = PropertyOf(place.schema, field.name);
      if (property == nullptr) continue;  // free-form below
      Visit({*property, &field.value, place.path + "." + field.name,
             place.schema_path + "." + (is_map ? "*" : field.name)});
    }
    if (out_.leaves.count(place.schema_path) > 0) out_.covered.insert(place.schema_path);
  }

  void Break(const Place& place) {
    const std::string type = Keyword(place.schema, "type");
    if (IsQuantity(place.schema)) {
      With(place, "wrong type", Node::Bool(true));
      With(place, "malformed", Node::String("4GB"));
      With(place, "below", Node::Integer(-1));
    } else if (type == "string") {
      With(place, "wrong type", Node::Integer(7));
      if (place.schema.Find("enum") != nullptr) With(place, "unknown", Node::String("Nonsense"));
      if (place.schema.Find("pattern") != nullptr)
        With(place, "malformed", Node::String("no!slash"));
      if (place.schema.Find("minLength") != nullptr) With(place, "empty", Node::String(""));
      if (const Node* most = place.schema.Find("maxLength")) {
        const auto length = static_cast<size_t>(most->integer) + 1;
        With(place, "too long", Node::String(place.value->text + std::string(length, 'a')));
      }
    } else if (type == "integer") {
      With(place, "wrong type", Node::String("many"));
      Node fraction = Node::Integer(2);
      fraction.kind = Node::Kind::kFloat;
      fraction.text = "2.5";
      With(place, "a fraction", fraction);
      if (place.schema.Find("enum") != nullptr) With(place, "unknown", Node::Integer(3));
      if (const Node* least = place.schema.Find("minimum")) {
        With(place, "below", Node::Integer(least->integer - 1));
      }
      if (const Node* most = place.schema.Find("maximum")) {
        With(place, "above", Node::Integer(most->integer + 1));
      }
    } else if (type == "boolean") {
      With(place, "wrong type", Node::String("perhaps"));
    } else if (type == "array") {
      With(place, "wrong type", Node::String("list"));
      if (const Node* most = place.schema.Find("maxItems")) {
        Node many = Node::List();
        many.items.assign(static_cast<size_t>(most->integer) + 1, place.value->items.at(0));
        With(place, "too many", many);
      }
    } else if (type == "object") {
      BreakObject(place);
    }
  }

  void BreakObject(const Place& place) {
    With(place, "wrong type", Node::String("object"));
    if (const Node* most = place.schema.Find("maxProperties")) {
      Node many = Node::Map();
      for (int64_t i = 0; i <= most->integer; ++i) {
        many.Add("key-" + std::to_string(i), place.value->fields.at(0).value);
      }
      With(place, "too many", many);
    }
    if (const Node* required = place.schema.Find("required")) {
      for (const Node& name : required->items) {
        Node without = *place.value;
        std::erase_if(without.fields, [&](const NodeField& f) { return f.name == name.text; });
        std::swap(*place.value, without);
        Add(place, name.text + " missing", place.path + "." + name.text);
        std::swap(*place.value, without);
      }
    }
    if (place.schema.Find("properties") != nullptr) {
      place.value->Add("noSuchField", Node::Integer(1));
      Add(place, "unknown field", place.path + ".noSuchField");
      out_.objects.back().is_unknown_field = true;
      place.value->fields.pop_back();
    }
  }

  const Node& schema_;
  Node object_;
  std::set<std::string> seen_;
  BadObjects out_;
};

void CollectRules(const Node& schema, const std::string& path, std::set<std::string>& out) {
  if (const Node* rules = schema.Find("x-kubernetes-validations")) {
    for (size_t i = 0; i < rules->items.size(); ++i) {
      if (Keyword(rules->items[i], "rule").find("oldSelf") == std::string::npos) {
        out.insert(path + "#" + std::to_string(i));
      }
    }
  }
  if (const Node* properties = schema.Find("properties")) {
    for (const NodeField& property : properties->fields) {
      CollectRules(property.value, path.empty() ? property.name : path + "." + property.name, out);
    }
  }
  if (const Node* items = schema.Find("items")) CollectRules(*items, path + "[]", out);
}

constexpr const char* kHead =
    "apiVersion: serving.janus.dev/v1alpha1\nkind: MoEService\nmetadata: {name: demo}\nspec:\n";

}  // namespace

control::FieldErrors Judge(const Node& object) {
  control::ParsedService parsed = control::ParseMoEService(object);
  return parsed.errors.empty() ? control::ValidateSchema(parsed.object) : parsed.errors;
}

BadObjects MakeBadObjects(const Node& schema, const std::vector<Node>& good) {
  Maker maker(schema);
  for (const Node& object : good) maker.Use(object);
  return maker.Take();
}

std::set<std::string> RulesOf(const Node& schema) {
  std::set<std::string> rules;
  CollectRules(schema, "", rules);
  return rules;
}

std::vector<Node> GoodMoEServices() {
  const std::string head = kHead;
  const std::string rules =
      "{stabilizationWindowSeconds: 0, selectPolicy: Max, policies: [{type: Pods, value: 2, "
      "periodSeconds: 60}]}";
  const std::string scaling =
      "{mode: SLO, minReplicas: 1, maxReplicas: 8, behavior: {scaleUp: " + rules +
      ", scaleDown: " + rules + "}}";
  const std::string role =
      "instancesPerPod: 2, tensorParallel: 2, hardwareProfile: h200, resources: {requests: {cpu: "
      "500m}, limits: {memory: 4Gi}}, nodeSelector: {pool: gpu}, tolerations: [{key: gpu, "
      "operator: "
      "Equal, value: a, effect: NoSchedule, tolerationSeconds: 30}], schedulerName: mine, "
      "priorityClassName: high, podTemplate: {spec: {anything: [1, 2]}}";
  return {
      Parse(
          head + R"(  model:
    source: {type: PersistentVolumeClaim, persistentVolumeClaim: {claimName: models, path: mixtral}}
    name: mixtral
    dtype: BFloat16
    maxModelLen: 8192
    cache: {type: Node, node: {path: /var/cache}}
  slo: {tpot: {targetMilliseconds: 50, percentile: P99}, ttft: {targetMilliseconds: 900, percentile: P50}}
  image: registry/janus:1
  imagePullSecrets: [{name: pull}]
  device: CUDA
  roles:
    attention: {scaling: )" +
          scaling + ", " + role +
          R"(, maxBatchSize: 64, kvCache: {blockSize: 32, size: 2Gi, prefixCache: Exact}}
    experts: {scaling: )" +
          scaling + ", " + role +
          R"(, slotsPerInstance: 12, spareSlots: 1, scheduling: Static, placement: {policy: RoundRobin, survivable: true, rebalanceIntervalSeconds: 600, windowSeconds: 300}}
  exchange: {mode: TwoPhaseParallel, transport: RDMA, compression: FP8, gate: Attention, sum: FixedPoint, hostShared: true}
  pipeline: {microBatches: 3}
  ratio: {min: {experts: 1, attention: 2}, max: {experts: 4, attention: 1}}
  scaling: {intervalSeconds: 30, predictor: EWMA, maxGPUs: 64, advisory: true, pendingTimeoutSeconds: 600, standby: 1}
  drain: {timeoutSeconds: 60, withoutCapacity: Shrink}
  rollout: {type: SideBySide, drainSeconds: 30}
  gateway:
    replicas: 3
    service: {type: LoadBalancer, port: 8080}
    apiKeysSecretRef: {name: keys, key: api}
    limits: {queuedRequests: 10, requestSize: 1Mi, openStreams: 20}
    podTemplate: {metadata: {labels: {a: b}}}
  security: {tls: Disabled, networkPolicy: true}
  paused: true
  suspend: true
)"),
      Parse(head + R"(  model:
    source: {type: HuggingFace, huggingFace: {repo: a/b, revision: main, tokenSecretRef: {name: hub, key: token}}}
    cache: {type: PersistentVolumeClaim, persistentVolumeClaim: {claimName: cache, path: models}}
  roles:
    attention: {replicas: 2, kvCache: {memoryPercent: 80}}
    experts: {replicas: 3}
)"),
      Parse(head + R"(  model: {source: {type: Image, image: {path: /models/demo}}}
  slo: {tpot: {targetMilliseconds: 50}}
)"),
      Parse(head + R"(  model: {source: {type: HostPath, hostPath: {path: /models/demo}}}
  slo: {tpot: {targetMilliseconds: 50}}
)"),
  };
}

std::vector<RuleBreaker> BreakRules() {
  const std::string head = kHead;
  const std::string host = "  model: {source: {type: HostPath, hostPath: {path: /m}}}\n";
  const std::string slo = "  slo: {tpot: {targetMilliseconds: 50}}\n";
  const auto source = [&](const std::string& text) {
    return head + "  model: {source: " + text + "}\n" + slo;
  };
  const auto cache = [&](const std::string& text) {
    return head + "  model: {source: {type: HostPath, hostPath: {path: /m}}, cache: " + text +
           "}\n" + slo;
  };
  const auto role = [&](const std::string& name, const std::string& text) {
    return head + host + slo + "  roles: {" + name + ": " + text + "}\n";
  };
  const std::string source_path = "spec.model.source";
  const std::string cache_path = "spec.model.cache";
  std::vector<RuleBreaker> out;
  const auto add = [&](const std::string& rule, const std::string& path, const std::string& text) {
    out.push_back({rule, {rule + " broken", Parse(text), path, false}});
  };
  add("spec#0", "spec.slo.tpot", head + host);
  add("spec#0", "spec.slo.tpot", head + host + "  roles: {attention: {replicas: 1}}\n");
  add("spec#1", "spec.ratio.min",
      head + host + "  roles: {attention: {replicas: 2}, experts: {replicas: 3}}\n" +
          "  ratio: {min: {experts: 2, attention: 1}}\n");
  add("spec#2", "spec.ratio.max",
      head + host + slo +
          "  roles: {attention: {scaling: {maxReplicas: 2}}, experts: {replicas: 3}}\n" +
          "  ratio: {max: {experts: 1, attention: 1}}\n");
  add("spec.ratio#0", "spec.ratio.min",
      head + host + slo +
          "  ratio: {min: {experts: 3, attention: 1}, max: {experts: 2, attention: 1}}\n");
  add("spec.model.source#0", source_path + ".huggingFace", source("{type: HuggingFace}"));
  add("spec.model.source#1", source_path + ".persistentVolumeClaim",
      source("{type: PersistentVolumeClaim}"));
  add("spec.model.source#2", source_path + ".image",
      source("{type: HostPath, hostPath: {path: /m}, image: {path: /m}}"));
  add("spec.model.source#3", source_path + ".hostPath",
      source("{type: Image, hostPath: {path: /m}, image: {path: /m}}"));
  add("spec.model.cache#0", cache_path + ".persistentVolumeClaim",
      cache("{type: PersistentVolumeClaim}"));
  add("spec.model.cache#1", cache_path + ".node", cache("{type: None, node: {path: /c}}"));
  add("spec.roles#0", "spec.roles",
      head + host + "  roles: {attention: {replicas: 0}, experts: {replicas: 3}}\n");
  for (const std::string name : {"attention", "experts"}) {
    const std::string path = "spec.roles." + name;
    add(path + "#0", path, role(name, "{replicas: 2, scaling: {mode: External}}"));
    add(path + ".scaling#0", path + ".scaling.minReplicas",
        role(name, "{scaling: {minReplicas: 5, maxReplicas: 3}}"));
  }
  const std::string kv = "spec.roles.attention.kvCache";
  add(kv + "#0", kv, role("attention", "{kvCache: {size: 1Gi, memoryPercent: 50}}"));
  add(kv + ".size#0", kv + ".size", role("attention", "{kvCache: {size: 63Ki}}"));
  add(kv + ".size#0", kv + ".size", role("attention", "{kvCache: {size: 65535}}"));
  const std::string size = "spec.gateway.limits.requestSize";
  for (const std::string value : {"1023", "2Gi", "1073741825", "100m"}) {
    add(size + "#0", size,
        head + host + slo + "  gateway: {limits: {requestSize: " + value + "}}\n");
  }
  return out;
}

}  // namespace janus::test
