# The host command line tool, $(BUILD)/edgeprof. It always runs on the build machine, for every BOARD.

ET_DIR      := $(BUILD)/tools
# The rooms, from the bottom; $(CHECKS)/rooms.txt has their dependencies.
ET_ROOMS    := lib profile formats symbols store web serve/http serve/ingest serve/query serve/query/pyroscope serve/scrape \
               serve/relay serve cmd
ET_SRC      := $(wildcard $(ET_ROOMS:%=tools/%/*.c))
ET_HEADERS  := $(wildcard $(ET_ROOMS:%=tools/%/*.h))
ET_OBJ      := $(ET_SRC:tools/%.c=$(ET_DIR)/%.o)
ET_GEN      := $(addprefix $(ET_DIR)/gen/,compact.pb-c.c otlp.pb-c.c pprof.pb-c.c push.pb-c.c \
               querier.pb-c.c)
ET_GEN_OBJ  := $(ET_GEN:.c=.o)
ET_PACKAGES := libmicrohttpd gnutls nettle jansson sqlite3 libpcre2-8 libdw libelf libdebuginfod zlib libzstd liblzma libprotobuf-c libcurl
ET_CPPFLAGS  = -D_GNU_SOURCE -DEP_VERSION_TEXT='"$(EP_VERSION)"' -I. -isystem $(ET_DIR)/gen \
               $(shell pkg-config --cflags $(ET_PACKAGES) 2>/dev/null)
ET_CFLAGS    = -std=c11 -O2 -g -fno-omit-frame-pointer $(WARNINGS) $(ET_HARDEN)
ET_LDLIBS    = $(shell pkg-config --libs $(ET_PACKAGES) 2>/dev/null) -l:libiberty.a -lm -lpthread
ET_WEB      := $(wildcard tools/web/*.html tools/web/*.css tools/web/*.js tools/web/*.svg)
ET_NPM      := tools/web/node_modules/.package-lock.json

.PHONY: tools
all: tools
tools: $(BUILD)/edgeprof  ## $(BUILD)/edgeprof, the host command line

$(BUILD)/edgeprof: $(ET_OBJ) $(ET_GEN_OBJ)
	@echo "  LD $@"; $(ET_CC) $(ET_LDFLAGS) -o $@ $^ $(ET_LDLIBS)

$(ET_OBJ): $(ET_DIR)/%.o: tools/%.c tools/tools.mk tools/build/harden.mk Makefile $(ET_GEN)
	@mkdir -p $(@D)
	@echo "  CC $<"; $(ET_CC) $(ET_CPPFLAGS) $(ET_CFLAGS) -MMD -MP -c $< -o $@

# The assembler resolves .incbin relative to tools/web; make needs the files as prerequisites.
$(ET_DIR)/web/assets.o: private ET_CFLAGS += -Wa,-Itools/web -Wa,-I$(ET_DIR)/gen
$(ET_DIR)/web/assets.o: $(ET_WEB) $(ET_DIR)/gen/viewer-alone.js $(ET_DIR)/gen/page.js

# What the special frames mean: the tables of docs/frames.md, as rows of names, meaning and remedy.
$(ET_DIR)/gen/frames.js: docs/frames.md tools/tools.mk
	@mkdir -p $(@D)
	{ echo 'export const FRAMES = ['; \
	  sed -n -e 's/\[\([^]`]*\)\]([^)]*)/\1/g' -e 's/[\\"]/\\&/g' \
	      -e 's/^| \(`\[[^|]*`\) | \([^|]*\) | \([^|]*\) |$$/["\1", "\2", "\3"],/p' -e 's/^| \(`\[[^|]*`\) | \([^|]*\) |$$/["\1", "\2", ""],/p' $<; \
	  echo '];'; } >$@
	@test $$(wc -l <$@) -gt 20 || { echo "$@: the tables of docs/frames.md were not found" >&2; exit 1; }

# Modules are concatenated, those that others import first: a request for each costs the page more than its code, and a
# self-contained file cannot import. Each import or export must be a single line, and no name may stand in two modules.
ET_PAGE := $(addprefix tools/web/,selector.js address.js api.js query.js first.js dom.js format.js figures.js table.js crashes.js \
           devices.js colors.js flame_layout.js flame_canvas.js flame_svg.js) $(ET_DIR)/gen/frames.js $(addprefix tools/web/,meaning.js \
           flame_menu.js flame_search.js flame_tree.js menu.js flame_input.js flame.js diff.js ticks.js wheel.js lanes.js incidents.js \
           marks.js keyboard.js leaks.js unnamed.js functions.js sandwich.js viewer.js profile.js spark.js labels.js selection.js \
           heat.js spans.js start.js brush.js timeline.js verdict.js app.js)
$(ET_DIR)/gen/page.js: $(ET_PAGE) tools/tools.mk
	@mkdir -p $(@D)
	sed -e '/^import .* from .*;$$/d' $(ET_PAGE) >$@
	@! grep -n '^import' $@ || { echo "$@: an import of more than one line" >&2; exit 1; }
ET_ALONE := $(ET_DIR)/gen/frames.js $(addprefix tools/web/,dom.js format.js colors.js menu.js meaning.js flame_layout.js flame_tree.js \
            flame_search.js flame_canvas.js flame_svg.js flame_menu.js flame_input.js flame.js table.js functions.js \
            sandwich.js viewer.js alone.js)
$(ET_DIR)/gen/viewer-alone.js: $(ET_ALONE) tools/tools.mk
	@mkdir -p $(@D)
	sed -e '/^import .* from .*;$$/d' -e 's/^export //' $(ET_ALONE) >$@
	@! grep -nE '^(import|export)' $@ || { echo "$@: an import or export of more than one line" >&2; exit 1; }

$(ET_GEN_OBJ): $(ET_DIR)/gen/%.o: $(ET_DIR)/gen/%.c tools/build/harden.mk
	@echo "  CC $<"; $(ET_CC) -std=gnu11 -O2 -g $(ET_HARDEN) -c $< -o $@

# protobuf-c does not allow a field named `base`; field names do not affect the encoding.
$(ET_DIR)/gen/compact.pb-c.c: core/proto/compact.proto tools/tools.mk
	@mkdir -p $(@D)
	sed 's/uint32 base = 1;/uint32 start = 1;/' $< >$(@D)/compact.proto
	protoc-c -I $(@D) --c_out=$(@D) $(@D)/compact.proto

$(ET_DIR)/gen/%.pb-c.c: core/proto/%.proto
	@mkdir -p $(@D)
	protoc-c -I $(<D) --c_out=$(@D) $<

$(ET_DIR)/gen/%.pb-c.c: tools/proto/%.proto
	@mkdir -p $(@D)
	protoc-c -I $(<D) -I core/proto --c_out=$(@D) $<

$(ET_NPM): tools/web/package-lock.json
	tools/build/setup.sh npm

-include $(ET_OBJ:.o=.d)

# ---- tests: everything again, with sanitizers ----

ET_TEST      := $(BUILD)/tests/tools
ET_ASAN      := -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
ET_ASAN_OBJ  := $(ET_SRC:tools/%.c=$(ET_TEST)/%.o) $(ET_GEN:$(ET_DIR)/gen/%.c=$(ET_TEST)/gen/%.o)
ET_UNIT_SRC  := $(wildcard tests/unit/tools/*/test_*.c)
ET_UNIT      := $(notdir $(basename $(ET_UNIT_SRC)))
ET_SUPPORT   := $(patsubst tests/unit/tools/%.c,$(ET_TEST)/unit/%.o,$(wildcard tests/unit/tools/support/*.c))
ET_SAMPLE    := $(ET_TEST)/sample
ET_RUN_ENV   := ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
# $(1): files in tests/host, and pytest options
host_test     = $(ET_RUN_ENV) $(PYTHON) -m pytest --build=$(BUILD) $(addprefix tests/host/,$(filter %_test.py,$(1))) $(filter-out %_test.py,$(1))

$(ET_TEST)/%.o: tools/%.c tools/tools.mk $(ET_HEADERS) $(ET_GEN)
	@mkdir -p $(@D)
	@echo "  CC $< (ASan)"; $(ET_CC) $(ET_CPPFLAGS) -std=c11 $(WARNINGS) $(ET_ASAN) -c $< -o $@
$(ET_TEST)/web/assets.o: private ET_ASAN += -Wa,-Itools/web -Wa,-I$(ET_DIR)/gen
$(ET_TEST)/web/assets.o: $(ET_WEB) $(ET_DIR)/gen/viewer-alone.js $(ET_DIR)/gen/page.js
$(ET_TEST)/gen/%.o: $(ET_DIR)/gen/%.c
	@mkdir -p $(@D)
	@echo "  CC $< (ASan)"; $(ET_CC) -std=gnu11 $(ET_ASAN) -c $< -o $@
$(ET_TEST)/edgeprof: $(ET_ASAN_OBJ)
	@echo "  LD $@"; $(ET_CC) $(ET_ASAN) -o $@ $^ $(ET_LDLIBS)
$(ET_TEST)/unit/%.o: private ET_CPPFLAGS += -Itests/unit/tools/support
$(ET_TEST)/unit/%.o: tests/unit/tools/%.c tools/tools.mk $(ET_HEADERS) $(wildcard tests/unit/tools/support/*.h) $(ET_GEN)
	@mkdir -p $(@D)
	@echo "  CC $< (ASan)"; $(ET_CC) $(ET_CPPFLAGS) -std=c11 $(WARNINGS) $(ET_ASAN) $(ET_MAIN) -c $< -o $@
# One program of all test files (tests/unit/suites.c).
$(ET_UNIT_SRC:tests/unit/tools/%.c=$(ET_TEST)/unit/%.o): private ET_MAIN = -Dmain=suite_$(*F) -Wno-missing-prototypes
$(ET_TEST)/suites: tests/unit/suites.c $(ET_UNIT_SRC:tests/unit/tools/%.c=$(ET_TEST)/unit/%.o) $(ET_SUPPORT) $(filter-out $(ET_TEST)/cmd/main.o,$(ET_ASAN_OBJ))
	@echo "  LD $@"; $(ET_CC) -std=c11 -D_GNU_SOURCE $(WARNINGS) $(ET_ASAN) -D'SUITES=$(foreach s,$(ET_UNIT),SUITE($(s)))' -o $@ $^ $(ET_LDLIBS) -lcmocka

# A program with known functions and lines: as built, stripped, and its debug file.
$(ET_SAMPLE): tests/unit/tools/symbols/sample.c tools/tools.mk
	@mkdir -p $(@D)/debug
	$(ET_CC) -g -O2 -ffile-prefix-map="$(CURDIR)"=. -Wl,--build-id=sha1,--export-dynamic -o $@ $<
	objcopy --only-keep-debug $@ $(@D)/debug/sample.dbg
	objcopy --strip-all $@ $(@D)/sample-stripped
	mkdir -p $(@D)/linked/.debug && cp $(@D)/debug/sample.dbg $(@D)/linked/.debug/names.debug
	cd $(@D)/linked/.debug && objcopy --add-gnu-debuglink=names.debug ../../sample-stripped ../sample-linked

test-tools-unit: $(ET_TEST)/suites $(ET_SAMPLE)
	@$(ET_RUN_ENV) $< $(ET_TEST) tests/unit/tools/symbols

# ---- once more, with TSan ----

ET_TSAN_DIR  := $(BUILD)/tests/tools-tsan
ET_TSAN      := -O1 -g1 -fsanitize=thread -fno-omit-frame-pointer
ET_TSAN_OBJ  := $(ET_SRC:tools/%.c=$(ET_TSAN_DIR)/%.o) $(ET_GEN:$(ET_DIR)/gen/%.c=$(ET_TSAN_DIR)/gen/%.o)
$(ET_TSAN_DIR)/%.o: tools/%.c tools/tools.mk $(ET_HEADERS) $(ET_GEN)
	@mkdir -p $(@D)
	@echo "  CC $< (TSan)"; $(ET_CC) $(ET_CPPFLAGS) -std=c11 $(WARNINGS) $(ET_TSAN) -c $< -o $@
$(ET_TSAN_DIR)/web/assets.o: private ET_TSAN += -Wa,-Itools/web -Wa,-I$(ET_DIR)/gen
$(ET_TSAN_DIR)/web/assets.o: $(ET_WEB) $(ET_DIR)/gen/viewer-alone.js $(ET_DIR)/gen/page.js
$(ET_TSAN_DIR)/gen/%.o: $(ET_DIR)/gen/%.c
	@mkdir -p $(@D)
	@echo "  CC $< (TSan)"; $(ET_CC) -std=gnu11 $(ET_TSAN) -c $< -o $@
$(ET_TSAN_DIR)/edgeprof: $(ET_TSAN_OBJ)
	@echo "  LD $@"; $(ET_CC) $(ET_TSAN) -o $@ $^ $(ET_LDLIBS)
