# Completion for zsh from `edgeprof --describe`: awk -f completion-zsh.awk. tools/cmd/help.h describes the input's lines.

BEGIN { FS = "\t" }

# Escapes for '...' and for the specification of _arguments.
function quoted(text) {
    gsub(/\\/, "\\\\", text)
    gsub(/'/, "'\\''", text)
    gsub(/\[/, "\\[", text)
    gsub(/\]/, "\\]", text)
    gsub(/:/, "\\:", text)
    return text
}

function action(kind) {
    if (kind == "") {
        return ""
    }
    if (kind == "file") {
        return ":file:_files"
    }
    if (kind == "folder") {
        return ":folder:_files -/"
    }
    return kind == "any" ? ":value: " : ":value:(" kind ")"
}

# The words after the options.
function last(words, command_line) {
    if (command_line) {
        return "*::command:_normal"
    }
    return words == "file" ? "*:file:_files" : words == "" ? "" : "*:word:(" words ")"
}

function specification(long, short, argument, kind, text,    spec, many) {
    many = text ~ /repeatable/ ? "*" : ""
    sub(/\. .*/, ".", text)
    spec = "[" quoted(text) "]" action(kind) "'"
    long = long (argument == "" ? "" : "=")
    if (short == "") {
        return "'" many long spec
    }
    return (many ? "'*'" : "'(" short " " $2 ")'") "{" short "," long "}'" spec
}

function command_end() {
    if (command != "") {
        cases = cases (tail == "" ? "" : " \\\n            '" tail "'") "\n        ;;\n"
    }
}

$1 == "command" {
    command_end()
    command = $2
    about = about sprintf("        '%s:%s'\n", $2, quoted($3))
    cases = cases sprintf("    %s)\n        _arguments -S", $2)
    tail = last($4, $5)
}

$1 == "option" { cases = cases " \\\n            " specification($2, $3, $4, $5, $6) }

END {
    command_end()
    printf "#compdef edgeprof\n# zsh completion for edgeprof, made from its table of options\n\n_edgeprof() {\n    local -a commands=(\n%s    )\n", about
    print "    if ((CURRENT == 2)); then\n        _describe command commands\n        _arguments '--help[lists the commands]' '--version'"
    print "        return\n    fi\n    shift words\n    ((CURRENT--))\n    case $words[1] in"
    printf "%s    esac\n}\n\n_edgeprof \"$@\"\n", cases
}
