# Documents that are checked: examples decode, programs build and run.
.PHONY: test-format-example test-readme-c test-readme-csharp
TESTS += test-format-example test-readme-c test-readme-csharp

test-format-example:
	@tests/docs/format_example.py

test-readme-c: $(EP_LIB)
	@tests/docs/readme_programs.py $(BUILD) c

ifeq ($(shell command -v dotnet),)
test-readme-csharp:
	@echo "$@: skipped, there is no .NET SDK"
else
test-readme-csharp: nuget
	@tests/docs/readme_programs.py $(BUILD) csharp
endif
