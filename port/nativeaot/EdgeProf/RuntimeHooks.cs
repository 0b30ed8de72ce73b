using System.Runtime.InteropServices;
using System.Text;

namespace EdgeProf;

/// <summary>What the hooks in C need from managed code: weak handles for the live heap, made once, because making one may
/// block and C only points them elsewhere (port/nativeaot/live_handles.c); and what a thread is called
/// (port/nativeaot/thread_names.c).</summary>
internal static unsafe class RuntimeHooks
{
    private const int LivePlaces = 1024; // EP_DOTNET_LIVE_PLACES
    private static bool attached;

    /// <summary>Before the profiler starts; only the first call does anything.</summary>
    public static void Attach()
    {
        if (attached)
            return;
        attached = true;
        var handles = stackalloc nint[LivePlaces];
        for (var i = 0; i < LivePlaces; i++)
            handles[i] = GCHandle.ToIntPtr(GCHandle.Alloc(null, GCHandleType.Weak));
        Native.LiveAttach(handles, LivePlaces); // -ENOSYS: this runtime cannot, there is no live heap
        Native.NamesAttach(&NameOf);
    }

    /// <summary>Runs on the new thread, before the runtime's own first code. The pool names its threads later than this.</summary>
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
