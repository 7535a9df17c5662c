// A plan: the operations of one pass over preallocated buffers. Python describes it once, `forward` runs it.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cache/sequence.hpp"
#include "choose/chooser.hpp"
#include "isa/kernels.hpp"
#include "plan/buffer.hpp"
#include "plan/matrix.hpp"
#include "threads/fork.hpp"
#include "threads/pool.hpp"

namespace ga {

// Attention runs in segments of this many pages, so that long contexts can be shared among workers. Their
// results are joined in the order of positions, so it makes no difference who computed them.
constexpr int kSegmentPages = 4;

// One sequence's share of a pass.
struct RowGroup {
  Sequence* sequence = nullptr;
  const int* tokens = nullptr;
  const int* parents = nullptr;  // null = chain
  int num = 0;
  int committed = 0;           // rows that enter the cache at once; choosing starts at the last of them
  Chooser* chooser = nullptr;  // null = choose nothing
  const std::uint32_t* masks = nullptr;  // [num - committed + 1][mask_words]: the choices allowed; null = all
  int mask_words = 0;
  bool all_logits = false;       // compute them from the last committed row on, and choose nothing
  const float* given = nullptr;  // [num][given_width]: vectors that come with the tokens, see Plan::given
  int given_width = 0;
  int first_row = 0;        // in the pass
  std::vector<int> chosen;  // per row, -1 where not asked
};

struct Pass {
  std::vector<RowGroup>& groups;
  int rows = 0;
  std::vector<int> tokens;
  std::vector<int> out_rows;  // rows whose logits are computed, ascending
  std::vector<bool> taps;     // whose hidden states are wanted
  int given_width = 0;
  int segments = 1;  // of the longest sequence (see kSegmentPages)
};

class Plan {
 public:
  Plan(CacheShape shape, int max_rows, int context, std::shared_ptr<Pool> pool, const Kernels* kernels);

  // Description. Buffers and vectors are named by the number that `buffer` and `vector` return.
  int buffer(int width, bool quantised, bool compact);
  int vector(const float* data, int n);
  void embed(std::shared_ptr<Matrix> table, int dst, float scale);
  // Into the columns of dst from `column` on.
  void rmsnorm(int src, int weight, float eps, int dst, int column);
  struct Product {
    std::shared_ptr<Matrix> weight;
    int dst;
    int bias;  // vector, or -1
    bool accumulate;
  };
  void matmul(int src, std::vector<Product> products);
  void copy(int src, int dst);
  // Normalises, in place, every group of `size` columns by itself.
  void norm_groups(int buffer, int weight, float eps, int size);
  // dst += scale * src, where src is normalised first, in place, if there is a weight (else -1).
  void add_scaled(int src, int dst, float scale, int weight, float eps);
  // x / divisor, then (cap != 0) cap * tanh(that / cap), in place.
  void cap(int buffer, float divisor, float cap);
  // No frequencies: no rotation. window: positions that a row sees, itself included; 0 = all. cap: see Query.
  void attention(int layer, int q, int k, int v, int dst, int heads, std::vector<double> inverse_frequencies,
                 float scale, int window, float cap);
  // dst = act(src * gate_weight) * (src * up_weight), act = SiLU or GELU; `gate` and `up` hold the products.
  void gated(int src, std::shared_ptr<Matrix> gate_weight, std::shared_ptr<Matrix> up_weight, int gate,
             int up, int dst, bool gelu);
  // What is described from now on runs only in passes whose rows come with vectors of this width; 0 = always.
  void when_given(int width) { given_width_ = width; }
  void given(int dst);   // the vectors that come with the rows
  void tap(int src);     // remember these rows if hidden states are wanted
  void logits(int src);  // the compact buffer to choose from

  // Runs one pass over the rows of all groups. Throws std::invalid_argument for malformed groups.
  void forward(std::vector<RowGroup>& groups, const std::vector<int>& taps);

