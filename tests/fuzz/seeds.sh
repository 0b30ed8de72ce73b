#!/bin/sh
# Makes inputs of real code and tables: seed.c, compiled for each architecture in several ways, through seed.py.
#
#   seeds.sh FOLDER    FOLDER/<arch>/* are the inputs
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$1

# seeds NAME ARCH COMPILER FLAG...
seeds() {
    object=$folder/object/$2/$1.so compiler=$3 arch=$2
    shift 3
    mkdir -p "$(dirname "$object")"
    "$compiler" "$@" -shared -nostdlib -fPIC -Wl,-z,noseparate-code -Wl,--build-id=none "$here/seed.c" -o "$object"
    /usr/bin/python3 "$here/seed.py" "$object" "$folder/$arch"
}

seeds o2 aarch64 aarch64-linux-gnu-gcc -O2
seeds o0 aarch64 aarch64-linux-gnu-gcc -O0
seeds bare aarch64 aarch64-linux-gnu-gcc -O2 -fomit-frame-pointer
seeds signed aarch64 aarch64-linux-gnu-gcc -Os -mbranch-protection=pac-ret
seeds o2 arm arm-linux-gnueabihf-gcc -funwind-tables -O2 -mthumb
seeds o0 arm arm-linux-gnueabihf-gcc -funwind-tables -O0 -mthumb
seeds extab arm arm-linux-gnueabihf-gcc -fexceptions -Os -mthumb
seeds arm arm arm-linux-gnueabihf-gcc -funwind-tables -O2 -marm
seeds fp arm arm-linux-gnueabihf-gcc -funwind-tables -O2 -marm -fno-omit-frame-pointer
if [ "$(uname -m)" = x86_64 ]; then
    seeds o2 x86_64 gcc -O2
    seeds o0 x86_64 gcc -O0
else
    mkdir -p "$folder/x86_64"
fi
