using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Text;

namespace EdgeProf;

/// <summary>
/// Answers the C side's questions for names of managed methods and types, on a thread of its own that is otherwise
/// blocked. Only programs that send names have it. Method names come from stack trace metadata. Without it
/// (StackTraceSupport=false), or before .NET 9, functions are named program+0x1234.
/// </summary>
internal static unsafe class Names
{
    private const int Longest = 255, Stack = 256 * 1024;
    private static Thread? thread;

    public static void Begin()
    {
        thread = new Thread(Serve, Stack) { IsBackground = true, Name = "edgeprof-names" };
        thread.Start();
    }

    public static void End()
    {
        if (thread is null)
            return;
        Native.NamesEnd();
        thread.Join();
        thread = null;
    }

    private static void Serve()
    {
        var name = stackalloc byte[Longest];
        var size = 0;
        nuint address;
        int type;
        while (Native.NamesNext(name, (nuint)size, &address, &type) == 0)
            size = Put(Find((nint)address, type != 0), new Span<byte>(name, Longest));
    }

    private static string? Find(nint address, bool type)
    {
        try
        {
            return !type ? MethodAt(address)
                : Type.GetTypeFromHandle(RuntimeTypeHandle.FromIntPtr(address))?.ToString() is { Length: > 0 } name ? MethodName.OfType(name)
                : null;
        }
        catch (Exception)
        {
            return null; // the runtime cannot name it
        }
    }

    /// <summary>Copies as much of the name as fits, in whole characters. Returns its size.</summary>
    private static int Put(string? name, Span<byte> bytes)
    {
        if (name is null)
            return 0;
        Encoding.UTF8.GetEncoder().Convert(name, bytes, true, out _, out var used, out _);
        return used;
    }

#if NET9_0_OR_GREATER
    [UnsafeAccessor(UnsafeAccessorKind.Constructor)]
    private static extern StackFrame FrameAt(nint address, bool needFileInfo);

    private static string? MethodAt(nint address) =>
        DiagnosticMethodInfo.Create(FrameAt(address, false)) is { } method
            ? MethodName.Readable(method.DeclaringTypeName ?? "", method.Name)
            : null;
#else
    private static string? MethodAt(nint address) => null;
#endif
}
