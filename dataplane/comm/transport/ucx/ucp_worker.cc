#include "dataplane/comm/transport/ucx/ucp_worker.h"

#include <ucs/config/types.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <utility>

namespace janus::dataplane::ucx {

std::string ToText(ucs_status_t status) {
  return ucs_status_string(status);
}

std::string ConfiguredDevices() {
  ucp_config_t* config = nullptr;
  if (ucp_config_read(nullptr, nullptr, &config) != UCS_OK) return "";
  char* text = nullptr;
  size_t bytes = 0;
  FILE* out = open_memstream(&text, &bytes);
  if (out != nullptr) {
    ucp_config_print(config, out, nullptr, UCS_CONFIG_PRINT_CONFIG);
    std::fclose(out);
  }
  ucp_config_release(config);
  std::istringstream lines(text != nullptr ? std::string(text, bytes) : std::string());
  std::free(text);
  constexpr std::string_view kName = "UCX_NET_DEVICES=";
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(kName)) continue;
    line.erase(0, kName.size());
    return line == "all" ? "" : line;
  }
  return "";
}

namespace {

// From this version on, UCX can be told to refuse reads of GPU memory that the network device
// cannot do. Older versions silently copy with the CPUs of both sides.
constexpr unsigned kMajorForDevices = 1, kMinorForDevices = 21;
constexpr char kEmulation[] = "PROTO_EMULATION_ENABLE";
// From this version on, UCX tells IPv4 from IPv6 by the datagram itself.
constexpr unsigned kMinorThatKnowsFamily = 19;
// UCX must also load this transport to recognize GPU memory at all.
constexpr char kDeviceTransports[] = ",cuda_copy";

ucs_memory_type_t TypeOf(kernels::NetworkMemory kind) {
  return kind == kernels::NetworkMemory::kCuda ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
}

bool IsAtLeast(unsigned major, unsigned minor) {
  unsigned our_major = 0, our_minor = 0, release = 0;
  ucp_get_version(&our_major, &our_minor, &release);
  return std::pair(our_major, our_minor) >= std::pair(major, minor);
}

// Why this UCX cannot read that kind of memory; empty: no known reason.
std::string WhyNoReads(kernels::NetworkMemory kind) {
  if (kind == kernels::NetworkMemory::kHost) return "";
  if (IsAtLeast(kMajorForDevices, kMinorForDevices)) return "";
  return "UCX " + std::string(ucp_get_version_string()) + " is older than " +
         std::to_string(kMajorForDevices) + "." + std::to_string(kMinorForDevices);
}

}  // namespace

Result<std::unique_ptr<UcpWorker>> UcpWorker::Create(const UcpWorkerOptions& options) {
  if (options.reads) {
    UcpWorkerOptions without = options;
    without.reads.reset();
    std::string why = WhyNoReads(*options.reads);
    if (why.empty() && *options.reads == kernels::NetworkMemory::kCuda) {
      UcpWorkerOptions with = options;
      with.transports += kDeviceTransports;
      Result<std::unique_ptr<UcpWorker>> worker = Open(with);
      ucp_context_attr_t attributes{};
      attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
      const bool knows = worker.ok() &&
                         ucp_context_query((*worker)->context_, &attributes) == UCS_OK &&
                         (UCS_BIT(UCS_MEMORY_TYPE_CUDA) & attributes.memory_types) != 0;
      if (knows) return worker;
      why = worker.ok() ? "UCX " + std::string(ucp_get_version_string()) + " has no CUDA"
                        : std::string(worker.status().message());
    } else if (why.empty()) {
      return Open(options);
    }
    JANUS_ASSIGN_OR_RETURN(std::unique_ptr<UcpWorker> worker, Open(without));
    worker->no_reads_ = why;
    return worker;
  }
  return Open(options);
}

