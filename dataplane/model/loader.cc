#include "dataplane/model/loader.h"

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <utility>

#include "dataplane/model/cast.h"
#include "dataplane/model/tensor_names.h"

namespace janus::dataplane {
namespace {

// First the tensors are named (Add), then all are read (Read): so the total is known before the
// work.
template <class Weights>
class Reader {
 public:
  Reader(Loaded<Weights>& loaded, DType dtype, const Loaded<Weights>* known = nullptr)
      : loaded_(loaded), dtype_(dtype), known_(known) {}

  Status Add(const std::string& name, std::vector<int64_t> shape, Tensor& out) {
    if (Share(name, out)) return OkStatus();
    JANUS_ASSIGN_OR_RETURN(StoredTensor stored, loaded_.checkpoint->Find(name));
    if (stored.shape != shape) {
      return InvalidArgument(stored.file + ": tensor '" + name + "': shape " +
                             ShapeText(stored.shape) + ", config.json asks for " +
                             ShapeText(shape));
    }
    total_ += stored.bytes.size();
    tensors_.push_back({name, std::move(stored), &out});
    return OkStatus();
  }

  Status Read(const LoadProgress& progress, std::stop_token stop) {
    constexpr size_t kChunk = size_t{16} << 20;
    uint64_t done = 0;
    for (const Entry& entry : tensors_) {
      const std::span<const std::byte> bytes = entry.stored.bytes;
      const auto from_size = static_cast<size_t>(SizeOf(entry.stored.dtype));
      const auto to_size = static_cast<size_t>(SizeOf(dtype_));
      const bool in_place = entry.stored.dtype == dtype_ &&
                            reinterpret_cast<uintptr_t>(bytes.data()) % from_size == 0;
      HeldTensor held;
      held.bytes = bytes.size() / from_size * to_size;
      std::byte* to = nullptr;
      if (!in_place) {
        auto cast = std::make_shared_for_overwrite<std::byte[]>(held.bytes);
        to = cast.get();
        held.cast = std::move(cast);
      }
      held.tensor.data = in_place ? bytes.data() : to;
      held.tensor.dtype = dtype_;
      *entry.out = held.tensor;
      for (size_t at = 0; at < bytes.size(); at += kChunk) {
        if (stop.stop_requested()) return Cancelled("loading was aborted");
        const std::span<const std::byte> chunk =
            bytes.subspan(at, std::min(kChunk, bytes.size() - at));
        const bool finite = in_place ? AllFinite(chunk, dtype_)
                                     : CastAndCheck(chunk, entry.stored.dtype,
                                                    to + at / from_size * to_size, dtype_);
        if (!finite) {
          return InvalidArgument(entry.stored.file + ": tensor '" + entry.name +
                                 "' holds a NaN or an infinity" +
                                 (in_place ? "" : " (as " + std::string(ToString(dtype_)) + ")") +
                                 "; the checkpoint is broken");
        }
        done += chunk.size();
        if (progress) progress(done, total_);
      }
      Keep(entry.name, held);
    }
    return OkStatus();
  }

 private:
  struct Entry {
    std::string name;
    StoredTensor stored;
    Tensor* out;
  };

  bool Share(const std::string& name, Tensor& out) {
    if (known_ == nullptr) return false;
    const auto at = known_->tensors.find(name);
    if (at == known_->tensors.end()) return false;
    out = at->second.tensor;
    Keep(name, at->second);
    return true;
  }

  void Keep(const std::string& name, const HeldTensor& held) {
    if (loaded_.tensors.emplace(name, held).second) loaded_.bytes += held.bytes;
  }

