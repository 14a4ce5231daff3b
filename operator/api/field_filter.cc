#include "operator/api/field_filter.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace janus::control {

FieldFilter::FieldFilter(const std::vector<std::string_view>& paths) {
  for (const std::string_view always :
       {"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid"}) {
    Insert(fields_, always);
  }
  for (const std::string_view path : paths) Insert(fields_, path);
}

void FieldFilter::Insert(std::vector<Field>& fields, std::string_view path) {
  const size_t point = path.find('.');
  const std::string_view name = path.substr(0, point);
  JANUS_CHECK(!name.empty(), path, "has an empty name");
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field& field) { return field.name == name; });
  const bool is_new = found == fields.end();
  Field& field = is_new ? fields.emplace_back(Field{std::string(name), {}}) : *found;
  if (point == path.npos) {
    field.fields.clear();  // including everything below it
  } else if (is_new || !field.fields.empty()) {
    Insert(field.fields, path.substr(point + 1));
  }
}

// REQUIRES: `wanted` is not empty.
Node FieldFilter::Keep(const std::vector<Field>& wanted, Node value) {
  if (value.kind == Node::Kind::kList) {
    for (Node& item : value.items) item = Keep(wanted, std::move(item));
    value.items.shrink_to_fit();
    return value;
  }
  if (value.kind != Node::Kind::kMap) return value;
  std::vector<NodeField> kept;
  for (NodeField& field : value.fields) {
    const auto found = std::find_if(wanted.begin(), wanted.end(),
                                    [&](const Field& want) { return want.name == field.name; });
    if (found == wanted.end()) continue;
    if (!found->fields.empty()) field.value = Keep(found->fields, std::move(field.value));
    kept.push_back(std::move(field));
  }
  kept.shrink_to_fit();
  value.fields = std::move(kept);
  return value;
}

FieldFilter FieldFilter::With(std::string_view path) const {
  FieldFilter out = *this;
  Insert(out.fields_, path);
  return out;
}

Node FieldFilter::operator()(Node object) const {
  return Keep(fields_, std::move(object));
}

}  // namespace janus::control
