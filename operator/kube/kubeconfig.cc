// Implements ParseKubeconfig and LoadKubeconfig of cluster_config.h.

#include <algorithm>
#include <filesystem>
#include <vector>

#include "common/base64.h"
#include "common/read_file.h"
#include "operator/api/yaml.h"
#include "operator/kube/cluster_config.h"
#include "operator/kube/object.h"
#include "operator/kube/server_url.h"

namespace janus::control {
namespace {

constexpr int64_t kMostBytes = 1 << 20;

struct Config {
  std::string file;
  Node root;
};

struct Found {
  const Node* node = nullptr;  // null: not found
  const Config* config = nullptr;
};

// Finds an entry in a list of {name, <noun>: {...}}; a kubeconfig has three such lists. The first
// entry of that name is used, without fields of later ones.
Found Named(const std::vector<Config>& configs, std::string_view list, std::string_view noun,
            std::string_view name) {
  for (const Config& config : configs) {
    const Node* const entries = config.root.Find(list);
    if (entries == nullptr) continue;
    for (const Node& entry : entries->items) {
      if (TextAt(entry, {"name"}) == name) return {entry.Find(noun), &config};
    }
  }
  return {};
}

std::string NamesIn(const std::vector<Config>& configs, std::string_view list) {
  std::vector<std::string_view> names;
  for (const Config& config : configs) {
    const Node* const entries = config.root.Find(list);
    if (entries == nullptr) continue;
    for (const Node& entry : entries->items) {
      const std::string_view name = TextAt(entry, {"name"});
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  std::string out;
  for (const std::string_view name : names) {
    out += out.empty() ? "'" : ", '";
    out += name;
    out += "'";
  }
  return out.empty() ? "there are none" : "there are " + out;
}

// A part of the file, such as a cluster or user.
class Section {
 public:
  Section(const Node& node, std::string file, std::string path)
      : node_(node), file_(std::move(file)), path_(std::move(path)) {}

  Status Fail(std::string_view field, const std::string& message) const {
    return InvalidArgument(file_ + ": " + path_ + "." + std::string(field) + ": " + message);
  }
  bool Has(std::string_view field) const {
    const Node* const node = node_.Find(field);
    return node != nullptr && node->kind != Node::Kind::kNull;
  }
  Result<std::string> Text(std::string_view field) const {
    const Node* const node = node_.Find(field);
    if (node == nullptr || node->kind == Node::Kind::kNull) return std::string();
    if (node->kind == Node::Kind::kString) return node->text;
    return Fail(field, "must be a string, is " + std::string(Describe(node->kind)));
  }
  Result<bool> Bool(std::string_view field) const {
    const Node* const node = node_.Find(field);
    if (node == nullptr || node->kind == Node::Kind::kNull) return false;
    if (node->kind == Node::Kind::kBool) return node->boolean;
    return Fail(field, "must be a boolean, is " + std::string(Describe(node->kind)));
  }
  // Empty: no such field.
  Result<std::vector<Node>> List(std::string_view field, const std::string& what) const {
    const Node* const node = node_.Find(field);
    if (node == nullptr || node->kind == Node::Kind::kNull) return std::vector<Node>();
    if (node->kind == Node::Kind::kList) return node->items;
    return Fail(field, "must be a list of " + what + ", is " + std::string(Describe(node->kind)));
  }
  // The base64 content of <field>-data, or else the file that <field> names.
  Result<TextSource> DataOrFile(const std::string& field, std::string_view first_line) const {
    JANUS_ASSIGN_OR_RETURN(const std::string data, Text(field + "-data"));
    TextSource out;
    if (!data.empty()) {
      Result<std::string> decoded = DecodeBase64(data);
      if (!decoded.ok()) return Fail(field + "-data", decoded.status().message());
      if (decoded->find(first_line) == std::string::npos) {
        return Fail(field + "-data", "holds no PEM (" + std::string(first_line) + "...)");
      }
      out.text = *std::move(decoded);
      return out;
    }
    JANUS_ASSIGN_OR_RETURN(const std::string file, Text(field));
    if (!file.empty()) out.file = Beside(file);
    return out;
  }
  // Resolves a path relative to the kubeconfig's folder.
  std::string Beside(const std::string& path) const {
    return (std::filesystem::path(file_).parent_path() / path).lexically_normal().string();
  }
  // An empty field does not count as set: templates leave such fields behind.
  Status Refuse(std::string_view field, const std::string& instead) const {
    const Node* const node = node_.Find(field);
    const bool is_empty =
        node == nullptr || (node->kind != Node::Kind::kBool && node->text.empty() &&
                            node->items.empty() && node->fields.empty());
    return is_empty ? OkStatus() : Fail(field, "is not supported; " + instead);
  }
  const Node* Find(std::string_view field) const { return node_.Find(field); }
  const std::string& path() const { return path_; }
  const std::string& file() const { return file_; }

 private:
  const Node& node_;
  const std::string file_;
  const std::string path_;
};

// The cluster extension for exec plugins.
Result<Node> ReadPluginConfig(const Section& cluster) {
  JANUS_ASSIGN_OR_RETURN(const std::vector<Node> extensions,
                         cluster.List("extensions", "{name, extension}"));
  for (const Node& one : extensions) {
    if (TextAt(one, {"name"}) != "client.authentication.k8s.io/exec") continue;
    if (const Node* const config = one.Find("extension")) return *config;
  }
  return Node();
}

Status ReadCluster(const Section& cluster, ClusterConfig& out) {
  JANUS_ASSIGN_OR_RETURN(const std::string server, cluster.Text("server"));
  if (server.empty()) return cluster.Fail("server", "is required: the API server's URL");
  Result<ServerUrl> url = ParseServerUrl(server);
  if (!url.ok()) return cluster.Fail("server", url.status().message());
  out.use_tls = url->use_tls;
  out.host = url->host;
  out.port = url->port;
  out.path_prefix = url->path_prefix;
  JANUS_ASSIGN_OR_RETURN(out.tls_server_name, cluster.Text("tls-server-name"));
  JANUS_ASSIGN_OR_RETURN(out.insecure_skip_tls_verify, cluster.Bool("insecure-skip-tls-verify"));
  JANUS_ASSIGN_OR_RETURN(out.ca, cluster.DataOrFile("certificate-authority", "-----BEGIN"));
  if (out.insecure_skip_tls_verify && !out.ca.empty()) {
    return cluster.Fail("insecure-skip-tls-verify",
                        "is true and a certificate-authority is given; leave one of them out");
  }
  JANUS_ASSIGN_OR_RETURN(out.plugin_config, ReadPluginConfig(cluster));
  return cluster.Refuse("proxy-url", "connect to the API server without a proxy");
}

std::string Entry(const std::string& list, size_t index) {
  return list + "[" + std::to_string(index) + "]";
}

Result<ExecPlugin> ReadExec(const Section& exec) {
  ExecPlugin out;
  JANUS_ASSIGN_OR_RETURN(out.api_version, exec.Text("apiVersion"));
  if (out.api_version != "client.authentication.k8s.io/v1" &&
      out.api_version != "client.authentication.k8s.io/v1beta1") {
    return exec.Fail("apiVersion", "is '" + out.api_version +
                                       "'; use client.authentication.k8s.io/v1 or "
                                       "client.authentication.k8s.io/v1beta1");
  }
  JANUS_ASSIGN_OR_RETURN(out.command, exec.Text("command"));
  if (out.command.empty()) return exec.Fail("command", "is required: the program to run");
  if (out.command.find('/') != std::string::npos) out.command = exec.Beside(out.command);
  JANUS_ASSIGN_OR_RETURN(out.install_hint, exec.Text("installHint"));
  JANUS_ASSIGN_OR_RETURN(out.provide_cluster_info, exec.Bool("provideClusterInfo"));
  JANUS_ASSIGN_OR_RETURN(const std::string mode, exec.Text("interactiveMode"));
  if (mode == "Always") {
    return exec.Fail("interactiveMode", "is Always, but there is no terminal");
  }
  JANUS_ASSIGN_OR_RETURN(const std::vector<Node> args, exec.List("args", "strings"));
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].kind != Node::Kind::kString) {
      return exec.Fail(
          Entry("args", i),
          "must be a string, is " + std::string(Describe(args[i].kind)) + "; write it in quotes");
    }
    out.args.push_back(args[i].text);
  }
  JANUS_ASSIGN_OR_RETURN(const std::vector<Node> variables, exec.List("env", "{name, value}"));
  for (size_t i = 0; i < variables.size(); ++i) {
    const Section variable(variables[i], exec.file(), exec.path() + "." + Entry("env", i));
    JANUS_ASSIGN_OR_RETURN(std::string name, variable.Text("name"));
    if (name.empty()) return variable.Fail("name", "is required: the variable to set");
    JANUS_ASSIGN_OR_RETURN(std::string value, variable.Text("value"));
    out.environment.emplace_back(std::move(name), std::move(value));
  }
  return out;
}

Status ReadUser(const Section& user, ClusterConfig& out) {
  for (const std::string_view field : {"username", "password"}) {
    JANUS_RETURN_IF_ERROR(user.Refuse(
        field, "API servers take no passwords; use a token, a client certificate or exec"));
  }
  JANUS_RETURN_IF_ERROR(user.Refuse("auth-provider", "use exec"));
  for (const std::string_view field : {"as", "as-uid", "as-groups", "as-user-extra"}) {
    JANUS_RETURN_IF_ERROR(user.Refuse(field, "name the user to act as in another way"));
  }
  JANUS_ASSIGN_OR_RETURN(out.client_certificate,
                         user.DataOrFile("client-certificate", "-----BEGIN CERTIFICATE"));
  JANUS_ASSIGN_OR_RETURN(out.client_key, user.DataOrFile("client-key", "-----BEGIN"));
  if (out.client_certificate.empty() != out.client_key.empty()) {
    return user.Fail(out.client_key.empty() ? "client-key" : "client-certificate",
                     "is missing; certificate and key come together");
  }
  // As in kubectl, tokenFile has precedence over token.
  JANUS_ASSIGN_OR_RETURN(const std::string token_file, user.Text("tokenFile"));
  if (!token_file.empty()) {
    out.token.file = user.Beside(token_file);
  } else {
    JANUS_ASSIGN_OR_RETURN(out.token.text, user.Text("token"));
  }
  if (const Node* const exec = user.Find("exec"); exec != nullptr && user.Has("exec")) {
    if (!out.token.empty()) return user.Fail("exec", "is given beside a token; leave one out");
    JANUS_ASSIGN_OR_RETURN(out.exec, ReadExec(Section(*exec, user.file(), user.path() + ".exec")));
  }
  return OkStatus();
}

Result<ClusterConfig> Choose(const std::vector<Config>& configs, const std::string& context) {
  std::string files;
  std::string name = context;
  for (const Config& config : configs) {
    files += (files.empty() ? "" : ":") + config.file;
    if (name.empty()) name = TextAt(config.root, {"current-context"});
  }
  const auto fail = [](const std::string& file, const std::string& path,
                       const std::string& message) {
    return InvalidArgument(file + ": " + path + ": " + message);
  };
  if (name.empty()) {
    return fail(files, "current-context",
                "is not set, and no context was asked for; " + NamesIn(configs, "contexts"));
  }
  const Found chosen = Named(configs, "contexts", "context", name);
  if (chosen.node == nullptr) {
    return fail(files, "contexts", "no context '" + name + "'; " + NamesIn(configs, "contexts"));
  }
  const std::string& own = chosen.config->file;
  const auto find = [&](std::string_view list, std::string_view noun) -> Result<Section> {
    const std::string wanted(TextAt(*chosen.node, {noun}));
    const Found found = Named(configs, list, noun, wanted);
    if (found.node == nullptr) {
      return fail(own, "contexts[" + name + "]." + std::string(noun),
                  "no " + std::string(noun) + " '" + wanted + "'; " + NamesIn(configs, list));
    }
    return Section(*found.node, found.config->file,
                   std::string(list) + "[" + wanted + "]." + std::string(noun));
  };
  ClusterConfig out;
  out.origin = own + ", context '" + name + "'";
  JANUS_ASSIGN_OR_RETURN(const Section cluster, find("clusters", "cluster"));
  JANUS_RETURN_IF_ERROR(ReadCluster(cluster, out));
  if (!TextAt(*chosen.node, {"user"}).empty()) {
    JANUS_ASSIGN_OR_RETURN(const Section user, find("users", "user"));
    JANUS_RETURN_IF_ERROR(ReadUser(user, out));
  }
  if (const std::string_view ours = TextAt(*chosen.node, {"namespace"}); !ours.empty()) {
    out.namespace_ = ours;
  }
  return out;
}

}  // namespace

