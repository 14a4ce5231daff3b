#include "cli/plan/calibration.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "cli/csv.h"
#include "controllers/fit/power_law.h"

namespace janus::cli {
namespace {

using controllers::CollectiveMeasurement;
using controllers::ErrorSummary;
using controllers::ExchangeMeasurement;
using controllers::ExpertMeasurement;
using controllers::GroupedMeasurement;
using controllers::LatentMeasurement;

constexpr double kMilli = 1e-3;
constexpr double kMicro = 1e-6;

// Reads a file row by row. `take` reads fields through the getters and returns false at a bad one.
class MeasurementFile {
 public:
  static Result<std::string> Read(const std::string& folder, const std::string& device,
                                  const std::string& kind) {
    return ReadPossiblyGzip(Path(folder, device, kind));
  }
  static std::string Path(const std::string& folder, const std::string& device,
                          const std::string& kind) {
    return folder + "/" + device + "_" + kind + ".csv.gz";
  }

  MeasurementFile(std::string path, std::string_view text) : path_(std::move(path)), csv_(text) {}

  bool Next() { return status_.ok() && csv_.Next(); }
  double Number(const char* name) {
    const std::optional<double> value = csv_.Number(csv_.FindColumn({name}));
    if (!value && status_.ok()) {
      status_ = InvalidArgument(path_ + ": line " + std::to_string(csv_.line()) + ": column " +
                                name + " is '" + std::string(csv_.Text(csv_.FindColumn({name}))) +
                                "'; want a number");
    }
    return value.value_or(1);
  }
  std::string Text(const char* name) { return std::string(csv_.Text(csv_.FindColumn({name}))); }
  const Status& status() const { return status_; }

 private:
  std::string path_;
  CsvReader csv_;
  Status status_;
};

template <class Measurement>
void Deal(Split<Measurement>& split, bool is_held, Measurement measurement) {
  (is_held ? split.held : split.fit).push_back(std::move(measurement));
}

bool IsOneOf(double value, std::initializer_list<double> values) {
  return std::ranges::find(values, value) != values.end();
}

// DeepSeek-V3's expert layer in decode. Held back: 128 and 2048 tokens, groups of 16 instances.
Status ReadExperts(MeasurementFile& file, Calibration& calibration) {
  constexpr int kExperts = 256;
  constexpr int kTopK = 8;
  constexpr int kDraws = 64;
  calibration.expert_shape = {7168, 2048, 1, 1};
  while (file.Next()) {
    const int tokens = static_cast<int>(file.Number("num_tokens"));
    const int instances = static_cast<int>(file.Number("moe_ep_size"));
    const std::string distribution = file.Text("distribution");
    ExpertMeasurement m;
    m.seconds = file.Number("latency") * kMilli;
    const bool is_balanced = distribution == "uniform";
    if (is_balanced) {
      m.experts = controllers::BalancedRows(tokens, kExperts, kTopK, instances);
    } else {
      const double alpha = std::atof(distribution.substr(distribution.rfind('_') + 1).c_str());
      m.experts = controllers::RowsOfBusiestInstance({tokens, kExperts, kTopK, instances, alpha},
                                                     kDraws, 1);
    }
    if (!is_balanced && tokens * kTopK <= kExperts) {
      calibration.unclear_experts.push_back(std::move(m));
    } else {
      Deal(calibration.experts, IsOneOf(tokens, {128, 2048}) || instances == 16, std::move(m));
    }
  }
  return file.status();
}

// Held back: batches of 8 and 128, contexts of 256 and 4096, the shape of 32 heads over 8.
Status ReadGrouped(MeasurementFile& file, Calibration& calibration) {
  while (file.Next()) {
    GroupedMeasurement m;
    m.batch = file.Number("batch_size");
    m.context = file.Number("step") + 1;
    const std::string cache = file.Text("kv_cache_dtype");
    m.shape = {file.Number("num_heads"), file.Number("num_key_value_heads"),
               file.Number("head_dim"), cache == "fp8" ? 1.0 : 2.0, file.Number("window_size")};
    m.seconds = file.Number("latency") * kMilli;
    const std::string kind = file.Text("kernel_source") + " " + cache + " head " +
                             std::to_string(static_cast<int>(m.shape.head_dim)) +
                             (m.shape.window > 0 ? " windowed" : "");
    const bool is_held = IsOneOf(m.batch, {8, 128}) || IsOneOf(m.context, {256, 4096}) ||
                         (m.shape.heads == 32 && m.shape.kv_heads == 8);
    Deal(calibration.grouped[kind], is_held, m);
  }
  return file.status();
}

// Held back: batches of 8 and 128, contexts of 64 and 2048, 32 heads.
Status ReadLatent(MeasurementFile& file, Calibration& calibration) {
  while (file.Next()) {
    const LatentMeasurement m = {file.Number("num_heads"), file.Number("batch_size"),
                                 file.Number("isl"), file.Number("latency") * kMilli};
    const bool is_held =
        IsOneOf(m.batch, {8, 128}) || IsOneOf(m.context, {64, 2048}) || m.heads == 32;
    Deal(calibration.latent[file.Text("kernel_source")], is_held, m);
  }
  return file.status();
}

// One file has both directions: fp8 rows to the experts, bf16 rows back. Held back: 8 and 128
// tokens, and within a node the hidden size 6144.
Status ReadExchange(MeasurementFile& file, bool is_multinode, Calibration& calibration) {
  const std::string where = is_multinode ? " across nodes" : " in a node";
  while (file.Next()) {
    const double tokens = file.Number("num_token");
    const double hidden = is_multinode ? 7168 : file.Number("hidden_size");
    const double top_k = is_multinode ? 8 : file.Number("num_topk");
    const double nodes = is_multinode ? file.Number("node_num") : 1;
    const ExchangeLoad out = {tokens, tokens * top_k * hidden, file.Number("num_experts"), nodes};
    ExchangeLoad back = out;
    back.bytes *= 2;
    const bool is_held = IsOneOf(tokens, {8, 128}) || (!is_multinode && hidden == 6144);
    Deal(calibration.exchange["dispatch" + where], is_held,
         ExchangeMeasurement{out, file.Number("dispatch_avg_t_us") * kMicro});
    Deal(calibration.exchange["combine" + where], is_held,
         ExchangeMeasurement{back, file.Number("combine_avg_t_us") * kMicro});
  }
  return file.status();
}

// Held back: four message sizes.
Status ReadCollective(MeasurementFile& file, Calibration& calibration) {
  while (file.Next()) {
    const double elements = file.Number("message_size");
    const double bytes = elements * (file.Text("nccl_dtype") == "half" ? 2 : 1);
    Deal(calibration.collective[file.Text("op_name")],
         IsOneOf(elements, {4096, 65536, 1 << 20, 1 << 24}),
         CollectiveMeasurement{file.Number("num_gpus"), bytes, file.Number("latency") * kMilli});
  }
  return file.status();
}

// Compares `cost` with measurements of its kind.
template <class Cost, class Measurement>
ErrorSummary JudgeCost(const Cost& cost, const std::vector<Measurement>& measured) {
  return controllers::Judge(std::span<const Measurement>(measured),
                            [&](const Measurement& m) { return controllers::Predict(cost, m); });
}

struct Goal {
  double median;
  double p90;
};
constexpr Goal kExpertGoal = {0.05, 0.10};
constexpr Goal kAttentionGoal = {0.10, 0};
constexpr Goal kExchangeGoal = {0.15, 0};

class Checker {
 public:
  explicit Checker(std::vector<CalibrationLine>& lines) : lines_(lines) {}

