#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace janus::bench {

// The share of this machine's core time that its host gave to others since construction ("steal" of
// /proc/stat; 0 if there is no such file). Above a few percent, measured times depend on the host's
// other guests.
class StolenTime {
 public:
  StolenTime() : begin_(Read()) {}
  double share() const {
    const Ticks now = Read();
    const uint64_t all = now.all - begin_.all;
    return all == 0 ? 0.0
                    : static_cast<double>(now.stolen - begin_.stolen) / static_cast<double>(all);
  }

 private:
  struct Ticks {
    uint64_t all = 0;
    uint64_t stolen = 0;
  };
  static Ticks Read() {
    // cpu user nice system idle iowait irq softirq steal ...
    constexpr int kSteal = 7;
    std::ifstream stat("/proc/stat");
    std::string name;
    stat >> name;
    Ticks ticks;
    uint64_t field = 0;
    for (int i = 0; i <= kSteal && stat >> field; ++i) {
      ticks.all += field;
      if (i == kSteal) ticks.stolen = field;
    }
    return ticks;
  }

  const Ticks begin_;
};

}  // namespace janus::bench
