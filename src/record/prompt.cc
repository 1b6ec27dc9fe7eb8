#include "record/prompt.h"

namespace loopscope {

std::string render(const Prompt& prompt) {
    std::string text;
    for (const Section& section : prompt.sections) {
        if (section.text.empty())
            continue;
        if (!text.empty())
            text += '\n';
        text += "## " + section.name + "\n" + section.text;
        if (text.back() != '\n')
            text += '\n';
    }
    return text;
}

std::vector<Section> parse_sections(std::string_view rendered) {
    std::vector<Section> sections;
    bool fenced = false;  // a "## " line inside a code block is code
    std::size_t at = 0;
    while (at < rendered.size()) {
        std::size_t end = rendered.find('\n', at);
        end = end == std::string_view::npos ? rendered.size() : end + 1;
        const std::string_view line = rendered.substr(at, end - at);
        at = end;
        if (line.starts_with("```"))
            fenced = !fenced;
        if (!fenced && line.starts_with("## ")) {
            std::string_view name = line.substr(3);
            while (!name.empty() &&
                   (name.back() == '\n' || name.back() == '\r' || name.back() == ' '))
                name.remove_suffix(1);
            sections.push_back(Section{std::string(name), "", 0});
            continue;
        }
        if (sections.empty())
            sections.emplace_back();
        sections.back().text += line;
    }
    for (Section& section : sections)
        while (section.text.ends_with('\n'))
            section.text.pop_back();
    return sections;
}

std::string_view section_text(const std::vector<Section>& sections, std::string_view name) {
    for (const Section& section : sections)
        if (section.name == name)
            return section.text;
    return {};
}

}  // namespace loopscope
