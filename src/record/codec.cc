// Each type lists its fields once; a writer and a reader walk the same list.
#include "record/codec.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace loopscope {

namespace {

using nlohmann::json;

template <class V>
void fields(V& v, Program& x) {
    v("files", x.files);
}
template <class V>
void fields(V& v, Finding& x) {
    v("kind", x.kind), v("text", x.text);
}
template <class V>
void fields(V& v, Ratio& x) {
    v("estimate", x.estimate), v("low", x.low), v("high", x.high), v("launches", x.launches);
    v("confidence", x.confidence);
}
template <class V>
void fields(V& v, VerifiedCase& x) {
    v("sizes", x.sizes), v("inputs", x.inputs), v("ok", x.ok), v("worst", x.worst),
        v("detail", x.detail);
}
template <class V>
void fields(V& v, VerifyOutcome& x) {
    v("ok", x.ok), v("reason", x.reason), v("cases", x.cases), v("message", x.message),
        v("seed", x.seed);
    v("seconds", x.seconds);
}
template <class V>
void fields(V& v, SizeTiming& x) {
    v("sizes", x.sizes), v("candidate_seconds", x.candidate_seconds),
        v("baseline_seconds", x.baseline_seconds);
    v("parent_seconds", x.parent_seconds), v("speedup", x.speedup), v("gain", x.gain);
    v("flops_per_second", x.flops_per_second), v("bytes_per_second", x.bytes_per_second);
}
template <class V>
void fields(V& v, TimeOutcome& x) {
    v("ok", x.ok), v("reason", x.reason), v("message", x.message), v("session", x.session),
        v("sizes", x.sizes);
    v("speedup", x.speedup), v("gain", x.gain), v("noise_floor", x.noise_floor),
        v("pinned_cpu", x.pinned_cpu);
    v("launches", x.launches), v("pairs", x.pairs), v("serialised", x.serialised),
        v("findings", x.findings);
    v("seconds", x.seconds);
}
template <class V>
void fields(V& v, Evaluation& x) {
    v("status", x.status), v("reason", x.reason), v("device", x.device), v("trust", x.trust),
        v("speedup", x.speedup);
    v("gain", x.gain), v("improves", x.improves), v("tolerance", x.tolerance),
        v("sessions", x.sessions);
    v("cases", x.cases), v("findings", x.findings), v("message", x.message),
        v("build_log", x.build_log);
    v("metrics", x.metrics);
}
template <class V>
void fields(V& v, Feedback& x) {
    v("component", x.component), v("applicable", x.applicable), v("text", x.text),
        v("fields", x.fields);
    v("missing", x.missing), v("seconds", x.seconds);
}
template <class V>
void fields(V& v, Section& x) {
    v("name", x.name), v("text", x.text), v("cut_bytes", x.cut_bytes);
}
template <class V>
void fields(V& v, Prompt& x) {
    v("role", x.role), v("system", x.system), v("sections", x.sections);
}
template <class V>
void fields(V& v, Usage& x) {
    v("input_tokens", x.input_tokens), v("cached_tokens", x.cached_tokens),
        v("output_tokens", x.output_tokens);
    v("reasoning_tokens", x.reasoning_tokens), v("known", x.known);
}
template <class V>
void fields(V& v, ModelReply& x) {
    v("text", x.text), v("reasoning", x.reasoning), v("finish_reason", x.finish_reason),
        v("usage", x.usage);
    v("cost", x.cost), v("reported_model", x.reported_model), v("attempts", x.attempts);
    v("latency_seconds", x.latency_seconds), v("warnings", x.warnings);
}
template <class V>
void fields(V& v, Candidate& x) {
    v("id", x.id), v("generation", x.generation), v("parent", x.parent), v("program", x.program);
    v("evaluation", x.evaluation), v("prompt", x.prompt), v("plan", x.plan), v("answer", x.answer);
    v("edit_error", x.edit_error), v("repeats", x.repeats), v("components", x.components);
}
template <class V>
void fields(V& v, Context& x) {
    v("id", x.id), v("generation", x.generation), v("candidate", x.candidate),
        v("lineage", x.lineage);
    v("program", x.program), v("evaluation", x.evaluation), v("prompt", x.prompt),
        v("start", x.start);
}
template <class V>
void fields(V& v, Trajectory& x) {
    v("id", x.id), v("task", x.task), v("source", x.source), v("contexts", x.contexts);
    v("model_notes", x.model_notes);
}
template <class V>
void fields(V& v, Arm& x) {
    v("name", x.name), v("coalition", x.coalition), v("mode", x.mode), v("planning", x.planning);
    v("planner", x.planner), v("coder", x.coder), v("control", x.control);
}
template <class V>
void fields(V& v, Trial& x) {
    v("context", x.context), v("generation", x.generation), v("lineage", x.lineage);
    v("parent_status", x.parent_status), v("arm", x.arm), v("rollout", x.rollout),
        v("trial", x.trial);
    v("prompt_hash", x.prompt_hash), v("status", x.status), v("reason", x.reason),
        v("missing", x.missing);
    v("log_speedup", x.log_speedup), v("gain", x.gain), v("cost", x.cost), v("entry", x.entry);
}

std::string base64(const std::string& bytes) {
    std::string text(4 * ((bytes.size() + 2) / 3), '\0');
    EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                    reinterpret_cast<const unsigned char*>(bytes.data()),
                    static_cast<int>(bytes.size()));
    return text;
}

