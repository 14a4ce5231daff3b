#include "cli/service_file.h"

#include <algorithm>
#include <filesystem>

#include "common/read_file.h"
#include "operator/api/device.h"
#include "operator/api/parse.h"
#include "operator/api/supported.h"
#include "operator/api/validate.h"
#include "operator/api/validate_read.h"
#include "operator/api/yaml.h"
#include "operator/kube/object.h"

namespace janus::cli {
namespace {

using control::FieldErrors;
using control::Node;

constexpr int64_t kMaxBytes = 1 << 20;

}  // namespace

Result<control::MoEService> ParseServiceText(std::string_view text, const std::string& file) {
  JANUS_ASSIGN_OR_RETURN(const Node root, control::ParseYaml(text, file));
  control::ParsedService parsed = control::ParseMoEService(root);
  // ValidateSupported needs an object that passes ValidateRead.
  FieldErrors errors = control::ValidateRead(root, parsed);
  if (errors.empty()) errors = control::ValidateSupported(parsed.object);
  if (errors.empty()) errors = control::ValidateDevice(parsed.object);
  control::AddLines(root, errors);
  if (!errors.empty()) return InvalidArgument(control::FormatErrors(file, errors));
  return std::move(parsed.object);
}

Result<std::string> ReadTextFile(const std::string& path) {
  return ReadFileOrPipe(path, kMaxBytes);
}

Result<control::MoEService> ReadServiceFile(const std::string& file) {
  JANUS_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file));
  return ParseServiceText(text, file);
}

namespace {

Node TimedTree(const TimedDevice& device) {
  Node out = Node::Map();
  out.Add("hardware", Node::String(device.hardware));
  out.Add("model", Node::String(device.model));
  out.Add("scale", Node::Integer(device.scale));
  out.Add("timeScale", Node::Integer(device.time_scale));
  return out;
}

Node SourceTree(const std::string& folder) {
  Node out = Node::Map();
  out.Add("type", Node::String("HostPath"));
  out.Add("hostPath", Node::Map()).Add("path", Node::String(folder));
  return out;
}

// Instances get a GPU each, or share one where there are fewer.
void AddGpus(const ServiceAsked& asked, Node& root) {
  for (const std::string_view role : {"attention", "experts"}) {
    control::SetAt(root, {"spec", "roles", role, "resources", "limits", "nvidia.com/gpu"},
                   Node::String("1"));
  }
  if (asked.tpot_milliseconds) {
    // A further instance on a GPU that computes already would make nothing faster.
    control::SetAt(root, {"spec", "scaling", "maxGPUs"}, Node::Integer(std::max(2, asked.gpus)));
  }
  const int instances =
      asked.pools.value_or(1) * (asked.attention.value_or(1) + asked.experts.value_or(1));
  // Attention instances keep this memory for life, and new ones get as much: a second one, and the
  // weights of more instances, still fit.
  constexpr int kSharedPercent = 40;
  if (instances > asked.gpus) {
    control::SetAt(root, {"spec", "roles", "attention", "kvCache", "memoryPercent"},
                   Node::Integer(kSharedPercent));
  }
}

}  // namespace

Result<std::string> WithTimedDevice(const std::string& text, const std::string& file,
                                    const TimedDevice& device) {
  JANUS_ASSIGN_OR_RETURN(Node root, control::ParseYaml(text, file));
  control::SetAt(root, {"spec", "device"}, Node::String("Timed"));
  control::SetAt(root, {"spec", "timed"}, TimedTree(device));
  return control::WriteYaml(root);
}

Result<std::string> WithModelFolder(const std::string& text, const std::string& file,
                                    const std::string& folder) {
  JANUS_ASSIGN_OR_RETURN(Node root, control::ParseYaml(text, file));
  control::SetAt(root, {"spec", "model", "source"}, SourceTree(folder));
  return control::WriteYaml(root);
}

std::string ComposeServiceText(const ServiceAsked& asked) {
  Node root = Node::Map();
  root.Add("apiVersion", Node::String(control::kApiVersion));
  root.Add("kind", Node::String(control::kKind));
  root.Add("metadata", Node::Map()).Add("name", Node::String(asked.name));
  Node& spec = root.Add("spec", Node::Map());
  Node& model = spec.Add("model", Node::Map());
  if (!asked.model_name.empty()) model.Add("name", Node::String(asked.model_name));
  model.Add("source", SourceTree(asked.model_dir));
  if (asked.timed) {
    spec.Add("device", Node::String("Timed"));
    spec.Add("timed", TimedTree(*asked.timed));
  }
  if (asked.tpot_milliseconds) {
    control::SetAt(root, {"spec", "slo", "tpot", "targetMilliseconds"},
                   Node::Integer(*asked.tpot_milliseconds));
  }
  if (asked.micro_batches > 0) {
    control::SetAt(root, {"spec", "pipeline", "microBatches"}, Node::Integer(asked.micro_batches));
  }
  if (!asked.exchange_mode.empty()) {
    control::SetAt(root, {"spec", "exchange", "mode"}, Node::String(asked.exchange_mode));
  }
  if (!asked.compression.empty()) {
    control::SetAt(root, {"spec", "exchange", "compression"}, Node::String(asked.compression));
  }
  if (!asked.gate.empty()) {
    control::SetAt(root, {"spec", "exchange", "gate"}, Node::String(asked.gate));
  }
  if (!asked.transport.empty()) {
    control::SetAt(root, {"spec", "exchange", "transport"}, Node::String(asked.transport));
  }
  if (!asked.sum.empty()) {
    control::SetAt(root, {"spec", "exchange", "sum"}, Node::String(asked.sum));
  }
  if (asked.sum == "FixedPoint") {
    control::SetAt(root, {"spec", "exchange", "sumBits"}, Node::Integer(asked.sum_bits));
    Node exponents = Node::List();
    for (const int exponent : asked.sum_exponents) {
      exponents.items.push_back(Node::Integer(exponent));
    }
    control::SetAt(root, {"spec", "exchange", "sumExponents"}, std::move(exponents));
  }
  if (asked.gpus > 0) AddGpus(asked, root);
  const auto count = [&](std::string_view role, const std::optional<int>& replicas) {
    if (replicas)
      control::SetAt(root, {"spec", "roles", role, "replicas"}, Node::Integer(*replicas));
  };
  if (asked.pools) control::SetAt(root, {"spec", "pools"}, Node::Integer(*asked.pools));
  count("attention", asked.attention);
  count("experts", asked.experts);
  return control::WriteYaml(root);
}

Status CheckServiceName(const std::string& name) {
  control::MoEService service;
  service.metadata.name = name;
  for (const control::FieldError& error : control::ValidateSchema(service)) {
    if (error.path == "metadata.name") return InvalidArgument("--name: " + error.message);
  }
  return OkStatus();
}

std::string ModelNameFor(const std::string& model_dir) {
  std::filesystem::path path = std::filesystem::path(model_dir).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  return path.filename();
}

std::string ServiceNameFor(const std::string& model_dir) {
  std::string name;
  for (const char c : ModelNameFor(model_dir)) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool is_letter = lower >= 'a' && lower <= 'z';
    const bool is_inner = is_letter || (lower >= '0' && lower <= '9');
    if (name.empty() && !is_letter) continue;
    if (is_inner) {
      name += lower;
    } else if (name.back() != '-') {
      name += '-';
    }
    if (name.size() == 40) break;
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "model" : name;
}

}  // namespace janus::cli
