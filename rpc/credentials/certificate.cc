#include "rpc/credentials/certificate.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <chrono>
#include <ctime>
#include <optional>
#include <utility>

namespace janus {
namespace {

template <auto kFree>
struct Free {
  void operator()(auto* one) const { kFree(one); }
};
using X509Ptr = std::unique_ptr<X509, Free<X509_free>>;
using BioPtr = std::unique_ptr<BIO, Free<BIO_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using StorePtr = std::unique_ptr<X509_STORE, Free<X509_STORE_free>>;
using ContextPtr = std::unique_ptr<X509_STORE_CTX, Free<X509_STORE_CTX_free>>;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, Free<GENERAL_NAMES_free>>;

BioPtr Reading(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

X509Ptr NextCertificate(BIO* from) {
  return X509Ptr(PEM_read_bio_X509(from, nullptr, nullptr, nullptr));
}

// The one URI among a certificate's alternative names; nothing: there are zero or several.
std::optional<std::string> UriOf(const X509* certificate) {
  const NamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::optional<std::string> found;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    if (found) return std::nullopt;
    const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
    found.emplace(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                  static_cast<size_t>(ASN1_STRING_length(uri)));
  }
  return found;
}

std::optional<WallTime> TimeOf(const ASN1_TIME* time) {
  tm fields = {};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return std::nullopt;
  return std::chrono::system_clock::from_time_t(timegm(&fields));
}

PeerVerdict Refused(Refusal refusal, std::string message) {
  ERR_clear_error();
  return {false, {}, refusal, std::move(message)};
}

}  // namespace

std::string_view ToString(Refusal refusal) {
  switch (refusal) {
    case Refusal::kHandshake:
      return "handshake";
    case Refusal::kUnknownAuthority:
      return "unknown_authority";
    case Refusal::kExpired:
      return "expired";
    case Refusal::kIdentity:
      return "identity";
    case Refusal::kAnotherService:
      return "another_service";
    case Refusal::kRole:
      return "role";
  }
  return "";
}

Status CheckKeyPair(const std::string& certificate_pem, const std::string& key_pem) {
  const X509Ptr certificate = NextCertificate(Reading(certificate_pem).get());
  const KeyPtr key(PEM_read_bio_PrivateKey(Reading(key_pem).get(), nullptr, nullptr, nullptr));
  const bool fits = certificate != nullptr && key != nullptr &&
                    X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (certificate == nullptr) return InvalidArgument("the certificate is not PEM");
  if (key == nullptr) return InvalidArgument("the private key is not PEM");
  if (!fits) return InvalidArgument("the private key is not the one of the certificate");
  return OkStatus();
}

std::optional<CertificateValidity> ValidityOf(const std::string& certificate_pem) {
  const X509Ptr certificate = NextCertificate(Reading(certificate_pem).get());
  ERR_clear_error();
  if (certificate == nullptr) return std::nullopt;
  const std::optional<WallTime> begin = TimeOf(X509_get0_notBefore(certificate.get()));
  const std::optional<WallTime> end = TimeOf(X509_get0_notAfter(certificate.get()));
  if (!begin || !end) return std::nullopt;
  return CertificateValidity{*begin, *end};
}

struct TrustBundle::Store {
  StorePtr store{X509_STORE_new()};
};

TrustBundle::TrustBundle(std::string text, std::unique_ptr<Store> store)
    : text_(std::move(text)), store_(std::move(store)) {}
TrustBundle::~TrustBundle() = default;

Result<std::shared_ptr<const TrustBundle>> TrustBundle::Parse(const std::string& pem) {
  auto store = std::make_unique<Store>();
  const BioPtr from = Reading(pem);
  int count = 0;
  while (const X509Ptr authority = NextCertificate(from.get())) {
    ++count;
    const std::string which = "certificate " + std::to_string(count);
    if (X509_check_ca(authority.get()) != 1) {
      return InvalidArgument(which + " is not one of an authority");
    }
    if (!UriOf(authority.get())) {
      return InvalidArgument(which + " must have exactly one URI, which names the authority");
    }
    X509_STORE_add_cert(store->store.get(), authority.get());
  }
  // At the end of the text PEM_read fails with "no start line".
  const auto error = ERR_peek_last_error();
  ERR_clear_error();
  if (count == 0 || ERR_GET_REASON(error) != PEM_R_NO_START_LINE) {
    return InvalidArgument("certificate " + std::to_string(count + 1) + " is not PEM");
  }
  return std::shared_ptr<const TrustBundle>(new TrustBundle(pem, std::move(store)));
}

PeerVerdict TrustBundle::Judge(const std::string& certificate_pem, WallTime now) const {
  const X509Ptr leaf = NextCertificate(Reading(certificate_pem).get());
  if (leaf == nullptr) return Refused(Refusal::kHandshake, "the certificate cannot be read");
  const ContextPtr context(X509_STORE_CTX_new());
  if (X509_STORE_CTX_init(context.get(), store_->store.get(), leaf.get(), nullptr) != 1) {
    return Refused(Refusal::kHandshake, "the certificate cannot be judged");
  }
  X509_STORE_CTX_set_time(context.get(), 0, std::chrono::system_clock::to_time_t(now));
  if (X509_verify_cert(context.get()) != 1) {
    const int error = X509_STORE_CTX_get_error(context.get());
    const bool is_of_time =
        error == X509_V_ERR_CERT_HAS_EXPIRED || error == X509_V_ERR_CERT_NOT_YET_VALID;
    return Refused(is_of_time ? Refusal::kExpired : Refusal::kUnknownAuthority,
                   X509_verify_cert_error_string(error));
  }
  const STACK_OF(X509)* const chain = X509_STORE_CTX_get0_chain(context.get());
  const int length = sk_X509_num(chain);
  const std::optional<std::string> uri = UriOf(leaf.get());
  const std::optional<std::string> authority = UriOf(sk_X509_value(chain, length - 1));
  if (!uri) return Refused(Refusal::kIdentity, "the certificate does not carry one URI");
  const std::optional<Identity> identity = ParseIdentity(*uri);
  if (!identity || !authority || length != 2 || identity->authority != *authority) {
    return Refused(Refusal::kIdentity,
                   "'" + *uri + "' is no name that " + authority.value_or("") + " may give");
  }
  ERR_clear_error();
  return {true, *identity, {}, {}};
}

}  // namespace janus
