#include "operator/kube/credentials.h"

#include <utility>

#include "common/read_file.h"

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

}  // namespace

CredentialSource::CredentialSource(ClusterConfig config, const Clock& clock)
    : config_(std::move(config)), clock_(clock) {
  if (config_.exec) exec_.emplace(config_, clock_);
}

Status CredentialSource::ReadFiles() {
  const bool has_files = !config_.ca.file.empty() || !config_.token.file.empty() ||
                         !config_.client_certificate.file.empty() ||
                         !config_.client_key.file.empty();
  const bool is_fresh = !has_files || clock_.Now() < read_at_ + kFileAge;
  if (files_ && !is_refused_ && is_fresh) return OkStatus();
  const auto read = [this]() -> Result<Credentials> {
    Credentials out;
    JANUS_ASSIGN_OR_RETURN(out.ca, Load(config_.ca));
    JANUS_ASSIGN_OR_RETURN(const std::string token, Load(config_.token));
    out.token = Trimmed(token);
    JANUS_ASSIGN_OR_RETURN(out.certificate, Load(config_.client_certificate));
    JANUS_ASSIGN_OR_RETURN(out.key, Load(config_.client_key));
    return out;
  };
  Result<Credentials> files = read();
  if (!files.ok() && !files_) return std::move(files).status();
  read_at_ = clock_.Now();
  is_refused_ = false;
  if (files.ok()) files_ = *std::move(files);
  return OkStatus();
}

const Credentials& CredentialSource::Compose() {
  Credentials now = *files_;
  if (exec_) {
    const ExecCredential given = *exec_->last();
    now.token = given.token;
    if (config_.client_certificate.empty()) {
      now.certificate = given.certificate;
      now.key = given.key;
    }
  }
  const bool same_tls = last_ && last_->ca == now.ca && last_->certificate == now.certificate &&
                        last_->key == now.key;
  const bool same = same_tls && last_->token == now.token;
  now.tls_version = last_ ? last_->tls_version + (same_tls ? 0 : 1) : 1;
  now.version = last_ ? last_->version + (same ? 0 : 1) : 1;
  return last_.emplace(std::move(now));
}

Result<Credentials> CredentialSource::Get(const CallLimits& limits) {
  const auto annotate = [this](Status status) {
    return std::move(status).Annotate("credentials (" + config_.origin + ")");
  };
  std::string ca;
  {
    const MutexLock lock(mu_);
    if (Status read = ReadFiles(); !read.ok()) return annotate(std::move(read));
    ca = files_->ca;
  }
  if (exec_) {
    if (Status given = exec_->Await(ca, limits); !given.ok()) return annotate(std::move(given));
  }
  const MutexLock lock(mu_);
  return Compose();
}

void CredentialSource::Refuse(uint64_t version) {
  const MutexLock lock(mu_);
  if (!last_ || last_->version != version) return;
  is_refused_ = true;
  if (exec_) exec_->Refuse();
}

}  // namespace janus::control
