// The command line: loopscope VERB [SUBJECT] [options].
#include "app/verbs.h"
#include "core/log.h"

#include <CLI/CLI.hpp>

#include <cstdio>

using namespace loopscope;

namespace {

void add_models(CLI::App* verb, ModelOptions& models) {
    verb->add_option("--model", models.model,
                     "who answers: openai:NAME, anthropic:NAME, command:PROGRAM, replay:FILE, "
                     "builtin:rules, "
                     "builtin:synthetic; options after commas, e.g. "
                     "openai:NAME,base=URL,key=VARIABLE (docs/models.md)")
        ->capture_default_str();
    verb->add_option("--planner", models.planner, "the planner, when it is another one");
    verb->add_option("--coder", models.coder, "the coder, when it is another one");
    verb->add_option("--summarizer", models.summarizer, "the summarizer, when it is another one");
    verb->add_option("--max-cost", models.max_cost,
                     "dollars over all roles; the study stops before it passes them")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    verb->add_option("--prices", models.price_file,
                     "a price file of your own, read before the built-in prices");
}

const CLI::IsMember modes({"none", "raw", "summary"});

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{
        "Loopscope runs learning loops - a model improves a kernel from execution feedback - and "
        "measures which "
        "feedback drives the plan.\n",
        "loopscope"};
    app.set_version_flag("--version", "loopscope 0.1.0");
    app.require_subcommand(1);
    app.footer(
        "Exit codes: 0 done, 1 failed, 2 usage, 130 interrupted.\n"
        "Start with `loopscope tasks`, or with `loopscope init FILE --function NAME` for a kernel "
        "of your own.");

    Common common;
    std::vector<CLI::App*> verbs;
    const auto verb = [&](const std::string& name, const std::string& help) {
        CLI::App* one = app.add_subcommand(name, help);
        one->add_option("--journal", common.journal, "the journal's file")
            ->envname("LOOPSCOPE_JOURNAL")
            ->capture_default_str();
        one->add_flag("--json", common.json, "the result on stdout as one JSON document");
        one->add_flag("--quiet", common.quiet, "warnings and errors only");
        one->add_option("--seed", common.seed, "of every choice that is drawn")
            ->capture_default_str();
        verbs.push_back(one);
        return one;
    };

    InitOptions init;
    CLI::App* init_verb = verb("init", "write a task for a kernel of your own from its signature");
    init_verb->add_option("file", init.file, "the C++ source with the kernel")->required();
    init_verb->add_option("--function,-f", init.function, "the function's name")->required();
    init_verb->add_option("--output,-o", init.output,
                          "the new task's folder (default: the function's name)");

    EvalOptions eval;
    CLI::App* eval_verb = verb("eval", "evaluate one candidate: build, verify, time, verdict");
    eval_verb->add_option("task", eval.task, "the task's folder")->required();
    eval_verb->add_option("file", eval.file,
                          "the candidate's source (default: the task's baseline start)");
    eval_verb->add_option("--start", eval.starts,
                          "a declared start instead of a file; repeatable; 'all' = every one");
    eval_verb->add_flag("--fresh", eval.fresh,
                        "build, verify and time again, whatever the journal holds");
    eval_verb
        ->add_option("--repeat", eval.repeat,
                     "evaluate so many times (with --fresh) and count the verdicts")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();

    FeedbackOptions feedback;
    CLI::App* feedback_verb = verb("feedback", "what each component says of a candidate");
    feedback_verb->add_option("task", feedback.task, "the task's folder")->required();
    feedback_verb->add_option("file", feedback.file,
                              "the candidate's source (default: the baseline start)");
    feedback_verb->add_option("--start", feedback.start, "a declared start instead of a file");
    feedback_verb->add_option("--component", feedback.components, "only this one; repeatable")
        ->delimiter(',');

    RunOptions run;
    CLI::App* run_verb =
        verb("run", "a learning loop: select, feedback, plan, propose, evaluate, keep");
    run_verb->add_option("task", run.task, "the task's folder")->required();
    run_verb
        ->add_option("--start", run.config.starts,
                     "names of the starts to begin from (default: the baseline)")
        ->delimiter(',');
    run_verb->add_option("--steps", run.config.steps, "proposals")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    run_verb->add_option("--width", run.config.width, "proposals in flight")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    run_verb
        ->add_option("--population", run.config.population,
                     "the best few that parents are taken from")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    run_verb
        ->add_option("--repair-probability", run.config.repair_probability,
                     "how often a failed candidate is the parent instead")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    run_verb
        ->add_option("--components", run.config.components, "feedback shown (default: the task's)")
        ->delimiter(',');
    run_verb->add_option("--mode", run.mode, "how feedback is shown: none, raw, summary")
        ->check(modes)
        ->capture_default_str();
    run_verb->add_flag("!--no-planning", run.config.planning,
                       "the coder sees the feedback itself, without a plan");
    run_verb->add_flag("--dry-run", run.dry_run, "print what it would do and cost, and stop");
    add_models(run_verb, run.models);

    FreezeOptions freeze_options;
    CLI::App* freeze_verb = verb("freeze", "turn a run into a trajectory of frozen states");
    freeze_verb->add_option("study", freeze_options.study, "the run's id")->required();
    freeze_verb
        ->add_option(
            "--select", freeze_options.select,
            "all: every distinct program; parents: those that had children, and failed ones")
        ->check(CLI::IsMember({"all", "parents"}))
        ->capture_default_str();
    freeze_verb
        ->add_option("--max-contexts", freeze_options.max_contexts,
                     "at most so many, spread over generations")
        ->check(CLI::NonNegativeNumber);

