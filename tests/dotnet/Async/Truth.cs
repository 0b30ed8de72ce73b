using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace Async;

/// <summary>The methods that wait for one, innermost first: each method passes itself on to those that it awaits.</summary>
internal sealed record Chain(string Name, Chain? Up);

/// <summary>Compares captures with what waits in truth.</summary>
internal static unsafe class Truth
{
    private const int Most = 32; // EP_HOOK_PARENTS

    [StructLayout(LayoutKind.Sequential)]
    private struct Parents // struct ep_hook_parents
    {
        public uint Depth;
        public nint Pc;
        public uint Count;
        public byte More;
        public fixed long Parent[Most];
    }

    [SuppressGCTransition]
    [DllImport("edgeprof", EntryPoint = "ep_dotnet_async_find")]
    private static extern void Find(void* context, Parents* parents);

    [DllImport("edgeprof", EntryPoint = "async_find_waited")]
    private static extern int FindWaited(Parents* parents);

    [DllImport("edgeprof", EntryPoint = "async_interrupt_start")]
    public static extern void StartInterrupting();

    [SuppressGCTransition]
    [DllImport("edgeprof", EntryPoint = "async_interrupt_begin")]
    private static extern void InterruptBegin();

    [SuppressGCTransition]
    [DllImport("edgeprof", EntryPoint = "async_interrupt_end")]
    private static extern int InterruptEnd(Parents* parents);

    [SuppressGCTransition]
    [DllImport("edgeprof", EntryPoint = "async_is_managed")]
    private static extern byte IsManaged(nint code);

#if NET9_0_OR_GREATER
    [UnsafeAccessor(UnsafeAccessorKind.Constructor)]
    private static extern StackFrame FrameAt(nint address, bool needFileInfo);
#endif

    /// <summary>How a capture is made: as by a hook in cooperative mode, as by a wait's, as by a CPU sample.</summary>
    private enum Way
    {
        Hook, Wait, Signal,
    }

    private static readonly Dictionary<(Way Way, string Scene), long[]> Counts = new();
    private static readonly Dictionary<long, string> Names = new();
    private static readonly List<long> Took = new();
    private static long captures;

    /// <summary>Held while the runtime walks its own stack, and taken by the collector. Environment.StackTrace of .NET 9 ends the
    /// process (SIGABRT, no message) when a collection stops the thread in RhpCalculateStackTraceWorker before its first frame is
    /// known: RhpWaitForGC replaces Thread.m_pDeferredTransitionFrame, with which the walk then begins, by a frame of its own that is
    /// gone by then.</summary>
    public static readonly ReaderWriterLockSlim Still = new();

    public static long Captures => Interlocked.Read(ref captures);

    /// <summary>The running continuation is a method that `up` waits for.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Capture(string scene, Chain? up)
    {
        Parents parents, waited;
        parents.Count = waited.Count = 0;
        var from = Stopwatch.GetTimestamp();
        Find(null, &parents);
        var took = Stopwatch.GetTimestamp() - from;
        _ = FindWaited(&waited);
        var waiting = Waiting(up);
        lock (Counts)
        {
            Took.Add(took);
            Count(Way.Hook, scene, up, waiting, ref parents);
            Count(Way.Wait, scene, up, waiting, ref waited);
        }
        Interrupt(scene, up, waiting);
    }

    /// <summary>Signals while this thread works.</summary>
    private static void Interrupt(string scene, Chain? up, List<Chain?> waiting)
    {
        const int Signals = 64; // CAPTURES
        var all = stackalloc Parents[Signals];
        InterruptBegin();
        Work.Some();
        var count = InterruptEnd(all);
        Interlocked.Add(ref captures, count + 2);
        lock (Counts)
            for (var i = 0; i < count; i++)
                Count(Way.Signal, scene, up, waiting, ref all[i]);
    }

    private static void Count(Way way, string scene, Chain? up, List<Chain?> waiting, ref Parents parents)
    {
        var found = new List<string>(); // the library's methods are in no chain
        for (var i = 0; i < parents.Count; i++)
            if (NameOf(parents.Parent[i]) is { Length: > 0 } name)
                found.Add(name);
        Chain? rest = null;
        var right = waiting.Exists(chain => BeginsWith(chain, found, out rest));
        var whole = parents.More != 0 || rest is null;
        if (!Counts.TryGetValue((way, scene), out var count))
            Counts[(way, scene)] = count = new long[3];
        count[!right ? 1 : whole ? 0 : 2]++;
        if (!right && count[1] <= 3)
            Console.WriteLine($"async: {way}: {scene}: wrong: {string.Join(" <- ", found)}, not {Text(up)}");
    }

