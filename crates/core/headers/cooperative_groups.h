// Groups of threads: a grid, a block, tiles of a warp, and the threads that are together now.
#pragma once

// Functions whose calls stay calls: the simulated GPU knows them by their names, and has its own.
#define __GPULEND_KNOWN extern "C" __inline__ __attribute__((device, noinline))

// The barrier of a grid, whose blocks a cooperative launch runs at the same time. Grids meet at places of the module.
// Each place serves one grid and one meeting at a time: other grids with the same place wait until all have left it.
struct __gpulend_grid_place {
    // Twice the grid's number and 2 while blocks come, 1 more while they leave, 0 when nobody is there.
    unsigned long long meeting;
    unsigned int came, left;
};
__GPULEND_DEVICE unsigned long long __gpulend_grid_meeting() {
    unsigned long long grid;
    asm volatile("mov.u64 %0, %%gridid;" : "=l"(grid));
    return 2 * grid + 2;
}
__GPULEND_DEVICE_METHOD __gpulend_grid_place &__gpulend_grid_place_of(unsigned long long meeting) {
    static __device__ __gpulend_grid_place places[256];
    return places[meeting / 2 % 256];
}
__GPULEND_DEVICE bool __gpulend_grid_last(unsigned int *count) {
    return atomicAdd(count, 1u) == gridDim.x * gridDim.y * gridDim.z - 1;
}
__GPULEND_KNOWN void __gpulend_grid_arrive() {
    __syncthreads();
    if ((threadIdx.x | threadIdx.y | threadIdx.z) != 0) return;
    unsigned long long meeting = __gpulend_grid_meeting();
    __gpulend_grid_place &place = __gpulend_grid_place_of(meeting);
    volatile unsigned long long &now = place.meeting;
    __threadfence();
    // It lasts until this block has come, too.
    while (now != meeting && atomicCAS(&place.meeting, 0ull, meeting) != 0) {
    }
    __threadfence();
    if (__gpulend_grid_last(&place.came)) {
        place.came = 0;
        __threadfence();
        atomicExch(&place.meeting, meeting + 1);
    }
}
__GPULEND_KNOWN void __gpulend_grid_wait() {
    if ((threadIdx.x | threadIdx.y | threadIdx.z) == 0) {
        unsigned long long meeting = __gpulend_grid_meeting();
        __gpulend_grid_place &place = __gpulend_grid_place_of(meeting);
        volatile unsigned long long &now = place.meeting;
        // It begins again only after this block has left.
        while (now == meeting) {
        }
        if (__gpulend_grid_last(&place.left)) {
            place.left = 0;
            __threadfence();
            atomicExch(&place.meeting, 0ull);
        }
        __threadfence();
    }
    __syncthreads();
}

// Whether the launch is cooperative. A kernel cannot ask a real GPU, where the barrier is taken to work.
__GPULEND_KNOWN int __gpulend_is_cooperative() { return 1; }
#undef __GPULEND_KNOWN

