// Pieces of work whose call stacks are checked at every instruction. Each exported method is one piece; program.c calls
// them between its two markers. Results are checked there: a piece that did not do what it says proves nothing.

using System.Runtime;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

internal static unsafe class Native
{
    [DllImport("native")]
    internal static extern void qsort(int* values, nuint count, nuint size, delegate* unmanaged<int*, int*, int> compare);

    [DllImport("native")]
    internal static extern void* memcpy(void* to, void* from, nuint size);

    [DllImport("native")]
    internal static extern void* memset(void* to, int value, nuint size);

    [DllImport("native")]
    internal static extern int native_format(byte* text, nuint size, int value);

    [DllImport("native")]
    internal static extern int native_leaf(int a, int b);

    [DllImport("native"), SuppressGCTransition]
    internal static extern int native_quick(int a, int b);

    [DllImport("native")]
    internal static extern int native_call_back(delegate* unmanaged<int, int> function, int argument);

    [DllImport("native")]
    internal static extern int native_eight(int a, long b, double c, int d, int e, int f, long g, int h);
}

internal static class Chain
{
    // 30 methods that call each other, none with anything to save but what the architecture demands.
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F0(int n) => n * 3 + 1;
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F1(int n) => F0(n + 1) + 1;
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F2(int n) => F1(n ^ 2) - n;
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F3(int n) => F2(n) + F0(n);
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F4(int n) { var a = F3(n); return a + F0(a); }
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F5(int n) => F4(n + 5) * 2;
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F6(int n) => F5(n) + 6;
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F7(int n) => F6(n - 7) ^ 7;
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F8(int n) => n > 1000000 ? n : F7(n) + n;
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F9(int n) { var a = F8(n); for (var i = 0; i < 3; i++) a += i * n; return a; }
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F10(int n) => F9(n) + 10;
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F11(int n) => F10(n) * 11 + n;
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F12(int n) => F11(n) >> 1;
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F13(int n) => F12(n) + F0(13);
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F14(int n) => F13(n) | 14;
    [MethodImpl(MethodImplOptions.NoInlining)] private static long F15(int n) => F14(n) + 15L;
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F16(int n) => (int)(F15(n) & 0xffff);
    [MethodImpl(MethodImplOptions.NoInlining)] private static double F17(int n) => F16(n) * 1.7;
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F18(int n) => (int)F17(n);
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F19(int n) => F18(n) + 19;
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F20(int a, int b, int c, int d, int e, int f) => F19(a + b) + c * d - e * f;
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F21(int n) => F20(n, n + 1, n + 2, n + 3, n + 4, n + 5);
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F22(ref int n) { n++; return F21(n) + n; }
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F23(int n) { var a = n; return F22(ref a) + a; }
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F24(int n) => F23(n) - 24;
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F25(int n) => n == 0 ? 0 : F24(n) + 25;
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F26(int n) { switch (n & 3) { case 0: return F25(n); case 1: return F24(n) + 1; case 2: return F25(n + 1); default: return F24(n) + 3; } }
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F27(int n) => F26(n) + F26(n + 1);
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F28(int n) => F27(n);
    [MethodImpl(MethodImplOptions.NoInlining)] private static int F29(int n) { var a = 0; for (var i = 0; i < n; i++) a += F28(i); return a; }

    internal static int Leaf(int n) => F1(n);

    [UnmanagedCallersOnly(EntryPoint = "managed_chain")]
    private static int Run(int n) => F29(n);
}

