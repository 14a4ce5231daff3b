#include "cli/validate/judge.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "operator/api/device.h"
#include "operator/api/hardware_profile.h"
#include "operator/api/metadata_rules.h"
#include "operator/api/moe_topology.h"
#include "operator/api/nearest.h"
#include "operator/api/parse.h"
#include "operator/api/role_scaler.h"
#include "operator/api/validate.h"
#include "operator/api/validate_read.h"
#include "operator/api/yaml.h"
#include "operator/reconcile/pods/template_conflicts.h"

namespace janus::cli {
namespace {

using control::FieldErrors;
using control::Ground;
using control::Node;

std::string TextOf(const Node& object, std::string_view field) {
  const Node* found = object.Find(field);
  return found != nullptr && found->kind == Node::Kind::kString ? found->text : std::string();
}

void JudgeService(const Node& object, const std::vector<Ground>& grounds, Verdict& out) {
  const control::ParsedService parsed = control::ParseMoEService(object);
  // Support is judged only for an object that passes validation.
  out.schema = control::ValidateRead(object, parsed);
  if (!out.schema.empty()) return;
  for (const Ground ground : grounds) {
    FieldErrors refused = control::ValidateSupported(parsed.object, ground);
    // The same check as an operator with the chart's defaults.
    if (ground == Ground::kCluster && refused.empty()) {
      refused = control::ValidateDevice(parsed.object);
    }
    if (ground == Ground::kCluster && refused.empty()) {
      control::OperatorDefaults defaults;
      defaults.certificates = true;
      refused = control::TemplateConflicts(parsed.object, defaults);
    }
    out.support.push_back({ground, std::move(refused)});
    control::AddLines(object, out.support.back().refused);
  }
}

constexpr std::array<std::string_view, 4> kKinds = {"MoEService", "MoERoleScaler", "MoETopology",
                                                    "HardwareProfile"};

FieldErrors UnknownKind(const std::string& kind) {
  const std::string_view nearest = control::Nearest(kind, kKinds);
  return {{"kind",
           "is '" + kind + "'; " +
               (nearest.empty() ? "use " + control::JoinOr(kKinds)
                                : "did you mean " + std::string(nearest) + "?"),
           0}};
}

Verdict JudgeObject(const Node& object, const std::vector<Ground>& grounds) {
  Verdict out;
  out.line = object.line;
  const std::string kind = TextOf(object, "kind"), version = TextOf(object, "apiVersion");
  const Node* metadata = object.Find("metadata");
  const std::string name = metadata == nullptr ? "" : TextOf(*metadata, "name");
  out.object = (kind.empty() ? "object without a kind" : kind) + (name.empty() ? "" : " ") + name;
  // The group decides whether the kind is ours. Another version of our group is then refused by
  // name.
  const std::string_view group = control::kApiVersion.substr(0, control::kApiVersion.find('/') + 1);
  if (!version.starts_with(group) && !version.empty() && !kind.empty() &&
      std::ranges::find(kKinds, kind) == kKinds.end()) {
    out.is_ours = false;
    return out;
  }
  if (kind == "MoERoleScaler") {
    out.schema = control::ValidateRead(object, control::ParseRoleScaler(object));
  } else if (kind == "MoETopology") {
    out.schema = control::ValidateRead(object, control::ParseMoETopology(object));
  } else if (kind == "HardwareProfile") {
    out.schema = control::ValidateRead(object, control::ParseHardwareProfile(object));
  } else if (kind == "MoEService" || kind.empty()) {
    JudgeService(object, grounds, out);
  } else {
    out.schema = UnknownKind(kind);
  }
  for (control::FieldError& error : control::ValidateMetadata(object)) {
    const auto is_same = [&](const control::FieldError& one) { return one.path == error.path; };
    // A label that is not text was already reported when it was read.
    if (std::ranges::none_of(out.schema, is_same)) out.schema.push_back(std::move(error));
  }
  if (!out.schema.empty()) out.support.clear();
  control::AddLines(object, out.schema);
  return out;
}

std::string_view NameOf(Ground ground) {
  return ground == Ground::kMachine ? "on one machine:" : "on a cluster:  ";
}

std::string Listed(const FieldErrors& errors, const std::string& file) {
  std::istringstream lines(control::FormatErrors(file, errors));
  std::string out;
  for (std::string line; std::getline(lines, line);) out += "    " + line + "\n";
  return out;
}

}  // namespace

bool Verdict::is_good() const {
  if (!unreadable.empty() || !schema.empty()) return false;
  return support.empty() ||
         std::ranges::any_of(support, [](const Support& one) { return one.refused.empty(); });
}

Result<std::vector<Verdict>> Judge(std::string_view text, const std::string& file,
                                   const std::vector<Ground>& grounds) {
  JANUS_ASSIGN_OR_RETURN(const std::vector<control::YamlDocument> documents,
                         control::ParseYamlDocuments(text, file));
  std::vector<Verdict> out;
  for (const auto& [line, root] : documents) {
    if (!root.ok()) {
      Verdict& verdict = out.emplace_back();
      verdict.object = "unreadable document";
      verdict.line = line;
      verdict.unreadable = root.status().message();
      continue;
    }
    const Node& document = *root;
    const Node* items = document.Find("items");
    if (TextOf(document, "kind") != "List" || items == nullptr) {
      out.push_back(JudgeObject(document, grounds));
      continue;
    }
    for (const Node& item : items->items) out.push_back(JudgeObject(item, grounds));
  }
  if (out.empty())
    return InvalidArgument(file + ": has no object; want one or more objects in YAML");
  return out;
}

std::string Describe(const Verdict& verdict, const std::string& file) {
  std::string out = file + ":" + std::to_string(verdict.line) + ": " + verdict.object + "\n";
  if (!verdict.unreadable.empty()) return out + "    " + verdict.unreadable + "\n";
  if (!verdict.is_ours) return out + "  not an object of this API, not checked\n";
  if (!verdict.schema.empty())
    return out + "  schema:         refused\n" + Listed(verdict.schema, file);
  out += "  schema:         valid\n";
  for (const Verdict::Support& one : verdict.support) {
    out += "  " + std::string(NameOf(one.ground)) + " ";
    out += one.refused.empty() ? "this version serves it\n"
                               : "this version cannot serve it\n" + Listed(one.refused, file);
  }
  return out;
}

}  // namespace janus::cli