  Loaded<Weights>& loaded_;
  const DType dtype_;
  const Loaded<Weights>* const known_;
  std::vector<Entry> tensors_;
  uint64_t total_ = 0;
};

Result<const TensorNames*> NamesOf(const ModelDescription& model) {
  const TensorNames* names = FindTensorNames(model.family);
  if (names == nullptr)
    return Unimplemented("no tensor names for model family '" + model.family + "'");
  return names;
}

std::string Weight(std::string_view name) {
  return std::string(name) + ".weight";
}
std::string InLayer(const TensorNames& names, int layer, std::string_view part) {
  return std::string(names.layers) + "." + std::to_string(layer) + "." + std::string(part);
}

// `prefix` names the FFN; its width is `intermediate`.
template <class Weights>
Status AddFfn(Reader<Weights>& reader, const TensorNames& names, const std::string& prefix,
              int64_t hidden, int64_t intermediate, FfnTensors& out) {
  const auto part = [&](std::string_view name) { return Weight(prefix + "." + std::string(name)); };
  JANUS_RETURN_IF_ERROR(reader.Add(part(names.gate), {intermediate, hidden}, out.gate));
  JANUS_RETURN_IF_ERROR(reader.Add(part(names.up), {intermediate, hidden}, out.up));
  return reader.Add(part(names.down), {hidden, intermediate}, out.down);
}

// Adds one layer's tensors, by the names within it.
class LayerAdder {
 public:
  LayerAdder(Reader<AttentionWeights>& reader, const TensorNames& names, int layer)
      : reader_(reader), names_(names), layer_(layer) {}
  Status operator()(std::string_view name, std::vector<int64_t> shape, Tensor& out) const {
    return reader_.Add(Weight(InLayer(names_, layer_, name)), std::move(shape), out);
  }

