using System.Collections.Concurrent;
using System.Globalization;
using System.Numerics;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Runtime.Intrinsics;
using System.Security.Cryptography;
using System.Text;

namespace Shadow;

/// <summary>More pieces of work: what crosses into native code and back, odd frames, rarer ways of throwing.</summary>
internal static partial class Work
{
    private static Func<bool>[] More =>
    [
        Callbacks, NullReferences, FilterThrows, FinallyThrows, Overflows, CollectsGarbage, DynamicStack, LargeFrames, Vectors,
        GenericVirtuals, OpenDelegates, Reflection, Numbers, Cultures, Bytes, Queues, Locks, StaticConstructors, StackTraces,
        Awaits, Disposables, Enums, Unboxing, Hashing, Concurrent, Lazily, Dates, Tuples,
    ];

    [LibraryImport("libc", EntryPoint = "qsort")]
    private static unsafe partial void QuickSort(int* values, nuint count, nuint size, delegate* unmanaged<int*, int*, int> compare);

    [UnmanagedCallersOnly]
    private static unsafe int CompareFromNative(int* a, int* b)
    {
        try
        {
            if (*a == 13)
                throw new WorkException("below native code");
            return a->CompareTo(*b);
        }
        catch (WorkException)
        {
            return a->CompareTo(*b);
        }
    }

