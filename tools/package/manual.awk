# edgeprof(1) from the help texts: awk -v version=V -v date=YYYY-MM-DD -v rest=FILE -f help.awk -f manual.awk rest:
# additional sections, in man(7)'s macros

function roff(line) {
    gsub(/\\/, "\\e", line)
    gsub(/-/, "\\-", line)
    gsub(/'/, "\\(aq", line)
    gsub(/`/, "\\(ga", line)
    gsub(/~/, "\\(ti", line)
    gsub(/\^/, "\\(ha", line)
    return line ~ /^\./ ? "\\&" line : line
}

# Wraps a paragraph's words at 80 bytes.
function filled(text,    words, n, i, line) {
    n = split(text, words, / +/)
    for (i = 1; i <= n; i++) {
        if (line != "" && length(line) + length(roff(words[i])) > 78) {
            print line
            line = ""
        }
        line = line (line == "" ? "" : " ") roff(words[i])
    }
    print line
}

function on_main(summary) {
    printf ".TH EDGEPROF 1 %s \"edgeprof %s\" \"User Commands\"\n", date, version
    sub(/\.$/, "", summary)
    print ".SH NAME\nedgeprof \\- " roff(summary)
    print ".SH SYNOPSIS\n.B edgeprof\n.I COMMAND\n[options]\n.PP\n.B edgeprof\n.I COMMAND\n.B \\-\\-help\n.PP\n.B edgeprof \\-\\-version"
    print ".SH DESCRIPTION"
}

function on_listed(name, summary) {
    print ".TP\n.B " roff(name) "\n" roff(summary)
}

function paragraph_end() {
    if (literal) {
        print ".fi"
    }
    literal = 0
    fresh = 1
}

function on_command(name) {
    paragraph_end()
    if (!commands++) {
        print ".SH COMMANDS"
    }
    print ".SS " roff(name)
    first = 1
}

function on_usage(line) {
    if (first) {
        print ".nf"
        literal = 1
    }
    first = 0
    print roff(line)
}

function on_option(spec, text) {
    paragraph_end()
    print ".TP\n.B " roff(spec)
    filled(text != "" ? text : spec == "--help" ? "prints this" : "see above")
}

function on_text(line) {
    if (line == "") {
        paragraph_end()
        return
    }
    if (fresh || line ~ /^exit codes:/) {
        print line ~ /^ / ? ".PP\n.nf" : ".PP"
        literal = line ~ /^ /
    }
    fresh = 0
    if (literal) {
        print roff(line)
    } else {
        filled(line)
    }
}

function on_end() {
    paragraph_end()
    while ((getline line <rest) > 0) {
        print line
    }
}
