// A verb per file; main.cc turns the command line into these options. Each returns the exit code.
#pragma once
#include "app/session.h"
#include "loop/intervene.h"
#include "loop/run.h"

#include <optional>
#include <string>
#include <vector>

namespace loopscope {

struct InitOptions {
    std::string file, function, output;  // output: the new folder; "" = the function's name
};
int verb_init(const Common& common, const InitOptions& options);

struct EvalOptions {
    std::string task, file;
    std::vector<std::string> starts;  // names; "all" = every start
    bool fresh = false;
    int repeat = 1;
};
int verb_eval(const Common& common, const EvalOptions& options);

struct FeedbackOptions {
    std::string task, file, start;
    std::vector<std::string> components;
};
int verb_feedback(const Common& common, const FeedbackOptions& options);

struct RunOptions {
    std::string task;
    RunConfig config;
    std::string mode = "raw";
    ModelOptions models;
    bool dry_run = false;
};
int verb_run(const Common& common, const RunOptions& options);

struct FreezeOptions {
    std::string study, select = "all";
    int max_contexts = 0;
};
int verb_freeze(const Common& common, const FreezeOptions& options);

struct InterveneOptions {
    std::string trajectory;  // or a run's id: frozen on the way with the defaults
    std::string task;        // "" = where the run found it
    InterveneConfig config;
    std::string mode = "raw";
    ModelOptions models;
    bool dry_run = false;
};
int verb_intervene(const Common& common, const InterveneOptions& options);

struct AttributeOptions {
    std::string study, values;  // one of both
    std::string target;         // "", "fixed", "random"
    std::string arm_a, arm_b;   // a paired comparison of any two arms, by name or number
    int order = 2;              // of --values
    bool csv = false;
};
int verb_attribute(const Common& common, const AttributeOptions& options);

struct ReportOptions {
    std::string study, output;    // output: "" = STUDY.FORMAT, "-" = stdout
    std::string format = "html";  // html, json, csv, text
};
int verb_report(const Common& common, const ReportOptions& options);

struct JournalOptions {
    bool verify = false, calls = false;
};
int verb_journal(const Common& common, const JournalOptions& options);

struct ModelsOptions {
    std::string check;  // a specification to try with one short call
    std::string price_file;
};
int verb_models(const Common& common, const ModelsOptions& options);

struct TasksOptions {
    std::vector<std::string> folders;
};
int verb_tasks(const Common& common, const TasksOptions& options);

int verb_doctor(const Common& common);

}  // namespace loopscope
