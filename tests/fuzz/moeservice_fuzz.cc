// MoEService files: a tree that was read can be written and read again, and is the only document of
// its text. An object without errors passes every later rule without harm.

#include <cstdint>
#include <string_view>

#include "common/check.h"
#include "operator/api/defaults.h"
#include "operator/api/parse.h"
#include "operator/api/supported.h"
#include "operator/api/validate.h"
#include "operator/api/yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace janus::control;  // NOLINT
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto documents = ParseYamlDocuments(input, "fuzz.yaml");
  const auto tree = ParseYaml(input, "fuzz.yaml");
  if (!tree.ok()) return 0;
  const std::string text = WriteYaml(*tree);
  if (input.find("---") == std::string_view::npos) {
    JANUS_CHECK(documents.ok() && documents->size() == 1, documents.status().ToString());
    JANUS_CHECK(WriteYaml(*documents->front().root) == text, text);
  }
  const auto again = ParseYaml(text, "again.yaml");
  JANUS_CHECK(again.ok(), again.status().ToString());
  JANUS_CHECK(WriteYaml(*again) == text, text);
  const ParsedService service = ParseMoEService(*tree);
  if (!service.errors.empty() || !ValidateSchema(service.object).empty()) return 0;
  if (ValidateSupported(service.object).empty()) (void)ResolveDefaults(service.object);
  return 0;
}
