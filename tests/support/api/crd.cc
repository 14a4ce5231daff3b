#include "tests/support/api/crd.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/check.h"
#include "operator/api/yaml.h"
#include "tests/support/paths.h"

namespace janus::test {

using control::Node;
using control::NodeField;

Node ReadCrd(std::string_view plural) {
  const std::string path = SourceDir() + "/crds/" + std::string(plural) + ".yaml";
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  Result<Node> crd = control::ParseYaml(text.str(), path);
  JANUS_CHECK(crd.ok(), crd.status().ToString());
  return *std::move(crd);
}

const Node& SchemaOf(const Node& crd) {
  const Node* versions = crd.Find("spec")->Find("versions");
  return *versions->items.at(0).Find("schema")->Find("openAPIV3Schema");
}

const Node* PropertyOf(const Node& schema, std::string_view name) {
  if (const Node* properties = schema.Find("properties")) return properties->Find(name);
  return schema.Find("additionalProperties");
}

std::string Keyword(const Node& schema, std::string_view name) {
  const Node* value = schema.Find(name);
  return value == nullptr ? "" : value->text;
}

void ApplyDefaults(const Node& schema, Node& object) {
  if (const Node* items = schema.Find("items")) {
    for (Node& item : object.items) ApplyDefaults(*items, item);
  }
  for (NodeField& field : object.fields) {
    if (const Node* property = PropertyOf(schema, field.name))
      ApplyDefaults(*property, field.value);
  }
  const Node* properties = schema.Find("properties");
  if (properties == nullptr || object.kind != Node::Kind::kMap) return;
  for (const NodeField& property : properties->fields) {
    const Node* value = property.value.Find("default");
    if (value != nullptr && object.Find(property.name) == nullptr)
      object.Add(property.name, *value);
  }
}

namespace {

nlohmann::json Json(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return nullptr;
    case Node::Kind::kBool:
      return node.boolean;
    case Node::Kind::kInteger:
      return node.integer;
    case Node::Kind::kFloat:
      return nlohmann::json::parse(node.text);
    case Node::Kind::kString:
      return node.text;
    case Node::Kind::kList: {
      nlohmann::json list = nlohmann::json::array();
      for (const Node& item : node.items) list.push_back(Json(item));
      return list;
    }
    case Node::Kind::kMap: {
      nlohmann::json map = nlohmann::json::object();
      for (const NodeField& field : node.fields) map[field.name] = Json(field.value);
      return map;
    }
  }
  return nullptr;
}

}  // namespace

std::string ToJson(const Node& node) {
  return Json(node).dump();
}

}  // namespace janus::test
