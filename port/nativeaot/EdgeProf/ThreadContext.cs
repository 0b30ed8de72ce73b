using System.Runtime.CompilerServices;

namespace EdgeProf;

/// <summary>
/// The calling thread's execution context, in place: null is the empty one. The field is private to .NET and has had this name
/// in every version since .NET Core 2.1. Where it is missing, a place that is always empty stands for it: then no step is
/// kept, and every push and pop goes through the public ways.
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
