// Allocations, exceptions and collections of which this program keeps its own count: `truth KIND SITE COUNT VALUE` lines,
// which tests/dotnet/heap.py holds against the profile. Each site is a method of its own that makes one type.
//
//   Heap truth PROFILE
//   Heap limited PROFILE  the same, with the limits of events per second
//   Heap live             `figure` lines of what is retained while garbage is made; 0 when they are good
//   Heap retained         the same of 20 MB of small objects, with the limits of events per second
//   Heap sizes PROFILE    sizes of the collector's heap as it says itself, `truth heap PART 0 BYTES`; 0 when the levels were right
//   Heap soak SECONDS PROFILE   everything at once, with collections all the time; 0 when nothing was damaged
using System.Runtime.CompilerServices;
using EdgeProf;

internal static class HeapProgram
{
    public static int Run(string[] args)
    {
        switch (args)
        {
            case ["truth" or "limited", var profile]:
                Start(ProfileKinds.Allocation | ProfileKinds.Exception | ProfileKinds.GarbageCollection, $"file://{profile}", args[0] == "truth");
                Truth.Measure();
                return Profiler.Stop(TimeSpan.FromSeconds(5)) ? 0 : 1;
            case ["live"]:
                Start(ProfileKinds.LiveHeap, "file:///dev/null");
                return Live.Measure() ? 0 : 1;
            case ["retained"]:
                Start(ProfileKinds.LiveHeap | ProfileKinds.Allocation, "file:///dev/null", false);
                return Retained.Measure() ? 0 : 1;
            case ["sizes", var profile]:
                Start(ProfileKinds.HeapSizes, $"file://{profile}");
                var right = Sizes.Measure();
                return Profiler.Stop(TimeSpan.FromSeconds(5)) && right ? 0 : 1;
            case ["soak", var seconds, var profile]:
                return Soak.Run(int.Parse(seconds), profile) ? 0 : 1;
            default:
                throw new ArgumentException("Heap: expected truth PROFILE, live, retained, sizes PROFILE or soak SECONDS PROFILE");
        }
    }

