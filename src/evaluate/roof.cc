// The roof: peak rates of one core, measured. What no honest kernel on one core exceeds, so every
// loop takes the fastest form that it can find, and the best of several repeats counts: noise only
// slows.
//
// Arithmetic: twelve independent chains of fused multiply-adds in registers (two units x five
// cycles of latency), for each vector width that the processor has. Memory: reading, and the triad
// a = b + s * c with streaming stores (McCalpin, STREAM), on arrays far beyond the last-level
// cache. Cache: the same within level 1. Written in assembly on x86-64, so that the rates do not
// depend on how this file was compiled.
#include <time.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include "evaluate/affinity.h"
#include "evaluate/machine.h"

namespace loopscope {

namespace {

// Processor time of this thread: what other programs take of the core does not count.
double thread_seconds() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Best rate over `repeats` runs of `body`, which does `amount` of something.
double best_rate(double amount, int repeats, const std::function<void()>& body) {
    double best = 0;
    for (int i = 0; i < repeats; ++i) {
        const double start = thread_seconds();
        body();
        best = std::max(best, amount / (thread_seconds() - start));
    }
    return best;
}

struct FreePages {
    void operator()(void* pages) const { std::free(pages); }
};
using Pages = std::unique_ptr<char, FreePages>;

// Written once, so that every page exists.
Pages make_pages(std::size_t bytes) {
    Pages pages(static_cast<char*>(std::aligned_alloc(4096, bytes)));
    if (!pages)
        throw std::bad_alloc();
    std::memset(pages.get(), 0, bytes);
    return pages;
}

constexpr long arithmetic_rounds = 2'000'000;
constexpr int chains = 12;

#if defined(__x86_64__)

// One multiply-add per chain and round. The registers hold zeros, which no unit computes slower
// than other numbers.
#define LOOPSCOPE_CHAINS(instruction, width)                                                       \
    instruction                                                                                    \
        " %%" width "14, %%" width "15, %%" width "0\n" instruction " %%" width "14, %%" width     \
        "15, %%" width "1\n" instruction " %%" width "14, %%" width "15, %%" width                 \
        "2\n" instruction " %%" width "14, %%" width "15, %%" width "3\n" instruction " %%" width  \
        "14, %%" width "15, %%" width "4\n" instruction " %%" width "14, %%" width "15, %%" width  \
        "5\n" instruction " %%" width "14, %%" width "15, %%" width "6\n" instruction " %%" width  \
        "14, %%" width "15, %%" width "7\n" instruction " %%" width "14, %%" width "15, %%" width  \
        "8\n" instruction " %%" width "14, %%" width "15, %%" width "9\n" instruction " %%" width  \
        "14, %%" width "15, %%" width "10\n" instruction " %%" width "14, %%" width "15, %%" width \
        "11\n"
#define LOOPSCOPE_VECTORS                                                                    \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc", "memory"

void fma_512_f32(long rounds) {
    __asm__ volatile(
        "vzeroall\n1:\n" LOOPSCOPE_CHAINS("vfmadd231ps", "zmm") "dec %0\njnz 1b\nvzeroupper\n"
        : "+r"(rounds)
        :
        : LOOPSCOPE_VECTORS);
}
void fma_512_f64(long rounds) {
    __asm__ volatile(
        "vzeroall\n1:\n" LOOPSCOPE_CHAINS("vfmadd231pd", "zmm") "dec %0\njnz 1b\nvzeroupper\n"
        : "+r"(rounds)
        :
        : LOOPSCOPE_VECTORS);
}
void fma_256_f32(long rounds) {
    __asm__ volatile(
        "vzeroall\n1:\n" LOOPSCOPE_CHAINS("vfmadd231ps", "ymm") "dec %0\njnz 1b\nvzeroupper\n"
        : "+r"(rounds)
        :
        : LOOPSCOPE_VECTORS);
}
void fma_256_f64(long rounds) {
    __asm__ volatile(
        "vzeroall\n1:\n" LOOPSCOPE_CHAINS("vfmadd231pd", "ymm") "dec %0\njnz 1b\nvzeroupper\n"
        : "+r"(rounds)
        :
        : LOOPSCOPE_VECTORS);
}
// Without fused instructions: an add and a multiply side by side.
void add_multiply_128_f32(long rounds) {
    __asm__ volatile(
        "xorps %%xmm14, %%xmm14\nxorps %%xmm15, %%xmm15\n1:\n"
        "mulps %%xmm14, %%xmm0\naddps %%xmm15, %%xmm1\nmulps %%xmm14, %%xmm2\naddps %%xmm15, "
        "%%xmm3\n"
        "mulps %%xmm14, %%xmm4\naddps %%xmm15, %%xmm5\nmulps %%xmm14, %%xmm6\naddps %%xmm15, "
        "%%xmm7\n"
        "mulps %%xmm14, %%xmm8\naddps %%xmm15, %%xmm9\nmulps %%xmm14, %%xmm10\naddps %%xmm15, "
        "%%xmm11\n"
        "dec %0\njnz 1b\n"
        : "+r"(rounds)
        :
        : LOOPSCOPE_VECTORS);
}
void add_multiply_128_f64(long rounds) {
    __asm__ volatile(
        "xorps %%xmm14, %%xmm14\nxorps %%xmm15, %%xmm15\n1:\n"
        "mulpd %%xmm14, %%xmm0\naddpd %%xmm15, %%xmm1\nmulpd %%xmm14, %%xmm2\naddpd %%xmm15, "
        "%%xmm3\n"
        "mulpd %%xmm14, %%xmm4\naddpd %%xmm15, %%xmm5\nmulpd %%xmm14, %%xmm6\naddpd %%xmm15, "
        "%%xmm7\n"
        "mulpd %%xmm14, %%xmm8\naddpd %%xmm15, %%xmm9\nmulpd %%xmm14, %%xmm10\naddpd %%xmm15, "
        "%%xmm11\n"
        "dec %0\njnz 1b\n"
        : "+r"(rounds)
        :
        : LOOPSCOPE_VECTORS);
}

void arithmetic(Roof& roof) {
    const auto measure = [](double lanes, double per_chain, void (*loop)(long)) {
        const double flops = lanes * per_chain * chains * static_cast<double>(arithmetic_rounds);
        return best_rate(flops, 15, [loop] { loop(arithmetic_rounds); });
    };
    roof.flops_per_second_f32 = measure(4, 1, add_multiply_128_f32);
    roof.flops_per_second_f64 = measure(2, 1, add_multiply_128_f64);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        roof.flops_per_second_f32 = std::max(roof.flops_per_second_f32, measure(8, 2, fma_256_f32));
        roof.flops_per_second_f64 = std::max(roof.flops_per_second_f64, measure(4, 2, fma_256_f64));
    }
    if (__builtin_cpu_supports("avx512f")) {
        roof.flops_per_second_f32 =
            std::max(roof.flops_per_second_f32, measure(16, 2, fma_512_f32));
        roof.flops_per_second_f64 = std::max(roof.flops_per_second_f64, measure(8, 2, fma_512_f64));
    }
}

// `bytes` is a multiple of 256. Reads are spread over four cache lines a round.
void read_128(const char* from, std::size_t bytes) {
    const char* end = from + bytes;
    __asm__ volatile(
        "1:\nmovaps (%0), %%xmm0\nmovaps 16(%0), %%xmm1\nmovaps 32(%0), %%xmm2\nmovaps 48(%0), "
        "%%xmm3\n"
        "movaps 64(%0), %%xmm4\nmovaps 80(%0), %%xmm5\nmovaps 96(%0), %%xmm6\nmovaps 112(%0), "
        "%%xmm7\n"
        "add $128, %0\ncmp %1, %0\njb 1b\n"
        : "+r"(from)
        : "r"(end)
        : LOOPSCOPE_VECTORS);
}
void read_256(const char* from, std::size_t bytes) {
    const char* end = from + bytes;
    __asm__ volatile(
        "1:\nvmovaps (%0), %%ymm0\nvmovaps 32(%0), %%ymm1\nvmovaps 64(%0), %%ymm2\nvmovaps 96(%0), "
        "%%ymm3\n"
        "vmovaps 128(%0), %%ymm4\nvmovaps 160(%0), %%ymm5\nvmovaps 192(%0), %%ymm6\nvmovaps "
        "224(%0), %%ymm7\n"
        "add $256, %0\ncmp %1, %0\njb 1b\nvzeroupper\n"
        : "+r"(from)
        : "r"(end)
        : LOOPSCOPE_VECTORS);
}
void read_512(const char* from, std::size_t bytes) {
    const char* end = from + bytes;
    __asm__ volatile(
        "1:\nvmovaps (%0), %%zmm0\nvmovaps 64(%0), %%zmm1\nvmovaps 128(%0), %%zmm2\nvmovaps "
        "192(%0), %%zmm3\n"
        "add $256, %0\ncmp %1, %0\njb 1b\nvzeroupper\n"
        : "+r"(from)
        : "r"(end)
        : LOOPSCOPE_VECTORS);
}
void triad_streaming(char* to, const char* b, const char* c, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += 64)
        __asm__ volatile(
            "movaps (%1), %%xmm0\nmovaps 16(%1), %%xmm1\nmovaps 32(%1), %%xmm2\nmovaps 48(%1), "
            "%%xmm3\n"
            "addps (%2), %%xmm0\naddps 16(%2), %%xmm1\naddps 32(%2), %%xmm2\naddps 48(%2), %%xmm3\n"
            "movntps %%xmm0, (%0)\nmovntps %%xmm1, 16(%0)\nmovntps %%xmm2, 32(%0)\nmovntps %%xmm3, "
            "48(%0)\n"
            :
            : "r"(to + i), "r"(b + i), "r"(c + i)
            : LOOPSCOPE_VECTORS);
    __asm__ volatile("sfence" ::: "memory");
}
// One load and one store a round, in level 1: stores go beside loads on every processor.
void copy_256(char* to, const char* from, std::size_t bytes) {
    const char* end = from + bytes;
    __asm__ volatile(
        "1:\nvmovaps (%0), %%ymm0\nvmovaps 32(%0), %%ymm1\nvmovaps %%ymm0, (%1)\nvmovaps %%ymm1, "
        "32(%1)\n"
        "add $64, %0\nadd $64, %1\ncmp %2, %0\njb 1b\nvzeroupper\n"
        : "+r"(from), "+r"(to)
        : "r"(end)
        : LOOPSCOPE_VECTORS);
}

