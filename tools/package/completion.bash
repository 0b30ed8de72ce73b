# _edgeprof_given COMMAND: true after `--`, where another command line begins
_edgeprof_behind() {
    local i
    for ((i = 2; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} != -- ]] || return 0
    done
    return 1
}

_edgeprof() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} kind
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "${_edgeprof_words[.]}" -- "$current")
        return
    fi
    if _edgeprof_behind; then
        [[ $previous != -- ]] || mapfile -t COMPREPLY < <(compgen -c -- "$current")
        return
    fi
    if [[ $current == = ]]; then # --option=, as readline splits it
        current=
    elif [[ $previous == = ]]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    kind=${_edgeprof_values["$command $previous"]-}
    case $kind in
    file) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    folder) mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    any) ;;
    '') mapfile -t COMPREPLY < <(compgen -W "${_edgeprof_words[$command]-}" -- "$current") ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$kind" -- "$current") ;;
    esac
}

complete -o filenames -o bashdefault -o default -F _edgeprof edgeprof
