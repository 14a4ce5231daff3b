#include "tests/support/api/bad_objects.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>

#include "operator/api/hardware_profile.h"
#include "operator/api/moe_topology.h"
#include "operator/api/parse.h"
#include "operator/api/role_scaler.h"
#include "operator/api/validate.h"
#include "operator/api/validate_read.h"
#include "tests/support/api/crd.h"

namespace janus::test {
namespace {

using control::Node;
using control::NodeField;

bool IsQuantity(const Node& schema) {
  return Keyword(schema, "x-kubernetes-int-or-string") == "true";
}

// Whether a rule bounds a quantity from above.
bool HasMost(const Node& quantity) {
  const Node* const rules = quantity.Find("x-kubernetes-validations");
  return rules != nullptr &&
         std::any_of(rules->items.begin(), rules->items.end(), [](const Node& rule) {
           return Keyword(rule, "rule").find("<=") != std::string::npos;
         });
}

bool IsTime(const Node& schema) {
  return Keyword(schema, "format") == "date-time";
}

// Whether a rule says how a text itself is written.
bool IsOfForm(const Node& rule) {
  const std::string text = Keyword(rule, "rule");
  return text.find("self.matches(") != std::string::npos || text.starts_with("self.startsWith(");
}

// The rule of a text's form; empty: any text is well formed.
std::string FormOf(const Node& schema) {
  const Node* const rules = schema.Find("x-kubernetes-validations");
  if (rules == nullptr) return Keyword(schema, "pattern");
  const auto form = std::find_if(rules->items.begin(), rules->items.end(), IsOfForm);
  return form == rules->items.end() ? Keyword(schema, "pattern") : Keyword(*form, "rule");
}

// Whether texts may have letters outside ASCII, and enough of them fit a request.
bool TakesUmlauts(const Node& schema) {
  if (schema.Find("maxLength")->integer > 65536) return false;
  const std::string form = FormOf(schema);
  return form.empty() || form == "self.startsWith('/')" || form == "self.matches('^[^/]+/[^/]+$')";
}

// So many entries like `one`. If the list needs distinct keys, they are numbers from the least on,
// letters, or the values of an enumeration as far as these suffice.
Node ListOf(const Node& schema, const Node& one, int64_t count) {
  Node out = Node::List();
  out.items.assign(static_cast<size_t>(count), one);
  const Node* const keys = schema.Find("x-kubernetes-list-map-keys");
  if (keys == nullptr) return out;
  const std::string& key = keys->items.at(0).text;
  const Node& key_schema = *PropertyOf(*schema.Find("items"), key);
  const Node* const allowed = key_schema.Find("enum");
  const bool is_number = Keyword(key_schema, "type") == "integer";
  for (size_t i = 0; i < out.items.size(); ++i) {
    const std::string letters{static_cast<char>('a' + i / 26), static_cast<char>('a' + i % 26)};
    const bool is_named = allowed != nullptr && i < allowed->items.size();
    for (NodeField& field : out.items[i].fields) {
      if (field.name != key) continue;
      if (is_number) {
        field.value = Node::Integer(key_schema.Find("minimum")->integer + static_cast<int64_t>(i));
      } else {
        field.value = is_named ? allowed->items[i] : Node::String(letters);
      }
    }
  }
  return out;
}

// The field under change, its schema, and the paths of both.
struct Place {
  const Node& schema;
  Node* value;
  std::string path;         // with indices
  std::string schema_path;  // without
};

class Maker {
 public:
  // `part`: one that the schema has.
  Maker(const Node& schema, std::string_view part)
      : part_schema_(*PropertyOf(schema, part)), part_(part) {
    Leaves(part_schema_, part_);
  }

