#include "operator/records/record_lines.h"

#include <optional>
#include <utility>

#include "controllers/scaling/field_line.h"
#include "controllers/scaling/log.h"

namespace janus::control {
namespace {

using controllers::FieldReader;
using controllers::FieldWriter;

template <class V, class T>
void VisitTarget(V& v, T& target) {
  v.Number("seconds", target.seconds);
  v.Number("percentile", target.percentile);
}

template <class V, class B>
void VisitBehavior(V& v, B& behavior) {
  v.Number("stabilization_seconds", behavior.stabilization_seconds);
  v.Number("select", behavior.select);
  v.List("rules", behavior.rules, [&](auto& rule) {
    v.Number("unit", rule.unit);
    v.Number("value", rule.value);
    v.Number("period_seconds", rule.period_seconds);
  });
}

template <class V, class R>
void VisitRole(V& v, R& role) {
  v.Number("min", role.min);
  v.Number("max", role.max);
  v.Number("instances_per_pod", role.instances_per_pod);
  VisitBehavior(v, role.up);
  VisitBehavior(v, role.down);
}

template <class V, class P>
void VisitPolicy(V& v, P& p) {
  VisitTarget(v, p.tpot);
  v.Maybe("ttft", p.ttft, [&](auto& target) { VisitTarget(v, target); });
  VisitRole(v, p.attention);
  VisitRole(v, p.experts);
  const auto ratio = [&](auto& r) {
    v.Number("ratio_experts", r.experts);
    v.Number("ratio_attention", r.attention);
  };
  v.Maybe("ratio_min", p.ratio_min, ratio);
  v.Maybe("ratio_max", p.ratio_max, ratio);
  v.Number("max_gpus", p.max_gpus);
  v.Number("min_pools", p.min_pools);
  v.Number("max_pools", p.max_pools);
  v.Number("forecast", p.forecast.kind);
  v.Number("season_seconds", p.forecast.season_seconds);
  v.Number("bins", p.forecast.bins);
  v.Number("is_advisory", p.is_advisory);
  v.Number("max_batch_per_attention", p.max_batch_per_attention);
  v.Number("interval_seconds", p.interval_seconds);
  v.Number("pending_timeout_seconds", p.pending_timeout_seconds);
  v.Number("backoff_seconds", p.backoff_seconds);
  v.Number("start_seconds", p.start_seconds);
  v.Number("warm_up_seconds", p.warm_up_seconds);
  v.Number("aim", p.aim);
  v.Number("most_burst", p.most_burst);
  v.Number("is_budgeted", p.is_budgeted);
  v.Number("recovery_seconds", p.recovery_seconds);
  v.Number("is_learning", p.is_learning);
  v.Number("lowest", p.online.lowest);
  v.Number("highest", p.online.highest);
  v.Number("half_life_seconds", p.online.half_life_seconds);
  v.Number("samples", p.online.samples);
  v.Number("prior_samples", p.online.prior_samples);
  v.Number("fewest_steps", p.online.fewest_steps);
  v.Number("robust_above", p.online.robust_above);
}

template <class V, class M>
void VisitModel(V& v, M& m) {
  v.Text("model", m.name);
  v.Number("layers", m.layers);
  v.Number("dense_layers", m.dense_layers);
  v.Number("dense_intermediate", m.dense_intermediate);
  v.Number("hidden", m.hidden);
  v.Number("heads", m.heads);
  v.Number("kv_heads", m.kv_heads);
  v.Number("head_dim", m.head_dim);
  v.Number("head_weights", m.head_weights);
  v.Number("shared_weights", m.shared_weights);
  v.Number("experts", m.experts);
  v.Number("top_k", m.top_k);
  v.Number("intermediate", m.intermediate);
  v.Number("shared_intermediate", m.shared_intermediate);
  v.Number("vocab", m.vocab);
  v.Number("bytes_per_weight", m.bytes_per_weight);
  v.Number("bytes_per_dense_weight", m.bytes_per_dense_weight);
  v.Number("bytes_per_kv_value", m.bytes_per_kv_value);
}

template <class V, class H>
void VisitHardware(V& v, H& h) {
  v.Text("hardware", h.name);
  v.Number("memory_bytes", h.memory_bytes);
  v.Number("memory_bytes_per_second", h.memory_bytes_per_second);
  v.Number("bf16_operations_per_second", h.bf16_operations_per_second);
  v.Number("fp8_operations_per_second", h.fp8_operations_per_second);
  v.Number("intra_node_bytes_per_second", h.intra_node_bytes_per_second);
  v.Number("inter_node_bytes_per_second", h.inter_node_bytes_per_second);
  v.Number("instances_per_node", h.instances_per_node);
  v.Number("price", h.price);
  v.Number("is_cpu", h.is_cpu);
}

template <class V, class O>
void VisitOptions(V& v, O& o) {
  v.Number("max_attention", o.max_attention);
  v.Number("max_experts", o.max_experts);
  v.Number("tp_attention", o.tp_attention);
  v.Number("tp_experts", o.tp_experts);
  v.Number("min_micro_batches", o.min_micro_batches);
  v.Number("max_micro_batches", o.max_micro_batches);
  const auto each = [&](const char* name) { return [&v, name](auto& x) { v.Number(name, x); }; };
  v.List("modes", o.modes, each("mode"));
  v.List("gates", o.gates, each("gate"));
  v.List("sums", o.sums, each("sum"));
  v.Number("sum_bits", o.sum_bits);
  v.List("wires", o.wires, each("wire"));
  v.Number("is_random", o.is_random);
  v.Number("most_rows_per_attention", o.most_rows_per_attention);
  v.Number("growth_reserve", o.growth_reserve);
  v.Maybe("room", o.room, [&](auto& room) {
    v.Number("kv_tokens", room.kv_tokens);
    v.Number("slots", room.slots);
    v.Number("most_slots", room.most_slots);
    v.Number("fewest_experts", room.fewest_experts);
  });
  v.Number("rows_for_one", o.rows_for_one);
  v.Number("times_faster", o.times_faster);
}

template <class V, class B>
void VisitBasis(V& v, B& basis) {
  VisitModel(v, basis.model);
  VisitHardware(v, basis.attention);
  VisitHardware(v, basis.experts);
  v.Maybe("timed", basis.timed, [&](auto& timed) {
    v.Text("timed_hardware", timed.hardware);
    v.Text("timed_model", timed.model);
    v.Number("timed_scale", timed.scale);
    v.Number("time_scale", timed.time_scale);
  });
}

template <class V, class S>
void VisitSetting(V& v, S& setting) {
  VisitPolicy(v, setting.policy);
  VisitModel(v, setting.inputs.model);
  VisitHardware(v, setting.inputs.attention);
  VisitHardware(v, setting.inputs.experts);
  v.Number("spare_slots", setting.inputs.spare_slots);
  v.Number("shares_node", setting.inputs.shares_node);
  v.Number("attention_per_node", setting.inputs.attention_per_node);
  v.Number("experts_per_node", setting.inputs.experts_per_node);
  VisitOptions(v, setting.inputs.options);
  v.Later([&] { VisitBasis(v, setting.basis); });
  v.Later([&] { v.Number("policy_times_faster", setting.policy.times_faster); });
}

template <class V, class D>
void VisitDecided(V& v, D& decided) {
  v.Number("time_seconds", decided.time_seconds);
  v.Text("verb", decided.verb);
  v.Text("reason", decided.reason);
  v.Number("attention", decided.attention);
  v.Number("experts", decided.experts);
  v.Number("micro_batches", decided.micro_batches);
  v.Text("text", decided.text);
}

template <class T, class Visit>
Status ReadInto(std::string_view line, const char* what, T& value, const Visit& visit) {
  FieldReader reader(line, what);
  visit(reader, value);
  return reader.Finish();
}

}  // namespace

DecidedLine DecidedOf(const controllers::Decision& decision, WallTime time) {
  DecidedLine out;
  out.time_seconds = Seconds(time.time_since_epoch()).count();
  out.verb = ToString(decision.verb);
  out.reason = ToString(decision.reason);
  out.text = decision.text;
  out.attention = decision.target.how.m * decision.target.how.pools;
  out.experts = decision.target.how.n * decision.target.how.pools;
  out.micro_batches = decision.target.how.micro_batches;
  return out;
}

std::string ToLines(const std::vector<std::shared_ptr<const TickRecord>>& ticks) {
  std::string out;
  const RecordedSetting* last = nullptr;
  for (const auto& tick : ticks) {
    if (last == nullptr || *last != *tick->setting) {
      FieldWriter writer;
      VisitSetting(writer, *tick->setting);
      out += "setting " + writer.Take() + "\n";
      last = tick->setting.get();
    }
    if (tick->begins) out += "begin\n";
    out += "world " + controllers::ToLine(tick->world) + "\n";
    FieldWriter writer;
    const DecidedLine decided = DecidedOf(tick->decision, tick->time);
    VisitDecided(writer, decided);
    out += "decided " + writer.Take() + "\n";
  }
  return out;
}

janus::Result<std::vector<RecordedTick>> ParseLines(std::string_view text) {
  std::vector<RecordedTick> out;
  RecordedTick next;
  bool has_world = false;
  int number = 0;
  while (!text.empty()) {
    ++number;
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    const std::string_view kind = line.substr(0, line.find(' '));
    const std::string_view rest = line.substr(std::min(kind.size() + 1, line.size()));
    Status read;
    if (kind == "setting") {
      RecordedSetting setting;
      read = ReadInto(rest, "setting", setting, [](auto& v, auto& s) { VisitSetting(v, s); });
      next.setting = std::make_shared<const RecordedSetting>(std::move(setting));
    } else if (kind == "begin") {
      next.begins = true;
    } else if (kind == "world" && next.setting != nullptr && !has_world) {
      janus::Result<controllers::World> world = controllers::ParseWorld(rest);
      read = world.status();
      if (world.ok()) next.world = *std::move(world);
      has_world = true;
    } else if (kind == "decided" && has_world) {
      read = ReadInto(rest, "decided", next.decided, [](auto& v, auto& d) { VisitDecided(v, d); });
      const std::shared_ptr<const RecordedSetting> setting = next.setting;
      out.push_back(std::exchange(next, RecordedTick()));
      next.setting = setting;
      has_world = false;
    } else {
      read = InvalidArgument("'" + std::string(line.substr(0, 40)) +
                             "' cannot stand here; a record is a line 'setting' or none, then "
                             "'world', then 'decided'");
    }
    if (!read.ok()) {
      return InvalidArgument("line " + std::to_string(number) + ": " + read.message());
    }
  }
  if (has_world) return InvalidArgument("the last line is a world without its decision");
  return out;
}

}  // namespace janus::control
