// Half-precision floats (f16), in plain arithmetic.
#pragma once
#include <cstdint>

namespace ga {

float half_to_float(std::uint16_t bits);
std::uint16_t float_to_half(float value);    // to nearest, ties to even
float load_half_at(const std::uint8_t* p);   // little-endian, any alignment
float load_brain_at(const std::uint8_t* p);  // a bf16

}  // namespace ga
