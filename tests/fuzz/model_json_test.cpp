// Model files with random damage: each is read or refused with a UserError; nothing else may come out.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/core/diagnostic_renderer.h"
#include "compiler/frontend/model.h"

namespace tpc {
namespace {

std::vector<std::string> shipped_models() {
  std::vector<std::string> texts;
  for (const char* name : {"small_gpt_tutorial_split", "tiny_gpt", "mlp", "llama_tiny"}) {
    std::ifstream file(std::string(TPC_SOURCE_DIR) + "/models/" + name + ".json");
    std::ostringstream text;
    text << file.rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

// What can stand between two separators of a model file.
std::vector<std::string> tokens(const std::vector<std::string>& texts) {
  std::vector<std::string> out = {"0",
                                  "-1",
                                  "1",
                                  "3",
                                  "1e999",
                                  "4294967296",
                                  "99999999999999999999",
                                  "1.5",
                                  "[]",
                                  "{}",
                                  "null",
                                  "true",
                                  "\"\"",
                                  "\"S(0)\"",
                                  "\"block{last}.x\"",
                                  "\"1/sqrt(0)\"",
                                  "[1]",
                                  "[1, 1, 1, 1, 1, 1, 1, 1]",
                                  "{\"normal\": 1}",
                                  "{\"weight\": \"S(hidden)\"}"};
  for (const std::string& text : texts) {
    for (size_t begin = text.find('"'); begin != std::string::npos; begin = text.find('"', begin + 1)) {
      size_t end = text.find('"', begin + 1);
      out.push_back(text.substr(begin, end - begin + 1));
      begin = end;
    }
  }
  return out;
}

size_t pick(std::mt19937& random, size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); }

// Replaces one token (a string, number or word), or now and then removes or doubles a stretch of bytes.
std::string damaged(std::string text, const std::vector<std::string>& pool, std::mt19937& random) {
  size_t at = pick(random, text.size());
  if (pick(random, 6) == 0) {
    size_t length = 1 + pick(random, 12);
    std::string stretch = text.substr(at, length);
    return pick(random, 2) == 0 ? text.erase(at, length) : text.insert(at, stretch);
  }
  size_t begin = text.find_first_of("\"0123456789tf", at);
  if (begin == std::string::npos) return text;
  size_t end = text[begin] == '"' ? text.find('"', begin + 1) : text.find_first_of(" ,]}:\n", begin);
  if (end == std::string::npos) return text;
  if (text[begin] == '"') ++end;
  return text.replace(begin, end - begin, pool[pick(random, pool.size())]);
}

TEST_CASE("damaged model files are read or refused") {
  std::vector<std::string> texts = shipped_models();
  std::vector<std::string> pool = tokens(texts);
  int accepted = 0;
  constexpr unsigned kSeeds = 1500;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    std::mt19937 random(seed);
    std::string text = texts[pick(random, texts.size())];
    for (size_t i = 1 + pick(random, 3); i > 0; --i) text = damaged(text, pool, random);
    DiagnosticSink sink;
    CAPTURE(seed);
    CAPTURE(text);
    try {
      Model model = parse_model(text, "m.json", {}, sink);
      DiagnosticSink again;
      CHECK(parse_model(model.json, "m.json", {}, again).graph == model.graph);
      ++accepted;
    } catch (const UserError& error) {
      std::string message;
      CHECK_NOTHROW(message = render_diagnostics(error.diagnostics(), {{"m.json", text}}));
      CHECK(message.find("m.json:") == 0);
    } catch (const std::exception& error) {
      FAIL_CHECK("not a UserError: ", error.what());
    }
  }
  // Some damage is harmless; if none were, or all, the test would say little.
  CHECK(accepted > 10);
  CHECK(accepted < static_cast<int>(kSeeds) / 2);
}

}  // namespace
}  // namespace tpc
