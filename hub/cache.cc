#include "hub/cache.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <tuple>

#include "common/read_file.h"
#include "hub/selection.h"

namespace janus::hub {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxRefBytes = 256;

Status NotWritable(const std::string& path, const std::string& why) {
  return FailedPrecondition(path + ": " + why +
                            "; set HF_HUB_CACHE to a folder that can be written");
}

// A name beside `path` that no other thread or process uses.
std::string Beside(const std::string& path) {
  static std::atomic<uint64_t> count = 0;
  return path + "." + std::to_string(getpid()) + "-" + std::to_string(++count) + ".tmp";
}

Status Replace(const std::string& by, const std::string& path) {
  if (rename(by.c_str(), path.c_str()) == 0) return OkStatus();
  const int error = errno;
  unlink(by.c_str());
  return NotWritable(path, std::strerror(error));
}

// The text of a ref, if it is a commit.
std::optional<std::string> ReadRef(const std::string& path) {
  Result<std::string> text = ReadFile(path, kMaxRefBytes);
  if (!text.ok()) return std::nullopt;
  while (!text->empty() && (text->back() == '\n' || text->back() == ' ')) text->pop_back();
  return IsCommit(*text) ? std::optional(*std::move(text)) : std::nullopt;
}

// The revisions of a model, by commit.
std::multimap<std::string, std::string> ReadRefs(const std::string& repo_folder) {
  std::multimap<std::string, std::string> out;
  const fs::path refs = repo_folder + "/refs";
  std::error_code error;
  for (fs::recursive_directory_iterator at(refs, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code none;
    if (!at->is_regular_file(none) || out.size() >= kMaxListed) continue;
    const std::string revision = at->path().lexically_relative(refs).string();
    const std::optional<std::string> commit = ReadRef(at->path().string());
    if (commit && CheckRevision(revision).ok()) out.emplace(*commit, revision);
  }
  return out;
}

int64_t BytesIn(const std::string& folder) {
  int64_t out = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code none;
    if (!at->is_regular_file(none)) continue;
    const uintmax_t size = at->file_size(none);
    if (!none) out += static_cast<int64_t>(size);
  }
  return out;
}

}  // namespace

std::string Cache::RepoFolder(const std::string& repo) const {
  return root_ + "/" + CacheFolderOf(repo);
}

std::string Cache::BlobPath(const std::string& repo, const std::string& etag) const {
  return RepoFolder(repo) + "/blobs/" + etag;
}

std::string Cache::LockPath(const std::string& repo, const std::string& etag) const {
  return root_ + "/.locks/" + CacheFolderOf(repo) + "/" + etag + ".lock";
}

std::string Cache::SnapshotFolder(const std::string& repo, const std::string& commit) const {
  return RepoFolder(repo) + "/snapshots/" + commit;
}

Status Cache::MakeFolders(const std::string& repo, const std::string& commit) const {
  for (const std::string& folder :
       {RepoFolder(repo) + "/blobs", SnapshotFolder(repo, commit), RepoFolder(repo) + "/refs",
        root_ + "/.locks/" + CacheFolderOf(repo)}) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) return NotWritable(folder, error.message());
    if (access(folder.c_str(), W_OK | X_OK) != 0) {
      return NotWritable(folder, std::strerror(errno));
    }
  }
  return OkStatus();
}

std::optional<std::string> Cache::FindCommit(const ModelId& model) const {
  if (IsCommit(model.revision)) return model.revision;
  return ReadRef(RepoFolder(model.repo) + "/refs/" + model.revision);
}

Status Cache::WriteRef(const ModelId& model, const std::string& commit) const {
  if (FindCommit(model) == commit) return OkStatus();
  const std::string path = RepoFolder(model.repo) + "/refs/" + model.revision;
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  const std::string written = Beside(path);
  std::ofstream out(written, std::ios::trunc);
  out << commit;
  out.close();
  if (!out) return NotWritable(path, "cannot be written");
  return Replace(written, path);
}

Status Cache::Link(const std::string& repo, const std::string& commit, const std::string& name,
                   const std::string& etag) const {
  const std::string path = SnapshotFolder(repo, commit) + "/" + name;
  const std::string target = "../../blobs/" + etag;
  std::error_code error;
  if (fs::read_symlink(path, error) == target && !error) return OkStatus();
  const std::string made = Beside(path);
  if (symlink(target.c_str(), made.c_str()) != 0) return NotWritable(path, std::strerror(errno));
  return Replace(made, path);
}

std::vector<CachedSnapshot> ListSnapshots(const Cache& cache) {
  std::vector<CachedSnapshot> out;
  std::error_code error;
  for (fs::directory_iterator model(cache.root(), error), end; !error && model != end;
       model.increment(error)) {
    const std::string repo = RepoOfCacheFolder(model->path().filename().string());
    if (repo.empty()) continue;
    const std::multimap<std::string, std::string> refs = ReadRefs(model->path().string());
    std::error_code inner;
    for (fs::directory_iterator at(model->path() / "snapshots", inner); !inner && at != end;
         at.increment(inner)) {
      const std::string commit = at->path().filename().string();
      if (!IsCommit(commit) || out.size() >= kMaxListed) continue;
      CachedSnapshot snapshot{repo, commit, {}, at->path().string(), 0, {}};
      const auto [first, last] = refs.equal_range(commit);
      for (auto ref = first; ref != last; ++ref) snapshot.revisions.push_back(ref->second);
      std::ranges::sort(snapshot.revisions);
      snapshot.bytes = BytesIn(snapshot.folder);
      snapshot.missing = MissingFiles(snapshot.folder);
      out.push_back(std::move(snapshot));
    }
  }
  std::ranges::sort(out, [](const CachedSnapshot& a, const CachedSnapshot& b) {
    return std::tie(a.repo, a.commit) < std::tie(b.repo, b.commit);
  });
  return out;
}

}  // namespace janus::hub
