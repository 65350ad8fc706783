// Asks an engine one question and streams its answer: embed F.engine QUESTION
#include <cstdio>

#include <brisk/llm.h>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: embed F.engine QUESTION\n");
    return 2;
  }
  auto llm = brisk::LLM::open(argv[1]);
  if (!llm.ok()) {
    std::fprintf(stderr, "embed: %s\n", llm.error().message.c_str());
    return 1;
  }
  brisk::GenerateOptions options;
  options.max_tokens = 100;
  auto answer = (*llm)->chat(argv[2], options, [](std::string_view piece) {
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  });
  if (!answer.ok()) {
    std::fprintf(stderr, "embed: %s\n", answer.error().message.c_str());
    return 1;
  }
  std::printf("\n");
  std::fprintf(stderr, "first token after %.0f ms, then %.1f ms a token\n", answer->ttft_ms, answer->tpot_ms);
  return 0;
}
