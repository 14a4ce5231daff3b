#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/doorbell.h"
#include "dataplane/comm/transport.h"

namespace janus::dataplane {

// The Unix socket on which an instance's peers ask for its segment. The socket's folder must be
// closed to other users. Removed when destroyed.
class ExchangeListener {
 public:
  // InvalidArgument: the path is longer than a socket address holds. Unavailable: it cannot be
  // bound.
  static Result<std::unique_ptr<ExchangeListener>> Create(const std::string& path);
  ~ExchangeListener();
  ExchangeListener(const ExchangeListener&) = delete;
  ExchangeListener& operator=(const ExchangeListener&) = delete;

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

 private:
  ExchangeListener(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  const int fd_;
  const std::string path_;
};

struct SharedMemoryOptions {
  uint64_t epoch = 0;
  uint64_t tag = 0;         // EpochTag of the epoch's key
  std::string config_hash;  // of topology, model and numerics; equal on all members
  std::vector<std::string> attention_paths;  // listener of every attention instance, by rank
  WaitPolicy policy;
  MonotonicTime deadline;  // for all peers to have connected
  // Asked about fifty times a second while peers are awaited; false gives up. Null: go on.
  std::function<bool()> keep_waiting;
};

// Connects one instance with its peers over memory that they map from each other: each member makes
// one memfd, sealed against shrinking, and the pair swaps the descriptors over a Unix socket, so
// nothing has a name that could be left behind. The socket stays open: when it closes, the peer is
// gone. The member with the higher number (attention before experts) dials; expert instances dial
// attention instances and do not talk to each other.
//
// Blocks until all peers are there. FailedPrecondition: a peer is of another epoch, key,
// configuration or version; the message names what differs on both sides. DeadlineExceeded names
// the peers that did not come. Cancelled: `stop` was requested. ResourceExhausted: the memory is
// not there.
Result<std::unique_ptr<Transport>> ConnectSharedMemory(const TransportLayout& layout,
                                                       const SharedMemoryOptions& options,
                                                       ExchangeListener& listener,
                                                       std::stop_token stop);

}  // namespace janus::dataplane