    private static void Start(ProfileKinds kinds, string endpoint, bool allEvents = true) => Profiler.Start(new ProfilerOptions
    {
        Service = "heap",
        Endpoint = endpoint,
        Kinds = kinds,
        AllEvents = allEvents,
        MemoryBytes = 4 << 20,
        Interval = TimeSpan.FromMinutes(10),
    });
}

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
    private static int odd, even, faults, fresh;
    public static int Thrown => odd + even + faults + fresh;

    private static void Tell(string kind, string site, long count, long value) => Console.WriteLine($"truth {kind} {site} {count} {value}");

    [MethodImpl(MethodImplOptions.NoInlining)] private static void ThrowOdd() => throw new OddException();
    [MethodImpl(MethodImplOptions.NoInlining)] private static void ThrowEven() => throw new EvenException();
    [MethodImpl(MethodImplOptions.NoInlining)] private static int ThrowFault(int[]? nothing) => nothing!.Length;

    /// Each is thrown once, is thrown on by a handler on its way, and is caught far from where it began.
    public static void Throw(int i)
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
            Interlocked.Increment(ref odd);
            throw;
        }
        catch (EvenException)
        {
            Interlocked.Increment(ref even);
            throw;
        }
        catch (NullReferenceException)
        {
            Interlocked.Increment(ref faults);
        }
    }

    /// An exception counts where it is thrown, not at each await that it passes.
    private static async Task FailAsync(int awaits)
    {
        if (awaits > 0)
            await FailAsync(awaits - 1);
        await Task.Yield();
        Throw(0);
    }

    /// Nothing but the await throws it.
    private static async Task FailFreshAsync()
    {
        fresh++;
        await Task.FromException(new EvenException());
    }

    private static void Awaited()
    {
        foreach (var failed in new[] { FailAsync(3), FailFreshAsync() })
        {
            try
            {
                failed.GetAwaiter().GetResult();
            }
            catch (Exception e) when (e is OddException or EvenException)
            {
            }
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
            if (i % 64 == 1)
                Awaited();
        }
        Tell("exception", "ThrowOdd", odd, odd);
        Tell("exception", "ThrowEven", even, even);
        Tell("exception", "ThrowFault", faults, faults);
        Tell("exception", "total", Thrown, Thrown);
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

/// <summary>A set of objects whose bytes are known, grown and shrunk while other threads make garbage.</summary>
internal static class Live
{
    private const int Megabyte = 1 << 20, Garbage = 2;
    private static readonly List<List<object>> Kept = []; // blocks of 8 MB
    private static volatile bool done;
    private static long bytes;

    private static byte[] Sized(Random random) => new byte[random.Next(16) == 0 ? 8200 + random.Next(16_000) : random.Next(2000)];

    private static void MakeGarbage(int seed)
    {
        var random = new Random(seed);
        object? sink = null;
        while (!done)
        {
            for (var i = 0; i < 2000; i++)
                sink = Sized(random);
            Thread.Sleep(1); // some GB a second are enough
        }
        GC.KeepAlive(sink);
    }

    private static void Grow(int blocks, int seed)
    {
        var random = new Random(seed);
        for (var block = 0; block < blocks; block++)
        {
            var objects = new List<object>(16_384);
            long size = 24 + 8 * 16_384;
            while (size < 8 * Megabyte)
            {
                var made = Sized(random);
                objects.Add(made);
                size += (24 + made.Length + 7) & ~7;
            }
            Kept.Add(objects);
            bytes += size;
        }
    }

    /// Every second block of the oldest goes.
    private static void Shrink(int blocks)
    {
        for (var block = 0; block < blocks; block++)
        {
            bytes -= Kept[block].Sum(o => (24L + ((byte[])o).Length + 7) & ~7) + 24 + 8 * 16_384;
            Kept.RemoveAt(block);
        }
    }

    /// Three looks while garbage goes on; what was let go is gone first.
    private static double Error(string what)
    {
        double worst = 0;
        GC.Collect();
        for (var look = 0; look < 3; look++)
        {
            Thread.Sleep(150);
            Profiler.Flush();
            Thread.Sleep(150);
            var told = Profiler.GetStats().Kinds.Where(k => k.Kind == ProfileKinds.LiveHeap).Sum(k => k.Value);
            Console.WriteLine(FormattableString.Invariant($"  {what}: {bytes / 1e6:F1} MB, told {told / 1e6:F1}"));
            worst = Math.Max(worst, 100.0 * Math.Abs(told - bytes) / bytes);
        }
        return worst;
    }

    public static bool Measure()
    {
        var threads = Enumerable.Range(1, Garbage).Select(seed => new Thread(() => MakeGarbage(seed))).ToArray();
        foreach (var thread in threads)
            thread.Start();
        Grow(24, 10);
        var worst = Error("grown");
        Shrink(8);
        worst = Math.Max(worst, Error("shrunk"));
        Grow(48, 11);
        worst = Math.Max(worst, Error("more than there are places for"));
        done = true;
        foreach (var thread in threads)
            thread.Join();
        Console.WriteLine(FormattableString.Invariant($"figure live_bytes_error_pct {worst:F2} %"));
        foreach (var loss in Profiler.GetStats().Losses)
            Console.WriteLine($"  {loss}");
        GC.KeepAlive(Kept);
        return worst <= 5;
    }
}

/// <summary>Sets of 20 MB of small objects, made alone or among garbage by the same thread.</summary>
internal static class Retained
{
    private const int Bytes = 20_000_000, Rounds = 12;
    private static object[]? kept;
    private static object? sink;

    private static long Build(Random random, int garbage)
    {
        var objects = new object[Bytes / 64];
        long bytes = 0, dropped = 0;
        var count = 0;
        for (; bytes < Bytes && count < objects.Length; count++)
        {
            var made = new byte[16 + random.Next(160)];
            objects[count] = made;
            bytes += (24 + made.Length + 7) & ~7;
            for (; dropped < bytes * garbage; dropped += (24 + ((byte[])sink!).Length + 7) & ~7)
                sink = new byte[16 + random.Next(160)];
        }
        kept = objects;
        return bytes + 24 + 8L * objects.Length;
    }

    private static double Round(int seed, int garbage)
    {
        var bytes = Build(new Random(seed), garbage);
        GC.Collect();
        Thread.Sleep(100);
        Profiler.Flush();
        Thread.Sleep(100);
        var told = Profiler.GetStats().Kinds.Where(k => k.Kind == ProfileKinds.LiveHeap).Sum(k => k.Value);
        GC.KeepAlive(kept);
        kept = null;
        GC.Collect();
        Thread.Sleep(100);
        return 100.0 * (told - bytes) / bytes;
    }

    public static bool Measure()
    {
        var worst = 0.0;
        foreach (var garbage in new[] { 0, 1, 9 })
        {
            var errors = Enumerable.Range(1, Rounds).Select(seed => Round(seed, garbage)).ToArray();
            Console.WriteLine($"  garbage {garbage}: " + string.Join(" ", errors.Select(e => FormattableString.Invariant($"{e:F2}"))));
            worst = Math.Max(worst, errors.Max(Math.Abs));
        }
        Console.WriteLine(FormattableString.Invariant($"figure live_bytes_error_20mb_pct {worst:F2} %"));
        foreach (var loss in Profiler.GetStats().Losses)
            Console.WriteLine($"  {loss}");
        return worst <= 5;
    }
}

/// <summary>The heap grows and shrinks; after each collection the level must be what the collector says.</summary>
internal static class Sizes
{
    private static readonly string[] Part = ["gen0", "gen1", "gen2", "loh", "poh"];
    private static readonly List<byte[]> Kept = [];

    private static void Grow(int objects, int bytes, bool pinned)
    {
        for (var i = 0; i < objects; i++)
            Kept.Add(pinned ? GC.AllocateArray<byte>(bytes, pinned: true) : new byte[bytes]);
    }

    private static long Told() => Profiler.GetStats().Kinds.Where(k => k.Kind == ProfileKinds.HeapSizes).Sum(k => k.Value);

    /// The error of the level after this collection, in percent. One in the background goes on for a while.
    private static double Error(string what, Action collect)
    {
        long told, committed;
        var looks = 0;
        collect();
        do
        {
            committed = GC.GetGCMemoryInfo(GCKind.Any).TotalCommittedBytes;
            Profiler.Flush();
            Thread.Sleep(50);
            told = Told();
        }
        while (told != committed && ++looks < 20);
        Console.WriteLine($"figure heap_level_{what} {told} bytes");
        return 100.0 * Math.Abs(told - committed) / committed;
    }

    public static bool Measure()
    {
        var worst = Error("empty", () => GC.Collect());
        Grow(20_000, 1000, false);
        worst = Math.Max(worst, Error("small", () => GC.Collect(0)));
        Grow(50, 200_000, false);
        Grow(100, 30_000, true);
        worst = Math.Max(worst, Error("large", () => GC.Collect()));
        for (var i = Kept.Count - 1; i >= 0; i -= 2)
            Kept.RemoveAt(i);
        worst = Math.Max(worst, Error("fragmented", () => GC.Collect(2, GCCollectionMode.Forced, true, false)));
        worst = Math.Max(worst, Error("background", () => GC.Collect(2, GCCollectionMode.Forced, false)));
        Error("last", () => GC.Collect(2, GCCollectionMode.Forced, true, false));
        var info = GC.GetGCMemoryInfo(GCKind.Any);
        Console.WriteLine($"truth heap used 0 {GC.GetTotalMemory(false)}");
        Console.WriteLine($"truth heap committed 0 {info.TotalCommittedBytes}");
        for (var i = 0; i < Part.Length; i++)
        {
            var part = info.GenerationInfo[i];
            Console.WriteLine($"truth heap {Part[i]} {part.FragmentationAfterBytes} {part.SizeAfterBytes}");
        }
        GC.KeepAlive(Kept);
        Console.WriteLine(FormattableString.Invariant($"figure heap_level_error_pct {worst:F2} %"));
        return worst == 0;
    }
}
