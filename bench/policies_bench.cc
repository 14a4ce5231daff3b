// Every trace of data/traces under our policy and under peers: both models, H200 and H100, TPOT 50
// and 100 ms, at two scales. Prints the table of docs/simulation.md.
//
// policies_bench [--only WORD] [--keep FILE]
//   --only   cases with the word in their names
//   --keep   results so far (build/policies_bench.csv). A case that this same program has run is
//            not run again: a run that was cut continues.
//
// A peer is one of six rules over copies of the whole model. A peer that misses the target runs
// again with stricter thresholds until it attains it. Ours is compared with the cheapest that
// attains it, once among copies of JANUS's form (data- and expert-parallel on 16, 32 or 64 GPUs),
// and once among copies in any form of MixServe's grammar on 8 to 64 GPUs.

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/flags.h"
#include "cli/simulate/command.h"
#include "controllers/simulate/compare.h"

namespace janus::bench {
namespace {

using namespace controllers;  // NOLINT: a bench of them

struct Workload {
  const char* name;
  const char* trace;
  double scale;
  double from_hours;
  double hours;
  int max_weight;
};
// The larger scale: copies of each whole model on 16 GPUs take 128 GPUs in the busiest minute.
constexpr Workload kWorkloads[] = {
    {"Azure", "azure2023_conv.csv.gz", 360, 0, 0, 100},
    {"Azure / 6", "azure2023_conv.csv.gz", 60, 0, 0, 100},
    {"R1", "servegen_deepseek_r1_div2", 12, 0, 0, 100},
    {"R1 / 6", "servegen_deepseek_r1_div2", 2, 0, 0, 100},
    {"m-large", "servegen_mlarge_div400", 800, 168, 96, 400},
    {"m-large / 6", "servegen_mlarge_div400", 133, 168, 96, 400},
};

// The result of a run.
struct Result {
  std::string who;
  double gpu_hours = 0;
  double attained = 0;
};
struct Row {
  Result today;  // ours, with what this version serves
  Result all;    // ours, all modes and pools
  Result same;   // copies under the same decision, any strategy
  Result sized;  // the best peer of JANUS's sizes
  Result any;    // the best peer of any strategy, including JANUS's sizes
};

constexpr double kWanted = 0.95;
constexpr int kMostPools = 8;

std::string Say(const Result& result) {
  char text[96];
  if (result.who.empty()) return "none attains";
  std::snprintf(text, sizeof(text), "%.0f, %.1f %%", result.gpu_hours, 100 * result.attained);
  return text;
}

// A hash of this program, so that it does not reuse results of another version.
uint64_t OfThisProgram() {
  std::ifstream self("/proc/self/exe", std::ios::binary);
  uint64_t hash = 1469598103934665603u;
  for (std::istreambuf_iterator<char> c(self), end; c != end; ++c) {
    hash = (hash ^ static_cast<unsigned char>(*c)) * 1099511628211u;
  }
  return hash;
}

// Cases that were run before, by name.
class Kept {
 public:
  explicit Kept(std::string path) : path_(std::move(path)), program_(OfThisProgram()) {
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      const size_t tab = line.find('\t');
      if (tab == std::string::npos || line.substr(0, tab) != std::to_string(program_)) continue;
      const size_t next = line.find('\t', tab + 1);
      if (next != std::string::npos)
        Read(line.substr(tab + 1, next - tab - 1), line.substr(next + 1));
    }
  }

  const Row* Find(const std::string& name) const {
    const auto found = rows_.find(name);
    return found == rows_.end() ? nullptr : &found->second;
  }

  void Add(const std::string& name, const Row& row) {
    rows_[name] = row;
    std::ofstream file(path_, std::ios::app);
    file << program_ << '\t' << name;
    for (const Result* r : {&row.today, &row.all, &row.same, &row.sized, &row.any}) {
      file << '\t' << (r->who.empty() ? "-" : r->who) << '\t' << r->gpu_hours << '\t'
           << r->attained;
    }
    file << '\n';
  }

 private:
  void Read(const std::string& name, const std::string& fields) {
    Row row;
    const char* at = fields.c_str();
    for (Result* r : {&row.today, &row.all, &row.same, &row.sized, &row.any}) {
      char who[64];
      int length = 0;
      if (std::sscanf(at, "%63[^\t]\t%lf\t%lf%n", who, &r->gpu_hours, &r->attained, &length) != 3) {
        return;
      }
      if (std::string(who) != "-") r->who = who;
      at += length + (at[length] == '\t' ? 1 : 0);
    }
    rows_[name] = row;
  }

