using System.Runtime.InteropServices;

namespace EdgeProf;

/// <summary>
/// Delivers the last profile before the process ends, without changing how it ends.
/// A regular end raises ProcessExit. SIGTERM and SIGINT end a program that does not handle them without that; so the
/// profiler registers for them too. Registered handlers run newest first and this one was registered before Main, so
/// it sees whether the program (a host with graceful shutdown) has cancelled the signal: then the program goes on,
/// ends regularly, and only what was measured so far is sent. If nobody has cancelled it, the profiler stops, and the
/// runtime does afterwards what it would have done.
/// </summary>
internal static class ProcessEnd
{
    private static readonly List<PosixSignalRegistration> Registrations = [];

    public static void Watch()
    {
        if (Registrations.Count != 0)
            return;
        AppDomain.CurrentDomain.ProcessExit += (_, _) => Profiler.StopAtEnd();
        Registrations.Add(PosixSignalRegistration.Create(PosixSignal.SIGTERM, OnSignal));
        Registrations.Add(PosixSignalRegistration.Create(PosixSignal.SIGINT, OnSignal));
    }

    private static void OnSignal(PosixSignalContext context)
    {
        if (context.Cancel)
            Profiler.Flush();
        else
            Profiler.StopAtEnd();
    }
}
