#pragma once

#include <string>
#include <vector>

#include "common/fd.h"
#include "common/status.h"

namespace janus::dataplane {

// What a worker and the process of its GPU say to each other, on a socket of type SOCK_SEQPACKET:
// the worker sends its order, and a byte for each stop signal. The process sends the exit code of
// the instance. Either side that closes its end has ended.

// The instance that the worker wants to be run, and where its lines go.
struct InstanceOrder {
  std::string listen;                  // of the instance; no two run with the same address
  std::vector<std::string> arguments;  // of the worker, the program's name first
  Fd out;                              // the worker's stdout
  Fd err;                              // the worker's stderr
};

// Sends `listen`, `arguments`, and this process's stdout and stderr. InvalidArgument: an argument
// with a zero byte, or more than 64 KiB in all. Unavailable: the other side has ended.
Status SendOrder(int connection, const std::string& listen,
                 const std::vector<std::string>& arguments);

// Waits for the order for a second. InvalidArgument: something else came, or nothing.
Result<InstanceOrder> ReceiveOrder(int connection);

}  // namespace janus::dataplane