internal static unsafe class Sorting
{
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static bool Less(int a, int b) => a < b;

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Swap(int* a, int* b)
    {
        var keep = *a;
        *a = *b;
        *b = keep;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Quick(int* values, int from, int to)
    {
        if (from >= to)
            return;
        var pivot = values[(from + to) / 2];
        int i = from, j = to;
        while (i <= j)
        {
            while (Less(values[i], pivot))
                i++;
            while (Less(pivot, values[j]))
                j--;
            if (i <= j)
                Swap(&values[i++], &values[j--]);
        }
        Quick(values, from, j);
        Quick(values, i, to);
    }

    private static void Fill(int* values, int count)
    {
        for (var i = 0; i < count; i++)
            values[i] = i * 7919 % 101;
    }

    private static int Sorted(int* values, int count)
    {
        for (var i = 1; i < count; i++)
            if (values[i - 1] > values[i])
                return 0;
        return 1;
    }

    [UnmanagedCallersOnly(EntryPoint = "managed_sort")]
    private static int Run(int count)
    {
        var values = stackalloc int[count];
        Fill(values, count);
        Quick(values, 0, count - 1);
        return Sorted(values, count);
    }

    [UnmanagedCallersOnly]
    private static int Compare(int* a, int* b) => Less(*a, *b) ? -1 : Less(*b, *a) ? 1 : 0;

    [UnmanagedCallersOnly(EntryPoint = "managed_qsort")]
    private static int RunNative(int count)
    {
        var values = stackalloc int[count];
        Fill(values, count);
        Native.qsort(values, (nuint)count, sizeof(int), &Compare);
        return Sorted(values, count);
    }
}

internal static unsafe class Crossing
{
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Twice(int n) => Native.native_leaf(n, n) + Native.native_quick(n, 1);

    [UnmanagedCallersOnly]
    private static int Back(int n) => n == 0 ? Twice(n) : Native.native_call_back(&Back, n - 1) + Twice(n);

    [UnmanagedCallersOnly(EntryPoint = "managed_callbacks")]
    private static int Run(int n) => Native.native_call_back(&Back, n);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Format(int n)
    {
        var text = stackalloc byte[100];
        return Native.native_format(text, 100, n) + text[0];
    }

    [MethodImpl(MethodImplOptions.NoInlining), SkipLocalsInit]
    private static int Copy(int size)
    {
        var from = stackalloc byte[size];
        var to = stackalloc byte[size];
        Native.memset(from, size, (nuint)size);
        Native.memcpy(to, from, (nuint)size);
        return to[size - 1];
    }

    [UnmanagedCallersOnly(EntryPoint = "managed_library")]
    private static int RunLibrary(int n)
    {
        var sum = Format(n) + Format(-n);
        for (var size = 1; size < 100; size = size * 3 + 1)
            sum += Copy(size);
        return sum + Native.native_eight(1, 2, 3.5, 4, 5, 6, 7, 8);
    }
}

internal static unsafe class Cleaning
{
    private static int s_order;

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Note(int what) => s_order = s_order * 10 + what;

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Inner(int n)
    {
        try
        {
            Note(1);
            if (n == 3)
                return n;
            Note(2);
        }
        finally
        {
            Note(3);
            for (var i = 0; i < n; i++)
                Note(4);
        }
        return n + 1;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Nested(int n)
    {
        var sum = 0;
        var block = stackalloc int[8];
        for (var i = 0; i < n; i++)
            try
            {
                try
                {
                    sum += Inner(i);
                    block[i & 7] = sum;
                    if (i == 2)
                        continue;
                }
                finally
                {
                    sum += Inner(1) + block[i & 7];
                }
                Note(5);
            }
            finally
            {
                Note(6);
                sum++;
            }
        return sum;
    }

    [UnmanagedCallersOnly(EntryPoint = "managed_finally")]
    private static int Run(int n)
    {
        var sum = 0;
        try
        {
            sum = Nested(n);
        }
        finally
        {
            Note(7);
        }
        return sum;
    }
}

internal interface ISized
{
    int Size();
}

internal struct Small : ISized
{
    public int Value;
    public int Size() => Value;
}

internal struct Large : ISized
{
    public long A, B, C, D, E, F;

    [MethodImpl(MethodImplOptions.NoInlining)]
    public int Size() => (int)(A + F);

