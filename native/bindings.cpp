// What Python sees: Matrix (a weight), Sequence (a cache), Plan (one pass), Chooser (choose_bindings.cpp),
// Suffix... (suffix_bindings.cpp).
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>

#include "numpy.hpp"
#include "plan.hpp"
#include "tiles.hpp"

namespace nb = nanobind;

void bind_choose(nb::module_& m);
void bind_suffix(nb::module_& m);

namespace {

using namespace ga;
using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using FloatRows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Ints = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Format format_named(const std::string& name) {
  for (int i = 0; i < kNumFormats; ++i)
    if (name == kFormats[i].name) return static_cast<Format>(i);
  throw std::invalid_argument("no kernels for tensors of type " + name);
}

const Kernels& kernels_named(const std::string& isa) {
  const Kernels* kernels = select_kernels(isa.c_str());
  if (kernels == nullptr)
    throw std::invalid_argument("instruction set " + isa + " is unknown or not usable here");
  return *kernels;
}

std::shared_ptr<Weight> make_weight(Pool& pool, const std::string& format_name, int n, int k, Bytes data,
                                    std::optional<Ints> order, std::shared_ptr<Arena> arena) {
  const Format format = format_named(format_name);
  if (n < 1 || k < 1 || k % layout(format).block != 0 || data.size() != n * file_row_bytes(format, k))
    throw std::invalid_argument("matrix: the data does not fit the shape");
  if (order) {
    if (order->size() != static_cast<std::size_t>(n))
      throw std::invalid_argument("matrix: order has a wrong length");
    for (std::size_t i = 0; i < order->size(); ++i)
      if ((*order)(i) < 0 || (*order)(i) >= n)
        throw std::invalid_argument("matrix: order names a row that is not there");
  }
  if (arena == nullptr) arena = std::make_shared<Arena>(packed_bytes(layout(format).kind, n, k), pool.size());
  return pack_weight(pool, std::move(arena), format, n, k, data.data(), order ? order->data() : nullptr);
}

nb::object dequantise(const Weight& w) {
  const std::size_t padded = static_cast<std::size_t>(w.blocks()) * kBlock;
  std::vector<float> row(padded), out(static_cast<std::size_t>(w.n) * w.k);
  for (int i = 0; i < w.n; ++i) {
    for (int b = 0; b < w.blocks(); ++b)
      unpack_row(w.kind, w.tile(i / kLanes), b, i % kLanes, row.data() + b * kBlock, 1);
    std::copy_n(row.data(), w.k, out.data() + static_cast<std::size_t>(i) * w.k);
  }
  return to_numpy(std::move(out), {static_cast<std::size_t>(w.n), static_cast<std::size_t>(w.k)});
}

// x times the matrix, as the plan would do it; for tests and benchmarks.
class Product {
 public:
  Product(const Weight& w, const Kernels& kernels, FloatRows x, bool int8)
      : out(x.shape(0) * w.n), rows_(static_cast<int>(x.shape(0))), stride_(w.n) {
    if (x.shape(1) != static_cast<std::size_t>(w.k))
      throw std::invalid_argument("matmul: x has a wrong width");
    if (int8 && !is_quantised(w.kind))
      throw std::invalid_argument("int8 activations need a quantised matrix");
    in_.allocate(rows_, w.k, true);
    in_.quant.rows = rows_;
    in_.quant.most = kernels.most_rows;
    for (int r = 0; r < rows_; ++r) {
      std::copy_n(x.data() + static_cast<std::size_t>(r) * w.k, w.k, in_.row(r));
      kernels.quantise(in_.row(r), in_.stride, in_.quant.row(r));
    }
    function_ = (int8 ? kernels.matmul_int8 : kernels.matmul_float)[static_cast<int>(w.kind)];
  }
  void run(const Weight& w, Pool& pool) {
    struct Chunk {
      const Stripe* stripe;
      int begin, end;
    };
    std::vector<std::vector<Chunk>> lists;
    for (const Stripe& stripe : w.stripes) {
      lists.emplace_back();
      for (int begin = stripe.begin; begin < stripe.end; begin += 4)
        lists.back().push_back({&stripe, begin, std::min(begin + 4, stripe.end)});
    }
    std::vector<Counter> counters(lists.size());
    pool.run([&](int worker) {
      OwnFirst<Chunk> work(lists, counters.data(), worker);
      while (const Chunk* chunk = work.take()) {
        Matmul job = matmul_of(w, *chunk->stripe);
        job.rows = rows_;
        job.x = in_.data.get();
        job.x_stride = in_.stride;
        job.quant = in_.quant;
        job.out = out.data();
        job.out_stride = stride_;
        function_(job, chunk->begin, chunk->end);
      }
    });
  }
  std::vector<float> out;

