#include "common/model/digest.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "common/fd.h"
#include "common/fingerprint.h"

namespace janus {
namespace {

constexpr uint64_t kPlaces = 64;
constexpr uint64_t kPlaceBytes = 64;
// Far more than any real header. The loader refuses a file if its header is longer than the file.
constexpr uint64_t kMostHeaderBytes = uint64_t{256} << 20;

Status MixRange(const std::string& path, int fd, uint64_t at, uint64_t bytes, Fingerprint& digest) {
  std::string buffer;
  while (bytes > 0) {
    buffer.resize(std::min<uint64_t>(bytes, 1 << 20));
    const ssize_t got = pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Unavailable(path + ": " + std::strerror(errno));
    if (got == 0) return OkStatus();  // shorter than its header tells: the loader reports it
    digest.Mix(std::string_view(buffer.data(), static_cast<size_t>(got)));
    at += static_cast<uint64_t>(got);
    bytes -= static_cast<uint64_t>(got);
  }
  return OkStatus();
}

Status MixFile(const std::string& path, Fingerprint& digest) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return NotFound(path + ": " + std::strerror(errno));
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return Unavailable(path + ": " + std::strerror(errno));
  const auto size = static_cast<uint64_t>(info.st_size);
  uint64_t header = 0;
  if (pread(fd.get(), &header, sizeof header, 0) != sizeof header) header = 0;
  const uint64_t data = sizeof header + std::min({header, size, kMostHeaderBytes});
  digest.Mix(size);
  JANUS_RETURN_IF_ERROR(MixRange(path, fd.get(), 0, data, digest));
  if (data >= size) return OkStatus();
  for (uint64_t place = 0; place < kPlaces; ++place) {
    const uint64_t at = data + (size - data) / kPlaces * place;
    JANUS_RETURN_IF_ERROR(MixRange(path, fd.get(), at, kPlaceBytes, digest));
  }
  return OkStatus();
}

}  // namespace

Result<uint64_t> DigestCheckpoint(const std::string& folder, const std::string& config_text) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().filename());
  }
  if (error) return NotFound(folder + ": " + error.message());
  std::sort(names.begin(), names.end());
  Fingerprint digest;
  digest.Mix(uint64_t{config_text.size()}).Mix(config_text);
  for (const std::string& name : names) {
    digest.Mix(name);
    JANUS_RETURN_IF_ERROR(MixFile(folder + "/" + name, digest));
  }
  return digest.value();
}

Result<uint64_t> DigestModel(const std::string& folder, const std::string& config_text,
                             const std::string& commit) {
  if (commit.empty()) return DigestCheckpoint(folder, config_text);
  Fingerprint digest;
  digest.Mix(uint64_t{config_text.size()}).Mix(config_text).Mix("commit").Mix(commit);
  return digest.value();
}

}  // namespace janus
