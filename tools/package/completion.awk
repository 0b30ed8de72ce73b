# Collects completions from the help texts. completion-bash.awk and completion-zsh.awk define printed() and print them.
#
#   names[1..commands], about[name]           the commands
#   plain[name], n_plain[name]                words that follow a command, "low medium high"
#   behind[name]                              set when another command line may follow `--`
#   count[name], option[name, i]              its options, "--rows"
#   short_of, value_of, text_of[name, i]      "-n" or ""; value: "" none, "file", "folder", "any", or the possible values

# Lower-case words of a usage line.
function on_usage(line,    parts, n, i, choices, c, j) {
    n = split(line, parts, / /)
    for (i = 3; i <= n; i++) {
        if (parts[i] == "--" || parts[i] == "[--]") {
            behind[command] = 1
        }
        gsub(/[()]/, "", parts[i])
        c = split(parts[i], choices, /\|/)
        for (j = 1; j <= c && parts[i] ~ /^[a-z][a-z|-]*$/; j++) {
            if (!seen[command, choices[j]]++) {
                plain[command] = plain[command] (n_plain[command]++ ? " " : "") choices[j]
            }
        }
    }
}

function value_kind(meta, text,    n, i, all) {
    if (meta == "") {
        return ""
    }
    if (meta ~ /^(FILE|PATH)/) {
        return "file"
    }
    if (meta ~ /^(DIR|FOLDER)/) {
        return "folder"
    }
    n = values_of(text)
    for (i = 1; i <= n; i++) {
        all = all (i > 1 ? " " : "") VALUES[i]
    }
    return n ? all : "any " meta
}

function add_option(name, short, kind, text,    i) {
    i = ++count[command]
    option[command, i] = name
    short_of[command, i] = short
    value_of[command, i] = kind
    text_of[command, i] = text
    has[command, name] = 1
}

function on_option(spec, text,    n, i, kind) {
    n = options_of(spec)
    for (i = 1; i <= n; i++) {
        kind = value_kind(META[i], n == 1 ? text : "")
        if (kind ~ / / && kind !~ /^any /) {
            known[META[i]] = kind
        }
        add_option(LONG[i], SHORT[i], kind, text)
    }
}

function on_main(summary) { }
function on_listed(name, summary) { about[name] = summary }
function on_text(line) { }

# Every command accepts --help, even if its help text does not mention it.
function command_end() {
    if (command != "" && !has[command, "--help"]) {
        add_option("--help", "", "", "what the command does and its options")
    }
}

function on_command(name) {
    command_end()
    command = names[++commands] = name
}

# The values of KIND, which only one description lists.
function on_end(    c, i, meta) {
    command_end()
    for (c = 1; c <= commands; c++) {
        for (i = 1; i <= count[names[c]]; i++) {
            meta = value_of[names[c], i]
            if (sub(/^any /, "", meta)) {
                value_of[names[c], i] = meta in known ? known[meta] : "any"
            }
        }
    }
    printed()
}
