#include "hub/names.h"

#include <algorithm>

namespace janus::hub {
namespace {

constexpr size_t kMaxPart = 96;
constexpr size_t kMaxRevision = 200;
constexpr size_t kMaxFileName = 200;
constexpr std::string_view kPrefix = "models--";
constexpr std::string_view kSeparator = "--";

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool IsPrintable(char c) {
  return c > ' ' && c <= '~';
}

bool IsPart(std::string_view part) {
  const auto is_allowed = [](char c) {
    return IsAlphanumeric(c) || c == '-' || c == '_' || c == '.';
  };
  return !part.empty() && part.size() <= kMaxPart && std::ranges::all_of(part, is_allowed) &&
         (IsAlphanumeric(part.front()) || part.front() == '_') &&
         (IsAlphanumeric(part.back()) || part.back() == '_') && part.find("--") == part.npos &&
         part.find("..") == part.npos;
}

// For a message.
std::string Quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, 100)) out += IsPrintable(c) || c == ' ' ? c : '?';
  return out + (text.size() > 100 ? "...'" : "'");
}

bool IsRevisionPart(std::string_view part) {
  return !part.empty() && part.front() != '.' && part.front() != '-' && part.back() != '.' &&
         !part.ends_with(".lock");
}

}  // namespace

Status CheckRepo(std::string_view repo) {
  const size_t slash = repo.find('/');
  if (slash != repo.npos && IsPart(repo.substr(0, slash)) && IsPart(repo.substr(slash + 1))) {
    return OkStatus();
  }
  return InvalidArgument(Quoted(repo) +
                         " is no name of a model on a hub; want owner/name of letters, digits, "
                         "'-', '_' and '.'");
}

Status CheckRevision(std::string_view revision) {
  bool is_good = !revision.empty() && revision.size() <= kMaxRevision &&
                 std::ranges::all_of(revision, IsPrintable) &&
                 revision.find_first_of("~^:?*[\\@") == revision.npos &&
                 revision.find("..") == revision.npos && revision.back() != '/';
  for (std::string_view rest = revision; is_good && !rest.empty();) {
    const size_t slash = std::min(rest.find('/'), rest.size());
    is_good = IsRevisionPart(rest.substr(0, slash));
    rest.remove_prefix(std::min(slash + 1, rest.size()));
  }
  if (is_good) return OkStatus();
  return InvalidArgument(Quoted(revision) +
                         " is no revision; want a branch, a tag or a commit of 40 digits");
}

bool LooksLikeModelId(std::string_view text) {
  return CheckRepo(text.substr(0, text.find('@'))).ok();
}

Result<ModelId> ParseModelId(std::string_view text) {
  ModelId out;
  const size_t at = text.find('@');
  out.repo = text.substr(0, at);
  JANUS_RETURN_IF_ERROR(CheckRepo(out.repo));
  if (at != text.npos) {
    out.revision = text.substr(at + 1);
    JANUS_RETURN_IF_ERROR(CheckRevision(out.revision));
  }
  return out;
}

bool IsHex(std::string_view text, size_t digits) {
  return text.size() == digits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool IsCommit(std::string_view revision) {
  return IsHex(revision, 40);
}

bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxFileName && name.front() != '.' &&
         std::ranges::all_of(name, IsPrintable) && name.find_first_of("/\\") == name.npos;
}

std::string CacheFolderOf(std::string_view repo) {
  const size_t slash = repo.find('/');
  return std::string(kPrefix) + std::string(repo.substr(0, slash)) + std::string(kSeparator) +
         std::string(repo.substr(slash + 1));
}

std::string RepoOfCacheFolder(std::string_view folder) {
  if (!folder.starts_with(kPrefix)) return "";
  folder.remove_prefix(kPrefix.size());
  const size_t separator = folder.find(kSeparator);
  if (separator == folder.npos) return "";
  std::string repo = std::string(folder.substr(0, separator)) + "/" +
                     std::string(folder.substr(separator + kSeparator.size()));
  return CheckRepo(repo).ok() ? repo : "";
}

}  // namespace janus::hub
