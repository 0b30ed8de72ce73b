using System.Runtime.InteropServices;

namespace EdgeProf;

/// <summary>What the hooks in C need from managed code: weak handles for the live heap, made once, because making one may
/// block and C only points them elsewhere (port/nativeaot/live_handles.c).</summary>
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
    }
}
