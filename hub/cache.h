#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "hub/names.h"

namespace janus::hub {

// The folder that Hugging Face's programs share, in the layout of huggingface_hub 2.4:
//
//   models--owner--name/blobs/<etag>                  content, named by its digest
//   models--owner--name/blobs/<etag>.incomplete       the beginning of one
//   models--owner--name/snapshots/<commit>/<file>     a link to ../../blobs/<etag>
//   models--owner--name/refs/<revision>               the text of a commit
//   .locks/models--owner--name/<etag>.lock            flock while its blob is written
//
// Names have passed the checks of names.h. Thread-safe: each call only works on files.
class Cache {
 public:
  explicit Cache(std::string root) : root_(std::move(root)) {}

  const std::string& root() const { return root_; }
  std::string RepoFolder(const std::string& repo) const;
  std::string BlobPath(const std::string& repo, const std::string& etag) const;
  std::string LockPath(const std::string& repo, const std::string& etag) const;
  std::string SnapshotFolder(const std::string& repo, const std::string& commit) const;

  // Makes the folders that a download writes to. FailedPrecondition: the cache cannot be written,
  // and which variable names another.
  Status MakeFolders(const std::string& repo, const std::string& commit) const;

  // The commit of a revision, if the cache knows it.
  std::optional<std::string> FindCommit(const ModelId& model) const;
  // Does nothing if the revision is a commit, or is known with this commit. Replaces the file at
  // once, so that readers see the old or the new text.
  Status WriteRef(const ModelId& model, const std::string& commit) const;

  // Lets a file of a snapshot be this blob. Replaces at once what has the name.
  Status Link(const std::string& repo, const std::string& commit, const std::string& name,
              const std::string& etag) const;

 private:
  const std::string root_;
};

// One commit of a model that the cache holds, maybe in part.
struct CachedSnapshot {
  std::string repo;
  std::string commit;
  std::vector<std::string> revisions;  // that stand for this commit, sorted
  std::string folder;
  int64_t bytes = 0;                 // of all its files
  std::vector<std::string> missing;  // MissingFiles
};

// All snapshots, sorted by repo and commit. Folders that are no model's are left out. Empty: there
// is no such folder. At most kMaxListed of them.
std::vector<CachedSnapshot> ListSnapshots(const Cache& cache);
inline constexpr size_t kMaxListed = 10'000;

}  // namespace janus::hub