Result<ClusterConfig> ParseKubeconfig(std::string_view text, const std::string& file,
                                      const std::string& context) {
  std::vector<Config> configs;
  JANUS_ASSIGN_OR_RETURN(Node root, ParseYaml(text, file));
  configs.push_back({file, std::move(root)});
  return Choose(configs, context);
}

Result<ClusterConfig> LoadKubeconfig(const std::string& files, const std::string& context) {
  std::vector<Config> configs;
  Status missing = NotFound("no kubeconfig is named");
  for (std::string_view rest = files; !rest.empty();) {
    const std::string file(rest.substr(0, rest.find(':')));
    rest.remove_prefix(std::min(rest.size(), file.size() + 1));
    if (file.empty()) continue;
    const Result<std::string> text = ReadFile(file, kMostBytes);
    if (!text.ok()) {
      if (text.status().code() != StatusCode::kNotFound) return text.status();
      if (configs.empty()) missing = text.status();
      continue;
    }
    // Paths are relative to the file's folder, even if our working folder changes later.
    const std::string place = std::filesystem::absolute(file).lexically_normal().string();
    JANUS_ASSIGN_OR_RETURN(Node root, ParseYaml(*text, place));
    configs.push_back({place, std::move(root)});
  }
  if (configs.empty()) return missing;
  return Choose(configs, context);
}

}  // namespace janus::control