  void Use(const Node& good) {
    object_ = good;
    for (NodeField& field : object_.fields) {
      if (field.name == part_) Visit({part_schema_, &field.value, part_, part_});
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
    out_.objects.push_back({place.path + ": " + what, object_, path, false, {}});
  }
  // The object with a different value in that place.
  void With(const Place& place, const std::string& what, Node value) {
    std::swap(*place.value, value);
    Add(place, what, place.path);
    std::swap(*place.value, value);
  }

  void Unknown(const Place& place, Node value) {
    const Node* values = place.schema.Find("enum");
    if (values == nullptr) return;
    With(place, "unknown", std::move(value));
    for (const Node& allowed : values->items) {
      out_.objects.back().allowed.push_back(allowed.text);
    }
  }

  void AtBorder(const Place& place, Node value) {
    std::swap(*place.value, value);
    std::string shown = place.value->text.substr(0, 20);
    while (!shown.empty() && (place.value->text[shown.size()] & 0xC0) == 0x80) shown.pop_back();
    out_.at_borders.push_back({place.path + " = " + shown, object_, place.path, false, {}});
    std::swap(*place.value, value);
  }

  void Border(const Place& place) {
    if (const Node* values = place.schema.Find("enum")) {
      for (const Node& value : values->items) AtBorder(place, value);
    }
    if (IsQuantity(place.schema)) {
      if (HasMost(place.schema)) return;
      // More than 64 bits hold, and the largest value that they hold, in more digits than a text
      // may have.
      AtBorder(place, Node::String("12E"));
      AtBorder(place, Node::Integer(std::numeric_limits<int64_t>::max()));
      return;
    }
    if (const Node* least = place.schema.Find("minimum")) AtBorder(place, *least);
    if (const Node* most = place.schema.Find("maximum")) AtBorder(place, *most);
    const Node* most_characters = place.schema.Find("maxLength");
    if (most_characters != nullptr && !IsTime(place.schema)) {
      const auto most = static_cast<size_t>(most_characters->integer);
      const std::string text = place.value->text.substr(0, most);
      std::string with_umlauts = text;  // of two bytes each
      for (size_t i = text.size(); i < most; ++i) with_umlauts += "\u00e4";
      AtBorder(place, Node::String(text + std::string(most - text.size(), 'a')));
      if (TakesUmlauts(place.schema)) AtBorder(place, Node::String(with_umlauts));
    }
    if (const Node* most = place.schema.Find("maxItems")) {
      AtBorder(place, ListOf(place.schema, place.value->items.at(0), most->integer));
    }
  }

  void Null(const Place& place) {
    Node null;
    std::swap(*place.value, null);
    out_.nulls.push_back({{place.path + " = null", object_, place.path, false, {}}, {}});
    std::swap(*place.value, null);
  }

  void Visit(const Place& place) {
    const bool is_new = seen_.insert(place.schema_path).second;
    if (is_new) {
      Break(place);
      Border(place);
      Null(place);
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
      const size_t first_null = out_.nulls.size();
      Visit({*property, &field.value, place.path + "." + field.name,
             place.schema_path + "." + (is_map ? "*" : field.name)});
      if (out_.nulls.size() > first_null) Without(place, i, out_.nulls[first_null]);
    }
    if (out_.leaves.count(place.schema_path) > 0) out_.covered.insert(place.schema_path);
  }

  // `null`: for that field of the place; its own entry comes before those of the fields below it.
  void Without(const Place& place, size_t field, BadObjects::Null& null) {
    std::vector<NodeField>& fields = place.value->fields;
    const NodeField taken = fields[field];
    if (null.object.path != place.path + "." + taken.name) return;
    fields.erase(fields.begin() + static_cast<ptrdiff_t>(field));
    null.without = object_;
    fields.insert(fields.begin() + static_cast<ptrdiff_t>(field), taken);
  }

  void Break(const Place& place) {
    const std::string type = Keyword(place.schema, "type");
    if (IsQuantity(place.schema)) {
      With(place, "wrong type", Node::Bool(true));
      With(place, "malformed", Node::String("4GB"));
      With(place, "below", Node::Integer(-1));
      With(place, "signed", Node::String("-0"));
    } else if (type == "string") {
      With(place, "wrong type", Node::Integer(7));
      Unknown(place, Node::String("Nonsense"));
      if (!FormOf(place.schema).empty() || IsTime(place.schema)) {
        With(place, "malformed", Node::String("no!slash"));
      }
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
      Unknown(place, Node::Integer(3));
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
        With(place, "too many", ListOf(place.schema, place.value->items.at(0), most->integer + 1));
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

  const Node& part_schema_;
  const std::string part_;
  Node object_;
  std::set<std::string> seen_;
  BadObjects out_;
};

// A value with every field of the schema, each one valid. Texts with a pattern accept letters or
// numbers.
Node FullValue(const Node& schema) {
  if (IsQuantity(schema)) return Node::Integer(1);
  if (const Node* allowed = schema.Find("enum")) return allowed->items.at(0);
  const std::string type = Keyword(schema, "type");
  if (type == "boolean") return Node::Bool(true);
  if (type == "integer") return *schema.Find("minimum");
  if (type == "array") {
    Node out = Node::List();
    out.items.push_back(FullValue(*schema.Find("items")));
    return out;
  }
  if (type == "object") {
    Node out = Node::Map();
    for (const NodeField& property : schema.Find("properties")->fields) {
      out.Add(property.name, FullValue(property.value));
    }
    return out;
  }
  return Node::String(IsTime(schema) ? "2026-11-22T03:04:05Z" : "a");
}

void CollectRules(const Node& schema, const std::string& path, bool of_changes,
                  std::set<std::string>& out) {
  if (const Node* rules = schema.Find("x-kubernetes-validations")) {
    for (size_t i = 0; i < rules->items.size(); ++i) {
      const std::string rule = Keyword(rules->items[i], "rule");
      if (IsOfForm(rules->items[i])) continue;
      if ((rule.find("oldSelf") != std::string::npos) == of_changes) {
        out.insert(path + "#" + std::to_string(i));
      }
    }
  }
  if (const Node* properties = schema.Find("properties")) {
    for (const NodeField& property : properties->fields) {
      CollectRules(property.value, path.empty() ? property.name : path + "." + property.name,
                   of_changes, out);
    }
  }
  if (const Node* items = schema.Find("items")) CollectRules(*items, path + "[]", of_changes, out);
}

}  // namespace

namespace {

template <class Object>
control::FieldErrors JudgeAs(const Node& object, const control::Parsed<Object>& parsed) {
  return control::ValidateRead(object, parsed);
}

template <auto kParse>
control::FieldErrors JudgeChangeAs(const Node& before, const Node& after) {
  return ValidateUpdate(kParse(before).object, kParse(after).object);
}

}  // namespace

control::FieldErrors Judge(const Node& object) {
  const std::string kind = Keyword(object, "kind");
  if (kind == "MoERoleScaler") return JudgeAs(object, control::ParseRoleScaler(object));
  if (kind == "MoETopology") return JudgeAs(object, control::ParseMoETopology(object));
  if (kind == "HardwareProfile") return JudgeAs(object, control::ParseHardwareProfile(object));
  return JudgeAs(object, control::ParseMoEService(object));
}

control::FieldErrors JudgeChange(const Node& before, const Node& after) {
  const std::string kind = Keyword(after, "kind");
  if (kind == "MoERoleScaler") return JudgeChangeAs<control::ParseRoleScaler>(before, after);
  if (kind == "MoETopology") return JudgeChangeAs<control::ParseMoETopology>(before, after);
  return JudgeChangeAs<control::ParseMoEService>(before, after);
}

BadObjects MakeBadObjects(const Node& schema, const std::vector<Node>& good) {
  Maker maker(schema, "spec");
  for (const Node& object : good) maker.Use(object);
  return maker.Take();
}

BadObjects MakeBadStatuses(const Node& schema, const Node& good) {
  const Node* const status = PropertyOf(schema, "status");
  if (status == nullptr) return {};
  Node whole = good;
  std::erase_if(whole.fields, [](const NodeField& field) { return field.name == "status"; });
  whole.Add("status", FullValue(*status));
  Maker maker(schema, "status");
  maker.Use(whole);
  return maker.Take();
}

std::set<std::string> RulesOf(const Node& schema) {
  std::set<std::string> rules;
  CollectRules(schema, "", false, rules);
  return rules;
}

std::set<std::string> ChangeRulesOf(const Node& schema) {
  std::set<std::string> rules;
  CollectRules(schema, "", true, rules);
  return rules;
}

}  // namespace janus::test
