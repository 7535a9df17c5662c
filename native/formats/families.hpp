// All families: the scale rule and the file layout of every quantised format.
#pragma once
#include "formats/iq4.hpp"
#include "formats/plain.hpp"
#include "formats/q2_k.hpp"
#include "formats/q3_k.hpp"
#include "formats/q4_0.hpp"
#include "formats/q4_k.hpp"
#include "formats/q6_k.hpp"
#include "formats/q8_0.hpp"
