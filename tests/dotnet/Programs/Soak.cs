// Every kind of profile at once on threads that come and go, while collections are made all the time and kinds are
// switched: nothing may crash, hang or damage what the program keeps.
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Runtime.InteropServices;
using EdgeProf;

internal static class Soak
{
    private const int Slots = 512, Workers = 4;
    private static readonly byte[]?[] Kept = new byte[Slots][]; // each filled with its length's last byte
    private static readonly object Gate = new();
    private static long deadline, rounds, damaged, threads, collections, tasks;

    [DllImport("edgeprof")] private static extern int ep_threads_dump();

    private static bool Over => Stopwatch.GetTimestamp() >= deadline;

    public static bool Run(int seconds, string profile)
    {
        deadline = Stopwatch.GetTimestamp() + seconds * Stopwatch.Frequency;
        Profiler.Start(new ProfilerOptions
        {
            Service = "soak",
            Endpoint = $"file://{profile}",
            Level = ProfileLevel.High,
            ThreadLabels = true,
            IdleWaits = true,
            AllEvents = true,
            MemoryBytes = 1 << 20,
            Interval = TimeSpan.FromSeconds(2),
        });
        Contend();
        var helpers = new[] { new Thread(Collect), new Thread(Switch), new Thread(Tasks) };
        foreach (var helper in helpers)
            helper.Start();
        var pool = new Thread?[Workers];
        for (var i = 0; !Over; i++)
        {
            pool[i % Workers]?.Join();
            var seed = i;
            (pool[i % Workers] = new Thread(() => Work(seed)) { Name = $"worker {i % 8}" }).Start();
        }
        foreach (var thread in pool.Concat(helpers))
            thread?.Join();
        KeepAll();
        var good = Profiler.Stop(TimeSpan.FromSeconds(10));
        Check(Slots);
        Console.WriteLine($"soak: {rounds} rounds on {threads} threads, {tasks} tasks, {GC.CollectionCount(0)} collections ({collections} asked for), {Truth.Thrown} exceptions, {damaged} damaged");
        var stats = Profiler.GetStats();
        Console.WriteLine($"stacks: {stats.ExactStacks} exact, {stats.StacksWithGap} with a gap, {stats.CutStacks} cut");
        foreach (var kind in stats.Kinds)
            Console.WriteLine($"  {kind.Name}: {kind.Count}, {kind.Value} {kind.Unit}");
        foreach (var loss in stats.Losses)
            Console.WriteLine($"  lost: {loss.Reason}: {loss.Count}");
        return good && damaged == 0;
    }

    /// <summary>One thread waits for another's lock: a machine with much else to do may not let the workers meet.</summary>
    private static void Contend()
    {
        var waiting = new Thread(static () =>
        {
            lock (Gate)
                Interlocked.Increment(ref threads);
        });
        lock (Gate)
        {
            waiting.Start();
            for (var tries = 0; tries < 1000 && (waiting.ThreadState & System.Threading.ThreadState.WaitSleepJoin) == 0; tries++)
                Thread.Sleep(1);
            Thread.Sleep(20);
        }
        waiting.Join();
    }

    private static void Check(int slots)
    {
        for (var i = 0; i < slots; i++)
            if (Kept[i] is { } kept && (Array.IndexOf(kept, (byte)kept.Length) != 0 || kept.AsSpan().IndexOfAnyExcept((byte)kept.Length) >= 0))
                Interlocked.Increment(ref damaged);
    }

    // What is in use at the end is what the profile tells of: it may just have been switched on.
    private static void KeepAll()
    {
        for (var i = 0; i < Slots; i++)
        {
            Kept[i] = new byte[20_000];
            Array.Fill(Kept[i]!, unchecked((byte)20_000));
        }
        GC.Collect();
    }

    private static void Work(int seed)
    {
        var random = new Random(seed);
        var worker = new Worker(seed);
        Interlocked.Increment(ref threads);
        for (var i = 0; i < 20 && !Over; i++)
        {
            Interlocked.Increment(ref rounds);
            worker.Run(1 + random.Next(400));
            var kept = new byte[1 + random.Next(20_000)];
            Array.Fill(kept, (byte)kept.Length);
            Kept[random.Next(Slots)] = kept;
            try
            {
                Truth.Throw(random.Next(3));
            }
            catch (Exception e) when (e is OddException or EvenException)
            {
            }
            lock (Gate)
                if (random.Next(50) == 0)
                    Thread.Sleep(1);
        }
    }

    // On a machine with much else to do, collection after collection can keep everybody else from coming round at all.
    private static void Collect()
    {
        var seen = 0L;
        for (var i = 0; !Over; i++)
        {
            GC.Collect(i % 3, GCCollectionMode.Forced, blocking: i % 2 == 0, compacting: i % 4 == 0);
            collections++;
            if (i % 64 != 0)
                continue;
            Check(Slots);
            if (rounds == seen)
                Thread.Sleep(1);
            seen = rounds;
        }
    }

    private static void Switch()
    {
        for (var i = 0; !Over; i++)
        {
            Thread.Sleep(300);
            ep_threads_dump();
            Profiler.Disable((ProfileKinds)(1u << (4 + i % 4))); // allocations, live heap, exceptions, collections
            Thread.Sleep(20);
            Profiler.Enable((ProfileKinds)(1u << (4 + i % 4)));
        }
    }

    private static void Tasks()
    {
        while (!Over)
        {
            using (Profiler.Tag("part", $"p{tasks % 5}"))
                Task.WhenAll(Enumerable.Range(0, 8).Select(async i =>
                {
                    await Task.Yield();
                    var made = new ConcurrentDictionary<int, string>();
                    for (var j = 0; j < 200; j++)
                        made[j] = j.ToString();
                    await Task.Delay(1);
                    Interlocked.Add(ref tasks, made.Count / 200);
                })).Wait();
        }
    }
}
