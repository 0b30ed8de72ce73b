# Threads that the library learns of only by looking: C++'s, which libstdc++.so creates.

FOREIGN_DIR := $(BUILD)/tests/linux/foreign
CXX         := $(BOARD_CROSS)g++

$(FOREIGN_DIR)/threads: tests/linux/foreign/threads.cpp $(EP_LIB)
	@mkdir -p $(@D)
	@echo "  CXX $@"; $(CXX) -I. -Icore -O2 -g -Wall -Wextra $(BOARD_CFLAGS) $^ $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

.PHONY: test-foreign-threads
test-foreign-threads: $(FOREIGN_DIR)/threads
	@$(BOARD_EXEC) $< 1.5 "$(abspath $<)".profile || $(BOARD_EXEC) $< 5 "$(abspath $<)".profile
