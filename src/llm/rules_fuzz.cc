// builtin:rules reads sources that a model may have shaped, in the engine's own process: whatever
// they hold, it answers. Input: a source; one that defines f() is planned and rewritten in every
// role, with and without feedback.
#include "core/check.h"
#include "llm/model.h"
#include "llm/rules.h"
#include "llm/rules_facts.h"
#include "llm/rules_plan.h"
#include "record/prompt.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

using namespace loopscope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    for (const rules::Action& a : rules::repairs(text, {"f"}))
        (void)rules::apply(text, a, false);
    for (const rules::Action& a : rules::transformations(text, {"f"}, false))
        CHECK(rules::read_sentence(rules::sentence(a), text, {"f"}));
    Prompt prompt;
    prompt.sections.push_back({"interface", "Editable: function f in f.cc.\n", 0});
    prompt.sections.push_back(
        {"status", size % 2 == 0 ? "compile (wrong_output)" : "pass (not_faster)", 0});
    prompt.sections.push_back({"program", "```cpp file=f.cc\n" + text + "\n```\n", 0});
    prompt.sections.push_back({"feedback: debugger", text, 0});
    prompt.sections.push_back({"feedback: analyzer", text, 0});
    prompt.sections.push_back({"feedback: profiler", text, 0});
    for (const Role role : {Role::planner, Role::coder, Role::summarizer}) {
        ModelRequest request;
        request.role = role;
        request.messages.push_back({"user", render(prompt)});
        CHECK(!rules_answer(request).empty());
    }
    return 0;
}