    [MethodImpl(MethodImplOptions.NoInlining)]
    public Large Turn(Large by) => new() { A = B + by.F, B = C, C = D, D = E, E = F, F = A };
}

internal static class Generic<T> where T : struct, ISized
{
    [MethodImpl(MethodImplOptions.NoInlining)]
    internal static int Sum(T a, T b) => Pick(a, b, true).Size() + Pick(a, b, false).Size();

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static T Pick(T a, T b, bool first) => first ? a : b;
}

internal static class Structures
{
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static TValue Apply<TValue, TOther>(TValue value, TOther other, int n) where TValue : struct, ISized where TOther : struct, ISized =>
        n == 0 ? value : Apply(value, other, n - value.Size() / value.Size());

    [UnmanagedCallersOnly(EntryPoint = "managed_generics")]
    private static int Run(int n)
    {
        var small = new Small { Value = n };
        var large = new Large { A = 1, F = n };
        for (var i = 0; i < n; i++)
            large = large.Turn(large);
        return Generic<Small>.Sum(small, small) + Generic<Large>.Sum(large, new Large { A = 2 }) +
               Apply(small, large, 4).Size() + Apply(large, small, 3).Size();
    }
}

internal abstract class Shape
{
    public abstract int Area();
    public virtual int Twice() => 2 * Area();
}

internal sealed class Square(int side) : Shape
{
    public override int Area() => side * side;
}

internal sealed class Box(int a, int b) : Shape
{
    public override int Area() => Times(a, b);
    public override int Twice() => base.Twice() + 0 * Area();

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Times(int a, int b) => a * b;
}

internal sealed class Node(Node next, Shape shape)
{
    public readonly Node Next = next;
    public readonly Shape Shape = shape;
}

internal static class Objects
{
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static Node Build(int n)
    {
        Node list = null;
        for (var i = 0; i < n; i++)
            list = new Node(list, (i & 1) == 0 ? new Square(i) : new Box(i, 2));
        return list;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Sum(Node node) => node == null ? 0 : node.Shape.Twice() + Sum(node.Next);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Table(int n)
    {
        var numbers = new int[n];
        for (var i = 0; i < numbers.Length; i++)
            numbers[i] = i;
        var sum = 0;
        for (var i = 0; i < numbers.Length; i++)
            sum += numbers[i];
        return sum;
    }

    [UnmanagedCallersOnly(EntryPoint = "managed_objects")]
    private static int Run(int n) => Sum(Build(n)) + Table(n);
}

internal static unsafe class Deep
{
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Down(int n) => n == 0 ? 1 : Down(n - 1) + 1;

    [UnmanagedCallersOnly(EntryPoint = "managed_recursion")]
    private static int Run(int n) => Down(n);

    private struct Kilobytes
    {
        public fixed byte Bytes[5000];
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Touch(byte* bytes, int at) => bytes[at] += (byte)at;

    [MethodImpl(MethodImplOptions.NoInlining), SkipLocalsInit]
    private static int LargeFrame(int n)
    {
        Kilobytes block;
        block.Bytes[n] = 1;
        block.Bytes[4999 - n] = 2;
        return Touch(block.Bytes, n) + Touch(block.Bytes, 4999 - n) + (n > 0 ? LargeFrame(n - 1) : 0);
    }

    private struct Many
    {
        public fixed byte Bytes[70000];
    }

    [MethodImpl(MethodImplOptions.NoInlining), SkipLocalsInit]
    private static int VeryLargeFrame(int n)
    {
        Many block;
        block.Bytes[n] = 1;
        block.Bytes[69999 - n] = 2;
        return Touch(block.Bytes, n) + Touch(block.Bytes, 69999 - n);
    }

