# Completion for zsh: awk -f help.awk -f completion.awk -f completion-zsh.awk

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
function last(name) {
    if (behind[name]) {
        return "*::command:_normal"
    }
    return n_plain[name] ? "*:word:(" plain[name] ")" : "*:file:_files"
}

function specification(name, i,    spec, text, many, long) {
    text = text_of[name, i]
    long = option[name, i] (value_of[name, i] == "" ? "" : "=")
    many = text ~ /several/ ? "*" : ""
    sub(/;.*/, "", text)
    spec = "[" quoted(text) "]" action(value_of[name, i]) "'"
    if (short_of[name, i] == "") {
        return "'" many long spec
    }
    return "'(" short_of[name, i] " " option[name, i] ")'{" short_of[name, i] "," long "}'" spec
}

function printed(    c, i, name) {
    print "#compdef edgeprof\n# zsh completion for edgeprof, made from its help texts\n\n_edgeprof() {\n    local -a commands=("
    for (c = 1; c <= commands; c++) {
        printf "        '%s:%s'\n", names[c], quoted(about[names[c]])
    }
    print "    )\n    if ((CURRENT == 2)); then\n        _describe command commands\n        _arguments '--help[lists the commands]' '--version'"
    print "        return\n    fi\n    shift words\n    ((CURRENT--))\n    case $words[1] in"
    for (c = 1; c <= commands; c++) {
        name = names[c]
        printf "    %s)\n        _arguments -S", name
        for (i = 1; i <= count[name]; i++) {
            printf " \\\n            %s", specification(name, i)
        }
        printf " \\\n            '%s'\n        ;;\n", last(name)
    }
    print "    esac\n}\n\n_edgeprof \"$@\""
}
