#pragma once

#include <string>

#include "dataplane/comm/wire.h"

namespace janus::dataplane {

// Sends `hello` over a new socket with what belongs to it: `hello.address_bytes` of `address`, and
// the descriptor `segment` where it is one. Does not wait, as the buffer of a new socket holds far
// more; false: the peer has gone.
bool SendHello(int socket, const Hello& hello, const std::string& address, int segment);

}  // namespace janus::dataplane