 private:
  Buffer in_;
  const int rows_;
  const std::size_t stride_;
  void (*function_)(const Matmul&, int, int);
};

nb::object product(const Weight& w, Pool& pool, FloatRows x, const std::string& isa, bool int8) {
  Product task(w, kernels_named(isa), x, int8);
  task.run(w, pool);
  const std::size_t rows = x.shape(0), n = w.n;
  return to_numpy(std::move(task.out), {rows, n});
}

// Seconds per product. Streamed: copies of the matrix take turns until they exceed any cache.
std::vector<double> time_product(const Weight& w, Pool& pool, FloatRows x, const std::string& isa, bool int8,
                                 int repeats, bool streamed) {
  constexpr std::size_t kStreamed = std::size_t{256} << 20;
  Product task(w, kernels_named(isa), x, int8);
  const std::size_t bytes = packed_bytes(w.kind, w.n, w.k);
  const int num_copies = streamed ? static_cast<int>(std::min<std::size_t>(1024, 1 + kStreamed / bytes)) : 1;
  const auto arena = std::make_shared<Arena>(num_copies * bytes, static_cast<int>(w.stripes.size()));
  std::vector<Weight> copies(num_copies, w);
  for (Weight& copy : copies) {
    copy.arena = arena;
    for (std::size_t s = 0; s < copy.stripes.size(); ++s) {
      Stripe& stripe = copy.stripes[s];
      const std::size_t size = (stripe.end - stripe.begin) * w.tile_bytes;
      stripe.data = arena->allocate(static_cast<int>(s), size);
      std::memcpy(stripe.data, w.stripes[s].data, size);
    }
  }
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    task.run(copies[i % num_copies], pool);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return seconds;
}

// Bytes per second that all workers together read from memory: the best of a few sweeps over 512 MiB.
double read_bandwidth(Pool& pool) {
  constexpr std::size_t kBytes = std::size_t{512} << 20, kPart = std::size_t{1} << 20;
  Arena arena(kBytes, 1);
  std::uint8_t* data = arena.allocate(0, kBytes);
  std::memset(data, 1, kBytes);
  std::atomic<std::uint64_t> sink{0};
  double best = 0.0;
  for (int sweep = 0; sweep < 5; ++sweep) {
    std::atomic<int> next{0};
    const auto start = std::chrono::steady_clock::now();
    pool.run([&](int) {
      Claims claims(next, kBytes / kPart);
      std::uint64_t sums[16] = {};
      for (int part; claims.take(part);) {
        const auto* p = reinterpret_cast<const std::uint64_t*>(data + part * kPart);
        for (std::size_t i = 0; i < kPart / 8; i += 16)
          for (int j = 0; j < 16; ++j) sums[j] ^= p[i + j];
      }
      for (std::uint64_t s : sums) sink ^= s;
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, kBytes / seconds);
  }
  return best;
}

// Multiply-adds per second of all workers together, on registers.
double peak(Pool& pool, const std::string& isa, const std::string& unit) {
  const Kernels& kernels = kernels_named(isa);
  if (unit != "int8" && unit != "f32") throw std::invalid_argument("peak: the unit is int8 or f32");
  const auto run = unit == "int8" ? kernels.peak_int8 : kernels.peak_float;
  double best = 0.0;
  for (int i = 0; i < 5; ++i) {
    std::vector<double> counts(pool.size());
    const auto start = std::chrono::steady_clock::now();
    pool.run([&](int worker) { counts[worker] = run(1000000); });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, std::accumulate(counts.begin(), counts.end(), 0.0) / seconds);
  }
  return best;
}

// Keys and values of the committed positions of one layer: two arrays [position][head][head_dim].
nb::tuple cached(const Sequence& s, int layer) {
  const CacheShape& shape = s.shape();
  const std::size_t n = s.length(), heads = shape.kv_heads, dim = shape.head_dim;
  std::vector<float> keys(n * heads * dim), values(n * heads * dim);
  const auto at = [&](const std::byte* block, std::size_t i) {
    return shape.half ? half_to_float(reinterpret_cast<const std::uint16_t*>(block)[i])
                      : reinterpret_cast<const float*>(block)[i];
  };
  for (std::size_t p = 0; p < n; ++p) {
    for (std::size_t h = 0; h < heads; ++h) {
      const std::byte* block = s.block(layer, static_cast<int>(h), static_cast<int>(p / kPage));
      for (std::size_t d = 0; d < dim; ++d) {
        keys[(p * heads + h) * dim + d] = at(block, d * kPage + p % kPage);
        values[(p * heads + h) * dim + d] = at(block, (kPage + p % kPage) * dim + d);
      }
    }
  }
  return nb::make_tuple(to_numpy(std::move(keys), {n, heads, dim}),
                        to_numpy(std::move(values), {n, heads, dim}));
}

// One pass. Per request: (chosen int32[rows], {row: logits} or None, {tap: [rows, width]}).
nb::list forward(Plan& plan, const std::vector<nb::tuple>& tuples, const std::vector<int>& taps) {
  std::vector<Request> requests(tuples.size());
  std::vector<int> want_logits(tuples.size());
  for (std::size_t i = 0; i < tuples.size(); ++i) {
    if (tuples[i].size() != 7) throw std::invalid_argument("forward: a request has seven parts");
    Request& r = requests[i];
    r.sequence = nb::cast<Sequence*>(tuples[i][0]);
    const auto tokens = nb::cast<Ints>(tuples[i][1]);  // the tuple keeps the arrays alive
    r.tokens = tokens.data();
    r.num = static_cast<int>(tokens.size());
    if (!tuples[i][2].is_none()) {
      const auto parents = nb::cast<Ints>(tuples[i][2]);
      if (parents.size() != tokens.size()) throw std::invalid_argument("forward: one parent per token");
      r.parents = parents.data();
    }
    r.committed = nb::cast<int>(tuples[i][3]);
    r.chooser = tuples[i][4].is_none() ? nullptr : nb::cast<Chooser*>(tuples[i][4]);
    want_logits[i] = nb::cast<int>(tuples[i][5]);
    if (tuples[i][6].is_none()) continue;
    const auto given = nb::cast<FloatRows>(tuples[i][6]);
    if (given.shape(0) != tokens.size()) throw std::invalid_argument("forward: one vector per token");
    r.given = given.data();
    r.given_width = static_cast<int>(given.shape(1));
  }
  std::unique_lock lock(plan.mutex(), std::defer_lock);
  {
    nb::gil_scoped_release release;
    lock.lock();  // never while holding the interpreter: whoever runs a pass needs it back at the end
    plan.forward(requests, taps);
  }
  nb::list out;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Request& r = requests[i];
    nb::object logits = nb::none();
    if (want_logits[i]) {
      nb::dict rows;
      const std::size_t width = plan.logits_width();
      for (int row = 0; row < r.num; ++row) {
        const float* from = plan.logits_of(r.first_row + row);
        if (from == nullptr || (want_logits[i] < 2 && r.chosen[row] < 0)) continue;
        rows[nb::int_(row)] = to_numpy(std::vector<float>(from, from + width), {width});
      }
      logits = rows;
    }
    nb::dict hidden;
    const std::size_t width = plan.tap_width(), first = r.first_row * width, n = r.num;
    for (const int tap : taps) {
      const auto begin = plan.taps()[tap].begin() + first;
      hidden[nb::int_(tap)] = to_numpy(std::vector<float>(begin, begin + n * width), {n, width});
    }
    std::vector<std::int32_t> chosen(r.chosen.begin(), r.chosen.end());
    const std::size_t num = chosen.size();
    out.append(nb::make_tuple(to_numpy(std::move(chosen), {num}), logits, hidden));
  }
  return out;
}

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "guessahead's native engine: kernels, cache and passes. Described by guessahead.engines.native.";
  std::vector<std::string> formats;
  for (const FileLayout& format : kFormats) formats.emplace_back(format.name);
  m.attr("FORMATS") = nb::cast(formats);
  formats.resize(kNumKinds);
  m.attr("KINDS") = nb::cast(formats);
  m.attr("PAGE") = kPage;
  m.def(
      "isa", [](const std::string& wanted) { return std::string(kernels_named(wanted).name); },
      nb::arg("wanted") = "",
      "Name of the instruction set that runs; \"\" = the best one. ValueError where it cannot be used.");

  m.def(
      "isas",
      [] {
        std::vector<std::string> names;
        for (const Kernels* kernels : usable_kernels()) names.emplace_back(kernels->name);
        return names;
      },
      "Names of the instruction sets that can be used here, the best first.");

  nb::class_<Pool>(m, "Pool", "Worker threads; the caller is one of them.")
      .def(nb::init<int>(), nb::arg("threads"))
      .def_prop_ro("size", &Pool::size);

  m.def(
      "packed_bytes",
      [](const std::string& format, int n, int k) {
        return packed_bytes(layout(format_named(format)).kind, n, k);
      },
      nb::arg("format"), nb::arg("n"), nb::arg("k"), "Bytes that a matrix takes in an arena.");
  nb::class_<Arena>(m, "Arena", "Memory for matrices, handed out front to back: one stream per worker.")
      .def(nb::init<std::size_t, int>(), nb::arg("num_bytes_per_stream"), nb::arg("num_streams"));
  nb::class_<Weight>(m, "Matrix", "A weight matrix of n outputs by k inputs, repacked into tiles.")
      .def_static(
          "pack", &make_weight, nb::arg("pool"), nb::arg("format"), nb::arg("n"), nb::arg("k"),
          nb::arg("data"), nb::arg("order").none() = nb::none(), nb::arg("arena").none() = nb::none(),
          "order: which row of the data becomes output i. arena: where it shall lie; default: by itself.")
      .def_ro("n", &Weight::n)
      .def_ro("k", &Weight::k)
      .def_prop_ro("num_bytes", [](const Weight& w) { return w.tile_bytes * w.tiles(); })
      .def_prop_ro("kind",
                   [](const Weight& w) { return std::string(kFormats[static_cast<int>(w.kind)].name); })
      .def("dequantise", &dequantise, "All values, float32[n, k].")
      .def("matmul", &product, nb::arg("pool"), nb::arg("x"), nb::arg("isa") = "", nb::arg("int8") = true,
           "x float32[m, k] -> float32[m, n].")
      .def("time_matmul", &time_product, nb::arg("pool"), nb::arg("x"), nb::arg("isa") = "",
           nb::arg("int8") = true, nb::arg("repeats") = 20, nb::arg("streamed") = true,
           "Seconds per product; streamed: the weights come from memory, else from whatever cache holds "
           "them.");
  m.def("read_bandwidth", &read_bandwidth, nb::arg("pool"),
        "Bytes per second read from memory by all workers.");
  m.def("peak", &peak, nb::arg("pool"), nb::arg("isa") = "", nb::arg("unit") = "int8",
        "Multiply-adds per second of all workers; unit: \"int8\" or \"f32\".");

  nb::class_<Sequence>(m, "Sequence", "The cache of one running sequence.")
      .def_prop_ro("length", &Sequence::length)
      .def_prop_ro("num_bytes", &Sequence::num_bytes)
      .def("keep", [](Sequence& s, Ints path) { s.keep(path.data(), static_cast<int>(path.size())); })
      .def("rollback", &Sequence::rollback)
      .def("fork", &Sequence::fork)
      .def("cached", &cached, nb::arg("layer"),
           "Keys and values of one layer, float32[length, heads, head_dim] each.");

  nb::class_<Plan>(m, "Plan", "The operations of one pass over preallocated buffers.")
      .def(
          "__init__",
          [](Plan* self, int layers, int kv_heads, int head_dim, int max_rows, int context,
             std::shared_ptr<Pool> pool, const std::string& isa, bool half_cache) {
            if (layers < 1 || kv_heads < 1 || head_dim < 8 || head_dim % 8 != 0 || max_rows < 1 ||
                context < 1)
              throw std::invalid_argument("plan: impossible shape");
            new (self) Plan({layers, kv_heads, head_dim, half_cache}, max_rows, context, std::move(pool),
                            &kernels_named(isa));
          },
          nb::arg("layers"), nb::arg("kv_heads"), nb::arg("head_dim"), nb::arg("max_rows"),
          nb::arg("context"), nb::arg("pool"), nb::arg("isa") = "", nb::arg("half_cache") = false)
      .def_prop_ro("isa", &Plan::isa)
      .def("buffer", &Plan::buffer, nb::arg("width"), nb::arg("quantised") = false,
           nb::arg("compact") = false)
      .def("vector", [](Plan& p, Floats v) { return p.vector(v.data(), static_cast<int>(v.size())); })
      .def("embed", &Plan::embed, nb::arg("table"), nb::arg("dst"), nb::arg("scale") = 1.0f)
      .def("rmsnorm", &Plan::rmsnorm, nb::arg("src"), nb::arg("weight"), nb::arg("eps"), nb::arg("dst"),
           nb::arg("column") = 0)
      .def(
          "matmul",
          [](Plan& p, int src,
             const std::vector<std::tuple<std::shared_ptr<Weight>, int, int, bool>>& products) {
            std::vector<Plan::Product> parts;
            for (const auto& [weight, dst, bias, accumulate] : products)
              parts.push_back({weight, dst, bias, accumulate});
            p.matmul(src, std::move(parts));
          },
          nb::arg("src"), nb::arg("products"),
          "products: (matrix, destination buffer, bias vector or -1, add to the destination).")
      .def("attention", &Plan::attention, nb::arg("layer"), nb::arg("q"), nb::arg("k"), nb::arg("v"),
           nb::arg("dst"), nb::arg("heads"), nb::arg("inverse_frequencies"), nb::arg("scale"),
           nb::arg("window") = 0, nb::arg("cap") = 0.0f,
           "No frequencies: no rotation. window: positions that a row sees, itself included; 0 = all. cap: "
           "scores "
           "become cap * tanh(score / cap); 0 = as they are.")
      .def("gated", &Plan::gated, nb::arg("src"), nb::arg("gate_weight"), nb::arg("up_weight"),
           nb::arg("gate"), nb::arg("up"), nb::arg("dst"), nb::arg("gelu") = false,
           "dst = act(src * gate_weight) * (src * up_weight); act is SiLU, or GELU (by tanh).")
      .def("copy", &Plan::copy, nb::arg("src"), nb::arg("dst"))
      .def("norm_groups", &Plan::norm_groups, nb::arg("buffer"), nb::arg("weight"), nb::arg("eps"),
           nb::arg("size"), "RMS norm of every group of `size` columns by itself, in place.")
      .def("add_scaled", &Plan::add_scaled, nb::arg("src"), nb::arg("dst"), nb::arg("scale") = 1.0f,
           nb::arg("weight") = -1, nb::arg("eps") = 0.0f,
           "dst += scale * src; with a weight, src is RMS-normalised first.")
      .def("cap", &Plan::cap, nb::arg("buffer"), nb::arg("divisor"), nb::arg("cap"),
           "x / divisor, then cap * tanh(that / cap) unless cap is 0; in place.")
      .def("when_given", &Plan::when_given, nb::arg("width"),
           "What is described from now on runs only where rows come with vectors of this width; 0 = always.")
      .def("given", &Plan::given, nb::arg("dst"), "dst = the vectors that come with the rows.")
      .def("tap", &Plan::tap, nb::arg("src"))
      .def("logits", &Plan::logits, nb::arg("src"))
      .def("new_sequence", &Plan::new_sequence)
      .def("set_profiling", &Plan::set_profiling, nb::arg("on"))
      .def_prop_ro("profile", &Plan::profile,
                   "Seconds per kind of operation since profiling was switched on.")
      .def("forward", &forward, nb::arg("requests"), nb::arg("taps") = std::vector<int>(),
           "requests: (sequence, tokens, parents or None, committed, chooser or None, logits wanted, vectors "
           "that come with the tokens or None). logits wanted: 0 = none, 1 = of the rows that were chosen "
           "for, 2 = of all from the last committed one on. taps: whose hidden states to return.");

  bind_choose(m);
  bind_suffix(m);
}
