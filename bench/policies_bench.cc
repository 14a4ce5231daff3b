// Every trace of data/traces under our policy and under peers: both models, H200 and H100, TPOT 50
// and 100 ms, at two scales. Prints the table of docs/simulation.md.
//
// policies_bench [--only WORD] [--columns WORDS] [--seed N] [--keep FILE] [--csv FILE]
//                [--peers FILE]
//   --only     cases with the word in their names
//   --columns  which to run, separated by commas: today, fp8, sums, pools, all, same, sized, any
//   --seed     of the times of requests (1): one run of a case moves by about 2 % by luck
//   --keep     results so far (build/policies_bench.tsv). What this same program has run with the
//              same seed is not run again: a run that was cut continues.
//   --csv      a file to write, with a line for each case (bench/results/policies.csv)
//   --peers    such a file of an earlier run: columns that are not run are taken from it
//
// A peer is one of six rules over copies of the whole model. A peer that misses the target runs
// again with stricter thresholds until it attains it. Ours is compared with the cheapest that
// attains it, once among copies of JANUS's form (data- and expert-parallel on 16, 32 or 64 GPUs),
// and once among copies in any form of MixServe's grammar on 8 to 64 GPUs.

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <span>
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

// What is run for a case. Of ours, the numerics are fixed as a user fixes them for a service.
struct Column {
  const char* name;
  const char* title;
};
constexpr Column kColumns[] = {
    {"today", "ours, served without options"},
    {"fp8", "ours, served with fp8"},
    {"sums", "ours, served with fp8 rows and sums of 24 bits"},
    {"pools", "ours, with fp8 and pools"},
    {"all", "ours, every mode and pools"},
    {"same", "copies under the decision of ours"},
    {"sized", "best peer, 16-64 DP+EP"},
    {"any", "best peer, any"},
};
constexpr size_t kOurs = 5;                 // the first ones
using Row = std::map<std::string, Result>;  // by the column's name

constexpr double kWanted = 0.95;
constexpr int kMostPools = 8;

std::string Say(const Row& row, const std::string& column) {
  const auto at = row.find(column);
  if (at == row.end()) return "not run";
  const Result& result = at->second;
  if (result.who.empty()) return "none attains";
  char text[96];
  std::snprintf(text, sizeof(text), "%.0f, %.1f %% %s", result.gpu_hours, 100 * result.attained,
                result.who.c_str());
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

constexpr uint64_t kDefaultSeed = 1;

// The name under which a case's results with this seed are kept.
std::string OfSeed(const std::string& name, uint64_t seed) {
  return seed == kDefaultSeed ? name : name + "; seed " + std::to_string(seed);
}

// Results that this program has written before.
class Kept {
 public:
  explicit Kept(std::string path) : path_(std::move(path)), program_(OfThisProgram()) {
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      char name[96], column[32], who[64];
      uint64_t program = 0;
      Result result;
      if (std::sscanf(line.c_str(), "%" SCNu64 "\t%95[^\t]\t%31[^\t]\t%63[^\t]\t%lf\t%lf", &program,
                      name, column, who, &result.gpu_hours, &result.attained) != 6 ||
          program != program_) {
        continue;
      }
      if (std::string(who) != "-") result.who = who;
      rows_[name][column] = result;
    }
  }

  Row& Of(const std::string& name) { return rows_[name]; }

  void Add(const std::string& name, const std::string& column, const Result& result) {
    rows_[name][column] = result;
    std::ofstream file(path_, std::ios::app);
    file << program_ << '\t' << name << '\t' << column << '\t'
         << (result.who.empty() ? "-" : result.who) << '\t' << result.gpu_hours << '\t'
         << result.attained << '\n';
  }

 private:
  const std::string path_;
  const uint64_t program_;
  std::map<std::string, Row> rows_;
};

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    c == at ? static_cast<void>(parts.emplace_back()) : parts.back().push_back(c);
  return parts;
}