namespace cooperative_groups {
// NVIDIA's libcu++ declares two of the classes in a namespace of this name, too.
namespace __v1 {
class thread_block {
  public:
    __GPULEND_DEVICE_METHOD static void sync() { __syncthreads(); }
    __GPULEND_DEVICE_METHOD static unsigned int thread_rank() {
        return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    }
    __GPULEND_DEVICE_METHOD static unsigned int num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
    __GPULEND_DEVICE_METHOD static unsigned int size() { return num_threads(); }
    __GPULEND_DEVICE_METHOD static dim3 group_index() { return blockIdx; }
    __GPULEND_DEVICE_METHOD static dim3 thread_index() { return threadIdx; }
    __GPULEND_DEVICE_METHOD static dim3 group_dim() { return blockDim; }
    __GPULEND_DEVICE_METHOD static dim3 dim_threads() { return blockDim; }
};
__GPULEND_DEVICE thread_block this_thread_block() { return {}; }

// All blocks of a cooperative launch.
class grid_group {
  public:
    class arrival_token {};
    __GPULEND_DEVICE_METHOD static arrival_token barrier_arrive() {
        __gpulend_grid_arrive();
        return {};
    }
    __GPULEND_DEVICE_METHOD static void barrier_wait(arrival_token &&) { __gpulend_grid_wait(); }
    __GPULEND_DEVICE_METHOD static void sync() { barrier_wait(barrier_arrive()); }
    __GPULEND_DEVICE_METHOD static bool is_valid() { return __gpulend_is_cooperative() != 0; }
    __GPULEND_DEVICE_METHOD static unsigned long long num_blocks() {
        return static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z;
    }
    __GPULEND_DEVICE_METHOD static unsigned long long block_rank() {
        return (static_cast<unsigned long long>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    }
    __GPULEND_DEVICE_METHOD static unsigned long long num_threads() {
        return num_blocks() * thread_block::num_threads();
    }
    __GPULEND_DEVICE_METHOD static unsigned long long size() { return num_threads(); }
    __GPULEND_DEVICE_METHOD static unsigned long long thread_rank() {
        return block_rank() * thread_block::num_threads() + thread_block::thread_rank();
    }
    __GPULEND_DEVICE_METHOD static dim3 dim_blocks() { return gridDim; }
    __GPULEND_DEVICE_METHOD static dim3 group_dim() { return gridDim; }
    __GPULEND_DEVICE_METHOD static dim3 block_index() { return blockIdx; }
};
__GPULEND_DEVICE grid_group this_grid() { return {}; }

// Threads of one warp, as a mask of its lanes.
class __lanes {
  public:
    __GPULEND_DEVICE_METHOD void sync() const { __syncwarp(mask); }
    __GPULEND_DEVICE_METHOD int any(int wanted) const { return __any_sync(mask, wanted); }
    __GPULEND_DEVICE_METHOD int all(int wanted) const { return __all_sync(mask, wanted); }

  protected:
    friend class thread_group;
    __GPULEND_DEVICE_METHOD explicit __lanes(unsigned int mask) : mask(mask) {}
    unsigned int mask;
};

template <unsigned int Size, class Parent = void> class thread_block_tile;
// Which of the tiles of its parent a tile is, and how many there are.
template <unsigned int Size, class Parent> class __tile_number {
    static_assert(Size == 0, "tiles of a size that is known when the kernel is compiled are made of a block or of a tile");
};
template <unsigned int Size> class __tile_number<Size, thread_block> {
  public:
    __GPULEND_DEVICE_METHOD static unsigned int meta_group_rank() { return thread_block::thread_rank() / Size; }
    __GPULEND_DEVICE_METHOD static unsigned int meta_group_size() {
        return (thread_block::num_threads() + Size - 1) / Size;
    }
};
template <unsigned int Size, unsigned int Whole, class Parent>
class __tile_number<Size, thread_block_tile<Whole, Parent>> {
    static_assert(Size <= Whole, "a tile has at most as many threads as the one that it is made of");

