using System.Runtime.InteropServices;

namespace EdgeProf;

/// <summary>
/// Delivers the last profile before the process ends, without changing how it ends. A regular end raises ProcessExit.
/// A signal such as SIGTERM that nobody cancels ends a program without that event. In which order .NET calls the
/// handlers of a signal, and whether it calls all of them, depends on its version, so a handler cannot know what the
/// others decide. The profiler therefore acts where the runtime ends the process (port/nativeaot/signal_end.c). A host
/// with graceful shutdown cancels the signal; then its shutdown is profiled, and ProcessExit comes last.
/// </summary>
internal static unsafe class ProcessEnd
{
    private static readonly List<PosixSignalRegistration> Registrations = [];

    private static bool watches;

    public static void Watch()
    {
        if (watches)
            return;
        watches = true;
        AppDomain.CurrentDomain.ProcessExit += (_, _) => Profiler.StopAtEnd();
        if (!Features.Signals)
        {
            WatchAlone();
            return;
        }
        // Without a registration the runtime ends the process inside its C library, where no call can be seen.
        Action<PosixSignalContext> handler = Native.SignalEndAttach(&OnEnd) == 0 ? static _ => { } : OnSignal;
        Registrations.Add(PosixSignalRegistration.Create(PosixSignal.SIGTERM, handler));
        Registrations.Add(PosixSignalRegistration.Create(PosixSignal.SIGINT, handler));
    }

    /// <summary>In a program that handles no signal by itself, as PosixSignalRegistration does it, but without a thread pool for
    /// handlers. If it handles one after all, its handler replaces this one, and the end is seen as in other programs.</summary>
    private static void WatchAlone()
    {
        _ = Native.SignalEndAttach(&OnEnd);
        if (Native.InitializeSignalHandling() == 0)
            return; // the last profile is lost by a signal
        Native.SetSignalHandler(&OnSignalAlone);
        foreach (var signal in (ReadOnlySpan<int>)[Native.SigInt, Native.SigTerm])
            _ = Native.EnableSignalHandling(signal);
    }

    /// <summary>0: the signal does to the program what it does by default.</summary>
    [UnmanagedCallersOnly]
    private static int OnSignalAlone(int number, int signal)
    {
        Profiler.StopAtEnd();
        return 0;
    }

    [UnmanagedCallersOnly]
    private static void OnEnd() => Profiler.StopAtEnd();

    /// <summary>For a runtime that does not have that place.</summary>
    private static void OnSignal(PosixSignalContext context)
    {
        if (context.Cancel)
            Profiler.Flush();
        else
            Profiler.StopAtEnd();
    }
}
