# edgeprof(1) from `edgeprof --describe`: awk -v version=V -v date=YYYY-MM-DD -v rest=FILE -f manual.awk
# rest: additional sections, in man(7)'s macros. tools/cmd/help.h describes the input's lines.

BEGIN { FS = "\t" }

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

# Prints .nf and .fi around lines that stay as they are.
function literal_lines(on) {
    if (on != literal) {
        print on ? ".nf" : ".fi"
    }
    literal = on
}

function text_line(line) {
    if (line == "") {
        literal_lines(0)
        fresh = 1
        return
    }
    if (fresh) {
        print ".PP"
    }
    fresh = 0
    literal_lines(line ~ /^ /)
    if (literal) {
        print roff(line)
    } else {
        filled(line)
    }
}

$1 == "summary" {
    printf ".TH EDGEPROF 1 %s \"edgeprof %s\" \"User Commands\"\n", date, version
    print ".SH NAME\nedgeprof \\- " roff($2)
    print ".SH SYNOPSIS\n.B edgeprof\n.I COMMAND\n[options]\n.PP\n.B edgeprof\n.I COMMAND\n.B \\-\\-help\n.PP\n.B edgeprof \\-\\-version"
    print ".SH COMMANDS"
}

$1 == "command" {
    literal_lines(0)
    command = $2
    print ".SS " roff(command)
    filled($3)
    print ".PP"
}

$1 == "usage" {
    literal_lines(1)
    print roff("edgeprof " command " " $2)
    fresh = 1
}

$1 == "about" || $1 == "end" {
    if (last != $1) {
        literal_lines(0)
        fresh = 1
    }
    text_line($2)
}

$1 == "heading" {
    literal_lines(0)
    print ".PP\n" roff($2)
}

$1 == "option" {
    literal_lines(0)
    print ".TP\n.B " roff(($3 == "" ? "" : $3 ", ") $2 ($4 == "" ? "" : " " $4))
    filled($6)
}

{ last = $1 }

END {
    literal_lines(0)
    while ((getline line <rest) > 0) {
        print line
    }
}
