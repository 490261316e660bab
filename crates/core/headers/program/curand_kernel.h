// Random numbers inside kernels: Philox4x32-10 (Salmon et al., 2011) and xorwow (Marsaglia, 2003).
// A Philox state draws the numbers that its paper defines for a key and a counter. Those of xorwow are not the ones that NVIDIA's
// library draws: a subsequence is another start instead of a leap of 2**67 steps.
#pragma once
#include "cuda_runtime.h"

#define CURAND_KERNEL_H_
#define __GPULEND_RANDOM static __inline__ __attribute__((host, device, unused))

struct curandStateXORWOW {
    unsigned int weyl, words[5];
    // A normal variable comes with a second one, which the next call gives.
    int kept, kept_double;
    float other;
    double other_double;
};
struct curandStatePhilox4_32_10 {
    uint4 counter, drawn;
    uint2 key;
    unsigned int at;
    int kept, kept_double;
    float other;
    double other_double;
};
typedef curandStateXORWOW curandState, curandState_t, curandStateXORWOW_t;
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

// One step of SplitMix64: each bit of the seed changes about half of those drawn.
__GPULEND_RANDOM unsigned long long __gpulend_mixed_bits(unsigned long long &seed) {
    unsigned long long bits = seed += 0x9e3779b97f4a7c15ull;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9ull;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebull;
    return bits ^ bits >> 31;
}
__GPULEND_RANDOM unsigned int curand(curandStateXORWOW *state) {
    unsigned int last = state->words[4], first = state->words[0] ^ state->words[0] >> 2;
    for (int at = 0; at < 4; at++) state->words[at] = state->words[at + 1];
    state->words[4] = last ^ last << 4 ^ (first ^ first << 1);
    state->weyl += 362437;
    return state->words[4] + state->weyl;
}
__GPULEND_RANDOM void skipahead(unsigned long long count, curandStateXORWOW *state) {
    for (; count != 0; count--) curand(state);
}
__GPULEND_RANDOM void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                                  curandStateXORWOW *state) {
    unsigned long long mixed = subsequence;
    mixed = __gpulend_mixed_bits(mixed) ^ seed;
    *state = {};
    for (int at = 0; at < 4; at += 2) {
        unsigned long long bits = __gpulend_mixed_bits(mixed);
        state->words[at] = static_cast<unsigned int>(bits), state->words[at + 1] = static_cast<unsigned int>(bits >> 32);
    }
    // Not all words may be 0.
    state->words[4] = static_cast<unsigned int>(__gpulend_mixed_bits(mixed)) | 1;
    state->weyl = 6615241;
    skipahead(offset, state);
}

// Ten rounds on the counter, each with a key of its own.
__GPULEND_RANDOM uint4 __gpulend_philox(uint4 counter, uint2 key) {
    for (int round = 0; round < 10; round++) {
        unsigned long long left = 0xd2511f53ull * counter.x, right = 0xcd9e8d57ull * counter.z;
        counter = {static_cast<unsigned int>(right >> 32) ^ counter.y ^ key.x, static_cast<unsigned int>(right),
                   static_cast<unsigned int>(left >> 32) ^ counter.w ^ key.y, static_cast<unsigned int>(left)};
        key.x += 0x9e3779b9u, key.y += 0xbb67ae85u;
    }
    return counter;
}
// The lower half of the counter is the place in a subsequence, the upper half is the subsequence.
__GPULEND_RANDOM void __gpulend_advance(uint4 &counter, unsigned long long count) {
    unsigned long long low = (static_cast<unsigned long long>(counter.y) << 32 | counter.x) + count;
    if (low < count && ++counter.z == 0) counter.w++;
    counter.x = static_cast<unsigned int>(low), counter.y = static_cast<unsigned int>(low >> 32);
}
__GPULEND_RANDOM void skipahead(unsigned long long count, curandStatePhilox4_32_10 *state) {
    unsigned long long at = state->at + count % 4;
    __gpulend_advance(state->counter, count / 4 + at / 4);
    state->at = static_cast<unsigned int>(at % 4);
    state->drawn = __gpulend_philox(state->counter, state->key);
}
__GPULEND_RANDOM void skipahead_sequence(unsigned long long count, curandStatePhilox4_32_10 *state) {
    unsigned long long high = (static_cast<unsigned long long>(state->counter.w) << 32 | state->counter.z) + count;
    state->counter.z = static_cast<unsigned int>(high), state->counter.w = static_cast<unsigned int>(high >> 32);
    state->drawn = __gpulend_philox(state->counter, state->key);
}
__GPULEND_RANDOM void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                                  curandStatePhilox4_32_10 *state) {
    *state = {};
    state->key = {static_cast<unsigned int>(seed), static_cast<unsigned int>(seed >> 32)};
    skipahead_sequence(subsequence, state);
    skipahead(offset, state);
}
__GPULEND_RANDOM unsigned int curand(curandStatePhilox4_32_10 *state) {
    const uint4 &drawn = state->drawn;
    unsigned int bits = state->at == 0 ? drawn.x : state->at == 1 ? drawn.y : state->at == 2 ? drawn.z : drawn.w;
    skipahead(1, state);
    return bits;
}
__GPULEND_RANDOM uint4 curand4(curandStatePhilox4_32_10 *state) {
    uint4 bits;
    bits.x = curand(state), bits.y = curand(state), bits.z = curand(state), bits.w = curand(state);
    return bits;
}

