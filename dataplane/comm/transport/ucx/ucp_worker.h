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

// Which of UCX's transports may be used. Its shared memory is never used: we have our own.
struct UcpWorkerOptions {
  std::string transports = "tcp";  // UCX_TLS
  std::string devices;             // UCX_NET_DEVICES; empty: all
  // Set if Operation::Read is wanted: the kind of memory to read from and into. Some UCX builds
  // cannot read GPU memory; no_reads() then says why.
  std::optional<kernels::NetworkMemory> reads;
  // Whether UCX compares the destination address of each datagram (UD, which also connects RC) with
  // the device's. Before 1.19 UCX reads the address family where only NVIDIA's devices write it. On
  // other RoCE devices it drops every datagram over IPv4, and the epoch times out. Off, the device
  // alone checks the address.
  bool checks_datagrams = true;
};

std::string ToText(ucs_status_t status);

// The list of network devices that the user has configured for UCX, in its environment
// (UCX_NET_DEVICES) or its file; empty: not configured, all are used.
std::string ConfiguredDevices();

// A UCX context with one worker that wakes through a file. Confined to one thread at a time.
class UcpWorker {
 public:
  // Unavailable: UCX finds no such transport or device; the message lists what was requested.
  static Result<std::unique_ptr<UcpWorker>> Create(const UcpWorkerOptions& options);
  ~UcpWorker();
  UcpWorker(const UcpWorker&) = delete;
  UcpWorker& operator=(const UcpWorker&) = delete;

  ucp_context_h context() const { return context_; }
  ucp_worker_h get() const { return worker_; }
  int event_fd() const { return event_fd_; }
  // Bytes that UCX needs for its state before a request's handle.
  size_t request_bytes() const { return request_bytes_; }
  // The address that peers connect to.
  const std::string& address() const { return address_; }
  // Why this worker cannot read peers' memory, although that was requested; empty: it can.
  const std::string& no_reads() const { return no_reads_; }

  // False when there was nothing to do.
  bool Progress() { return ucp_worker_progress(worker_) != 0; }
  // True if event_fd now becomes readable with the next event; false: progress first.
  bool Arm() { return ucp_worker_arm(worker_) == UCS_OK; }

 private:
  UcpWorker() = default;
  static Result<std::unique_ptr<UcpWorker>> Open(const UcpWorkerOptions& options);
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  size_t request_bytes_ = 0;
  std::string address_;
  std::string no_reads_;
};

// Memory that is registered with UCX, as long as this lives.
class Registration {
 public:
  static Result<Registration> Create(const UcpWorker& worker, std::span<std::byte> memory,
                                     kernels::NetworkMemory kind = kernels::NetworkMemory::kHost);
  Registration() = default;
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;
  ~Registration();
  ucp_mem_h handle() const { return handle_; }
  // The key by which a peer reads it.
  Result<std::string> Key() const;

 private:
  ucp_context_h context_ = nullptr;
  ucp_mem_h handle_ = nullptr;
};

// A peer's memory, from its Registration::Key. Destroy it after the reads that use it.
class RemoteKey {
 public:
  // FailedPrecondition: the endpoint does not reach it. UCX trusts `key`, so it must come from a
  // member of the epoch.
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

// One operation's request object, reused for every operation: UCX's state and the outcome. It must
// not move while pending.
class Operation {
 public:
  explicit Operation(const UcpWorker& worker);
  Operation(Operation&&) = default;

  bool pending() const { return pending_; }
  ucs_status_t status() const { return status_; }  // of the last one
  size_t bytes() const { return bytes_; }          // received

  // Each begins an operation on memory that must stay valid until it is no longer pending. If it
  // fails at once, status() says why.
  void Send(ucp_ep_h endpoint, std::span<const std::byte> message, ucp_tag_t tag, ucp_mem_h memory);
  void Receive(ucp_worker_h worker, std::span<std::byte> into, ucp_tag_t tag, ucp_mem_h memory);
  // Reads `from` in the peer's memory.
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