    private static unsafe bool Callbacks()
    {
        var values = stackalloc int[12];
        for (var i = 0; i < 12; i++)
            values[i] = i * 7 % 23;
        values[5] = 13;
        QuickSort(values, 12, sizeof(int), &CompareFromNative);
        return values[0] <= values[1] && values[10] <= values[11];
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int ValueOf(Node? node) => node!.Value;

    private static bool NullReferences()
    {
        var caught = 0;
        for (var i = 0; i < 2; i++)
            try
            {
                caught += ValueOf(i == 0 ? null : new Node(null, 5));
            }
            catch (NullReferenceException)
            {
                caught += 100;
            }
        return caught == 105;
    }

    private static bool Throwing(string text) => throw new FormatException(text);

    private static bool FilterThrows()
    {
        try
        {
            try
            {
                Throws(2);
            }
            catch (WorkException) when (Throwing("a filter that throws is a filter that says no"))
            {
                return false;
            }
        }
        catch (WorkException)
        {
            return true;
        }
        return false;
    }

    private static bool FinallyThrows()
    {
        try
        {
            try
            {
                Throws(1);
            }
            finally
            {
                Throwing("replaces the first");
            }
        }
        catch (Exception e)
        {
            return e is FormatException;
        }
        return false;
    }

    private static bool Overflows()
    {
        var count = 0;
        int[] numbers = [int.MaxValue, 1];
        try
        {
            count = checked(numbers[0] + numbers[1]);
        }
        catch (OverflowException)
        {
            count = 1;
        }
        try
        {
            count += numbers[count + 1];
        }
        catch (IndexOutOfRangeException)
        {
            count++;
        }
        try
        {
            count += ((Node)(object)numbers).Value;
        }
        catch (InvalidCastException)
        {
            count++;
        }
        return count == 3;
    }

    private static bool CollectsGarbage()
    {
        var weak = new WeakReference(new byte[100]);
        GC.Collect(0, GCCollectionMode.Forced, blocking: true);
        return weak.Target is null or byte[];
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int DynamicallySized(int count)
    {
        Span<int> values = stackalloc int[count];
        for (var i = 0; i < count; i++)
            values[i] = ValueOf(new Node(null, i));
        values.Sort((a, b) => b - a);
        return values[0];
    }

    private static bool DynamicStack() => DynamicallySized(3) + DynamicallySized(77) == 78;

    [InlineArray(1500)]
    private struct Block
    {
        private long first;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static long LargeFrame(long n)
    {
        Block block = default;
        for (var i = 0; i < 1500; i += 300)
            block[i] = n + i;
        return block[300] + ValueOf(new Node(null, (int)block[1200]));
    }

    private static bool LargeFrames() => LargeFrame(2) == 302 + 1202;

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static Vector256<double> Blend(Vector256<double> a, Vector256<double> b, int n) =>
        n == 0 ? a * b : Blend(a + b, b - a, n - 1) + a;

    private static bool Vectors()
    {
        var sum = Vector256.Sum(Blend(Vector256.Create(1.5), Vector256.Create(0.5), 4));
        Span<float> values = stackalloc float[100];
        values.Fill(2);
        return double.IsFinite(sum) && Vector.Sum(new Vector<float>(values)) > 0;
    }

    private class Visitor
    {
        public virtual string Visit<T>(T value) => $"{typeof(T).Name}:{value}";
    }

    private sealed class LoudVisitor : Visitor
    {
        public override string Visit<T>(T value) => base.Visit(value).ToUpperInvariant();
    }

    private static bool GenericVirtuals()
    {
        Visitor visitor = Failures.Count >= 0 ? new LoudVisitor() : new Visitor();
        return visitor.Visit(3) == "INT32:3" && visitor.Visit("x") == "STRING:X" && visitor.Visit((1, 2L)).Contains("2)");
    }

    private static bool OpenDelegates()
    {
        var method = typeof(string).GetMethod(nameof(string.ToUpperInvariant), Type.EmptyTypes)!;
        var open = method.CreateDelegate<Func<string, string>>();
        Func<int, int, int> max = Math.Max;
        Func<object> boxed = ((object)7).ToString!;
        return open("abc") == "ABC" && max(2, 3) == 3 && (string)boxed() == "7";
    }

    private sealed class Target
    {
        public int Number { get; set; }
        public int Add(int a, string b) => Number + a + b.Length;
    }

    private static bool Reflection()
    {
        var target = new Target { Number = 4 };
        var result = typeof(Target).GetMethod(nameof(Target.Add))!.Invoke(target, [5, "abc"]);
        try
        {
            typeof(Target).GetMethod(nameof(Target.Add))!.Invoke(target, [5, null]);
            return false;
        }
        catch (TargetInvocationException e)
        {
            return result is 12 && e.InnerException is NullReferenceException && Activator.CreateInstance<Target>().Number == 0;
        }
    }

    private static bool Numbers()
    {
        var big = BigInteger.Pow(7, 60) % 1_000_007;
        return big >= 0 && decimal.Parse("12.50") * 4 == 50m && (Int128.MaxValue / 3).ToString().Length > 30 && Math.Pow(2, 0.5) > 1.41;
    }

    private static bool Cultures() => 1234.5.ToString("N2", CultureInfo.InvariantCulture) == "1,234.50" && "straße".ToUpperInvariant().Length == 6
        && string.Compare("a", "B", StringComparison.OrdinalIgnoreCase) < 0;

    private static bool Bytes()
    {
        var text = Convert.ToBase64String(Enumerable.Range(0, 60).Select(i => (byte)i).ToArray());
        return Convert.FromBase64String(text)[59] == 59 && Convert.ToHexString(Encoding.UTF8.GetBytes("añ")) == "61C3B1" && BitConverter.ToInt32([1, 0, 0, 0]) == 1;
    }

    private static bool Queues()
    {
        var queue = new PriorityQueue<string, int>();
        var sorted = new SortedDictionary<string, int>();
        var linked = new LinkedList<int>();
        for (var i = 0; i < 15; i++)
        {
            queue.Enqueue($"{i}", i * 11 % 15);
            sorted[$"{i * 7 % 15:00}"] = i;
            linked.AddFirst(i);
        }
        return queue.Dequeue() == "0" && sorted.First().Key == "00" && linked.Contains(3);
    }

    private static bool Locks()
    {
        var gate = new object();
        var count = 0;
        for (var i = 0; i < 10; i++)
            lock (gate)
                count += Interlocked.Increment(ref count) > 0 ? 1 : 0;
        using var semaphore = new SemaphoreSlim(1);
        semaphore.Wait();
        semaphore.Release();
        return count == 10 && Monitor.TryEnter(gate);
    }

    private static class Careful
    {
        public static readonly int Value = Recurse(5);
        private static int Recurse(int n) => n == 0 ? 1 : n * Recurse(n - 1);
    }

    private static class Careless
    {
        public static readonly int Value = int.Parse("not a number");
    }

    private static bool StaticConstructors()
    {
        try
        {
            return Careless.Value < 0;
        }
        catch (TypeInitializationException e)
        {
            return Careful.Value == 120 && e.InnerException is FormatException;
        }
    }

    private static bool StackTraces() => Environment.StackTrace.Contains("StackTraces") || Environment.StackTrace.Length > 0;

    private static async Task<int> Chain(TaskCompletionSource<int> gate, int depth)
    {
        if (depth == 0)
            return await gate.Task.ConfigureAwait(false);
        try
        {
            return await Chain(gate, depth - 1).ConfigureAwait(false) + 1;
        }
        finally
        {
            finished++;
        }
    }

    /// <summary>Continuations run on this thread, inside SetResult.</summary>
    private static bool Awaits()
    {
        finished = 0;
        var gate = new TaskCompletionSource<int>();
        var chain = Chain(gate, 5);
        gate.SetResult(10);
        return chain.IsCompletedSuccessfully && chain.Result == 15 && finished == 5;
    }

    private sealed class Scope(List<string> log) : IDisposable
    {
        public void Dispose() => log.Add("disposed");
    }

    private static bool Disposables()
    {
        var log = new List<string>();
        try
        {
            using var outer = new Scope(log);
            using var inner = new Scope(log);
            Throws(1);
        }
        catch (WorkException)
        {
            log.Add("caught");
        }
        return log is ["disposed", "disposed", "caught"];
    }

    private static bool Enums() => Enum.Parse<DayOfWeek>("Friday") == DayOfWeek.Friday && (FileAccess.Read | FileAccess.Write).ToString() == "ReadWrite"
        && DayOfWeek.Monday.ToString("D") == "1";

    private static bool Unboxing()
    {
        IComparable[] values = [3, 2.5, 'c', 7m, DateTime.UnixEpoch, Guid.Empty];
        IShape shape = new Dot(2);
        return values.All(v => v.CompareTo(v) == 0) && shape.Area() + shape.Name.Length == 5 && values[0].GetHashCode() == 3;
    }

    private static bool Hashing()
    {
        Span<byte> hash = stackalloc byte[32];
        SHA256.HashData("edgeprof"u8, hash); // a library that is loaded at run time
        var code = new HashCode();
        code.AddBytes(hash);
        return code.ToHashCode() != 0 || hash[0] != 0;
    }

    private static bool Concurrent()
    {
        var map = new ConcurrentDictionary<int, string>();
        for (var i = 0; i < 20; i++)
            map.AddOrUpdate(i % 7, k => $"{k}", (k, v) => v + k);
        return map.Count == 7 && map.TryRemove(3, out var text) && text == "333";
    }

    private static bool Lazily() => new Lazy<int>(() => Ackermann(1, 3)).Value == 5 && new ThreadLocal<string>(() => "t").Value == "t"
        && new AsyncLocal<int> { Value = 4 }.Value == 4;

    private static bool Dates() => DateTimeOffset.Parse("2024-02-29T12:00:00+02:00", CultureInfo.InvariantCulture).UtcDateTime.Hour == 10
        && TimeSpan.FromMinutes(90).ToString() == "01:30:00" && new DateOnly(2024, 3, 1).DayNumber > 0;

    private static bool Tuples()
    {
        var (a, (b, c)) = (1, ("two", 3.0));
        var record = new Order(1, b, c, []) with { Id = a + 1 };
        return record == new Order(2, "two", 3.0, record.Lines) && record.GetHashCode() != 0 && record.ToString().Contains("two");
    }
}
