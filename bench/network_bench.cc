// Which share of a limited link does the exchange reach? Two processes run in separate network
// namespaces. A veth pair joins them; each of its ends has a token-bucket filter (tc tbf).
//
//   build/dev/bin/network_bench [rounds]      one JSON line per rate and size; needs root
//
// A round of 1A1E: rows to the expert process, and as many bytes of contributions back, over UCX
// (TCP). "share" is the time that its payload needs on the link, in both directions one after the
// other, over the time of the round. "pipelined" has two micro-batches in flight, so that both
// directions work at once; it is the share of one direction. In the same namespaces run
// ucx_perftest's tag_lat for the same two messages, and a bare TCP socket that sends as many bytes
// and gets as many back.
//
// The namespaces have no names. They disappear with their processes, together with the veth pair
// and its filters. The processes end with the first process of the namespace, however that ends.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "bench/exchange_rounds.h"
#include "bench/flags.h"
#include "bench/namespaces.h"
#include "common/fd.h"
#include "dataplane/comm/transport/ucx/transport.h"

namespace janus::dataplane {
namespace {

using bench::AwaitLink;
using bench::Must;
using bench::OtherNamespace;

constexpr int kHidden = 512;  // rows of 1 KB
constexpr int kMaxRows = 1024;
constexpr const char* kHere = "10.97.0.1";
constexpr const char* kThere = "10.97.0.2";
constexpr const char* kDevice = "janus0";  // in both namespaces

void Limit(const std::string& prefix, const std::string& rate, const std::string& burst) {
  Must(prefix + "tc qdisc replace dev " + kDevice + " root tbf rate " + rate + " burst " + burst +
       " latency 200ms");
}

void Join(const OtherNamespace& other) {
  Must(std::string("ip link add ") + kDevice + " type veth peer name " + kDevice + " netns " +
       other.pid());
  for (const auto& [prefix, address] :
       {std::pair(std::string(), kHere), std::pair(other.inside(), kThere)}) {
    Must(prefix + "ip link set lo up");
    Must(prefix + "ip address add " + address + "/24 dev " + kDevice);
    Must(prefix + "ip link set " + kDevice + " up");
  }
  for (const std::string& prefix : {std::string(), other.inside()}) AwaitLink(prefix, kDevice);
}

// --- the exchange -------------------------------------------------------------------------------

ExchangeShape ShapeOf(int micro_batches) {
  ExchangeShape shape;
  shape.hidden = kHidden;
  shape.top_k = 1;
  shape.wire = DType::kBFloat16;
  shape.max_rows = kMaxRows;
  shape.micro_batches = micro_batches;
  shape.m = shape.n = 1;
  return shape;
}

std::unique_ptr<Transport> Connect(const ExchangeShape& shape, PeerId self, int port) {
  const bool attention = self.role == Role::kAttention;
  NetworkOptions options;
  options.connect.addresses = {"tcp:" + std::string(kHere) + ":" + std::to_string(port)};
  options.connect.policy = WaitPolicy::ForThreads(2);
  options.connect.deadline = Soon();
  options.shares_memory = [](PeerId) { return false; };
  options.devices = kDevice;
  auto listener = *ExchangeListener::Create(attention ? options.connect.addresses[0]
                                                      : "tcp:" + std::string(kThere) + ":0");
  return *ConnectNetwork(LayoutFor(ExchangeMode::kDirect, shape, self), options, *listener, {});
}

// Keeps as many rounds in flight as there are micro-batches. Returns seconds per round.
double Pipelined(Transport& transport, const ExchangeShape& shape, int warm, int rounds, int rows) {
  auto exchange = *MakeAttentionExchange(shape, transport);
  const int b = shape.micro_batches;
  MonotonicTime start;
  for (int i = 0; i < warm + rounds + b - 1; ++i) {
    if (i == warm) start = MonotonicClock::now();
    if (i < warm + rounds) {
      JANUS_CHECK(exchange->Post(KeyOfRound(i, shape), rows, MonotonicClock::now()).ok());
    }
    if (i < b - 1) continue;
    const RoundKey key = KeyOfRound(i - (b - 1), shape);
    const Status waited = transport.Wait(Soon(), [&] { return *exchange->Poll(key); });
    JANUS_CHECK(waited.ok(), waited.ToString());
  }
  return Seconds(MonotonicClock::now() - start).count() / rounds;
}

template <class AttentionRounds>
void WithExperts(const OtherNamespace& other, const ExchangeShape& shape, int rounds, int port,
                 AttentionRounds&& attention) {
  InTwoProcesses(
      [&] {
        other.Enter();
        auto transport = Connect(shape, {Role::kExperts, Rank{0}}, port);
        ExpertSide(*transport, shape, rounds, false);
        // The last message must still be sent.
        (void)transport->Wait(MonotonicClock::now() + std::chrono::milliseconds(300),
                              [] { return false; });
      },
      [&] {
        auto transport = Connect(shape, {Role::kAttention, Rank{0}}, port);
        attention(*transport);
      });
}

// --- a bare socket ------------------------------------------------------------------------------

bool SendAll(int fd, const std::vector<std::byte>& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = send(fd, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}
bool ReceiveAll(int fd, std::vector<std::byte>& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = recv(fd, bytes.data() + done, bytes.size() - done, 0);
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

// Median microseconds for `out` bytes there and `back` bytes back.
double SocketMicros(const OtherNamespace& other, size_t out, size_t back, int rounds, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, kHere, &address.sin_addr);
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  const auto no_delay = [](int fd) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  };
  const Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  JANUS_CHECK(bind(listener.get(), name, sizeof address) == 0 && listen(listener.get(), 1) == 0);
  std::vector<double> micros;
  InTwoProcesses(
      [&] {
        other.Enter();
        const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (connect(fd.get(), name, sizeof address) != 0) _exit(1);
        no_delay(fd.get());
        std::vector<std::byte> request(out), answer(back);
        while (ReceiveAll(fd.get(), request)) {
          if (!SendAll(fd.get(), answer)) break;
        }
      },
      [&] {
        const Fd fd(accept(listener.get(), nullptr, nullptr));
        JANUS_CHECK(static_cast<bool>(fd));
        no_delay(fd.get());
        std::vector<std::byte> request(out), answer(back);
        const int warm = std::max(10, rounds / 10);
        for (int i = 0; i < warm + rounds; ++i) {
          const MonotonicTime start = MonotonicClock::now();
          JANUS_CHECK(SendAll(fd.get(), request) && ReceiveAll(fd.get(), answer));
          if (i >= warm) micros.push_back(Seconds(MonotonicClock::now() - start).count() * 1e6);
        }
      });
  std::sort(micros.begin(), micros.end());
  return At(micros, .5);
}

// --- a case -------------------------------------------------------------------------------------

// gbit 0: no limit.
void Case(const OtherNamespace& other, double gbit, int rows, int rounds) {
  static int port = 20000;
  const ExchangeShape shape = ShapeOf(1), pair = ShapeOf(2);
  const auto count = static_cast<size_t>(rows);
  const size_t out = sizeof(Header) + count * shape.row_bytes();
  const size_t back = sizeof(Header) + ContributionBytes(count, shape.row_bytes());
  const double there_micros = gbit > 0 ? static_cast<double>(out) * 8e-3 / gbit : 0;
  const double back_micros = gbit > 0 ? static_cast<double>(back) * 8e-3 / gbit : 0;
  const int warm = std::max(10, rounds / 10);

  const double socket = SocketMicros(other, out, back, rounds, ++port);
  double floor = 0;
  for (const size_t bytes : {out, back}) {
    floor += PerftestMicros(other.inside(), kThere, bytes, rounds, ++port);
  }
  std::vector<double> micros;
  WithExperts(other, shape, warm + rounds, ++port, [&](Transport& transport) {
    std::vector<double> all;
    AttentionSide(transport, shape, warm + rounds, rows, nullptr, nullptr, all);
    micros.assign(all.begin() + warm, all.end());
  });
  std::sort(micros.begin(), micros.end());
  double pipelined = 0;
  WithExperts(other, pair, warm + rounds, ++port, [&](Transport& transport) {
    pipelined = Pipelined(transport, pair, warm, rounds, rows) * 1e6;
  });
  const double round = At(micros, .5);
  const auto share = [&](double needed, double took) { return took > 0 ? needed / took : 0.0; };
  const double both = there_micros + back_micros;
  std::printf(
      "{\"bench\":\"network\",\"link_gbit\":%g,\"bytes_out\":%zu,\"bytes_back\":%zu,"
      "\"round_us\":{\"p50\":%.1f,\"p99\":%.1f},\"ucx_perftest_us\":%.1f,\"socket_us\":%.1f,"
      "\"pipelined_us\":%.1f,\"share\":%.3f,\"ucx_perftest_share\":%.3f,\"socket_share\":%.3f,"
      "\"pipelined_share\":%.3f,\"rounds\":%d}\n",
      gbit, out, back, round, At(micros, .99), floor, socket, pipelined, share(both, round),
      share(both, floor), share(both, socket), share(back_micros, pipelined), rounds);
  std::fflush(stdout);
}

}  // namespace
}  // namespace janus::dataplane

