// Bytes: search, count, hash.

extern "C" __global__ void string_search(const char *text, int length, const char *word, int word_length, int *found) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + word_length > length) return;
    for (int k = 0; k < word_length; ++k)
        if (text[i + k] != word[k]) return;
    found[atomicAdd(&found[0], 1) + 1] = i;
}

__device__ bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t'; }

extern "C" __global__ void count_words(const char *text, int length, int *words) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool begins = i < length && !is_space(text[i]) && (i == 0 || is_space(text[i - 1]));
    int of_block = __syncthreads_count(begins);
    if (threadIdx.x == 0) atomicAdd(words, of_block);
}

// One block of 256 threads, up to 256 values: the runs' values and lengths, and how many there are.
extern "C" __global__ void run_lengths(const int *values, int n, int *run_values, int *lengths, int *runs) {
    __shared__ int place[2][256], starts[257];
    int i = threadIdx.x, from = 0;
    bool begins = i < n && (i == 0 || values[i] != values[i - 1]);
    place[0][i] = begins;
    __syncthreads();
    for (int offset = 1; offset < 256; offset *= 2) {
        place[1 - from][i] = place[from][i] + (i >= offset ? place[from][i - offset] : 0);
        from = 1 - from;
        __syncthreads();
    }
    int count = place[from][255];
    if (begins) {
        starts[place[from][i] - 1] = i;
        run_values[place[from][i] - 1] = values[i];
    }
    if (i == 0) {
        starts[count] = n;
        *runs = count;
    }
    __syncthreads();
    if (i < count) lengths[i] = starts[i + 1] - starts[i];
}

// Strings of one length, one after the other.
extern "C" __global__ void fnv1a(const unsigned char *strings, int length, unsigned long long *hashes, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long hash = 0xcbf29ce484222325ull;
    for (int k = 0; k < length; ++k) hash = (hash ^ strings[i * length + k]) * 0x100000001b3ull;
    hashes[i] = hash;
}

extern "C" __global__ void crc32(const unsigned char *strings, int length, unsigned int *sums, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned int sum = 0xffffffffu;
    for (int k = 0; k < length; ++k) {
        sum ^= strings[i * length + k];
        for (int bit = 0; bit < 8; ++bit) sum = sum & 1 ? sum >> 1 ^ 0xedb88320u : sum >> 1;
    }
    sums[i] = ~sum;
}

__constant__ unsigned int round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

__device__ unsigned int rotate(unsigned int word, int by) { return word >> by | word << (32 - by); }

// Messages of at most 55 bytes, so that each is one chunk.
extern "C" __global__ void sha256(const unsigned char *messages, int length, unsigned char *digests, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned char chunk[64] = {};
    for (int k = 0; k < length; ++k) chunk[k] = messages[i * length + k];
    chunk[length] = 0x80;
    chunk[62] = (unsigned char)(length * 8 >> 8);
    chunk[63] = (unsigned char)(length * 8);
    unsigned int words[64];
    for (int k = 0; k < 16; ++k)
        words[k] = (unsigned int)chunk[4 * k] << 24 | chunk[4 * k + 1] << 16 | chunk[4 * k + 2] << 8 | chunk[4 * k + 3];
    for (int k = 16; k < 64; ++k) {
        unsigned int early = words[k - 15], late = words[k - 2];
        unsigned int first = rotate(early, 7) ^ rotate(early, 18) ^ early >> 3;
        unsigned int second = rotate(late, 17) ^ rotate(late, 19) ^ late >> 10;
        words[k] = words[k - 16] + first + words[k - 7] + second;
    }
    unsigned int start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned int state[8];
    for (int k = 0; k < 8; ++k) state[k] = start[k];
    for (int k = 0; k < 64; ++k) {
        unsigned int a = state[0], e = state[4];
        unsigned int choice = (e & state[5]) ^ (~e & state[6]);
        unsigned int majority = (a & state[1]) ^ (a & state[2]) ^ (state[1] & state[2]);
        unsigned int mixed = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        unsigned int first = state[7] + mixed + choice + round_constants[k] + words[k];
        unsigned int second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + majority;
        for (int s = 7; s > 0; --s) state[s] = state[s - 1];
        state[4] += first;
        state[0] = first + second;
    }
    for (int k = 0; k < 32; ++k) digests[i * 32 + k] = (unsigned char)((start[k / 4] + state[k / 4]) >> (24 - k % 4 * 8));
}