// The columns of a file that --csv has written, by case.
std::map<std::string, Row> ReadCsv(const std::string& path) {
  std::map<std::string, Row> rows;
  std::ifstream file(path);
  std::vector<std::string> header;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> cells = Split(line, ',');
    if (header.empty()) {
      header = cells;
      continue;
    }
    for (size_t c = 1; c + 2 < std::min(cells.size(), header.size()); c += 3) {
      if (cells[c].empty()) continue;
      const std::string column = header[c].substr(0, header[c].find(' '));
      rows[cells[0]][column] = {cells[c + 2] == "none attains" ? "" : cells[c + 2],
                                std::atof(cells[c].c_str()), std::atof(cells[c + 1].c_str()) / 100};
    }
  }
  return rows;
}

void WriteCsv(const std::string& path, const std::vector<std::pair<std::string, Row>>& rows) {
  std::ofstream file(path);
  file << "case";
  for (const Column& column : kColumns) {
    file << ',' << column.name << " GPU-hours," << column.name << " %," << column.name << " by";
  }
  file << '\n';
  for (const auto& [name, row] : rows) {
    file << name;
    for (const Column& column : kColumns) {
      const auto at = row.find(column.name);
      if (at == row.end()) {
        file << ",,,";
        continue;
      }
      const Result& result = at->second;
      char text[128];
      std::snprintf(text, sizeof(text), ",%.1f,%.1f,%s", result.gpu_hours, 100 * result.attained,
                    result.who.empty() ? "none attains" : result.who.c_str());
      file << text;
    }
    file << '\n';
  }
}

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

Result RunColumn(const std::string& column, const cli::SimulateOptions& options,
                 std::span<const SimulatedRequest> requests, const Setting& setting) {
  Comparison comparison;
  comparison.belief = comparison.truth = setting;
  comparison.scaling = options.scaling;
  PredictorOptions& exchange = comparison.predictor;
  exchange.max_micro_batches = kMaxMicroBatches;
  exchange.max_attention = options.scaling.attention.max;
  exchange.max_experts = options.scaling.experts.max;
  comparison.tightens_peers = true;
  comparison.machinery.growth_reserve_percent = options.growth_reserve_percent;
  comparison.policies = {"ours"};
  if (column == "fp8" || column == "sums" || column == "pools") {
    exchange.wires = {WireFormat::kFp8};
  }
  if (column == "sums") {
    exchange.sums = {SumRule::kFixedPoint};
    exchange.sum_bits = 24;
  }
  if (column == "all") exchange = WithAllModes(exchange);
  if (column == "pools" || column == "all") comparison.scaling.max_pools = kMostPools;
  if (column == "same") comparison.policies = {"whole"};
  const bool is_peers = column == "sized" || column == "any";
  if (is_peers) comparison.policies = {"whole", "ceil", "hpa", "wva", "dynamo"};
  if (column == "sized") {
    comparison.policies.push_back("sglang");
    comparison.wholes = {{16}, {32}, {64}};
  }
  const auto runs = Compare(requests, comparison, {});
  if (is_peers) return runs.ok() ? Best(*runs) : Result();
  return Alone(runs, comparison.policies.front().c_str());
}

Result Better(const Result& a, const Result& b) {
  if (a.who.empty() || b.who.empty()) return a.who.empty() ? b : a;
  return a.gpu_hours <= b.gpu_hours ? a : b;
}

std::string RatioOf(const Row& row, const std::string& ours, const Result& peer) {
  const auto at = row.find(ours);
  if (at == row.end() || !row.contains("sized")) return "not run";
  if (at->second.who.empty() || at->second.attained < kWanted) return "misses";
  if (peer.who.empty()) return "alone attains";
  char text[32];
  std::snprintf(text, sizeof(text), "%.0f %%", 100 * at->second.gpu_hours / peer.gpu_hours);
  return text;
}

