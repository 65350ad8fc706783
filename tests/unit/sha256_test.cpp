#include "base/sha256.h"

#include <gtest/gtest.h>

namespace brisk {
namespace {

// Vectors of FIPS 180-4's examples.
TEST(Sha256, KnownDigests) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, PiecesAndMessagesInARow) {
  Sha256 sha;
  const std::string_view text = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  for (int message = 0; message < 2; ++message) {
    for (size_t i = 0; i < text.size(); i += 5) sha.add(text.substr(i, 5));
    EXPECT_EQ(hex(sha.finish()), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  }
}

}  // namespace
}  // namespace brisk