  void Add(const std::string& term, const std::string& device, const std::string& kind,
           size_t fitted, const ErrorSummary& held, const Goal& goal) {
    lines_.push_back({term, device, kind, static_cast<int>(fitted), held, goal.median, goal.p90});
  }

  // Fits each kind of one term separately. Also judges the fit of the other device on this one.
  template <class Measurement, class Fit, class Carry>
  Status Kinds(const std::string& term, const Goal& goal,
               const std::map<std::string, Split<Measurement>>& here,
               const std::map<std::string, Split<Measurement>>& there, const Fit& fit,
               const Carry& carry) {
    for (const auto& [kind, split] : here) {
      JANUS_ASSIGN_OR_RETURN(const auto cost, fit(split.fit));
      Add(term, "H100", kind, split.fit.size(), JudgeCost(cost, split.held), goal);
    }
    for (const auto& [kind, split] : there) {
      JANUS_ASSIGN_OR_RETURN(const auto cost, fit(split.fit));
      Add(term, "H200", kind, split.fit.size(), JudgeCost(cost, split.held), goal);
      const auto same = here.find(kind);
      if (same == here.end()) continue;
      Add(term, "H100 from H200", kind, split.fit.size(), JudgeCost(carry(cost), same->second.held),
          {0, 0});
    }
    return OkStatus();
  }

