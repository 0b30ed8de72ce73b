# Completion for bash: awk -v body=completion.bash -f help.awk -f completion.awk -f completion-bash.awk
#
# Prints two tables for completion.bash: the words that may follow a command, and the values of options.

function word_row(name,    i, line) {
    line = plain[name] (behind[name] ? " --" : "")
    for (i = 1; i <= count[name]; i++) {
        line = line " " option[name, i] (short_of[name, i] == "" ? "" : " " short_of[name, i])
    }
    sub(/^ /, "", line)
    printf "    [%s]='%s'\n", name, line
}

function value_rows(name,    i) {
    for (i = 1; i <= count[name]; i++) {
        if (value_of[name, i] != "") {
            printf "    ['%s %s']='%s'\n", name, option[name, i], value_of[name, i]
            if (short_of[name, i] != "") {
                printf "    ['%s %s']='%s'\n", name, short_of[name, i], value_of[name, i]
            }
        }
    }
}

function printed(    c) {
    print "# bash completion for edgeprof, made from its help texts\n\ndeclare -gA _edgeprof_words=("
    printf "    [.]='"
    for (c = 1; c <= commands; c++) {
        printf "%s ", names[c]
    }
    print "--help --version'"
    for (c = 1; c <= commands; c++) {
        word_row(names[c])
    }
    print ")\n\ndeclare -gA _edgeprof_values=("
    for (c = 1; c <= commands; c++) {
        value_rows(names[c])
    }
    print ")\n"
    while ((getline line <body) > 0) {
        print line
    }
}