Result<std::unique_ptr<UcpWorker>> UcpWorker::Open(const UcpWorkerOptions& options) {
  const auto failed = [&](const char* what, ucs_status_t status) {
    return Unavailable("exchange: UCX " + std::string(what) + " (transports '" +
                       options.transports + "', devices '" +
                       (options.devices.empty() ? "all" : options.devices) +
                       "'): " + ToText(status));
  };
  ucp_config_t* config = nullptr;
  if (const ucs_status_t s = ucp_config_read(nullptr, nullptr, &config); s != UCS_OK) {
    return failed("configuration", s);
  }
  const auto set = [&](const char* name, const std::string& value) {
    const ucs_status_t status = ucp_config_modify(config, name, value.c_str());
    JANUS_CHECK(status == UCS_OK, name, value, ToText(status));
  };
  set("TLS", options.transports);
  if (!options.devices.empty()) set("NET_DEVICES", options.devices);
  if (options.reads == kernels::NetworkMemory::kCuda &&
      ucp_config_modify(config, kEmulation, "n") != UCS_OK) {
    ucp_config_release(config);
    return failed("emulates reads of GPUs by CPUs", UCS_ERR_UNSUPPORTED);
  }
  if (!options.checks_datagrams && !IsAtLeast(1, kMinorThatKnowsFamily)) {
    // UCX 1.13 knows only the first name, and silently accepts unknown ones. A UCX without verbs
    // knows neither.
    if (ucp_config_modify(config, "UD_ETH_DGID_CHECK", "n") != UCS_OK) {
      static_cast<void>(ucp_config_modify(config, "UD_VERBS_ETH_DGID_CHECK", "n"));
    }
  }
  if (options.transports == "tcp") {
    // UCX's rendezvous over TCP moves bytes only while the sender calls UCX, but our sender
    // computes meanwhile. Rendezvous would also gain nothing, because receives are posted in
    // advance.
    set("RNDV_THRESH", "inf");
    // UCX assembles a message of several pieces on the heap, so make pieces large. UCX 1.13 knows
    // the option only as RX_SEG_SIZE, and silently accepts unknown names. UCX 1.21 knows only the
    // full name; without it, it would copy messages from 16 KB on, in pieces of 8 KB.
    if (ucp_config_modify(config, "RX_SEG_SIZE", "256k") != UCS_OK) {
      set("TCP_RX_SEG_SIZE", "256k");
      set("ZCOPY_THRESH", "8k");
    }
  }

  std::unique_ptr<UcpWorker> worker(new UcpWorker());
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  parameters.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  if (options.reads) parameters.features |= UCP_FEATURE_RMA;
  parameters.mt_workers_shared = 0;
  ucs_status_t status = ucp_init(&parameters, config, &worker->context_);
  ucp_config_release(config);
  if (status != UCS_OK) return failed("context", status);

  ucp_context_attr_t context_attributes{};
  context_attributes.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE;
  status = ucp_context_query(worker->context_, &context_attributes);
  if (status != UCS_OK) return failed("context", status);
  worker->request_bytes_ = context_attributes.request_size;

  ucp_worker_params_t worker_parameters{};
  worker_parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENTS;
  // Created on one thread and used on another, but never on two at once.
  worker_parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  worker_parameters.events = UCP_WAKEUP_TX | UCP_WAKEUP_RX;
  status = ucp_worker_create(worker->context_, &worker_parameters, &worker->worker_);
  if (status != UCS_OK) return failed("worker", status);
  status = ucp_worker_get_efd(worker->worker_, &worker->event_fd_);
  if (status != UCS_OK) return failed("event file", status);

  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  status = ucp_worker_get_address(worker->worker_, &address, &bytes);
  if (status != UCS_OK) return failed("address", status);
  worker->address_.assign(reinterpret_cast<const char*>(address), bytes);
  ucp_worker_release_address(worker->worker_, address);
  return worker;
}

UcpWorker::~UcpWorker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

Result<Registration> Registration::Create(const UcpWorker& worker, std::span<std::byte> memory,
                                          kernels::NetworkMemory kind) {
  ucp_mem_map_params_t parameters{};
  parameters.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                          UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  parameters.memory_type = TypeOf(kind);
  parameters.address = memory.data();
  parameters.length = memory.size();
  Registration registration;
  const ucs_status_t status = ucp_mem_map(worker.context(), &parameters, &registration.handle_);
  if (status != UCS_OK) {
    return ResourceExhausted("exchange memory: UCX cannot register " +
                             std::to_string(memory.size()) + " bytes: " + ToText(status));
  }
  registration.context_ = worker.context();
  return registration;
}

Registration::Registration(Registration&& other) noexcept
    : context_(other.context_), handle_(std::exchange(other.handle_, nullptr)) {}

