#include "rpc/credentials/trust_folder.h"

#include <grpcpp/security/tls_certificate_provider.h>

#include <utility>

#include "common/mutex.h"
#include "common/read_file.h"
#include "rpc/credentials/call_rules.h"

namespace janus {
namespace {

constexpr int64_t kMostBytes = 1 << 20;
constexpr unsigned kLookEverySeconds = 1;
constexpr const char* kRemedy =
    "; the folder of --trust holds tls.crt, tls.key and ca.crt as the operator's Secret of this "
    "role has them";

Status Explain(const Status& status, const std::string& where = "") {
  if (status.ok()) return status;
  return {status.code(), (where.empty() ? "" : where + ": ") + status.message() + kRemedy};
}

}  // namespace

// The current ca.crt. It is read again at every handshake, which costs little. If it cannot be
// read, the last readable version counts.
class TrustFolder::Bundle {
 public:
  explicit Bundle(std::string path) : path_(std::move(path)) {}

  Result<std::shared_ptr<const TrustBundle>> Get() {
    Result<std::string> text = ReadFile(path_, kMostBytes);
    const MutexLock lock(mu_);
    if (text.ok() && (bundle_ == nullptr || *text != bundle_->text())) {
      Result<std::shared_ptr<const TrustBundle>> parsed = TrustBundle::Parse(*text);
      if (parsed.ok()) {
        bundle_ = *std::move(parsed);
      } else if (bundle_ == nullptr) {
        return parsed.status().Annotate(path_);
      }
    }
    if (bundle_ == nullptr) return text.status();
    return bundle_;
  }

 private:
  const std::string path_;
  Mutex mu_;
  std::shared_ptr<const TrustBundle> bundle_ JANUS_GUARDED_BY(mu_);
};

Result<std::shared_ptr<const TrustFolder>> TrustFolder::Open(const std::string& folder,
                                                             const Clock& clock,
                                                             RefusalCounts& refusals) {
  const std::string certificate_path = folder + "/tls.crt";
  const std::string key_path = folder + "/tls.key";
  const Result<std::string> certificate = ReadFile(certificate_path, kMostBytes);
  if (!certificate.ok()) return Explain(certificate.status());
  const Result<std::string> key = ReadFile(key_path, kMostBytes);
  if (!key.ok()) return Explain(key.status());
  if (Status fits = CheckKeyPair(*certificate, *key); !fits.ok()) {
    return Explain(fits, certificate_path + ", " + key_path);
  }
  auto bundle = std::make_shared<Bundle>(folder + "/ca.crt");
  const Result<std::shared_ptr<const TrustBundle>> trusted = bundle->Get();
  if (!trusted.ok()) return Explain(trusted.status());
  const PeerVerdict own = (*trusted)->Judge(*certificate, clock.WallNow());
  if (!own.is_accepted) {
    return FailedPrecondition(certificate_path + ": " + own.message + " (judged by " + folder +
                              "/ca.crt and this machine's clock)" + kRemedy);
  }
  std::shared_ptr<TrustFolder> out(new TrustFolder());
  out->certificate_path_ = certificate_path;
  out->identity_ = own.identity;
  out->bundle_ = std::move(bundle);
  out->own_ = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      key_path, certificate_path, folder + "/ca.crt", kLookEverySeconds);
  out->clock_ = &clock;
  out->refusals_ = &refusals;
  return std::shared_ptr<const TrustFolder>(std::move(out));
}

PeerRules TrustFolder::Rules(std::vector<PeerRole> roles) const {
  return {[bundle = bundle_] { return bundle->Get(); }, identity_.authority, std::move(roles),
          clock_, refusals_};
}

std::optional<CertificateValidity> TrustFolder::Validity() const {
  const Result<std::string> certificate = ReadFile(certificate_path_, kMostBytes);
  return certificate.ok() ? ValidityOf(*certificate) : std::nullopt;
}

std::shared_ptr<grpc::ServerCredentials> TrustFolder::Server() const {
  auto credentials = MutualTlsServer(own_, Rules({PeerRole::kOperator, PeerRole::kGateway,
                                                  PeerRole::kAttention, PeerRole::kExperts}));
  credentials->SetAuthMetadataProcessor(HoldToCallRules(*refusals_));
  return credentials;
}

std::shared_ptr<grpc::ChannelCredentials> TrustFolder::Channel() const {
  return MutualTlsChannel(own_, Rules({PeerRole::kAttention, PeerRole::kExperts}));
}

}  // namespace janus
