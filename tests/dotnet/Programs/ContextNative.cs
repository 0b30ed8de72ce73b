using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text;

[assembly: DisableRuntimeMarshalling]

/// <summary>What a handler would find on this thread (struct ep_work in core/edgeprof/port.h).</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct NativeWork
{
    public uint Guard, Run, Tags, PushedBeyond;
    public ulong SpanId, TraceHigh, TraceLow;
}

internal static unsafe class Native
{
    [DllImport("edgeprof", EntryPoint = "ep_port_work")]
    private static extern NativeWork* Work();

    [DllImport("edgeprof", EntryPoint = "ep_work_tags")]
    public static extern uint Tags();

    [DllImport("edgeprof", EntryPoint = "ep_tags_add")]
    private static extern uint Add(uint set, byte* key, uint keySize, byte* value, uint valueSize);

    [DllImport("libc", EntryPoint = "clock_gettime")]
    private static extern int ClockGetTime(int clock, long* seconds);

    /// <summary>CPU time of the calling thread (CLOCK_THREAD_CPUTIME_ID).</summary>
    public static long ThreadCpuNs()
    {
        var time = stackalloc long[2];
        return ClockGetTime(3, time) == 0 ? time[0] * 1_000_000_000 + time[1] : 0;
    }

    public static NativeWork Here => *Work();

    /// <summary>Number of a set, asked for without the package.</summary>
    public static uint Set(uint parent, string key, string value)
    {
        byte[] k = Encoding.UTF8.GetBytes(key), v = Encoding.UTF8.GetBytes(value);
        fixed (byte* kp = k, vp = v)
            return Add(parent, kp, (uint)k.Length, vp, (uint)v.Length);
    }
}
