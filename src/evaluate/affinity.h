// Cores and priority of the calling thread, for a scope: threads of a pool are shared, so both are
// given back.
#pragma once
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

namespace loopscope {

class Pinned {
public:
    explicit Pinned(const std::vector<int>& cpus) {
        CPU_ZERO(&before_);
        known_ = ::pthread_getaffinity_np(::pthread_self(), sizeof before_, &before_) == 0;
        cpu_set_t wanted;
        CPU_ZERO(&wanted);
        for (const int cpu : cpus)
            if (cpu >= 0)
                CPU_SET(cpu, &wanted);
        pinned_ = known_ && CPU_COUNT(&wanted) > 0 &&
                  ::pthread_setaffinity_np(::pthread_self(), sizeof wanted, &wanted) == 0;
    }
    ~Pinned() {
        if (pinned_)
            ::pthread_setaffinity_np(::pthread_self(), sizeof before_, &before_);
    }
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
    bool pinned() const { return pinned_; }

private:
    cpu_set_t before_{};
    bool known_ = false, pinned_ = false;
};

// Puts the calling thread before other work of this machine for a scope, where that is allowed (as
// root).
class Urgent {
public:
    explicit Urgent(int nice) : thread_(static_cast<id_t>(::syscall(SYS_gettid))) {
        before_ = ::getpriority(PRIO_PROCESS, thread_);
        changed_ = ::setpriority(PRIO_PROCESS, thread_, nice) == 0;
    }
    ~Urgent() {
        if (changed_)
            ::setpriority(PRIO_PROCESS, thread_, before_);
    }
    Urgent(const Urgent&) = delete;
    Urgent& operator=(const Urgent&) = delete;

private:
    id_t thread_;
    int before_ = 0;
    bool changed_ = false;
};

}  // namespace loopscope
