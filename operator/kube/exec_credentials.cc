#include "operator/kube/exec_credentials.h"

#include <algorithm>
#include <utility>

#include "common/base64.h"
#include "common/check.h"
#include "operator/api/json.h"
#include "operator/api/rfc3339.h"
#include "operator/kube/object.h"
#include "operator/kube/program.h"

namespace janus::control {
namespace {

Result<ExecCredential> RunPlugin(const ClusterConfig& config, const std::string& ca,
                                 const std::stop_token& stop) {
  const ExecPlugin& plugin = *config.exec;
  Program program{plugin.command, plugin.args, plugin.environment};
  program.environment.emplace_back("KUBERNETES_EXEC_INFO", ExecInfo(config, ca));
  Result<ProgramOutput> ran = RunProgram(program, ExecCredentials::kTimeout, stop);
  if (!ran.ok()) {
    Status status = std::move(ran).status();
    if (status.code() == StatusCode::kNotFound && !plugin.install_hint.empty()) {
      status = NotFound(status.message() + "; " + plugin.install_hint);
    }
    return status;
  }
  if (ran->exit_code != 0) {
    while (ran->error.ends_with('\n')) ran->error.pop_back();
    return FailedPrecondition("'" + plugin.command + "' ended with " +
                              std::to_string(ran->exit_code) + ": " + ran->error);
  }
  return ReadExecCredential(plugin, ran->out);
}

}  // namespace

Result<ExecCredential> ReadExecCredential(const ExecPlugin& plugin, std::string_view printed) {
  const std::string name = "'" + plugin.command + "'";
  Result<Node> read = ParseJson(printed, name);
  if (!read.ok())
    return std::move(read).status();  // never show the output, which may contain a
                                      // secret
  if (TextAt(*read, {"kind"}) != "ExecCredential" ||
      TextAt(*read, {"apiVersion"}) != plugin.api_version) {
    return InvalidArgument(name + " printed no ExecCredential of " + plugin.api_version);
  }
  ExecCredential out;
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
    if (config.plugin_config.kind != Node::Kind::kNull) {
      cluster.Add("config", config.plugin_config);
    }
    SetAt(info, {"spec", "cluster"}, std::move(cluster));
  }
  return WriteJson(info);
}

ExecCredentials::ExecCredentials(const ClusterConfig& config, const Clock& clock)
    : config_(config), clock_(clock) {
  JANUS_CHECK(config_.exec.has_value(), config_.origin);
}

ExecCredentials::~ExecCredentials() {
  std::jthread last;
  {
    const MutexLock lock(mu_);
    last = std::move(runner_);
  }
  // Stopped and joined here without the lock, which it takes at its end.
}

std::optional<ExecCredential> ExecCredentials::last() const {
  const MutexLock lock(mu_);
  return last_;
}

void ExecCredentials::Refuse() {
  const MutexLock lock(mu_);
  is_refused_ = true;
}

bool ExecCredentials::MayBeUsed(WallTime now) const {
  if (!last_ || is_refused_) return false;
  if (!last_->ends || now < *last_->ends) return true;
  return !error_.ok() && clock_.Now() < ended_at_ + kAfterFailure;
}

bool ExecCredentials::IsTimeToRun(WallTime now) const {
  if (!last_ || is_refused_) return true;
  if (!error_.ok()) return clock_.Now() >= ended_at_ + kAfterFailure;
  if (!last_->ends) return false;
  const Seconds ahead = std::min(kBeforeEnd, Seconds(*last_->ends - since_) / 4);
  return Seconds(*last_->ends - now) <= std::max(ahead, Seconds(0));
}

void ExecCredentials::Start(const std::string& ca) {
  is_running_ = true;
  runner_ = std::jthread(
      [this, ca](const std::stop_token& stop) { Ended(RunPlugin(config_, ca, stop)); });
}

void ExecCredentials::Ended(Result<ExecCredential> ran) {
  const MutexLock lock(mu_);
  is_running_ = false;
  is_refused_ = false;
  ++runs_ended_;
  ended_at_ = clock_.Now();
  error_ = ran.status();
  if (ran.ok()) {
    last_ = *std::move(ran);
    since_ = clock_.WallNow();
  }
  changed_.NotifyAll();
}

Status ExecCredentials::Await(const std::string& ca, const CallLimits& limits) {
  // Programs run in real time.
  const MonotonicTime until =
      MonotonicClock::now() + std::chrono::duration_cast<MonotonicClock::duration>(limits.timeout);
  const std::stop_callback wake(limits.stop, [this] {
    const MutexLock lock(mu_);
    changed_.NotifyAll();
  });
  const MutexLock lock(mu_);
  const uint64_t before = runs_ended_;
  for (;;) {
    const WallTime now = clock_.WallNow();
    // Take the result of a run that we waited for, even if the credentials have expired already.
    const bool is_answered = runs_ended_ != before;
    if (!is_answered && !is_running_ && IsTimeToRun(now)) Start(ca);
    if (MayBeUsed(now)) return OkStatus();
    if (is_answered) return last_ ? OkStatus() : error_;
    const std::string name = "'" + config_.exec->command + "'";
    if (limits.stop.stop_requested()) return Cancelled("stopped waiting for " + name);
    if (MonotonicClock::now() >= until) {
      return DeadlineExceeded(name + " has printed no credentials in the call's time");
    }
    changed_.WaitUntil(mu_, until);
  }
}

}  // namespace janus::control
