#include "loop/engine.h"

namespace loopscope {

bool Budget::reserve(double worst_case) {
    if (spent_ + reserved_ + worst_case > max_cost_)
        return false;
    reserved_ += worst_case;
    return true;
}

void Budget::settle(double worst_case, std::optional<double> actual) {
    reserved_ -= worst_case;
    if (actual)
        spent_ += *actual;
    else
        ++unknown_;
}

}  // namespace loopscope
