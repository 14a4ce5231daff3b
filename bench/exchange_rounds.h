#pragma once

// Shared by benchmarks of the exchange: rounds of 1A1E from either side, in two processes.

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "dataplane/comm/exchange/exchange.h"

namespace janus::dataplane {

inline MonotonicTime Soon() {
  return MonotonicClock::now() + std::chrono::seconds(30);
}

// Micro-batches alternate.
inline RoundKey KeyOfRound(int round, const ExchangeShape& shape) {
  RoundKey key;
  key.epoch = 1;
  key.step = static_cast<uint64_t>(round / shape.micro_batches) + 1;
  key.micro_batch = static_cast<uint8_t>(round % shape.micro_batches);
  return key;
}

// Answers `rounds` rounds. With `copy` it copies the rows into the contributions; without, the
// contributions are whatever the slot holds.
inline void ExpertSide(Transport& transport, const ExchangeShape& shape, int rounds, bool copy) {
  auto exchange = *MakeExpertExchange(shape, transport);
  for (int i = 0; i < rounds; ++i) {
    const RoundKey key = KeyOfRound(i, shape);
    ArrivedRows rows;
    const Status waited =
        transport.Wait(Soon(), [&] { return *exchange->Poll(key, Rank{0}, rows); });
    if (!waited.ok()) _exit(1);
    const size_t bytes = static_cast<size_t>(rows.count) * shape.row_bytes();
    const ExpertExchange::Outgoing out =
        exchange->Begin(key.micro_batch, Rank{0}, rows.count * shape.top_k);
    const auto k = static_cast<size_t>(shape.top_k);
    // Sums have their references in order of rows. All are zero.
    for (size_t c = 0; shape.sums.on() && c < out.refs.size(); ++c) {
      out.refs[c] = {static_cast<uint16_t>(c / k), static_cast<uint16_t>(c % k), 0};
    }
    for (size_t c = 0, slot = 0; slot < k && !shape.sums.on(); ++slot) {
      if (copy) std::memcpy(out.rows + slot * bytes, rows.rows, bytes);
      for (int r = 0; r < rows.count; ++r, ++c)
        out.refs[c] = {static_cast<uint16_t>(r), static_cast<uint8_t>(slot), 0};
    }
    if (!exchange->Post(key, Rank{0}, rows.posted).ok()) _exit(1);
  }
}

// Runs and times one round after the other. Copies nothing if `from` and `to` are null.
inline void AttentionSide(Transport& transport, const ExchangeShape& shape, int rounds, int rows,
                          const std::byte* from, std::byte* to, std::vector<double>& micros) {
  auto exchange = *MakeAttentionExchange(shape, transport);
  const size_t bytes = static_cast<size_t>(rows) * shape.row_bytes();
  for (int i = 0; i < rounds; ++i) {
    const RoundKey key = KeyOfRound(i, shape);
    const MonotonicTime start = MonotonicClock::now();
    const std::span<std::byte> slot = exchange->Rows(key.micro_batch);
    if (from != nullptr) std::memcpy(slot.data(), from, bytes);
    JANUS_CHECK(exchange->Post(key, rows, start).ok());
    const Status waited = transport.Wait(Soon(), [&] { return *exchange->Poll(key); });
    JANUS_CHECK(waited.ok(), waited.ToString());
    const auto table = exchange->Contributions(key.micro_batch);
    const size_t reply = shape.reply_bytes();
    std::byte* at = to;
    for (size_t c = 0; c < table.size() && to != nullptr; ++c) {
      if (table[c] == nullptr) continue;  // in another slot's sum
      std::memcpy(at, table[c], reply);
      at += reply;
    }
    micros.push_back(Seconds(MonotonicClock::now() - start).count() * 1e6);
  }
}

inline double At(const std::vector<double>& sorted, double part) {
  return sorted[static_cast<size_t>(part * static_cast<double>(sorted.size() - 1))];
}

// Runs `child` in another process, which ends with this one, and `parent` here.
template <class Child, class Parent>
void InTwoProcesses(Child&& child, Parent&& parent) {
  const pid_t pid = fork();
  JANUS_CHECK(pid >= 0);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    child();
    _exit(0);
  }
  parent();
  int status = 0;
  waitpid(pid, &status, 0);
  JANUS_CHECK(status == 0, status);
}

// Median one-way time of ucx_perftest for messages of `bytes`, in microseconds; 0: it is not
// installed. `as_server` + command starts the server; the client runs as `as_client` + command (by
// default here) and connects to `host`. It sends `repeats` messages after the warm-up.
inline double PerftestMicros(const std::string& as_server, const std::string& host, size_t bytes,
                             int repeats, int port, const std::string& as_client = "") {
  const std::string quiet = " >/dev/null 2>&1";
  const std::string common = "ucx_perftest -p " + std::to_string(port);
  if (std::system(("command -v ucx_perftest" + quiet).c_str()) != 0) return 0;
  const std::string command =
      "(" + as_server + " timeout 60 " + common + quiet + " &) ; sleep 0.3; " + as_client +
      "timeout 60 " + common + " " + host + " -t tag_lat -f -v -w " +
      std::to_string(std::max(10, repeats / 10)) + " -n " + std::to_string(repeats) + " -s " +
      std::to_string(bytes) + " 2>/dev/null | tail -1";
  FILE* pipe = popen(command.c_str(), "r");
  JANUS_CHECK(pipe != nullptr);
  double iterations = 0, median = 0;
  const int got = std::fscanf(pipe, "%lf,%lf", &iterations, &median);
  pclose(pipe);
  return got == 2 ? median : 0;
}

}  // namespace janus::dataplane
