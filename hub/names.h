#pragma once

#include <string>
#include <string_view>

#include "common/status.h"

namespace janus::hub {

// A model of a hub. Both parts have passed the checks below.
struct ModelId {
  std::string repo;               // "owner/name"
  std::string revision = "main";  // a branch, a tag or a commit
};

// Whether a text has the form owner/name or owner/name@revision, so that it may name a model.
bool LooksLikeModelId(std::string_view text);

// Reads that form. InvalidArgument: another form, with what is wrong.
Result<ModelId> ParseModelId(std::string_view text);

// The hub's rules: letters, digits, '-', '_' and '.' in both parts, which begin with a letter, a
// digit or '_' and end with neither '.' nor '-'; no "--" or "..", at most 96 characters each.
Status CheckRepo(std::string_view repo);

// Git's rules for names of branches, at most 200 characters, of printable ASCII: a revision becomes
// a path below the cache's folder refs/.
Status CheckRevision(std::string_view revision);

// 40 digits of a commit, lower case. A commit never changes.
bool IsCommit(std::string_view revision);

// Whether a text has so many digits of lower-case hexadecimal.
bool IsHex(std::string_view text, size_t digits);

// A name that is safe as a file of one folder: printable ASCII, no '/', no '.' at its beginning, at
// most 200 characters.
bool IsPlainFileName(std::string_view name);

// "models--owner--name": the folder of a model in the cache.
std::string CacheFolderOf(std::string_view repo);
// The repo of such a folder. Empty: it is none.
std::string RepoOfCacheFolder(std::string_view folder);

}  // namespace janus::hub