 private:
  Reader<AttentionWeights>& reader_;
  const TensorNames& names_;
  const int layer_;
};

Status AddGrouped(const LayerAdder& add, const TensorNames& names, const ModelDescription& model,
                  AttentionLayerWeights& layer) {
  const AttentionDescription& a = model.attention;
  const int64_t h = model.hidden;
  const int64_t q = int64_t{a.heads} * a.head_dim;
  const int64_t kv = int64_t{a.kv_heads} * a.head_dim;
  JANUS_RETURN_IF_ERROR(add(names.query, {q, h}, layer.q));
  JANUS_RETURN_IF_ERROR(add(names.key, {kv, h}, layer.k));
  JANUS_RETURN_IF_ERROR(add(names.value, {kv, h}, layer.v));
  JANUS_RETURN_IF_ERROR(add(names.output, {h, q}, layer.o));
  if (!a.head_norm) return OkStatus();
  JANUS_RETURN_IF_ERROR(add(names.query_norm, {a.head_dim}, layer.q_norm));
  return add(names.key_norm, {a.head_dim}, layer.k_norm);
}

Status AddLatent(const LayerAdder& add, const TensorNames& names, const ModelDescription& model,
                 AttentionLayerWeights& layer) {
  const AttentionDescription& a = model.attention;
  const LatentDescription& l = *a.latent;
  const int64_t h = model.hidden;
  const int64_t q = int64_t{a.heads} * a.head_dim;
  if (l.query_rank > 0) {
    JANUS_RETURN_IF_ERROR(add(names.query_down, {l.query_rank, h}, layer.q_a));
    JANUS_RETURN_IF_ERROR(add(names.query_down_norm, {l.query_rank}, layer.q_a_norm));
    JANUS_RETURN_IF_ERROR(add(names.query_up, {q, l.query_rank}, layer.q));
  } else {
    JANUS_RETURN_IF_ERROR(add(names.query, {q, h}, layer.q));
  }
  JANUS_RETURN_IF_ERROR(add(names.latent, {l.rank + a.rope.rotary_dim, h}, layer.kv_a));
  JANUS_RETURN_IF_ERROR(add(names.latent_norm, {l.rank}, layer.kv_a_norm));
  JANUS_RETURN_IF_ERROR(
      add(names.latent_up, {int64_t{a.heads} * (a.nope_dim() + l.value_dim), l.rank}, layer.kv_b));
  return add(names.output, {h, int64_t{a.heads} * l.value_dim}, layer.o);
}

}  // namespace

Result<Loaded<AttentionWeights>> LoadAttention(const std::string& folder,
                                               const ModelDescription& model,
                                               const LoadProgress& progress, std::stop_token stop) {
  JANUS_ASSIGN_OR_RETURN(const TensorNames* names, NamesOf(model));
  Loaded<AttentionWeights> loaded;
  JANUS_ASSIGN_OR_RETURN(loaded.checkpoint, Checkpoint::Open(folder));
  Reader reader(loaded, model.dtype);
  const int64_t h = model.hidden;
  AttentionWeights& w = loaded.weights;
  JANUS_RETURN_IF_ERROR(reader.Add(Weight(names->embedding), {model.vocab, h}, w.embedding));
  JANUS_RETURN_IF_ERROR(reader.Add(Weight(names->final_norm), {h}, w.final_norm));
  if (!model.tied_embeddings) {
    JANUS_RETURN_IF_ERROR(reader.Add(Weight(names->lm_head), {model.vocab, h}, w.lm_head));
  }
  w.layers.resize(static_cast<size_t>(model.layers));
  for (int l = 0; l < model.layers; ++l) {
    AttentionLayerWeights& layer = w.layers[static_cast<size_t>(l)];
    const LayerAdder add(reader, *names, l);
    JANUS_RETURN_IF_ERROR(add(names->input_norm, {h}, layer.input_norm));
    JANUS_RETURN_IF_ERROR(model.attention.latent ? AddLatent(add, *names, model, layer)
                                                 : AddGrouped(add, *names, model, layer));
    JANUS_RETURN_IF_ERROR(add(names->post_norm, {h}, layer.post_norm));
    if (model.IsDense(l)) {
      JANUS_RETURN_IF_ERROR(AddFfn(reader, *names, InLayer(*names, l, names->dense), h,
                                   model.dense_intermediate, layer.ffn));
    } else if (model.moe.shared_intermediate > 0) {
      JANUS_RETURN_IF_ERROR(AddFfn(reader, *names, InLayer(*names, l, names->shared), h,
                                   model.moe.shared_intermediate, layer.ffn));
    }
  }
  JANUS_RETURN_IF_ERROR(reader.Read(progress, std::move(stop)));
  if (model.tied_embeddings) w.lm_head = w.embedding;
  return loaded;
}

Result<Loaded<ExpertWeights>> LoadExperts(const std::string& folder, const ModelDescription& model,
                                          const Placement& placement, Rank rank,
                                          const LoadProgress& progress, std::stop_token stop,
                                          const Loaded<ExpertWeights>* known) {
  JANUS_ASSIGN_OR_RETURN(const TensorNames* names, NamesOf(model));
  Loaded<ExpertWeights> loaded;
  if (known != nullptr) {
    loaded.checkpoint = known->checkpoint;
  } else {
    JANUS_ASSIGN_OR_RETURN(loaded.checkpoint, Checkpoint::Open(folder));
  }
  Reader reader(loaded, model.dtype, known);
  const int64_t h = model.hidden;
  const int first = placement.first_slot(rank);
  const int slots = placement.slots_of_instance[static_cast<size_t>(rank.value)];
  loaded.weights.layers.resize(static_cast<size_t>(model.moe_layers()));
  for (int l = 0, moe = 0; l < model.layers; ++l) {
    if (model.IsDense(l)) continue;
    ExpertLayerWeights& layer = loaded.weights.layers[static_cast<size_t>(moe)];
    JANUS_RETURN_IF_ERROR(reader.Add(Weight(InLayer(*names, l, names->router)),
                                     {model.moe.experts, h}, layer.router));
    layer.slots.resize(static_cast<size_t>(slots));
    for (int slot = 0; slot < slots; ++slot) {
      const uint16_t expert = placement.at(moe, first + slot);
      if (expert == Placement::kEmpty) continue;
      const std::string prefix = InLayer(*names, l, names->experts) + "." + std::to_string(expert);
      JANUS_RETURN_IF_ERROR(AddFfn(reader, *names, prefix, h, model.moe.intermediate,
                                   layer.slots[static_cast<size_t>(slot)].emplace()));
    }
    ++moe;
  }
  JANUS_RETURN_IF_ERROR(reader.Read(progress, std::move(stop)));
  return loaded;
}

}  // namespace janus::dataplane
