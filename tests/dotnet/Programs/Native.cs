// Native memory of a .NET program: each site counts what it has in use, beside managed objects and beside churn.
// Prints "live SITE BYTES" for each. usage: Native LIBRARY, that of taker.c
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using EdgeProf;

internal static class NativeProgram
{
    public static int Run(string[] args)
    {
        var library = NativeLibrary.Load(args[0]);
        NativeLibrary.SetDllImportResolver(typeof(Sites).Assembly, (name, _, _) => name == "taker" ? library : IntPtr.Zero);
        const int Rounds = 60000;
        var kept = new List<byte[]>();
        for (var i = 0; i < Rounds; i++)
        {
            Sites.TakeNative(i);
            Sites.TakeGlobal(i);
            Sites.TakeLibrary(i);
            Sites.Churn(i);
            if (i % 10 == 0)
                kept.Add(Sites.MakeManaged(i));
        }
        GC.Collect();
        GC.Collect();
        foreach (var (site, bytes) in Sites.InUse)
            Console.WriteLine($"live {site} {bytes}");
        Profiler.Stop(TimeSpan.FromSeconds(5));
        GC.KeepAlive(kept);
        return 0;
    }
}

internal static unsafe partial class Sites
{
    public static readonly Dictionary<string, long> InUse = new();

    [DllImport("taker")]
    private static extern void* taker_take(nuint size);

    [DllImport("taker")]
    private static extern void taker_give(void* block);

    private static void Count(string site, long bytes) => InUse[site] = InUse.GetValueOrDefault(site) + bytes;

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void TakeNative(int i)
    {
        var size = 100 + i % 700;
        var block = NativeMemory.Alloc((nuint)size);
        Count(nameof(TakeNative), size);
        if (i % 2 != 0)
            return;
        NativeMemory.Free(block);
        Count(nameof(TakeNative), -size);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void TakeGlobal(int i)
    {
        var size = 50 + i % 900;
        Marshal.AllocHGlobal(size);
        Count(nameof(TakeGlobal), size);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void TakeLibrary(int i)
    {
        var size = 200 + i % 1000;
        var block = taker_take((nuint)size);
        Count(nameof(TakeLibrary), size);
        if (i % 3 != 0)
            return;
        taker_give(block);
        Count(nameof(TakeLibrary), -size);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Churn(int i) => NativeMemory.Free(NativeMemory.Alloc((nuint)(300 + i % 3000)));

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static byte[] MakeManaged(int i)
    {
        var bytes = new byte[1000 + i % 2000];
        Count(nameof(MakeManaged), bytes.Length + 24);
        return bytes;
    }
}