  public:
    __GPULEND_DEVICE_METHOD static unsigned int meta_group_rank() { return (__gpulend_lane() & (Whole - 1)) / Size; }
    __GPULEND_DEVICE_METHOD static constexpr unsigned int meta_group_size() { return Whole / Size; }
};
// A tile that does not say what it is a part of remembers its number.
template <unsigned int Size> class __tile_number<Size, void> {
  public:
    __GPULEND_DEVICE_METHOD __tile_number()
        : __tile_number(__tile_number<Size, thread_block>::meta_group_rank(),
                        __tile_number<Size, thread_block>::meta_group_size()) {}
    __GPULEND_DEVICE_METHOD __tile_number(unsigned int rank, unsigned int count) : rank(rank), count(count) {}
    __GPULEND_DEVICE_METHOD unsigned int meta_group_rank() const { return rank; }
    __GPULEND_DEVICE_METHOD unsigned int meta_group_size() const { return count; }

  private:
    unsigned int rank, count;
};

template <unsigned int Size, class Parent>
class thread_block_tile : public __lanes, public __tile_number<Size, Parent> {
    static_assert(Size != 0 && Size <= 32 && (Size & (Size - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");
    __GPULEND_DEVICE_METHOD static unsigned int first() { return __gpulend_lane() & ~(Size - 1); }

  public:
    __GPULEND_DEVICE_METHOD thread_block_tile() : thread_block_tile(__tile_number<Size, Parent>()) {}
    __GPULEND_DEVICE_METHOD explicit thread_block_tile(__tile_number<Size, Parent> number)
        : __lanes(0xffffffffu >> (32 - Size) << first()), __tile_number<Size, Parent>(number) {}
    __GPULEND_DEVICE_METHOD static constexpr unsigned int size() { return Size; }
    __GPULEND_DEVICE_METHOD static constexpr unsigned int num_threads() { return Size; }
    __GPULEND_DEVICE_METHOD static unsigned int thread_rank() { return __gpulend_lane() & (Size - 1); }
    // A tile need not say what it is a part of.
    __GPULEND_DEVICE_METHOD operator thread_block_tile<Size>() const {
        return thread_block_tile<Size>(__tile_number<Size, void>(this->meta_group_rank(), this->meta_group_size()));
    }
    // What has no shuffle is exchanged word by word.
#define __GPULEND_TILE_SHUFFLE(name, lane)                                                                             \
    template <class T> __GPULEND_DEVICE_METHOD T name(T value, lane with) const {                                      \
        return __gpulend_##name(value, static_cast<int>(with), 0);                                                     \
    }                                                                                                                  \
    template <class T, class = decltype(__##name##_sync(0u, T(), 0, 0))>                                               \
    __GPULEND_DEVICE_METHOD T __gpulend_##name(T value, int with, int) const {                                         \
        return __##name##_sync(mask, value, with, Size);                                                               \
    }                                                                                                                  \
    template <class T> __GPULEND_DEVICE_METHOD T __gpulend_##name(T value, int with, long) const {                     \
        static_assert(__is_trivially_copyable(T) && sizeof(T) <= 32, "what is exchanged has at most 32 plain bytes");  \
        unsigned int words[(sizeof(T) + 3) / 4] = {};                                                                  \
        __builtin_memcpy(words, &value, sizeof value);                                                                 \
        for (unsigned int &word : words) word = __##name##_sync(mask, word, with, Size);                               \
        __builtin_memcpy(&value, words, sizeof value);                                                                 \
        return value;                                                                                                  \
    }
    __GPULEND_TILE_SHUFFLE(shfl, int)
    __GPULEND_TILE_SHUFFLE(shfl_up, unsigned int)
    __GPULEND_TILE_SHUFFLE(shfl_down, unsigned int)
    __GPULEND_TILE_SHUFFLE(shfl_xor, unsigned int)
#undef __GPULEND_TILE_SHUFFLE
    __GPULEND_DEVICE_METHOD unsigned int ballot(int wanted) const { return __ballot_sync(mask, wanted) >> first(); }
    template <class T> __GPULEND_DEVICE_METHOD unsigned int match_any(T value) const {
        return __match_any_sync(mask, value) >> first();
    }
    template <class T> __GPULEND_DEVICE_METHOD unsigned int match_all(T value, int &all) const {
        return __match_all_sync(mask, value, &all) >> first();
    }
};
template <unsigned int Size, class Parent>
__GPULEND_DEVICE_METHOD thread_block_tile<Size, Parent> tiled_partition(const Parent &) {
    return {};
}

class coalesced_group : public __lanes {
  public:
    __GPULEND_DEVICE_METHOD explicit coalesced_group(unsigned int mask) : __lanes(mask) {}
    __GPULEND_DEVICE_METHOD unsigned int size() const { return static_cast<unsigned int>(__popc(mask)); }
    __GPULEND_DEVICE_METHOD unsigned int num_threads() const { return size(); }
    __GPULEND_DEVICE_METHOD unsigned int thread_rank() const {
        return static_cast<unsigned int>(__popc(mask & ((1u << __gpulend_lane()) - 1)));
    }
    template <class T> __GPULEND_DEVICE_METHOD T shfl(T value, int rank) const {
        return __shfl_sync(mask, value, static_cast<int>(__fns(mask, 0, rank + 1)));
    }
    template <class T> __GPULEND_DEVICE_METHOD T shfl_up(T value, unsigned int delta) const {
        unsigned int from = thread_rank() < delta ? thread_rank() : thread_rank() - delta;
        return shfl(value, static_cast<int>(from));
    }
    template <class T> __GPULEND_DEVICE_METHOD T shfl_down(T value, unsigned int delta) const {
        unsigned int from = thread_rank() + delta < size() ? thread_rank() + delta : thread_rank();
        return shfl(value, static_cast<int>(from));
    }
    __GPULEND_DEVICE_METHOD unsigned int ballot(int wanted) const {
        // The bits of the group's lanes, moved together.
        unsigned int found = __ballot_sync(mask, wanted), packed = 0, at = 0;
        for (unsigned int rest = mask; rest != 0; rest &= rest - 1, at++)
            packed |= (found & rest & (0 - rest)) != 0 ? 1u << at : 0;
        return packed;
    }
};
__GPULEND_DEVICE coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

// Any of them: a block, or lanes of a warp.
class thread_group {
  public:
    __GPULEND_DEVICE_METHOD thread_group(thread_block) : mask(0) {}
    __GPULEND_DEVICE_METHOD thread_group(const __lanes &lanes) : mask(lanes.mask) {}
    __GPULEND_DEVICE_METHOD void sync() const { mask == 0 ? __syncthreads() : __syncwarp(mask); }
    __GPULEND_DEVICE_METHOD unsigned int size() const {
        return mask == 0 ? thread_block::size() : static_cast<unsigned int>(__popc(mask));
    }
    __GPULEND_DEVICE_METHOD unsigned int num_threads() const { return size(); }
    __GPULEND_DEVICE_METHOD unsigned int thread_rank() const {
        return mask == 0 ? thread_block::thread_rank() : coalesced_group(mask).thread_rank();
    }

    // The threads of a tile follow one another in the group, which may have any lanes of a warp.
    __GPULEND_DEVICE_METHOD thread_group __tile(unsigned int size) const {
        unsigned int rest = mask == 0 ? 0xffffffffu : mask, tile = 0;
        unsigned int rank = coalesced_group(rest).thread_rank();
        for (unsigned int at = 0; rest != 0; rest &= rest - 1, at++)
            tile |= at / size == rank / size ? rest & (0 - rest) : 0;
        return coalesced_group(tile);
    }

  private:
    // 0 for the block.
    unsigned int mask;
};
// Tiles whose size is known when the kernel runs: a power of two, at most a warp.
__GPULEND_DEVICE thread_group tiled_partition(const thread_group &parent, unsigned int size) {
    return parent.__tile(size);
}

template <class Group> __GPULEND_DEVICE_METHOD void sync(const Group &group) { group.sync(); }
template <class Group> __GPULEND_DEVICE_METHOD unsigned int thread_rank(const Group &group) {
    return group.thread_rank();
}
template <class Group> __GPULEND_DEVICE_METHOD unsigned int group_size(const Group &group) { return group.size(); }

template <class T> struct plus {
    __GPULEND_DEVICE_METHOD T operator()(T a, T b) const { return a + b; }
};
template <class T> struct less {
    __GPULEND_DEVICE_METHOD T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T> struct greater {
    __GPULEND_DEVICE_METHOD T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T> struct bit_and {
    __GPULEND_DEVICE_METHOD T operator()(T a, T b) const { return a & b; }
};
template <class T> struct bit_or {
    __GPULEND_DEVICE_METHOD T operator()(T a, T b) const { return a | b; }
};
template <class T> struct bit_xor {
    __GPULEND_DEVICE_METHOD T operator()(T a, T b) const { return a ^ b; }
};
template <unsigned int Size, class Parent, class T, class Combine>
__GPULEND_DEVICE_METHOD T reduce(const thread_block_tile<Size, Parent> &tile, T value, Combine combine) {
    for (unsigned int step = Size / 2; step != 0; step /= 2) value = combine(value, tile.shfl_xor(value, step));
    return value;
}
template <class T, class Combine>
__GPULEND_DEVICE_METHOD T reduce(const coalesced_group &group, T value, Combine combine) {
    T sum = group.shfl(value, 0);
    for (unsigned int rank = 1; rank < group.size(); rank++)
        sum = combine(sum, group.shfl(value, static_cast<int>(rank)));
    return sum;
}
} // namespace __v1
using namespace __v1;
} // namespace cooperative_groups
