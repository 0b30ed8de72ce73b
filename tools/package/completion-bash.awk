# Completion for bash from `edgeprof --describe`: awk -v body=completion.bash -f completion-bash.awk
#
# Prints two tables for completion.bash: the words that may follow a command, and the values of options.
# tools/cmd/help.h describes the input's lines.

BEGIN { FS = "\t" }

$1 == "command" {
    command = $2
    names = names $2 " "
    words[command] = $4 == "file" ? "" : $4
    if ($5) {
        words[command] = words[command] " --"
    }
    order[++commands] = command
}

$1 == "option" {
    words[command] = words[command] " " $2 ($3 == "" ? "" : " " $3)
    if ($4 != "") {
        values = values sprintf("    ['%s %s']='%s'\n", command, $2, $5)
        if ($3 != "") {
            values = values sprintf("    ['%s %s']='%s'\n", command, $3, $5)
        }
    }
}

END {
    print "# bash completion for edgeprof, made from its table of options\n\ndeclare -gA _edgeprof_words=("
    printf "    [.]='%s--help --version'\n", names
    for (c = 1; c <= commands; c++) {
        line = words[order[c]]
        sub(/^ /, "", line)
        printf "    [%s]='%s'\n", order[c], line
    }
    printf ")\n\ndeclare -gA _edgeprof_values=(\n%s)\n\n", values
    while ((getline line <body) > 0) {
        print line
    }
}
