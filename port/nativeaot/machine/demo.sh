#!/bin/sh
# Profiles a .NET service on a whole ARM machine and shows the result: `make demo BOARD=qemu-aarch64`.
#
# Installs what is missing, builds the library and the package for linux-arm64 and the host tool, publishes the sample service
# (NativeAOT, on this machine), makes certificates, starts `edgeprof serve` with TLS, which asks clients for a certificate,
# and boots QEMU's machine `virt` with a Cortex-A53, Debian's kernel and an initramfs. job.sh runs the service there under
# load. Prints how the profile agrees with the functions' own clocks, and serves the page until Ctrl-C.
#
#   DEMO_SECONDS=30     load for this time, and end; without it, 30 s of load, and the page stays
set -eu
cd "$(dirname "$0")/../../.."
build=${BUILD:-build/qemu-aarch64}
host=build/host
machine=build/deps/arm64
sysroot=/usr/aarch64-linux-gnu
work=$build/demo
began=$(date +%s)
. port/nativeaot/demo_kit.sh
step() { say "$(($(date +%s) - began)) s: $*"; }

prepare() {
    command -v dotnet >/dev/null || die "there is no .NET SDK on PATH"
    tools/build/setup.sh apt build tools demo cross machine
    tools/build/setup.sh deps
    tools/build/setup.sh arm64
    step "building the library and the package for linux-arm64, and the host tool"
    make_quietly build.log "the build failed" BOARD=qemu-aarch64 na-lib
    make_quietly tool.log "the host tool was not built" BOARD=host BUILD=$host "$host/edgeprof"
    step "publishing the sample service for linux-arm64 (about a minute the first time)"
    make_quietly sample.log "the sample was not built" BOARD=qemu-aarch64 sample
    program=$($make -s --no-print-directory BOARD=qemu-aarch64 print-sample)
    symbols="--symbols $(dirname "$program") --symbols $sysroot/lib --symbols $machine/usr/lib"
}

# An authority of this demo, the server's certificate for the name `gateway` and the device's.
certificates() {
    mkdir -p "$work/tls"
    (
        cd "$work/tls"
        key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
        # shellcheck disable=SC2086 # options
        openssl req -x509 $key -keyout ca.key -out ca.pem -days 30 -subj /CN=demo-authority
        for name in gateway device; do
            # shellcheck disable=SC2086
            openssl req $key -keyout $name.key -out $name.csr -subj /CN=$name
            echo "subjectAltName=DNS:$name" >$name.ext
            openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile $name.ext -out $name.pem
        done
    ) >"$work/tls.log" 2>&1 || die "no certificates: $(tail -n 1 "$work/tls.log")"
}

# serve NAME OPTION...: $port is where it listens
serve() {
    log=$work/$1.log
    : >"$log"
    shift
    "$host/edgeprof" serve --listen 127.0.0.1:0 --db "$work/edgeprof.db" $symbols "$@" >"$log" 2>&1 &
    server=$!
    await "$log" 'https*://127[^ ]*' "$server" "edgeprof serve"
    port=${found##*:}
    port=${port%/}
}

initramfs() {
    printf 'export EDGEPROF_ENDPOINT=https://gateway:%s LOAD_SECONDS=%s\n' "$port" "${seconds:-30}" >"$work/job"
    cat port/nativeaot/machine/job.sh >>"$work/job"
    set --
    for file in "$machine"/modules/*.ko; do set -- "$@" "modules/${file##*/}=$file"; done
    for file in ca.pem device.pem device.key; do set -- "$@" "tls/$file=$work/tls/$file"; done
    python3 tests/arm/qemu/initramfs.py "$work/initrd.gz" --arm64 job="$work/job" bin/SensorGateway="$program" "$@"
}

# Boots, and shows what the machine says of its progress. -icount: the machine's time is the number of executed instructions, 4 ns
# each, so that a busy host makes the demo longer and loses no tick of the machine's clock. What the machine does ends by that clock;
# the limit here, eight times as long, is for a machine that hangs.
boot() {
    : >"$work/service.log"
    qemu-system-aarch64 -M virt -cpu cortex-a53 -icount shift=2 -m 512 -nographic -no-reboot -netdev user,id=net -device virtio-net-device,netdev=net \
        -kernel "$machine/vmlinuz" -initrd "$work/initrd.gz" -append 'console=ttyAMA0 quiet panic=-1' </dev/null >"$work/service.log" 2>&1 &
    service=$!
    shown=0
    for half in $(seq $((16 * (${seconds:-30} + 150)))); do
        sleep 0.5
        [ $((half % 120)) != 0 ] || step "ARM machine: still at work; it is slow where other programs use this machine's processors"
        lines=$(tr -d '\r' <"$work/service.log" | sed -n 's/^@step //p')
        count=$(printf '%s' "$lines" | grep -c '' || true)
        while [ "$shown" -lt "$count" ]; do
            shown=$((shown + 1))
            step "ARM machine: $(printf '%s\n' "$lines" | sed -n "${shown}p")"
        done
        kill -0 "$service" 2>/dev/null || break
    done
    ! kill -0 "$service" 2>/dev/null || die "the machine did not switch itself off, its console is $work/service.log"
    service=
    tr -d '\r' <"$work/service.log" | grep -q '^@verdict ok' || {
        tail -n 30 "$work/service.log" >&2
        die "the service failed on the ARM machine, its console is $work/service.log"
    }
}

rm -rf "$work"
mkdir -p "$work"
prepare
certificates
serve serve --tls-cert "$work/tls/gateway.pem" --tls-key "$work/tls/gateway.key" --tls-client-ca "$work/tls/ca.pem"
step "edgeprof serve listens on port $port, with TLS, for clients with a certificate"
initramfs
step "booting an ARM machine in QEMU: a Cortex-A53, 512 MB, Debian's kernel"
boot
end "$server"
compare "$host/edgeprof" $symbols
step "right"
[ -z "$seconds" ] || exit 0
serve page
say "the page: http://127.0.0.1:$port - open it in a browser; it is there until Ctrl-C"
wait "$server"