int Main(const std::vector<std::string>& args) {
  std::string only, csv, peers;
  uint64_t seed = kDefaultSeed;
  std::string columns = "today,fp8,sums,pools,all,same,sized,any";
  std::string keep = JANUS_SOURCE_DIR "/build/policies_bench.tsv";
  const auto text_flag = [](const char* name, std::string* into) {
    return Flag{name, "a text", [into](std::string_view value) {
                  *into = value;
                  return true;
                }};
  };
  if (!TakeFlags("policies_bench", args,
                 {text_flag("--only", &only), text_flag("--columns", &columns),
                  text_flag("--keep", &keep), text_flag("--csv", &csv),
                  text_flag("--peers", &peers), NumberFlag("--seed", uint64_t{0}, &seed)})) {
    return 2;
  }
  const std::vector<std::string> asked = Split(columns, ',');
  for (const std::string& one : asked) {
    if (std::ranges::find(kColumns, one, &Column::name) != std::end(kColumns)) continue;
    return std::fprintf(stderr, "policies_bench: no column '%s'\n", one.c_str()), 2;
  }
  std::map<std::string, Row> earlier;
  if (!peers.empty()) earlier = ReadCsv(peers);
  Kept kept(keep);
  std::vector<std::pair<std::string, Row>> rows;
  std::printf(
      "GPU-hours and share of requests that attain (wanted: %.0f %%). Prompts are computed "
      "elsewhere, decisions every 60 s. Peers: the cheapest that attains; pools: up to %d.\n\n"
      "| case |",
      100 * kWanted, kMostPools);
  for (const Column& column : kColumns) std::printf(" %s |", column.title);
  for (const Column& column : std::span(kColumns).first(kOurs)) {
    std::printf(" %s, of 16-64 | of any |", column.name);
  }
  std::printf("\n|---");
  for (size_t i = 0; i < std::size(kColumns) + 2 * kOurs; ++i) std::printf("|---");
  std::printf("|\n");
  for (const Workload& workload : kWorkloads) {
    std::optional<cli::DemandRead> demand;
    for (const char* model : {"deepseek-v3", "deepseek-v2"}) {
      for (const char* device : {"H200", "H100"}) {
        for (const double tpot : {0.05, 0.1}) {
          char name[96];
          std::snprintf(name, sizeof(name), "%s; %s; %s; %.0f ms", workload.name, model + 9, device,
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
          options.demand.seed = seed;
          options.demand.prefill_elsewhere = true;
          options.scaling.interval_seconds = 60;
          options.scaling.tpot.seconds = tpot;
          const std::string run = OfSeed(name, seed);
          Row& row = kept.Of(run);
          for (const std::string& column : asked) {
            if (row.contains(column)) continue;
            if (!demand) {
              auto read = cli::ReadDemand(options.demand);
              if (!read.ok())
                return std::fprintf(stderr, "%s\n", read.status().message().c_str()), 1;
              demand = std::move(*read);
            }
            const auto setting = cli::ReadSetting(options.setting);
            if (!setting.ok()) return 1;
            kept.Add(run, column, RunColumn(column, options, demand->requests, *setting));
          }
          Row shown = row;
          shown.insert(earlier[name].begin(), earlier[name].end());
          const auto of = [&](const char* column) {
            const auto at = shown.find(column);
            return at == shown.end() ? Result() : at->second;
          };
          const Result sized = of("sized");
          const Result any = Better(of("any"), sized);
          std::printf("| %s |", name);
          for (const Column& column : kColumns)
            std::printf(" %s |", Say(shown, column.name).c_str());
          for (const Column& column : std::span(kColumns).first(kOurs)) {
            std::printf(" %s | %s |", RatioOf(shown, column.name, sized).c_str(),
                        RatioOf(shown, column.name, any).c_str());
          }
          std::printf("\n");
          std::fflush(stdout);
          rows.emplace_back(name, shown);
          if (!csv.empty()) WriteCsv(csv, rows);
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
