#!/usr/bin/python3
"""The worked example of core/FORMAT.md: each hex block decodes, by protoc, to the text block of the same number."""
import re
import subprocess
import sys

page = open("core/FORMAT.md", encoding="utf-8").read()
dumps = re.findall(r"```hex\n(.*?)```", page, re.S)
texts = re.findall(r"```text\n(.*?)```", page, re.S)
if len(dumps) != 2 or len(texts) != len(dumps):
    sys.exit(f"format_example: {len(dumps)} hex and {len(texts)} text blocks in core/FORMAT.md, expected 2 of each")
for number, (dump, text) in enumerate(zip(dumps, texts)):
    rows = [re.match(r"\s*((?:[0-9a-f]{2} ?)+)(?:\s{2,}|$)", row) for row in dump.strip("\n").split("\n")]
    body = b"".join(bytes.fromhex(row.group(1)) for row in rows)
    decoded = subprocess.run(
        ["protoc", "--decode=edgeprof.v1.Message", "-I", "core/proto", "compact.proto"],
        input=body, capture_output=True, check=True).stdout.decode()
    if decoded != text:
        sys.exit(f"format_example: block {number} decodes to\n{decoded}\ninstead of\n{text}")
print(f"format_example: {len(dumps)} blocks of core/FORMAT.md decode to what the page says")
