using System.Runtime.CompilerServices;

namespace EdgeProf;

/// <summary>
/// A reference to the calling thread's execution context; null: the empty one. The field is private to .NET and has had
/// this name in every version since .NET Core 2.1. If it is missing, a field that is always null replaces it. Then no
/// tag step is cached, and every push and pop uses the public API.
/// </summary>
internal static class ThreadContext
{
    private static readonly bool isThere = Probe();

    [ThreadStatic]
    private static ExecutionContext? nowhere;

    internal static ref ExecutionContext? Here
    {
        get
        {
            if (isThere)
                return ref Field(Thread.CurrentThread);
            nowhere = null;
            return ref nowhere;
        }
    }

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_executionContext")]
    private static extern ref ExecutionContext? Field(Thread thread);

    private static bool Probe()
    {
        try
        {
            _ = Field(Thread.CurrentThread);
            return true;
        }
        catch (MissingFieldException)
        {
            return false;
        }
    }
}
