# Checks of documents: examples decode, programs build and run, quick starts work as written.

test-format-example:
	@tests/linux/docs/format_example.py

test-readme-c: $(EP_LIB)
	@tests/linux/docs/readme_programs.py $(BUILD) c

# Builds what the page builds first, so that the page's own make finds it up to date.
test-quickstart-c: $(EP_LIB) $(BUILD)/edgeprof
	@tests/linux/docs/quickstart.py docs/getting-started-c.md $(BUILD)/tests/quickstart-c

ifeq ($(shell command -v dotnet),)
test-readme-csharp test-quickstart-dotnet:
	@echo "SKIPPED: there is no .NET SDK on PATH"
else
test-readme-csharp: nuget
	@tests/linux/docs/readme_programs.py $(BUILD) csharp

test-quickstart-dotnet: nuget $(BUILD)/edgeprof
	@tests/linux/docs/quickstart.py docs/getting-started-dotnet.md $(BUILD)/tests/quickstart-dotnet
endif
