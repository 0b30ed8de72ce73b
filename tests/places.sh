#!/bin/sh
# The test command works wherever the clone is: in a folder with a space, and in a folder that only its owner may enter,
# as a user without root. A copy of the tree with its build output builds two changed files again, links and runs tests.
#
#   places.sh BUILD
set -eu
build=$1
folder=$(mktemp -d /tmp/edgeprof-places.XXXXXX)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM

# copy PLACE: the files of the tree and what is built of the library, the tool and the unit tests
copy() {
    mkdir -p "$1"
    { git ls-files 2>/dev/null || find . -path ./.git -prune -o -path ./build -prune -o -path '*/node_modules' -prune -o -type f -print; } |
        tar -c -T - --ignore-failed-read 2>/dev/null | tar -x -C "$1"
    tar -c --exclude build/deps/arm64 --exclude build/deps/armhf --exclude build/deps/kernels build/deps "$build/obj" "$build/gen" \
        "$build/tools" "$build/tests/unit/plain" "$build/tests/tools/edgeprof" "$build"/*.a "$build/edgeprof" | tar -x -C "$1"
    [ ! -d tools/web/node_modules ] || { mkdir "$1/tools/web/node_modules" && cp -a tools/web/node_modules/. "$1/tools/web/node_modules"; }
}

# check PLACE COMMAND...: the commands are run in the place, by COMMAND...
check() {
    place=$1
    shift
    "$@" sh -c '
        set -eu
        cd "$1"
        export HOME="$1"
        touch core/deliver/deliver.c tools/cmd/main.c
        make --no-print-directory lib tools "$2/tests/unit/plain/suites" >log 2>&1 || { tail -n 20 log; exit 1; }
        [ "$(grep -c "^  CC " log)" -le 4 ] || { echo "more is built again than what has changed:"; cat log; exit 1; }
        "$2/tests/unit/plain/suites" -s test_ring -s test_tree >log 2>&1 || { tail -n 20 log; exit 1; }
        make --no-print-directory test-format-example
        /usr/bin/python3 -m pytest -q -p no:cacheprovider --build "$2" tests/host/cli_query_test.py >log 2>&1 || { tail -n 20 log; exit 1; }
    ' sh "$place" "$build"
    echo "places: the test command works in '$place'"
}

copy "$folder/a folder"
check "$folder/a folder"
# What a fresh clone there lacks is fetched. The files that are older than what was built of them come back.
deps="$folder/a folder/build/deps"
mv "$deps/nanopb" "$folder/nanopb"
(cd "$folder/a folder" && tools/build/setup.sh deps) >"$folder/log" 2>&1 && [ -f "$deps/nanopb/pb.h" ] || { tail -n 20 "$folder/log"; exit 1; }
rm -r "$deps/nanopb"
mv "$folder/nanopb" "$deps/nanopb"
chmod 755 "$folder"
if [ "$(id -u)" = 0 ]; then
    mv "$folder/a folder" "$folder/private"
    chown -R nobody "$folder/private"
    chmod 700 "$folder/private"
    check "$folder/private" setpriv --reuid nobody --clear-groups
fi
