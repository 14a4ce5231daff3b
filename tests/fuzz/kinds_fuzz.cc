// Objects of every kind as JSON, from a server or a file. A tree that was read can be written and
// read again, and each kind's reader decodes it. An accepted object passes its rules without harm,
// and gets the same verdict when it is written out and read again.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/check.h"
#include "operator/api/hardware_profile.h"
#include "operator/api/json.h"
#include "operator/api/moe_topology.h"
#include "operator/api/parse.h"
#include "operator/api/role_scaler.h"
#include "operator/api/validate.h"
#include "operator/api/validate_read.h"

namespace janus::control {
namespace {

std::string Text(const FieldErrors& errors) {
  std::string out;
  for (const FieldError& error : errors) out += error.path + ": " + error.message + "\n";
  return out;
}

// The result of a kind's reader, and then of its rules, for a tree.
template <class Object>
std::string Judge(Parsed<Object> (*read)(const Node&), const Node& tree) {
  const Parsed<Object> parsed = read(tree);
  return Text(ValidateRead(tree, parsed));
}

std::string JudgeAll(const Node& tree) {
  return Judge(ParseMoEService, tree) + "|" + Judge(ParseRoleScaler, tree) + "|" +
         Judge(ParseMoETopology, tree) + "|" + Judge(ParseHardwareProfile, tree);
}

}  // namespace
}  // namespace janus::control

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace janus::control;  // NOLINT
  const auto tree = ParseJson({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!tree.ok()) return 0;
  const std::string text = WriteJson(*tree);
  const auto again = ParseJson(text, "again");
  JANUS_CHECK(again.ok(), again.status().ToString());
  JANUS_CHECK(WriteJson(*again) == text, text);
  const std::string verdict = JudgeAll(*tree);
  JANUS_CHECK(JudgeAll(*again) == verdict, verdict);
  return 0;
}