  // Seconds per kind of operation since profiling was switched on, as seen by the calling thread (waiting for
  // the others included). Not while a pass runs.
  void set_profiling(bool on);
  const std::map<std::string, double>& profile() const { return profile_; }

  // Of the last pass.
  const float* logits_of(int row) const;  // null where they were not computed
  int logits_width() const;
  const std::vector<std::vector<float>>& taps() const { return taps_; }  // [tap][rows * width]
  int tap_width() const { return tap_width_; }

  Sequence new_sequence() const { return Sequence(shape_); }
  int max_rows() const { return max_rows_; }
  const char* isa() const { return kernels_->name; }
  ForkMutex& mutex() { return mutex_; }  // of a pass and its results

 private:
  using Work = std::function<void(Pass&, int worker, Counter* counters)>;
  struct Operation {
    const char* label;
    Work work;
    int tap;             // the tap that must be wanted, or -1
    bool many_segments;  // only if there are several
    int given_width;     // see when_given
    bool due(const Pass& pass) const {
      return (tap < 0 || pass.taps[tap]) && !(many_segments && pass.segments == 1) &&
             (given_width == 0 || given_width == pass.given_width);
    }
  };
  struct Rotation {  // by angles position * frequency
    std::vector<double> frequencies;
    std::vector<float> cos, sin;  // [position][frequency]
  };
  struct Attention {
    int layer, heads;
    float scale;
    int window;
    float cap;
    const Rotation* rotation;
    Buffer *q, *k, *v, *dst;
    int first_seen(int position) const {
      return window > 0 && position >= window ? position - window + 1 : 0;
    }
  };

  void check(const std::vector<RowGroup>& groups) const;
  void choose(RowGroup& group);
  int rows_of(const Buffer& buffer, const Pass& pass) const;
  int columns_each(int width, int multiple) const;  // the share of a worker, in an operation
  void add(const char* label, Work work, int tap = -1, bool many_segments = false);
  struct Chunk {
    int part, begin, end;  // tiles [begin, end) of a part
    Matmul job;
  };
  void add_chunks(std::vector<std::vector<Chunk>>& lists, int part, const Matrix& weight, const Buffer& src,
                  Buffer& dst, int tiles_per_chunk) const;
  void multiply(const Chunk& chunk, Format format, const Buffer& src, int rows) const;
  void rotate(const Attention& job, RowGroup& group, int head);
  void attend(const Attention& job, RowGroup& group, int head, int segment, int worker);
  void attend_block(Query* const* queries, int num, const std::byte* block, int begin,
                    const std::byte* next) const;
  void finish(const Attention& job, int row, int head, int segments);
  Query& partial(const Attention& job, int row, int head, int segment, int segments);
  int group_columns(const Attention& job) const { return shape_.head_dim * job.heads / shape_.kv_heads; }
  void extend_rope(int positions);

  const CacheShape shape_;
  const int max_rows_, context_;
  std::shared_ptr<Pool> pool_;
  const Kernels* kernels_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::unique_ptr<float[]>> vectors_;
  std::vector<Operation> operations_;
  std::vector<Counter> counters_;  // [2][workers]: operations take turns
  std::vector<std::unique_ptr<Rotation>> rotations_;
  struct Scratch {  // per worker
    std::vector<Query*> order;
    std::vector<std::byte> block;  // one page of one head with a path's rows laid over it
  };
  std::vector<Scratch> scratch_;
  int segments_ = 1, heads_ = 0;
  std::vector<Query> partials_;     // [row][head][segment]
  std::vector<float> partial_out_;  // [row][head][segment][head_dim]
  std::vector<std::vector<float>> taps_;
  int tap_width_ = 0;
  int given_width_ = 0;            // of what is being described
  std::vector<int> given_widths_;  // that `given` takes
  int num_tokens_ = 0;             // of the table of embeddings
  Buffer* logits_ = nullptr;
  std::vector<int> out_index_;  // row -> index among the chosen rows, -1
  bool profiling_ = false;
  std::map<std::string, double> profile_;
  ForkMutex mutex_;
};

}  // namespace ga
