using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Text;
using System.Text.Json;
using System.Text.Json.Serialization;
using System.Text.RegularExpressions;

namespace Shadow;

/// <summary>What is single-stepped: small pieces of everyday C#, each with a result that is checked.</summary>
internal static partial class Work
{
    public static Func<bool>[] All { get; } =
    [
        Sorts, Linq, Json, Exceptions, Rethrow, Finally, Allocation, Format, Pattern, Generics, Interfaces, TailCalls,
        Copies, Dictionaries, Async, Iterators, Strings, Spans, Delegates, Recursion, Structs, Boxing, Arrays, .. More,
    ];

    /// <summary>Pieces of work whose result was wrong, once each.</summary>
    public static readonly HashSet<string> Failures = [];

    public static void Do(int index)
    {
        if (!All[index]())
            Failures.Add(DiagnosticMethodInfo.Create(All[index])?.Name ?? $"number {index}");
    }

    private static bool Sorts()
    {
        var values = Enumerable.Range(0, 60).Select(i => i * 7919 % 101).ToArray();
        Array.Sort(values, (a, b) => a.CompareTo(b));
        var names = new List<string>();
        for (var i = 0; i < 24; i++)
            names.Add($"n{i * 31 % 23:00}");
        names.Sort((a, b) => string.CompareOrdinal(b, a));
        Array.Sort(values);
        return values[0] <= values[1] && string.CompareOrdinal(names[0], names[1]) >= 0;
    }

    private sealed record Order(int Id, string Customer, double Amount, Line[] Lines);

    private sealed record Line(string Item, int Count);

    [JsonSerializable(typeof(Order[]))]
    private sealed partial class WorkJson : JsonSerializerContext;

    private static Order[] Orders() => Enumerable.Range(1, 12)
        .Select(i => new Order(i, $"customer-{i % 4}", i * 12.25, [new Line("bolt", i), new Line("nut \"m5\"", i * 2)])).ToArray();

    private static bool Linq()
    {
        var best = Orders().Where(o => o.Amount > 20)
            .GroupBy(o => o.Customer)
            .Select(g => (Customer: g.Key, Total: g.Sum(o => o.Amount), Lines: g.SelectMany(o => o.Lines).Count()))
            .OrderByDescending(t => t.Total).ThenBy(t => t.Customer)
            .ToList();
        return best.Count == 4 && best[0].Total >= best[3].Total && best.Any(b => b.Lines > 2);
    }

    private static bool Json()
    {
        var text = JsonSerializer.Serialize(Orders().AsSpan(0, 3).ToArray(), WorkJson.Default.OrderArray);
        var back = JsonSerializer.Deserialize(text, WorkJson.Default.OrderArray)!;
        using var document = JsonDocument.Parse(text);
        return back[2].Lines[1].Count == 6 && document.RootElement[0].GetProperty("Id").GetInt32() == 1;
    }

    private sealed class WorkException(string message, Exception? inner = null) : Exception(message, inner);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Throws(int depth) => depth == 0 ? throw new WorkException("bottom") : Throws(depth - 1) + 1;

