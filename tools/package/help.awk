# Parses help.sh's output and calls functions of the other awk file, in order:
#
#   on_main(summary)              the first line's, without "edgeprof: "
#   on_listed(name, summary)      an entry of the list of commands
#   on_command(name)              start of a command's text
#   on_usage(line)                "edgeprof serve [options]"
#   on_option(spec, text)         "-n, --rows N" and its description, or another indented entry followed by two blanks
#   on_text(line)                 a line of a paragraph, "" between paragraphs, with its indentation
#   on_end()
#
# Provides: options_of(spec) fills LONG[], SHORT[], META[] and returns their number; values_of(text) fills VALUES[].

function flush_option() {
    if (spec != "") {
        on_option(spec, text)
    }
    spec = text = ""
}

# "  --db FILE           read this": spec and text
function split_option(line,    at) {
    sub(/^  /, "", line)
    at = match(line, /   *[^ ]/)
    spec = at ? substr(line, 1, at - 1) : line
    text = at ? substr(line, at + RLENGTH - 1) : ""
}

function options_of(spec,    parts, n, i, words, count, long) {
    delete LONG; delete SHORT; delete META
    n = split(spec, parts, /, +/)
    for (i = 1; i <= n; i++) {
        split(parts[i], words, / /)
        if (words[1] ~ /^--[a-z]/) {
            long = ++count
            LONG[long] = words[1]
            META[long] = words[2]
            SHORT[long] = pending
            pending = ""
        } else if (words[1] ~ /^-[a-z]$/) {
            pending = words[1]
        }
    }
    return count + 0
}

# Parses "cpu, wall or heap (cpu); more": a leading list of single words. Returns 0 for other texts.
function values_of(text,    head, parts, n, i) {
    delete VALUES
    head = text
    sub(/[(:;].*/, "", head)
    gsub(/ (or|and) /, ", ", head)
    sub(/ +$/, "", head)
    n = split(head, parts, /,+ */)
    for (i = 1; i <= n; i++) {
        if (parts[i] !~ /^[a-z][a-z0-9_-]*$/) {
            return 0
        }
        VALUES[i] = parts[i]
    }
    return n > 1 ? n : 0
}

$1 == "@main" && NF == 1 { state = "main"; next }
$1 == "@command" && NF == 2 { flush_option(); state = "usage"; on_command($2); next }

state == "main" && /^edgeprof: / { sub(/^edgeprof: /, ""); on_main($0); next }
state == "main" && /^  [a-z]/ && $1 != "edgeprof" {
    name = $1
    sub(/^  [^ ]+ +/, "")
    on_listed(name, $0)
    next
}
state == "main" { next }

state == "usage" && /^(usage:|      ) edgeprof / { sub(/^usage:/, ""); sub(/^ */, ""); on_usage($0); next }
state == "usage" && /^      / { sub(/^ */, "    "); on_usage($0); next }
{ state = "body" }
/^      / && spec != "" { sub(/^ +/, ""); text = text (text == "" ? "" : " ") $0; next }
{ flush_option() }
/^  -/ || /^  [^ ].*   *[^ ]/ { split_option($0); next }
{ on_text($0) }
END { flush_option(); on_end() }