    InterveneOptions intervene_options;
    CLI::App* intervene_verb = verb(
        "intervene", "ask again at every frozen state with every coalition of feedback components");
    intervene_verb
        ->add_option("trajectory", intervene_options.trajectory, "a trajectory's or a run's id")
        ->required();
    intervene_verb->add_option("--task", intervene_options.task,
                               "the task's folder, when it has moved");
    intervene_verb
        ->add_option("--components", intervene_options.config.components,
                     "the players (default: the task's components)")
        ->delimiter(',');
    intervene_verb
        ->add_option("--mode", intervene_options.mode, "how feedback is shown: raw, summary")
        ->check(CLI::IsMember({"raw", "summary"}))
        ->capture_default_str();
    intervene_verb
        ->add_option("--rollouts", intervene_options.config.rollouts,
                     "plans per context and coalition")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    intervene_verb->add_option("--trials", intervene_options.config.trials, "proposals per plan")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    intervene_verb->add_option("--width", intervene_options.config.width, "samples in flight")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    intervene_verb
        ->add_option("--strip", intervene_options.config.strip,
                     "sections of the recorded prompt to leave out, e.g. history,status")
        ->delimiter(',');
    intervene_verb->add_flag("!--no-planning", intervene_options.config.planning,
                             "the coder sees the feedback itself, without a plan");
    intervene_verb->add_flag("--control", intervene_options.config.control,
                             "add an A/A copy of the empty coalition that draws its own answers");
    intervene_verb->add_flag("--dry-run", intervene_options.dry_run,
                             "print what it would do and cost, and stop");
    add_models(intervene_verb, intervene_options.models);

    AttributeOptions attribute_options;
    CLI::App* attribute_verb = verb("attribute", "the worth of each component, with intervals");
    attribute_verb->add_option("study", attribute_options.study, "the intervention's id");
    attribute_verb->add_option(
        "--values", attribute_options.values,
        "a plain table instead: {\"players\": [\"a\", \"b\"], \"values\": [v(00), v(01), v(10), "
        "v(11)]}, player i = bit i");
    attribute_verb
        ->add_option("--order", attribute_options.order,
                     "of --values: coalitions of at most so many players")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    attribute_verb
        ->add_option("--target", attribute_options.target,
                     "random: contexts of this kind; fixed: these contexts (default: random from 5 "
                     "contexts on)")
        ->check(CLI::IsMember({"fixed", "random"}));
    attribute_verb->add_option("--compare", attribute_options.arm_a,
                               "compare this arm (name or number) ...");
    attribute_verb->add_option("--with", attribute_options.arm_b,
                               "... with this one, paired by context");
    attribute_verb->add_flag("--csv", attribute_options.csv, "a line an estimate");

    ReportOptions report;
    CLI::App* report_verb =
        verb("report", "the report of a study: one self-contained HTML file, or json, csv, text");
    report_verb->add_option("study", report.study, "the study's id")->required();
    report_verb->add_option("--format", report.format, "html, json, csv, text")
        ->check(CLI::IsMember({"html", "json", "csv", "text"}))
        ->capture_default_str();
    report_verb->add_flag_callback(
        "--csv", [&report] { report.format = "csv"; }, "the same as --format csv");
    report_verb->add_option("--output,-o", report.output,
                            "the file (default: STUDY.FORMAT; - = stdout)");

    JournalOptions journal;
    CLI::App* journal_verb = verb("journal", "size, cost, studies and cut calls of the journal");
    journal_verb->add_flag("--verify", journal.verify, "check every entry against its hash");
    journal_verb->add_flag("--calls", journal.calls, "list every paid call");

    ModelsOptions models;
    CLI::App* models_verb = verb("models", "what models there are, and what they cost");
    models_verb->add_option("--check", models.check, "try this specification with one short call");
    models_verb->add_option("--prices", models.price_file, "a price file of your own");

    TasksOptions tasks;
    CLI::App* tasks_verb = verb("tasks", "the tasks below some folders");
    tasks_verb->add_option("folders", tasks.folders,
                           "where to look (default: the current folder and those installed)");

    verb("doctor", "what is installed here, and what each missing tool would add");

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        const int code = app.exit(error);
        return code == 0 ? exit_done : exit_usage;
    }
    if (common.quiet)
        set_log_level(LogLevel::warn);
    run.config.seed = common.seed;
    intervene_options.config.seed = common.seed;

    const std::string chosen = app.get_subcommands().front()->get_name();
    if (chosen == "init")
        return verb_init(common, init);
    if (chosen == "eval")
        return verb_eval(common, eval);
    if (chosen == "feedback")
        return verb_feedback(common, feedback);
    if (chosen == "run")
        return verb_run(common, run);
    if (chosen == "freeze")
        return verb_freeze(common, freeze_options);
    if (chosen == "intervene")
        return verb_intervene(common, intervene_options);
    if (chosen == "attribute")
        return verb_attribute(common, attribute_options);
    if (chosen == "report")
        return verb_report(common, report);
    if (chosen == "journal")
        return verb_journal(common, journal);
    if (chosen == "models")
        return verb_models(common, models);
    if (chosen == "tasks")
        return verb_tasks(common, tasks);
    return verb_doctor(common);
}
