#include "cli/plan/hardware_file.h"

#include <algorithm>
#include <vector>

#include "common/read_file.h"
#include "operator/api/quantity.h"
#include "operator/api/tree.h"
#include "operator/api/yaml.h"

namespace janus::cli {
namespace {

using control::FieldErrors;
using control::Node;

constexpr int64_t kMaxBytes = 1 << 20;

// Reads the fields of one map and reports what is left over.
class Fields {
 public:
  Fields(const Node& map, std::string path, FieldErrors& errors)
      : map_(map), path_(std::move(path)), errors_(errors) {}

  // Absent and not required: `value` stays.
  void Number(const char* name, bool is_required, double& value) {
    known_ += (known_.empty() ? "" : ", ") + std::string(name);
    const Node* node = Take(name);
    if (node == nullptr) {
      if (is_required) Fail(name, "is missing; give a quantity such as 80G", map_.line);
      return;
    }
    const Result<control::Quantity> quantity = control::ParseQuantity(node->text);
    if (!quantity.ok()) {
      Fail(name, quantity.status().message(), node->line);
    } else {
      value = static_cast<double>(quantity->milli) / 1e3;
      // Thousandths do not hold what is beyond 9.2e15.
      if (quantity->value > int64_t{1} << 52) value = static_cast<double>(quantity->value);
    }
  }

  const Node* Map(const char* name) {
    known_ += (known_.empty() ? "" : ", ") + std::string(name);
    const Node* node = Take(name);
    if (node == nullptr || node->kind != Node::Kind::kMap) {
      Fail(name, "must be a map", node == nullptr ? map_.line : node->line);
      return nullptr;
    }
    return node;
  }

  void RefuseOthers() {
    for (const control::NodeField& field : map_.fields) {
      if (std::find(taken_.begin(), taken_.end(), field.name) != taken_.end()) continue;
      Fail(field.name.c_str(), "is not known; known here: " + known_, field.value.line);
    }
  }

 private:
  const Node* Take(const char* name) {
    taken_.emplace_back(name);
    return map_.Find(name);
  }
  void Fail(const char* name, std::string message, int line) {
    errors_.push_back({path_ + name, std::move(message), line});
  }

  const Node& map_;
  const std::string path_;
  FieldErrors& errors_;
  std::vector<std::string> taken_;
  std::string known_;
};

}  // namespace

Result<HardwareProfile> ParseHardware(std::string_view text, const std::string& file) {
  JANUS_ASSIGN_OR_RETURN(const Node root, control::ParseYaml(text, file));
  const Node* kind = root.Find("kind");
  if (kind == nullptr || kind->text != "HardwareProfile") {
    return InvalidArgument(file + ": is no HardwareProfile; want kind: HardwareProfile");
  }
  FieldErrors errors;
  HardwareProfile profile;
  const Node* metadata = root.Find("metadata");
  const Node* name = metadata != nullptr ? metadata->Find("name") : nullptr;
  if (name != nullptr) profile.name = name->text;
  if (profile.name.empty()) errors.push_back({"metadata.name", "is missing", root.line});
  const Node* spec = root.Find("spec");
  if (spec == nullptr || spec->kind != Node::Kind::kMap) {
    errors.push_back({"spec", "must be a map", root.line});
  } else {
    Fields fields(*spec, "spec.", errors);
    double per_node = profile.instances_per_node;
    fields.Number("memory", true, profile.memory_bytes);
    fields.Number("memoryBandwidth", true, profile.memory_bytes_per_second);
    fields.Number("intraNodeBandwidth", true, profile.intra_node_bytes_per_second);
    fields.Number("interNodeBandwidth", true, profile.inter_node_bytes_per_second);
    fields.Number("instancesPerNode", false, per_node);
    fields.Number("price", false, profile.price);
    if (const Node* peak = fields.Map("peak"); peak != nullptr) {
      Fields types(*peak, "spec.peak.", errors);
      types.Number("bf16", true, profile.bf16_operations_per_second);
      types.Number("fp8", false, profile.fp8_operations_per_second);
      types.RefuseOthers();
    }
    fields.RefuseOthers();
    profile.instances_per_node = static_cast<int>(per_node);
  }
  if (!errors.empty()) return InvalidArgument(control::FormatErrors(file, errors));
  if (Status status = Validate(profile); !status.ok()) return std::move(status).Annotate(file);
  return profile;
}

Result<HardwareProfile> ReadHardware(const std::string& name_or_file) {
  if (!name_or_file.ends_with(".yaml") && !name_or_file.ends_with(".yml")) {
    return FindHardware(name_or_file);
  }
  JANUS_ASSIGN_OR_RETURN(const std::string text, ReadFileOrPipe(name_or_file, kMaxBytes));
  return ParseHardware(text, name_or_file);
}

}  // namespace janus::cli
