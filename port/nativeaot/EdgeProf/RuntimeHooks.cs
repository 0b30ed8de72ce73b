using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text;

namespace EdgeProf;

/// <summary>What the C hooks need from managed code. First, weak handles for the live heap, created once because
/// creating one may block; C only sets them to other objects (port/nativeaot/live_handles.c). Second, names of threads
/// (port/nativeaot/thread_names.c). Third, code with known allocations, to check the runtime
/// (port/nativeaot/self_check.c). Fourth, where an exception has its trace (port/nativeaot/exception_hooks.c).</summary>
internal static unsafe class RuntimeHooks
{
    private const int LivePlaces = 1024; // EP_DOTNET_LIVE_PLACES
    private static bool attached;

    /// <summary>Call it before the profiler starts; only the first call has an effect.</summary>
    public static void Attach()
    {
        if (attached)
            return;
        attached = true;
        var handles = stackalloc nint[LivePlaces];
        for (var i = 0; i < LivePlaces; i++)
            handles[i] = GCHandle.ToIntPtr(GCHandle.Alloc(null, GCHandleType.Weak));
        Native.LiveAttach(handles, LivePlaces); // -ENOSYS: not supported by this runtime, no live heap
        Native.NamesAttach(&NameOf, TypeOf(Thread.CurrentThread));
        Native.ProbeAttach(&Allocate);
        AttachExceptions();
    }

    /// <summary>Two fields that .NET keeps for debuggers, by name and meaning.</summary>
    private static void AttachExceptions()
    {
        var exception = new Exception();
        try
        {
            Native.ExceptionsAttach(OffsetOf(exception, ref TraceOf(exception)), OffsetOf(exception, ref CountOf(exception)));
        }
        catch (MissingFieldException)
        {
            // This runtime's await counts again.
        }
    }

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_corDbgStackTrace")]
    private static extern ref nint[]? TraceOf(Exception exception);

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_idxFirstFreeStackTraceEntry")]
    private static extern ref int CountOf(Exception exception);

    /// <summary>From the object's first word.</summary>
    private static uint OffsetOf<T>(object thing, ref T field) =>
        (uint)(Unsafe.ByteOffset(ref Unsafe.As<Content>(thing).First, ref Unsafe.As<T, byte>(ref field)) + sizeof(nint));

    /// <summary>Lengths are EP_DOTNET_PROBE_ARRAY and EP_DOTNET_PROBE_RAW.</summary>
    [UnmanagedCallersOnly]
    private static void Allocate()
    {
        GC.KeepAlive(new byte[20011]);
        GC.KeepAlive(GC.AllocateUninitializedArray<byte>(20023));
    }

    private sealed class Content
    {
        public byte First;
    }

    /// <summary>The first word of an object, its MethodTable.</summary>
    private static nint TypeOf(object thing) =>
        Unsafe.As<byte, nint>(ref Unsafe.Subtract(ref Unsafe.As<Content>(thing).First, sizeof(nint)));

    /// <summary>Runs on the new thread, before the runtime's first code. The pool gives its threads this name later.</summary>
    [UnmanagedCallersOnly]
    private static int NameOf(nint handle, byte* name, int room)
    {
        var thread = GCHandle.FromIntPtr(handle).Target as Thread;
        var text = thread?.Name ?? (thread is { IsThreadPoolThread: true } ? ".NET TP Worker" : "");
        var used = 0;
        foreach (var rune in text.EnumerateRunes())
        {
            if (!rune.TryEncodeToUtf8(new Span<byte>(name + used, room - used), out var size))
                break;
            used += size;
        }
        return used;
    }
}
