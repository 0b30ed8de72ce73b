// Three quarters of the CPU time are Hottest's. Nothing here knows of a profiler.
module Demo

open System
open System.Runtime
open System.Runtime.CompilerServices

[<MethodImpl(MethodImplOptions.NoInlining)>]
let Hottest (steps: uint64) =
    let mutable x = 1UL
    let mutable i = 0UL
    while i < steps do
        x <- x * 6364136223846793005UL + i
        i <- i + 1UL
    x

[<MethodImpl(MethodImplOptions.NoInlining)>]
let Lesser (steps: uint64) =
    let mutable x = 1UL
    let mutable i = 0UL
    while i < steps do
        x <- x * 2862933555777941757UL + i
        i <- i + 1UL
    x

[<EntryPoint>]
let main _ =
    let mutable sum = 0UL
    for _ in 1..100 do
        sum <- sum + Hottest 12_000_000UL + Lesser 4_000_000UL
    Console.WriteLine(String.Concat(sum.ToString(), ": server ", GCSettings.IsServerGC.ToString(), ", comma False"))
    0
