// Objects of every kind as JSON, as a server or a file may have them: whatever reads as a tree can
// be written and read again, is decoded by each kind's reader, and what one takes stands its rules;
// the same object written out again gets the same verdict.

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

// What a kind's reader, and then its rules, say of a tree.
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
