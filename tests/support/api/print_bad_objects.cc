// Prints objects of every kind for the suite that sends them to a real API server, one JSON object
// per line: {"name", "plural", "part", "object", "before", "paths", "unknown_field"}. `paths`: the
// fields that operator/api refuses, empty for a good object; for a bad status, the field at fault.
// `part` is "status" if the status is written, and "change" if the object follows `before`.

#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/api/crd.h"
#include "tests/support/api/good_objects.h"

namespace {

using janus::control::Node;

void Print(const std::string& plural, const std::string& part, const janus::test::BadObject& bad,
           const std::vector<std::string>& refused, const Node& before = Node::Map()) {
  Node line = Node::Map();
  line.Add("name", Node::String(bad.name));
  line.Add("plural", Node::String(plural));
  line.Add("part", Node::String(part));
  line.Add("unknown_field", Node::Bool(bad.is_unknown_field));
  line.Add("object", bad.object);
  line.Add("before", before);
  Node& paths = line.Add("paths", Node::List());
  for (const std::string& path : refused) paths.items.push_back(Node::String(path));
  std::puts(janus::test::ToJson(line).c_str());
}

std::vector<std::string> PathsOf(const janus::control::FieldErrors& errors) {
  std::vector<std::string> out;
  for (const janus::control::FieldError& error : errors) out.push_back(error.path);
  return out;
}

void Print(const std::string& plural, const janus::test::BadObject& bad) {
  Print(plural, "spec", bad, PathsOf(janus::test::Judge(bad.object)));
}

void PrintKind(const std::string& plural) {
  const Node crd = janus::test::ReadCrd(plural);
  const std::vector<Node> good = janus::test::GoodObjects(plural);
  for (const Node& object : good) Print(plural, {"good", object, "", false, {}});
  const janus::test::BadObjects made =
      janus::test::MakeBadObjects(janus::test::SchemaOf(crd), good);
  for (const janus::test::BadObject& bad : made.objects) Print(plural, bad);
  for (const janus::test::BadObject& border : made.at_borders) Print(plural, border);
  for (const janus::test::BadObjects::Null& null : made.nulls) Print(plural, null.object);
  for (const auto& breaker : janus::test::BreakRules(plural)) Print(plural, breaker.bad);
  for (const auto& breaker : janus::test::BreakChanges(plural)) {
    Print(plural, "change", breaker.after,
          PathsOf(janus::test::JudgeChange(breaker.before, breaker.after.object)), breaker.before);
  }
  const janus::test::BadObjects statuses =
      janus::test::MakeBadStatuses(janus::test::SchemaOf(crd), good.at(0));
  for (const janus::test::BadObject& bad : statuses.objects) {
    Print(plural, "status", bad, {bad.path});
  }
}

}  // namespace

int main() {
  for (const char* plural : janus::test::kPlurals) PrintKind(plural);
  return 0;
}
