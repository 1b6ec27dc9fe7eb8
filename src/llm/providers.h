// One opener for each kind of model that is not built in; open_model() chooses.
#pragma once
#include "core/result.h"
#include "llm/model.h"
#include "llm/specification.h"

#include <memory>

namespace loopscope {

// openai: and anthropic:.
Result<std::unique_ptr<Model>> open_server(const Specification& specification,
                                           const ModelServices& services);
Result<std::unique_ptr<Model>> open_command(const Specification& specification,
                                            const ModelServices& services);
Result<std::unique_ptr<Model>> open_replay(const Specification& specification,
                                           const ModelServices& services);

}  // namespace loopscope
