# gdb loads this with edgeprof's preload library, whose samples come by one of these signals (port/linux/README.md).
handle SIG49 SIG50 SIG51 SIG52 nostop noprint pass
