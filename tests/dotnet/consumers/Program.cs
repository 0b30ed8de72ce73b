// Three quarters of the CPU time are Hottest's. Nothing here knows of a profiler.
using System.Globalization;
using System.Runtime;
using System.Runtime.CompilerServices;

var comma = false;
try
{
    comma = 1.5.ToString(new CultureInfo("de-DE")) == "1,5";
}
catch (CultureNotFoundException)
{
    // InvariantGlobalization
}
Console.WriteLine($"{Work.Run()}: server {GCSettings.IsServerGC}, comma {comma}");

internal static class Work
{
    public static ulong Run()
    {
        ulong sum = 0;
        for (var round = 0; round < 100; round++)
            sum += Hottest(12_000_000) + Lesser(4_000_000);
        return sum;
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
