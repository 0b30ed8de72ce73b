/* The commands of edgeprof. Each receives its own name in argv[0] and returns an exit code. */
#ifndef ET_COMMANDS_H
#define ET_COMMANDS_H

int et_cmd_serve(int argc, char **argv);
int et_cmd_top(int argc, char **argv);
int et_cmd_flame(int argc, char **argv);
int et_cmd_cat(int argc, char **argv);
int et_cmd_crashes(int argc, char **argv);
int et_cmd_incidents(int argc, char **argv);
int et_cmd_incident(int argc, char **argv);

/* Triggers an incident in the service with that control endpoint; at: NULL: EDGEPROF_CONTROL. Returns an exit code. */
int et_control_incident(const char *at, const char *name);
int et_cmd_export(int argc, char **argv);
int et_cmd_symbols(int argc, char **argv);
int et_cmd_symbolize(int argc, char **argv);
int et_cmd_backup(int argc, char **argv);
int et_cmd_watch(int argc, char **argv);
int et_cmd_query(int argc, char **argv); /* and devices */
int et_cmd_diff(int argc, char **argv);
int et_cmd_leaks(int argc, char **argv);
int et_cmd_verdict(int argc, char **argv);
int et_cmd_run(int argc, char **argv);
int et_cmd_control(int argc, char **argv); /* status, level, kinds, threads, tasks */

/* ---- common parts ---- */

struct et_options;

/* Returns ET_USAGE and reports an error when arguments follow the options. */
int et_no_more_arguments(int argc, char **argv, const struct et_options *options);

#endif
