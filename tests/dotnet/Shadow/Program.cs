// Single-steps C# work and asks the unwinder at every instruction (tests/arm/shadow/shadow.h).
//
//   Shadow [core|fp [PLACES]]      PLACES: file for the list of wrong places, for tests/arm/shadow/report.py
//
// Each piece of work runs twice: first with everything that happens once (static constructors, caches, lazily bound
// calls), bounded, then warm. Prints the figures on standard output.
using System.Runtime.InteropServices;

namespace Shadow;

internal static unsafe partial class Program
{
    private const ulong FirstLimit = 40_000, WarmLimit = 60_000;
    private const double LeastManagedSteps = 300_000;

    [LibraryImport("shadow", EntryPoint = "shadow_start", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Start(string walker);

    [LibraryImport("shadow", EntryPoint = "shadow_run")]
    private static partial void Run(delegate* unmanaged<nint, void> function, nint argument, ulong limit);

    [LibraryImport("shadow", EntryPoint = "shadow_report_to", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Report(string? places, double leastManagedSteps);

    private static int Main(string[] args)
    {
        var error = Start(args.Length > 0 ? args[0] : "core");
        if (error != 0)
        {
            Console.Error.WriteLine($"Shadow: the walker does not start: {Marshal.GetPInvokeErrorMessage(-error)} (core or fp)");
            return 2;
        }
        foreach (var limit in (ReadOnlySpan<ulong>)[FirstLimit, WarmLimit])
            for (var i = 0; i < Work.All.Length; i++)
                Run(&Step, i, limit);
        var result = Report(args.Length > 1 ? args[1] : null, LeastManagedSteps);
        if (Work.Failures.Count == 0)
            return result;
        Console.Error.WriteLine($"Shadow: computed something wrong while stepped: {string.Join(", ", Work.Failures)}");
        return 1;
    }

    [UnmanagedCallersOnly]
    private static void Step(nint index) => Work.Do((int)index);
}
