#include "operator/local/node/pod_run.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "operator/kube/object.h"

namespace janus::control {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

// A field of the downward API.
Result<std::string> FieldOf(const Node& pod, const PodPlace& place, std::string_view path) {
  if (path == "status.podIP" || path == "status.hostIP") return place.ip;
  for (const std::string_view parent : {"metadata", "spec"}) {
    if (!path.starts_with(parent) || path.size() <= parent.size() || path[parent.size()] != '.') {
      continue;
    }
    const Node* found = FindAt(pod, {parent, path.substr(parent.size() + 1)});
    if (found != nullptr && found->kind == Node::Kind::kString) return found->text;
  }
  return InvalidArgument("fieldPath '" + std::string(path) + "' is not known on this machine");
}

// Expands $(NAME) as Kubernetes does: an unknown name stays, $$ becomes $.
std::string Expanded(std::string_view text, const Variables& variables) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '$' || at + 1 == text.size()) {
      out += text[at];
    } else if (text[at + 1] == '$') {
      out += '$';
      ++at;
    } else if (const size_t end = text.find(')', at);
               text[at + 1] == '(' && end != std::string_view::npos) {
      const auto found = variables.find(text.substr(at + 2, end - at - 2));
      out += found == variables.end() ? text.substr(at, end - at + 1) : found->second;
      at = end;
    } else {
      out += '$';
    }
  }
  return out;
}

// A value may use earlier variables; a value from a source is not expanded.
Result<Variables> VariablesOf(const Node& pod, const Node& container, const PodPlace& place) {
  Variables out;
  const Node* const env = FindAt(container, {"env"});
  if (env == nullptr) return out;
  for (const Node& one : env->items) {
    const std::string name(TextAt(one, {"name"}));
    if (FindAt(one, {"valueFrom"}) == nullptr) {
      out[name] = Expanded(TextAt(one, {"value"}), out);
      continue;
    }
    const std::string_view path = TextAt(one, {"valueFrom", "fieldRef", "fieldPath"});
    if (path.empty()) {
      return InvalidArgument("env " + name + ": only values and fieldRef are known here");
    }
    JANUS_ASSIGN_OR_RETURN(out[name], FieldOf(pod, place, path));
  }
  return out;
}

// Local folders by their mount path in the container.
std::map<std::string, std::string> HostFolders(const Node& pod, const Node& container) {
  std::map<std::string, std::string> out;
  const Node* const mounts = FindAt(container, {"volumeMounts"});
  const Node* const volumes = FindAt(pod, {"spec", "volumes"});
  if (mounts == nullptr || volumes == nullptr) return out;
  for (const Node& mount : mounts->items) {
    for (const Node& volume : volumes->items) {
      const std::string_view path = TextAt(volume, {"hostPath", "path"});
      if (path.empty() || TextAt(volume, {"name"}) != TextAt(mount, {"name"})) continue;
      out[std::string(TextAt(mount, {"mountPath"}))] = path;
    }
  }
  return out;
}

struct Argument {
  std::string flag;  // "--model="; empty: not a flag with a value
  std::string value;
};

Argument Split(const std::string& text) {
  const size_t equals = text.find('=');
  if (!text.starts_with("--") || equals == std::string::npos) return {"", text};
  return {text.substr(0, equals + 1), text.substr(equals + 1)};
}

std::string OnMachine(std::string value, const NodeGround& ground,
                      const std::map<std::string, std::string>& folders) {
  if (const auto found = ground.values.find(value); found != ground.values.end()) {
    return found->second;
  }
  // In reverse order, so that a mount below another is found first.
  for (auto at = folders.rbegin(); at != folders.rend(); ++at) {
    const auto& [mount, folder] = *at;
    if (value == mount || value.starts_with(mount + "/")) {
      return folder + value.substr(mount.size());
    }
  }
  return value;
}

// The port with that name or number.
Result<int64_t> PortOf(const Node& container, const Node& port) {
  if (port.kind == Node::Kind::kInteger) return port.integer;
  if (const Node* const ports = FindAt(container, {"ports"})) {
    for (const Node& one : ports->items) {
      if (TextAt(one, {"name"}) == port.text) return IntegerAt(one, {"containerPort"}).value_or(0);
    }
  }
  return InvalidArgument("a probe's port '" + port.text + "' is no port of the container");
}

