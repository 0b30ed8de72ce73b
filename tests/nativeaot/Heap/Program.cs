// Allocations, exceptions and collections of which this program keeps its own count: `truth KIND SITE COUNT VALUE` lines,
// which tests/nativeaot/heap.py holds against the profile. Each site is a method of its own that makes one type.
//
//   Heap truth PROFILE
using System.Runtime.CompilerServices;
using EdgeProf;

if (args is not ["truth", var profile])
    throw new ArgumentException("Heap: expected truth PROFILE");
Profiler.Start(new ProfilerOptions
{
    Service = "heap",
    Endpoint = $"file://{profile}",
    Kinds = ProfileKinds.Allocation | ProfileKinds.Exception | ProfileKinds.GarbageCollection,
    MemoryBytes = 4 << 20,
    Interval = TimeSpan.FromMinutes(10),
});
Truth.Measure();
return Profiler.Stop(TimeSpan.FromSeconds(5)) ? 0 : 1;

#pragma warning disable CS0649, CS0414 // fields that only make objects larger
internal sealed class Small { public long A; }
internal sealed class Wide { public long A, B, C, D, E, F, G, H, I, J, K, L; }
internal sealed class Node { public object? Left, Right; }
internal sealed class Final { public long A; ~Final() => A = 0; }
internal sealed class OddException : Exception;
internal sealed class EvenException : Exception;

/// <summary>One thread's work, and what it knows of it.</summary>
internal sealed class Worker(int seed)
{
    public const int Sites = 10;
    public static readonly string[] Site = ["Small", "Wide", "Node", "Bytes", "Text", "Medium", "Large", "Raw", "Pinned", "Final"];
    public readonly long[] Count = new long[Sites], Bytes = new long[Sites];
    public long Allocated;
    private readonly Random random = new(seed);
    private object? sink;

    private T Made<T>(int site, long bytes, T made)
    {
        Count[site]++;
        Bytes[site] += bytes;
        return made;
    }

    private static long Aligned(long bytes) => (bytes + 7) & ~7L;

    [MethodImpl(MethodImplOptions.NoInlining)] private void MakeSmall() => sink = Made(0, 24, new Small());
    [MethodImpl(MethodImplOptions.NoInlining)] private void MakeWide() => sink = Made(1, 112, new Wide());
    [MethodImpl(MethodImplOptions.NoInlining)] private void MakeNode() => sink = Made(2, 32, new Node { Left = sink });
    [MethodImpl(MethodImplOptions.NoInlining)] private void MakeBytes(int n) => sink = Made(3, Aligned(24 + n), new byte[n]);
    [MethodImpl(MethodImplOptions.NoInlining)] private void MakeText(int n) => sink = Made(4, Aligned(22 + 2 * n), new string('x', n));
    [MethodImpl(MethodImplOptions.NoInlining)] private void MakeMedium(int n) => sink = Made(5, Aligned(24 + n), new byte[n]);
    [MethodImpl(MethodImplOptions.NoInlining)] private void MakeLarge(int n) => sink = Made(6, Aligned(24 + n), new byte[n]);
    [MethodImpl(MethodImplOptions.NoInlining)] private void MakeRaw(int n) => sink = Made(7, Aligned(24 + n), GC.AllocateUninitializedArray<byte>(n));
    [MethodImpl(MethodImplOptions.NoInlining)] private void MakePinned(int n) => sink = Made(8, Aligned(24 + n), GC.AllocateArray<byte>(n, pinned: true));
    [MethodImpl(MethodImplOptions.NoInlining)] private void MakeFinal() => sink = Made(9, 24, new Final());

    private void Make()
    {
        switch (random.Next(64))
        {
            case 0 or 1: MakeFinal(); break;
            case 2: MakeMedium(8300 + random.Next(30_000)); break;
            case 3: MakeRaw(4096 + random.Next(20_000)); break;
            case 4 or 5 or 6: MakeBytes(random.Next(4000)); break;
            case 7 or 8: MakeText(1 + random.Next(500)); break;
            case < 24: MakeWide(); break;
            case < 40: sink = null; MakeNode(); break;
            default: MakeSmall(); break;
        }
    }

    public void Run(int rounds)
    {
        var before = GC.GetAllocatedBytesForCurrentThread();
        for (var i = 0; i < rounds; i++)
        {
            Make();
            if (i % 2048 == 0)
                MakeLarge(100_000 + random.Next(900_000));
            if (i % 4096 == 0)
                MakePinned(1000 + random.Next(200_000));
        }
        Allocated = GC.GetAllocatedBytesForCurrentThread() - before;
    }
}

internal static class Truth
{
    private const int Threads = 2, Rounds = 2_000_000, Throws = 3000;
    private static int odd, even, faults;

    private static void Tell(string kind, string site, long count, long value) => Console.WriteLine($"truth {kind} {site} {count} {value}");

    [MethodImpl(MethodImplOptions.NoInlining)] private static void ThrowOdd() => throw new OddException();
    [MethodImpl(MethodImplOptions.NoInlining)] private static void ThrowEven() => throw new EvenException();
    [MethodImpl(MethodImplOptions.NoInlining)] private static int ThrowFault(int[]? nothing) => nothing!.Length;

    /// Each is thrown once, is thrown on by a handler on its way, and is caught far from where it began.
    private static void Throw(int i)
    {
        try
        {
            if (i % 3 == 0)
                ThrowOdd();
            else if (i % 3 == 1)
                ThrowEven();
            else
                ThrowFault(null);
        }
        catch (OddException)
        {
            odd++;
            throw;
        }
        catch (EvenException)
        {
            even++;
            throw;
        }
        catch (NullReferenceException)
        {
            faults++;
        }
    }

    private static void Exceptions()
    {
        for (var i = 0; i < Throws; i++)
        {
            try
            {
                Throw(i);
            }
            catch (Exception e) when (e is OddException or EvenException)
            {
            }
            if (i % 64 == 0)
                Thread.Sleep(1); // the ring is not for a storm
        }
        Tell("exception", "ThrowOdd", odd, odd);
        Tell("exception", "ThrowEven", even, even);
        Tell("exception", "ThrowFault", faults, faults);
    }

    public static void Measure()
    {
        var workers = new Worker[Threads];
        var threads = new Thread[Threads];
        var allocated = GC.GetTotalAllocatedBytes(precise: true);
        for (var i = 0; i < Threads; i++)
        {
            var worker = workers[i] = new Worker(i + 1);
            (threads[i] = new Thread(() => worker.Run(Rounds))).Start();
        }
        foreach (var thread in threads)
            thread.Join();
        Exceptions();
        for (var i = 0; i < 6; i++)
            GC.Collect(i % 3);
        allocated = GC.GetTotalAllocatedBytes(precise: true) - allocated;
        for (var site = 0; site < Worker.Sites; site++)
            Tell("alloc", "Make" + Worker.Site[site], workers.Sum(w => w.Count[site]), workers.Sum(w => w.Bytes[site]));
        Tell("alloc", "total", 0, allocated);
        int two = GC.CollectionCount(2), one = GC.CollectionCount(1) - two, zero = GC.CollectionCount(0) - one - two;
        Tell("gc", "gen0", zero, 0);
        Tell("gc", "gen1", one, 0);
        Tell("gc", "gen2", two, 0);
        Tell("gc", "total", zero + one + two, (long)GC.GetTotalPauseDuration().TotalNanoseconds);
    }
}
