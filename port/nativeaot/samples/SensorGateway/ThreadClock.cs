using System.Runtime.InteropServices;

namespace SensorGateway;

/// <summary>CPU time of the calling thread, from the kernel.</summary>
internal static unsafe partial class ThreadClock
{
    private const int ThreadCpuTime = 3; // CLOCK_THREAD_CPUTIME_ID

    [StructLayout(LayoutKind.Sequential)]
    private struct TimeSpec
    {
        public nint Seconds;
        public nint Nanoseconds;
    }

    [LibraryImport("libc", EntryPoint = "clock_gettime")]
    private static partial int ClockGetTime(int clock, TimeSpec* time);

    public static long Nanoseconds()
    {
        TimeSpec time;
        if (ClockGetTime(ThreadCpuTime, &time) != 0)
            throw new InvalidOperationException("the kernel has no thread CPU clock");
        return time.Seconds * 1_000_000_000L + time.Nanoseconds;
    }
}
