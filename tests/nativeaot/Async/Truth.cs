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

    private static readonly Dictionary<string, long[]> Counts = new();
    private static readonly Dictionary<long, string> Names = new();
    private static readonly List<long> Took = new();
    private static long captures;

    public static long Captures => Interlocked.Read(ref captures);

    /// <summary>The running continuation is a method that `up` waits for.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Capture(string scene, Chain? up)
    {
        Parents parents;
        parents.Count = 0;
        var from = Stopwatch.GetTimestamp();
        Find(null, &parents);
        var took = Stopwatch.GetTimestamp() - from;
        var found = new string[parents.Count];
        lock (Counts)
        {
            for (var i = 0; i < found.Length; i++)
                found[i] = NameOf(parents.Parent[i]);
            var right = BeginsWith(up, found, out var rest) || BeginsWith(Waiting(up), found, out rest);
            var whole = parents.More != 0 || rest is null;
            Interlocked.Increment(ref captures);
            Took.Add(took);
            if (!Counts.TryGetValue(scene, out var count))
                Counts[scene] = count = new long[3];
            count[!right ? 1 : whole ? 0 : 2]++;
            if (!right && count[1] <= 3)
                Console.WriteLine($"async: {scene}: wrong: {string.Join(" <- ", found)}, not {Text(up)}");
        }
    }

    private static bool BeginsWith(Chain? chain, string[] names, out Chain? rest)
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

    /// <summary>A method whose await finds its task completed goes on as a callee: those on the stack do not wait.</summary>
    private static Chain? Waiting(Chain? chain)
    {
        var stack = Environment.StackTrace;
        while (chain is not null && stack.Contains($"<{chain.Name}>d__", StringComparison.Ordinal))
            chain = chain.Up;
        return chain;
    }

    private static string Text(Chain? chain) => chain is null ? "" : chain.Name + " <- " + Text(chain.Up);

    /// <summary>AsyncStateMachineBox`1[Result,Async.Scenes+&lt;Leaf&gt;d__1] is Leaf.</summary>
    private static string NameOf(long type)
    {
        if (Names.TryGetValue(type, out var name))
            return name;
        var text = Type.GetTypeFromHandle(RuntimeTypeHandle.FromIntPtr((nint)type))?.ToString() ?? "";
        var end = text.LastIndexOf(">d__", StringComparison.Ordinal);
        var start = end < 0 ? -1 : text.LastIndexOf('<', end);
        return Names[type] = start < 0 ? text : text[(start + 1)..end];
    }

    /// <summary>Scenes whose chain must be found, but for a race with the caller; and those for which none may be.</summary>
    public static bool Report(double least)
    {
        var good = true;
        long[] sum = [0, 0, 0];
        foreach (var (scene, count) in Counts.OrderBy(pair => pair.Key, StringComparer.Ordinal))
        {
            var share = (double)count[0] / count.Sum();
            var bad = count[1] > 0 || share < (scene.StartsWith('?') ? 0 : least);
            good &= !bad;
            Console.WriteLine($"async: {scene,-24} right {count[0],8} wrong {count[1],4} missing {count[2],6}{(bad ? "  FAILED" : "")}");
            for (var i = 0; i < 3; i++)
                sum[i] += count[i];
        }
        Took.Sort();
        var tick = 1e9 / Stopwatch.Frequency;
        Console.WriteLine($"async: all: right {sum[0]} wrong {sum[1]} missing {sum[2]}, a capture takes {Took[Took.Count / 2] * tick:F0} ns (median; {Took[Took.Count * 9 / 10] * tick:F0} at 90 %)");
        return good && sum[0] > 0;
    }
}