int main(int argc, char** argv) {
  int rounds = 300;
  if (!janus::bench::TakeRounds("network_bench", {argv + 1, argv + argc}, &rounds)) return 2;
  if (const std::string why = janus::bench::EnterFreshNamespace(); !why.empty()) {
    std::fprintf(stderr, "network_bench: not run: %s\n", why.c_str());
    return 0;
  }
  // For ucx_perftest; the exchange asks for the same.
  setenv("UCX_TLS", "tcp", 1);
  setenv("UCX_NET_DEVICES", "janus0", 1);
  const janus::bench::OtherNamespace other;
  janus::dataplane::Join(other);
  struct Link {
    double gbit;
    const char* rate;
    const char* burst;  // bytes sent at once: small, or short messages would exceed the limit
  };
  for (const Link& link : {Link{1, "1gbit", "4kb"}, Link{10, "10gbit", "16kb"}, Link{0, "", ""}}) {
    if (link.gbit > 0) {
      for (const std::string& prefix : {std::string(), other.inside()})
        janus::dataplane::Limit(prefix, link.rate, link.burst);
    } else {
      for (const std::string& prefix : {std::string(), other.inside()})
        janus::bench::Must(prefix + "tc qdisc del dev janus0 root");
    }
    for (const int rows : {1, 8, 64, 1024}) {
      janus::dataplane::Case(other, link.gbit, rows,
                             std::max(10, rows == 1024 ? rounds / 5 : rounds));
    }
  }
  return 0;
}
