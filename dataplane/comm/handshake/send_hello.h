#pragma once

#include <span>
#include <string>

#include "dataplane/comm/wire/wire.h"

namespace janus::dataplane {

// Sends `hello` over a new socket with what belongs to it: `hello.address_bytes` of `address`, and
// at most kMostDescriptors. Does not wait, as the buffer of a new socket holds far more; false: the
// peer has gone.
bool SendHello(int socket, const Hello& hello, const std::string& address,
               std::span<const int> descriptors);

}  // namespace janus::dataplane
