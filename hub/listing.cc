#include "hub/listing.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hub/names.h"

namespace janus::hub {
namespace {

using Json = nlohmann::json;

// Empty: no such field, or no text.
std::string TextOf(const Json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// -1: no such field, or out of bounds.
int64_t SizeOf(const Json& object) {
  const auto found = object.find("size");
  if (found == object.end() || !found->is_number_unsigned()) return -1;
  const auto size = found->get<uint64_t>();
  return size <= static_cast<uint64_t>(kMaxFileBytes) ? static_cast<int64_t>(size) : -1;
}

Status Refuse(const std::string& what) {
  return InvalidArgument("the reply is no listing of a model: " + what +
                         "; is HF_ENDPOINT the address of a Hugging Face hub?");
}

// The file of one entry, whose name is plain.
Result<RemoteFile> ReadFileEntry(const Json& entry, const std::string& name) {
  RemoteFile out;
  out.name = name;
  out.size = SizeOf(entry);
  out.sha1 = TextOf(entry, "blobId");
  const auto lfs = entry.find("lfs");
  if (lfs != entry.end() && lfs->is_object()) {
    out.sha256 = TextOf(*lfs, "sha256");
    out.size = SizeOf(*lfs);
    if (!IsHex(out.sha256, 64)) return Refuse(name + " has no sha256");
  }
  if (!IsHex(out.sha1, 40)) return Refuse(name + " has no blobId");
  if (out.size < 0) return Refuse(name + " has no size in bounds");
  return out;
}

}  // namespace

const RemoteFile* Listing::Find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(files, name, {}, &RemoteFile::name);
  return at != files.end() && at->name == name ? &*at : nullptr;
}

Result<Listing> ParseListing(std::string_view json) {
  if (json.size() > kMaxListingBytes) return Refuse("it is too large");
  const Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return Refuse("it is no JSON object");
  Listing out;
  out.commit = TextOf(root, "sha");
  if (!IsCommit(out.commit)) return Refuse("it has no commit in 'sha'");
  const auto siblings = root.find("siblings");
  if (siblings == root.end() || !siblings->is_array()) return Refuse("it has no 'siblings'");
  if (siblings->size() > kMaxListedFiles) return Refuse("it has too many files");
  for (const Json& entry : *siblings) {
    if (!entry.is_object()) return Refuse("a file is no object");
    const std::string name = TextOf(entry, "rfilename");
    if (!IsPlainFileName(name)) continue;
    JANUS_ASSIGN_OR_RETURN(RemoteFile file, ReadFileEntry(entry, name));
    out.files.push_back(std::move(file));
  }
  std::ranges::sort(out.files, {}, &RemoteFile::name);
  const auto twin = std::ranges::adjacent_find(out.files, {}, &RemoteFile::name);
  if (twin != out.files.end()) return Refuse("it has two files " + twin->name);
  return out;
}

}  // namespace janus::hub
