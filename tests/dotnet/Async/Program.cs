using System.Globalization;
using EdgeProf;

namespace Async;

/// <summary>Async parents of captures and of profiles, against what waits in truth.
/// Async CAPTURES [LEAST]: each is compared, and of each scene that share must be right. Async profile FILE: a profile of chains that are complete. Async tasks: methods that wait.</summary>
internal static class Program
{
    private static volatile bool stop;

    /// <summary>Objects move all the time.</summary>
    private static void Collect()
    {
        var kept = new object?[256];
        for (var i = 0; !stop; i++)
        {
            kept[i % kept.Length] = new byte[i * 131 % 3000];
            Truth.Still.EnterWriteLock();
            GC.Collect(i % 8 == 0 ? 2 : i % 2, GCCollectionMode.Forced, true, i % 3 == 0);
            Truth.Still.ExitWriteLock();
            Thread.SpinWait(6000); // else threads that wait for its end may find the next one
        }
    }

    /// <summary>The environment says whether there are parents.</summary>
    private static void Profile(string file)
    {
        Profiler.Start(new ProfilerOptions
        {
            Endpoint = "file://" + file,
            Kinds = ProfileKinds.Allocation | ProfileKinds.Exception | ProfileKinds.Wait | ProfileKinds.Lock | ProfileKinds.Cpu,
            AllEvents = true,
            MemoryBytes = 4 << 20, // all events of a moment in which the collect thread gets no processor
        });
        var collector = new Thread(Collect) { IsBackground = true };
        collector.Start();
        Profiles.Run();
        stop = true;
        collector.Join();
        Profiler.Stop(TimeSpan.FromSeconds(10));
    }

    private static int Main(string[] arguments)
    {
        if (arguments is ["profile", var file])
        {
            Profile(file);
            return 0;
        }
        if (arguments is ["tasks"])
            return Pending.Run();
        var wanted = long.Parse(arguments[0]);
        Profiler.Start(new ProfilerOptions { Awaited = true, Level = ProfileLevel.High });
        if (Profiler.GetStats().AwaitedUnavailable is { Length: > 0 } reason)
        {
            Console.WriteLine($"async: off: {reason}");
            return 1;
        }
        var collector = new Thread(Collect) { IsBackground = true };
        collector.Start();
        Truth.StartInterrupting();
        while (Truth.Captures < wanted)
            Task.WhenAll(Enumerable.Range(0, 8).Select(_ => Task.Run(Scenes.Round))).Wait();
        stop = true;
        collector.Join();
        Console.WriteLine($"async: {Truth.Captures} captures, {GC.CollectionCount(0)} collections");
        return Truth.Report(arguments.Length > 1 ? double.Parse(arguments[1], CultureInfo.InvariantCulture) : 0.5) ? 0 : 1;
    }
}