    private static bool BeginsWith(Chain? chain, List<string> names, out Chain? rest)
    {
        rest = chain;
        foreach (var name in names)
        {
            if (rest is null || rest.Name != name)
                return false;
            rest = rest.Up;
        }
        return true;
    }

    /// <summary>What may be found: the chain and, since a method whose await finds its task completed goes on as a callee, the chain
    /// behind those that are on the stack. The first on the stack is the method that captures.</summary>
    private static List<Chain?> Waiting(Chain? chain)
    {
        Still.EnterReadLock();
        var stack = Environment.StackTrace;
        Still.ExitReadLock();
        var may = new List<Chain?> { chain };
        var passed = new Dictionary<string, int>();
        if (First(stack) is { } captures)
            passed[captures] = 1;
        while (chain is not null)
        {
            var times = passed[chain.Name] = passed.GetValueOrDefault(chain.Name) + 1;
            if (stack.Split($"<{chain.Name}>d__").Length + stack.Split($" Async.Scenes.{chain.Name}(").Length - 2 < times)
                break;
            chain = chain.Up;
            may.Add(chain);
        }
        return may;
    }

    /// <summary>A state machine's method, or one that is runtime-async.</summary>
    private static string? First(string stack)
    {
        const string Scene = " Async.Scenes.";
        foreach (var line in stack.Split('\n'))
        {
            var end = line.IndexOf(">d__", StringComparison.Ordinal);
            if (end >= 0)
                return line[(line.LastIndexOf('<', end) + 1)..end];
            var start = line.IndexOf(Scene, StringComparison.Ordinal);
            if (start >= 0 && line.IndexOf('(', start) is var open && open > start && line.AsSpan(start, open - start).IndexOf('<') < 0)
                return line[(start + Scene.Length)..open];
        }
        return null;
    }

    private static string Text(Chain? chain) => chain is null ? "" : chain.Name + " <- " + Text(chain.Up);

    /// <summary>AsyncStateMachineBox`1[Result,Async.Scenes+&lt;Leaf&gt;d__1] is Leaf.</summary>
    private static string NameOf(long type)
    {
        if (Names.TryGetValue(type, out var name))
            return name;
#if NET9_0_OR_GREATER
        if (IsManaged((nint)type) != 0) // a method that is runtime-async
        {
            var method = DiagnosticMethodInfo.Create(FrameAt((nint)type, false));
            return Names[type] = method?.DeclaringTypeName?.StartsWith("Async.", StringComparison.Ordinal) == true ? method.Name : "";
        }
#endif
        var text = Type.GetTypeFromHandle(RuntimeTypeHandle.FromIntPtr((nint)type))?.ToString() ?? "";
        var end = text.LastIndexOf(">d__", StringComparison.Ordinal);
        var start = end < 0 ? -1 : text.LastIndexOf('<', end);
        return Names[type] = start < 0 ? text : text[(start + 1)..end];
    }

    /// <summary>Scenes whose chain must be found, but for a race with the caller; and those for which none may be.</summary>
    public static bool Report(double least)
    {
        var good = true;
        foreach (var way in Enum.GetValues<Way>())
        {
            long[] sum = [0, 0, 0];
            foreach (var ((_, scene), count) in Counts.Where(pair => pair.Key.Way == way).OrderBy(pair => pair.Key.Scene, StringComparer.Ordinal))
            {
                var share = (double)count[0] / count.Sum();
                // Most signals find a thread that is stopped, or in the runtime's allocator: there is a collection all the time.
                var bad = count[1] > 0 || share < (scene.StartsWith('?') || way == Way.Signal ? 0 : least);
                good &= !bad;
                Console.WriteLine($"async: {way}: {scene,-24} right {count[0],8} wrong {count[1],4} missing {count[2],6}{(bad ? "  FAILED" : "")}");
                for (var i = 0; i < 3; i++)
                    sum[i] += count[i];
            }
            Console.WriteLine($"async: all of {way}: right {sum[0]} wrong {sum[1]} missing {sum[2]}");
            good &= sum[0] > 0.04 * least * sum.Sum();
        }
        Took.Sort();
        var tick = 1e9 / Stopwatch.Frequency;
        Console.WriteLine($"async: a capture takes {Took[Took.Count / 2] * tick:F0} ns (median; {Took[Took.Count * 9 / 10] * tick:F0} at 90 %)");
        return good;
    }
}
