# Checks of documents: examples decode, programs build and run, quick starts work as written.
$(call test,test-format-example,quick,60,shared,The example in FORMAT.md decodes to what the page says.)
$(call test,test-readme-c,quick,120,shared,The C programs in the documents compile and run.)
$(call test,test-readme-csharp,all,600,shared,The C# programs in the documents build from the NuGet packages and run.)
$(call test,test-quickstart-c,quick,120,shared,A first-time user who types the C quick start exactly as written succeeds.)
$(call test,test-quickstart-dotnet,all,900,shared,A first-time user who types the .NET quick start exactly as written succeeds.)

test-format-example:
	@tests/docs/format_example.py

test-readme-c: $(EP_LIB)
	@tests/docs/readme_programs.py $(BUILD) c

# Builds what the page builds first, so that the page's own make finds it up to date.
test-quickstart-c: $(EP_LIB) $(BUILD)/edgeprof
	@tests/docs/quickstart.py docs/getting-started-c.md $(BUILD)/tests/quickstart-c

ifeq ($(shell command -v dotnet),)
test-readme-csharp test-quickstart-dotnet:
	@echo "SKIPPED: there is no .NET SDK on PATH"
else
test-readme-csharp: nuget
	@tests/docs/readme_programs.py $(BUILD) csharp

test-quickstart-dotnet: nuget $(BUILD)/edgeprof
	@tests/docs/quickstart.py docs/getting-started-dotnet.md $(BUILD)/tests/quickstart-dotnet
endif
