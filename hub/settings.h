#pragma once

#include <string>

#include "common/clock.h"
#include "common/function_ref.h"
#include "common/status.h"
#include "hub/url.h"

namespace janus::hub {

// What the environment says, in the variables of Hugging Face's own programs.
struct Settings {
  // An absolute folder: HF_HUB_CACHE, otherwise HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub or
  // ~/.cache/huggingface/hub.
  std::string cache;
  Url endpoint;  // HF_ENDPOINT; the public hub by default. Its target has no '/' at its end
  // HF_TOKEN, otherwise the text of the file HF_TOKEN_PATH, by default HF_HOME/token. Empty: none.
  std::string token;
  std::string token_from;  // "HF_TOKEN" or the file, for messages; empty: no token
  bool offline = false;    // HF_HUB_OFFLINE: use what the cache holds
  Seconds patience{60};    // HF_HUB_DOWNLOAD_TIMEOUT: how long a download may get no new byte
};

// `variable` returns a variable's value, or an empty text; an empty variable counts as not set. A
// '~' at the beginning of a path is HOME. FailedPrecondition: HOME is needed and not set.
// InvalidArgument: HF_ENDPOINT is no URL, HF_HUB_DOWNLOAD_TIMEOUT is not in 1..3600, or the token
// has spaces or control characters.
Result<Settings> ReadSettings(FunctionRef<std::string(const char* name)> variable);

// The same from this process's environment.
Result<Settings> ReadSettings();

}  // namespace janus::hub
