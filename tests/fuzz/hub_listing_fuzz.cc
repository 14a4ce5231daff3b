// A hub's listing and a checkpoint's index: what is accepted leads to no other folder, and its
// sizes can be added.

#include <cstdint>
#include <string_view>

#include "common/check.h"
#include "hub/listing.h"
#include "hub/names.h"
#include "hub/selection.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace janus::hub;  // NOLINT: a program of one function
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const janus::Result<Listing> listing = ParseListing(json);
  if (listing.ok()) {
    JANUS_CHECK(IsCommit(listing->commit), listing->commit);
    int64_t bytes = 0;
    for (const RemoteFile& file : listing->files) {
      JANUS_CHECK(IsPlainFileName(file.name), file.name);
      JANUS_CHECK(IsHex(file.etag(), file.sha256.empty() ? 40 : 64), file.etag());
      JANUS_CHECK(file.size >= 0 && file.size <= kMaxFileBytes, file.size);
      JANUS_CHECK(!__builtin_add_overflow(bytes, file.size, &bytes), file.size);
      JANUS_CHECK(listing->Find(file.name) == &file, file.name);
    }
    const auto small = SmallFilesOf(*listing);
    if (small.ok()) JANUS_CHECK(!small->empty(), listing->files.size());
  }
  const auto shards = ParseShardIndex(json);
  if (shards.ok()) {
    JANUS_CHECK(!shards->empty() && shards->size() <= kMaxShards, shards->size());
    for (const std::string& name : *shards) JANUS_CHECK(IsPlainFileName(name), name);
  }
  return 0;
}
