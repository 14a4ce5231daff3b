#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "hub/listing.h"

namespace janus::hub {

// The digest of a file's content in the form of its etag on the hub: SHA-256 of a large file, the
// SHA-1 of a git blob of any other. Confined to one thread.
class FileDigest {
 public:
  explicit FileDigest(const RemoteFile& file);
  ~FileDigest();
  FileDigest(FileDigest&&) noexcept;
  FileDigest& operator=(FileDigest&&) noexcept;

  void Add(std::string_view bytes);
  // Lower-case hexadecimal. Call it once, at the end.
  std::string Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace janus::hub
