#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "kernels/device/context.h"

namespace janus::dataplane::ucx {

// Which of UCX's transports may be used. Never its shared memory: that is ours.
struct WorkerOptions {
  std::string transports = "tcp";  // UCX_TLS
  std::string devices;             // UCX_NET_DEVICES; empty: all that there are
  // Whether Operation::Read is wanted, and of and into which memory: of a GPU it is not had from
  // every UCX, which no_reads() tells.
  std::optional<kernels::NetworkMemory> reads;
};

std::string ToText(ucs_status_t status);

// The list of network devices that the user has given UCX, in its environment (UCX_NET_DEVICES) or
// in its file; empty: none, and all are used.
std::string ConfiguredDevices();

// A UCX context with one worker that wakes through a file. Confined to one thread at a time.
class Worker {
 public:
  // Unavailable: UCX finds no such transport or device; the message says what was asked for.
  static Result<std::unique_ptr<Worker>> Create(const WorkerOptions& options);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  ucp_context_h context() const { return context_; }
  ucp_worker_h get() const { return worker_; }
  int event_fd() const { return event_fd_; }
  // Bytes before a request's handle that UCX keeps its state in.
  size_t request_bytes() const { return request_bytes_; }
  // What a peer connects to.
  const std::string& address() const { return address_; }
  // Why it reads nothing of peers, where that was asked for; empty: it does.
  const std::string& no_reads() const { return no_reads_; }

  // False when there was nothing to do.
  bool Progress() { return ucp_worker_progress(worker_) != 0; }
  // True if event_fd now becomes readable with the next event; false: progress first.
  bool Arm() { return ucp_worker_arm(worker_) == UCS_OK; }

 private:
  Worker() = default;
  static Result<std::unique_ptr<Worker>> Open(const WorkerOptions& options);
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  size_t request_bytes_ = 0;
  std::string address_;
  std::string no_reads_;
};

// Memory that UCX knows, for as long as this lives.
class Registration {
 public:
  static Result<Registration> Create(const Worker& worker, std::span<std::byte> memory,
                                     kernels::NetworkMemory kind = kernels::NetworkMemory::kHost);
  Registration() = default;
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;
  ~Registration();
  ucp_mem_h handle() const { return handle_; }
  // What a peer reads it by.
  Result<std::string> Key() const;

 private:
  ucp_context_h context_ = nullptr;
  ucp_mem_h handle_ = nullptr;
};

// A peer's memory, as its Registration::Key says. Goes after the reads by it.
class RemoteKey {
 public:
  // FailedPrecondition: the endpoint does not reach it. `key` is of a member of the epoch: UCX
  // trusts it.
  static Result<RemoteKey> Create(ucp_ep_h endpoint, const std::string& key);
  RemoteKey() = default;
  RemoteKey(RemoteKey&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  RemoteKey& operator=(RemoteKey&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~RemoteKey() {
    if (handle_ != nullptr) ucp_rkey_destroy(handle_);
  }
  ucp_rkey_h handle() const { return handle_; }

 private:
  ucp_rkey_h handle_ = nullptr;
};

// One operation's request object, made once and used again and again: state of UCX's and outcome.
// Stays where it is while pending.
class Operation {
 public:
  explicit Operation(const Worker& worker);
  Operation(Operation&&) = default;

  bool pending() const { return pending_; }
  ucs_status_t status() const { return status_; }  // of the last one
  size_t bytes() const { return bytes_; }          // received

  // All begin an operation on memory that must stay until it is no longer pending. Whatever fails
  // at once is its status.
  void Send(ucp_ep_h endpoint, std::span<const std::byte> message, ucp_tag_t tag, ucp_mem_h memory);
  void Receive(ucp_worker_h worker, std::span<std::byte> into, ucp_tag_t tag, ucp_mem_h memory);
  // Of what lies at `from` in the peer's memory.
  void Read(ucp_ep_h endpoint, std::span<std::byte> into, uint64_t from, const RemoteKey& key,
            ucp_mem_h memory, kernels::NetworkMemory kind);
  void Cancel(ucp_worker_h worker);

 private:
  void Begin(ucp_request_param_t& parameters, ucp_mem_h memory);
  void Begun(ucs_status_ptr_t started);
  static void Sent(void* request, ucs_status_t status, void* self);
  static void Received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                       void* self);

  std::unique_ptr<std::byte[]> state_;
  void* request_ = nullptr;
  bool pending_ = false;
  ucs_status_t status_ = UCS_OK;
  size_t bytes_ = 0;
};

}  // namespace janus::dataplane::ucx
