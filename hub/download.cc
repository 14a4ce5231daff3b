#include "hub/download.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/format.h"
#include "common/mutex.h"
#include "hub/blob_file.h"
#include "hub/cache.h"
#include "hub/file_lock.h"
#include "hub/hub_client.h"
#include "hub/selection.h"

namespace janus::hub {
namespace {

// -1: no such file.
int64_t SizeOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) ? info.st_size : -1;
}

std::string Gigabytes(int64_t bytes) {
  return Format("%.1f GB", static_cast<double>(bytes) / 1e9);
}

// Names at most three of them.
std::string Listed(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(names.size(), 3); ++i) {
    out += (i == 0 ? "" : ", ") + names[i];
  }
  return names.size() > 3 ? out + " and " + std::to_string(names.size() - 3) + " more" : out;
}

class Downloader {
 public:
  Downloader(const Settings& settings, const ModelId& model, const DownloadOptions& options,
             Progress& progress, const std::stop_token& stop)
      : settings_(settings),
        model_(model),
        options_(options),
        progress_(progress),
        stop_(stop),
        cache_(settings.cache),
        client_(settings) {}

  Result<LocalModel> Run() {
    if (settings_.offline) return FromCache();
    if (IsCommit(model_.revision) && options_.weights && MissingHere().empty()) return FromCache();
    Result<Listing> listing = client_.List(model_, stop_);
    if (!listing.ok()) {
      const bool is_network =
          client_.was_never_reached() && listing.status().code() == StatusCode::kUnavailable;
      if (!is_network || !MissingHere().empty()) return std::move(listing).status();
      JANUS_ASSIGN_OR_RETURN(LocalModel out, FromCache());
      out.note = listing.status().message();
      return out;
    }
    return FromHub(*listing);
  }

 private:
  // What the cache lacks of the wanted files; if it knows no such commit: config.json.
  std::vector<std::string> MissingHere() const {
    const std::optional<std::string> commit = cache_.FindCommit(model_);
    if (!commit) return {std::string(kConfigFile)};
    std::vector<std::string> missing = MissingFiles(cache_.SnapshotFolder(model_.repo, *commit));
    std::erase_if(missing, [&](const std::string& name) {
      const bool is_small = IsSmallFile(name);
      return options_.weights ? !is_small && options_.wants && !options_.wants(name) : !is_small;
    });
    return missing;
  }

  Result<LocalModel> FromCache() const {
    const std::vector<std::string> missing = MissingHere();
    if (!missing.empty()) {
      return NotFound(model_.repo + "@" + model_.revision + ": the cache in " + cache_.root() +
                      " lacks " + Listed(missing) +
                      ", and HF_HUB_OFFLINE is set; unset it to download them");
    }
    LocalModel out;
    out.commit = *cache_.FindCommit(model_);
    out.folder = cache_.SnapshotFolder(model_.repo, out.commit);
    if (options_.judge) JANUS_RETURN_IF_ERROR(options_.judge(out.folder));
    return out;
  }

  Result<LocalModel> FromHub(const Listing& listing) {
    Result<std::vector<RemoteFile>> small = SmallFilesOf(listing);
    if (!small.ok()) return std::move(small).status().Annotate(model_.repo);
    JANUS_RETURN_IF_ERROR(cache_.MakeFolders(model_.repo, listing.commit));
    LocalModel out;
    out.commit = listing.commit;
    out.folder = cache_.SnapshotFolder(model_.repo, out.commit);
    JANUS_RETURN_IF_ERROR(FetchAll(Progress::Phase::kSmallFiles, out.commit, *small));
    if (options_.judge) JANUS_RETURN_IF_ERROR(options_.judge(out.folder));
    JANUS_ASSIGN_OR_RETURN(const std::vector<RemoteFile> weights, Weights(listing, out.folder));
    for (const RemoteFile& file : weights) {
      out.weight_bytes += file.size;
      out.weight_bytes_held += HeldOf(file);
    }
    if (!options_.weights) return out;
    JANUS_RETURN_IF_ERROR(CheckSpace(out.weight_bytes - out.weight_bytes_held));
    JANUS_RETURN_IF_ERROR(FetchAll(Progress::Phase::kWeights, out.commit, weights));
    // Last, so that without the hub the revision stands for all that is wanted.
    JANUS_RETURN_IF_ERROR(cache_.WriteRef(model_, out.commit));
    return out;
  }

  Result<std::vector<RemoteFile>> Weights(const Listing& listing, const std::string& folder) const {
    JANUS_ASSIGN_OR_RETURN(const std::vector<std::string> names, ReadShardNames(folder));
    std::vector<RemoteFile> out;
    for (const std::string& name : names) {
      if (options_.wants && !options_.wants(name)) continue;
      const RemoteFile* const file = listing.Find(name);
      if (file == nullptr) {
        return NotFound(model_.repo + ": " + std::string(kIndexFile) + " names " + name +
                        ", which the model does not have; choose another revision");
      }
      out.push_back(*file);
    }
    return out;
  }

