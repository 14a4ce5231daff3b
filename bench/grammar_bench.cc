// What does it cost to keep an answer within a grammar? Times of compiling, of starting an answer,
// and of one token's mask, on the demo model's tokenizer and on a generated one of 150,000 tokens.
//   grammar_bench [SCHEMAS]   also walks through so many random schemas (200), and counts answers
//   that
//                             do not fit their schema

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "dataplane/text/grammar.h"
#include "tests/support/random_schema.h"

namespace janus::text {
namespace {

using Clock = std::chrono::steady_clock;

double Microseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
}

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

int64_t ResidentKiB() {
  std::ifstream in("/proc/self/statm");
  int64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * 4;
}

// Spelled as a byte-level tokenizer spells a byte.
std::string Spelling(uint8_t byte) {
  const bool own = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
  static const std::vector<int> codes = [] {
    std::vector<int> out(256);
    int next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool is_own = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      out[static_cast<size_t>(b)] = is_own ? b : next++;
    }
    return out;
  }();
  const int code = own ? byte : codes[byte];
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// All bytes, numbers, runs of punctuation, and words with and without a space before them.
std::shared_ptr<const Tokenizer> Generated(size_t tokens) {
  nlohmann::json vocab = nlohmann::json::object();
  std::set<std::string> seen;
  const auto add = [&](const std::string& bytes) {
    if (seen.size() >= tokens || !seen.insert(bytes).second) return;
    std::string spelled;
    for (const char c : bytes) spelled += Spelling(static_cast<uint8_t>(c));
    vocab[spelled] = vocab.size();
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  for (int n = 0; n < 1000; ++n) add(std::to_string(n));
  std::mt19937_64 random(1);
  const std::string marks = R"(!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~)";
  while (seen.size() < 8000) {
    std::string run(random() % 3 == 0 ? " " : "");
    for (size_t i = 0, n = 2 + random() % 3; i < n; ++i) run += marks[random() % marks.size()];
    add(run);
  }
  const std::string vowels = "aeiou", consonants = "bcdfghjklmnprstvwz";
  while (seen.size() < tokens) {
    std::string word;
    for (size_t i = 0, n = 1 + random() % 4; i < n; ++i) {
      word += consonants[random() % consonants.size()];
      word += vowels[random() % vowels.size()];
      if (random() % 3 == 0) word += consonants[random() % consonants.size()];
    }
    if (random() % 4 == 0) word[0] = static_cast<char>(word[0] - 'a' + 'A');
    // Every fourth is of another script.
    if (random() % 4 == 0) {
      word.clear();
      for (size_t i = 0, n = 1 + random() % 4; i < n; ++i) {
        word += static_cast<char>(0xE4 + random() % 5);
        word += static_cast<char>(0x80 + random() % 64);
        word += static_cast<char>(0x80 + random() % 64);
      }
    }
    add((random() % 2 == 0 ? " " : "") + word);
  }
  const nlohmann::json json = {
      {"version", "1.0"},
      {"added_tokens", nlohmann::json::array()},
      {"decoder",
       {{"type", "ByteLevel"},
        {"add_prefix_space", false},
        {"trim_offsets", true},
        {"use_regex", true}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}}};
  return Tokenizer::FromJson(json.dump(), "generated").value();
}

std::string Schema(Json schema) {
  schema["x-guidance"] = {{"whitespace_pattern", "[ \\n]{1,20}"}};
  return Json{{"grammars", Json::array({{{"json_schema", std::move(schema)}}})}}.dump();
}

class Walks {
 public:
  explicit Walks(std::shared_ptr<const Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)),
        words_(static_cast<size_t>(tokenizer_->id_limit() + 31) / 32) {
    const auto begin = Clock::now();
    const int64_t before = ResidentKiB();
    compiler_ = GrammarCompiler::Create(*tokenizer_).value();
    std::printf("vocabulary %d: read in %.0f ms, %lld KiB\n", tokenizer_->id_limit(),
                Microseconds(begin) / 1000, static_cast<long long>(ResidentKiB() - before));
  }

  // The answer of random tokens; empty: it did not end.
  std::string Walk(const std::string& grammar, uint64_t seed, int most_tokens) {
    auto at = Clock::now();
    const auto compiled = compiler_->Compile(grammar);
    if (!compiled.ok()) {
      std::printf("refused after %.1f ms: %.100s\n", Microseconds(at) / 1000,
                  std::string(compiled.status().message()).c_str());
      return {};
    }
    compile_.push_back(Microseconds(at));
    at = Clock::now();
    GrammarReader reader = (*compiled)->Start().value();
    start_.push_back(Microseconds(at));
    std::mt19937_64 random(seed);
    std::string text;
    std::vector<int32_t> allowed;
    for (int i = 0; i < most_tokens; ++i) {
      at = Clock::now();
      const Result<GrammarState> state = reader.Mask(words_);
      mask_.push_back(Microseconds(at));
      if (!state.ok()) {
        std::printf("failed: %s\n", std::string(state.status().message()).c_str());
        return {};
      }
      if (*state == GrammarState::kComplete) return text;
      if (*state == GrammarState::kMayEnd && random() % 8 == 0) return text;
      allowed.clear();
      for (size_t w = 0; w < words_.size(); ++w) {
        for (uint32_t bits = words_[w]; bits != 0; bits &= bits - 1) {
          allowed.push_back(static_cast<int32_t>(w * 32) + __builtin_ctz(bits));
        }
      }
      if (allowed.empty()) return {};
      const int32_t id = allowed[random() % allowed.size()];
      at = Clock::now();
      const Result<GrammarState> taken = reader.Consume(std::span(&id, 1));
      if (!taken.ok()) {
        std::printf("failed: %s\n", std::string(taken.status().message()).c_str());
        return {};
      }
      consume_.push_back(Microseconds(at));
      text += tokenizer_->TokenBytes(id).value();
    }
    return {};
  }

  void Print(const char* name) {
    std::printf(
        "  %-22s compile %8.1f us, start %6.1f; token: consume %5.1f, mask median %6.1f, 99%% "
        "%7.1f, "
        "most %8.1f us (%zu)\n",
        name, Quantile(compile_, 0.5), Quantile(start_, 0.5), Quantile(consume_, 0.5),
        Quantile(mask_, 0.5), Quantile(mask_, 0.99), Quantile(mask_, 1), mask_.size());
    compile_.clear(), start_.clear(), consume_.clear(), mask_.clear();
  }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const GrammarCompiler> compiler_;
  std::vector<uint32_t> words_;
  std::vector<double> compile_, start_, consume_, mask_;
};

Json Large(int properties) {
  Json out = {{"type", "object"}, {"properties", Json::object()}};
  for (int i = 0; i < properties; ++i) {
    out["properties"]["property_" + std::to_string(i)] =
        RandomSchema(static_cast<uint64_t>(i)).Draw(2);
  }
  return out;
}

int Run(int schemas) {
  const std::string demo = JANUS_SOURCE_DIR "/examples/demo-model/tokenizer.json";
  int misfits = 0;
  for (const auto& tokenizer : {Tokenizer::Load(demo).value(), Generated(150'000)}) {
    Walks walks(tokenizer);
    for (uint64_t seed = 0; seed < 20; ++seed) walks.Walk(Schema({{"type", "object"}}), seed, 300);
    walks.Print("any JSON object");
    for (uint64_t seed = 0; seed < 20; ++seed) {
      walks.Walk(Schema({{"type", "array"}, {"items", {{"type", "string"}}}}), seed, 300);
    }
    walks.Print("strings");
    int ended = 0;
    for (int i = 0; i < schemas; ++i) {
      const auto seed = static_cast<uint64_t>(i);
      const Json schema = RandomSchema(seed).Draw();
      const std::string text = walks.Walk(Schema(schema), seed, 2000);
      if (text.empty()) continue;
      ++ended;
      const Json value = Json::parse(text, nullptr, false);
      if (!value.is_discarded() && Fits(schema, value)) continue;
      ++misfits;
      std::printf("misfit: %s\n%s\n", schema.dump().c_str(), text.c_str());
    }
    walks.Print("random schemas");
    std::printf("  %d of %d random answers ended, %d do not fit\n", ended, schemas, misfits);
    // The largest that is taken, and expressions that need many states.
    for (const int properties : {10, 100, 750}) {
      const std::string schema = Schema(Large(properties));
      walks.Walk(schema, 1, 50);
      walks.Print((std::to_string(schema.size()) + " bytes").c_str());
    }
    for (const char* regex :
         {"(a|b)*a(a|b){200}", "(.*a){50}.*", "([a-z]{1,1000}[0-9]{1,1000}){1,1000}",
          "((a{1,1000}){1,1000}){1,1000}"}) {
      const Json grammar = {
          {"grammars", Json::array({{{"lark_grammar", "start: /" + std::string(regex) + "/"}}})}};
      for (uint64_t seed = 0; seed < 3; ++seed) walks.Walk(grammar.dump(), seed, 300);
      walks.Print(regex);
    }
  }
  return misfits == 0 ? 0 : 1;
}

}  // namespace
}  // namespace janus::text

int main(int argc, char** argv) {
  return janus::text::Run(argc > 1 ? std::atoi(argv[1]) : 200);
}
