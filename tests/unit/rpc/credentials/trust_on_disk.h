#pragma once

#include <filesystem>
#include <string>

#include "operator/certificates/issuer.h"
#include "rpc/credentials/identity.h"
#include "tests/support/temp_folder.h"

namespace janus {

inline const std::string kChat = ServiceAuthority("cluster.local", "team-a", "chat");
inline const std::string kOther = ServiceAuthority("cluster.local", "team-b", "chat");
inline const std::string kOperator = OperatorAuthority("cluster.local", "janus-system");

inline constexpr std::chrono::hours kDay(24);

inline control::KeyPair AuthorityOf(const std::string& uri, WallTime now) {
  return control::MakeAuthority(uri, {now - std::chrono::minutes(5), now + 365 * kDay}).value();
}
inline control::KeyPair LeafOf(const control::KeyPair& authority, const std::string& uri,
                               WallTime now, std::chrono::seconds life = 90 * kDay) {
  return control::IssueLeaf(authority, uri, {now - std::chrono::minutes(5), now + life}).value();
}

// A folder like a kubelet's for a Secret: its content is replaced atomically.
class TrustOnDisk {
 public:
  TrustOnDisk() {
    for (const char* const name : {"tls.crt", "tls.key", "ca.crt"}) {
      std::filesystem::create_symlink(std::string("..data/") + name, path() + "/" + name);
    }
  }
  TrustOnDisk(const control::KeyPair& own, const std::string& bundle) : TrustOnDisk() {
    Put(own, bundle);
  }

  void Put(const control::KeyPair& own, const std::string& bundle) {
    const std::string version = "..version-" + std::to_string(++versions_);
    std::filesystem::create_directory(path() + "/" + version);
    folder_.Write(version + "/tls.crt", own.certificate);
    folder_.Write(version + "/tls.key", own.key);
    folder_.Write(version + "/ca.crt", bundle);
    const std::string next = path() + "/..next";
    std::filesystem::create_directory_symlink(version, next);
    std::filesystem::rename(next, path() + "/..data");
  }
  const std::string& path() const { return folder_.path(); }

 private:
  TempFolder folder_;
  int versions_ = 0;
};

}  // namespace janus
