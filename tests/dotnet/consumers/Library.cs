// A shared library for host.c. Three quarters of its CPU time are Hottest's.
using System.Runtime;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using EdgeProf;

public static class Library
{
    [UnmanagedCallersOnly(EntryPoint = "demo_start")]
    public static int Start() => Profiler.StartFromEnvironment() ? 0 : 1;

    [UnmanagedCallersOnly(EntryPoint = "demo_stop")]
    public static int Stop() => Profiler.Stop(TimeSpan.FromSeconds(10)) ? 0 : 1;

    [UnmanagedCallersOnly(EntryPoint = "demo_work")]
    public static void Run()
    {
        ulong sum = 0;
        for (var round = 0; round < 100; round++)
        {
            sum += Hottest(12_000_000) + Lesser(4_000_000);
            GC.Collect();
        }
        Console.WriteLine($"{sum}: server {GCSettings.IsServerGC}, comma False");
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ulong Hottest(ulong steps)
    {
        ulong x = 1;
        for (ulong i = 0; i < steps; i++)
            x = x * 6364136223846793005UL + i;
        return x;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ulong Lesser(ulong steps)
    {
        ulong x = 1;
        for (ulong i = 0; i < steps; i++)
            x = x * 2862933555777941757UL + i;
        return x;
    }
}
