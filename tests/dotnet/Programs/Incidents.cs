// A service with one slow request in 10,000, for the reason that its argument names, and an incident for each. After each slow request it
// waits until the incident is on its way, so that nothing depends on the machine's speed. Also the other ways to an incident.
//
//   Incidents gc|lock|sleep|cpu|disk|activity SLOW_REQUESTS
//   Incidents heartbeat|call
using System;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;
using EdgeProf;

internal static partial class Slow
{
    private const int Every = 10_000;
    private const int SlowMs = 400;
    private static readonly object Table = new();
    private static readonly SemaphoreSlim Ask = new(0), Ready = new(0);
    private static readonly ActivitySource Source = new("Test");
    private static object? kept;
    private static string fifo = "";
    private static volatile int sink;

    private sealed class Node
    {
        public Node? Next;
        public long Value;
    }

    [LibraryImport("libc", EntryPoint = "mkfifo", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int MakeFifo(string path, uint mode);

    public static int Run(string[] args)
    {
        var limit = args[0] == "gc" ? PauseMs() / 3 : SlowMs * 3 / 4;
        var started = Profiler.Start(new ProfilerOptions
        {
            Interval = TimeSpan.FromSeconds(1),
            SpanSources = { "Test" },
            Incidents = new ProfilerIncidents
            {
                Enabled = true, SpanLimit = TimeSpan.FromMilliseconds(limit), PauseLimit = TimeSpan.FromHours(1), Gap = TimeSpan.FromMilliseconds(1),
                PerDay = 1000, Tail = TimeSpan.FromMilliseconds(args[0] == "gc" ? 20 * limit : 100),
                HeartbeatLimit = args[0] == "heartbeat" ? TimeSpan.FromMilliseconds(SlowMs / 2) : TimeSpan.Zero,
            },
        });
        if (!started)
            return 2;
        if (args[0] == "heartbeat")
            Heartbeats();
        else if (args[0] == "call")
            Wait(before => Profiler.CaptureIncident("a name of more than thirty-one bytes"));
        else
            Requests(args[0], int.Parse(args[1], CultureInfo.InvariantCulture) * Every);
        GC.KeepAlive(kept);
        return Profiler.Stop(TimeSpan.FromSeconds(10)) ? 0 : 1;
    }

    private static void Requests(string reason, int count)
    {
        fifo = Path.Combine(Path.GetTempPath(), $"slow-disk-{Environment.ProcessId}");
        new Thread(() => Help(reason)) { Name = "helper", IsBackground = true }.Start();
        for (var i = 0; i < count; i++)
        {
            if (i % Every == Every - 1)
                Wait(_ => Request(reason, i, true));
            else
                Request(reason, i, false);
        }
        File.Delete(fifo);
    }

    private static void Request(string reason, int number, bool slow)
    {
        using var activity = reason == "activity" ? Source.StartActivity($"request {number}") : null;
        using var span = reason == "activity" ? default : Profiler.WatchSpan($"request {number}");
        for (var i = 0; i < 2000; i++)
            sink += i * number;
        if (slow)
            BeSlow(reason);
    }

    private static void BeSlow(string reason)
    {
        switch (reason)
        {
            case "gc": SlowGc(); break;
            case "lock": SlowLock(); break;
            case "cpu": SlowCpu(); break;
            case "disk": SlowDisk(); break;
            default: SlowSleep(); break;
        }
    }

    /// Computes; another thread collects. It ends after the collection.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void SlowGc()
    {
        var before = GC.CollectionCount(2);
        Ask.Release();
        while (GC.CollectionCount(2) == before)
            Work();
    }

    /// Where the collector can stop the thread.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Work()
    {
        for (var i = 0; i < 1000; i++)
            sink += i;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void SlowLock()
    {
        Ask.Release();
        Ready.Wait();
        lock (Table)
            sink++;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void SlowSleep() => Thread.Sleep(SlowMs);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void SlowCpu()
    {
        var end = Environment.CpuUsage.TotalTime + TimeSpan.FromMilliseconds(SlowMs);
        while (Environment.CpuUsage.TotalTime < end)
            for (var i = 0; i < 1_000_000; i++)
                sink += i;
    }

    /// The pipe stands for a file on a disk that answers late.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void SlowDisk()
    {
        _ = MakeFifo(fifo, 0x180);
        Ask.Release();
        using var file = new FileStream(fifo, FileMode.Open, FileAccess.Read, FileShare.ReadWrite, 0);
        sink += file.ReadByte();
    }

    private static void Help(string reason)
    {
        while (true)
        {
            Ask.Wait();
            if (reason == "gc")
                Collect();
            if (reason == "lock")
                lock (Table)
                {
                    Ready.Release();
                    Thread.Sleep(SlowMs);
                }
            if (reason == "disk")
            {
                using var file = new FileStream(fifo, FileMode.Open, FileAccess.Write, FileShare.ReadWrite, 0);
                Thread.Sleep(SlowMs);
                file.WriteByte(1);
            }
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Collect() => GC.Collect(2, GCCollectionMode.Forced, true, true);

    /// As many objects as a collection needs three twentieths of a second for; a chain, so that no two threads share the work.
    private static int PauseMs()
    {
        Node? first = null;
        while (true)
        {
            for (var i = 0; i < 1_000_000; i++)
                first = new Node { Next = first, Value = i };
            kept = first;
            Collect(); // the next ones have nothing to move
            var pause = Math.Min(CollectMs(), Math.Min(CollectMs(), CollectMs()));
            if (pause >= 150)
                return pause;
        }
    }

    private static int CollectMs()
    {
        var clock = Stopwatch.StartNew();
        Collect();
        return (int)clock.ElapsedMilliseconds;
    }

    /// Runs it, and returns when an incident was captured since then.
    private static void Wait(Func<long, bool> trigger)
    {
        var before = Profiler.GetStats().Incidents;
        if (!trigger(before))
            Console.WriteLine("not noticed");
        for (var i = 0; i < 3000 && Profiler.GetStats().Incidents == before; i++)
            Thread.Sleep(10);
        if (Profiler.GetStats() is var stats && stats.Incidents == before)
            Console.WriteLine($"not captured; {stats.IncidentsSuppressed} suppressed, {stats.IncidentsLost} lost");
    }

    private static void Wait(Action<long> trigger) =>
        Wait(before =>
        {
            trigger(before);
            return true;
        });

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Hang() => Thread.Sleep(2 * SlowMs);

    private static void Heartbeats()
    {
        for (var i = 0; i < 10; i++)
        {
            Profiler.Heartbeat();
            Thread.Sleep(1);
        }
        Wait(_ => Hang());
    }
}