using Reader = void (*)(const char*, std::size_t);
std::vector<Reader> readers() {
    std::vector<Reader> all{read_128};
    if (__builtin_cpu_supports("avx2"))
        all.push_back(read_256);
    if (__builtin_cpu_supports("avx512f"))
        all.push_back(read_512);
    return all;
}
bool can_copy() { return __builtin_cpu_supports("avx2") != 0; }

#else

typedef float Float4 __attribute__((vector_size(16)));
typedef double Double2 __attribute__((vector_size(16)));

template <class Vector>
void multiply_add(long rounds) {
    Vector x[chains] = {};
    const Vector y{};
    for (long r = 0; r < rounds; ++r)
        for (int i = 0; i < chains; ++i) {
            x[i] = x[i] * y + y;
            __asm__ volatile("" : "+w"(x[i]));
        }
}

void arithmetic(Roof& roof) {
    const double operations = 2.0 * chains * static_cast<double>(arithmetic_rounds);
    roof.flops_per_second_f32 =
        best_rate(4 * operations, 15, [] { multiply_add<Float4>(arithmetic_rounds); });
    roof.flops_per_second_f64 =
        best_rate(2 * operations, 15, [] { multiply_add<Double2>(arithmetic_rounds); });
}

void read_128(const char* from, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += sizeof(Float4)) {
        Float4 value = *reinterpret_cast<const Float4*>(from + i);
        __asm__ volatile("" : "+w"(value));
    }
}
void triad_streaming(char* to, const char* b, const char* c, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += sizeof(Float4))
        *reinterpret_cast<Float4*>(to + i) =
            *reinterpret_cast<const Float4*>(b + i) + *reinterpret_cast<const Float4*>(c + i);
    __asm__ volatile("" ::: "memory");
}
void copy_256(char* to, const char* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    __asm__ volatile("" ::: "memory");
}

