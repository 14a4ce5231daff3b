#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "common/fd.h"
#include "common/status.h"
#include "hub/digest.h"
#include "hub/hub_client.h"
#include "hub/listing.h"
#include "hub/progress.h"

namespace janus::hub {

// Writes a blob of the cache to `<path>.incomplete`, and continues one that an earlier download
// left there. Its bytes stay if the download ends early. Confined to one thread; the caller holds
// the blob's lock.
//
// Errors: ResourceExhausted (the disk is full), FailedPrecondition (the file cannot be written),
// DataLoss (its content is not what the hub lists).
class BlobFile final : public Receiver {
 public:
  // Reads what is there, for the digest. Cancelled: by `stop`. `file` and `progress` outlive this.
  static Result<std::unique_ptr<BlobFile>> Open(const std::string& path, const RemoteFile& file,
                                                Progress& progress, const std::stop_token& stop);

  int64_t held() const override { return held_; }
  Status Restart() override;
  Status Take(std::string_view bytes) override;

  // Gives the whole blob its name, if its digest is right. DataLoss: it is not, and the file is
  // removed.
  Status Finish();
  // Removes what is there.
  void Discard();

 private:
  BlobFile(std::string path, const RemoteFile& file, Progress& progress)
      : path_(std::move(path)), file_(file), progress_(progress), digest_(file) {}
  Status ReadHeld(int64_t bytes, const std::stop_token& stop);
  Status Failed(int error) const;
  std::string IncompletePath() const { return path_ + ".incomplete"; }

  const std::string path_;
  const RemoteFile& file_;
  Progress& progress_;
  Fd fd_;
  int64_t held_ = 0;
  FileDigest digest_;
};

}  // namespace janus::hub
