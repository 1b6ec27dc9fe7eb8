// The kernel part of task.toml: arguments, sizes, reference, tolerance, peers, and whether sources
// agree with them.
#pragma once
#include "evaluate/task.h"
#include "evaluate/task_section.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace loopscope {

bool is_c_family(std::string_view language);

// `arguments_line` receives the line of the first argument, for later messages. Every expression
// has been evaluated at every size; the arrays fit in `memory_mb`.
KernelSpec read_kernel(Reading& reading, const toml::table* table, std::int64_t memory_mb,
                       std::size_t& arguments_line);
std::map<std::string, Peer> read_peers(Reading& reading, const toml::table* table,
                                       const KernelSpec& kernel);

// That the reference defines its entry as the arguments say, with f32 widened to double.
void check_reference(Reading& reading, const KernelSpec& kernel, std::size_t line);
// That the start defines the kernel's entry, once, as the arguments say.
void check_entry(Reading& reading, const Task& task, const KernelSpec& kernel, const Start& start,
                 std::size_t line, std::size_t arguments_line);

}  // namespace loopscope