 private:
  std::vector<CalibrationLine>& lines_;
};

}  // namespace

Result<Calibration> ReadCalibration(const std::string& folder, const std::string& device) {
  Calibration calibration;
  using Reader = Status (*)(MeasurementFile&, Calibration&);
  const std::pair<const char*, Reader> files[] = {
      {"moe_decode_deepep", &ReadExperts},
      {"attention_decode", &ReadGrouped},
      {"mla_decode_sglang", &ReadLatent},
      {"deepep_ll", [](MeasurementFile& f, Calibration& c) { return ReadExchange(f, false, c); }},
      {"deepep_ll_multinode",
       [](MeasurementFile& f, Calibration& c) { return ReadExchange(f, true, c); }},
      {"nccl", &ReadCollective}};
  for (const auto& [kind, read] : files) {
    JANUS_ASSIGN_OR_RETURN(const std::string text, MeasurementFile::Read(folder, device, kind));
    MeasurementFile file(MeasurementFile::Path(folder, device, kind), text);
    JANUS_RETURN_IF_ERROR(read(file, calibration));
  }
  return calibration;
}

Result<std::vector<CalibrationLine>> CheckCalibration(const std::string& folder) {
  JANUS_ASSIGN_OR_RETURN(const Calibration h100, ReadCalibration(folder, "h100"));
  JANUS_ASSIGN_OR_RETURN(const Calibration h200, ReadCalibration(folder, "h200"));
  JANUS_ASSIGN_OR_RETURN(const HardwareProfile from, FindHardware("H200"));
  JANUS_ASSIGN_OR_RETURN(const HardwareProfile to, FindHardware("H100"));
  std::vector<CalibrationLine> lines;
  Checker checker(lines);

  std::map<std::string, ExpertCost> experts;
  for (const auto& [name, data] : {std::pair("H100", &h100), std::pair("H200", &h200)}) {
    const ExpertShape& shape = data->expert_shape;
    JANUS_ASSIGN_OR_RETURN(const ExpertCost cost,
                           controllers::FitExperts(shape, data->experts.fit));
    const auto judge = [&](const ExpertCost& judged, const std::vector<ExpertMeasurement>& on) {
      return controllers::Judge(std::span<const ExpertMeasurement>(on), [&](const auto& m) {
        return controllers::Predict(judged, shape, m);
      });
    };
    const size_t fitted = data->experts.fit.size();
    checker.Add("experts", name, "masked grouped GEMM", fitted, judge(cost, data->experts.held),
                kExpertGoal);
    checker.Add("experts", name, "of these, unclear routing", fitted,
                judge(cost, data->unclear_experts), {0, 0});
    if (data == &h200) {
      checker.Add("experts", "H100 from H200", "masked grouped GEMM", fitted,
                  judge(CarryOver(cost, from, to, shape.bytes_per_weight), h100.experts.held),
                  {0, 0});
    }
  }
  const auto carry = [&](const auto& cost) { return CarryOver(cost, from, to); };
  JANUS_RETURN_IF_ERROR(checker.Kinds(
      "latent attention", kAttentionGoal, h100.latent, h200.latent,
      [](const auto& m) { return controllers::FitLatentAttention(m); }, carry));
  JANUS_RETURN_IF_ERROR(checker.Kinds(
      "grouped attention", kAttentionGoal, h100.grouped, h200.grouped,
      [](const auto& m) { return controllers::FitGroupedAttention(m); }, carry));
  JANUS_RETURN_IF_ERROR(checker.Kinds(
      "exchange", kExchangeGoal, h100.exchange, h200.exchange,
      [](const auto& m) { return controllers::FitExchange(m); }, carry));
  JANUS_RETURN_IF_ERROR(checker.Kinds(
      "collective", kExchangeGoal, h100.collective, h200.collective,
      [](const auto& m) { return controllers::FitCollective(m); }, carry));
  return lines;
}

std::string RenderCalibration(const std::vector<CalibrationLine>& lines) {
  std::string text;
  char line[256];
  std::snprintf(line, sizeof(line), "%-18s %-15s %-28s %7s %7s %8s %8s %8s  %s\n", "TERM", "DEVICE",
                "KIND", "FITTED", "JUDGED", "MEDIAN", "P90", "BIAS", "GOAL");
  text += line;
  int with_goal = 0;
  int met = 0;
  for (const CalibrationLine& l : lines) {
    std::string goal = "-";
    if (l.median_goal > 0) {
      const bool is_met =
          l.held.median <= l.median_goal && (l.p90_goal == 0 || l.held.p90 <= l.p90_goal);
      ++with_goal;
      met += is_met ? 1 : 0;
      std::snprintf(line, sizeof(line), "median %.0f %%%s: %s", l.median_goal * 100,
                    l.p90_goal > 0 ? ", p90 10 %" : "", is_met ? "met" : "NOT MET");
      goal = line;
    }
    std::snprintf(line, sizeof(line), "%-18s %-15s %-28s %7d %7d %7.1f%% %7.1f%% %+7.1f%%  %s\n",
                  l.term.c_str(), l.device.c_str(), l.kind.c_str(), l.fitted, l.held.count,
                  l.held.median * 100, l.held.p90 * 100, l.held.bias * 100, goal.c_str());
    text += line;
  }
  std::snprintf(line, sizeof(line),
                "%d of %d kinds with a goal meet it on measurements that the fit did not use\n",
                met, with_goal);
  return text + line;
}

}  // namespace janus::cli
