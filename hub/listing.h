#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace janus::hub {

inline constexpr size_t kMaxListingBytes = size_t{64} << 20;
inline constexpr size_t kMaxListedFiles = 100'000;
inline constexpr int64_t kMaxFileBytes = int64_t{1} << 46;

// One file of a model on the hub.
struct RemoteFile {
  std::string name;  // IsPlainFileName
  int64_t size = 0;  // bytes, 0..kMaxFileBytes
  std::string sha1;  // of the git blob; of a large file: of its pointer
  // Of the content of a large file (LFS). Empty: the file lies in git itself.
  std::string sha256;

  // The name of its blob in the cache.
  const std::string& etag() const { return sha256.empty() ? sha1 : sha256; }
};

// The files at the top of a model's repository, sorted by name, at one commit. Files in folders,
// and files with names that are not plain, are left out: no name leads out of the cache's folder.
struct Listing {
  std::string commit;  // IsCommit
  std::vector<RemoteFile> files;

  // null: no such file.
  const RemoteFile* Find(std::string_view name) const;
};

// Reads the reply to GET /api/models/{repo}/revision/{revision}?blobs=true, with the fields of the
// hub's own client (ModelInfo and RepoSibling of huggingface_hub). InvalidArgument: no such JSON,
// no digest or size of a file, numbers out of bounds, two files of one name. Pure.
Result<Listing> ParseListing(std::string_view json);

}  // namespace janus::hub