    private static bool Exceptions()
    {
        try
        {
            return Throws(5) < 0;
        }
        catch (WorkException e) when (e.Message.StartsWith('b'))
        {
            return e.StackTrace is { Length: > 0 };
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Wraps(int depth)
    {
        try
        {
            return Throws(depth);
        }
        catch (WorkException) when (depth > 5)
        {
            return 0;
        }
        catch (WorkException)
        {
            throw;
        }
    }

    private static bool Rethrow()
    {
        try
        {
            try
            {
                return Wraps(2) < 0;
            }
            catch (WorkException e)
            {
                throw new InvalidOperationException("outer", e);
            }
        }
        catch (InvalidOperationException e)
        {
            return e.InnerException is WorkException;
        }
    }

    private static int finished;

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int WithFinally(int depth)
    {
        try
        {
            return depth == 0 ? Divide(1, 0) : WithFinally(depth - 1);
        }
        finally
        {
            finished += Math.Abs(depth) + 1;
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Divide(int a, int b)
    {
        ArgumentOutOfRangeException.ThrowIfZero(b);
        return a / b;
    }

    private static bool Finally()
    {
        finished = 0;
        try
        {
            return WithFinally(4) < 0;
        }
        catch (ArgumentException)
        {
            return finished == 15;
        }
    }

    private sealed class Node(Node? next, int value)
    {
        public readonly Node? Next = next;
        public readonly int Value = value;
    }

    private static bool Allocation()
    {
        Node? list = null;
        for (var i = 0; i < 400; i++)
            list = new Node(list, i);
        var arrays = new List<byte[]>();
        for (var i = 0; i < 20; i++)
            arrays.Add(new byte[100 * i]);
        var large = new int[30000];
        large[^1] = arrays.Count;
        return list!.Next!.Value == 398 && large[29999] == 20;
    }

    private static bool Format()
    {
        var text = $"{17,6:X} {Math.PI:F4} {new DateTime(2024, 2, 29):yyyy-MM-dd} {true} {12345.678m:N1} {(string?)null}|{Guid.Empty:N}";
        var builder = new StringBuilder();
        for (var i = 0; i < 12; i++)
            builder.AppendFormat("{0}-{1};", i, i * 0.5).Append(i);
        return text.Contains("2024-02-29") && int.Parse("-12") + double.Parse("2.5") < 0 && builder.Length > 20;
    }

    [GeneratedRegex(@"(?<key>[a-z]+)=(?<value>\d+(\.\d+)?)", RegexOptions.IgnoreCase)]
    private static partial Regex Pairs();

    private static bool Pattern()
    {
        var sum = Pairs().Matches("temp=21.5, hum=40; Vib=3 nothing=x").Sum(m => double.Parse(m.Groups["value"].Value));
        var interpreted = new Regex("^(a|b)*c$");
        return sum == 64.5 && interpreted.IsMatch("ababc") && Pairs().Replace("a=1", m => m.Value + "!") == "a=1!";
    }

    private interface IShape
    {
        double Area();
        string Name => GetType().Name;
    }

    private abstract class Shape : IShape
    {
        public abstract double Area();
        public virtual double Twice() => 2 * Area();
    }

    private sealed class Square(double side) : Shape
    {
        public override double Area() => side * side;
    }

    private sealed class Circle(double radius) : Shape
    {
        public override double Area() => Math.PI * radius * radius;
        public override double Twice() => base.Twice() + 0.0;
    }

    private readonly struct Dot(double size) : IShape
    {
        public double Area() => size;
    }

    private static bool Interfaces()
    {
        IShape[] shapes = [new Square(2), new Circle(1), new Dot(3), new Square(1)];
        var area = 0.0;
        foreach (var shape in shapes)
            area += shape.Area() + shape.Name.Length + (shape is Shape solid ? solid.Twice() : 0);
        return area > 20;
    }

    private sealed class Cell<T>(T value)
    {
        public T Value { get; } = value;
        [MethodImpl(MethodImplOptions.NoInlining)]
        public Cell<TResult> Map<TResult>(Func<T, TResult> map) => new(map(Value));
    }

    private static T Largest<T>(IEnumerable<T> values) where T : IComparable<T>
    {
        var largest = values.First();
        foreach (var value in values)
            if (value.CompareTo(largest) > 0)
                largest = value;
        return largest;
    }

    private static bool Generics()
    {
        var cell = new Cell<int>(4).Map(i => i + 0.5).Map(d => d.ToString()).Map(s => (s, s.Length));
        return Largest([3, 9, 2]) == 9 && Largest(["a", "c", "b"]) == "c" && Largest([1.5m, 2.5m]) == 2.5m && cell.Value.Length == 3;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static long Even(long n, long sum) => n == 0 ? sum : Odd(n - 1, sum + n);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static long Odd(long n, long sum) => n == 0 ? sum : Even(n - 1, sum * 2);

    private static bool TailCalls() => Even(60, 1) != 0 && Odd(3, 1) != 0;

    private static bool Copies()
    {
        Span<byte> from = stackalloc byte[700], to = stackalloc byte[700];
        var heap = new byte[5000];
        for (var size = 1; size < 700; size = size * 2 + 1)
        {
            from[..size].Fill((byte)size);
            from[..size].CopyTo(to);
            to[..size].CopyTo(heap.AsSpan(size));
            Buffer.BlockCopy(heap, 0, heap, 1000, size);
            Array.Copy(heap, 0, heap, 1, size * 2);
        }
        return to.SequenceEqual(from) || heap[1] == heap[2] || to.IndexOf((byte)255) >= 0;
    }

    private static bool Dictionaries()
    {
        var byName = new Dictionary<string, int>(StringComparer.OrdinalIgnoreCase);
        var byNumber = new Dictionary<(int, long), string>();
        var set = new HashSet<Guid>();
        for (var i = 0; i < 40; i++)
        {
            byName[$"Key{i % 15}"] = i;
            byNumber[(i, i * 2L)] = "v";
            set.Add(new Guid(i, 0, 0, new byte[8]));
        }
        return byName["KEY3"] == 33 && byNumber.ContainsKey((7, 14)) && set.Count == 40;
    }

    private static async Task<int> Add(int n)
    {
        if (n == 0)
            return 1;
        await Task.CompletedTask;
        return n + await Add(n - 1);
    }

    private static async ValueTask<int> Guarded(int n)
    {
        try
        {
            return await Add(n) / (n - 3);
        }
        catch (DivideByZeroException)
        {
            return -1;
        }
    }

    private static bool Async() => Guarded(4).GetAwaiter().GetResult() == 11 && Guarded(3).GetAwaiter().GetResult() == -1;

    private static IEnumerable<int> Squares(int count)
    {
        for (var i = 0; i < count; i++)
            yield return i * i;
    }

    private static bool Iterators() => Squares(20).Zip(Squares(20).Skip(1)).Sum(p => p.Second - p.First) == 361;

    private static bool Strings()
    {
        var parts = "alpha,beta,,gamma ,delta".Split(',', StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries);
        var joined = string.Join('|', parts.Select(p => p.ToUpperInvariant()).Reverse());
        return joined.Replace("A", "aa").IndexOf("MM", StringComparison.Ordinal) > 0 && Encoding.UTF8.GetBytes(joined + "é").Length == joined.Length + 2;
    }

    private static bool Spans()
    {
        var text = "12;-7;330;x;18".AsSpan();
        var sum = 0;
        foreach (var range in text.Split(';'))
            if (int.TryParse(text[range], out var value))
                sum += value;
        return sum == 353;
    }

    private static bool Delegates()
    {
        var log = new List<string>();
        Action<string> all = log.Add;
        all += s => log.Add(s + s);
        all += new StringBuilder().Keep;
        all("x");
        Func<int, Func<int, int>> curried = a => b => a * b;
        return log.Count == 2 && curried(6)(7) == 42;
    }



    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Ackermann(int m, int n) => m == 0 ? n + 1 : n == 0 ? Ackermann(m - 1, 1) : Ackermann(m - 1, Ackermann(m, n - 1));

    private static bool Recursion() => Ackermann(2, 5) == 13;

    private struct Big
    {
        public long A, B, C, D, E, F;
        [MethodImpl(MethodImplOptions.NoInlining)]
        public readonly Big Turn(Big by) => new() { A = B + by.F, B = C, C = D, D = E, E = F, F = A };
    }

    private static bool Structs()
    {
        var big = new Big { A = 1, F = 6 };
        for (var i = 0; i < 50; i++)
            big = big.Turn(big with { A = i });
        return big.A != 0 || big.B != 0 || big.C != 0;
    }

    private static bool Boxing()
    {
        object[] things = [1, 2.5, 'c', "s", new Dot(1), null!, (1, 2), DayOfWeek.Friday];
        var hash = 0;
        foreach (var thing in things)
            hash = hash * 31 + thing switch { int i => i, IShape s => (int)s.Area(), null => 3, _ => thing.ToString()!.Length };
        return hash != 0 && things[7].Equals(DayOfWeek.Friday);
    }

    private static bool Arrays()
    {
        var grid = new int[6, 7];
        for (var i = 0; i < 6; i++)
            for (var j = 0; j < 7; j++)
                grid[i, j] = i ^ j;
        object[] covariant = new string[3];
        covariant[1] = "ok";
        try
        {
            covariant[2] = new object();
            return false;
        }
        catch (ArrayTypeMismatchException)
        {
            return grid.Cast<int>().Max() == 7 && Array.BinarySearch([1, 4, 9], 4) == 1;
        }
    }
}
