# What a server keeps of pushed profiles. PUSHED_SECONDS=60 runs each level against each receiver for a minute.

PUSHED_DIR := $(BUILD)/tests/pushed

$(call test,test-pushed,all,300,alone,A server that keeps one profile a time and no nameless stack keeps everything that is pushed; one profile per family and interval.)
$(call test,test-pushed-minutes,own,1800,alone,The same for a minute at each level and with receivers that answer at once or after 0.5 or 30 seconds.)

test-pushed: $(PRELOAD_LIB)
	@$(PYTHON) tests/pushed/pushed.py $< $(PUSHED_DIR) 16 4000 high 0,0.5

test-pushed-minutes: $(PRELOAD_LIB)
	@$(PYTHON) tests/pushed/pushed.py $< $(PUSHED_DIR) 60 10000 low,medium,high 0,0.5,30
