#include "llm/model.h"

#include "llm/providers.h"
#include "llm/rules.h"
#include "llm/specification.h"
#include "llm/synthetic.h"

namespace loopscope {

std::string_view name_of(ModelFault fault) {
    switch (fault) {
        case ModelFault::key:
            return "key";
        case ModelFault::model_name:
            return "model_name";
        case ModelFault::network:
            return "network";
        case ModelFault::quota:
            return "quota";
        case ModelFault::length:
            return "length";
        case ModelFault::content:
            return "content";
        case ModelFault::parameter:
            return "parameter";
        case ModelFault::server:
            return "server";
        case ModelFault::answer:
            return "answer";
        case ModelFault::cancelled:
            return "cancelled";
    }
    return "";
}

Result<std::unique_ptr<Model>> open_model(std::string_view specification,
                                          const ModelServices& services) {
    const Result<Specification> parsed = parse_specification(specification);
    if (!parsed)
        return tl::unexpected(parsed.error());
    const std::string& provider = parsed->provider;
    if (provider == "openai" || provider == "anthropic")
        return open_server(*parsed, services);
    if (provider == "command")
        return open_command(*parsed, services);
    if (provider == "replay")
        return open_replay(*parsed, services);
    if (parsed->subject == "rules") {
        if (const Result<void> options = check_options(*parsed, {}); !options)
            return tl::unexpected(options.error());
        return open_rules();
    }
    if (parsed->subject == "synthetic") {
        if (const Result<void> options = check_options(*parsed, {"file"}); !options)
            return tl::unexpected(options.error());
        const std::string* const file = parsed->find("file");
        return open_synthetic(file == nullptr ? std::string_view{} : std::string_view(*file));
    }
    return fail("model " + parsed->text,
                "no such built-in model: there are builtin:rules and builtin:synthetic");
}

}  // namespace loopscope
