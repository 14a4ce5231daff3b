#include "common/model/identity.h"

#include <bit>
#include <concepts>

namespace janus {
namespace {

// Mixes numbers by their bits, because values that print alike may differ.
template <typename T>
  requires std::integral<T> || std::is_enum_v<T>
void MixField(T value, Fingerprint& out) {
  out.Mix(static_cast<uint64_t>(value));
}
void MixField(double value, Fingerprint& out) {
  out.Mix(std::bit_cast<uint64_t>(value));
}
void MixField(float value, Fingerprint& out) {
  out.Mix(uint64_t{std::bit_cast<uint32_t>(value)});
}
// With their lengths, so that neighbouring texts cannot be confused.
void MixField(const std::string& value, Fingerprint& out) {
  out.Mix(uint64_t{value.size()}).Mix(value);
}
void MixField(const std::vector<int>& values, Fingerprint& out) {
  out.Mix(uint64_t{values.size()});
  for (const int value : values) MixField(value, out);
}

// Declared before the templates that call them.
void MixField(const YarnDescription& yarn, Fingerprint& out);
void MixField(const Llama3RopeDescription& llama3, Fingerprint& out);
void MixField(const TemperatureDescription& temperature, Fingerprint& out);
void MixField(const LatentDescription& latent, Fingerprint& out);
void MixField(const RopeDescription& rope, Fingerprint& out);
void MixField(const AttentionDescription& attention, Fingerprint& out);
void MixField(const MoeDescription& moe, Fingerprint& out);
template <typename T>
void MixField(const std::optional<T>& value, Fingerprint& out) {
  out.Mix(uint64_t{value.has_value()});
  if (value) MixField(*value, out);
}

template <typename... Fields>
void MixAll(Fingerprint& out, const Fields&... fields) {
  (MixField(fields, out), ...);
}

void MixField(const YarnDescription& yarn, Fingerprint& out) {
  const auto& [factor, original_positions, beta_fast, beta_slow, truncate] = yarn;
  MixAll(out, factor, original_positions, beta_fast, beta_slow, truncate);
}
void MixField(const Llama3RopeDescription& llama3, Fingerprint& out) {
  const auto& [factor, original_positions, low_turns, high_turns] = llama3;
  MixAll(out, factor, original_positions, low_turns, high_turns);
}
void MixField(const TemperatureDescription& temperature, Fingerprint& out) {
  const auto& [scale, floor] = temperature;
  MixAll(out, scale, floor);
}
void MixField(const LatentDescription& latent, Fingerprint& out) {
  const auto& [rank, value_dim, query_rank, norm_epsilon] = latent;
  MixAll(out, rank, value_dim, query_rank, norm_epsilon);
}
void MixField(const RopeDescription& rope, Fingerprint& out) {
  const auto& [theta, rotary_dim, pairing, attention_factor, yarn, llama3] = rope;
  MixAll(out, theta, rotary_dim, pairing, attention_factor, yarn, llama3);
}
void MixField(const AttentionDescription& attention, Fingerprint& out) {
  const auto& [heads, kv_heads, head_dim, scale, sliding_window, chunk, full_layers, no_rope_layers,
               temperature, norm, has_bias, has_output_bias, has_sinks, clip, rope, latent] =
      attention;
  MixAll(out, heads, kv_heads, head_dim, scale, sliding_window, chunk, full_layers, no_rope_layers,
         temperature, norm, has_bias, has_output_bias, has_sinks, clip, rope, latent);
}
void MixField(const MoeDescription& moe, Fingerprint& out) {
  const auto& [experts, top_k, intermediate, score, has_logit_bias, renormalize, weight_scale,
               groups, top_groups, shared_intermediate, has_shared_gate, weighs_inputs,
               has_expert_bias, swiglu_limit, swiglu_alpha] = moe;
  MixAll(out, experts, top_k, intermediate, score, has_logit_bias, renormalize, weight_scale,
         groups, top_groups, shared_intermediate, has_shared_gate, weighs_inputs, has_expert_bias,
         swiglu_limit, swiglu_alpha);
}

}  // namespace

void Mix(const ModelDescription& model, Fingerprint& fingerprint) {
  const auto& [family, architecture, dtype, vocab, hidden, layers, dense_layers, dense_intermediate,
               max_positions, norm_epsilon, tied_embeddings, has_fp8_weights, mxfp4, attention,
               moe] = model;
  MixAll(fingerprint, family, architecture, dtype, vocab, hidden, layers, dense_layers,
         dense_intermediate, max_positions, norm_epsilon, tied_embeddings, has_fp8_weights, mxfp4,
         attention, moe);
}

}  // namespace janus
