// Handles 2,000 null references, as programs do every day, and then ends in the way that its argument says.
using System.Runtime.CompilerServices;

if (args.Length != 1)
    return 2;
var caught = 0;
for (var i = 0; i < 2000; i++)
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
