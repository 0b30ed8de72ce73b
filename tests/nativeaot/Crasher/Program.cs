// Handles 2,000 null references, or as many as its second argument says, as programs do every day. Then it ends in the
// way that its first argument says.
using System.Diagnostics;
using System.Runtime.CompilerServices;

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
Thread.Sleep(300);
return 0;

[MethodImpl(MethodImplOptions.NoInlining)]
static int Read(string text) => text.Length;

[MethodImpl(MethodImplOptions.NoInlining)]
static void Throw() => throw new InvalidOperationException("the valve is stuck");

[MethodImpl(MethodImplOptions.NoInlining)]
static void Fail() => Environment.FailFast("no more oil");
