#pragma once

#include <string>

#include "common/fd.h"
#include "dataplane/comm/wire/wire.h"

namespace janus::dataplane {

// Reads one HELLO, its address and its descriptors from a non-blocking socket, in pieces of any
// size, and reads no byte behind it. Does not check the fields: that is hello.h. Confined.
class HelloReader {
 public:
  enum class State {
    kMore,   // call again when the socket is readable
    kWhole,  // `hello` and `address` are there
    kBroken  // closed, or no HELLO
  };

  State Read(int socket);

  Hello hello;
  std::string address;
  // The first two descriptors that were received, if any.
  Fd segment;
  Fd device;

 private:
  size_t Missing() const;
  void Keep(Fd descriptor);
  ssize_t Receive(int socket, char* to, size_t bytes);

  size_t filled_ = 0;
};

}  // namespace janus::dataplane
