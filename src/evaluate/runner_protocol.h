// What loopscope and loopscope-runner say to each other. Plain structs over a sequenced-packet
// socket; the runner links nothing of the program and the program believes nothing that the runner
// says once foreign code is loaded: a "done" only makes it stop its clock and look.
#pragma once
#include <cstdint>

namespace loopscope::wire {

// Descriptors of a served program.
constexpr int control_descriptor = 3;
constexpr int input_descriptor = 4;   // a sealed memory file, mapped read-only
constexpr int output_descriptor = 5;  // written by the program
// Descriptors of `exec`.
constexpr int unpack_descriptor = 3;  // an archive to unpack into /work
constexpr int pack_descriptor = 4;    // where ExecResult and the collected files go

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t guard = 65536;  // inaccessible, around every array: only address space
constexpr std::uint32_t max_message = 128 * 1024;

enum class Op : std::uint32_t {
    // to the runner
    load = 1,  // load glue and object
    map,       // MapRequest, regions, arguments: replaces the previous mapping
    go,        // GoRequest, slot numbers
    // from the runner
    hello = 101,  // first message; its credentials carry the process's id
    listener,     // carries the descriptor on which forbidden system calls are announced
    no_listener,  // the kernel gives none: a forbidden call kills the process by SIGSYS
    loaded,
    load_failed,  // followed by the text
    mapped,       // followed by a base address for each region
    map_failed,   // followed by the text
    done,         // DoneReply
    fault         // FaultReply: an illegal access, sent just before the process dies of it
};

struct MapRequest {
    Op op = Op::map;
    std::uint32_t regions = 0, slots = 0, arguments = 0;
};
// Mapped contiguously, with `guard` inaccessible bytes before the first and after every region.
struct Region {
    std::uint32_t output = 0;  // 0: of the input file, read-only; 1: of the output file
    std::uint32_t reserved = 0;
    std::uint64_t offset = 0, length = 0;  // multiples of `page`
};
// One argument of one slot; slots x arguments of them follow the regions.
struct ArgumentPlace {
    std::uint32_t array = 0;   // 0: scalar, `value` holds its bytes; 1: array
    std::uint32_t region = 0;  // of an array
    std::uint64_t value = 0;   // scalar bytes, or offset in the region
};
struct GoRequest {
    Op op = Op::go;
    std::uint32_t calls = 0;  // followed by that many slot numbers (u32)
};
struct DoneReply {
    Op op = Op::done;
    std::uint32_t floating_point_before = 0, floating_point_after = 0;  // control word of the FPU
};
struct FaultReply {
    Op op = Op::fault;
    std::uint32_t signal = 0;
    std::uint64_t address = 0, stack_pointer = 0;
};

// `exec`: first in the packed answer, written by the runner after the program has ended.
struct ExecResult {
    static constexpr std::uint32_t expected_magic = 0x4C535258;
    std::uint32_t magic = 0;
    std::int32_t signal = 0;  // 0: it exited
    std::int32_t code = 0;
    std::uint32_t files = 0;
    double cpu_seconds = 0;
    std::int64_t peak_kilobytes = 0;
};
// Archives: this, the path's bytes, the contents.
struct PackedFile {
    std::uint32_t path_length = 0;
    std::uint32_t executable = 0;
    std::uint64_t length = 0;
};

}  // namespace loopscope::wire
