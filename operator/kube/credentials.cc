#include "operator/kube/credentials.h"

#include <utility>

#include "common/read_file.h"
#include "operator/api/json.h"
#include "operator/api/rfc3339.h"
#include "operator/kube/base64.h"
#include "operator/kube/object.h"
#include "operator/kube/program.h"

namespace janus::control {
namespace {

constexpr int64_t kMostFileBytes = 1 << 20;

Result<std::string> Load(const TextSource& source) {
  if (source.file.empty()) return source.text;
  JANUS_ASSIGN_OR_RETURN(std::string text, ReadFile(source.file, kMostFileBytes));
  if (text.find_first_not_of(" \t\r\n") == text.npos) {
    return FailedPrecondition(source.file + ": is empty");
  }
  return text;
}

std::string Trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return std::string();
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

Result<Credentials> RunPlugin(const ClusterConfig& config, const std::string& ca,
                              const std::stop_token& stop) {
  const ExecPlugin& plugin = *config.exec;
  Program program{plugin.command, plugin.args, plugin.environment};
  program.environment.emplace_back("KUBERNETES_EXEC_INFO", ExecInfo(config, ca));
  Result<ProgramOutput> ran = RunProgram(program, CredentialSource::kPluginTimeout, stop);
  if (!ran.ok()) {
    Status status = std::move(ran).status();
    if (status.code() == StatusCode::kNotFound && !plugin.install_hint.empty()) {
      status = NotFound(status.message() + "; " + plugin.install_hint);
    }
    return status;
  }
  if (ran->exit_code != 0) {
    return FailedPrecondition("'" + plugin.command + "' ended with " +
                              std::to_string(ran->exit_code) + ": " + Trimmed(ran->error));
  }
  return ReadExecCredential(plugin, ran->out);
}

}  // namespace

Result<Credentials> ReadExecCredential(const ExecPlugin& plugin, std::string_view printed) {
  const std::string name = "'" + plugin.command + "'";
  Result<Node> read = ParseJson(printed, name);
  if (!read.ok()) return std::move(read).status();  // never what it printed: that may be a secret
  if (TextAt(*read, {"kind"}) != "ExecCredential" ||
      TextAt(*read, {"apiVersion"}) != plugin.api_version) {
    return InvalidArgument(name + " printed no ExecCredential of " + plugin.api_version);
  }
  Credentials out;
  out.token = TextAt(*read, {"status", "token"});
  out.certificate = TextAt(*read, {"status", "clientCertificateData"});
  out.key = TextAt(*read, {"status", "clientKeyData"});
  if (out.certificate.empty() != out.key.empty()) {
    return InvalidArgument(name + ": clientCertificateData and clientKeyData come together");
  }
  if (out.token.empty() && out.certificate.empty()) {
    return InvalidArgument(name + ": status has neither a token nor clientCertificateData");
  }
  if (const std::string_view ends = TextAt(*read, {"status", "expirationTimestamp"});
      !ends.empty()) {
    Result<WallTime> time = ParseTime(ends);
    if (!time.ok()) {
      return std::move(time).status().Annotate(name + ": status.expirationTimestamp");
    }
    out.ends = *time;
  }
  return out;
}

std::string ExecInfo(const ClusterConfig& config, const std::string& ca) {
  Node info = Node::Map();
  info.Add("apiVersion", Node::String(config.exec->api_version));
  info.Add("kind", Node::String("ExecCredential"));
  SetAt(info, {"spec", "interactive"}, Node::Bool(false));
  if (config.exec->provide_cluster_info) {
    Node cluster = Node::Map();
    const std::string host =
        config.host.find(':') == std::string::npos ? config.host : "[" + config.host + "]";
    cluster.Add("server", Node::String((config.use_tls ? "https://" : "http://") + host + ":" +
                                       std::to_string(config.port) + config.path_prefix));
    if (!config.tls_server_name.empty()) {
      cluster.Add("tls-server-name", Node::String(config.tls_server_name));
    }
    if (config.insecure_skip_tls_verify) {
      cluster.Add("insecure-skip-tls-verify", Node::Bool(true));
    }
    if (!ca.empty()) cluster.Add("certificate-authority-data", Node::String(EncodeBase64(ca)));
    SetAt(info, {"spec", "cluster"}, std::move(cluster));
  }
  return WriteJson(info);
}

CredentialSource::CredentialSource(ClusterConfig config, const Clock& clock)
    : config_(std::move(config)), clock_(clock) {}

bool CredentialSource::IsPluginFresh() const {
  return last_ && !is_refused_ && (!last_->ends || clock_.WallNow() + kBeforeEnd < *last_->ends);
}

bool CredentialSource::IsFresh() const {
  if (!last_ || is_refused_) return false;
  const bool is_recent = clock_.Now() < read_at_ + kFileAge;
  if (is_failing_) return is_recent;
  if (config_.exec && !IsPluginFresh()) return false;
  const bool has_files = !config_.ca.file.empty() || !config_.token.file.empty() ||
                         !config_.client_certificate.file.empty() ||
                         !config_.client_key.file.empty();
  return !has_files || is_recent;
}

Result<Credentials> CredentialSource::Read(const std::stop_token& stop) {
  JANUS_ASSIGN_OR_RETURN(std::string ca, Load(config_.ca));
  Credentials out;
  if (config_.exec && IsPluginFresh()) {
    out = *last_;
  } else if (config_.exec) {
    JANUS_ASSIGN_OR_RETURN(out, RunPlugin(config_, ca, stop));
  } else {
    JANUS_ASSIGN_OR_RETURN(const std::string token, Load(config_.token));
    out.token = Trimmed(token);
  }
  if (!config_.client_certificate.empty()) {
    JANUS_ASSIGN_OR_RETURN(out.certificate, Load(config_.client_certificate));
    JANUS_ASSIGN_OR_RETURN(out.key, Load(config_.client_key));
  }
  out.ca = std::move(ca);
  return out;
}

Result<Credentials> CredentialSource::Get(const std::stop_token& stop) {
  const MutexLock lock(mu_);
  if (IsFresh()) return *last_;
  Result<Credentials> read = Read(stop);
  if (!read.ok() && (!last_ || stop.stop_requested())) {
    return std::move(read).status().Annotate("credentials (" + config_.origin + ")");
  }
  read_at_ = clock_.Now();
  is_refused_ = false;
  is_failing_ = !read.ok();
  if (is_failing_) return *last_;
  const bool same_tls = last_ && last_->ca == read->ca && last_->certificate == read->certificate &&
                        last_->key == read->key;
  const bool same = same_tls && last_->token == read->token;
  read->tls_version = last_ ? last_->tls_version + (same_tls ? 0 : 1) : 1;
  read->version = last_ ? last_->version + (same ? 0 : 1) : 1;
  last_ = *std::move(read);
  return *last_;
}

void CredentialSource::Refuse(uint64_t version) {
  const MutexLock lock(mu_);
  if (last_ && last_->version == version) is_refused_ = true;
}

}  // namespace janus::control
