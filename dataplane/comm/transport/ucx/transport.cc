#include "dataplane/comm/transport/ucx/transport.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <thread>

#include "dataplane/comm/transport/device_slots.h"
#include "dataplane/comm/transport/peer_sockets.h"
#include "dataplane/comm/transport/shared_memory.h"
#include "dataplane/comm/transport/ucx/greeting.h"
#include "dataplane/comm/transport/ucx/receive_ring.h"
#include "dataplane/comm/transport/ucx/tags.h"
#include "dataplane/comm/transport/ucx/ucp_worker.h"

namespace janus::dataplane {
namespace {

using ucx::Channel;
using ucx::Greeting;
using ucx::Operation;
using ucx::ReceiveRing;
using ucx::Registration;
using ucx::TagOf;

constexpr size_t kSets = exchange_size::kLandingSets;
constexpr size_t kControlBytes = sizeof(Header) + kMaxControlBytes;
constexpr size_t kSmallEntry = exchange_size::kSmallMessage;
constexpr size_t kCredits = exchange_size::kCredits;
constexpr size_t kGreetings = exchange_size::kGreetings;

// Memory for everything received over UCX and for outgoing control messages.
class Arena {
 public:
  // ResourceExhausted: the memory is not there.
  static Result<Arena> Create(size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      return ResourceExhausted("exchange memory: " + std::to_string(bytes) +
                               " bytes of landing memory: " + std::strerror(errno));
    }
    Arena arena;
    arena.memory_ = {static_cast<std::byte*>(memory), bytes};
    arena.keep_ = std::shared_ptr<void>(memory, [bytes](void* p) { munmap(p, bytes); });
    return arena;
  }
  Arena() = default;

  std::span<std::byte> Take(size_t bytes) {
    const std::span<std::byte> piece = memory_.subspan(used_, AlignUp(bytes));
    used_ += piece.size();
    return piece;
  }
  std::span<std::byte> all() const { return memory_; }

 private:
  std::span<std::byte> memory_;
  size_t used_ = 0;
  std::shared_ptr<void> keep_;
};

// A peer's slot that this member reads. `held` is the ring entry that was taken last and may still
// be in use.
struct Inbound {
  size_t slot_bytes = 0;
  std::unique_ptr<ReceiveRing> ring;
  std::optional<size_t> held;
};

// A pair that talks over UCX.
struct Remote {
  PeerId peer;
  int member = 0;
  ucp_ep_h endpoint = nullptr;
  ucs_status_t failure = UCS_OK;
  bool* any_failure = nullptr;
  std::string description = "UCX";

  std::vector<std::optional<Inbound>> slots;  // by the peer's slot; absent: not read here

  std::unique_ptr<ReceiveRing> control;
  uint64_t control_read = 0;
  std::span<std::byte> outgoing;  // kControlQueueDepth entries of kControlBytes
  std::vector<Operation> sends;
  uint64_t sent = 0;
  uint64_t acknowledged = 0;

  std::unique_ptr<ReceiveRing> credits;
  std::span<std::byte> credit;
  std::optional<Operation> credit_send;
  uint64_t credit_told = 0;

  std::unique_ptr<ReceiveRing> greetings;
  std::span<std::byte> greeting;
  std::optional<Operation> greeting_send;
  Greeting greeted;  // the latest that the peer sent
  std::string device_key;

  // Set if this member reads the peer's GPU memory.
  ucx::RemoteKey key;
  std::vector<Operation> reads;  // by its slot
};

// Sends one own slot to one reader.
struct Outbound {
  Remote* to = nullptr;
  Operation operation;
  bool again = false;  // posted again while the last send was still pending
};

class NetworkTransport final : public Transport, private RemoteReads {
 public:
  // `device`: null if no GPU memory is read over UCX.
  NetworkTransport(TransportLayout layout, WaitPolicy policy, DeviceSlots* device,
                   std::unique_ptr<ucx::UcpWorker> worker)
      : layout_(std::move(layout)),
        policy_(policy),
        device_(device),
        self_(MemberIndex(layout_, layout_.self)),
        worker_(std::move(worker)),
        parker_(*this) {}
  ~NetworkTransport() override;

  // Takes over the connected peers, posts every receive and connects every endpoint.
  Status Open(const NetworkOptions& options, Segment own, std::vector<ConnectedPeer> met);
  // Carries a message over every UCX pair in both directions, so that no connection setup delays
  // the first round.
  Status Greet(const ConnectOptions& options, const std::stop_token& stop);
  // Tells mates which peers' memory this member reads for its node, and notes which they read.
  Status ShareLandings(const ConnectOptions& options, const std::stop_token& stop);
  void NoteLandings(PeerId mate, const Header& header, std::span<const std::byte> payload);
  // After Greet: the peers that read this member's GPU memory over UCX.
  std::vector<PeerId> WhoReadsOurs() const;

  const TransportLayout& layout() const override { return layout_; }
  std::span<std::byte> Payload(int slot) override { return local_->Payload(slot); }
  Status Post(int slot, const Header& header) override;
  bool Take(PeerId from, int slot, SlotMessage& message) override;
  bool Settle() override;
  Status Send(PeerId to, const Header& header, std::span<const std::byte> payload) override;
  bool Receive(PeerId from, Header& header, std::vector<std::byte>& payload) override;
  Status Wait(MonotonicTime deadline, FunctionRef<bool()> ready) override;
  void Wake() override;
  uint64_t dropped() const override;
  std::span<std::byte> FlagsOf(PeerId owner) override { return local_->FlagsOf(owner); }
  std::vector<std::span<std::byte>> PayloadMemory() override {
    std::vector<std::span<std::byte>> memory = local_->PayloadMemory();
    memory.push_back(arena_.all());
    return memory;
  }
  std::string_view Describe(PeerId peer) const override;