std::string from_base64(const std::string& text) {
    std::string bytes(text.size() / 4 * 3 + 3, '\0');
    const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()));
    if (size < 0)
        throw std::runtime_error("not base64");
    std::size_t padding = 0;
    while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=')
        ++padding;
    bytes.resize(static_cast<std::size_t>(size) - padding);
    return bytes;
}

// An object's bytes are not text: they travel as base64.
struct Bytes {
    std::string& bytes;
};
template <class V>
void fields(V& v, BuildOutcome& x) {
    Bytes object{x.object};
    v("ok", x.ok), v("reason", x.reason), v("log", x.log), v("object", object),
        v("compiler", x.compiler);
    v("seconds", x.seconds);
}

template <class T>
struct is_vector : std::false_type {};
template <class T>
struct is_vector<std::vector<T>> : std::true_type {};
template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};
template <class T>
struct is_map : std::false_type {};
template <class T>
struct is_map<std::map<std::string, T>> : std::true_type {};

struct Writer {
    json document = json::object();
    template <class T>
    void operator()(const char* name, T& value) {
        document[name] = put(value);
    }

    template <class T>
    static json put(T& value) {
        if constexpr (std::is_same_v<T, Bytes>) {
            return base64(value.bytes);
        } else if constexpr (std::is_enum_v<T>) {
            return name_of(value);
        } else if constexpr (std::is_same_v<T, double>) {  // JSON has no infinities
            if (std::isfinite(value))
                return value;
            return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
        } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
            return value;
        } else if constexpr (is_optional<T>::value) {
            return value ? put(*value) : json(nullptr);
        } else if constexpr (is_vector<T>::value) {
            json list = json::array();
            for (auto& element : value)
                list.push_back(put(element));
            return list;
        } else if constexpr (is_map<T>::value) {
            json object = json::object();
            for (auto& [key, element] : value)
                object[key] = put(element);
            return object;
        } else {
            Writer inner;
            fields(inner, value);
            return std::move(inner.document);
        }
    }
};

// What a stored document lacks; caught in decode(), where it becomes an Error with the path to the
// field.
struct Malformed {
    std::string path, what;
};

template <class Enum>
Enum enumerator(const std::string& name) {
    std::optional<Enum> value;
    if constexpr (std::is_same_v<Enum, Status>)
        value = status_named(name);
    else if constexpr (std::is_same_v<Enum, Reason>)
        value = reason_named(name);
    else if constexpr (std::is_same_v<Enum, Mode>)
        value = mode_named(name);
    else
        value = role_named(name);
    if (!value)
        throw Malformed{"", fmt::format("'{}' is not one of its names", name)};
    return *value;
}

struct Reader {
    const json& document;
    template <class T>
    void operator()(const char* name, T& value) {
        const auto found = document.find(name);
        if (found == document.end())
            throw Malformed{name, "is missing"};
        try {
            take(*found, value);
        } catch (Malformed& inner) {
            throw Malformed{inner.path.empty() ? name : fmt::format("{}.{}", name, inner.path),
                            inner.what};
        } catch (const json::exception&) {
            throw Malformed{name, fmt::format("has the wrong type ({})", found->type_name())};
        }
    }