  // Bytes of a file that are on this machine.
  int64_t HeldOf(const RemoteFile& file) const {
    const std::string blob = cache_.BlobPath(model_.repo, file.etag());
    if (SizeOf(blob) == file.size) return file.size;
    const int64_t held = SizeOf(blob + ".incomplete");
    return held > file.size ? 0 : std::max<int64_t>(held, 0);
  }

  Status CheckSpace(int64_t needed) const {
    struct statvfs disk {};
    if (statvfs(cache_.root().c_str(), &disk) != 0) return OkStatus();
    const auto free = static_cast<int64_t>(disk.f_bavail * disk.f_frsize);
    if (needed <= free) return OkStatus();
    return ResourceExhausted(model_.repo + " needs " + Gigabytes(needed) + " more in " +
                             cache_.root() + ", which has " + Gigabytes(free) +
                             " free; free some space, or set HF_HUB_CACHE to a larger disk");
  }

  // Fetches all, several at a time. The first error ends the others.
  Status FetchAll(Progress::Phase phase, const std::string& commit,
                  const std::vector<RemoteFile>& files) {
    int64_t bytes = 0;
    for (const RemoteFile& file : files) bytes += file.size;
    progress_.Begin(phase, static_cast<int>(files.size()), bytes);
    std::stop_source stop;
    const std::stop_callback forward(stop_, [&] { stop.request_stop(); });
    std::atomic<size_t> next = 0;
    Mutex mu;
    Status first;
    const auto work = [&] {
      for (size_t i = next++; i < files.size() && !stop.stop_requested(); i = next++) {
        Status status = FetchOne(commit, files[i], stop.get_token());
        if (status.ok()) continue;
        const MutexLock lock(mu);
        if (first.ok()) first = std::move(status);
        stop.request_stop();
      }
    };
    {
      std::vector<std::jthread> threads;
      const size_t count = std::min<size_t>(files.size(), static_cast<size_t>(options_.threads));
      for (size_t i = 0; i < count; ++i) threads.emplace_back(work);
    }
    if (stop_.stop_requested()) return Cancelled("stopped");
    return first;
  }

  Status FetchOne(const std::string& commit, const RemoteFile& file, const std::stop_token& stop) {
    const std::string blob = cache_.BlobPath(model_.repo, file.etag());
    if (SizeOf(blob) != file.size) {
      Status status = FetchBlob(commit, file, blob, stop);
      const bool has_name =
          status.code() == StatusCode::kNotFound || status.code() == StatusCode::kPermissionDenied;
      if (!status.ok()) return has_name ? status : std::move(status).Annotate(model_.repo);
    } else {
      progress_.AddHeld(file.size);
    }
    progress_.EndFile();
    return cache_.Link(model_.repo, commit, file.name, file.etag());
  }

  Status FetchBlob(const std::string& commit, const RemoteFile& file, const std::string& blob,
                   const std::stop_token& stop) {
    bool waits = false;
    Result<FileLock> lock = FileLock::Take(
        cache_.LockPath(model_.repo, file.etag()),
        [&] {
          waits = true;
          progress_.AddWaiting(1);
        },
        stop);
    if (waits) progress_.AddWaiting(-1);
    JANUS_RETURN_IF_ERROR(lock.status());
    if (SizeOf(blob) == file.size) {  // another process has fetched it meanwhile
      progress_.AddHeld(file.size);
      return OkStatus();
    }
    Status status = FetchOnce(commit, file, blob, stop);
    // Once more, as a whole: a cache between here and the hub, or an old beginning, may be broken.
    if (status.code() == StatusCode::kDataLoss) status = FetchOnce(commit, file, blob, stop);
    if (status.code() == StatusCode::kDataLoss) {
      return DataLoss(status.message() +
                      ", twice; something between here and the hub changes it (a proxy, the disk)");
    }
    return status;
  }

  Status FetchOnce(const std::string& commit, const RemoteFile& file, const std::string& blob,
                   const std::stop_token& stop) {
    JANUS_ASSIGN_OR_RETURN(const std::unique_ptr<BlobFile> written,
                           BlobFile::Open(blob, file, progress_, stop));
    const Status fetched = client_.Fetch(model_, commit, file, *written, stop);
    if (fetched.code() == StatusCode::kDataLoss) written->Discard();
    JANUS_RETURN_IF_ERROR(fetched);
    return written->Finish();
  }

  const Settings& settings_;
  const ModelId& model_;
  const DownloadOptions& options_;
  Progress& progress_;
  const std::stop_token stop_;
  const Cache cache_;
  HubClient client_;
};

}  // namespace

Result<LocalModel> FetchModel(const Settings& settings, const ModelId& model,
                              const DownloadOptions& options, Progress& progress,
                              const std::stop_token& stop) {
  return Downloader(settings, model, options, progress, stop).Run();
}

}  // namespace janus::hub