using Reader = void (*)(const char*, std::size_t);
std::vector<Reader> readers() { return {read_128}; }
bool can_copy() { return true; }

#endif

Roof measure(const Machine& machine) {
    const Pinned pinned({machine.timing_cpu});
    Roof roof;
    arithmetic(roof);
    // Level 1 is 32 KiB or more on every processor of the last fifteen years.
    constexpr std::size_t near_bytes = 16 << 10;
    constexpr int near_passes = 2000;
    const Pages near_a = make_pages(near_bytes);
    const Pages near_b = make_pages(near_bytes);
    for (const Reader read : readers())
        roof.bytes_per_second_cache = std::max(roof.bytes_per_second_cache,
                                               best_rate(1.0 * near_bytes * near_passes, 10, [&] {
                                                   for (int pass = 0; pass < near_passes; ++pass)
                                                       read(near_a.get(), near_bytes);
                                               }));
    if (can_copy())
        roof.bytes_per_second_cache = std::max(
            roof.bytes_per_second_cache, best_rate(1.0 * near_bytes * near_passes, 10, [&] {
                for (int pass = 0; pass < near_passes; ++pass)
                    copy_256(near_b.get(), near_a.get(), near_bytes / 2);
            }));
    const std::size_t far_bytes = std::clamp<std::size_t>(
        static_cast<std::size_t>(2 * machine.cache_bytes) & ~std::size_t{4095}, 48 << 20,
        256 << 20);
    const Pages a = make_pages(far_bytes);
    const Pages b = make_pages(far_bytes);
    const Pages c = make_pages(far_bytes);
    const auto bytes = static_cast<double>(far_bytes);
    for (const Reader read : readers())
        roof.bytes_per_second_memory =
            std::max(roof.bytes_per_second_memory, best_rate(3 * bytes, 3, [&] {
                         read(a.get(), far_bytes);
                         read(b.get(), far_bytes);
                         read(c.get(), far_bytes);
                     }));
    roof.bytes_per_second_memory = std::max(
        roof.bytes_per_second_memory,
        best_rate(3 * bytes, 3, [&] { triad_streaming(a.get(), b.get(), c.get(), far_bytes); }));
    return roof;
}

}  // namespace

awaitable<Roof> measure_roof(Machine& machine) {
    const Permit lane = co_await machine.timing_lane.acquire();
    auto work = [&machine] { return measure(machine); };
    co_return co_await offload(machine.pool->get_executor(), std::move(work));
}

}  // namespace loopscope