 private:
  // Sleeps on UCX's file, our own and the peers' sockets. Announces that first. A peer that posts
  // in shared memory, or a caller of Wake, then also writes to one of these files.
  class FileParker final : public Parker {
   public:
    explicit FileParker(NetworkTransport& transport) : transport_(transport) {}
    void Prepare() override { transport_.SetParked(true); }
    void Park(MonotonicTime deadline) override { transport_.Park(deadline); }
    void Cancel() override { transport_.SetParked(false); }

   private:
    NetworkTransport& transport_;
  };

  Remote* RemoteOf(PeerId peer) const {
    return remote_of_[static_cast<size_t>(MemberIndex(layout_, peer))];
  }
  Status AddRemote(ConnectedPeer& met);
  // Registers the GPU memory that UCX reads and writes; on failure notes the reason at the device.
  void RegisterDevice();
  // One phase of Greet: sends the greeting to all peers and waits for theirs.
  Status Greet(uint64_t phase, const ConnectOptions& options, const std::stop_token& stop);
  // Reads the peer's proof, to check that its memory can be read; otherwise notes the reason at the
  // device.
  Status TryReading(Remote& remote, const ConnectOptions& options, const std::stop_token& stop);
  // Wait, while members are still connecting.
  Status AwaitPeers(const ConnectOptions& options, const std::stop_token& stop,
                    FunctionRef<bool()> ready);
  bool IsRead(PeerId peer) const { return device_ != nullptr && device_->reads_remotely(peer); }
  Status Begin(PeerId peer, int slot, size_t offset, size_t at, size_t bytes) override;
  Result<bool> HasEnded(PeerId peer, int slot) override;
  bool Close() override;
  static void Failed(void* remote, ucp_ep_h, ucs_status_t status);
  Status FailureOf(const Remote& remote) const;
  Status FirstFailure() const;
  void SendSlot(int slot, Outbound& out);
  void TellCredit(Remote& remote);
  void ReadCredits(Remote& remote);
  void Progress();
  void ProgressOutsideWait() {
    if (!waiting_) Progress();
  }
  void SetParked(bool parked);
  void Park(MonotonicTime deadline);
  void CloseEndpoints();
  // Whether all operations of the closed endpoints have ended. They end during progress.
  bool EndOperations();

