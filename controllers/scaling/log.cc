#include "controllers/scaling/log.h"

#include <cmath>
#include <string>
#include <utility>

#include "controllers/scaling/field_line.h"

namespace janus::controllers {
namespace {

// Visits every field of a world once, in the order of the line. V gets name and value.
template <class V, class W>
void VisitFields(V& v, W& w) {
  v.Number("time_seconds", w.time_seconds);
  v.List("arrivals", w.arrivals, [&](auto& window) {
    v.Number("window_seconds", window.window_seconds);
    v.Number("requests_per_second", window.requests_per_second);
    v.Number("prompt_tokens_per_second", window.prompt_tokens_per_second);
  });
  v.Number("output_tokens", w.lengths.output_tokens);
  v.Number("prompt_squared_variation", w.lengths.prompt_squared_variation);
  v.Number("prompt_tokens_at_percentile", w.lengths.prompt_tokens_at_percentile);
  v.Number("prompt_cached_share", w.lengths.prompt_cached_share);
  v.Number("running", w.now.running);
  v.Number("waiting", w.now.waiting);
  v.Number("waiting_prompt_tokens", w.now.waiting_prompt_tokens);
  v.Number("oldest_waiting_seconds", w.now.oldest_waiting_seconds);
  v.Number("kv_tokens_used", w.now.kv_tokens_used);
  v.Number("kv_tokens_capacity", w.now.kv_tokens_capacity);
  const auto number = [&](const char* name) { return [&v, name](auto& x) { v.Number(name, x); }; };
  v.Maybe("observed_tpot", w.observed.tpot_seconds, number("tpot_seconds"));
  v.Maybe("observed_ttft", w.observed.ttft_seconds, number("ttft_seconds"));
  v.Number("tpot_requests", w.observed.tpot_requests);
  v.Number("ttft_requests", w.observed.ttft_requests);
  v.Maybe("step", w.step, [&](auto& step) {
    v.Number("step_time_seconds", step.time_seconds);
    v.Number("decode_rows", step.load.decode_rows);
    v.Number("context", step.load.context);
    v.Number("prompt_rows", step.load.prompt_rows);
    v.Number("prompt_keys", step.load.prompt_keys);
    v.Number("attention_seconds", step.seconds.attention);
    v.Number("experts_seconds", step.seconds.experts);
    v.Number("exchange_seconds", step.seconds.exchange);
    v.Number("step_seconds", step.seconds.step);
    v.Number("steps", step.steps);
    v.Number("is_warm", step.is_warm);
  });
  v.Number("m", w.current.m);
  v.Number("n", w.current.n);
  v.Number("tp_attention", w.current.tp_attention);
  v.Number("tp_experts", w.current.tp_experts);
  v.Number("micro_batches", w.current.micro_batches);
  v.Number("mode", w.current.mode);
  v.Number("gate", w.current.gate);
  v.Number("is_random", w.current.is_random);
  const auto role = [&](auto& state) {
    v.Number("ready", state.ready);
    v.Number("starting", state.starting);
    v.Number("draining", state.draining);
    v.Number("youngest_ready_seconds", state.youngest_ready_seconds);
    v.List("starts", state.start_seconds, number("start_seconds"));
  };
  role(w.attention);
  role(w.experts);
  v.Maybe("in_flight", w.in_flight, [&](auto& flight) {
    v.Number("in_flight_m", flight.m);
    v.Number("in_flight_n", flight.n);
    v.Number("since_seconds", flight.since_seconds);
  });
  v.Number("is_paused", w.is_paused);
  v.Number("is_rolling_out", w.is_rolling_out);
  // Lines from versions without this counter end here.
  v.Later([&] {
    v.Number("ended_requests", w.ended.requests);
    v.Number("ended_attained", w.ended.attained);
  });
  // Lines from versions without pools end here.
  v.Later([&] {
    v.Number("pools", w.current.pools);
    v.Number("sum", w.current.sum);
    v.Number("wire", w.current.wire);
    v.Maybe("running_keys", w.now.kv_tokens_running, number("kv_tokens_running"));
    v.Maybe("in_flight", w.in_flight,
            [&](auto& flight) { v.Number("in_flight_pools", flight.pools); });
  });
}

class Checker {
 public:
  template <class T>
  void Number(const char* name, const T& value) {
    const auto number = static_cast<double>(value);
    if (found_.empty() && !(std::isfinite(number) && number >= 0)) {
      found_ = std::string(name) + " is " + std::to_string(number);
    }
  }
  template <class T, class F>
  void List(const char*, const std::vector<T>& values, const F& each) {
    for (const T& value : values) each(value);
  }
  template <class T, class F>
  void Maybe(const char*, const std::optional<T>& value, const F& each) {
    if (value) each(*value);
  }
  template <class F>
  void Later(const F& fields) {
    fields();
  }
  std::string Take() { return std::move(found_); }

 private:
  std::string found_;
};

}  // namespace

std::string ToLine(const World& world) {
  FieldWriter writer;
  VisitFields(writer, world);
  return writer.Take();
}

Result<World> ParseWorld(std::string_view line) {
  World world;
  FieldReader reader(line, "world");
  VisitFields(reader, world);
  JANUS_RETURN_IF_ERROR(reader.Finish());
  return world;
}

std::string UnsoundNumberOf(const World& world) {
  Checker checker;
  VisitFields(checker, world);
  return checker.Take();
}

}  // namespace janus::controllers
