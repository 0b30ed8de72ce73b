// Something of each kind that hooks of the runtime measure, and threads with names. Prints what the profiler counted, and why kinds are
// unavailable; drift.py relinks it with a runtime or an archive that differs.
//
//   Drift PROFILE
using System.Runtime.CompilerServices;
using EdgeProf;

var started = Profiler.Start(new ProfilerOptions
{
    Service = "drift",
    Level = ProfileLevel.High,
    Endpoint = $"file://{args[0]}",
    AllEvents = true,
    Interval = TimeSpan.FromSeconds(60),
});
Console.WriteLine($"started {started}");
Console.WriteLine($"supported {Profiler.IsSupported} {Profiler.UnsupportedReason}");
var named = Label(new Thread(Make.Nothing) { Name = "a name" });
var pool = Task.Run(Make.ThreadLabel).Result;
var rival = new Thread(Make.HoldLock);
rival.Start();
for (var i = 0; i < 200; i++)
    Make.All(i);
Make.Over = true;
rival.Join();
Console.WriteLine($"label {named}");
Console.WriteLine($"pool {pool}");
Profiler.Stop(TimeSpan.FromSeconds(10));
var stats = Profiler.GetStats();
foreach (var kind in stats.Kinds)
    Console.WriteLine($"kind {kind.Name} {kind.Count}");
foreach (var kind in stats.Unavailable)
    Console.WriteLine($"unavailable {kind.Name}: {kind.Reason}");
Console.WriteLine($"cut {stats.CutStacks} gap {stats.StacksWithGap}");
Console.WriteLine("done");
return 0;

static string Label(Thread thread)
{
    Make.Labels.Clear();
    thread.Start();
    thread.Join();
    return Make.Labels.Count > 0 ? Make.Labels[0] : "";
}

internal static class Make
{
    public static readonly List<string> Labels = [];
    private static readonly List<byte[]> kept = [];
    private static readonly object gate = new();
    public static volatile bool Over;

    /// <summary>Has the lock nearly always.</summary>
    public static void HoldLock()
    {
        while (!Over)
        {
            lock (gate)
                Thread.Sleep(3);
            Thread.Sleep(1);
        }
    }

    public static void Nothing() => Labels.Add(ThreadLabel());

    /// <summary>The kernel's name of the calling thread.</summary>
    public static string ThreadLabel() => File.ReadAllText("/proc/thread-self/comm").TrimEnd('\n');

    public static void All(int round)
    {
        for (var i = 0; i < 100; i++)
            GC.KeepAlive(new byte[1000 + round]);
        kept.Add(GC.AllocateUninitializedArray<byte>(20_000));
        if (round % 20 == 0)
            GC.Collect(round % 3);
        Thread.Sleep(1);
        Throw(round);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Throw(int round)
    {
        try
        {
            if (round >= 0)
                throw new InvalidOperationException();
        }
        catch (InvalidOperationException)
        {
            lock (gate)
                Monitor.Wait(gate, 1);
        }
    }
}
