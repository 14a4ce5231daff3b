#include "hub/digest.h"

#include <openssl/evp.h>

#include "common/check.h"

namespace janus::hub {

struct FileDigest::State {
  State() : context(EVP_MD_CTX_new()) { JANUS_CHECK(context != nullptr, "no memory for a digest"); }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  EVP_MD_CTX* const context;
};

FileDigest::FileDigest(const RemoteFile& file) : state_(std::make_unique<State>()) {
  const bool is_git = file.sha256.empty();
  JANUS_CHECK(EVP_DigestInit_ex(state_->context, is_git ? EVP_sha1() : EVP_sha256(), nullptr) == 1,
              "OpenSSL has no such digest");
  if (!is_git) return;
  const std::string header = "blob " + std::to_string(file.size);
  Add({header.data(), header.size() + 1});  // git hashes the zero behind the header too
}

FileDigest::~FileDigest() = default;
FileDigest::FileDigest(FileDigest&&) noexcept = default;
FileDigest& FileDigest::operator=(FileDigest&&) noexcept = default;

void FileDigest::Add(std::string_view bytes) {
  JANUS_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1, bytes.size());
}

std::string FileDigest::Finish() {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  JANUS_CHECK(EVP_DigestFinal_ex(state_->context, bytes, &size) == 1, size);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (unsigned int i = 0; i < size; ++i) {
    out += kDigits[bytes[i] >> 4];
    out += kDigits[bytes[i] & 15];
  }
  return out;
}

}  // namespace janus::hub
