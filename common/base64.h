#pragma once

#include <string>
#include <string_view>

#include "common/status.h"

namespace janus {

// RFC 4648; line feeds between characters are allowed, as in kubeconfigs.
// InvalidArgument: any other character, a wrong length.
Result<std::string> DecodeBase64(std::string_view text);

std::string EncodeBase64(std::string_view bytes);

}  // namespace janus