Registration& Registration::operator=(Registration&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(handle_, other.handle_);
  return *this;
}

Registration::~Registration() {
  if (handle_ != nullptr) ucp_mem_unmap(context_, handle_);
}

Result<std::string> Registration::Key() const {
  void* key = nullptr;
  size_t bytes = 0;
  const ucs_status_t status = ucp_rkey_pack(context_, handle_, &key, &bytes);
  if (status != UCS_OK) {
    return FailedPrecondition("UCX has no key for peers: " + ToText(status));
  }
  std::string text(static_cast<const char*>(key), bytes);
  ucp_rkey_buffer_release(key);
  return text;
}

Result<RemoteKey> RemoteKey::Create(ucp_ep_h endpoint, const std::string& key) {
  RemoteKey made;
  const ucs_status_t status = ucp_ep_rkey_unpack(endpoint, key.data(), &made.handle_);
  if (status != UCS_OK) {
    made.handle_ = nullptr;
    return FailedPrecondition("UCX does not reach its memory: " + ToText(status));
  }
  return made;
}

Operation::Operation(const UcpWorker& worker) {
  // A request handle points behind UCX's own state, and UCX wants that state aligned.
  constexpr size_t kAlignment = 64;
  const size_t bytes = (worker.request_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  state_ = std::make_unique<std::byte[]>(bytes + kAlignment);
  const auto start = reinterpret_cast<uintptr_t>(state_.get());
  const uintptr_t aligned = (start + kAlignment - 1) / kAlignment * kAlignment;
  request_ = state_.get() + (aligned - start) + worker.request_bytes();
}

void Operation::Begin(ucp_request_param_t& parameters, ucp_mem_h memory) {
  JANUS_CHECK(!pending_);
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  if (memory != nullptr) {
    parameters.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    parameters.memh = memory;
  }
  parameters.request = request_;
  parameters.user_data = this;
  bytes_ = 0;
  // Set before the operation begins, because the callback may run inside the call.
  pending_ = true;
}

void Operation::Begun(ucs_status_ptr_t started) {
  if (UCS_PTR_IS_PTR(started)) return;
  pending_ = false;
  status_ = UCS_PTR_STATUS(started);
}

void Operation::Send(ucp_ep_h endpoint, std::span<const std::byte> message, ucp_tag_t tag,
                     ucp_mem_h memory) {
  ucp_request_param_t parameters{};
  Begin(parameters, memory);
  parameters.cb.send = &Sent;
  Begun(ucp_tag_send_nbx(endpoint, message.data(), message.size(), tag, &parameters));
}

void Operation::Receive(ucp_worker_h worker, std::span<std::byte> into, ucp_tag_t tag,
                        ucp_mem_h memory) {
  ucp_request_param_t parameters{};
  Begin(parameters, memory);
  // The callback reports the length, so UCX must call it even for a message that is already there.
  parameters.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  parameters.cb.recv = &Received;
  constexpr ucp_tag_t kWhole = ~ucp_tag_t{0};
  Begun(ucp_tag_recv_nbx(worker, into.data(), into.size(), tag, kWhole, &parameters));
}

void Operation::Read(ucp_ep_h endpoint, std::span<std::byte> into, uint64_t from,
                     const RemoteKey& key, ucp_mem_h memory, kernels::NetworkMemory kind) {
  ucp_request_param_t parameters{};
  Begin(parameters, memory);
  parameters.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  parameters.memory_type = TypeOf(kind);
  parameters.cb.send = &Sent;
  Begun(ucp_get_nbx(endpoint, into.data(), into.size(), from, key.handle(), &parameters));
}

void Operation::Cancel(ucp_worker_h worker) {
  if (pending_) ucp_request_cancel(worker, request_);
}

void Operation::Sent(void*, ucs_status_t status, void* self) {
  auto* operation = static_cast<Operation*>(self);
  operation->status_ = status;
  operation->pending_ = false;
}

void Operation::Received(void*, ucs_status_t status, const ucp_tag_recv_info_t* info, void* self) {
  auto* operation = static_cast<Operation*>(self);
  operation->status_ = status;
  operation->bytes_ = status == UCS_OK ? info->length : 0;
  operation->pending_ = false;
}

}  // namespace janus::dataplane::ucx
