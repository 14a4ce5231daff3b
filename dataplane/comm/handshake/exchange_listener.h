#pragma once

#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/fd.h"
#include "common/mutex.h"
#include "common/status.h"
#include "dataplane/comm/handshake/exchange_refusal.h"
#include "dataplane/comm/handshake/hello.h"
#include "dataplane/comm/handshake/pending_connections.h"
#include "dataplane/comm/wire/layout.h"

namespace janus::dataplane {

// An epoch that the listener of one of its members knows; it is known for as long as a caller holds
// this. While it is open, the HELLOs of its members wait here for ConnectPeers (handshake.h). Of
// each member only the newest waits: a member that connects again has given up its older
// connection. Thread-safe.
class ExpectedEpoch {
 public:
  // `waiting`: an eventfd that does not block.
  ExpectedEpoch(const ExchangeIdentity& identity, const TransportLayout& layout, Fd waiting,
                ExchangeRefusalCounts* counts);
  ExpectedEpoch(const ExpectedEpoch&) = delete;
  ExpectedEpoch& operator=(const ExpectedEpoch&) = delete;

  uint64_t epoch() const { return ours_.epoch; }

  // For ConnectPeers.

  // For poll: readable while HELLOs are waiting.
  int fd() const { return waiting_fd_.get(); }
  // The waiting HELLOs, by member.
  std::vector<ReceivedHello> Take();
  // Refuses a HELLO for a reason that the listener does not check, and sends that reason; null:
  // closes without an answer.
  void Refuse(const ReceivedHello& received, const Status* why) const;
  // Why the last refused connection was refused while this was open; empty: no refusal.
  std::string last_refusal() const;
  // All members are connected: every later connection is refused.
  void Close();

  // For the listener.

  bool is_open() const;
  // Our HELLO, without the transport of a pair.
  const Hello& ours() const { return ours_; }
  const TransportLayout& layout() const { return layout_; }
  // False: this is closed, or the sender is not a member that connects to us.
  bool Admit(ReceivedHello& received);
  void NoteRefusal(const Status& why);

 private:
  const Hello ours_;
  const TransportLayout layout_;
  ExchangeRefusalCounts* const counts_;
  const Fd waiting_fd_;
  mutable Mutex mu_;
  bool is_open_ JANUS_GUARDED_BY(mu_) = true;
  std::map<int, ReceivedHello> waiting_ JANUS_GUARDED_BY(mu_);
  std::string last_refusal_ JANUS_GUARDED_BY(mu_);
};

// The listener at which the peers of an instance connect, over all epochs. Its own thread reads the
// HELLO of every connection (pending_connections.h). It hands a HELLO of an expected epoch over to
// that epoch, and refuses every other one:
//  - If it belongs to an epoch that is over, has another key, or comes from a process that is no
//    member, the listener answers with the reason and counts it.
//  - If the member is connected already, it closes and counts it.
//  - If the epoch is newer than any known one, it closes without counting. This instance usually
//    learns of that epoch a moment later, and the peer dials again.
// Thread-safe, except Listen.
class ExchangeListener {
 public:
  // `counts` outlives the listener and its epochs; null: refusals are not counted.
  explicit ExchangeListener(ExchangeRefusalCounts* counts = nullptr) : counts_(counts) {}
  ExchangeListener(const ExchangeListener&) = delete;
  ExchangeListener& operator=(const ExchangeListener&) = delete;

  // Creates a listener and calls Listen. Errors: those of Listen.
  static Result<std::unique_ptr<ExchangeListener>> Create(const std::string& address,
                                                          ExchangeRefusalCounts* counts = nullptr);

  // Listens at the one or two addresses of `address` (ParseExchangeAddresses), and stops listening
  // at earlier, different ones. Connections at one do not use up the room of the other. Not by two
  // threads at once. Errors: those of ParseExchangeAddresses, ListeningSocket::Create and
  // PendingConnections::Create, and ResourceExhausted: no descriptor.
  Status Listen(const std::string& address);
  // Where to dial, in the form of Listen, with the port that was chosen. Not while Listen runs.
  const std::string& address() const { return bound_; }

  // Makes an epoch known. Returns the one that is known already if it has this key and is open.
  // ResourceExhausted: no descriptor.
  Result<std::shared_ptr<ExpectedEpoch>> Expect(const ExchangeIdentity& identity,
                                                const TransportLayout& layout);
  // The epoch is committed. The listener keeps it, and so knows that older ones are over, until the
  // next Serve.
  void Serve(std::shared_ptr<ExpectedEpoch> epoch);

 private:
  using Listeners = std::vector<std::unique_ptr<PendingConnections>>;
  void Run(const Listeners& listeners, const std::stop_token& stop);
  void Judge(ReceivedHello received);
  // Known epochs, oldest first.
  std::vector<std::shared_ptr<ExpectedEpoch>> Known();
  void Count(ExchangeRefusal why) {
    if (counts_ != nullptr) counts_->Count(why);
  }

  ExchangeRefusalCounts* const counts_;
  Fd wake_;              // while thread_ runs
  std::string address_;  // as requested
  std::string bound_;
  Mutex mu_;
  std::vector<std::weak_ptr<ExpectedEpoch>> known_ JANUS_GUARDED_BY(mu_);
  std::shared_ptr<ExpectedEpoch> served_ JANUS_GUARDED_BY(mu_);
  std::jthread thread_;  // destroyed first
};

}  // namespace janus::dataplane
