#pragma once

#include <string>

#include "common/fd.h"
#include "dataplane/comm/wire/wire.h"

namespace janus::dataplane {

// Collects one HELLO, with the address and the descriptors that belong to it, from a socket that
// does not block, however it is cut, and nothing behind it. What it says is unjudged (hello.h).
// Confined.
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
  // The first two that came; none if none did.
  Fd segment;
  Fd device;

 private:
  size_t Missing() const;
  void Keep(Fd descriptor);
  ssize_t Receive(int socket, char* to, size_t bytes);

  size_t filled_ = 0;
};

}  // namespace janus::dataplane
