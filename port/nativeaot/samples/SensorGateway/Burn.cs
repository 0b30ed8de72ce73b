using System.Runtime.CompilerServices;
using System.Text;

namespace SensorGateway;

/// <summary>
/// Three functions of different nature that do nothing but use CPU: integer hashing, floating point, strings with
/// allocation. They share no helper, so that a profile's inclusive share of each is its own.
/// </summary>
internal static class Burn
{
    private static readonly byte[] Bytes = CreateBytes();

    /// <summary>Integer work: a hash over a buffer, each round fed with the last one's result.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static ulong Heavy(int rounds)
    {
        var hash = 14695981039346656037UL;
        for (var round = 0; round < rounds; round++)
            hash = HashRound(Bytes, hash);
        return hash;
    }

    /// <summary>Floating point work: products of small matrices.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static double Medium(int rounds)
    {
        const int n = 24;
        Span<double> a = stackalloc double[n * n], b = stackalloc double[n * n], c = stackalloc double[n * n];
        for (var i = 0; i < n * n; i++)
            (a[i], b[i]) = (1.0 / (i + 1), i % 7 - 3);
        for (var round = 0; round < rounds; round++)
        {
            Multiply(a, b, c, n);
            a[round % (n * n)] = c[0] * 1e-9;
        }
        return c[n];
    }

    /// <summary>String work: building, splitting, sorting with a lambda; allocates.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static int Light(int rounds)
    {
        var length = 0;
        for (var round = 0; round < rounds; round++)
        {
            var text = new StringBuilder();
            for (var i = 0; i < 24; i++)
                text.Append(i * 7919 % 97).Append(i % 3 == 0 ? "-probe;" : "-meter;");
            var parts = text.ToString().Split(';');
            Array.Sort(parts, (x, y) => string.CompareOrdinal(x, y));
            length += string.Join('+', parts).Length;
        }
        return length;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ulong HashRound(byte[] bytes, ulong hash)
    {
        foreach (var value in bytes)
            hash = (hash ^ value) * 1099511628211UL;
        return hash;
    }

    private static void Multiply(Span<double> a, Span<double> b, Span<double> c, int n)
    {
        for (var row = 0; row < n; row++)
            for (var column = 0; column < n; column++)
            {
                var sum = 0.0;
                for (var k = 0; k < n; k++)
                    sum += a[row * n + k] * b[k * n + column];
                c[row * n + column] = sum;
            }
    }

    private static byte[] CreateBytes()
    {
        var bytes = new byte[4096];
        new Random(17).NextBytes(bytes);
        return bytes;
    }
}
