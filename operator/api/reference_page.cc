#include "operator/api/reference_page.h"

#include <string_view>

namespace janus::control {
namespace {

std::string TextOf(const Node& node, std::string_view field) {
  const Node* value = node.Find(field);
  return value == nullptr ? "" : value->text;
}

// A cell of a table may not end it.
std::string Cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

// "1..256", "at least 1", "at most 64 characters", "A, B or C".
std::string Bounds(const Node& schema) {
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
  if (const Node* values = schema.Find("enum")) {
    std::string list;
    for (const Node& value : values->items) list += (list.empty() ? "" : ", ") + value.text;
    add(list);
  }
  const std::string least = TextOf(schema, "minimum");
  const std::string most = TextOf(schema, "maximum");
  if (!least.empty() && !most.empty()) {
    add(least + ".." + most);
  } else if (!least.empty()) {
    add("at least " + least);
  }
  if (schema.Find("minLength") != nullptr) add("not empty");
  if (const Node* length = schema.Find("maxLength")) add("at most " + length->text + " characters");
  if (const Node* items = schema.Find("maxItems")) add("at most " + items->text + " items");
  if (const Node* entries = schema.Find("maxProperties"))
    add("at most " + entries->text + " entries");
  return out;
}

std::string TypeOf(const Node& schema) {
  if (schema.Find("x-kubernetes-int-or-string") != nullptr) return "quantity";
  if (const Node* values = schema.Find("additionalProperties")) return "map of " + TypeOf(*values);
  if (const Node* items = schema.Find("items")) return "list of " + TypeOf(*items);
  if (schema.Find("x-kubernetes-preserve-unknown-fields") != nullptr) return "any object";
  return TextOf(schema, "type");
}

class Page {
 public:
  void Kind(const Node& crd) {
    const Node& spec = *crd.Find("spec");
    const Node& names = *spec.Find("names");
    const Node& version = spec.Find("versions")->items.at(0);
    const Node& schema = *version.Find("schema")->Find("openAPIV3Schema");
    const std::string kind = TextOf(names, "kind");
    out_ += "\n## " + kind + "\n\n" + TextOf(schema, "description") + "\n\n";
    const bool is_namespaced = TextOf(spec, "scope") == "Namespaced";
    out_ += std::string(is_namespaced ? "Namespaced" : "Cluster-scoped") + "; `kubectl get " +
            names.Find("shortNames")->items.at(0).text + "` or `" + TextOf(names, "plural") +
            "`.\n";
    const Node& properties = *schema.Find("properties");
    for (const NodeField& part : properties.fields) {
      if (part.name == "spec" || part.name == "status") Table(part.name, part.value);
    }
    if (!rules_.empty()) {
      out_ += "\nRules:\n\n" + rules_;
      rules_.clear();
    }
    if (const Node* columns = version.Find("additionalPrinterColumns")) Columns(*columns);
  }

  std::string Take() { return std::move(out_); }

 private:
  void Table(const std::string& name, const Node& schema) {
    out_ += "\n### " + name + "\n\n" + TextOf(schema, "description") +
            "\n\n| field | type | values | default | |\n|---|---|---|---|---|\n";
    Rules(name, schema);
    Rows("", name, schema);
  }

  void Rows(const std::string& below, const std::string& path, const Node& schema) {
    const Node* properties = schema.Find("properties");
    if (properties == nullptr) return;
    const Node* required = schema.Find("required");
    for (const NodeField& field : properties->fields) {
      bool is_required = false;
      if (required != nullptr) {
        for (const Node& name : required->items) is_required |= name.text == field.name;
      }
      const std::string name = below + field.name;
      const std::string fallback = TextOf(field.value, "default");
      out_ += "| `" + name + "` | " + TypeOf(field.value) + " | " + Cell(Bounds(field.value)) +
              " | " + (is_required ? "required" : Cell(fallback)) + " | " +
              Cell(TextOf(field.value, "description")) + " |\n";
      const std::string full = path + "." + field.name;
      Rules(full, field.value);
      if (const Node* items = field.value.Find("items")) {
        Rows(name + "[].", full + "[]", *items);
      } else {
        Rows(name + ".", full, field.value);
      }
    }
  }

  void Rules(const std::string& path, const Node& schema) {
    const Node* rules = schema.Find("x-kubernetes-validations");
    if (rules == nullptr) return;
    for (const Node& rule : rules->items) {
      const std::string message = TextOf(rule, "message");
      rules_ += "- `" + path + TextOf(rule, "fieldPath") +
                "`: " + (message.empty() ? "" : message + ": ") + "`" + TextOf(rule, "rule") +
                "`\n";
    }
  }

  void Columns(const Node& columns) {
    out_ += "\nColumns of `kubectl get` (those of `-o wide` in brackets):\n\n";
    for (const Node& column : columns.items) {
      const bool is_wide = !TextOf(column, "priority").empty();
      const std::string name = TextOf(column, "name");
      out_ +=
          "- " + (is_wide ? "(" + name + ")" : name) + ": " + TextOf(column, "description") + "\n";
    }
  }

  std::string out_ =
      "# API reference\n"
      "\n"
      "Group `serving.janus.dev`, version `v1alpha1`. Printed from `crds/`, which is the source: a "
      "test\n"
      "fails when this page is older. `kubectl explain moesvc.spec` tells the same in a cluster. "
      "What\n"
      "this version cannot do yet: [not-supported.md](not-supported.md).\n";
  std::string rules_;
};

}  // namespace

std::string ReferencePage(std::span<const Node> crds) {
  Page page;
  for (const Node& crd : crds) page.Kind(crd);
  return page.Take();
}

}  // namespace janus::control
