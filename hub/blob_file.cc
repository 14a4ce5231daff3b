#include "hub/blob_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace janus::hub {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

}  // namespace

Status BlobFile::Failed(int error) const {
  const std::string path = IncompletePath();
  if (error == ENOSPC || error == EDQUOT) {
    return ResourceExhausted(path + ": the disk is full (" + std::strerror(error) +
                             "); free some space and start again, which continues the download");
  }
  return FailedPrecondition(path + ": " + std::strerror(error) +
                            "; set HF_HUB_CACHE to a folder that can be written");
}

Result<std::unique_ptr<BlobFile>> BlobFile::Open(const std::string& path, const RemoteFile& file,
                                                 Progress& progress, const std::stop_token& stop) {
  std::unique_ptr<BlobFile> out(new BlobFile(path, file, progress));
  out->fd_ = Fd(open(out->IncompletePath().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!out->fd_) return out->Failed(errno);
  struct stat info {};
  if (fstat(out->fd_.get(), &info) != 0) return out->Failed(errno);
  if (info.st_size > file.size) {
    if (ftruncate(out->fd_.get(), 0) != 0) return out->Failed(errno);
    return out;
  }
  JANUS_RETURN_IF_ERROR(out->ReadHeld(info.st_size, stop));
  return out;
}

Status BlobFile::ReadHeld(int64_t bytes, const std::stop_token& stop) {
  std::string buffer(kReadBytes, '\0');
  while (held_ < bytes) {
    if (stop.stop_requested()) return Cancelled("stopped");
    const ssize_t got =
        pread(fd_.get(), buffer.data(),
              std::min<size_t>(buffer.size(), static_cast<size_t>(bytes - held_)), held_);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed(errno);
    if (got == 0) break;  // cut by another program meanwhile
    digest_.Add({buffer.data(), static_cast<size_t>(got)});
    held_ += got;
  }
  progress_.AddHeld(held_);
  return OkStatus();
}

Status BlobFile::Restart() {
  if (held_ == 0) return OkStatus();
  if (ftruncate(fd_.get(), 0) != 0) return Failed(errno);
  progress_.AddHeld(-held_);
  held_ = 0;
  digest_ = FileDigest(file_);
  return OkStatus();
}

Status BlobFile::Take(std::string_view bytes) {
  if (static_cast<int64_t>(bytes.size()) > file_.size - held_) {
    return DataLoss(file_.name + ": the hub sends more than the " + std::to_string(file_.size) +
                    " bytes that it lists");
  }
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd_.get(), bytes.data(), bytes.size(), held_);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed(errno);
    const auto size = static_cast<size_t>(written);
    digest_.Add(bytes.substr(0, size));
    bytes.remove_prefix(size);
    held_ += written;
    progress_.AddFetched(written);
  }
  return OkStatus();
}

void BlobFile::Discard() {
  unlink(IncompletePath().c_str());
  progress_.AddHeld(-held_);
  held_ = 0;
}

Status BlobFile::Finish() {
  if (digest_.Finish() != file_.etag()) {
    Discard();
    return DataLoss(file_.name + ": its content has another digest than the hub lists");
  }
  fd_.Reset();
  if (rename(IncompletePath().c_str(), path_.c_str()) != 0) return Failed(errno);
  return OkStatus();
}

}  // namespace janus::hub