Result<std::optional<Probe>> ProbeOf(const Node& container, std::string_view kind) {
  const Node* const asked = FindAt(container, {kind});
  if (asked == nullptr) return std::optional<Probe>();
  if (FindAt(*asked, {"httpGet"}) == nullptr) {
    return InvalidArgument(std::string(kind) + ": only httpGet is known here");
  }
  Probe out;
  out.path = TextAt(*asked, {"httpGet", "path"});
  const auto seconds = [&](std::string_view field, Seconds& to) {
    if (const auto given = IntegerAt(*asked, {field})) to = Seconds(static_cast<double>(*given));
  };
  seconds("periodSeconds", out.period);
  seconds("timeoutSeconds", out.timeout);
  out.failures = static_cast<int>(IntegerAt(*asked, {"failureThreshold"}).value_or(out.failures));
  return std::optional(std::move(out));
}

// The port that the container's probes use; nothing: it has no probe.
Result<std::string> ProbeAddress(const Node& container, const PodPlace& place) {
  for (const std::string_view kind : {"startupProbe", "livenessProbe", "readinessProbe"}) {
    const Node* const port = FindAt(container, {kind, "httpGet", "port"});
    if (port == nullptr) continue;
    if (port->text == "metrics" && !place.metrics_address.empty()) return place.metrics_address;
    JANUS_ASSIGN_OR_RETURN(const int64_t number, PortOf(container, *port));
    return place.ip + ":" + std::to_string(number);
  }
  return std::string();
}

std::vector<std::string> ArgumentsOf(const Node& pod, const Node& container,
                                     const Variables& variables, const NodeGround& ground,
                                     const PodPlace& place) {
  const std::map<std::string, std::string> folders = HostFolders(pod, container);
  const auto found = ground.arguments.find(std::string(TextAt(container, {"name"})));
  std::vector<std::string> ours;
  if (found != ground.arguments.end()) ours = found->second;
  if (!place.metrics_address.empty()) ours.push_back("--metrics=" + place.metrics_address);
  std::vector<std::string> out;
  if (const Node* const given = FindAt(container, {"args"})) {
    for (const Node& one : given->items) {
      Argument argument = Split(Expanded(one.text, variables));
      const bool is_replaced = !argument.flag.empty() &&
                               std::any_of(ours.begin(), ours.end(), [&](const std::string& other) {
                                 return other.starts_with(argument.flag);
                               });
      if (!is_replaced) {
        out.push_back(argument.flag + OnMachine(std::move(argument.value), ground, folders));
      }
    }
  }
  out.insert(out.end(), ours.begin(), ours.end());
  return out;
}

}  // namespace

Result<ContainerRun> RunOf(const Node& pod, const NodeGround& ground, const PodPlace& place) {
  const Node* const containers = FindAt(pod, {"spec", "containers"});
  const size_t count = containers == nullptr ? 0 : containers->items.size();
  if (count != 1 || FindAt(pod, {"spec", "initContainers"}) != nullptr) {
    return InvalidArgument("a pod of this machine has one container and no initContainers");
  }
  const Node& container = containers->items[0];
  ContainerRun out;
  out.name = TextAt(container, {"name"});
  out.image = TextAt(container, {"image"});
  const auto program = ground.programs.find(out.name);
  if (program == ground.programs.end()) {
    return InvalidArgument("there is no program for container '" + out.name + "' on this machine");
  }
  out.program = program->second;
  JANUS_ASSIGN_OR_RETURN(const Variables variables, VariablesOf(pod, container, place));
  out.environment.push_back("HOSTNAME=" + KeyOf(pod).name);
  for (const auto& [name, value] : variables) {
    if (!ground.left_out.contains(name)) out.environment.push_back(name + "=" + value);
  }
  out.arguments = ArgumentsOf(pod, container, variables, ground, place);
  JANUS_ASSIGN_OR_RETURN(out.startup, ProbeOf(container, "startupProbe"));
  JANUS_ASSIGN_OR_RETURN(out.liveness, ProbeOf(container, "livenessProbe"));
  JANUS_ASSIGN_OR_RETURN(out.readiness, ProbeOf(container, "readinessProbe"));
  // A program that listens elsewhere than on its pod's address prints its address.
  const bool listens_elsewhere =
      std::any_of(out.arguments.begin(), out.arguments.end(), [&](const std::string& one) {
        return one.starts_with("--listen=") && !one.starts_with("--listen=" + place.ip);
      });
  if (!listens_elsewhere) {
    JANUS_ASSIGN_OR_RETURN(out.probe_address, ProbeAddress(container, place));
  }
  return out;
}

}  // namespace janus::control
