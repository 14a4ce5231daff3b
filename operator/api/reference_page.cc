#include "operator/api/reference_page.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace janus::control {
namespace {

std::string TextOf(const Node& node, std::string_view field) {
  const Node* value = node.Find(field);
  return value == nullptr ? "" : value->text;
}

// Escapes what would end a table cell.
std::string Cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

// "1..256", "at least 1", "A, B or C". Without length limits: few users reach them, and the API
// server's error names them.
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
  return out;
}

std::string TypeOf(const Node& schema) {
  if (schema.Find("x-kubernetes-int-or-string") != nullptr) return "quantity";
  if (const Node* values = schema.Find("additionalProperties")) return "map of " + TypeOf(*values);
  if (const Node* items = schema.Find("items")) return "list of " + TypeOf(*items);
  if (schema.Find("x-kubernetes-preserve-unknown-fields") != nullptr) return "any object";
  return TextOf(schema, "type");
}

// One row of a table of fields.
struct Row {
  std::string path;  // relative to the object that the rows describe
  std::string type;
  std::string meaning;
};

bool IsRequired(const Node& schema, std::string_view field) {
  const Node* required = schema.Find("required");
  if (required == nullptr) return false;
  return std::any_of(required->items.begin(), required->items.end(),
                     [&](const Node& name) { return name.text == field; });
}

// The properties of an object, or of each item of a list; null: none.
const Node* PropertiesOf(const Node& schema) {
  const Node* items = schema.Find("items");
  return (items == nullptr ? schema : *items).Find("properties");
}

using Names = std::vector<std::string>;

// Fields that are equal in both objects.
Names SharedFields(const Node& a, const Node& b) {
  Names out;
  const Node* of_a = PropertiesOf(a);
  const Node* of_b = PropertiesOf(b);
  if (of_a == nullptr || of_b == nullptr) return out;
  for (const NodeField& field : of_a->fields) {
    const Node* other = of_b->Find(field.name);
    if (other != nullptr && *other == field.value) out.push_back(field.name);
  }
  return out;
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
      if (part.name == "spec" || part.name == "status") Table(kind, part.name, part.value);
    }
    if (!rules_.empty()) {
      out_ +=
          "\nMessages of rules over several fields or edits (`crds/` has all rules):\n\n" + rules_;
      rules_.clear();
    }
    if (const Node* columns = version.Find("additionalPrinterColumns")) Columns(*columns);
  }

  std::string Take() { return std::move(out_); }

 private:
  void Table(const std::string& kind, const std::string& name, const Node& schema) {
    out_ += "\n### " + name + "\n\n" + TextOf(schema, "description") +
            "\n\n| field | type | |\n|---|---|---|\n";
    Rules(name, schema);
    // Users do not write a status, so bounds and defaults are left out.
    for (const Row& row : Rows(kind + "." + name, schema, name == "spec", {})) {
      out_ += "| `" + row.path + "` | " + row.type + " | " + row.meaning + " |\n";
    }
  }

  // `full`: path with its kind; later rows refer to it. `told`: fields to leave out.
  std::vector<Row> Rows(const std::string& full, const Node& schema, bool is_written,
                        const Names& told) {
    std::vector<Row> out;
    const Node* properties = PropertiesOf(schema);
    if (properties == nullptr) return out;
    const Node* items = schema.Find("items");
    for (size_t i = 0; i < properties->fields.size(); ++i) {
      const NodeField& field = properties->fields[i];
      if (std::find(told.begin(), told.end(), field.name) != told.end()) continue;
      std::string type = TypeOf(field.value);
      const std::string bounds = Bounds(field.value);
      const std::string fallback = TextOf(field.value, "default");
      if (is_written || field.value.Find("enum") != nullptr) {
        if (!bounds.empty()) type += ": " + bounds;
      }
      if (is_written && !fallback.empty()) type += "; default " + fallback;
      if (is_written && IsRequired(items == nullptr ? schema : *items, field.name)) {
        type += "; required";
      }
      out.push_back({field.name, Cell(type), Cell(TextOf(field.value, "description"))});
      const std::string path = full + "." + field.name;
      const std::string same = WherePrinted(path, field.value);
      if (!same.empty()) {
        out.back().meaning += " Fields as in `" + same + "`.";
        continue;
      }
      Names shared;
      for (size_t k = 0; k < i && shared.empty(); ++k) {
        const NodeField& sibling = properties->fields[k];
        shared = SharedFields(field.value, sibling.value);
        if (shared.size() < kWorthAReference) {
          shared.clear();
          continue;
        }
        out.back().meaning += " As in `" + full + "." + sibling.name + "`:";
        for (const std::string& name : shared) {
          out.back().meaning += (&name == &shared.front() ? " `" : ", `") + name + "`";
        }
        out.back().meaning += ".";
      }
      const std::string list = field.value.Find("items") == nullptr ? "." : "[].";
      for (Row& row : Rows(path, field.value, is_written, shared)) {
        row.path = field.name + list + row.path;
        out.push_back(std::move(row));
      }
    }
    return out;
  }

  // The earlier field with the same fields; without one, remembers `path` and returns empty. A
  // reference instead of a single row would save nothing.
  std::string WherePrinted(const std::string& path, const Node& schema) {
    const Node* properties = PropertiesOf(schema);
    if (properties == nullptr || properties->fields.size() < 2) return std::string();
    for (const auto& [where, fields] : printed_) {
      if (*fields == *properties) return where;
    }
    printed_.emplace_back(path, properties);
    return std::string();
  }

  // Rules of the schema and of everything below it.
  void Rules(const std::string& path, const Node& schema) {
    if (const Node* rules = schema.Find("x-kubernetes-validations")) {
      for (const Node& rule : rules->items) {
        // Without a message, the API server builds one from the values.
        const std::string message = TextOf(rule, "message");
        if (message.empty()) continue;
        rules_ += "- `" + path + TextOf(rule, "fieldPath") + "`: " + message + "\n";
      }
    }
    const Node* properties = PropertiesOf(schema);
    if (properties == nullptr) return;
    const std::string list = schema.Find("items") == nullptr ? "." : "[].";
    for (const NodeField& field : properties->fields) Rules(path + list + field.name, field.value);
  }

  void Columns(const Node& columns) {
    std::string shown;
    std::string wide;
    for (const Node& column : columns.items) {
      std::string& list = TextOf(column, "priority").empty() ? shown : wide;
      list += (list.empty() ? "" : ", ") + TextOf(column, "name");
    }
    out_ +=
        "\n`kubectl get` shows " + shown + (wide.empty() ? "" : "; `-o wide` also " + wide) + ".\n";
  }

  static constexpr size_t kWorthAReference = 3;  // shared by two siblings

  std::string out_ =
      "# API reference\n"
      "\n"
      "Look up here every field of a MoEService and of the kinds beside it: type, bounds, "
      "default,\n"
      "meaning. The group is `serving.janus.dev`, the version `v1alpha1`. `kubectl explain\n"
      "moesvc.spec` shows the same texts in a cluster. This page is printed from `crds/`; a test "
      "fails\n"
      "when it is older. Fields that this version refuses: [not-supported.md](not-supported.md).\n";
  std::string rules_;
  std::vector<std::pair<std::string, const Node*>> printed_;  // path of a field, and its fields
};

}  // namespace

std::string ReferencePage(std::span<const Node> crds) {
  Page page;
  for (const Node& crd : crds) page.Kind(crd);
  return page.Take();
}

}  // namespace janus::control
