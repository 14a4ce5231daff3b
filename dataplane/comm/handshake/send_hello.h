#pragma once

#include <span>
#include <string>

#include "dataplane/comm/wire/wire.h"

namespace janus::dataplane {

// Sends `hello` over a new socket, with `hello.address_bytes` of `address` and at most
// kMostDescriptors descriptors. Does not wait, because the buffer of a new socket is large enough.
// False: the peer has gone.
bool SendHello(int socket, const Hello& hello, const std::string& address,
               std::span<const int> descriptors);

}  // namespace janus::dataplane
