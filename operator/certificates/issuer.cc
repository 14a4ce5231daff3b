#include "operator/certificates/issuer.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <array>
#include <memory>

namespace janus::control {
namespace {

template <auto kFree>
struct Free {
  void operator()(auto* one) const { kFree(one); }
};
using X509Ptr = std::unique_ptr<X509, Free<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using BioPtr = std::unique_ptr<BIO, Free<BIO_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>>;

Status Failed(const std::string& what) {
  char text[256] = "";
  ERR_error_string_n(ERR_get_error(), text, sizeof text);
  ERR_clear_error();
  return Internal("cannot " + what + ": " + text);
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

Result<KeyPair> ToPem(const X509* certificate, const EVP_PKEY* key) {
  const BioPtr crt(BIO_new(BIO_s_mem())), pem(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(crt.get(), certificate) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(pem.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return Failed("write a certificate");
  }
  return KeyPair{TextOf(crt.get()), TextOf(pem.get())};
}

bool AddExtension(X509* to, const X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, const_cast<X509*>(issuer), to, nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension != nullptr && X509_add_ext(to, extension.get(), -1) == 1;
}

// 127 random bits: below 20 octets, and positive (RFC 5280, 4.1.2.2).
bool SetSerial(X509* to, std::string& hex) {
  std::array<unsigned char, 16> bytes;
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) return false;
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7f) | 0x40);
  constexpr char kDigits[] = "0123456789abcdef";
  for (const unsigned char byte : bytes) hex += {kDigits[byte >> 4], kDigits[byte & 15]};
  BIGNUM* const number = BN_bin2bn(bytes.data(), bytes.size(), nullptr);
  const bool is_set = BN_to_ASN1_INTEGER(number, X509_get_serialNumber(to)) != nullptr;
  BN_free(number);
  return is_set;
}

// Sets everything except issuer, extensions and signature.
bool Begin(X509* to, EVP_PKEY* key, const std::string& kind, const Validity& validity) {
  std::string serial;
  if (X509_set_version(to, X509_VERSION_3) != 1 || !SetSerial(to, serial)) return false;
  // The serial number in the name distinguishes certificates, in other tools too.
  const std::string name = "janus " + kind + " " + serial;
  X509_NAME* const subject = X509_get_subject_name(to);
  return ASN1_TIME_set(X509_getm_notBefore(to),
                       std::chrono::system_clock::to_time_t(validity.from)) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(to),
                       std::chrono::system_clock::to_time_t(validity.until)) != nullptr &&
         X509_set_pubkey(to, key) == 1 &&
         X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1,
                                    0) == 1;
}

}  // namespace

Result<KeyPair> MakeAuthority(const std::string& uri, const Validity& validity) {
  const KeyPtr key(EVP_EC_gen("P-256"));
  const X509Ptr out(X509_new());
  if (key == nullptr || !Begin(out.get(), key.get(), "authority", validity) ||
      X509_set_issuer_name(out.get(), X509_get_subject_name(out.get())) != 1 ||
      !AddExtension(out.get(), out.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !AddExtension(out.get(), out.get(), NID_key_usage, "critical,keyCertSign") ||
      !AddExtension(out.get(), out.get(), NID_subject_key_identifier, "hash") ||
      !AddExtension(out.get(), out.get(), NID_subject_alt_name, "URI:" + uri) ||
      X509_sign(out.get(), key.get(), EVP_sha256()) == 0) {
    return Failed("make an authority for " + uri);
  }
  return ToPem(out.get(), key.get());
}

Result<KeyPair> IssueLeaf(const KeyPair& authority, const std::string& uri,
                          const Validity& validity) {
  const BioPtr crt(BIO_new_mem_buf(authority.certificate.data(), -1));
  const BioPtr pem(BIO_new_mem_buf(authority.key.data(), -1));
  const X509Ptr issuer(PEM_read_bio_X509(crt.get(), nullptr, nullptr, nullptr));
  const KeyPtr signer(PEM_read_bio_PrivateKey(pem.get(), nullptr, nullptr, nullptr));
  if (issuer == nullptr || signer == nullptr) return Failed("read an authority");
  const KeyPtr key(EVP_EC_gen("P-256"));
  const X509Ptr out(X509_new());
  if (key == nullptr || !Begin(out.get(), key.get(), "member", validity) ||
      X509_set_issuer_name(out.get(), X509_get_subject_name(issuer.get())) != 1 ||
      !AddExtension(out.get(), issuer.get(), NID_basic_constraints, "critical,CA:FALSE") ||
      !AddExtension(out.get(), issuer.get(), NID_key_usage, "critical,digitalSignature") ||
      !AddExtension(out.get(), issuer.get(), NID_ext_key_usage, "serverAuth,clientAuth") ||
      !AddExtension(out.get(), issuer.get(), NID_authority_key_identifier, "keyid") ||
      !AddExtension(out.get(), issuer.get(), NID_subject_alt_name, "critical,URI:" + uri) ||
      X509_sign(out.get(), signer.get(), EVP_sha256()) == 0) {
    return Failed("issue a certificate for " + uri);
  }
  return ToPem(out.get(), key.get());
}

}  // namespace janus::control
