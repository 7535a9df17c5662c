// Numbers that the scans of kernels/choose_scan.hpp share with the filters of `choose`.
#pragma once

namespace ga::choosing {

constexpr int kScanBlock = 128;  // ids are scanned in blocks, and a block that cannot matter is skipped

constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

// Below this distance a weight rounds to 0: exp(-28.42) * 2^40 is 1/2.
constexpr double kWeightFloor = -29.0;

// Weights are summed per bucket of distance.
constexpr int kBucketsPerUnit = 32;

}  // namespace ga::choosing
