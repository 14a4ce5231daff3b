// Prints bad MoEServices for the suite that gives them to a real API server, one JSON object a
// line:
// {"name", "path", "unknown_field", "object"}. First the good ones, with an empty path.

#include <cstdio>

#include "tests/support/api/bad_objects.h"
#include "tests/support/api/crd.h"

namespace {

void Print(const janus::test::BadObject& bad) {
  using janus::control::Node;
  Node line = Node::Map();
  line.Add("name", Node::String(bad.name));
  Node& paths = line.Add("paths", Node::List());
  for (const janus::control::FieldError& error : janus::test::Judge(bad.object)) {
    paths.items.push_back(Node::String(error.path));
  }
  line.Add("unknown_field", Node::Bool(bad.is_unknown_field));
  line.Add("object", bad.object);
  std::puts(janus::test::ToJson(line).c_str());
}

}  // namespace

int main() {
  const janus::control::Node crd = janus::test::ReadCrd("moeservices");
  const std::vector<janus::control::Node> good = janus::test::GoodMoEServices();
  for (const janus::control::Node& object : good) Print({"good", object, "", false});
  const janus::test::BadObjects made =
      janus::test::MakeBadObjects(janus::test::SchemaOf(crd), good);
  for (const janus::test::BadObject& bad : made.objects) Print(bad);
  for (const janus::test::BadObject& border : made.at_borders) Print(border);
  for (const auto& breaker : janus::test::BreakRules()) Print(breaker.bad);
  return 0;
}
