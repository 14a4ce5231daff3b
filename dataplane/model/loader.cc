#include "dataplane/model/loader.h"

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <utility>

#include "dataplane/model/cast.h"
#include "dataplane/model/family.h"

namespace janus::dataplane {
namespace {

// First the tensors are named (Add), then all are read (Read): so the total is known before the
// work.
template <class Weights>
class Reader {
 public:
  Reader(Loaded<Weights>& loaded, DType dtype) : loaded_(loaded), dtype_(dtype) {}

  Status Add(const std::string& name, std::vector<int64_t> shape, Tensor& out) {
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
      std::byte* to = nullptr;
      if (!in_place) {
        loaded_.cast.push_back(
            std::make_unique_for_overwrite<std::byte[]>(bytes.size() / from_size * to_size));
        to = loaded_.cast.back().get();
      }
      entry.out->data = in_place ? bytes.data() : to;
      entry.out->dtype = dtype_;
      loaded_.bytes += bytes.size() / from_size * to_size;
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
    }
    return OkStatus();
  }

 private:
  struct Entry {
    std::string name;
    StoredTensor stored;
    Tensor* out;
  };

  Loaded<Weights>& loaded_;
  const DType dtype_;
  std::vector<Entry> tensors_;
  uint64_t total_ = 0;
};

Result<const Family*> FamilyOf(const ModelDescription& model) {
  const Family* family = FindFamily(model.family);
  if (family == nullptr)
    return Unimplemented("no tensor names for model family '" + model.family + "'");
  return family;
}

}  // namespace

Result<Loaded<AttentionWeights>> LoadAttention(const std::string& folder,
                                               const ModelDescription& model,
                                               const LoadProgress& progress, std::stop_token stop) {
  JANUS_ASSIGN_OR_RETURN(const Family* family, FamilyOf(model));
  Loaded<AttentionWeights> loaded;
  JANUS_ASSIGN_OR_RETURN(loaded.checkpoint, Checkpoint::Open(folder));
  Reader reader(loaded, model.dtype);
  const int64_t h = model.hidden;
  const int64_t q = int64_t{model.attention.heads} * model.attention.head_dim;
  const int64_t kv = int64_t{model.attention.kv_heads} * model.attention.head_dim;
  AttentionWeights& w = loaded.weights;
  JANUS_RETURN_IF_ERROR(reader.Add(family->Embedding(), {model.vocab, h}, w.embedding));
  JANUS_RETURN_IF_ERROR(reader.Add(family->FinalNorm(), {h}, w.final_norm));
  if (!model.tied_embeddings) {
    JANUS_RETURN_IF_ERROR(reader.Add(family->LmHead(), {model.vocab, h}, w.lm_head));
  }
  w.layers.resize(static_cast<size_t>(model.layers));
  for (int l = 0; l < model.layers; ++l) {
    AttentionLayerWeights& layer = w.layers[static_cast<size_t>(l)];
    JANUS_RETURN_IF_ERROR(reader.Add(family->InputNorm(l), {h}, layer.input_norm));
    JANUS_RETURN_IF_ERROR(reader.Add(family->Query(l), {q, h}, layer.q));
    JANUS_RETURN_IF_ERROR(reader.Add(family->Key(l), {kv, h}, layer.k));
    JANUS_RETURN_IF_ERROR(reader.Add(family->Value(l), {kv, h}, layer.v));
    JANUS_RETURN_IF_ERROR(reader.Add(family->Output(l), {h, q}, layer.o));
    JANUS_RETURN_IF_ERROR(reader.Add(family->PostNorm(l), {h}, layer.post_norm));
  }
  JANUS_RETURN_IF_ERROR(reader.Read(progress, std::move(stop)));
  if (model.tied_embeddings) w.lm_head = w.embedding;
  return loaded;
}

Result<Loaded<ExpertWeights>> LoadExperts(const std::string& folder, const ModelDescription& model,
                                          const Placement& placement, Rank rank,
                                          const LoadProgress& progress, std::stop_token stop) {
  JANUS_ASSIGN_OR_RETURN(const Family* family, FamilyOf(model));
  Loaded<ExpertWeights> loaded;
  JANUS_ASSIGN_OR_RETURN(loaded.checkpoint, Checkpoint::Open(folder));
  Reader reader(loaded, model.dtype);
  const int64_t h = model.hidden;
  const int64_t i = model.moe.intermediate;
  const int first = placement.first_slot(rank);
  const int slots = placement.slots_of_instance[static_cast<size_t>(rank.value)];
  loaded.weights.layers.resize(static_cast<size_t>(model.layers));
  for (int l = 0; l < model.layers; ++l) {
    ExpertLayerWeights& layer = loaded.weights.layers[static_cast<size_t>(l)];
    JANUS_RETURN_IF_ERROR(reader.Add(family->Router(l), {model.moe.experts, h}, layer.router));
    layer.slots.resize(static_cast<size_t>(slots));
    for (int slot = 0; slot < slots; ++slot) {
      const uint16_t expert = placement.at(l, first + slot);
      if (expert == Placement::kEmpty) continue;
      ExpertTensors& tensors = layer.slots[static_cast<size_t>(slot)].emplace();
      JANUS_RETURN_IF_ERROR(reader.Add(family->ExpertGate(l, expert), {i, h}, tensors.gate));
      JANUS_RETURN_IF_ERROR(reader.Add(family->ExpertUp(l, expert), {i, h}, tensors.up));
      JANUS_RETURN_IF_ERROR(reader.Add(family->ExpertDown(l, expert), {h, i}, tensors.down));
    }
  }
  JANUS_RETURN_IF_ERROR(reader.Read(progress, std::move(stop)));
  return loaded;
}

}  // namespace janus::dataplane
