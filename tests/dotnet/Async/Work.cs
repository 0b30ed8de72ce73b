using System.Runtime.CompilerServices;
using System.Text;

namespace Async;

/// <summary>Work of many kinds, so that signals find all kinds of code: calls with and without frames, allocations, copies,
/// comparers, generic and virtual methods, exceptions.</summary>
internal static class Work
{
    [ThreadStatic]
    private static int turn;

    private static object? sink;

    private sealed class WorkException : Exception;

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Some()
    {
        switch (turn++ % 6)
        {
            case 0:
                var numbers = new int[600];
                for (var i = 0; i < numbers.Length; i++)
                    numbers[i] = i * 7919 % 1000;
                Array.Sort(numbers, static (a, b) => b.CompareTo(a));
                break;
            case 1:
                var seen = new Dictionary<string, int>();
                for (var i = 0; i < 200; i++)
                    seen[(i % 50).ToString()] = i;
                sink = seen;
                break;
            case 2:
                var text = new StringBuilder();
                for (var i = 0; i < 400; i++)
                    text.Append(i).Append(' ');
                sink = text.ToString();
                break;
            case 3:
                sink = Enumerable.Range(0, 1500).Where(static i => i % 3 == 0).Select(static i => new object[] { i }).ToList();
                break;
            case 4:
                var bytes = new byte[20000];
                for (var i = 0; i < 20; i++)
                    sink = bytes.Clone();
                break;
            default:
                try
                {
                    Throw(5);
                }
                catch (WorkException)
                {
                    sink = null;
                }
                break;
        }
    }

    private static int Throw(int deep) => deep == 0 ? throw new WorkException() : Throw(deep - 1) + 1;
}