// Above 0, and at most 1.
__GPULEND_RANDOM float __gpulend_uniform(unsigned int bits) { return bits * 0x1p-32f + 0x1p-33f; }
template <class State> __GPULEND_RANDOM float curand_uniform(State *state) { return __gpulend_uniform(curand(state)); }
template <class State> __GPULEND_RANDOM double curand_uniform_double(State *state) {
    unsigned long long low = curand(state), high = curand(state);
    return (high << 21 ^ low >> 11) * 0x1p-53 + 0x1p-54;
}
// Two normal variables of two uniform ones (Box and Muller, 1958).
template <class State> __GPULEND_RANDOM float2 curand_normal2(State *state) {
    float distance = sqrtf(-2 * logf(curand_uniform(state))), turn = 6.2831853f * curand_uniform(state);
    return {distance * sinf(turn), distance * cosf(turn)};
}
template <class State> __GPULEND_RANDOM double2 curand_normal2_double(State *state) {
    double distance = sqrt(-2 * log(curand_uniform_double(state))), turn = 2 * M_PI * curand_uniform_double(state);
    return {distance * sin(turn), distance * cos(turn)};
}
template <class State> __GPULEND_RANDOM float curand_normal(State *state) {
    if ((state->kept = !state->kept) == 0) return state->other;
    float2 both = curand_normal2(state);
    state->other = both.y;
    return both.x;
}
template <class State> __GPULEND_RANDOM double curand_normal_double(State *state) {
    if ((state->kept_double = !state->kept_double) == 0) return state->other_double;
    double2 both = curand_normal2_double(state);
    state->other_double = both.y;
    return both.x;
}
template <class State> __GPULEND_RANDOM float curand_log_normal(State *state, float mean, float deviation) {
    return expf(mean + deviation * curand_normal(state));
}
template <class State> __GPULEND_RANDOM double curand_log_normal_double(State *state, double mean, double deviation) {
    return exp(mean + deviation * curand_normal_double(state));
}
__GPULEND_RANDOM float4 curand_uniform4(curandStatePhilox4_32_10 *state) {
    uint4 bits = curand4(state);
    return {__gpulend_uniform(bits.x), __gpulend_uniform(bits.y), __gpulend_uniform(bits.z), __gpulend_uniform(bits.w)};
}
__GPULEND_RANDOM double2 curand_uniform2_double(curandStatePhilox4_32_10 *state) {
    double first = curand_uniform_double(state);
    return {first, curand_uniform_double(state)};
}
__GPULEND_RANDOM float4 curand_normal4(curandStatePhilox4_32_10 *state) {
    float2 first = curand_normal2(state), second = curand_normal2(state);
    return {first.x, first.y, second.x, second.y};
}
// The first count whose share of the distribution exceeds a uniform number (Knuth, volume 2); in parts, as exp(-64) is small.
template <class State> __GPULEND_RANDOM unsigned int curand_poisson(State *state, double mean) {
    unsigned int count = 0;
    for (; mean > 0; mean -= 64) {
        double wanted = exp(mean < 64 ? -mean : -64.0), product = curand_uniform_double(state);
        for (; product > wanted; count++) product *= curand_uniform_double(state);
    }
    return count;
}
#undef __GPULEND_RANDOM
