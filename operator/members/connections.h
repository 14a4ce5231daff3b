#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "common/mutex.h"
#include "proto/control.grpc.pb.h"

namespace janus::control {

// Connections to the workers that relay calls, usually one per service (api.md, MoETopology).
// Beyond `most` the least recently used is dropped; a running call keeps its connection.
// Thread-safe.
class Connections {
 public:
  struct Relay {
    std::string address;
    std::shared_ptr<v1::Control::Stub> stub;  // connects when first used
  };

  // Security of calls to a service's workers. If `version` changes, old connections are dropped.
  struct Security {
    std::function<std::shared_ptr<grpc::ChannelCredentials>()> make;  // null: plain text
    uint64_t version = 0;

    // For a new connection.
    std::shared_ptr<grpc::ChannelCredentials> Credentials() const {
      return make ? make() : nullptr;
    }
  };
  using SecurityOf = std::function<Security(const std::string& service_uid)>;

  // Without `security` all calls use plain text.
  explicit Connections(size_t most, SecurityOf security = nullptr)
      : most_(most), security_(std::move(security)) {}

  // The first address with a successful last call, or else the one that failed longest ago.
  // `addresses` is not empty.
  Relay Choose(std::span<const std::string> addresses, const std::string& service_uid = {});
  // Report that a call could not, or could, reach the address.
  void Failed(const std::string& address);
  void CameThrough(const std::string& address);
  size_t open() const;

 private:
  struct Entry {
    std::shared_ptr<v1::Control::Stub> stub;
    uint64_t version = 0;  // of its Security
    uint64_t used = 0;
    uint64_t failed = 0;  // when, by clock_; 0: the last call succeeded
  };

  const size_t most_;
  const SecurityOf security_;
  mutable Mutex mu_;
  uint64_t clock_ JANUS_GUARDED_BY(mu_) = 0;  // counts uses
  std::map<std::string, Entry> entries_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::control