    template <class T>
    static void take(const json& from, T& value) {
        if constexpr (std::is_same_v<T, Bytes>) {
            try {
                value.bytes = from_base64(from.get<std::string>());
            } catch (const std::runtime_error& error) {
                throw Malformed{"", error.what()};
            }
        } else if constexpr (std::is_enum_v<T>) {
            value = enumerator<T>(from.get<std::string>());
        } else if constexpr (std::is_same_v<T, double>) {
            if (!from.is_string()) {
                value = from.get<double>();
                return;
            }
            const std::string text = from.get<std::string>();
            if (text != "nan" && text != "inf" && text != "-inf")
                throw Malformed{"", fmt::format("'{}' is not a number", text)};
            value = text == "nan"   ? std::numeric_limits<double>::quiet_NaN()
                    : text == "inf" ? std::numeric_limits<double>::infinity()
                                    : -std::numeric_limits<double>::infinity();
        } else if constexpr (std::is_same_v<T, bool>) {
            value = from.get<bool>();
        } else if constexpr (std::is_arithmetic_v<T>) {
            if (!from.is_number_integer())
                throw Malformed{"", fmt::format("is a {}, not an integer", from.type_name())};
            value = from.get<T>();
        } else if constexpr (std::is_same_v<T, std::string>) {
            value = from.get<std::string>();
        } else if constexpr (is_optional<T>::value) {
            if (from.is_null()) {
                value.reset();
                return;
            }
            take(from, value.emplace());
        } else if constexpr (is_vector<T>::value) {
            if (!from.is_array())
                throw Malformed{"", fmt::format("is a {}, not a list", from.type_name())};
            value.clear();
            for (const json& element : from)
                take(element, value.emplace_back());
        } else if constexpr (is_map<T>::value) {
            if (!from.is_object())
                throw Malformed{"", fmt::format("is a {}, not an object", from.type_name())};
            value.clear();
            for (const auto& [key, element] : from.items())
                take(element, value[key]);
        } else {
            if (!from.is_object())
                throw Malformed{"", fmt::format("is a {}, not an object", from.type_name())};
            Reader inner{from};
            fields(inner, value);
        }
    }
};

// Foreign bytes (a compiler's quotation of a candidate) need not be UTF-8: they are replaced, never
// refused.
template <class T>
std::string written(const T& value) {
    return Writer::put(const_cast<T&>(value)).dump(-1, ' ', false, json::error_handler_t::replace);
}

template <class T>
Result<T> read(std::string_view text, const char* type) {
    const json document = json::parse(text, nullptr, false);
    if (document.is_discarded())
        return fail(type, "is not JSON");
    T value;
    try {
        Reader::take(document, value);
    } catch (const Malformed& fault) {
        return fail(fault.path.empty() ? type : fmt::format("{}.{}", type, fault.path), fault.what);
    } catch (const json::exception& fault) {
        return fail(type, fault.what());
    }
    return value;
}

}  // namespace

std::string encode(const Program& value) { return written(value); }
std::string encode(const Evaluation& value) { return written(value); }
std::string encode(const BuildOutcome& value) { return written(value); }
std::string encode(const VerifyOutcome& value) { return written(value); }
std::string encode(const TimeOutcome& value) { return written(value); }
std::string encode(const Feedback& value) { return written(value); }
std::string encode(const Prompt& value) { return written(value); }
std::string encode(const ModelReply& value) { return written(value); }
std::string encode(const Candidate& value) { return written(value); }
std::string encode(const Context& value) { return written(value); }
std::string encode(const Trajectory& value) { return written(value); }
std::string encode(const Arm& value) { return written(value); }
std::string encode(const Trial& value) { return written(value); }

template <>
Result<Program> decode<Program>(std::string_view json) {
    return read<Program>(json, "program");
}
template <>
Result<Evaluation> decode<Evaluation>(std::string_view json) {
    return read<Evaluation>(json, "evaluation");
}
template <>
Result<BuildOutcome> decode<BuildOutcome>(std::string_view json) {
    return read<BuildOutcome>(json, "build");
}
template <>
Result<VerifyOutcome> decode<VerifyOutcome>(std::string_view json) {
    return read<VerifyOutcome>(json, "verify");
}
template <>
Result<TimeOutcome> decode<TimeOutcome>(std::string_view json) {
    return read<TimeOutcome>(json, "time");
}
template <>
Result<Feedback> decode<Feedback>(std::string_view json) {
    return read<Feedback>(json, "feedback");
}
template <>
Result<Prompt> decode<Prompt>(std::string_view json) {
    return read<Prompt>(json, "prompt");
}
template <>
Result<ModelReply> decode<ModelReply>(std::string_view json) {
    return read<ModelReply>(json, "reply");
}
template <>
Result<Candidate> decode<Candidate>(std::string_view json) {
    return read<Candidate>(json, "candidate");
}
template <>
Result<Context> decode<Context>(std::string_view json) {
    return read<Context>(json, "context");
}
template <>
Result<Trajectory> decode<Trajectory>(std::string_view json) {
    return read<Trajectory>(json, "trajectory");
}
template <>
Result<Arm> decode<Arm>(std::string_view json) {
    return read<Arm>(json, "arm");
}
template <>
Result<Trial> decode<Trial>(std::string_view json) {
    return read<Trial>(json, "trial");
}

}  // namespace loopscope
