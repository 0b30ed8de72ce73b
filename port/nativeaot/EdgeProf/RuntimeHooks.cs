using System.Runtime.InteropServices;
using System.Text;

namespace EdgeProf;

/// <summary>What the C hooks need from managed code. First, weak handles for the live heap, created once because
/// creating one may block; C only sets them to other objects (port/nativeaot/live_handles.c). Second, names of threads
/// (port/nativeaot/thread_names.c).</summary>
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
        Native.NamesAttach(&NameOf);
    }

    /// <summary>Runs on the new thread, before the runtime's first code. The pool names its threads later.</summary>
    [UnmanagedCallersOnly]
    private static int NameOf(nint handle, byte* name, int room)
    {
        var thread = GCHandle.FromIntPtr(handle).Target as Thread;
        var text = thread?.Name ?? (thread is { IsThreadPoolThread: true } ? ".NET ThreadPool" : "");
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
