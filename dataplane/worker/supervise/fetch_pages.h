#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace janus::dataplane {

// Gets one page (rpc/page_server.h) from several Unix sockets at once. Returns within `within`. The
// text of each answer, in the order of `sockets`; nothing: no whole answer with status 200 by then.
// An answer has at most 8 MiB. Thread-safe.
std::vector<std::optional<std::string>> FetchPages(const std::vector<std::string>& sockets,
                                                   std::string_view path,
                                                   std::chrono::milliseconds within);

}  // namespace janus::dataplane
