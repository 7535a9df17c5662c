// What kernels_main.cpp feeds to the kernels, the same on every machine, and what it keeps of their results.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "formats/halves.hpp"
#include "isa/kernels.hpp"

enum class Style { Plain, Tiny, Huge, Subnormal, Ties, Odd, Count };
constexpr int kStyles = static_cast<int>(Style::Count);
constexpr const char* kStyleNames[kStyles] = {"plain", "tiny", "huge", "subnormal", "ties", "odd"};

// The same inputs on every machine (splitmix64).
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : state_(seed) {}
  std::uint32_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return static_cast<std::uint32_t>((z ^ z >> 31) >> 32);
  }
  int below(int bound) { return static_cast<int>(bits() % static_cast<std::uint32_t>(bound)); }
  float plain() { return static_cast<float>(static_cast<std::int32_t>(bits())) * 0x1p-31f; }

  float value(Style style) {
    switch (style) {
      case Style::Plain:
        return 4.0f * plain();
      case Style::Tiny:
        return times_power(-60 - below(60));
      case Style::Huge:
        return times_power(20 + below(108));
      case Style::Subnormal:
        return std::bit_cast<float>(bits() & 0x807fffffu);
      // Half-integers up to 127: with the largest in a block, its rounding to int8 meets exact ties.
      case Style::Ties:
        return below(4) == 0 ? 127.0f : 0.5f * static_cast<float>(below(509) - 254);
      default:
        return below(16) == 0 ? odd() : 4.0f * plain();
    }
  }
  std::uint16_t half(Style style) {
    switch (style) {
      case Style::Plain:
        return ga::float_to_half(plain());
      case Style::Tiny:
        return ga::float_to_half(plain() * 0x1p-12f);
      case Style::Huge:
        return ga::float_to_half(plain() * 65535.0f);
      case Style::Subnormal:
        return static_cast<std::uint16_t>(bits() & 0x83ffu);
      default:
        return below(16) == 0 ? ga::float_to_half(odd()) : ga::float_to_half(plain());
    }
  }
  std::vector<float> values(std::size_t count, Style style) {
    std::vector<float> all(count);
    for (float& each : all) each = value(style);
    return all;
  }
  std::vector<std::uint16_t> halves(std::size_t count, Style style) {
    std::vector<std::uint16_t> all(count);
    for (std::uint16_t& each : all) each = half(style);
    return all;
  }

 private:
  float times_power(int exponent) { return std::ldexp(plain(), exponent); }
  // Zeros, infinities, not-a-numbers, the largest and smallest of both signs, and halves between integers.
  float odd() {
    constexpr std::uint32_t kOdd[] = {0,          0x7f800000, 0x7fc00001, 0x7f7fffff, 0x00000001,
                                      0x00800000, 0x3f000000, 0x4f000000, 0x40200000};
    const std::uint32_t magnitude = kOdd[below(9)];
    return std::bit_cast<float>(magnitude | (bits() & 0x80000000u));
  }
  std::uint64_t state_;
};

// What a variant computed, in order, and which case each stretch of it comes from.
struct Results {
  std::vector<std::uint32_t> words;
  std::vector<std::pair<std::size_t, std::string>> cases;

  void begin(std::string name) { cases.emplace_back(words.size(), std::move(name)); }
  void add(int value) { words.push_back(static_cast<std::uint32_t>(value)); }
  // Architectures make and pass on different not-a-numbers: one is as good as another.
  void add(float value) {
    words.push_back(value != value ? 0x7fc00000u : std::bit_cast<std::uint32_t>(value));
  }
  void add(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value == value ? value : std::nan(""));
    words.push_back(static_cast<std::uint32_t>(bits));
    words.push_back(static_cast<std::uint32_t>(bits >> 32));
  }
  void add(const std::vector<double>& values) {
    for (const double value : values) add(value);
  }
  void add(const std::vector<float>& values) {
    for (const float value : values) add(value);
  }
  // The case that value `at` comes from.
  const std::pair<std::size_t, std::string>& case_of(std::size_t at) const {
    std::size_t i = cases.size() - 1;
    while (cases[i].first > at) --i;
    return cases[i];
  }
  unsigned long long hash(std::size_t from, std::size_t to) const {  // FNV-1a over words
    unsigned long long h = 0xcbf29ce484222325u;
    for (; from < to; ++from) h = (h ^ words[from]) * 0x100000001b3u;
    return h;
  }
};
