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

    private const int CodeStep = 16, CodeMost = 16 * 1024;

    private static string? MethodAt(nint address)
    {
        if (DiagnosticMethodInfo.Create(FrameAt(address, false)) is not { } method)
            return null;
        var type = method.DeclaringTypeName ?? "";
        var iterator = method.Name == "MoveNext" && MethodName.IsMachine(type)
            && (HasOtherMethods(type, address, CodeStep) || HasOtherMethods(type, address, -CodeStep));
        return MethodName.Readable(type, method.Name, iterator);
    }

    /// <summary>An iterator has MoveNext and others, such as get_Current, and an async method's state machine has MoveNext alone.
    /// The compiler puts a type's methods side by side.</summary>
    private static bool HasOtherMethods(string type, nint address, int step)
    {
        for (var at = step; Math.Abs(at) < CodeMost; at += step)
            if (DiagnosticMethodInfo.Create(FrameAt(address + at, false)) is { } other
                && (other.Name != "MoveNext" || other.DeclaringTypeName != type))
                return other.DeclaringTypeName == type && other.Name != "SetStateMachine";
        return false;
    }
#else
    private static string? MethodAt(nint address) => null;
#endif
}
