// Handles 2,000 null references, or as many as its second argument says, as programs do every day. Then it ends in the
// way that its first argument says.
using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

if (args.Length is 0 or > 2)
    return 2;
var caught = 0L;
var most = args.Length > 1 ? long.Parse(args[1]) : 2000;
var clock = Stopwatch.StartNew();
for (var i = 0L; i < most; i++)
{
    try
    {
        _ = Read(null!);
    }
    catch (NullReferenceException)
    {
        caught++;
    }
}
Console.WriteLine($"caught {caught}");
if (args.Length > 1)
    Console.WriteLine($"{clock.Elapsed.TotalNanoseconds / most:F1} ns each");
if (args[0] == "unhandled")
    Throw();
if (args[0] == "failfast")
    Fail();
if (args[0] == "async")
    await ThrowLater();
if (args[0] == "thread")
    new Thread(Throw).Start();
if (args[0] == "native")
    await new Func<Task>(async () =>
    {
        await Task.Yield();
        CallNative();
    })();
if (args[0] == "access")
    _ = Marshal.ReadByte(0x123450);
if (args[0] == "overflow")
    Console.WriteLine(Deeper(1));
Thread.Sleep(300);
return 0;

[MethodImpl(MethodImplOptions.NoInlining)]
static int Read(string text) => text.Length;

[MethodImpl(MethodImplOptions.NoInlining)]
static void Throw() => throw new InvalidOperationException("the valve is stuck");

static async Task ThrowLater()
{
    await Task.Delay(10);
    Throw();
}

// In native code, where the runtime does not convert it.
[MethodImpl(MethodImplOptions.NoInlining)]
static void CallNative() => Libc.memset(16, 1, 16);

[MethodImpl(MethodImplOptions.NoInlining)]
static int Deeper(int depth) => depth == 0 ? 0 : Deeper(depth + 1) + depth;

[MethodImpl(MethodImplOptions.NoInlining)]
static void Fail() => Environment.FailFast("no more oil");

internal static partial class Libc
{
    [DllImport("libc")]
    internal static extern nint memset(nint at, int value, nuint size);
}
