// replay:FILE answers from a recorded journal, under the recorded model's id.
#include "llm/providers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace loopscope {

namespace {

class ReplayModel : public Model {
public:
    ReplayModel(std::string file, std::string id, bool by_position, Sampling sampling,
                const ModelServices& services)
        : file_(std::move(file)),
          id_(std::move(id)),
          by_position_(by_position),
          sampling_(std::move(sampling)),
          services_(services) {}

    awaitable<ModelOutcome> complete(ModelRequest request) override {
        std::string warning;
        std::optional<ModelReply> reply = services_.replay(file_, request, by_position_, &warning);
        if (!reply) {
            ModelError error;
            error.fault = ModelFault::answer;
            error.fatal = true;
            error.message =
                by_position_
                    ? fmt::format(
                          "replay: {} holds no answer for the position {}: the recorded study did "
                          "not "
                          "go that far or took other steps",
                          file_, request.position)
                    : fmt::format(
                          "replay: {} holds no answer for this {} prompt (key {}): the prompt, the "
                          "model's id or the sampling differs from the recorded one; by=position "
                          "answers "
                          "by the place in the study instead",
                          file_, name_of(request.role), request.key.substr(0, 12));
            if (!warning.empty())
                error.message += ". " + warning;
            co_return tl::unexpected(std::move(error));
        }
        reply->cost = 0;  // it was paid for when it was recorded
        reply->latency_seconds = 0;
        if (!warning.empty())
            reply->warnings.push_back(warning);
        co_return std::move(*reply);
    }

    std::string id() const override { return id_; }
    bool builtin() const override { return id_.starts_with("builtin:"); }
    Sampling sampling() const override { return sampling_; }
    std::optional<double> price(std::int64_t, std::int64_t) const override { return 0.0; }

private:
    std::string file_;
    std::string id_;
    bool by_position_;
    Sampling sampling_;
    ModelServices services_;
};

}  // namespace

Result<std::unique_ptr<Model>> open_replay(const Specification& specification,
                                           const ModelServices& services) {
    const std::string where = "model " + specification.text;
    const Result<void> options = check_options(
        specification, {"by", "as", "temperature", "top_p", "max_tokens", "seed", "effort"});
    if (!options)
        return tl::unexpected(options.error());
    const Result<Sampling> sampling = sampling_options(specification, 2);
    if (!sampling)
        return tl::unexpected(sampling.error());
    const std::string* const by = specification.find("by");
    if (by != nullptr && *by != "position" && *by != "key")
        return fail(where, "by=" + *by + " must be key (the default) or position");
    const Result<std::vector<std::string>> file = split_words(specification.subject);
    if (!file)
        return tl::unexpected(file.error());
    if (file->size() != 1)
        return fail(where, "replay: takes one file; put a name with blanks into quotes");
    if (!services.replay)
        return fail(where, "this command reads no recorded journal");
    std::string id;
    if (const std::string* as = specification.find("as"); as != nullptr && !as->empty()) {
        id = *as;
    } else if (services.recorded_models) {
        const Result<std::vector<std::string>> recorded = services.recorded_models(file->front());
        if (!recorded)
            return tl::unexpected(recorded.error());
        if (recorded->empty())
            return fail(where, file->front() + " holds no model's answers");
        if (recorded->size() > 1)
            return fail(where, fmt::format("{} holds answers of {}: say which with as=MODEL_ID",
                                           file->front(), fmt::join(*recorded, ", ")));
        id = recorded->front();
    } else {
        return fail(where, "say whose answers to give with as=MODEL_ID, e.g. as=openai:gpt-4o");
    }
    return std::make_unique<ReplayModel>(file->front(), std::move(id),
                                         by != nullptr && *by == "position", *sampling, services);
}

}  // namespace loopscope
