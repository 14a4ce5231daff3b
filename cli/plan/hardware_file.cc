#include "cli/plan/hardware_file.h"

#include <utility>

#include "common/read_file.h"
#include "operator/api/hardware_profile.h"
#include "operator/api/validate_read.h"
#include "operator/api/yaml.h"

namespace janus::cli {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;

}  // namespace

Result<HardwareProfile> ParseHardware(std::string_view text, const std::string& file) {
  JANUS_ASSIGN_OR_RETURN(const control::Node root, control::ParseYaml(text, file));
  const control::Parsed<control::HardwareProfileObject> parsed =
      control::ParseHardwareProfile(root);
  control::FieldErrors errors = control::ValidateRead(root, parsed);
  control::AddLines(root, errors);
  if (!errors.empty()) return InvalidArgument(control::FormatErrors(file, errors));
  return control::ToHardware(parsed.object);
}

Result<HardwareProfile> ReadHardware(const std::string& name_or_file) {
  if (!name_or_file.ends_with(".yaml") && !name_or_file.ends_with(".yml")) {
    return FindHardware(name_or_file);
  }
  JANUS_ASSIGN_OR_RETURN(const std::string text, ReadFileOrPipe(name_or_file, kMaxBytes));
  return ParseHardware(text, name_or_file);
}

}  // namespace janus::cli