  const TransportLayout layout_;
  const WaitPolicy policy_;
  DeviceSlots* device_;
  const int self_;
  std::unique_ptr<ucx::UcpWorker> worker_;
  // Holds the own slots, and carries the pairs that share memory.
  std::unique_ptr<SegmentTransport> local_;
  PeerSockets sockets_;
  Fd wake_;
  Arena arena_;
  Registration segment_registration_;
  Registration arena_registration_;
  Registration device_registration_;   // of the GPU memory that is shown
  Registration landing_registration_;  // of the landing memory
  std::string device_key_;             // empty: this member shows no GPU memory
  std::vector<std::unique_ptr<Remote>> remotes_;
  std::vector<Remote*> remote_of_;                // by member; null: shared memory
  std::vector<std::vector<Outbound>> outbounds_;  // by own slot
  std::vector<pollfd> polls_;
  FileParker parker_;
  std::atomic<bool> parked_{false};
  bool waiting_ = false;
  bool any_failure_ = false;
  int repeats_ = 0;  // outbounds with `again`
  uint64_t dropped_ = 0;
};

NetworkTransport::~NetworkTransport() {
  // Bounds the work that a peer can cause by sending without end.
  constexpr int kMostSteps = 64;
  const auto progress = [&] {
    for (int i = 0; i < kMostSteps && worker_->Progress(); ++i) {
    }
  };
  if (device_ != nullptr) device_->ReadBy(nullptr);
  CloseEndpoints();
  // Let goodbyes and credits land while their receives are still posted. Otherwise UCX would warn
  // of each later.
  progress();
  for (const auto& remote : remotes_) {
    for (auto& slot : remote->slots) {
      if (slot) slot->ring->Cancel();
    }
    for (ReceiveRing* ring :
         {remote->control.get(), remote->credits.get(), remote->greetings.get()}) {
      if (ring != nullptr) ring->Cancel();
    }
  }
  // Cancelled operations end with the next progress.
  progress();
  if (EndOperations()) return;
  // UCX, or a network device, may still access these: leak them deliberately.
  struct Kept {
    std::unique_ptr<ucx::UcpWorker> worker;
    std::unique_ptr<SegmentTransport> local;
    Arena arena;
    std::array<Registration, 4> registrations;
    std::vector<std::unique_ptr<Remote>> remotes;
    std::vector<std::vector<Outbound>> outbounds;
  };
  (void)new (std::nothrow) Kept{std::move(worker_),
                                std::move(local_),
                                std::move(arena_),
                                {std::move(segment_registration_), std::move(arena_registration_),
                                 std::move(device_registration_), std::move(landing_registration_)},
                                std::move(remotes_),
                                std::move(outbounds_)};
}

// Closes by force: an orderly close needs the peer, which may be gone.
void NetworkTransport::CloseEndpoints() {
  std::vector<ucs_status_ptr_t> closing;
  for (const auto& remote : remotes_) {
    if (remote->endpoint == nullptr) continue;
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
    const ucs_status_ptr_t request =
        ucp_ep_close_nbx(std::exchange(remote->endpoint, nullptr), &parameters);
    if (UCS_PTR_IS_PTR(request)) closing.push_back(request);
  }
  for (const ucs_status_ptr_t request : closing) {
    while (ucp_request_check_status(request) == UCS_INPROGRESS) worker_->Progress();
    ucp_request_free(request);
  }
}

Status NetworkTransport::Open(const NetworkOptions& options, Segment own,
                              std::vector<ConnectedPeer> met) {
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return ResourceExhausted(std::string("exchange: eventfd: ") + std::strerror(errno));
  const auto members = static_cast<size_t>(layout_.m + layout_.n);
  remote_of_.assign(members, nullptr);

  size_t landing = 0;
  size_t pairs = 0;
  for (const ConnectedPeer& peer : met) {
    if (options.shares_memory(peer.peer)) continue;
    ++pairs;
    for (const SlotSpec& slot : layout_.slots) {
      const bool reads =
          std::find(slot.readers.begin(), slot.readers.end(), layout_.self) != slot.readers.end();
      if (slot.owner == peer.peer && reads) landing += kSets * LandingBytes(slot.bytes);
    }
  }
  JANUS_ASSIGN_OR_RETURN(arena_, Arena::Create(std::max(landing + pairs * NetworkQueueBytes(),
                                                        exchange_size::kSegmentPage)));
  JANUS_ASSIGN_OR_RETURN(segment_registration_,
                         Registration::Create(*worker_, {own.base, own.bytes}));
  JANUS_ASSIGN_OR_RETURN(arena_registration_, Registration::Create(*worker_, arena_.all()));

  std::vector<std::optional<Segment>> segments(members);
  segments[static_cast<size_t>(self_)] = std::move(own);
  for (ConnectedPeer& peer : met) {
    if (options.shares_memory(peer.peer)) {
      JANUS_ASSIGN_OR_RETURN(Segment segment, MapPeerSegment(peer.segment, layout_, peer.peer));
      segment.wake_fd = peer.socket.get();
      segments[static_cast<size_t>(MemberIndex(layout_, peer.peer))] = std::move(segment);
    } else {
      JANUS_RETURN_IF_ERROR(AddRemote(peer));
    }
    sockets_.Add(peer.peer, std::move(peer.socket));
  }
  const uint64_t tag = EpochTag(options.connect.identity.epoch_key, options.connect.identity.epoch);
  local_ = std::make_unique<SegmentTransport>(layout_, tag, std::move(segments), policy_, nullptr,
                                              "shared memory");
  for (const SlotSpec& slot : layout_.slots) {
    if (slot.owner != layout_.self) continue;
    std::vector<Outbound>& readers = outbounds_.emplace_back();
    for (const PeerId& reader : slot.readers) {
      if (Remote* remote = RemoteOf(reader))
        readers.push_back({remote, Operation(*worker_), false});
    }
  }
  polls_ = {{worker_->event_fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
  polls_.insert(polls_.end(), sockets_.polls().begin(), sockets_.polls().end());
  if (device_ != nullptr) {
    device_->ReadBy(this);
    RegisterDevice();
  }
  return OkStatus();
}

Status NetworkTransport::AddRemote(ConnectedPeer& met) {
  // Stored before anything can fail: the destructor cancels its receives before their memory is
  // freed.
  Remote* remote = remotes_.emplace_back(std::make_unique<Remote>()).get();
  remote->peer = met.peer;
  remote->member = MemberIndex(layout_, met.peer);
  remote->any_failure = &any_failure_;
  const int sender = remote->member;
  const ucp_mem_h registration = arena_registration_.handle();
  const auto ring = [&](size_t entry, size_t entries, ucp_tag_t tag) {
    return std::make_unique<ReceiveRing>(*worker_, arena_.Take(entry * entries), entry, entries,
                                         tag, registration);
  };
  for (const SlotSpec& slot : layout_.slots) {
    if (slot.owner != met.peer) continue;
    std::optional<Inbound>& inbound = remote->slots.emplace_back();
    if (std::find(slot.readers.begin(), slot.readers.end(), layout_.self) == slot.readers.end()) {
      continue;
    }
    inbound.emplace();
    inbound->slot_bytes = slot.bytes;
    inbound->ring =
        ring(LandingBytes(slot.bytes), kSets, TagOf(Channel::kSlot, sender, slot.index));
  }
  remote->control =
      ring(AlignUp(kControlBytes), kControlQueueDepth, TagOf(Channel::kControl, sender));
  remote->credits = ring(kSmallEntry, kCredits, TagOf(Channel::kCredit, sender));
  remote->greetings = ring(ucx::kMostGreetingBytes, kGreetings, TagOf(Channel::kGreeting, sender));
  remote->outgoing = arena_.Take(kControlQueueDepth * AlignUp(kControlBytes));
  remote->credit = arena_.Take(kSmallEntry);
  remote->greeting = arena_.Take(ucx::kMostGreetingBytes);
  remote->sends.reserve(kControlQueueDepth);
  for (uint64_t i = 0; i < kControlQueueDepth; ++i) remote->sends.emplace_back(*worker_);
  remote->credit_send.emplace(*worker_);
  remote->greeting_send.emplace(*worker_);

  if (met.address.empty()) {
    return InvalidArgument(ToString(met.peer) + " sent no UCX address");
  }
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.address = reinterpret_cast<const ucp_address_t*>(met.address.data());
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler.cb = &Failed;
  parameters.err_handler.arg = remote;
  const ucs_status_t status = ucp_ep_create(worker_->get(), &parameters, &remote->endpoint);
  if (status != UCS_OK) {
    remote->endpoint = nullptr;
    return Unavailable("exchange: UCX finds no way to " + ToString(met.peer) + ": " +
                       ucx::ToText(status));
  }
  remote_of_[static_cast<size_t>(remote->member)] = remote;
  return OkStatus();
}

void NetworkTransport::Failed(void* argument, ucp_ep_h, ucs_status_t status) {
  auto* remote = static_cast<Remote*>(argument);
  remote->failure = status;
  *remote->any_failure = true;
}

Status NetworkTransport::FailureOf(const Remote& remote) const {
  if (remote.failure == UCS_OK) return OkStatus();
  return Unavailable(ToString(remote.peer) + " is gone: UCX: " + ucx::ToText(remote.failure));
}

Status NetworkTransport::FirstFailure() const {
  for (const auto& remote : remotes_) JANUS_RETURN_IF_ERROR(FailureOf(*remote));
  return OkStatus();
}

// The name that UCX gives to the connection: "tcp/lo".
std::string LaneOf(ucp_ep_h endpoint) {
  char* text = nullptr;
  size_t bytes = 0;
  FILE* out = open_memstream(&text, &bytes);
  if (out == nullptr) return "";
  ucp_ep_print_info(endpoint, out);
  std::fclose(out);
  const std::string info(text, bytes);
  std::free(text);
  // "#                 lane[0]:  1:tcp/lo.0 md[1]  -> ..."
  const size_t lane = info.find("lane[0]:");
  const size_t start = lane == std::string::npos ? lane : info.find(':', lane + 8);
  if (start == std::string::npos) return "";
  const size_t end = info.find_first_of(". \n", start + 1);
  return info.substr(start + 1, end - start - 1);
}

Status NetworkTransport::Greet(uint64_t phase, const ConnectOptions& options,
                               const std::stop_token& stop) {
  for (const auto& remote : remotes_) {
    Greeting greeting;
    greeting.tag = local_->tag();
    greeting.phase = phase;
    if (!device_key_.empty()) {
      greeting.memory = reinterpret_cast<uint64_t>(device_->RegisteredForNetwork().data());
    }
    greeting.key_bytes = static_cast<uint32_t>(device_key_.size());
    greeting.reads = IsRead(remote->peer) ? 1 : 0;
    std::memcpy(remote->greeting.data(), &greeting, sizeof greeting);
    std::memcpy(remote->greeting.data() + sizeof greeting, device_key_.data(), device_key_.size());
    remote->greeting_send->Send(remote->endpoint,
                                remote->greeting.first(sizeof greeting + device_key_.size()),
                                TagOf(Channel::kGreeting, self_), arena_registration_.handle());
  }
  const auto all_greeted = [&] {
    bool all = true;
    for (const auto& remote : remotes_) {
      size_t entry;
      std::span<const std::byte> message;
      while (remote->greetings->Next(entry, message)) {
        Greeting greeting;
        if (message.size() >= sizeof greeting) {
          std::memcpy(&greeting, message.data(), sizeof greeting);
        }
        const auto key = message.subspan(std::min(message.size(), sizeof greeting));
        if (greeting.tag == local_->tag() && greeting.phase <= ucx::kGreetingPhases &&
            key.size() == greeting.key_bytes) {
          remote->greeted = greeting;
          remote->device_key.assign(reinterpret_cast<const char*>(key.data()), key.size());
        } else {
          ++dropped_;
        }
        remote->greetings->Repost(entry);
      }
      all = all && remote->greeted.phase >= phase && !remote->greeting_send->pending();
    }
    return all;
  };
  const Status waited = AwaitPeers(options, stop, all_greeted);
  if (waited.code() != StatusCode::kDeadlineExceeded) return waited;
  std::string who;
  for (const auto& remote : remotes_) {
    if (remote->greeted.phase >= phase) continue;
    who += (who.empty() ? "" : ", ") + ToString(remote->peer);
  }
  return DeadlineExceeded("exchange: nothing came over UCX from " + who + " in time");
}

Status NetworkTransport::AwaitPeers(const ConnectOptions& options, const std::stop_token& stop,
                                    FunctionRef<bool()> ready) {
  for (;;) {
    const MonotonicTime slice =
        std::min(options.deadline, MonotonicClock::now() + std::chrono::milliseconds(20));
    const Status waited = Wait(slice, ready);
    if (waited.code() != StatusCode::kDeadlineExceeded) return waited;
    if (stop.stop_requested() || (options.keep_waiting && !options.keep_waiting())) {
      return Cancelled("connecting was aborted");
    }
    if (MonotonicClock::now() >= options.deadline) return waited;
  }
}

Status NetworkTransport::Greet(const ConnectOptions& options, const std::stop_token& stop) {
  // A peer's second greeting shows that it has our first. Its third one says whether it reads our
  // memory; until then it reads only the proof.
  JANUS_RETURN_IF_ERROR(Greet(1, options, stop));
  JANUS_RETURN_IF_ERROR(Greet(2, options, stop));
  for (const auto& remote : remotes_) {
    if (device_ != nullptr) JANUS_RETURN_IF_ERROR(TryReading(*remote, options, stop));
  }
  JANUS_RETURN_IF_ERROR(ShareLandings(options, stop));
  JANUS_RETURN_IF_ERROR(Greet(3, options, stop));
  for (const auto& remote : remotes_) {
    if (const std::string lane = LaneOf(remote->endpoint); !lane.empty()) {
      remote->description = "UCX " + lane;
    }
  }
  return OkStatus();
}

// The proof that a member writes into its room.
uint64_t ProofOf(uint64_t tag, int member) {
  return tag ^ (uint64_t{0x9e3779b97f4a7c15} * (static_cast<uint64_t>(member) + 1));
}

void NetworkTransport::RegisterDevice() {
  const auto register_all = [&]() -> Status {
    if (!worker_->no_reads().empty()) return FailedPrecondition(worker_->no_reads());
    JANUS_RETURN_IF_ERROR(device_->OpenToNetwork());
    const kernels::NetworkMemory kind = device_->network_memory();
    if (const auto landing = device_->LandingOfNetwork(); !landing.empty()) {
      JANUS_ASSIGN_OR_RETURN(landing_registration_, Registration::Create(*worker_, landing, kind));
    }
    if (const auto shown = device_->RegisteredForNetwork(); !shown.empty()) {
      JANUS_ASSIGN_OR_RETURN(device_registration_, Registration::Create(*worker_, shown, kind));
      JANUS_ASSIGN_OR_RETURN(std::string key, device_registration_.Key());
      if (key.size() > ucx::kMostKeyBytes) {
        return FailedPrecondition("UCX's key has " + std::to_string(key.size()) + " bytes");
      }
      JANUS_RETURN_IF_ERROR(device_->WriteProof(ProofOf(local_->tag(), self_)));
      device_key_ = std::move(key);
    }
    return OkStatus();
  };
  const Status registered = register_all();
  if (registered.ok()) return;
  device_->NoteRefusal("no network reads this GPU's memory: " + registered.message());
  device_registration_ = Registration();
  landing_registration_ = Registration();
}

Status NetworkTransport::TryReading(Remote& remote, const ConnectOptions& options,
                                    const std::stop_token& stop) {
  const bool reads_itself =
      remote.peer.role != layout_.self.role && device_->ReaderOf(remote.peer) == layout_.self;
  if (!reads_itself || landing_registration_.handle() == nullptr) return OkStatus();
  const std::string whose = "memory of " + ToString(remote.peer) + ": ";
  if (remote.greeted.memory == 0) {
    device_->NoteRefusal(ToString(remote.peer) + " shows no GPU's memory to a network");
    return OkStatus();
  }
  Result<ucx::RemoteKey> key = ucx::RemoteKey::Create(remote.endpoint, remote.device_key);
  if (!key.ok()) {
    device_->NoteRefusal(whose + key.status().message());
    return OkStatus();
  }
  remote.key = *std::move(key);
  while (remote.reads.size() < remote.slots.size()) remote.reads.emplace_back(*worker_);
  constexpr int kProof = 0;
  const Status begun = Begin(remote.peer, kProof, 0, 0, DeviceSlots::kProofBytes);
  Result<bool> ended = begun.ok() ? Result<bool>(false) : begun;
  const auto has_ended = [&] {
    if (ended.ok()) ended = HasEnded(remote.peer, kProof);
    return !ended.ok() || *ended;
  };
  const Status waited = AwaitPeers(options, stop, has_ended);
  if (!waited.ok()) {
    return waited.Annotate("reading GPU memory of " + ToString(remote.peer) +
                           " over UCX; JANUS_GPU_DIRECT=off exchanges through the host's");
  }
  if (!ended.ok()) {
    device_->NoteRefusal(whose + ended.status().message());
    return OkStatus();
  }
  const Result<bool> landed = device_->HasLanded(ProofOf(local_->tag(), remote.member));
  if (!landed.ok() || !*landed) {
    device_->NoteRefusal(whose + (landed.ok() ? "what UCX has read of it is something else"
                                              : landed.status().message()));
    return OkStatus();
  }
  device_->ReadsRemotely(remote.peer);
  return OkStatus();
}

Status NetworkTransport::ShareLandings(const ConnectOptions& options, const std::stop_token& stop) {
  if (layout_.self.role != Role::kExperts || layout_.landings.empty()) return OkStatus();
  std::vector<PeerId> awaited;
  for (const PeerId peer : PeersOf(layout_)) {
    if (peer.role == Role::kExperts && RemoteOf(peer) == nullptr) awaited.push_back(peer);
  }
  std::vector<std::byte> lands(static_cast<size_t>(layout_.m));
  for (int a = 0; a < layout_.m; ++a) {
    const PeerId peer{Role::kAttention, Rank{a}};
    const bool reads = IsRead(peer) && device_->ReaderOf(peer) == layout_.self;
    lands[static_cast<size_t>(a)] = std::byte{reads};
  }
  RoundKey key;
  key.epoch = options.identity.epoch;
  const Header header =
      MakeHeader(MessageKind::kLands, key, static_cast<uint16_t>(layout_.self.rank.value),
                 static_cast<uint32_t>(layout_.m));
  for (const PeerId mate : awaited) JANUS_RETURN_IF_ERROR(local_->Send(mate, header, lands));
  const auto all_told = [&] {
    std::erase_if(awaited, [&](PeerId mate) {
      Header told;
      std::vector<std::byte> payload;
      if (!local_->Receive(mate, told, payload)) return false;
      NoteLandings(mate, told, payload);
      return true;
    });
    return awaited.empty();
  };
  const Status waited = AwaitPeers(options, stop, all_told);
  if (waited.code() != StatusCode::kDeadlineExceeded) return waited;
  return waited.Annotate("exchange: what GPU memory " + ToString(awaited.front()) + " reads");
}

void NetworkTransport::NoteLandings(PeerId mate, const Header& header,
                                    std::span<const std::byte> payload) {
  if (header.kind != MessageKind::kLands || payload.size() != static_cast<size_t>(layout_.m)) {
    ++dropped_;
    return;
  }
  if (device_ == nullptr) return;
  for (int a = 0; a < layout_.m; ++a) {
    const PeerId peer{Role::kAttention, Rank{a}};
    if (device_->ReaderOf(peer) != mate || RemoteOf(peer) == nullptr) continue;
    const bool reads = payload[static_cast<size_t>(a)] == std::byte{1};
    if (reads && device_->MapsLanding(mate)) {
      device_->ReadsRemotely(peer);
    } else {
      device_->NoteRefusal(reads ? "landing memory of " + ToString(mate) + " is not mapped"
                                 : ToString(mate) + " does not read GPU memory of " +
                                       ToString(peer) + " for its node");
    }
  }
}

std::vector<PeerId> NetworkTransport::WhoReadsOurs() const {
  std::vector<PeerId> who;
  for (const auto& remote : remotes_) {
    if (remote->greeted.reads == 1) who.push_back(remote->peer);
  }
  return who;
}

Status NetworkTransport::Begin(PeerId peer, int slot, size_t offset, size_t at, size_t bytes) {
  Remote& remote = *RemoteOf(peer);
  JANUS_RETURN_IF_ERROR(FailureOf(remote));
  Operation& operation = remote.reads[static_cast<size_t>(slot)];
  operation.Read(remote.endpoint, device_->LandingOfNetwork().subspan(at, bytes),
                 remote.greeted.memory + offset, remote.key, landing_registration_.handle(),
                 device_->network_memory());
  return HasEnded(peer, slot).status();
}

Result<bool> NetworkTransport::HasEnded(PeerId peer, int slot) {
  const Remote& remote = *RemoteOf(peer);
  const Operation& operation = remote.reads[static_cast<size_t>(slot)];
  if (operation.pending()) return false;
  if (operation.status() == UCS_OK) return true;
  return Unavailable("GPU memory of " + ToString(peer) +
                     " cannot be read: UCX: " + ucx::ToText(operation.status()));
}

bool NetworkTransport::Close() {
  device_ = nullptr;
  CloseEndpoints();
  for (const auto& remote : remotes_) remote->failure = UCS_ERR_CANCELED;
  if (!EndOperations()) return false;
  for (const auto& remote : remotes_) remote->key = ucx::RemoteKey();
  device_registration_ = Registration();
  landing_registration_ = Registration();
  return true;
}

bool NetworkTransport::EndOperations() {
  const auto any_pending = [&] {
    for (const std::vector<Outbound>& readers : outbounds_) {
      for (const Outbound& out : readers) {
        if (out.operation.pending()) return true;
      }
    }
    return std::any_of(remotes_.begin(), remotes_.end(), [](const auto& remote) {
      const auto pending = [](const std::vector<Operation>& of) {
        return std::any_of(of.begin(), of.end(),
                           [](const Operation& operation) { return operation.pending(); });
      };
      return pending(remote->sends) || pending(remote->reads) ||
             (remote->credit_send && remote->credit_send->pending()) ||
             (remote->greeting_send && remote->greeting_send->pending());
    });
  };
  const MonotonicTime enough = MonotonicClock::now() + std::chrono::seconds(1);
  while (any_pending()) {
    if (MonotonicClock::now() > enough) return false;
    if (!worker_->Progress()) std::this_thread::yield();
  }
  return true;
}

void NetworkTransport::SendSlot(int slot, Outbound& out) {
  const std::span<std::byte> message = local_->Message(slot);
  Header header;
  std::memcpy(&header, message.data(), sizeof header);
  out.operation.Send(out.to->endpoint, message.first(sizeof header + header.bytes),
                     TagOf(Channel::kSlot, self_, slot), segment_registration_.handle());
}

Status NetworkTransport::Post(int slot, const Header& header) {
  JANUS_RETURN_IF_ERROR(local_->Post(slot, header));
  for (Outbound& out : outbounds_[static_cast<size_t>(slot)]) {
    JANUS_RETURN_IF_ERROR(FailureOf(*out.to));
    if (out.operation.pending()) ProgressOutsideWait();
    if (out.operation.pending()) {
      repeats_ += !out.again;
      out.again = true;
      continue;
    }
    SendSlot(slot, out);
    if (!out.operation.pending() && out.operation.status() != UCS_OK) {
      return Unavailable(ToString(out.to->peer) +
                         " cannot be sent to: UCX: " + ucx::ToText(out.operation.status()));
    }
  }
  return OkStatus();
}

bool NetworkTransport::Take(PeerId from, int slot, SlotMessage& message) {
  Remote* remote = RemoteOf(from);
  if (remote == nullptr) return local_->Take(from, slot, message);
  ProgressOutsideWait();
  std::optional<Inbound>& inbound = remote->slots[static_cast<size_t>(slot)];
  if (!inbound) return false;
  bool taken = false;
  size_t entry;
  std::span<const std::byte> bytes;
  while (inbound->ring->Next(entry, bytes)) {
    Header header;
    bool good = bytes.size() >= sizeof header;
    if (good) {
      std::memcpy(&header, bytes.data(), sizeof header);
      good = header.tag == local_->tag() && header.bytes == bytes.size() - sizeof header &&
             header.bytes <= inbound->slot_bytes && header.sender == from.rank.value;
    }
    if (!good) {
      ++dropped_;
      inbound->ring->Repost(entry);
      continue;
    }
    if (inbound->held) inbound->ring->Repost(*inbound->held);
    inbound->held = entry;
    message = {header, bytes.subspan(sizeof header)};
    taken = true;
  }
  return taken;
}

// UCX may read a slot until its send is done. Overwriting it earlier could mix two messages.
bool NetworkTransport::Settle() {
  ProgressOutsideWait();
  bool settled = true;
  for (std::vector<Outbound>& readers : outbounds_) {
    for (Outbound& out : readers) {
      repeats_ -= out.again;
      out.again = false;
      settled = settled && !out.operation.pending();
    }
  }
  return settled;
}

Status NetworkTransport::Send(PeerId to, const Header& header, std::span<const std::byte> payload) {
  Remote* remote = RemoteOf(to);
  if (remote == nullptr) return local_->Send(to, header, payload);
  JANUS_CHECK(payload.size() <= kMaxControlBytes, payload.size());
  JANUS_RETURN_IF_ERROR(FailureOf(*remote));
  const size_t index = remote->sent % kControlQueueDepth;
  const auto is_full = [&] {
    return remote->sent - remote->acknowledged >= kControlQueueDepth ||
           remote->sends[index].pending();
  };
  if (is_full()) {
    ProgressOutsideWait();
    ReadCredits(*remote);
  }
  if (is_full()) {
    return ResourceExhausted(ToString(to) + " has " + std::to_string(kControlQueueDepth) +
                             " unread control messages of " + ToString(layout_.self));
  }
  const std::span<std::byte> entry =
      remote->outgoing.subspan(index * AlignUp(kControlBytes), kControlBytes);
  Header own = header;
  own.tag = local_->tag();
  own.bytes = payload.size();
  std::memcpy(entry.data(), &own, sizeof own);
  if (!payload.empty()) std::memcpy(entry.data() + sizeof own, payload.data(), payload.size());
  Operation& operation = remote->sends[index];
  operation.Send(remote->endpoint, entry.first(sizeof own + payload.size()),
                 TagOf(Channel::kControl, self_), arena_registration_.handle());
  if (!operation.pending() && operation.status() != UCS_OK) {
    return Unavailable(ToString(to) +
                       " cannot be sent to: UCX: " + ucx::ToText(operation.status()));
  }
  ++remote->sent;
  return OkStatus();
}

bool NetworkTransport::Receive(PeerId from, Header& header, std::vector<std::byte>& payload) {
  Remote* remote = RemoteOf(from);
  if (remote == nullptr) return local_->Receive(from, header, payload);
  ProgressOutsideWait();
  size_t entry;
  std::span<const std::byte> bytes;
  while (remote->control->Next(entry, bytes)) {
    bool good = bytes.size() >= sizeof header;
    if (good) {
      std::memcpy(&header, bytes.data(), sizeof header);
      good = header.tag == local_->tag() && header.bytes == bytes.size() - sizeof header;
    }
    if (good) {
      const auto body = bytes.subspan(sizeof header);
      payload.assign(body.begin(), body.end());
    }
    remote->control->Repost(entry);
    ++remote->control_read;
    TellCredit(*remote);
    if (good) return true;
    ++dropped_;
  }
  return false;
}

// At most one credit message is pending at a time; the newest count follows it.
void NetworkTransport::TellCredit(Remote& remote) {
  if (remote.credit_send->pending() || remote.credit_told == remote.control_read) return;
  const Credit credit{local_->tag(), remote.control_read};
  std::memcpy(remote.credit.data(), &credit, sizeof credit);
  remote.credit_send->Send(remote.endpoint, remote.credit.first(sizeof credit),
                           TagOf(Channel::kCredit, self_), arena_registration_.handle());
  remote.credit_told = remote.control_read;
}

void NetworkTransport::ReadCredits(Remote& remote) {
  size_t entry;
  std::span<const std::byte> bytes;
  while (remote.credits->Next(entry, bytes)) {
    Credit credit;
    bool good = bytes.size() == sizeof credit;
    if (good) {
      std::memcpy(&credit, bytes.data(), sizeof credit);
      good = credit.tag == local_->tag() && credit.read >= remote.acknowledged &&
             credit.read <= remote.sent;
    }
    if (good) remote.acknowledged = credit.read;
    dropped_ += !good;
    remote.credits->Repost(entry);
  }
}

void NetworkTransport::Progress() {
  // Bounds the work that a peer can cause by sending without end.
  constexpr int kAtOnce = 16;
  for (int i = 0; i < kAtOnce && worker_->Progress(); ++i) {
  }
  for (const auto& remote : remotes_) {
    if (remote->failure != UCS_OK) continue;
    TellCredit(*remote);
    ReadCredits(*remote);
  }
  if (repeats_ == 0) return;
  for (size_t slot = 0; slot < outbounds_.size(); ++slot) {
    for (Outbound& out : outbounds_[slot]) {
      if (!out.again || out.operation.pending() || out.to->failure != UCS_OK) continue;
      out.again = false;
      --repeats_;
      SendSlot(static_cast<int>(slot), out);
    }
  }
}

Status NetworkTransport::Wait(MonotonicTime deadline, FunctionRef<bool()> ready) {
  constexpr auto kLivenessInterval = std::chrono::milliseconds(100);
  for (;;) {
    const MonotonicTime slice = std::min(deadline, MonotonicClock::now() + kLivenessInterval);
    bool is_ready = false;
    waiting_ = true;
    WaitUntil(parker_, policy_, slice, [&] {
      Progress();
      is_ready = ready();
      return is_ready || any_failure_;
    });
    waiting_ = false;
    if (is_ready) return OkStatus();
    JANUS_RETURN_IF_ERROR(FirstFailure());
    JANUS_RETURN_IF_ERROR(sockets_.Check());
    if (slice == deadline) return DeadlineExceeded("nothing came in time");
  }
}

void NetworkTransport::SetParked(bool parked) {
  parked_.store(parked, std::memory_order_seq_cst);
  local_->SetParked(parked);
}

void NetworkTransport::Park(MonotonicTime deadline) {
  // A message may have arrived since the last progress; then Arm fails.
  if (worker_->Arm()) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - MonotonicClock::now());
    const auto timeout = std::clamp<int64_t>(left.count(), 0, 1000);
    poll(polls_.data(), polls_.size(), static_cast<int>(timeout));
    if (polls_[1].revents != 0) {
      uint64_t ignored;
      [[maybe_unused]] const ssize_t drained = read(wake_.get(), &ignored, sizeof ignored);
    }
    sockets_.Drain();
  }
  SetParked(false);
}

void NetworkTransport::Wake() {
  local_->own_bell().Ring();  // orders the caller's earlier writes before the read of parked_
  if (!parked_.load(std::memory_order_seq_cst)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
}

uint64_t NetworkTransport::dropped() const {
  uint64_t sum = dropped_ + local_->dropped();
  for (const auto& remote : remotes_) {
    for (const auto& slot : remote->slots) sum += slot ? slot->ring->failed() : 0;
    sum += remote->control->failed() + remote->credits->failed();
  }
  return sum;
}

std::string_view NetworkTransport::Describe(PeerId peer) const {
  const Remote* remote = RemoteOf(peer);
  return remote == nullptr ? local_->Describe(peer) : remote->description;
}

}  // namespace

Result<std::unique_ptr<Transport>> ConnectNetwork(const TransportLayout& layout,
                                                  const NetworkOptions& options,
                                                  ExchangeListener& listener,
                                                  std::stop_token stop) {
  DeviceSlots* const device = options.connect.device;
  std::optional<kernels::NetworkMemory> reads;
  if (device != nullptr && options.reads_devices) reads = device->network_memory();
  JANUS_ASSIGN_OR_RETURN(std::unique_ptr<ucx::UcpWorker> worker,
                         ucx::UcpWorker::Create({options.transports, options.devices, reads,
                                                 options.checks_datagrams}));
  if (worker->address().size() > Hello::kMostAddressBytes) {
    return FailedPrecondition("exchange: UCX's address has " +
                              std::to_string(worker->address().size()) + " bytes, at most " +
                              std::to_string(Hello::kMostAddressBytes) +
                              " fit into a HELLO; name fewer devices");
  }
  Fd fd;
  JANUS_ASSIGN_OR_RETURN(Segment own, CreateSharedSegment(layout, fd));
  Offer offer;
  offer.segment = fd.get();
  if (reads && worker->no_reads().empty()) {
    if (const Status landing = device->AllocateLanding(); !landing.ok()) {
      device->NoteRefusal("no landing memory: " + landing.message());
    }
  }
  if (device != nullptr) device->PutInto(offer);
  offer.address = worker->address();
  offer.transport = [&](PeerId peer) {
    return options.shares_memory(peer) ? PairTransport::kSharedMemory : PairTransport::kUcx;
  };
  JANUS_ASSIGN_OR_RETURN(std::vector<ConnectedPeer> met,
                         ConnectPeers(layout, options.connect, offer, listener, stop));
  const std::vector<PeerId> in_place = PeersThatMapOurs(met);
  auto transport = std::make_unique<NetworkTransport>(layout, options.connect.policy,
                                                      reads ? device : nullptr, std::move(worker));
  JANUS_RETURN_IF_ERROR(transport->Open(options, std::move(own), std::move(met)));
  JANUS_RETURN_IF_ERROR(transport->Greet(options.connect, stop));
  if (device != nullptr) device->Conclude(in_place, transport->WhoReadsOurs());
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace janus::dataplane