  const std::string path_;
  const uint64_t program_;
  std::map<std::string, Row> rows_;
};

Result Best(const std::vector<SimulationRun>& runs) {
  Result best;
  for (const SimulationRun& run : runs) {
    if (run.totals.Attainment() < kWanted) continue;
    if (!best.who.empty() && run.totals.gpu_hours >= best.gpu_hours) continue;
    char strict[16] = "";
    if (run.strictness < 1) std::snprintf(strict, sizeof(strict), " x%.2g", run.strictness);
    best = {run.policy + strict, run.totals.gpu_hours, run.totals.Attainment()};
  }
  return best;
}

Result Alone(const janus::Result<std::vector<SimulationRun>>& runs, const char* name) {
  if (!runs.ok()) return {};
  for (const SimulationRun& run : *runs) {
    if (run.policy == name) return {name, run.totals.gpu_hours, run.totals.Attainment()};
  }
  return {};
}

Row RunCase(const cli::SimulateOptions& options, std::span<const SimulatedRequest> requests,
            const Setting& setting) {
  Comparison comparison;
  comparison.belief = comparison.truth = setting;
  comparison.scaling = options.scaling;
  comparison.predictor.max_micro_batches = 4;
  comparison.predictor.max_attention = options.scaling.attention.max;
  comparison.predictor.max_experts = options.scaling.experts.max;
  comparison.tightens_peers = true;
  comparison.machinery.growth_reserve_percent = options.growth_reserve_percent;
  Row row;
  Comparison ours = comparison;
  ours.policies = {"ours"};
  row.today = Alone(Compare(requests, ours, {}), "ours");
  ours.predictor = WithAllModes(ours.predictor);
  ours.scaling.max_pools = kMostPools;
  row.all = Alone(Compare(requests, ours, {}), "ours");
  Comparison peers = comparison;
  peers.policies = {"whole", "ceil", "hpa", "wva", "dynamo"};
  if (const auto runs = Compare(requests, peers, {}); runs.ok()) {
    row.any = Best(*runs);
    row.same = Alone(runs, "whole");
  }
  peers.policies.push_back("sglang");
  peers.wholes = {{16}, {32}, {64}};
  if (const auto runs = Compare(requests, peers, {}); runs.ok()) row.sized = Best(*runs);
  return row;
}

Result Better(const Result& a, const Result& b) {
  if (a.who.empty() || b.who.empty()) return a.who.empty() ? b : a;
  return a.gpu_hours <= b.gpu_hours ? a : b;
}

std::string RatioOf(const Result& ours, const Result& peer) {
  if (ours.who.empty() || ours.attained < kWanted) return "misses";
  if (peer.who.empty()) return "alone attains";
  char text[32];
  std::snprintf(text, sizeof(text), "%.0f %%", 100 * ours.gpu_hours / peer.gpu_hours);
  return text;
}

int Main(const std::vector<std::string>& args) {
  std::string only;
  std::string keep = JANUS_SOURCE_DIR "/build/policies_bench.csv";
  const auto text_flag = [](const char* name, std::string* into) {
    return Flag{name, "a text", [into](std::string_view value) {
                  *into = value;
                  return true;
                }};
  };
  if (!TakeFlags("policies_bench", args,
                 {text_flag("--only", &only), text_flag("--keep", &keep)})) {
    return 2;
  }
  Kept kept(keep);
  std::printf(
      "GPU-hours and share of requests that attain (wanted: %.0f %%). Prompts are computed "
      "elsewhere, decisions every 60 s.\n"
      "today: ours with what this version serves; all: every mode and up to %d pools; peers: the "
      "cheapest that attains, of DP+EP on 16, 32, 64 GPUs and of these and any strategy on 8 to "
      "64;\n"
      "same: copies of the best strategy under the decision of ours\n\n"
      "| case | ours today | ours, all | same | best peer, 16-64 DP+EP | best peer, any | all of "
      "16-64 | all of any |\n|---|---|---|---|---|---|---|---|\n",
      100 * kWanted, kMostPools);
  for (const Workload& workload : kWorkloads) {
    std::optional<cli::DemandRead> demand;
    for (const char* model : {"deepseek-v3", "deepseek-v2"}) {
      for (const char* device : {"H200", "H100"}) {
        for (const double tpot : {0.05, 0.1}) {
          char name[96];
          std::snprintf(name, sizeof(name), "%s, %s, %s, %.0f ms", workload.name, model + 9, device,
                        tpot * 1e3);
          if (!only.empty() && std::string(name).find(only) == std::string::npos) continue;
          cli::SimulateOptions options;
          options.setting.model = model;
          options.setting.attention_hardware = options.setting.expert_hardware = device;
          options.demand.trace = std::string(JANUS_SOURCE_DIR "/data/traces/") + workload.trace;
          options.demand.scale = workload.scale;
          options.demand.from_hours = workload.from_hours;
          options.demand.hours = workload.hours;
          options.demand.max_weight = workload.max_weight;
          options.demand.prefill_elsewhere = true;
          options.scaling.interval_seconds = 60;
          options.scaling.tpot.seconds = tpot;
          const Row* row = kept.Find(name);
          if (row == nullptr) {
            if (!demand) {
              auto read = cli::ReadDemand(options.demand);
              if (!read.ok())
                return std::fprintf(stderr, "%s\n", read.status().message().c_str()), 1;
              demand = std::move(*read);
            }
            const auto setting = cli::ReadSetting(options.setting);
            if (!setting.ok()) return 1;
            kept.Add(name, RunCase(options, demand->requests, *setting));
            row = kept.Find(name);
          }
          const Result any = Better(row->any, row->sized);
          const auto by = [](const Result& r) {
            return Say(r) + (r.who.empty() ? "" : " " + r.who);
          };
          std::printf("| %s | %s | %s | %s | %s | %s | %s | %s |\n", name, Say(row->today).c_str(),
                      Say(row->all).c_str(), Say(row->same).c_str(), by(row->sized).c_str(),
                      by(any).c_str(), RatioOf(row->all, row->sized).c_str(),
                      RatioOf(row->all, any).c_str());
          std::fflush(stdout);
        }
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace janus::bench

int main(int argc, char** argv) {
  return janus::bench::Main({argv + 1, argv + argc});
}
