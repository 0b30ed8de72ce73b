# Tests of the command line, one file per topic. They run the program with sanitizers.

ET_CLI_TESTS := test-tools-export test-tools-remote test-tools-symbols test-tools-debuginfod test-tools-debuginfod-limits test-tools-diff test-tools-watch test-tools-query test-tools-verdict test-tools-leaks
$(call test,test-tools-export,quick,300,shared,Every export format and flame graph of one query holds the same profile.)
$(call test,test-tools-remote,quick,300,shared,Commands that ask a server handle tokens, https and every failure on the way in one clear line.)
$(call test,test-tools-symbols,quick,300,shared,Symbol files in a folder or at a server give the right function names.)
$(call test,test-tools-debuginfod,quick,300,shared,Symbols come from any debuginfod server, and a hostile one does no harm.)
$(call test,test-tools-debuginfod-limits,quick,300,shared,No debuginfod server gets past the limits of size and time, and a slow one holds up one request alone.)
$(call test,test-tools-diff,quick,300,shared,diff tells a regression from noise, and its exit status says which.)
$(call test,test-tools-verdict,quick,300,shared,verdict finds what a new version uses more on a fleet and takes devices instead of samples as the unit.)
$(call test,test-tools-leaks,quick,300,shared,leaks finds what of the live heap grows over simulated days by its place and nothing else.)
$(call test,test-tools-watch,quick,300,shared,watch restores the terminal on every way out and writes plain lines into a pipe.)
$(call test,test-tools-query,quick,300,shared,query and devices answer the same from a database and from a server.)

test-tools-export: $(ET_TEST)/edgeprof $(ET_SAMPLE)
	@$(call host_test,cli_export_test.py)

test-tools-remote: $(ET_TEST)/edgeprof
	@$(call host_test,cli_remote_test.py)

test-tools-symbols: $(ET_TEST)/edgeprof $(ET_SAMPLE)
	@$(call host_test,cli_symbols_test.py)

test-tools-debuginfod: $(ET_TEST)/edgeprof $(ET_SAMPLE)
	@$(call host_test,cli_debuginfod_test.py)

test-tools-debuginfod-limits: $(ET_TEST)/edgeprof $(ET_SAMPLE)
	@$(call host_test,debuginfod_limits_test.py)

test-tools-diff: $(ET_TEST)/edgeprof $(ET_SAMPLE)
	@$(call host_test,cli_diff_test.py)

test-tools-verdict: $(ET_TEST)/edgeprof
	@$(call host_test,verdict_test.py)

test-tools-leaks: $(ET_TEST)/edgeprof
	@$(call host_test,leaks_test.py)

test-tools-watch: $(ET_TEST)/edgeprof
	@$(call host_test,cli_watch_test.py)

test-tools-query: $(ET_TEST)/edgeprof
	@$(call host_test,cli_query_test.py)
