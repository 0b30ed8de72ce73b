# What a server keeps of pushed profiles. PUSHED_SECONDS=60 runs each level against each receiver for a minute.

PUSHED_DIR := $(BUILD)/tests/linux/pushed

test-pushed: $(PRELOAD_LIB)
	@$(PYTHON) tests/linux/pushed/pushed.py $< $(PUSHED_DIR) 10 2500 high 0,0.5

test-pushed-minutes: $(PRELOAD_LIB)
	@$(PYTHON) tests/linux/pushed/pushed.py $< $(PUSHED_DIR) 60 10000 low,medium,high 0,0.5,30