    [MethodImpl(MethodImplOptions.NoInlining), SkipLocalsInit]
    private static int Moving(int n)
    {
        var sum = 0;
        for (var i = 1; i < n; i++)
        {
            var block = stackalloc byte[i * 24];
            block[i] = (byte)i;
            sum += Touch(block, i);
        }
        return sum;
    }

    [UnmanagedCallersOnly(EntryPoint = "managed_frames")]
    private static int RunFrames(int n) => LargeFrame(n) + VeryLargeFrame(n) + Moving(n + 2);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static long Even(long n, long sum) => n == 0 ? sum : Odd(n - 1, sum + n);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static long Odd(long n, long sum) => n == 0 ? sum : Even(n - 1, sum * 2);

    [UnmanagedCallersOnly(EntryPoint = "managed_tail_calls")]
    private static int RunTail(int n) => (int)Even(n, 1);
}

internal static unsafe class Pointers
{
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Add(int a, int b) => a + b;

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Subtract(int a, int b) => Add(a, -b) + 0;

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Fold(delegate*<int, int, int> step, int n)
    {
        var sum = 0;
        for (var i = 0; i < n; i++)
            sum = step(sum, i);
        return sum;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static double Series(double x, int n)
    {
        double term = 1, sum = 0, sign = 1, a = x, b = x * x, c = b * x, d = c * x, e = d * x, f = e * x;
        for (var i = 1; i < n; i++)
        {
            term *= x / i;
            sum += sign * term * Scale(i, a + b + c);
            sign = -sign;
            a += d;
            b += e;
            c += f;
        }
        return sum;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static double Scale(int i, double x) => i + x;

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Busy(int a, int b, int c, int d)
    {
        int e = a + b, f = c + d, g = a * c, h = b * d, i = a - d, j = b - c;
        for (var n = 0; n < 4; n++)
        {
            a = Add(a, e);
            b = Add(b, f);
            c = Add(c, g) + h;
            d = Add(d, i) + j;
        }
        return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ i ^ j;
    }

    [UnmanagedCallersOnly(EntryPoint = "managed_pointers")]
    private static int Run(int n) => Fold(&Add, n) + Fold(&Subtract, n) + (int)Series(0.5, n) + Busy(1, 2, 3, n);
}

/// <summary>Stores to nowhere: after each the runtime's assembly calls Dispatch as if the store had called it, and then goes on behind
/// it (native.c, ask-*.S).</summary>
internal static unsafe class Faults
{
    private static int s_dispatched, s_nested;

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Handle(int n) => n == 0 ? Native.native_leaf(1, 1) : Handle(n - 1) + 1;

    [RuntimeExport("RhThrowHwEx")]
    private static void Dispatch(uint code, void* info)
    {
        s_dispatched += Handle((int)code) + (info != null ? 1 : 0);
        if (s_nested > 0)
        {
            s_nested--;
            Store(null, 1);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Store(int* at, int value) => *at = value;

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int StoreBetween(int* at, int n)
    {
        var kept = Native.native_leaf(n, 2);
        *at = n;
        return Chain.Leaf(n) + kept;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int StoreBelowBlock(int* at, int n)
    {
        var block = stackalloc byte[8 * n];
        Native.memset(block, n, (nuint)(8 * n));
        *at = n;
        return block[8 * n - 1] + Chain.Leaf(n);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int StoreInFinally(int* at, int n)
    {
        var sum = 0;
        try
        {
            sum += Chain.Leaf(n);
        }
        finally
        {
            *at = n;
            sum += Chain.Leaf(1);
        }
        return sum;
    }

    [UnmanagedCallersOnly(EntryPoint = "managed_faults")]
    private static int Run(int n)
    {
        var sum = 0;
        s_dispatched = s_nested = 0;
        Store(null, n);
        for (var i = 1; i < n; i++)
        {
            s_nested = i & 1;
            sum += StoreBetween(null, i) + StoreBelowBlock(null, i) + StoreInFinally(null, i);
        }
        return sum * 1000 + s_dispatched;
    }
}
