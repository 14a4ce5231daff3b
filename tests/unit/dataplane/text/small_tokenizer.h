#pragma once

#include <memory>
#include <string>

#include "dataplane/text/tokenizer.h"

namespace janus::text {

// A byte-level vocabulary without merges, one entry per spelling below, and <s> (10, special):
// 0 "a", 1 " b" (Ġb), 2 byte C3, 3 byte A9, 4 bytes A9 C3, 5 byte F0, 6 byte 9F, 7 byte 98, 8 byte
// 80, 9 "€" whole (E2 82 AC), 10 <s>. C3 A9 is é, F0 9F 98 80 is 😀.
inline const std::string kSmallTokenizer = R"({
  "version": "1.0", "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst",
  "stride": 0}, "padding": null,
  "added_tokens": [{"id": 10, "content": "<s>", "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": true}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                    "use_regex": true},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [10], "tokens": ["<s>"]}}},
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
              "use_regex": true},
  "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
    "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": true,
    "vocab": {"a": 0, "\u0120b": 1, "\u00c3": 2, "\u00a9": 3, "\u00a9\u00c3": 4, "\u00f0": 5,
              "\u0141": 6, "\u013a": 7, "\u0122": 8, "\u00e2\u0124\u00ac": 9}, "merges": []}
})";

inline std::shared_ptr<const Tokenizer> SmallTokenizer() {
  return Tokenizer::FromJson(kSmallTokenizer, "small").value();
}

// A byte-fallback vocabulary as Llama's and Mixtral's: <0x00>..<0xFF> are 0..255, then "▁a" 256,
// "▁" 257, "b" 258, </s> 259 (special).
inline std::shared_ptr<const Tokenizer> ByteFallbackTokenizer() {
  std::string vocabulary;
  char entry[32];
  for (int byte = 0; byte < 256; ++byte) {
    snprintf(entry, sizeof(entry), "\"<0x%02X>\": %d, ", byte, byte);
    vocabulary += entry;
  }
  vocabulary += R"("\u2581a": 256, "\u2581": 257, "b": 258, "</s>": 259)";
  const std::string json =
      R"({"version": "1.0", "added_tokens": [{"id": 259, "content": "</s>", "single_word": false,
        "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        "decoder": {"type": "Sequence", "decoders": [
          {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
          {"type": "ByteFallback"}, {"type": "Fuse"},
          {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "unk_token": null, "fuse_unk": true, "byte_fallback": true,
          "ignore_merges": false, "merges": [], "vocab": {)" +
      vocabulary + "}}}";
  return Tokenizer::FromJson(json, "byte fallback").value();
}

}  // namespace janus::text
